"""The library calls that run a case, on the CPU: right shapes, right values, a reason where there is no call."""

from __future__ import annotations

from typing import Any

import pytest

from ridgeline.core.errors import InputError
from ridgeline.measure.cuda import calls
from ridgeline.measure.cuda import cases as shapes
from ridgeline.measure.cuda.operands import ValuePool
from ridgeline.programs.ops import OPS

pytestmark = pytest.mark.needs_torch


SMALL = {
    **{"m": 32, "n": 48, "k": 64, "batch": 4, "in_features": 32, "out_features": 48, "rows": 8, "cols": 24},
    **{"vocab": 100, "c_in": 8, "c_out": 16, "h": 9, "w": 9, "heads": 8, "seq_q": 16, "head_dim": 64},
    **{"tokens": 16, "experts": 4, "topk": 2, "hidden": 32, "inter": 16},
    **{"channels": 8, "pixels": 36, "inner": 6},
}
SHAPES = {
    **{"gemm": (32, 48), "linear": (4, 48), "bmm": (4, 32, 48), "gemv": (32,), "ger": (32, 48), "transpose": (24, 8)},
    **{"softmax": (8, 24), "layernorm": (8, 24), "rmsnorm": (8, 24), "batchnorm": (8, 24), "embedding": (8, 24)},
    **{"sum_rows": (8,), "cross_entropy": (8,), "conv2d": (4, 16, 9, 9), "attention": (4, 8, 16, 64)},
    **{"moe": (16, 1, 32), "conv_transpose2d": (4, 16, 18, 18), "embedding_backward": (100, 24)},
    **dict.fromkeys(("cumsum", "sort", "softmax_backward", "layernorm_backward", "rmsnorm_backward"), (8, 24)),
    **{"cross_entropy_backward": (8, 24), "topk": (8, 6), "attention_backward": (4, 8, 16, 64)},
    **dict.fromkeys(("batchnorm_training", "batchnorm_backward"), (4, 8, 36, 1)),
    **{"conv2d_dgrad": (4, 8, 9, 9), "conv2d_wgrad": (16, 8, 3, 3), "permute": (4, 24, 8, 6), "add_row": (8, 24)},
    **{
        "concatenate": (8, 48),
        "stack_permuted": (4, 8, 3, 24, 6),
        "sum_columns": (24,),
        "batchnorm_inference": (4, 8, 36, 1),
    },
    **{"max_pool2d": (4, 8, 5, 5), "max_pool2d_backward": (4, 8, 9, 9)},
    **dict.fromkeys(("scale_expanded", "log_softmax_backward"), (8, 24)),
    **dict.fromkeys(("dot", "nrm2", "asum", "sum"), ()),
}


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def pool(torch: Any) -> ValuePool:
    return ValuePool(torch, "cpu", 8 << 20)


def made(torch: Any, pool: ValuePool, op: str, **sizes: Any) -> Any:
    return calls.build({"op": op, **sizes}, torch, "cpu", pool)()


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # a host without bf16 units takes another path
@pytest.mark.parametrize("name", sorted(calls.BUILDERS))
def test_every_op_runs_and_gives_the_right_shape(name: str, torch: Any, pool: ValuePool) -> None:
    sizes = {key: SMALL[key] for key, param in OPS[name].params.items() if param.required}
    if name == "cast":
        sizes["out_dtype"] = "fp32"
    if name == "topk":
        sizes["k"] = 6
    found = made(torch, pool, name, dtype="bf16", **sizes)
    if name in ("adamw", "sgd"):
        assert found is None  # in place
        return
    if isinstance(found, tuple | list):  # values and indices, or one gradient for each operand that wants it
        found = next(part for part in found if part is not None)
    assert tuple(found.shape) == SHAPES.get(name, (48,))
    assert found.dtype == (torch.float32 if name == "cast" else torch.bfloat16)
    assert bool(torch.isfinite(found).all())
    assert bool((found != 0).any()) or name == "fill"


