"""Operator calls as Work: every family by hand-derived numbers, and what happens to calls that do not decide their work."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ridgeline as rl
from ridgeline.core.timeline import Call, Tensor
from ridgeline.programs.aten import RULES, Settings, count, coverage, evidence
from ridgeline.programs.aten.evidence import kernel_format
from ridgeline.programs.aten.kinds import FREE, HOST, WRAPPERS
from ridgeline.programs.aten.optimizer import launches

B = 2  # bytes of a bf16 element


def T(*shape: int, dtype: str = "bf16", strides: tuple[int, ...] = ()) -> Tensor:
    return Tensor(shape, dtype, strides)


def work(name: str, *args: Any, settings: Settings | None = None, outputs: tuple[Tensor, ...] = ()) -> rl.Work:
    counted = count(Call(name, args, outputs), settings or Settings(leaf=True))
    assert counted.kind == "work", counted
    assert counted.work is not None
    return counted.work


# Calls with flops and bytes derived by hand; every operand once, results once.
COUNTS = [
    ("aten::mm", (T(3, 4), T(4, 5)), 2 * 3 * 4 * 5, B * (12 + 20 + 15)),
    ("aten::addmm", (T(5), T(3, 4), T(4, 5), 1, 1), 2 * 60, B * (5 + 12 + 20 + 15)),
    ("aten::addmm", (T(3, 5), T(3, 4), T(4, 5), 1, 1), 2 * 60, B * (15 + 12 + 20 + 15)),
    ("aten::addmm", (T(3, 5), T(3, 4), T(4, 5), 0, 1), 2 * 60, B * (12 + 20 + 15)),
    ("aten::bmm", (T(7, 3, 4), T(7, 4, 5)), 7 * 120, 7 * B * (12 + 20 + 15)),
    ("aten::baddbmm", (T(7, 3, 5), T(7, 3, 4), T(7, 4, 5), 1, 1), 7 * 120, 7 * B * (15 + 12 + 20 + 15)),
    ("aten::mv", (T(3, 4), T(4)), 24, B * (12 + 4 + 3)),
    ("aten::dot", (T(9), T(9)), 17, B * (18 + 1)),
    ("aten::linear", (T(2, 3, 4), T(5, 4), T(5)), 2 * 6 * 4 * 5 + 30, B * (24 + 20 + 5 + 30)),
    ("aten::matmul", (T(2, 3, 4), T(4, 5)), 2 * 6 * 20, B * (24 + 20 + 30)),
    ("aten::matmul", (T(6, 2, 3, 4), T(2, 4, 5)), 12 * 120, B * (144 + 40 + 180)),
    ("aten::_grouped_mm", (T(6, 4), T(2, 4, 5)), 2 * 6 * 4 * 5, B * (24 + 40 + 30)),
    ("aten::_weight_int8pack_mm", (T(3, 8), T(5, 8, dtype="int8"), T(5)), 2 * 3 * 40, B * (24 + 5 + 15) + 40),
    ("aten::convolution", (T(2, 3, 8, 8), T(4, 3, 3, 3), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1),
     2 * 2 * 4 * 64 * 27, B * (2 * 3 * 64 + 4 * 27 + 2 * 4 * 64)),
    ("aten::convolution", (T(2, 4, 8), T(6, 2, 3), T(6), (2,), (0,), (1,), False, (0,), 2),
     2 * 2 * 6 * 3 * 6, B * (2 * 4 * 7 + 36 + 6 + 2 * 6 * 3)),
    ("aten::convolution", (T(1, 4, 3, 3), T(4, 5, 2, 2), None, (2, 2), (0, 0), (1, 1), True, (0, 0), 1),
     2 * 4 * 9 * 5 * 4, B * (36 + 80 + 5 * 36)),
    ("aten::_scaled_dot_product_flash_attention", (T(2, 4, 16, 8), T(2, 2, 16, 8), T(2, 2, 16, 8), 0.0, False, False),
     8 * 16 * 16 * (4 * 8 + 5), B * (2 * 8 * 128 + 2 * 4 * 128)),
    ("aten::native_layer_norm", (T(6, 8), (8,), T(8), T(8), 1e-5), 8 * 48, B * (48 + 8 + 8 + 48) + 2 * 6 * 4),
    ("aten::_softmax", (T(6, 8), -1, False), 5 * 48, B * 96),
    ("aten::_softmax", (T(6, 8), 1, True), 5 * 48, 48 * 2 + 48 * 4),
    # a softmax; x read for 48 flags; the flags read for 6; results and flags of rows read, results written
    ("aten::_safe_softmax", (T(6, 8), -1), 5 * 48, B * 96 + (B * 48 + 48) + (48 + 6) + (6 + B * 96)),
    ("aten::masked_fill", (T(6, 8), T(6, 8, dtype="bool"), 0.0), 0, B * 96 + (B * 96 + 48)),  # a copy, then filled
    ("aten::masked_fill_", (T(6, 8), T(6, 8, dtype="bool"), 0.0), 0, B * 96 + 48),
    ("aten::roll", (T(2, 8, 8), (1, 1), (1, 2)), 0, 2 * B * 2 * 128),  # a pass for each dimension
    # a window of 16 pixels on images of 4 x 4 ends with them
    ("aten::avg_pool2d", (T(2, 3, 4, 4), (16, 16), (16, 16), (0, 0), True), 15 * 6, B * (96 + 6)),
    ("aten::gelu", (T(6, 8), "none"), 12 * 48, B * 96),
    ("aten::add", (T(6, 8), T(6, 8), 1), 48, B * 144),
    ("aten::add", (T(6, 8), T(8), 1), 48, B * (48 + 8 + 48)),
    ("aten::add_", (T(6, 8), T(6, 8), 1), 48, B * 144),
    ("aten::mul", (T(6, 8), 2.0), 48, B * 96),
    ("aten::add", (T(6, 8, dtype="fp32"), T(6, 8), 1), 48, 48 * (4 + 2 + 4)),
    ("aten::lt", (T(6, 8), T(6, 8)), 48, B * 96 + 48),
    ("aten::where", (T(6, 8, dtype="bool"), T(6, 8), T(6, 8)), 0, 48 + 3 * B * 48),
    ("aten::masked_fill_", (T(6, 8), T(8, 8, dtype="bool"), 0.0), None, None),
    ("aten::sum", (T(6, 8), (1,), False, None), 42, B * (48 + 6)),
    ("aten::sum", (T(6, 8), (0,), False, None), 40, B * (48 + 8)),
    ("aten::sum", (T(6, 8), None), 47, B * 49),
    ("aten::max", (T(6, 8), 1, False), 42, B * (48 + 6) + 6 * 8),
    ("aten::argmax", (T(6, 8), -1, False), 42, B * 48 + 6 * 8),
    ("aten::copy_", (T(6, 8), T(6, 8), False), 0, B * 96),
    ("aten::copy_", (T(6, 8, dtype="fp32"), T(6, 8), False), 0, 48 * 6),
    ("aten::cat", ((T(6, 8), T(2, 8)), 0), 0, B * 128),
    ("aten::embedding", (T(100, 8), T(2, 3, dtype="int64"), -1, False, False), 0, B * 96 + 6 * 8),
    ("aten::gather", (T(6, 8), 1, T(6, 2, dtype="int64"), False), 0, B * 24 + 12 * 8),
    ("aten::fill_", (T(6, 8), 0), 0, B * 48),
    ("aten::index_select", (T(100, 8), 0, T(5, dtype="int64")), 0, B * 80 + 5 * 8),
    ("aten::constant_pad_nd", (T(2, 3), (1, 1), 0), 0, B * (6 + 10)),
    ("aten::max_pool2d_with_indices", (T(1, 2, 8, 8), (2, 2), (2, 2), (0, 0), (1, 1), False), 3 * 32, B * (128 + 32) + 32 * 8),
    ("aten::_fused_adamw_", ((T(6, 8, dtype="fp32"), T(3, dtype="fp32")),) * 4 + ((), (T(dtype="fp32"),) * 2), 14 * 51, 7 * 4 * 51),
    ("aten::_fused_sgd_", ((T(6, dtype="fp32"),), (T(6, dtype="fp32"),), ()), 12, 3 * 4 * 6),
    ("aten::_foreach_mul_", ((T(6, dtype="fp32"), T(4, dtype="fp32")), 0.9), 10, 2 * 4 * 10),
    ("aten::_foreach_addcdiv_", ((T(6),), (T(6),), (T(6),), 1), 18, 4 * B * 6),
    ("aten::native_dropout", (T(6, 8), 0.1, True), 96, B * 96 + 48),
    ("aten::mse_loss", (T(6, 8), T(6, 8), 1), 3 * 48, B * 97),
    ("aten::_masked_softmax", (T(6, 8), T(6, 8, dtype="bool"), None, None), 5 * 48, B * 96 + 48),
    ("aten::_fft_c2c", (T(6, 8, dtype="complex64"), (1,), 0, True), 5 * 48 * 3, 2 * 8 * 48),
    ("aten::_fft_r2c", (T(6, 8, dtype="fp32"), (1,), 0, True), 2.5 * 48 * 3, 4 * 48 + 8 * 30),
    ("aten::slice_scatter", (T(6, 8), T(2, 8), 0, 0, 2, 1), 0, B * (48 + 16 + 64)),
    ("aten::_cdist_forward", (T(6, 8), T(4, 8), 2.0, None), 24 * 25, B * (48 + 32 + 24)),
    ("flash_attn::_flash_attn_forward", (T(2, 16, 4, 8), T(2, 16, 2, 8), T(2, 16, 2, 8), 0.0, 1.0, False),
     8 * 16 * 16 * (4 * 8 + 5), B * (2 * 8 * 128 + 2 * 4 * 128)),
    ("aten::nll_loss_forward", (T(6, 8), T(6, dtype="int64"), None, 1, -100), 12, B * 8 + 48),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "args", "flops", "moved"), COUNTS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_counts_are_those_of_the_definition(
    name: str, args: tuple[Any, ...], flops: float | None, moved: float
) -> None:
    counted = count(Call(name, args), Settings(leaf=True))
    if flops is None:
        assert (counted.kind, counted.work) == ("unknown", None)
        return
    assert counted.work is not None, counted.reason
    assert counted.work.flops == flops
    assert counted.work.bytes == moved
    assert rl.predict(counted.work, "h200-sxm").time > 0


@pytest.mark.parametrize(
    ("call", "kind", "reason"),
    [
        (Call("aten::foo", (T(3),)), "unknown", "no rule for aten::foo"),
        (Call("mylib::add", (T(3), T(3))), "unknown", "no rule for mylib::add"),
        (Call("mylib::mm", (T(3, 3), T(3, 3))), "unknown", "no rule for mylib::mm"),
        (Call("aten::mm"), "unknown", "shapes were not recorded"),
        (Call("aten::mm", (T(3, 4),)), "unknown", r"argument 1 \(a tensor\) was not recorded"),
        (Call("aten::mm", (T(3, 4), T(5, 4))), "unknown", "no product of matrices"),
        (Call("aten::_foreach_mul_", ((T(3, dtype=""),), 2.0)), "unknown", "format of its tensors was not recorded"),
        (Call("aten::mm", (T(3, 4, dtype="weird"), T(4, 4))), "unknown", "no width is known for the format 'weird'"),
        (Call("aten::add", (T(3, -4), T(3, -4))), "unknown", "no shape of a tensor"),
        (Call("aten::add", (T(3, 4), T(5, 4))), "unknown", "do not broadcast"),
        (Call("aten::topk", (T(3, 4), "")), "unknown", r"argument 1 \(k\) was not recorded"),
        (Call("aten::convolution_backward", (T(1, 1, 3, 3),) * 3), "unknown", r"argument 4 \(stride\) was not recorded"),
        (Call("c10d::allreduce_", ((T(8),), None)), "unknown", "the number of ranks was not recorded"),
        (Call("aten::_flash_attention_forward", (T(9, 2, 8),) * 3 + (T(4, dtype="int32"),) * 2 + (3, 3, 0.0, False, False)),
         "unknown", "sequences packed in one batch"),
        (Call("aten::mm", (T(0, 4), T(4, 4))), "free", ""),
        (Call("aten::addmm", (T(4), T(0, 4), T(4, 4), 1, 1)), "free", ""),
        (Call("aten::view", (T(3, 4), (4, 3))), "free", ""),
        (Call("aten::item", (T(),)), "host", ""),
        (Call("aten::_local_scalar_dense", (T(),)), "host", ""),
        (Call("aten::linear", (T(3, 4), T(4, 4), None)), "wrapper", ""),
        (Call("aten::conv2d", (T(3, 4, 4, 4),)), "wrapper", ""),
        (Call("aten::scaled_dot_product_attention"), "wrapper", ""),
        (Call("aten::cross_entropy_loss"), "wrapper", ""),
        (Call("aten::to"), "wrapper", ""),
        (Call("aten::contiguous"), "wrapper", ""),
        (Call("aten::reshape"), "wrapper", ""),
        (Call("aten::einsum"), "wrapper", ""),
        (Call("autograd::engine::evaluate_function: AddmmBackward0"), "wrapper", ""),
        (Call("AddmmBackward0"), "wrapper", ""),
        (Call("Optimizer.step#AdamW.step"), "wrapper", ""),
    ],
    ids=lambda value: value.name if isinstance(value, Call) else "",
)  # fmt: skip
def test_what_a_call_is_when_it_has_no_count(call: Call, kind: str, reason: str) -> None:
    counted = count(call)
    assert counted.kind == kind
    assert counted.work is None
    assert not reason or re.search(reason, counted.reason), counted.reason


def test_the_kinds_of_names_do_not_overlap() -> None:
    assert not FREE & HOST
    assert not FREE & WRAPPERS
    assert not HOST & WRAPPERS
    assert not (FREE | HOST) & {*RULES}


# -- settings --------------------------------------------------------------------------------------------------------


def test_fp32_products_run_on_the_vector_units_unless_tf32_is_allowed() -> None:
    args = (T(64, 64, dtype="fp32"), T(64, 64, dtype="fp32"))
    plain, tensor = work("aten::mm", *args), work("aten::mm", *args, settings=Settings(tf32=True))
    h200 = rl.machine("h200-sxm")
    assert rl.predict(plain, h200).bounds[0].terms.keys() >= {"vector.fp32"}
    assert rl.predict(tensor, h200).bounds[0].terms.keys() >= {"tensor.tf32"}
    assert plain.bytes == tensor.bytes
    assert work("aten::mm", *args, settings=Settings(tf32=True, device="cpu")).dtype == "fp32"


def test_a_convolution_says_itself_whether_tf32_is_allowed() -> None:
    x, w = T(2, 8, 8, 8, dtype="fp32"), T(8, 8, 3, 3, dtype="fp32")
    args = (x, w, (1, 1), (1, 1), (1, 1), 1, False, False)
    assert work("aten::cudnn_convolution", *args, True).dtype == "tf32"
    assert work("aten::cudnn_convolution", *args, False).dtype == "fp32"


def test_formats_of_lists_come_from_the_other_tensors_or_the_caller() -> None:
    lists = ((T(6, dtype=""), T(4, dtype="")), (T(6, dtype=""), T(4, dtype="")))
    assert count(Call("aten::_foreach_add_", (*lists, 1))).kind == "unknown"
    given = count(Call("aten::_foreach_add_", (*lists, 1)), Settings(dtype="fp32"))
    assert given.work is not None
    assert given.work.bytes == 3 * 4 * 10
    other = count(
        Call("aten::_amp_foreach_non_finite_check_and_unscale_", (lists[0], T(dtype="fp32"), T(dtype="fp32")))
    )
    assert other.work is not None
    assert other.work.bytes == 2 * 4 * 10


def test_attention_names_its_backend_and_sees_half_the_pairs_with_a_mask() -> None:
    q = T(2, 4, 64, 32)
    full = count(Call("aten::_scaled_dot_product_cudnn_attention", (q, q, q, None, True, 0.0, False, False)), leaf=True)
    causal = count(
        Call("aten::_scaled_dot_product_cudnn_attention", (q, q, q, None, True, 0.0, True, False)), leaf=True
    )
    assert (full.backend, causal.backend) == ("cudnn", "cudnn")
    assert full.work is not None
    assert causal.work is not None
    assert causal.work.flops / full.work.flops == pytest.approx(65 / 128)
    assert count(
        Call("aten::_flash_attention_forward", (T(2, 64, 4, 32),) * 3 + (None, None, 64, 64, 0.0, True, False))
    ).work == (count(Call("aten::_scaled_dot_product_flash_attention", (q, q, q, 0.0, True, False)), leaf=True).work)


def test_a_transposed_copy_runs_as_a_transpose() -> None:
    source = T(64, 32, strides=(1, 64))
    moved = work("aten::copy_", T(64, 32, strides=(32, 1)), source, False)
    assert moved.name == "transpose"
    assert moved.bytes == 2 * B * 64 * 32
    assert work("aten::copy_", T(64, 32, strides=(32, 1)), T(64, 32, strides=(32, 1)), False).family == "stream"


def test_channels_last_is_seen_in_the_strides() -> None:
    args = (None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1)
    last = work("aten::convolution", T(2, 8, 8, 8, strides=(512, 1, 64, 8)), T(8, 8, 3, 3), *args)
    first = work("aten::convolution", T(2, 8, 8, 8, strides=(512, 64, 8, 1)), T(8, 8, 3, 3), *args)
    assert (last.kernels[0].op, first.kernels[0].op) == ("nhwc", "nchw")
    assert last.flops == first.flops


# -- collectives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "op", "size", "ranks"),
    [
        (Call("_c10d_functional::all_gather_into_tensor", (T(64), 8, "0")), "all_gather", 64 * B * 8, 8),
        (Call("_c10d_functional::reduce_scatter_tensor", (T(64), "sum", 4, "0")), "reduce_scatter", 64 * B, 4),
        (Call("c10d::_allgather_base_", (T(64), T(8), None)), "all_gather", 64 * B, 8),
        (Call("c10d::_reduce_scatter_base_", (T(8), T(64), None)), "reduce_scatter", 64 * B, 8),
    ],
)
def test_collectives_take_their_ranks_from_the_call(call: Call, op: str, size: float, ranks: int) -> None:
    counted = count(call)
    assert counted.work is not None, counted.reason
    assert (counted.work.name, counted.work.shape["bytes"], counted.work.shape["ranks"]) == (op, size, ranks)


def test_ranks_may_be_given() -> None:
    counted = count(Call("nccl:all_reduce", (T(64),)), Settings(ranks=8))
    assert counted.work is not None
    assert counted.work.name == "all_reduce"
    assert counted.work.shape["bytes"] == 128


# -- launches of lists -----------------------------------------------------------------------------------------------


def by_the_loop(sizes: list[int], lists: int) -> int:
    """The loop of torch's multi_tensor_apply, piece by piece."""
    limit, count, tensors, blocks = (110, 64, 48, 36, 30)[lists - 1], 0, 0, 0
    for size in sizes:
        if not size:
            continue
        tensors += 1
        chunks = -(-size // 65536)
        for chunk in range(chunks):
            blocks += 1
            last = chunk == chunks - 1
            if (tensors == limit and last) or blocks == 320:
                count, blocks = count + 1, 0
                tensors = 0 if last else 1
    return count + (blocks > 0)


@given(st.lists(st.integers(0, 5_000_000), min_size=1, max_size=150), st.integers(1, 5))
def test_lists_take_the_launches_of_torchs_loop(sizes: list[int], lists: int) -> None:
    assert launches(sizes, lists) == max(by_the_loop(sizes, lists), 1)


# -- odd input -------------------------------------------------------------------------------------------------------

VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 100), st.floats(), st.text(max_size=8),
    st.builds(Tensor, st.lists(st.integers(-1, 9), max_size=5).map(tuple), st.sampled_from(["bf16", "fp32", "int64", "bool", "", "complex64"])),
)  # fmt: skip
ARGS = st.lists(st.one_of(VALUES, st.lists(VALUES, max_size=4).map(tuple)), max_size=11).map(tuple)
NAMES = st.one_of(st.sampled_from(sorted(RULES)).map(lambda name: f"aten::{name}"), st.sampled_from(["aten::add", "aten::where", "aten::_foreach_lerp_", "c10d::alltoall_", "nccl:x", "", "::", "aten::"]))  # fmt: skip


