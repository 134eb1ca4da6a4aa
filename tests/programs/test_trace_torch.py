"""Programs of PyTorch as traces: what is recorded without a GPU is what a GPU runs."""

from __future__ import annotations

from typing import Any

import pytest
from traced import gpu_state, held, matrix_flops, names, peak

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.core.timeline import BACKWARD, FORWARD, OPTIMIZER
from ridgeline.core.trace import FREE, HOST, UNKNOWN, WORK

torch: Any = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional
pytestmark = pytest.mark.needs_torch


def mlp(width: int = 8) -> Any:
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


def test_a_forward_pass_has_its_operators_modules_and_lines() -> None:
    trace = rl.trace(mlp(), torch.randn(4, 8))
    assert names(trace) == {"addmm": 2, "gelu": 1}
    assert matrix_flops(trace) == 2 * 4 * (8 * 32 + 32 * 8)
    first = next(op for op in trace.ops if op.kind == WORK)
    assert first.site.modules == (":Sequential", "0:Linear")
    assert first.site.phase == FORWARD
    assert first.site.source.rpartition(":")[0].endswith("test_trace_torch.py")
    assert held(trace, "parameter") == 4 * (8 * 32 + 32 + 32 * 8 + 8)
    assert held(trace, "input") == 4 * 4 * 8


def test_the_backward_pass_belongs_to_the_modules_of_the_forward_pass() -> None:
    trace = rl.trace(mlp(), torch.randn(4, 8), backward=True)
    assert names(trace, phase=BACKWARD) == {"mm": 3, "gelu_backward": 1, "sum": 2}  # the input needs no gradient
    places = {op.site.call.name: op.site.modules[-1] for op in trace.ops if op.site.phase == BACKWARD and op.work}
    assert places["aten::gelu_backward"] == "1:GELU"
    assert held(trace, "gradient") == held(trace, "parameter")


