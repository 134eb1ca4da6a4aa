"""Every rule a second way: real operators on the CPU, against PyTorch's flop formulas and the sizes of their storages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.timeline import Call
from ridgeline.core.work import Work
from ridgeline.programs.aten import Settings, count, coverage
from ridgeline.programs.aten.counted import UNKNOWN, WORK
from ridgeline.programs.torch_dispatch import record
from strategies import law

torch: Any = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.needs_torch
LEAF = Settings(leaf=True, device="cpu")
SIDE = st.integers(1, 7)


def counted(call: Call) -> Work:
    result = count(call, LEAF)
    assert result.kind == WORK, f"{call.name}: {result.reason}"
    assert result.work is not None
    return result.work


def matrix_flops(work: Work) -> float:
    return sum(float(value) for (engine, _, _), value in work.counts.items() if engine == "matrix")


def by_formula(function: Callable[[], Any]) -> float:
    """What torch.utils.flop_counter says: products, convolutions and attention."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        function()
    return float(mode.get_total_flops())


def by_rules(function: Callable[[], Any]) -> float:
    return sum(matrix_flops(counted(call)) for call in record(function).calls if count(call, LEAF).kind == WORK)


# -- flops -----------------------------------------------------------------------------------------------------------


@given(SIDE, SIDE, SIDE, SIDE)
def test_products_have_torchs_flops(b: int, m: int, n: int, k: int) -> None:
    a, c, batch = torch.ones(m, k), torch.ones(k, n), torch.ones(b, m, k)
    for function in (
        lambda: torch.mm(a, c),
        lambda: torch.addmm(torch.ones(n), a, c),
        lambda: torch.bmm(batch, torch.ones(b, k, n)),
        lambda: torch.baddbmm(torch.ones(b, m, n), batch, torch.ones(b, k, n)),
        lambda: F.linear(batch, torch.ones(n, k), torch.ones(n)),
        lambda: torch.einsum("bij,jk->bik", batch, c),
        lambda: (torch.ones(m, k, requires_grad=True) @ c).sum().backward(),
    ):
        assert by_rules(function) == by_formula(function)


@law(60)
@given(st.data())
def test_convolutions_have_torchs_flops(data: st.DataObject) -> None:
    sides = data.draw(st.integers(1, 3))
    groups, batch, kernel = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    c_in, c_out = groups * data.draw(st.integers(1, 3)), groups * data.draw(st.integers(1, 3))
    stride, padding, dilation = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 2)), data.draw(st.integers(1, 2))
    image = [data.draw(st.integers(5, 8)) for _ in range(sides)]
    transposed, bias = data.draw(st.booleans()), data.draw(st.booleans())
    kind = getattr(torch.nn, f"Conv{'Transpose' if transposed else ''}{sides}d")
    layer = kind(
        c_in,
        c_out,
        kernel,
        stride=stride,
        padding=min(padding, kernel // 2),
        dilation=dilation,
        groups=groups,
        bias=bias,
    )
    x = torch.ones(batch, c_in, *image, requires_grad=data.draw(st.booleans()))
    forward = by_rules(lambda: layer(x))
    assert forward == by_formula(lambda: layer(x))
    # torch's formula multiplies all channels with all for the gradient of grouped weights, of which a group needs its own
    beyond = (groups - 1) * forward
    assert by_rules(lambda: layer(x).sum().backward()) + beyond == by_formula(lambda: layer(x).sum().backward())


@given(st.integers(1, 3), st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), st.sampled_from([2, 8, 16]))
def test_attention_has_torchs_flops(batch: int, heads: int, queries: int, keys: int, head: int) -> None:
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count

    q, k = (torch.ones(batch, heads, size, head, requires_grad=True) for size in (queries, keys))
    calls = record(lambda: F.scaled_dot_product_attention(q, k, k).sum().backward()).calls
    shapes = (q.shape, k.shape, k.shape)
    flash = [call for call in calls if "flash_attention" in call.name]
    assert [matrix_flops(counted(call)) for call in flash] == [
        sdpa_flop_count(*shapes), sdpa_backward_flop_count(q.shape, *shapes),
    ]  # fmt: skip


