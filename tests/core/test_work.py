"""The algebra of Work and Program by example; the laws over all ops are in test_laws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.work import Program, Step, Work, only_if, total, work
from ridgeline.programs import ops


@pytest.fixture
def product() -> Work:
    """C[2,3] = A[2,5] B[5,3] in bf16: 60 flops; 20 + 30 read, 12 written."""
    return ops.gemm(2, 3, 5)


@pytest.fixture
def activation() -> Work:
    """y = max(x, 0) over the 6 elements of that C: 6 flops; 12 read, 12 written."""
    return ops.relu(6)


def test_nothing_is_zero() -> None:
    nothing = Work()
    assert (nothing.flops, nothing.bytes, nothing.footprint, nothing.levels()) == (0, 0, 0, [])
    with pytest.raises(InputError, match="moves no bytes"):
        nothing.intensity()


def test_totals(product: Work) -> None:
    assert product.flops == 60
    assert (product.bytes_at("main", "read"), product.bytes_at("main", "write"), product.bytes) == (50, 12, 62)
    assert product.intensity() == pytest.approx(60 / 62)
    assert product.footprint == 62
    assert product.bytes_at("l2") == 0
    with pytest.raises(InputError, match="gemm moves no bytes at level 'l2'"):
        product.intensity("l2")


def test_an_updated_tensor_is_resident_once() -> None:
    """axpy reads x and y and writes y: 3n words move, 2n are held (C-04)."""
    axpy = ops.axpy(10, dtype="fp32")
    assert (axpy.bytes, axpy.footprint) == (120, 80)


def test_no_flops_give_intensity_zero() -> None:
    assert ops.copy(10).intensity() == 0


def test_flops_stay_apart_by_engine_and_label() -> None:
    layer = ops.linear(2, 5, 3, bias=True)
    assert layer.counts == {("matrix", "bf16", "multiply-add"): 60, ("vector", "bf16", "bias"): 6}
    assert layer.by_engine() == {("matrix", "bf16"): 60, ("vector", "bf16"): 6}


def test_formulas_explain_every_addend(product: Work) -> None:
    assert product.formulas["matrix", "bf16", "multiply-add"] == "2 m n k"
    assert product.formulas["main", "A", "read"] == "m k x 2 B"
    assert set(product.formulas) == set(product.counts) | set(product.moves)


def test_one_after_the_other(product: Work, activation: Work) -> None:
    both = product + activation
    assert (both.flops, both.bytes) == (66, 86)
    assert both.waits == {"launch": 2}
    assert both.footprint == 62  # the second may reuse what the first held
    assert both.name == "gemm + relu"
    assert (product + product).name == "gemm"


def test_again_and_again(product: Work) -> None:
    thrice = product.repeat(3)
    assert (thrice.flops, thrice.bytes, thrice.waits, thrice.footprint) == (180, 186, {"launch": 3}, 62)


def test_many_at_once(product: Work) -> None:
    four = product.batch(4)
    assert (four.flops, four.bytes, four.waits, four.footprint) == (240, 248, {"launch": 1}, 248)
    assert four.bytes == ops.bmm(4, 2, 3, 5).bytes


def test_special_results_travel_along() -> None:
    """The special functions of a softmax survive +, repeat, batch and fuse."""
    softmax, other = ops.softmax(2, 3), ops.exp(6)
    assert softmax.special == 6 + 2  # one exp per element, one reciprocal per row
    assert (softmax + other).special == 14
    assert (softmax.repeat(2).special, softmax.batch(2).special) == (16, 16)
    assert softmax.fuse(other, "y", "x").special == 14


def test_rename_tells_tensors_apart(product: Work) -> None:
    first = product.rename("q")
    assert first.name == "q.gemm"
    assert set(first.moves) == {
        ("main", f"q.{name}", way) for name, way in (("A", "read"), ("B", "read"), ("C", "write"))
    }
    assert first.formulas["main", "q.A", "read"] == "m k x 2 B"
    assert first.formulas["matrix", "bf16", "multiply-add"] == "2 m n k"
    assert (first.flops, first.bytes, first.footprint) == (product.flops, product.bytes, product.footprint)
    apart = first + product.rename("k")
    assert len(apart.moves) == 6
    assert len((product + product).moves) == 3
    assert Work().rename("x").name == "x"


def test_fusing_saves_the_round_trip(product: Work, activation: Work) -> None:
    """C stays on chip: its write (12 B) and its read (12 B) are gone, the flops are not; one launch is left."""
    fused = product.fuse(activation, "C", "x")
    assert (fused.flops, fused.bytes) == (66, 62 + 24 - 24)
    assert fused.waits == {"launch": 1}
    assert ("main", "C", "write") not in fused.moves
    assert ("main", "x", "read") not in fused.moves
    assert fused.footprint == 20 + 30 + 12  # A, B and y
    assert "fused through C" in fused.notes


def test_keeping_the_intermediate(product: Work, activation: Work) -> None:
    """A backward pass wants C: it is written still, and not read back."""
    kept = product.fuse(activation, "C", "x", keep=True)
    assert kept.bytes == 62 + 24 - 12
    assert kept.moves["main", "C", "write"] == 12
    assert kept.footprint == 20 + 30 + 12 + 12


def test_norm_into_product() -> None:
    """RMSNorm fused into the layer after it: one write and one read of the activation less (S0-73, S2-33)."""
    norm, layer = ops.rmsnorm(8, 16), ops.linear(8, 16, 32)
    saved = (norm + layer).bytes - norm.fuse(layer, "y", "x").bytes
    assert saved == 8 * 16 * 2 + 8 * 16 * 2


@pytest.mark.parametrize(
    ("through", "into", "words"),
    [("D", "x", "gemm does not write 'D'; it writes C"), ("A", "x", "does not write 'A'"),
     ("C", "z", "relu does not read 'z'; it reads x"), ("C", None, "relu does not read 'C'")],
)  # fmt: skip
def test_what_cannot_be_fused(product: Work, activation: Work, through: str, into: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        product.fuse(activation, through, into)


def test_arrays_broadcast() -> None:
    m = np.array([[1.0], [2.0]])
    n = np.array([[1.0, 2.0, 3.0]])
    grid = ops.gemm(m, n, 5)
    np.testing.assert_array_equal(grid.flops, 10 * m * n)
    np.testing.assert_array_equal(grid.bytes, 2 * (5 * m + 5 * n + m * n))
    np.testing.assert_array_equal((grid + ops.relu(3)).flops, 10 * m * n + 3)
    np.testing.assert_array_equal(grid.repeat(np.array([1.0, 2.0, 3.0])).flops, 10 * m * n * [1, 2, 3])


def test_work_from_a_definition() -> None:
    made = work(
        matrix={"a": (6.0, "6"), "none": (0.0, "0")},
        vector={"b": (4.0,)},
        read={"x": (8.0, "fp32", "8"), "y": (0.0, "fp32", "0")},
        write={"z": (2.0, "int4_g128", "2")},
        inner_read={"l1": {"x": (80.0, "fp32", "80")}},
        dtype="fp32",
    )
    assert made.counts == {("matrix", "fp32", "a"): 6, ("vector", "fp32", "b"): 4}  # what does not apply is left out
    assert made.moves == {("main", "x", "read"): 32, ("main", "z", "write"): 1.03125, ("l1", "x", "read"): 320}
    assert made.waits == {"launch": 1}
    assert made.levels() == ["main", "l1"]
    assert work(waits={}).waits == {}


def test_helpers() -> None:
    assert total([]) == 0
    np.testing.assert_array_equal(total([1.0, np.array([1.0, 2.0])]), [2, 3])
    assert (only_if(1.0, 5.0), only_if(0.0, 5.0)) == (5, 0)
    np.testing.assert_array_equal(only_if(np.array([0.0, 1.0]), 5.0), [0, 5])


def test_a_program_adds_its_steps_up(product: Work, activation: Work) -> None:
    layer = Program((Step("up", product), Step("act", activation)), "layer")
    assert [step.name for step in layer.steps] == ["up", "act"]
    assert (layer.total().flops, layer.total().bytes, layer.total().name) == (66, 86, "layer")
    twice = layer + layer
    assert (len(twice.steps), twice.total().flops) == (4, 132)
    assert twice.total().footprint == 62
    counted = Program((Step("up", product, 10),), "ten")
    assert (counted.total().flops, counted.total().waits, counted.total().footprint) == (600, {"launch": 10}, 62)
    assert Program().total().flops == 0


def test_shape_and_family_stand_on_the_work() -> None:
    made = ops.attention(1, 2, 3, 4, causal=True)
    assert (made.name, made.family, made.dtype) == ("attention", "attention", "bf16")
    assert made.shape == {"batch": 1, "heads": 2, "seq_q": 3, "head_dim": 4, "causal": 1}


# -- corners that were wrong once --------------------------------------------------------------------------------


def test_fusing_after_an_update_in_place() -> None:
    """relu(scal(x)): x is read and y written, 2 x 10 elements of 2 bytes."""
    fused = ops.scal(10).fuse(ops.relu(10), "x")
    assert fused.bytes == 40
    assert fused.footprint == 40


@pytest.mark.parametrize("factor", [-1, float("nan"), float("inf"), np.array([1.0, -2.0])])
def test_work_is_multiplied_by_what_is_finite_and_not_negative(product: Work, factor: Any) -> None:
    """Less than nothing takes a negative time, which no machine does."""
    changes = product.repeat, product.batch, lambda value: product.scaled(value, 1.0)
    for change in changes:
        with pytest.raises(InputError, match="takes finite numbers "):
            change(factor)
    with pytest.raises(InputError, match="batch takes finite numbers above 0, got 0"):
        product.batch(0)