def test_the_program_is_left_as_it_was() -> None:
    model, x = mlp(), torch.randn(4, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.AdamW(model.parameters())
    parameters = list(model.parameters())
    rl.trace(model, x, optimizer=optimizer)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert optimizer.param_groups[0]["params"][0] is parameters[0]
    assert not optimizer.state
    assert parameters[0].grad is None
    assert model(x).shape == (4, 8)
    assert not torch.cuda.is_available() or torch.cuda.device_count() > 0
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert model(x).dtype == torch.bfloat16


def step_of(model: Any, optimizer: Any, autocast: bool = False) -> Any:
    x, y = torch.randn(4, 8), torch.randint(0, 8, (4,))

    def step() -> float:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(loss.item())

    return step


def test_a_training_step_has_three_phases() -> None:
    model = mlp()
    trace = rl.trace(step_of(model, torch.optim.AdamW(model.parameters())))
    assert names(trace, phase=FORWARD)["addmm"] == 2
    assert names(trace, phase=BACKWARD)["mm"] == 3
    optimizer = names(trace, phase=OPTIMIZER)
    assert optimizer["_foreach_norm"] == 1  # clipping belongs to the optimizer's phase
    assert optimizer["_foreach_lerp_"] == optimizer["_foreach_addcdiv_"] == 1
    assert "zeros_like" not in optimizer  # the states are there before the step that is recorded
    assert held(trace, "state") == 2 * held(trace, "parameter") + 4 * 4  # two moments, and four step counts of 4 bytes
    assert names(trace, HOST) == {"_local_scalar_dense": 1}  # loss.item()


@pytest.mark.parametrize(
    ("options", "expected"),
    [({"fused": True}, "_fused_adamw_"), ({"foreach": False}, "addcdiv_"), ({}, "_foreach_addcdiv_")],
)
def test_optimizers_run_as_asked_for(options: dict[str, bool], expected: str) -> None:
    model = mlp()
    trace = rl.trace(step_of(model, torch.optim.AdamW(model.parameters(), **options)))
    counts = names(trace, phase=OPTIMIZER)
    assert counts[expected] == (4 if options.get("foreach") is False else 1)
    assert not trace.uncounted


def test_autocast_casts_as_on_a_gpu() -> None:
    model = mlp()
    trace = rl.trace(step_of(model, torch.optim.SGD(model.parameters(), 0.1), autocast=True))
    products = {op.work.dtype for op in trace.ops if op.site.call.name in ("aten::addmm", "aten::mm") and op.work}
    assert products == {"bf16"}
    # casts: the input, two weights and two biases; the log-probabilities in and out of the loss; four gradients
    assert names(trace, phase=FORWARD)["_to_copy"] == 1 + 4 + 1
    assert names(trace, phase=BACKWARD)["_to_copy"] == 1 + 4
    loss = next(op for op in trace.ops if op.site.call.name == "aten::nll_loss_forward")
    assert loss.site.call.args[0].dtype == "fp32"


def test_autocast_keeps_norms_and_softmax_in_fp32_and_casts_a_weight_once() -> None:
    layer, norm = nn.Linear(8, 8, bias=False), nn.LayerNorm(8)

    def run(x: Any) -> Any:
        with torch.autocast("cuda", dtype=torch.float16):
            return norm(layer(layer(x)).softmax(-1))

    trace = rl.trace(run, torch.randn(4, 8))
    assert names(trace)["_to_copy"] == 2  # the input and the weight, which both products share
    softmax = next(op.site.call for op in trace.ops if op.site.call.name == "aten::_softmax")
    assert (softmax.args[0].dtype, softmax.args[2], softmax.outputs[0].dtype) == ("fp16", True, "fp32")


@pytest.mark.parametrize(
    ("dtype", "shape", "options", "expected"),
    [
        ("bfloat16", (2, 4, 16, 64), {}, "_scaled_dot_product_cudnn_attention"),
        ("float16", (2, 4, 16, 64), {"is_causal": True}, "_scaled_dot_product_cudnn_attention"),
        ("bfloat16", (2, 4, 16, 60), {}, "_scaled_dot_product_flash_attention"),
        ("float32", (2, 4, 16, 64), {}, "_scaled_dot_product_efficient_attention"),
        ("float64", (2, 4, 16, 64), {}, "bmm"),
    ],
)
def test_attention_is_one_operator_of_the_backend_that_torch_chooses(
    dtype: str, shape: tuple[int, ...], options: dict[str, Any], expected: str
) -> None:
    q = torch.empty(shape, dtype=getattr(torch, dtype), requires_grad=True)
    trace = rl.trace(lambda q: F.scaled_dot_product_attention(q, q, q, **options), q, backward=True)
    assert expected in names(trace)
    if expected != "bmm":
        assert f"{expected}_backward" in names(trace, phase=BACKWARD)
        batch, heads, length, head = shape
        head += -head % 8
        pairs = length * (length + 1) // 2 if options.get("is_causal") else length * length
        assert matrix_flops(trace) == (2 + 5) * 2 * batch * heads * pairs * head


def test_grouped_heads_are_not_repeated() -> None:
    q, k = torch.empty(1, 8, 32, 64, dtype=torch.bfloat16), torch.empty(1, 2, 32, 64, dtype=torch.bfloat16)
    trace = rl.trace(lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True, enable_gqa=True), q, k)
    assert names(trace) == {"_scaled_dot_product_cudnn_attention": 1}
    assert trace.bytes == 2 * (2 * q.numel() + 2 * k.numel())


def test_a_backend_that_is_switched_off_is_not_chosen() -> None:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def run(q: Any) -> Any:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            return F.scaled_dot_product_attention(q, q, q)

    assert "_scaled_dot_product_flash_attention" in names(rl.trace(run, torch.empty(1, 2, 8, 64, dtype=torch.bfloat16)))


def test_attention_runs_by_the_kernel_of_the_machine_that_is_asked() -> None:
    q, mask = torch.empty(2, 4, 64, 64, dtype=torch.bfloat16), torch.empty(64, 64, dtype=torch.bfloat16)
    plain = rl.trace(lambda q: F.scaled_dot_product_attention(q, q, q), q)
    masked = rl.trace(lambda q, mask: F.scaled_dot_product_attention(q, q, q, mask), q, mask)

    def kernel(trace: Any, machine: str) -> str:
        return next(item.unit.backend for item in rl.predict(trace, machine).ops if "attention" in item.op)

    machines = ("h200-sxm", "a100-sxm-80gb", "mi300x", "epyc-9654")
    assert [kernel(plain, machine) for machine in machines] == ["cudnn", "flash2", "flash2", ""]
    assert [kernel(masked, machine) for machine in machines[:3]] == ["cudnn", "efficient", "efficient"]
    assert any("separate products" in note for note in rl.predict(plain, "v100-sxm2-32gb").notes)