def test_a_causal_mask_leaves_the_pairs_below_the_diagonal() -> None:
    q = torch.ones(2, 3, 9, 8)
    (call,) = [
        call
        for call in record(lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True)).calls
        if "flash" in call.name
    ]
    pairs = sum(1 for i in range(9) for j in range(9) if j <= i)
    assert matrix_flops(counted(call)) == 2 * 3 * pairs * 4 * 8


# -- bytes -----------------------------------------------------------------------------------------------------------


def storages(function: Callable[[], Any]) -> list[tuple[Call, float]]:
    """Every call with the bytes of its tensors: each storage that it reads once, each result once."""
    from torch.utils._python_dispatch import TorchDispatchMode

    sizes: list[float] = []

    class Sizes(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            read = {
                (item.data_ptr(), tuple(item.shape)): item.numel() * item.element_size()
                for item in flat((args, kwargs))
            }
            result = func(*args, **(kwargs or {}))
            sizes.append(sum(read.values()) + sum(item.numel() * item.element_size() for item in flat(result)))
            return result

    def flat(values: Any) -> list[Any]:
        if isinstance(values, torch.Tensor):
            return [values]
        items = values.values() if isinstance(values, dict) else values if isinstance(values, tuple | list) else ()
        return [tensor for item in items for tensor in flat(item)]

    def run() -> None:
        with Sizes():
            function()

    calls = record(run).calls
    assert len(calls) == len(sizes)
    return list(zip(calls, sizes, strict=True))


X, Y = ("x", "y")
# Operators that read every storage once and write every result once, on x[a, b, c] and y of the same shape.
ONCE: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: torch.add(x, y), "add number": lambda x, y: x + 3, "mul": lambda x, y: x * y, "broadcast": lambda x, y: x * y[0],
    "add_": lambda x, y: x.add_(y), "mul_": lambda x, y: x.mul_(2.0), "addcmul": lambda x, y: torch.addcmul(x, y, y[:1]),
    "where": lambda x, y: torch.where(x > 0, x, y), "compare": lambda x, y: x < y, "pow": lambda x, y: x.pow(2), "exp": lambda x, y: x.exp(),
    "mixed": lambda x, y: x + y.double(), "clamp": lambda x, y: x.clamp(0, 1), "lerp": lambda x, y: torch.lerp(x, y, 0.5),
    "isnan": lambda x, y: torch.isnan(x), "gelu": lambda x, y: F.gelu(x), "silu": lambda x, y: F.silu(x), "sqrt": lambda x, y: x.sqrt(),
    "integers": lambda x, y: x.long() + y.long(), "divide": lambda x, y: x.long() / y.long(), "sigmoid": lambda x, y: torch.sigmoid(x),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 0.0), "clone": lambda x, y: x.clone(), "cast": lambda x, y: x.half(),
    "contiguous": lambda x, y: x.transpose(0, 2).contiguous(), "copy_": lambda x, y: torch.empty_like(x).copy_(y),
    "cat": lambda x, y: torch.cat((x, y), 1), "stack": lambda x, y: torch.stack((x, y)), "roll": lambda x, y: torch.roll(x, 1, 0),
    "flip": lambda x, y: torch.flip(x, (0,)), "tril": lambda x, y: torch.tril(x), "pad": lambda x, y: F.pad(x, (1, 2)),
    "sum": lambda x, y: x.sum(), "sum rows": lambda x, y: x.sum(-1), "sum columns": lambda x, y: x.sum((0, 1)), "mean": lambda x, y: x.mean(1),
    "amax": lambda x, y: x.amax(-1), "max": lambda x, y: x.max(1), "argmax": lambda x, y: x.argmax(-1), "any": lambda x, y: (x > 0).any(),
    "norm": lambda x, y: torch.linalg.vector_norm(x, dim=-1), "var": lambda x, y: x.var(-1), "std_mean": lambda x, y: torch.std_mean(x, -1),
    "prod": lambda x, y: x.prod(), "softmax": lambda x, y: x.softmax(-1), "log_softmax": lambda x, y: x.log_softmax(1), "sort": lambda x, y: x.sort(-1),
    "topk": lambda x, y: x.topk(1, -1), "cumsum": lambda x, y: x.cumsum(1), "layer_norm": lambda x, y: F.layer_norm(x, x.shape[-1:]),
    "layer_norm weights": lambda x, y: F.layer_norm(x, x.shape[-1:], y[0, 0], y[0, 0] + 1), "zeros": lambda x, y: torch.zeros(3, 4),
    "fill_": lambda x, y: torch.empty(5).fill_(2.0), "repeat": lambda x, y: x.repeat(2, 1, 1), "index": lambda x, y: x[torch.arange(x.shape[0])],
    "gather": lambda x, y: x.gather(-1, torch.zeros(x.shape, dtype=torch.int64)), "native_dropout": lambda x, y: torch.native_dropout(x, 0.5, True),
    "max_pool": lambda x, y: F.max_pool2d_with_indices(x[:, None], (1, 1)), "avg_pool": lambda x, y: F.avg_pool2d(x[:, None], 1),
    "nearest": lambda x, y: F.interpolate(x[:, None], scale_factor=2.0), "adaptive": lambda x, y: torch.ops.aten._adaptive_avg_pool2d(x[:, None], (1, 1)),
    "mse": lambda x, y: F.mse_loss(x, y), "smooth": lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), "glu": lambda x, y: F.glu(torch.cat((x, y)), 0),
    "huber": lambda x, y: F.huber_loss(x, y), "foreach": lambda x, y: torch._foreach_mul([x, y], 2.0), "foreach add": lambda x, y: torch._foreach_add([x], [y]),
    "complex": lambda x, y: torch.complex(x, y) * torch.complex(y, x), "logical": lambda x, y: (x > 0) & (y > 0), "bitwise": lambda x, y: x.int() | y.int(),
    "embedding": lambda x, y: F.embedding(torch.arange(x.shape[0]), x[:, 0].clone()), "one value": lambda x, y: torch.full((4,), 2.0),
    "unfold": lambda x, y: F.unfold(x[:, None], 1), "group backward": lambda x, y: torch.ops.aten.gelu_backward(x, y),
    "silu_backward": lambda x, y: torch.ops.aten.silu_backward(x, y), "threshold_backward": lambda x, y: torch.ops.aten.threshold_backward(x, y, 0),
    "softmax_backward": lambda x, y: torch.ops.aten._softmax_backward_data(x, y, -1, torch.float32), "logsumexp": lambda x, y: x.logsumexp(-1),
}  # fmt: skip


