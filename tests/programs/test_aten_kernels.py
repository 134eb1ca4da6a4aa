"""Which timed kernel an operator call runs: by layout, by scalars among its operands, by lists that were not recorded."""

from __future__ import annotations

from math import prod

import pytest

from ridgeline.core.timeline import Call, Tensor
from ridgeline.core.work import Work
from ridgeline.programs import ops
from ridgeline.programs.aten import Settings, count, evidence


def image(batch: int, channels: int, side: int, dtype: str = "bf16", last: bool = True) -> Tensor:
    shape = (batch, channels, side, side)
    strides = (prod(shape[1:]), 1, side * channels, channels) if last else (prod(shape[1:]), side * side, side, 1)
    return Tensor(shape, dtype, strides)


def work(name: str, *args: object, settings: Settings | None = None) -> Work:
    counted = count(Call(name, args), settings or Settings())
    assert counted.work is not None, counted.reason
    return counted.work


def test_sums_over_the_pixels_of_images_are_sums_of_columns_where_channels_are_last() -> None:
    """The bias gradient of a convolution: 2 x 8 x 8 values of each of 16 channels."""
    last, first = (work("aten::sum", image(2, 16, 8, last=last), (0, 2, 3), False) for last in (True, False))
    (columns,), (timed,) = last.kernels, ops.sum_columns(rows=128, cols=16, dtype="bf16").kernels
    assert (columns.op, columns.sizes) == (timed.op, timed.sizes)
    assert [kernel.op for kernel in first.kernels] == ["sum_around"]  # pixels inside, images outside
    assert last.moves == first.moves
    rows = work("aten::sum", image(2, 16, 8), (1,), False)
    assert (rows.kernels[0].op, rows.shape) == ("sum_rows", {"rows": 128, "cols": 16})


def test_images_with_channels_last_are_joined_by_a_kernel_of_their_own() -> None:
    joined = work("aten::cat", (image(2, 16, 8), image(2, 24, 8)), 1)
    assert [kernel.op for kernel in joined.kernels] == ["cat_images"]
    assert joined.bytes == 2 * 2 * 40 * 128
    (timed,) = ops.concatenate(rows=128, cols=20, parts=2, layout="nhwc").kernels
    assert timed.sizes == joined.kernels[0].sizes
    mixed = work("aten::cat", (image(2, 16, 8), image(2, 16, 8, last=False)), 1)
    assert [kernel.op for kernel in mixed.kernels] == ["stack_strided"]


def test_a_number_among_tensors_is_repeated() -> None:
    flags, values = Tensor((1, 64), "bool", (64, 1)), Tensor((1, 64), "bf16", (64, 1))
    assert work("aten::where", flags, Tensor((), "bf16"), Tensor((), "bf16")).kernels[0].op == "strided"
    assert work("aten::where", flags, values, values).kernels[0].op == "where"  # a mask is loaded as it is


def test_what_is_written_at_indices_is_indexed_element_by_element() -> None:
    cache, rows, index = Tensor((8, 12, 64, 16), "bf16"), Tensor((8, 12, 1, 16), "bf16"), Tensor((1,), "int64")
    copied = work("aten::index_copy_", cache, 2, index, rows)
    assert (copied.kernels[0].like, copied.kernels[0].sizes["elements"]) == ("strided", 8 * 12 * 16)
    assert copied.bytes == 2 * 2 * 8 * 12 * 16 + 8


@pytest.mark.parametrize(("sizes", "largest"), [((100_000, 64), 100_000), ((64,) * 20, 64)])
def test_a_launch_over_a_list_takes_as_long_as_the_largest_piece(sizes: tuple[int, ...], largest: int) -> None:
    tensors = tuple(Tensor((size,), "fp32") for size in sizes)
    (kernel,) = work("aten::_foreach_mul_", tensors, 0.9).kernels
    assert (kernel.like, kernel.sizes["largest"], kernel.sizes["elements"]) == ("sgd", largest, sum(sizes))


def test_adam_reads_the_gradients_it_squares_once() -> None:
    lists = Settings(lists=(Tensor((1000,), "fp32"),))
    assert work("aten::_foreach_addcmul_", (), (), (), 0.1, settings=lists).bytes == 3 * 4 * 1000
    given = (Tensor((1000,), "fp32"),)
    assert (
        work("aten::_foreach_addcmul_", given, given, given, 0.1).bytes == 4 * 4 * 1000
    )  # three lists that were recorded


def test_a_join_of_a_list_that_was_not_recorded_is_at_least_its_launches() -> None:
    kernel = "void at::native::(anonymous namespace)::CatArrayBatchedCopy_alignedK_contig<at::native::OpaqueType<4u>, unsigned int>"
    settings = evidence(Settings(), [(kernel, (2, 128, 1)), (kernel, (2, 73, 1))])
    joined = work("aten::cat", (), 0, settings=settings)
    assert (joined.bytes, joined.waits["launch"]) == (2 * 4 * 201, 2)
    assert any("lower limit" in note for note in joined.notes)
    assert count(Call("aten::cat", ((), 0)), Settings()).work is None


def test_a_recurrent_layer_multiplies_by_transposed_matrices_backward_and_takes_packed_sequences() -> None:
    """12 vectors of 4 sequences: 3 steps; 8 gates, 2 states. cuDNN's arguments between the weights and the mode are states."""
    weights = tuple(Tensor(shape, "bf16") for shape in ((8, 5), (8, 2), (8,), (8,)))
    states = Tensor((1, 4, 2), "bf16", (8, 2, 1))
    padded, packed = (Tensor(shape, "bf16") for shape in ((3, 4, 5), (12, 5)))
    every = (None, None, states, states, 2, 2, 0, 1, False)
    made = [work("aten::_cudnn_rnn", x, weights, *every) for x in (padded, packed)]
    assert made[0].flops == made[1].flops == 2 * 12 * 8 * (5 + 2)
    backward = work("aten::_cudnn_rnn_backward", packed, weights, None, None, states)
    assert backward.flops == 2 * made[0].flops
    assert [step.work.shape.get("n") for step in backward.steps if step.work.name == "gemm"] == [5, 5, 2, 2]