def test_masks_with_gradients_and_transposed_heads_leave_the_first_kernel() -> None:
    q = torch.empty(2, 4, 64, 64, dtype=torch.bfloat16)
    bias = torch.empty(4, 64, 64, dtype=torch.bfloat16, requires_grad=True)
    assert "_scaled_dot_product_efficient_attention" in names(
        rl.trace(lambda q, bias: F.scaled_dot_product_attention(q, q, q, bias), q, bias)
    )
    across = torch.empty(64, 64, 4, dtype=torch.bfloat16).permute(2, 0, 1)  # a row of the mask is 4 elements apart
    for heads, mask in ((q, across), (q.transpose(-1, -2), None)):
        assert "bmm" in names(rl.trace(lambda q, mask: F.scaled_dot_product_attention(q, q, q, mask), heads, mask))


def test_a_cache_that_a_step_replaces_is_freed_then_or_when_a_compiled_graph_returns() -> None:
    layers, size = 8, 4 * 4 * 257 * 64 * 4
    cache = [torch.empty(4, 4, 256, 64, device="meta") for _ in range(layers)]

    def step(x: Any) -> Any:
        for layer in range(layers):
            cache[layer] = torch.cat((cache[layer], x), 2)
        return cache[0].sum()

    trace = rl.trace(step, torch.empty(4, 4, 1, 64, device="meta"))
    eager, fused = (rl.predict(trace, "h200-sxm", mode=mode).peak_memory for mode in ("eager", "fused"))
    assert layers * size < eager < (layers + 1.1) * size
    assert fused > 1.9 * layers * size


def test_tensors_have_the_formats_of_ridgeline() -> None:
    trace = rl.trace(lambda x: x.to(torch.bfloat16) + x.long(), torch.empty(4))
    formats = {tensor.dtype for op in trace.ops for tensor in (*op.site.call.tensors, *op.site.call.outputs)}
    assert formats == {"fp32", "bf16", "int64"}


def test_norms_copy_rows_that_lie_apart() -> None:
    norm, x = nn.LayerNorm(64), torch.empty(8, 64, 32)
    plain, crossed = (rl.trace(norm, item) for item in (torch.empty(8, 32, 64), x.transpose(1, 2)))
    assert crossed.bytes - plain.bytes == 2 * 4 * x.numel()


def test_views_are_free_and_repeated_elements_are_read_once() -> None:
    x = torch.empty(8, 1).expand(8, 1024)
    trace = rl.trace(lambda x: x.t().reshape(1024, 8).add(1.0), x)
    assert names(trace, FREE)["t"] == 1
    (read,) = [trace.reads[place] for place, index in enumerate(trace.op) if trace.ops[index].work is not None]
    assert sum(size for _, size in read) == 8 * 4


def test_an_operator_in_place_reads_and_writes_its_buffer() -> None:
    trace = rl.trace(lambda x: x.mul_(2.0), torch.empty(16))
    ((read,), (written,)) = trace.reads[0], trace.writes[0]
    assert read == written == (0, 64.0)
    assert len(trace.buffers) == 1


def test_buffers_end_with_the_last_call_that_needs_them() -> None:
    trace = rl.trace(lambda x: (x + 1).relu().sum(), torch.empty(100))
    assert names(trace) == {"add": 1, "relu": 1, "sum": 1}
    of_add = trace.writes[0][0][0]
    assert trace.buffers.born[of_add] == 0
    assert trace.buffers.dies[of_add] == 2  # freed when relu has run