@given(NAMES, ARGS, st.booleans())
def test_no_call_raises_and_every_count_can_be_predicted(name: str, args: tuple[Any, ...], leaf: bool) -> None:
    counted = count(Call(name, args), leaf=leaf)
    assert (counted.kind == "work") == (counted.work is not None)
    assert (counted.kind == "unknown") == bool(counted.reason)
    if counted.work is not None:
        assert counted.work.flops >= 0
        assert all(float(size) >= 0 for size in counted.work.moves.values())


# -- coverage --------------------------------------------------------------------------------------------------------


def test_coverage_names_what_is_not_known() -> None:
    calls = [
        Call("aten::add", (T(100), T(100), 1)),
        Call("mylib::op", (T(50),)),
        Call("mylib::op", (T(50),)),
        Call("aten::view", (T(9),)),
    ]
    seen = coverage((call, count(call)) for call in calls)
    assert (seen.calls, seen.known, seen.timed) == (3, 1, False)
    assert seen.share == pytest.approx(2 / 3)
    (row,) = seen.unknown
    assert (row.name, row.calls, row.bytes, row.reason) == ("mylib::op", 2, 200, "no rule for mylib::op")
    assert row.share == pytest.approx(1 / 3)
    timed = coverage((call, count(call), seconds) for call, seconds in zip(calls, (1.0, 4.0, 5.0, 9.0), strict=True))
    assert timed.timed
    assert timed.share == pytest.approx(0.1)
    assert timed.unknown[0].share == pytest.approx(0.9)
    assert "mylib::op x2: 90 % of time" in repr(timed)


