"""Times of operators whose kernels were timed one by one: within a third of what an H200 took, and by the kernel that ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.core.timeline import Call, Tensor
from ridgeline.core.work import Program, Step, Work
from ridgeline.programs.aten import Settings, count

SETTINGS = Settings(False, True, "cuda", leaf=True)


def tensor(*shape: int, dtype: str = "bf16", last: bool = False) -> Tensor:
    strides = tuple(int(np.prod(shape[place + 1 :])) for place in range(len(shape)))
    if last:
        _, channels, height, width = shape
        strides = (channels * height * width, 1, width * channels, channels)
    return Tensor(shape, dtype, strides)


def work(name: str, *args: Any, outputs: tuple[Tensor, ...] = ()) -> Work:
    made = count(Call(name, args, outputs), SETTINGS).work
    assert made is not None
    return made


def microseconds(made: Work) -> float:
    prediction = rl.predict(Program((Step(made.name, made, 1.0),)), rl.machine("h200-sxm"))
    return float(np.max(np.asarray(prediction.time))) * 1e6


def image(dtype: str = "bf16", last: bool = False) -> Tensor:
    return tensor(4, 256, 128, 128, dtype=dtype, last=last)


LARGE = {kind: tensor(4, 256, 256, 256, dtype=kind) for kind in ("fp32", "bf16")}
CASES = [  # what a call took, in us
    (109.4, "aten::native_group_norm_backward", (image(), image(), tensor(4, 32), tensor(4, 32), tensor(256), 4, 256, 16384, 32, (True,) * 3)),
    (117.3, "aten::upsample_nearest2d_backward", (LARGE["bf16"], (256, 256), (4, 256, 128, 128), None, None)),
    (573.6, "aten::upsample_bilinear2d_backward", (LARGE["fp32"], (256, 256), (4, 256, 128, 128), False, None, None)),
    (193.8, "aten::_index_put_impl_", (tensor(40000, 128), (Tensor((400000,), "int64"),), tensor(400000, 128), True, True)),
    (31.8, "aten::index", (tensor(2000, 256), (Tensor((50000,), "int64"),))),
    (917.6, "aten::avg_pool2d_backward", (tensor(64, 256, 28, 28), tensor(64, 256, 56, 56), (2, 2), (), (0, 0), False, True, None)),
    (126.4, "aten::_softmax", (tensor(8, 150, 64, 64, dtype="fp32"), 1, False)),
    (64.2, "aten::convolution", (tensor(64, 128, 56, 56, last=True), tensor(128, 64, 3, 3, last=True), None, (1, 1), (1, 1), (1, 1), False, (0, 0), 2)),
    (100.4, "aten::_scaled_dot_product_cudnn_attention", (*(tensor(48, 12, 197, 64),) * 3, tensor(48, 12, 197, 197), False, 0.0, False, False)),
    (204.2, "aten::_scaled_dot_product_cudnn_attention", (tensor(64, 12, 1, 128), *(tensor(64, 12, 2049, 128),) * 2, tensor(64, 12, 1, 2049), False, 0.0, False, False)),
    (71.7, "aten::_scaled_dot_product_cudnn_attention", (tensor(8, 28, 1, 128), *(tensor(8, 28, 2049, 128),) * 2, tensor(8, 28, 1, 2056), False, 0.0, False, False)),
    # short ones, whose time is no rest of a long one's
    (3.14, "aten::avg_pool2d_backward", (tensor(1, 4, 17, 17), tensor(1, 4, 34, 34), (2, 2), (), (0, 0), False, True, None)),
    (16.26, "aten::upsample_nearest2d_backward", (tensor(6, 1, 116, 116, dtype="fp32"), (116, 116), (6, 1, 29, 29), None, None)),
    (4.16, "aten::mean", (tensor(684, 44, 3, 3, dtype="fp32", last=True), (2, 3), False, None)),
    (4.19, "aten::index", (tensor(1358, 52), (Tensor((7799,), "int64"),))),
    # images, channels or columns one after the other
    (158.1, "aten::grid_sampler_2d", (tensor(128, 376, 8, 8), tensor(128, 8, 8, 2), 0, 0, False)),
    (272.7, "aten::upsample_trilinear3d", (tensor(1, 24, 59, 59, 59), (118, 118, 118), False, 2.0, 2.0, 2.0)),
    (5236, "aten::upsample_linear1d_backward", (tensor(84, 24, 13762), (13762,), (84, 24, 6881), False, 2.0)),
    (92.5, "aten::upsample_nearest1d", (tensor(256, 8, 361, dtype="fp32"), (722,), 2.0)),
    (521.5, "aten::im2col", (tensor(128, 1, 87, 87), (3, 3), (1, 1), (1, 1), (1, 1))),
    (727.9, "aten::cumsum", (tensor(1987, 4263, dtype="fp32"), 0, None)),
    (61.5, "aten::mul", (tensor(68503, 296, dtype="fp32"), Tensor((), "fp32", ()))),
]  # fmt: skip


@pytest.mark.parametrize(("took", "name", "args"), CASES, ids=[f"{name} {took}" for took, name, _ in CASES])
def test_calls_take_what_they_were_timed_at(took: float, name: str, args: tuple[Any, ...]) -> None:
    assert microseconds(work(name, *args)) == pytest.approx(took, rel=0.34)


def test_lists_of_16_bit_tensors_have_an_interval_of_their_own_kernels() -> None:
    """The pool of all streaming kernels told that 2 ms might be 64."""
    tensors = (tensor(2048, 2048),) * 260
    made = rl.predict(work("aten::_foreach_addcdiv_", tensors, tensors, tensors, (1.0,) * 260), rl.machine("h200-sxm"))
    assert float(made.high) < 1.5 * float(made.time)


def test_half_formats_share_their_timings() -> None:
    """fp16 moves as many bytes as bf16: a kernel that was timed in one of them is not priced as another one in the other."""
    times = [
        microseconds(work("aten::mul", tensor(64, 256, 56, 56, dtype=kind), tensor(64, 256, 1, 1, dtype=kind)))
        for kind in ("bf16", "fp16")
    ]
    assert times[0] == pytest.approx(times[1], rel=0.02)


def test_rows_of_a_table_are_taken_by_a_kernel_of_rows() -> None:
    table, places = tensor(1000, 64), Tensor((50,), "int64")
    families = [work("aten::index", table, given).kernels[0].family for given in ((places,), (None, places))]
    assert families == ["rows", "stream"]
    assert work("aten::index", table, (Tensor((1000,), "bool"),)).kernels[0].family == "stream"


def test_a_bias_changes_the_kernels_of_a_product_and_its_label_where_these_were_not_timed() -> None:
    """256 x 64 x 64 in fp32 took an H200 11 us with a bias and 5 us without. From there on the library takes other kernels without a
    bias too, so that half as many rows are compared."""
    x, weights, bias = tensor(128, 64, dtype="fp32"), Tensor((64, 64), "fp32", (1, 64)), tensor(64, dtype="fp32")
    biased, plain = work("aten::addmm", bias, x, weights, 1, 1), work("aten::mm", x, weights)
    assert microseconds(biased) > 1.4 * microseconds(plain)
    assert (biased.flops, biased.bytes) == (plain.flops, plain.bytes + 64 * 4)
    (added,) = work(
        "aten::addmm", tensor(128, 64, dtype="fp32"), x, weights, 1, 1
    ).kernels  # a matrix, read as the results are
    assert (
        replace(added, sizes={name: size for name, size in added.sizes.items() if name != "addend"}) == plain.kernels[0]
    )
    assert added.sizes["addend"] == 4
    for name, label in (("h200-sxm", "calibrated"), ("h100-sxm", "transferred"), ("l40s", "transferred")):
        assert rl.predict(biased, name).expected[0].label == label
    layer = rl.ops.linear(batch=128, in_features=64, out_features=64, dtype="fp32", bias=True)
    assert microseconds(layer) == pytest.approx(microseconds(biased))
    mixed = rl.ops.linear(batch=128, in_features=64, out_features=64, dtype="fp32", bias=np.array([1.0, 0.0]))
    assert list(1e6 * rl.predict(mixed, "h200-sxm").time) == pytest.approx([microseconds(biased), microseconds(plain)])


@pytest.mark.parametrize(
    ("dims", "last", "op"),
    [((0, 2, 3), False, "sum_around"), ((2, 3), False, "sum_rows"), ((2, 3), True, "sum_between"), ((0, 2, 3), True, "sum_columns")],
)  # fmt: skip
def test_sums_take_the_kernel_of_where_their_elements_lie(dims: tuple[int, ...], last: bool, op: str) -> None:
    made = work("aten::sum", tensor(8, 64, 14, 14, last=last), dims, False, None)
    assert [kernel.op for kernel in made.kernels] == [op]


@pytest.mark.parametrize(("channels", "kernels"), [(64, ["_nhwc"]), (12, [""])])
def test_few_channels_that_lie_together_are_blended_one_by_one(channels: int, kernels: list[str]) -> None:
    made = work("aten::upsample_bilinear2d", tensor(2, channels, 8, 8, last=True), (16, 16), False, None, None)
    assert [kernel.op for kernel in made.kernels] == [f"upsample_bilinear2d{layout}" for layout in kernels]


def test_what_a_library_brings_into_order_first_is_a_kernel_more_and_no_more_work() -> None:
    for name, x, args in (
        ("aten::_softmax", (2, 21, 32, 32), (1, False)),
        ("aten::upsample_nearest2d", (2, 3, 32, 32), ((64, 64), None, None)),
    ):
        together, apart = (work(name, tensor(*x, last=last), *args) for last in (True, False))
        assert len(together.kernels) > len(apart.kernels) == 1
        assert (together.flops, together.bytes_at("main")) == (apart.flops, apart.bytes_at("main"))


def test_groups_of_few_sizes_are_taken_as_they_are() -> None:
    """Groups of 32, 64 or 128 channels have one kernel; those of other sizes are padded or cut out first, which takes longer."""

    def grouped(width: int) -> Work:
        x, weights = tensor(16, 8 * width, 28, 28, last=True), tensor(8 * width, width, 3, 3, last=True)
        return work("aten::convolution", x, weights, None, (1, 1), (1, 1), (1, 1), False, (0, 0), 8)

    assert microseconds(grouped(64)) < microseconds(grouped(48))


def test_a_softmax_over_neighbours_is_one_of_rows() -> None:
    assert work("aten::_softmax", tensor(8, 16, 64), 2, False).kernels[0].op == "softmax"
    assert work("aten::_softmax", tensor(8, 16, 64), 1, False).kernels[0].op == "softmax_across"
    assert work("aten::_softmax", tensor(8, 16, 1), 1, False).kernels[0].op == "softmax"


def test_an_expanded_operand_is_not_read_across() -> None:
    """The gradient of a mean repeats a value for every pixel: nothing is transposed."""
    repeated = Tensor((8, 64, 14, 14), "bf16", (64, 1, 0, 0))
    assert work("aten::div", repeated, 196, outputs=(tensor(8, 64, 14, 14),)).kernels[0].family == "stream"


def test_attention_keeps_fp32_where_products_may_run_in_tf32() -> None:
    """PyTorch's kernel took 232 us with and without the flag."""
    q, k = tensor(32, 8, 2048, 32, dtype="fp32"), tensor(32, 8, 32, 32, dtype="fp32")
    call = Call("aten::_scaled_dot_product_efficient_attention", (q, k, k, None, False, 0.0, False))
    made = count(call, Settings(True, True, "cuda", leaf=True)).work
    assert made is not None
    assert made.dtype == "fp32"
    assert microseconds(made) == pytest.approx(231.8, rel=0.34)