def test_checkpointing_recomputes_and_frees_activations() -> None:
    from torch.utils.checkpoint import checkpoint

    layers = nn.ModuleList(mlp(64) for _ in range(6))

    def run(x: Any, recompute: bool) -> Any:
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False) if recompute else layer(x)
        return x

    x = torch.randn(256, 64, requires_grad=True)
    plain, recomputed = (rl.trace(run, x, flag, backward=True) for flag in (False, True))
    assert names(plain, phase=FORWARD)["addmm"] == 12
    assert names(recomputed, phase=FORWARD)["addmm"] > 12 + 5  # the last product of a layer need not run again
    assert peak(recomputed) < 0.6 * peak(plain)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_process_that_uses_a_gpu_keeps_its_random_numbers(monkeypatch: pytest.MonkeyPatch, reentrant: bool) -> None:
    """Checkpoints save and restore the state of CUDA's generators where the process has set CUDA up."""
    from torch.utils.checkpoint import checkpoint

    def touched(*_: Any, **__: Any) -> Any:
        raise AssertionError("the generator of the GPU")

    layer = mlp(64)
    x = torch.randn(256, 64, requires_grad=True)

    def run(x: Any) -> Any:
        with torch.random.fork_rng(device_type="cuda"):
            torch.manual_seed(0)
            return checkpoint(layer, x, use_reentrant=reentrant)

    before = names(rl.trace(run, x, backward=True))
    monkeypatch.setattr(torch.cuda, "_initialized", True)
    for name in ("get_rng_state", "set_rng_state", "manual_seed_all", "seed_all"):
        monkeypatch.setattr(torch.cuda, name, touched)
    assert names(rl.trace(run, x, backward=True)) == before
    assert before["addmm"] >= 3  # two layers, and the first of them again
    assert torch.cuda._initialized


def test_programs_for_a_gpu_and_on_meta_trace_alike() -> None:
    def on(device: str) -> Any:
        def run() -> Any:
            model = nn.Linear(8, 8).to(device)
            x = torch.randn(4, 8, device=device)
            return model(x.to(device, non_blocking=True))

        return run

    assert names(rl.trace(on("cuda")))["addmm"] == 1
    assert names(rl.trace(nn.Linear(8, 8, device="meta"), torch.empty(4, 8, device="meta"))) == {"addmm": 1}
    assert names(rl.trace(lambda: nn.Linear(8, 8).cuda().half()(torch.ones(4, 8).cuda().half())))["addmm"] == 1


def test_tf32_is_what_the_program_sets() -> None:
    model, x = nn.Linear(64, 64, bias=False), torch.empty(64, 64)
    before = torch.get_float32_matmul_precision()

    def run(x: Any) -> Any:
        torch.set_float32_matmul_precision("high")
        return model(x)

    try:
        torch.set_float32_matmul_precision("highest")
        plain, fast = rl.trace(model, x), rl.trace(run, x)
    finally:
        torch.set_float32_matmul_precision(before)
    assert next(op.work.dtype for op in plain.ops if op.work) == "fp32"
    assert next(op.work.dtype for op in fast.ops if op.work) == "tf32"


def test_inference_mode_runs_the_operators_of_a_gpu() -> None:
    model = nn.TransformerEncoderLayer(64, 4, batch_first=True).half().eval()
    with torch.no_grad():
        plain = rl.trace(model, torch.empty(2, 16, 64).half())
    assert names(rl.trace(torch.inference_mode()(model), torch.empty(2, 16, 64).half())) == names(plain)
    assert names(rl.trace(torch.inference_mode()(nn.Linear(8, 8)), torch.empty(4, 8))) == {"addmm": 1}


def test_transforms_of_functions_are_followed() -> None:
    x = torch.empty(4, 8, 8)
    assert names(rl.trace(lambda x: torch.func.vmap(lambda row: row @ row)(x), x)) == {"bmm": 1}
    gradient = rl.trace(lambda x: torch.func.grad(lambda y: (y @ y).sum())(x), x[0])
    assert names(gradient)["mm"] == 3


def test_recurrent_layers_batch_norms_and_rms_norms_are_single_kernels() -> None:
    sequence, images = torch.empty(10, 4, 16), torch.empty(4, 8, 16, 16)
    assert names(rl.trace(nn.LSTM(16, 32), sequence, backward=True))["_cudnn_rnn_backward"] == 1

    assert names(rl.trace(nn.BatchNorm2d(8), images))["cudnn_batch_norm"] == 1
    assert names(rl.trace(nn.BatchNorm2d(8), images.bfloat16()))["native_batch_norm"] == 1
    assert names(rl.trace(nn.RMSNorm(16), sequence)) == {"_fused_rms_norm": 1}