# -- lists that profilers leave out ----------------------------------------------------------------------------------


def test_kernels_say_the_format_and_the_pieces_of_a_long_list() -> None:
    name = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor<float, 1, 1, 0>>"
    call = Call("aten::_foreach_mul_", ((), 0.9))
    assert "more than 30" in count(call).reason
    settings = evidence(Settings(), [(name, (320, 1, 1)), (name, (141, 1, 1))])
    assert (settings.dtype, settings.pieces) == ("fp32", 461)
    counted = count(call, settings)
    assert counted.work is not None
    assert counted.work.bytes == 2 * 4 * 461 * 65536
    assert any("upper limit" in note for note in counted.work.notes)
    exact = count(call, Settings(lists=(T(1000, dtype="fp32"), T(24, dtype="fp32"))))
    assert exact.work is not None
    assert exact.work.bytes == 2 * 4 * 1024
    assert not exact.work.notes


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        ("CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int, 4, 64, 64>", "bf16"),
        ("vectorized_elementwise_kernel<4, BinaryFunctor<c10::Half, c10::Half, c10::Half, MulFunctor<float>>>", "fp16"),
        ("multi_tensor_apply_kernel<FusedAdamMathFunctor<double, 4>>", "fp64"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", ""),
    ],
)
def test_template_arguments_name_a_format(kernel: str, dtype: str) -> None:
    assert kernel_format(kernel) == dtype


