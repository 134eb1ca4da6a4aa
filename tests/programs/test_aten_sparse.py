"""Operators on sparse tensors, and on rows that an index selects."""

from __future__ import annotations

import pytest

from ridgeline.core.timeline import Call, Tensor
from ridgeline.core.work import Work
from ridgeline.programs.aten import Settings, count

ADJACENCY = Tensor((1000, 800), "fp32", (), True, (5000,))
FEATURES = Tensor((800, 16), "fp32", (16, 1))
NODES = Tensor((1000, 16), "fp32", (16, 1))


def work(name: str, *args: object, device: str = "cuda") -> Work:
    counted = count(Call(f"aten::{name}", args), Settings(device=device))
    assert counted.work is not None, counted.reason
    return counted.work


def moved(made: Work) -> float:
    return float(sum(made.moves.values()))


@pytest.mark.parametrize(
    ("name", "args", "addend"),
    [
        ("mm", (ADJACENCY, FEATURES), 0),
        ("addmm", (NODES, ADJACENCY, FEATURES, 0, 1), 0),
        ("_sparse_addmm", (NODES, ADJACENCY, FEATURES, 1, 1), 16000 * 4),
    ],
)
def test_a_sparse_product_counts_what_is_stored(name: str, args: tuple[object, ...], addend: float) -> None:
    """5000 stored elements with two 64-bit places times 16 columns; a dense one would take 1000 x 800 x 16."""
    made = work(name, *args)
    assert made.flops == 2 * 5000 * 16
    assert moved(made) == 5000 * (4 + 2 * 8) + (800 + 1000) * 16 * 4 + addend


def test_coalescing_sorts_places_and_not_the_values_of_each() -> None:
    gradient = Tensor((500, 64), "fp32", (), True, (40, 64))  # of an embedding: 40 rows of 64
    made = work("_coalesce", gradient)
    assert [step.work.shape.get("cols") for step in made.steps] == [40, None]
    assert work("mul", gradient, 2.0).flops == 40 * 64


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("mm", (Tensor((9, 9), "fp32", (), True), FEATURES), "how much it stores was not recorded"),
        ("relu", (Tensor((9, 9), "fp32", (), True),), "how much it stores was not recorded"),
        ("softmax_", (ADJACENCY,), "of sparse tensors is not counted"),
        ("mm", (ADJACENCY, ADJACENCY), "products of two sparse tensors"),
    ],
)
def test_what_is_not_known_of_sparse_tensors_is_not_counted_as_dense(
    name: str, args: tuple[object, ...], reason: str
) -> None:
    counted = count(Call(f"aten::{name}", args))
    assert counted.work is None
    assert reason in counted.reason


def test_values_that_are_added_at_unrecorded_indices_say_how_many_there_are() -> None:
    """x[i] += v of 30 rows: v and a place for each row read, 30 rows read and written; a GPU sorts the places first."""
    x, values = Tensor((100, 8), "fp32", (8, 1)), Tensor((30, 8), "fp32", (8, 1))
    made = work("_index_put_impl_", x, None, values, True, True)
    assert moved(made) == 30 * 8 * 4 + 30 * 8 + 2 * 30 * 8 * 4
    assert next(kernel.op for kernel in made.kernels) == "sort"
    assert [kernel.op for kernel in work("_index_put_impl_", x, None, values, True, True, device="cpu").kernels] == [
        "index_put_adding"
    ]
    one = count(Call("aten::_index_put_impl_", (x, None, Tensor((), "fp32"), False, True)))
    assert one.work is None  # a number says nothing of how many elements it is written to


def test_an_index_repeated_along_rows_takes_entire_rows() -> None:
    table = Tensor((100, 8), "fp32", (8, 1))
    rows, elements = Tensor((30, 8), "int64", (1, 0)), Tensor((30, 8), "int64", (8, 1))
    assert [kernel.op for kernel in work("gather", table, 0, rows, False).kernels] == ["embedding"]
    assert [kernel.op for kernel in work("gather", table, 0, elements, False).kernels] == ["gather"]


def test_a_range_is_as_long_as_its_numbers_say_where_its_result_is_still_empty() -> None:
    assert moved(work("arange", 0, 1000, 1, Tensor((0,), "int64", (1,)))) == 8000