def test_recurrent_layers_hold_their_workspace_and_what_the_backward_pass_needs() -> None:
    tokens, hidden, layers = 50 * 8, 32, 2
    x = torch.empty(50, 8, 16, device="meta")
    layer, tail = nn.LSTM(16, hidden, layers, device="meta"), nn.Linear(hidden, 4096, device="meta")
    model = nn.Sequential(layer, Taken(), tail)
    gates = 4.0 * tokens * 4 * hidden
    inference = rl.trace(layer.eval(), x).buffers
    assert 2.6 * gates == pytest.approx(max(inference.size), rel=0.01)  # the workspace is the largest of them
    trained = rl.trace(model.train(), x, backward=True).buffers
    kept = 4.0 * tokens * (4 * hidden * layers + hidden)
    assert kept in trained.size.tolist()
    assert kept not in inference.size.tolist()


class Taken(nn.Module):
    def forward(self, given: tuple[torch.Tensor, object]) -> torch.Tensor:
        return given[0]


def test_a_bias_of_a_convolution_is_a_kernel_and_gradients_add_up_in_place() -> None:
    trace = rl.trace(nn.Conv2d(3, 8, 3), torch.empty(2, 3, 8, 8))
    assert names(trace) == {"convolution": 1, "add_": 1}
    x = torch.empty(64, 64, requires_grad=True)
    assert names(rl.trace(lambda x: x.relu() + x.tanh(), x, backward=True), phase=BACKWARD)["add_"] == 1


def test_gradients_of_micro_batches_add_up_in_place() -> None:
    model = nn.Linear(64, 64, bias=False)

    def run(x: Any) -> None:
        for part in x.chunk(2):
            model(part).sum().backward()

    trace = rl.trace(run, torch.empty(8, 64))
    assert names(trace, phase=BACKWARD)["add_"] == 1
    assert held(trace, "gradient") == 64 * 64 * 4


def test_quantized_and_grouped_products_run_in_their_formats() -> None:
    a, b = torch.empty(64, 128), torch.empty(256, 128)
    fp8, scale = torch.float8_e4m3fn, torch.ones(1, 1)
    scaled = rl.trace(
        lambda a, b, s: torch._scaled_mm(a, b.t(), scale_a=s, scale_b=s, out_dtype=torch.bfloat16),
        a.to(fp8),
        b.to(fp8),
        scale,
    )
    assert [list(op.work.by_engine()) for op in scaled.ops if op.work] == [[("matrix", "fp8_e4m3")]]
    offsets, experts = torch.empty(4, dtype=torch.int32), torch.empty(4, 128, 256, dtype=torch.bfloat16)
    grouped = rl.trace(lambda a, b, o: torch._grouped_mm(a, b, offs=o), a.bfloat16(), experts, offsets)
    assert matrix_flops(grouped) == 2 * 64 * 128 * 256


# -- what cannot be traced --------------------------------------------------------------------------------------------


def line_of(function: Any, text: str) -> str:
    import inspect

    source, first = inspect.getsourcelines(function)
    return str(first + next(place for place, line in enumerate(source) if text in line))


def test_a_decision_on_data_is_reported_with_its_line() -> None:
    def deciding(x: Any) -> Any:
        if x.sum() > 0:
            return x
        return -x

    def reading(x: Any) -> Any:
        return x if x.max().item() > 0 else -x

    for function, text in ((deciding, "if x.sum"), (reading, "x.max()")):
        with pytest.raises(InputError, match=f"test_trace_torch.py:{line_of(function, text)}: the program decides on"):
            rl.trace(function, torch.empty(4))


def test_a_shape_error_is_reported_with_its_line() -> None:
    def wrong(x: Any) -> Any:
        return x @ torch.empty(5, 5)

    with pytest.raises(InputError, match=f"test_trace_torch.py:{line_of(wrong, 'x @')}: RuntimeError: .*4"):
        rl.trace(wrong, torch.empty(4, 4))