def test_fused_optimizers_on_long_lists_read_what_their_flags_say() -> None:
    numbers = (1e-3, 0.9, 0.999, 0.01, 1e-8)
    settings = Settings(lists=(T(1000, dtype="fp32"),))
    for amsgrad, passes in ((False, 7), (True, 9)):
        counted = count(Call("aten::_fused_adamw_", ((),) * 6 + (*numbers, amsgrad, False, None, None)), settings)
        assert counted.work is not None
        assert counted.work.bytes == passes * 4000
    for momentum, passes in ((0.0, 3), (0.9, 5)):
        counted = count(Call("aten::_fused_sgd_", ((), (), (), 0.0, momentum, 0.1, 0.0, False, False, False)), settings)
        assert counted.work is not None
        assert counted.work.bytes == passes * 4000


# -- timings that serve ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "key", "label"),
    [
        (Call("aten::add", (T(1 << 20), T(1 << 20), 1)), "stream.add.bf16", "calibrated"),
        (Call("aten::sub", (T(1 << 20), T(1 << 20), 1)), "stream.add.bf16", "calibrated"),  # the same kernel
        (Call("aten::maximum", (T(1 << 20), T(1 << 20))), "stream.add.bf16", "transferred"),
        (Call("aten::rsqrt", (T(1 << 20),)), "stream.exp.bf16", "transferred"),
        (Call("aten::add", (T(1 << 10, 1 << 10), T(1 << 10), 1)), "stream.strided.bf16", "calibrated"),  # indexed element by element
        (Call("aten::roll", (T(1 << 20), (1,), (0,))), "stream.roll.bf16", "calibrated"),
        (Call("aten::index_fill_", (T(1 << 10, 1 << 10), 0, T(64, dtype="int64"), 0)), "stream.strided.bf16", "transferred"),
        (Call("aten::sum", (T(1 << 20), None)), "reduce.sum.bf16", "calibrated"),
        (Call("aten::sum", (T(1 << 10, 1 << 10), (0,), False, None)), "rows-parted.sum_columns.bf16", "calibrated"),
        (Call("aten::sum", (T(1 << 10, 1 << 10, 8), (1,), False, None)), "rows-parted.sum_between.bf16", "calibrated"),
        (Call("aten::argmax", (T(64, 1 << 10), 1, False)), "rows-short.argmax.bf16", "calibrated"),
        (Call("aten::uniform_", (T(1 << 20, dtype="fp32"), 0.0, 1.0)), "stream.dropout.fp32", "transferred"),
        (Call("aten::reciprocal", (T(1, dtype="fp32"),)), "stream.exp.fp32", "transferred"),
    ],
    ids=lambda value: value.name if isinstance(value, Call) else "",
)  # fmt: skip
def test_operators_that_were_never_timed_take_the_timings_of_kernels_built_alike(
    call: Call, key: str, label: str
) -> None:
    counted = count(call)
    assert counted.work is not None
    prediction = rl.predict(counted.work, "h200-sxm")
    (kernel,) = prediction.expected[0].kernels
    assert (str(kernel.selected.key), prediction.expected[0].label) == (key, label)
    assert prediction.high < 20 * prediction.time  # however small the tensors are