def test_operands_are_random_and_lie_apart(torch: Any, pool: ValuePool) -> None:
    pool.begin()
    first, second = pool.take("fp32", 1000), pool.take("fp32", 1000)
    assert second.data_ptr() - first.data_ptr() == 1024 * 4  # 1000 rounded up to a multiple of 512
    assert float(torch.std(first)) == pytest.approx(1.0, abs=0.1)
    assert float(torch.std(pool.take("int8", 100000).float())) == pytest.approx(32.0, abs=1.0)
    assert float(torch.std(pool.take("fp8_e4m3", 100000).float())) == pytest.approx(1.0, abs=0.05)


def test_a_product_multiplies_by_the_weights_as_linear_stores_them(torch: Any, pool: ValuePool) -> None:
    found = made(torch, pool, "gemm", m=3, n=5, k=7, dtype="fp64")
    pool.begin()
    x, weights = pool.take("fp64", 3, 7), pool.take("fp64", 5, 7)
    assert torch.allclose(found, x @ weights.t())


def test_narrow_products_have_the_results_of_their_hardware(torch: Any, pool: ValuePool) -> None:
    assert made(torch, pool, "gemm", m=32, n=48, k=64, dtype="int8").dtype == torch.int32
    found = made(torch, pool, "gemm", m=32, n=48, k=64, dtype="fp8")
    pool.begin()
    x, weights = pool.take("fp8_e4m3", 32, 64).float(), pool.take("fp8_e4m3", 48, 64).float()
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), x @ weights.t(), rtol=0.02, atol=0.1)


def test_tf32_is_switched_by_the_format_of_the_case(torch: Any, pool: ValuePool) -> None:
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    try:
        for dtype in ("tf32", "fp32", "tf32"):
            made(torch, pool, "gemm", m=2, n=2, k=2, dtype=dtype)
            assert torch.backends.cuda.matmul.allow_tf32 is (dtype == "tf32")
            made(torch, pool, "conv2d", batch=1, c_in=1, c_out=1, h=4, w=4, dtype=dtype)
            assert torch.backends.cudnn.allow_tf32 is (dtype == "tf32")
    finally:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


def test_standard_attention_computes_what_flash_does(torch: Any, pool: ValuePool) -> None:
    sizes = {"batch": 2, "heads": 8, "kv_heads": 2, "seq_q": 5, "seq_kv": 9, "head_dim": 16, "dtype": "fp64"}
    flash = made(torch, pool, "attention", **sizes)
    standard = made(torch, pool, "attention", **sizes, variant="standard")
    assert torch.allclose(standard.view(2, 8, 5, 16), flash)


def test_a_causal_mask_hides_later_keys_and_none_from_the_last_query(torch: Any, pool: ValuePool) -> None:
    sizes = {"batch": 1, "heads": 2, "seq_q": 6, "head_dim": 8, "dtype": "fp64"}
    masked, plain = (made(torch, pool, "attention", **sizes, causal=causal) for causal in ("yes", "no"))
    assert torch.allclose(masked[:, :, -1], plain[:, :, -1])
    pool.begin()
    _, _, values = (pool.take("fp64", 1, 2, 6, 8) for _ in range(3))
    assert torch.allclose(masked[:, :, 0], values[:, :, 0])  # the first query sees the first key alone
    decode = {**sizes, "seq_q": 1, "seq_kv": 6}
    both = [made(torch, pool, "attention", **decode, causal=causal) for causal in ("yes", "no")]
    assert torch.allclose(*both)


def test_experts_are_applied_to_the_tokens_routed_to_them(torch: Any, pool: ValuePool) -> None:
    tokens, experts, topk, hidden, inter = 6, 3, 2, 16, 8
    found = made(torch, pool, "moe", tokens=tokens, experts=experts, topk=topk, hidden=hidden, inter=inter)
    pool.begin()
    x, _ = pool.take("bf16", tokens, hidden).float(), pool.take("bf16", experts, hidden)
    up, down = pool.take("bf16", experts, 2 * inter, hidden), pool.take("bf16", experts, hidden, inter)
    shares = pool.take("bf16", tokens, topk).float()
    for token in range(tokens):
        want = torch.zeros(hidden)
        for choice in range(topk):
            expert = (token * topk + choice) % experts
            gate, plain = (up[expert].float() @ x[token]).chunk(2)
            each = down[expert].float() @ (torch.nn.functional.silu(gate) * plain)
            want += shares[token, choice] * each
        assert torch.allclose(found[token, 0].float(), want, rtol=0.05, atol=0.02 * float(want.abs().max()))