@pytest.mark.parametrize(
    ("name", "args", "flops", "moved"),
    [
        # 4 sequences of 2 states: gates and sums of gates, c and biases read; h, c and the gates written
        ("_thnn_fused_lstm_cell", ((4, 8), (4, 8), (4, 2), (8,), (8,)), (12 + 9) * 8, 32 + 32 + 8 + 16 + 8 + 8 + 32),
        ("_thnn_fused_lstm_cell", ((4, 8), (4, 8), (4, 2)), (4 + 9) * 8, 32 + 32 + 8 + 8 + 8 + 32),
        ("_thnn_fused_lstm_cell_backward_impl", ((4, 2), None, (4, 2), (4, 2), (4, 8)), 22 * 8, 3 * 8 + 32 + 32 + 8),
        ("_thnn_fused_gru_cell", ((4, 6), (4, 6), (4, 2)), (3 + 8) * 8, 24 + 24 + 8 + 8 + 40),
        ("_thnn_fused_gru_cell_backward", ((4, 2), (4, 10)), 17 * 8, 8 + 40 + 2 * 24 + 8),
    ],
)
def test_cells_of_recurrent_layers(name: str, args: tuple[tuple[int, ...] | None, ...], flops: int, moved: int) -> None:
    made = work(f"aten::{name}", *(shape and Tensor(shape, "fp32") for shape in args))
    assert made.flops == flops
    assert sum(made.moves.values()) == 4 * moved


def test_complex_products_take_four_real_ones_and_transforms_a_pass_for_every_dimension() -> None:
    a, b = Tensor((3, 4, 5), "complex64"), Tensor((3, 5, 6), "complex64")
    made = work("aten::bmm", a, b)
    assert made.flops == 8 * 3 * 4 * 5 * 6
    assert sum(made.moves.values()) == 8 * 3 * (4 * 5 + 5 * 6 + 4 * 6)
    single = work("aten::mm", Tensor((4, 5), "complex64"), Tensor((5, 6), "complex64"))
    assert (single.flops, sum(single.moves.values())) == (8 * 120, 8 * (20 + 30 + 24))
    planes = work("aten::_fft_c2c", Tensor((2, 8, 8), "complex64"), (1, 2), 0, True)
    assert sum(planes.moves.values()) == 2 * 128 * 8
    assert (planes.kernels[0].sizes["read"], planes.kernels[0].sizes["launches"]) == (2 * 128 * 8, 2.0)


@pytest.mark.parametrize(
    ("a_strides", "b_strides", "timed"),
    [
        ((1, 64), (32, 1), 2648),  # rows along m and n: k is the pitch of neither
        ((2645, 1), (32, 1), 2645),  # rows of A along k, which are not aligned
        ((1, 64), (1, 2645), 2645),
        ((1, 65), (32, 1), 2645),  # its own rows are not aligned
        ((), (), 2645),
    ],
)
def test_an_odd_k_is_slow_only_where_rows_lie_along_it(
    a_strides: tuple[int, ...], b_strides: tuple[int, ...], timed: int
) -> None:
    """The gradient of weights from an odd number of tokens: counts are those of its shape, its kernel that of aligned rows."""
    a, b = Tensor((64, 2645), "bf16", a_strides), Tensor((2645, 32), "bf16", b_strides)
    made = work("aten::mm", a, b)
    assert made.flops == 2 * 64 * 32 * 2645
    assert made.kernels[0].sizes["k"] == timed
    batch = [Tensor((3, *x.shape), x.dtype, (9999, *x.strides) if x.strides else ()) for x in (a, b)]
    assert work("aten::bmm", *batch).kernels[0].sizes["k"] == timed


def test_bags_of_an_embedding_are_sorted_and_added_up_on_a_gpu() -> None:
    args = tuple(Tensor(shape, dtype) for shape, dtype in (((4, 8), "fp32"), ((20,), "int64"), ((4,), "int64")))
    call = (*args, None, None, 1000, False)
    on_gpu, on_cpu = (
        work("aten::_embedding_bag_dense_backward", *call, settings=Settings(device=each)) for each in ("cuda", "cpu")
    )
    assert on_gpu.moves == on_cpu.moves
    assert [kernel.op for kernel in on_gpu.kernels] == ["sort", "index_put_by_rows"]
    assert [kernel.op for kernel in on_cpu.kernels] == ["embedding_backward"]
    around = Call("aten::_embedding_bag_backward", (*args, *call[2:]))
    assert count(around).kind == "wrapper"
    assert count(around, leaf=True).work == on_gpu


def test_a_result_that_is_still_empty_becomes_as_large_as_its_operands() -> None:
    made = work("aten::abs", Tensor((32, 8), "fp32", (8, 1)), Tensor((0,), "fp32", (1,)))
    assert sum(made.moves.values()) == 2 * 32 * 8 * 4


def test_the_gradient_of_sampling_reads_and_writes_images_and_grid() -> None:
    dy, x, grid = (Tensor(shape, "fp32") for shape in ((2, 3, 8, 8), (2, 3, 16, 16), (2, 8, 8, 2)))
    made = work("aten::grid_sampler_2d_backward", dy, x, grid, 0, 0, False, (True, True))
    assert sum(made.moves.values()) == 4 * (384 + 2 * 1536 + 2 * 256)
    assert made.flops == 22 * 384