@pytest.mark.parametrize("name", ONCE)
@law(8)
@given(st.tuples(st.integers(2, 6), st.integers(2, 6), st.integers(2, 6)))
def test_every_storage_is_read_once_and_every_result_written_once(name: str, shape: tuple[int, int, int]) -> None:
    x, y = torch.rand(shape) + 0.5, torch.rand(shape) + 0.5
    compared = 0
    for call, size in storages(lambda: ONCE[name](x, y)):
        result = count(call, LEAF)
        assert result.kind != UNKNOWN, f"{call.name}: {result.reason}"
        if result.work is not None:
            in_place = {"aten::fill_": 0.5, "aten::zero_": 0.5, "aten::copy_": 2 / 3}.get(
                call.name, 1.0
            )  # the old values are not read
            assert result.work.bytes == pytest.approx(size * in_place), call
            compared += 1
    assert compared


@given(st.integers(2, 5), st.integers(2, 9), st.integers(2, 9))
def test_batch_norms_read_their_data_once_and_group_norms_twice(batch: int, channels: int, side: int) -> None:
    x = torch.rand(batch, 2 * channels, side, side)
    size = 4 * x.numel()
    for layer, passes in ((torch.nn.BatchNorm2d(2 * channels), 2), (torch.nn.GroupNorm(2, 2 * channels), 3)):
        (call,) = [call for call in record(layer, (x,)).calls if "norm" in call.name]
        assert counted(call).bytes == pytest.approx(passes * size, abs=64 * 4 * batch * channels)
    layer = torch.nn.BatchNorm2d(2 * channels).eval()
    (call,) = [call for call in record(layer, (x,)).calls if "norm" in call.name]
    assert counted(call).bytes == pytest.approx(2 * size, abs=64 * channels)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.booleans())