def test_convolutions_take_the_layout_they_are_asked_for(torch: Any, pool: ValuePool) -> None:
    sizes = {"batch": 2, "c_in": 8, "c_out": 16, "h": 9, "w": 7, "stride": 2, "dtype": "fp32"}
    plain, last = (made(torch, pool, "conv2d", **sizes, layout=layout) for layout in ("nchw", "nhwc"))
    assert plain.shape == last.shape == (2, 16, 5, 4)  # floor((9 + 2 - 3) / 2) + 1, floor((7 + 2 - 3) / 2) + 1
    assert plain.is_contiguous()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert made(torch, pool, "conv2d", **sizes, padding=0).shape == (2, 16, 4, 3)


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ({"op": "symm", "m": 3, "n": 4}, "symm has no default path"),
        ({"op": "nope"}, "unknown op 'nope'"),
        ({"m": 3}, "unknown op ''"),
        ({"op": "gemm", "m": 3, "n": 4}, "needs k"),
        ({"op": "gemm", "m": 3, "n": 4, "k": 5, "beta": True}, "gemm with beta"),
        ({"op": "gemm", "m": 3, "n": 4, "k": 5, "dtype": "int4"}, "gemm in int4"),
        ({"op": "gemm", "m": 3, "n": 4, "k": 16, "dtype": "fp8"}, "multiples of 16"),
        ({"op": "gemm", "m": 16, "n": 8, "k": 8, "dtype": "int8"}, "m above 16"),
        ({"op": "linear", "batch": 32, "in_features": 16, "out_features": 16, "bias": 1, "dtype": "int8"}, "bias"),
        ({"op": "add", "n": 1 << 40}, "the pool holds"),
        ({"op": "relu", "n": 4, "layout": "nhwc"}, "unknown parameter of relu"),
        ({"op": "cast", "n": 4, "dtype": "tf32", "out_dtype": "fp32"}, "stored alike"),
        ({"op": "cast", "n": 4, "out_dtype": "int4"}, "cast to int4"),
        ({"op": "transpose", "rows": 1, "cols": 9}, "nothing runs"),
        (
            {"op": "conv2d", "batch": 1, "c_in": 4, "c_out": 4, "h": 4, "w": 4, "layout": "chwn"},
            "unknown layout of conv2d",
        ),
        ({"op": "conv2d", "batch": 1, "c_in": 4, "c_out": 4, "h": 2, "w": 2, "kernel": 5, "padding": 0}, "no output"),
        ({"op": "attention", "batch": 1, "heads": 2, "seq_q": 2, "seq_kv": 4, "head_dim": 8, "causal": 1}, "aligns"),
        (
            {"op": "attention", "batch": 1, "heads": 2, "seq_q": 4, "head_dim": 8, "causal": 1, "variant": "standard"},
            "pass of its own",
        ),
        (
            {"op": "moe", **dict.fromkeys(("tokens", "experts", "topk", "hidden", "inter"), 8), "dtype": "fp16"},
            "bf16",
        ),
        ({"op": "moe", "tokens": 4, "experts": 2, "topk": 1, "hidden": 9, "inter": 8}, "multiples of 8"),
    ],
)
def test_a_case_that_cannot_be_built_says_why(case: shapes.Case, says: str, torch: Any, pool: ValuePool) -> None:
    with pytest.raises(InputError, match=says):
        calls.build(case, torch, "cpu", pool)


@pytest.mark.parametrize(
    ("weights", "dtype", "in_features", "why"),
    [
        ("int8", "bf16", 1024, "int8 weights has no default path"),
        ("int4_g128z", "fp16", 1024, "linear in fp16 with int4_g128z weights"),
        ("int4_g128z", "bf16", 1000, "k of 128, got n=512 k=1000"),
    ],
)
def test_weights_that_torch_cannot_multiply_are_refused(
    torch: Any, pool: ValuePool, weights: str, dtype: str, in_features: int, why: str
) -> None:
    sizes = {"batch": 1, "in_features": in_features, "out_features": 512}
    with pytest.raises(InputError, match=why):
        made(torch, pool, "linear", dtype=dtype, weights=weights, **sizes)
