"""What changes of a traced program bring: each is the program predicted again, with its gain in wall time."""

from __future__ import annotations

import pytest

import ridgeline as rl
from ridgeline.core.documents import to_document
from ridgeline.core.errors import UnknownName
from ridgeline.core.trace import INPUT, LIBRARY, PARAMETER, REDUCTION, Trace
from ridgeline.prediction.traced import predict_trace, program_changes
from ridgeline.prediction.traced.attention_chains import attention_chains, with_fused_attention
from ridgeline.prediction.traced.whatif import ProgramChange
from traces import Builder

H200 = rl.machine("h200-sxm")
HEADS, SEQ, HEAD = 64, 1024, 64


def block(rows: int = 4096, width: int = 4096) -> Trace:
    """Two products with an activation in between."""
    b = Builder()
    b.buffer("x", (rows, width), INPUT)
    b.buffer("w", (width, width), PARAMETER)
    for name in ("h", "a"):
        b.buffer(name, (rows, width))
    b.buffer("y", (rows, width), INPUT)
    b.call("aten::mm", ["x", "w"], ["h"], sort=LIBRARY)
    b.call("aten::relu", ["h"], ["a"])
    b.call("aten::mm", ["a", "w"], ["y"], sort=LIBRARY)
    return b.trace()


def attention(causal_mask: bool = False) -> Trace:
    """Scores, a scale, a softmax and the product with the values, call by call."""
    b = Builder()
    b.buffer("q", (HEADS, SEQ, HEAD), INPUT)
    b.buffer("kt", (HEADS, HEAD, SEQ), INPUT)
    b.buffer("v", (HEADS, SEQ, HEAD), INPUT)
    for name in ("scores", "scaled", "weights"):
        b.buffer(name, (HEADS, SEQ, SEQ))
    b.buffer("out", (HEADS, SEQ, HEAD), INPUT)
    b.call("aten::bmm", ["q", "kt"], ["scores"], sort=LIBRARY)
    b.call("aten::mul", ["scores"], ["scaled"], further=(0.125,))
    b.call("aten::_softmax", ["scaled"], ["weights"], sort=REDUCTION, further=(-1, False))
    b.call("aten::bmm", ["weights", "v"], ["out"], sort=LIBRARY)
    return b.trace()


def named(rows: tuple[ProgramChange, ...]) -> dict[str, ProgramChange]:
    return {row.name: row for row in rows}


def test_each_change_is_the_program_predicted_again() -> None:
    trace = block()
    rows = named(program_changes(trace, H200, machines=["l4"]))
    assert set(rows) == {"graph", "compile", "fp8", "attention", "l4"}
    assert rows["graph"].wall == predict_trace(trace, H200, mode="graph").wall
    assert rows["compile"].wall == predict_trace(trace, H200, mode="fused").wall
    assert rows["l4"].wall == predict_trace(trace, "l4").wall
    assert rows["l4"].gain is not None
    assert rows["l4"].gain < 0
    assert "no attention" in rows["attention"].reason
    assert rows["attention"].gain is None


def test_fp8_halves_large_products_and_pays_for_quantizing() -> None:
    row = named(program_changes(block(8192, 8192), H200, names=["fp8"]))["fp8"]
    assert row.speedup is not None
    assert 1.3 < row.speedup < 2.0
    assert row.after is not None
    assert row.after.flops == pytest.approx(row.before.flops, rel=1e-3)  # quantizing adds two flops per activation
    assert row.after.kernels == row.before.kernels + 2


def test_fp8_is_refused_where_there_is_no_engine_for_it() -> None:
    row = named(program_changes(block(), "a100-sxm-80gb", names=["fp8"]))["fp8"]
    assert "fp8" in row.reason


def test_separate_calls_of_attention_become_one_kernel() -> None:
    trace = attention()
    (chain,) = attention_chains(trace)
    assert chain.calls == (0, 1, 2, 3)
    fused = predict_trace(with_fused_attention(trace), H200)
    alone = rl.predict(rl.ops.attention(batch=1, heads=HEADS, seq_q=SEQ, head_dim=HEAD), H200)
    assert fused.time / fused.slowdown == pytest.approx(float(alone.time), rel=0.3)  # less what is found in L2
    assert fused.kernels == 1
    assert fused.bytes == pytest.approx(float(alone.bytes))
    row = named(program_changes(trace, H200, names=["attention"]))["attention"]
    assert row.gain is not None
    assert row.gain > 0


def test_scores_that_something_else_reads_are_no_chain() -> None:
    b = Builder()
    for name, shape in (("q", (8, 64, 64)), ("kt", (8, 64, 64)), ("v", (8, 64, 64))):
        b.buffer(name, shape, INPUT)
    for name in ("scores", "weights", "copy", "out"):
        b.buffer(name, (8, 64, 64))
    b.call("aten::bmm", ["q", "kt"], ["scores"], sort=LIBRARY)
    b.call("aten::_softmax", ["scores"], ["weights"], sort=REDUCTION, further=(-1, False))
    b.call("aten::relu", ["scores"], ["copy"])
    b.call("aten::bmm", ["weights", "v"], ["out"], sort=LIBRARY)
    assert attention_chains(b.trace()) == []


def test_a_larger_batch_is_compared_per_unit_of_it() -> None:
    small = block(rows=16)
    rows = program_changes(small, H200, names=[], batches={4.0: lambda: block(rows=64)})
    (row,) = rows
    assert row.name == "batch x4"
    assert row.wall == pytest.approx(predict_trace(block(rows=64), H200).wall / 4)
    assert row.gain is not None
    assert row.gain > 0


def test_rows_are_ranked_and_documented() -> None:
    rows = program_changes(block(), H200)
    gains = [row.gain for row in rows if row.gain is not None]
    assert gains == sorted(gains, reverse=True)
    document = to_document(rows[0])
    assert {"name", "what", "wall_us", "gain_us", "speedup"} <= set(document)
    with pytest.raises(UnknownName):
        program_changes(block(), H200, names=["magic"])