def test_a_shape_that_depends_on_data_is_reported() -> None:
    def hidden(x: Any) -> Any:
        return x.nonzero()

    with pytest.raises(InputError, match=r"the shape of the result of aten\.nonzero.default depends on the data"):
        rl.trace(hidden, torch.empty(4))


def test_an_operator_without_a_fake_kernel_is_named() -> None:
    library = torch.library.Library("ridgeline_test", "FRAGMENT")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: x.clone(), "CPU")
    try:
        with pytest.raises(InputError, match=r"ridgeline_test.opaque.default.* has no kernel for fake tensors"):
            rl.trace(lambda x: torch.ops.ridgeline_test.opaque(x), torch.empty(4))
    finally:
        library._destroy()


def test_arrays_of_numpy_and_higher_order_operators_are_named() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    with pytest.raises(
        InputError, match=r"test_trace_torch\.py:\d+: the program turns a tensor into an array of NumPy"
    ):
        rl.trace(lambda x: x.cpu().numpy(), torch.empty(4))
    with pytest.raises(InputError, match="flex_attention has no kernel for fake tensors"):
        rl.trace(lambda q: flex_attention(q, q, q), torch.empty(1, 2, 128, 64))


def test_missing_example_inputs_are_reported() -> None:
    with pytest.raises(InputError, match=r"do not fit Sequential.*missing a required argument: 'input'"):
        rl.trace(mlp())


def test_an_unknown_operator_is_listed_with_its_bytes() -> None:
    library = torch.library.Library("ridgeline_test", "FRAGMENT")
    library.define("known(Tensor x) -> Tensor")
    library.impl("known", lambda x: torch.empty_like(x), "Meta")
    try:
        trace = rl.trace(lambda x: torch.ops.ridgeline_test.known(x), torch.empty(16))
    finally:
        library._destroy()
    ((op, count),) = trace.uncounted
    assert (op.site.call.name, op.kind, op.bytes, count) == ("ridgeline_test::known", UNKNOWN, 2 * 64.0, 1.0)


def test_no_gpu_is_set_up() -> None:
    before = gpu_state()
    rl.trace(mlp().to("meta"), torch.empty(4, 8, device="meta"), backward=True)
    assert gpu_state() == before


@pytest.mark.parametrize(("chance", "kept"), [(0.0, True), (0.1, True), (0.9, False)])
def test_a_layer_that_is_skipped_at_random_is_kept_where_that_is_likelier(chance: float, kept: bool) -> None:
    """LayerDrop as `transformers` writes it: the host draws a number for every layer."""

    def layers(x: Any) -> Any:
        drawn = torch.rand([])
        if drawn < chance:
            return x
        return torch.relu(x)

    traced = rl.trace(layers, torch.empty(4, 8))
    assert any(op.site.call.name == "aten::relu" for op in traced.ops) is kept
    assert any("single random numbers" in note for note in traced.notes)


def test_random_tensors_are_drawn_on_the_gpu() -> None:
    traced = rl.trace(lambda x: x + torch.rand(8) + torch.rand(4, 1, device="cuda"), torch.empty(4, 8))
    assert sum(op.site.call.name == "aten::rand" and op.kind == WORK for op in traced.ops) == 2
    assert not any("single random numbers" in note for note in traced.notes)


def test_a_compiled_module_is_said_to_be_traced_as_an_eager_one() -> None:
    compiled = torch.compile(mlp())
    assert any("mode fused" in note for note in rl.trace(compiled, torch.randn(4, 8)).notes)
    assert not any("mode fused" in note for note in rl.trace(compiled, torch.randn(4, 8), compiled=True).notes)


def test_autocast_of_the_cpu_is_said_to_have_no_effect() -> None:
    def run(x: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return net(x)

    net = mlp()
    assert any("autocast of the CPU has no effect" in note for note in rl.trace(run, torch.randn(4, 8)).notes)
    assert not rl.trace(net, torch.randn(4, 8)).notes


def test_sparse_tensors_are_refused_in_one_message() -> None:
    with pytest.raises(InputError, match="is sparse"):
        rl.trace(torch.sparse.mm, torch.eye(8).to_sparse(), torch.randn(8, 4))