def test_fused_optimizers_touch_each_state_once(sizes: list[int], momentum: bool) -> None:
    def step(kind: Any, **options: Any) -> list[Call]:
        parameters = [torch.nn.Parameter(torch.ones(size)) for size in sizes]
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer = kind(parameters, lr=0.1, **options)
        optimizer.step()
        return [call for call in record(optimizer.step).calls if "_fused_" in call.name]

    (adamw,) = step(torch.optim.AdamW, fused=True)
    assert counted(adamw).bytes == 7 * 4 * sum(sizes)
    (sgd,) = step(torch.optim.SGD, fused=True, momentum=0.9 if momentum else 0.0)
    assert counted(sgd).bytes == (5 if momentum else 3) * 4 * sum(sizes)


# -- models ----------------------------------------------------------------------------------------------------------


def optimizers(parameters: list[Any]) -> dict[str, Any]:
    return {
        "adamw": torch.optim.AdamW(parameters), "fused": torch.optim.AdamW(parameters, fused=True),
        "foreach": torch.optim.AdamW(parameters, foreach=True), "sgd": torch.optim.SGD(parameters, 0.1, momentum=0.9, weight_decay=0.1),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["resnet", "vit", "gpt2", "bert", "llama", "mixtral", "unet"])
def test_every_operator_of_a_training_step_is_known(name: str) -> None:
    from torch_models import MODELS, step

    torch.manual_seed(0)
    model, loss = MODELS[name]()
    model.train()
    for optimizer in optimizers(list(model.parameters())).values():
        calls = record(step(model, loss, optimizer)).calls
        seen = coverage((call, count(call, LEAF)) for call in calls)
        assert seen.unknown == (), seen
        assert seen.known > 30
    with torch.no_grad():
        model.eval()
        calls = record(lambda: loss(model)).calls
    assert coverage((call, count(call, LEAF)) for call in calls).unknown == ()


@pytest.mark.parametrize("name", ["resnet", "vit", "bert", "llama", "unet"])
def test_flops_of_a_training_step_are_torchs(name: str) -> None:
    from torch.utils.flop_counter import sdpa_backward_flop_count, sdpa_flop_count
    from torch_models import MODELS

    torch.manual_seed(0)
    model, loss = MODELS[name]()
    calls = record(lambda: loss(model).backward()).calls
    ours = theirs = 0.0
    for call in calls:
        work = count(call, LEAF).work
        if work is None:
            continue
        if "flash_attention_for_cpu" in call.name:  # for which torch has formulas without a mask
            pairs = call.args[0 if "backward" not in call.name else 1].shape[2] ** 2
            causal = call.args[7 if "backward" in call.name else 4]
            shapes = [item.shape for item in call.tensors]
            heads = max(shape[1] for shape in shapes[:4])  # shared keys and values are multiplied once per query head
            shapes = [(shape[0], heads, *shape[2:]) for shape in shapes[:4]]
            full = sdpa_backward_flop_count(*shapes) if "backward" in call.name else sdpa_flop_count(*shapes[:3])
            share = (pairs + pairs**0.5) / 2 / pairs if causal else 1.0
            assert matrix_flops(work) == pytest.approx(full * share)
        else:
            ours += matrix_flops(work)
    theirs = by_formula(lambda: loss(model).backward())
    assert ours == pytest.approx(theirs)