@pytest.mark.parametrize(("mask", "op"), [((True, False, False), "dgrad_nchw"), ((False, True, False), "wgrad_nchw")])
def test_gradients_of_convolutions_take_their_own_timings_or_those_of_the_forward_pass(
    mask: tuple[bool, ...], op: str
) -> None:
    x, w = T(8, 64, 32, 32), T(64, 64, 3, 3)
    args = (T(8, 64, 32, 32), x, w, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, mask)
    counted = count(Call("aten::convolution_backward", args))
    assert counted.work is not None
    assert counted.work.flops == 2 * 8 * 64 * 32 * 32 * 64 * 9
    machine = rl.machine("h200-sxm")
    expected = rl.predict(counted.work, machine).expected[0]
    assert ({str(kernel.selected.key) for kernel in expected.kernels}, expected.label) == (
        {f"conv.{op}.bf16"},
        "calibrated",
    )
    untimed = replace(machine, fitted={key: row for key, row in machine.fitted.items() if "grad" not in key.op})
    expected = rl.predict(counted.work, untimed).expected[0]
    assert ({str(kernel.selected.key) for kernel in expected.kernels}, expected.label) == (
        {"conv.nchw.bf16"},
        "transferred",
    )


def test_cudnn_runs_recurrent_layers_in_tf32_where_its_convolutions_may() -> None:
    """The backward pass: the state's matrix once a step; all others, and both gradients of weights, over all steps."""
    steps, batch, width = 10, 4, 16
    x, matrices = T(steps, batch, width, dtype="fp32"), tuple(T(4 * width, width, dtype="fp32") for _ in range(2))
    args = (x, matrices, 4, None, T(1, batch, width), T(1, batch, width), 2, width, 0, 1, False, 0.0, True)
    forward = work("aten::_cudnn_rnn", *args)
    products = 2 * 2 * steps * batch * 4 * width * width
    assert {dtype for engine, dtype, _ in forward.counts if engine == "matrix"} == {"tf32"}
    assert forward.flops == products
    assert work("aten::_cudnn_rnn", *args, settings=Settings(False, False, "cuda", leaf=True)).by_engine() == {
        ("matrix", "fp32"): products
    }
    backward = work("aten::_cudnn_rnn_backward", *args[:2], 4, None, *args[3:6], *(None,) * 7, False)
    assert backward.flops == 2 * products
    assert sorted(step.count for step in backward.steps if step.work.flops) == [1, 1, 1, steps]  # dx, dW, dU; dh


def test_operands_in_another_order_than_the_result_are_read_as_a_transpose_reads() -> None:
    across, plain = T(512, 256, strides=(1, 512)), T(512, 256, strides=(256, 1))
    crossed = work("aten::add", plain, across, 1, outputs=(plain,))
    assert crossed.bytes == work("aten::add", plain, plain, 1, outputs=(plain,)).bytes
    assert [kernel.family for kernel in crossed.kernels] == ["transpose"]
