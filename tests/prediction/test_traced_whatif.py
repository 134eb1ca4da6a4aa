"""Changes of a traced program: each is the prediction of the changed program, and its gain is against the baseline."""

from __future__ import annotations

import pytest

import ridgeline as rl
from ridgeline.core.errors import InputError
from ridgeline.core.trace import INPUT, Trace
from ridgeline.prediction.traced import ProgramPrediction, predict_trace
from ridgeline.prediction.traced.whatif import fp8_product, in_fp8, usual, whatif
from traces import Builder, perceptron

H200 = rl.machine("h200-sxm")


def small() -> ProgramPrediction:
    return predict_trace(perceptron(64, 512), H200)


def test_modes_and_machines_are_predictions_of_the_same_trace() -> None:
    program = small()
    by_name = {item.change: item for item in whatif(program, ["graph", "fused", "machine=b200-sxm"])}
    assert by_name["graph"].wall == predict_trace(program.trace, H200, "graph").wall
    assert by_name["fused"].wall == predict_trace(program.trace, H200, "fused").wall
    assert by_name["machine=b200-sxm"].after.machine.name == "b200-sxm"
    graph = by_name["graph"]
    assert graph.gain == pytest.approx(program.wall - graph.wall)
    assert graph.speedup == pytest.approx(program.wall / graph.wall)
    assert graph.gain > 0.5 * program.wall  # host-bound


def test_the_largest_gain_comes_first_and_the_usual_changes_gain() -> None:
    changes = whatif(small(), ["machine=h200-sxm", "graph"])
    assert [item.change for item in changes] == ["graph", "machine=h200-sxm"]
    assert changes[1].gain == 0
    assert {item.change for item in usual(small())} <= {"graph", "fused"}
    assert usual(small())
    assert not usual(predict_trace(perceptron(64, 512), H200, "graph"))


def test_an_fp8_product_reads_bytes_of_one_and_casts_its_first_factor() -> None:
    work = fp8_product(rl.ops.gemm(m=64, n=512, k=256))
    cast, product = work.steps
    assert float(cast.work.bytes) == 64 * 256 * (2 + 1)
    assert float(product.work.bytes) == 64 * 256 + 256 * 512 + 64 * 512 * 2
    assert float(work.flops) == 2 * 64 * 512 * 256


def test_fp8_is_faster_where_products_are_compute_bound_and_keeps_the_flops() -> None:
    program = predict_trace(perceptron(), H200)
    (change,) = whatif(program, ["fp8"])
    assert 1.2 < (change.speedup or 0) < 2
    assert change.after.flops == program.flops
    assert sum(op.work is not None and op.work.parts != () for op in in_fp8(program.trace).ops) == 6


def test_another_batch_is_compared_for_the_same_samples() -> None:
    def retrace(name: str, value: int) -> tuple[Trace, float]:
        assert name == "batch"
        return perceptron(value, 512), value / 64

    (change,) = whatif(small(), ["batch=256"], retrace)
    assert change.amount == 4
    assert change.gain == pytest.approx(change.before.wall - change.after.wall / 4)


@pytest.mark.parametrize(
    ("text", "says"),
    [("magic", "magic"), ("batch=many", "whole number"), ("batch=4", "whole number"), ("", "no change")],
)
def test_what_cannot_be_done_is_said(text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        whatif(small(), [text])


def test_a_program_without_products_has_nothing_for_fp8() -> None:
    b = Builder()
    b.buffer("x", (8, 8), INPUT)
    b.call("aten::relu", ["x"], ["x"])
    with pytest.raises(InputError, match="no matrix products"):
        whatif(predict_trace(b.trace(), H200), ["fp8"])