LOSSES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "mse": lambda p, q, y: F.mse_loss(p, q), "l1": lambda p, q, y: F.l1_loss(p, q), "smooth_l1": lambda p, q, y: F.smooth_l1_loss(p, q),
    "huber": lambda p, q, y: F.huber_loss(p, q), "kl": lambda p, q, y: F.kl_div(p.log_softmax(1), q, reduction="batchmean"),
    "bce": lambda p, q, y: F.binary_cross_entropy(p.sigmoid(), q), "bce logits": lambda p, q, y: F.binary_cross_entropy_with_logits(p, q),
    "nll": lambda p, q, y: F.nll_loss(p.log_softmax(1), y, weight=torch.ones(10)), "soft targets": lambda p, q, y: F.cross_entropy(p, q),
    "cross entropy": lambda p, q, y: F.cross_entropy(p, y, label_smoothing=0.1), "soft margin": lambda p, q, y: F.soft_margin_loss(p, q),
    "poisson": lambda p, q, y: F.poisson_nll_loss(p, q), "gaussian": lambda p, q, y: F.gaussian_nll_loss(p, q, q),
    "margin": lambda p, q, y: F.multi_margin_loss(p, y), "cosine": lambda p, q, y: F.cosine_embedding_loss(p, q, torch.ones(8)),
    "triplet": lambda p, q, y: F.triplet_margin_loss(p, q, q + 1), "hinge": lambda p, q, y: F.hinge_embedding_loss(p, q),
    "pixels": lambda p, q, y: F.cross_entropy(p.view(8, 5, 2), y[:, None].expand(8, 2) % 5), "multilabel": lambda p, q, y: F.multilabel_soft_margin_loss(p, q),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_and_its_gradient_is_known(name: str) -> None:
    p, q = torch.randn(8, 10, requires_grad=True), torch.rand(8, 10)
    y = torch.arange(8)
    calls = record(lambda: LOSSES[name](p, q, y).backward()).calls
    assert coverage((call, count(call, LEAF)) for call in calls).unknown == ()


@pytest.mark.parametrize(
    "name", ["Adam", "Adamax", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta", "ASGD", "Rprop", "Adafactor"]
)
@pytest.mark.parametrize("foreach", [False, True])
def test_every_optimizer_is_known(name: str, foreach: bool) -> None:
    parameters = [torch.nn.Parameter(torch.ones(4, 3)), torch.nn.Parameter(torch.ones(5))]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = getattr(torch.optim, name)(parameters, lr=0.1, foreach=foreach)
    calls = record(optimizer.step).calls
    assert coverage((call, count(call, LEAF)) for call in calls).unknown == ()


@pytest.mark.parametrize("batch_first", [False, True])
def test_recurrent_layers_have_the_flops_of_their_matrices(batch_first: bool) -> None:
    layer = torch.nn.LSTM(6, 5, batch_first=batch_first)
    x = torch.ones(3, 7, 6)
    calls = [call for call in record(lambda: layer(x)[0].sum().backward()).calls if "rnn_layer" in call.name]
    if not calls:
        pytest.skip("this build of torch takes recurrent layers apart")
    products = 2 * 3 * 7 * (4 * 5) * (6 + 5)
    assert [matrix_flops(counted(call)) for call in calls] == [products, 2 * products]


def test_ctc_and_weight_norm_are_known() -> None:
    logits = torch.randn(12, 8, 10, requires_grad=True)
    targets = torch.randint(1, 10, (8, 5))
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3))
    for function in (
        lambda: F.ctc_loss(logits.log_softmax(2), targets, [12] * 8, [5] * 8).backward(),
        lambda: layer(torch.ones(2, 4)).sum().backward(),
        lambda: torch.fft.irfft(torch.fft.rfft(logits)).sum().backward(),
        lambda: torch.cdist(logits[0], logits[1]),
    ):
        calls = record(function).calls
        assert coverage((call, count(call, LEAF)) for call in calls).unknown == ()
