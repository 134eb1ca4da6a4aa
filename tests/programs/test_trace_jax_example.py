"""The JAX transformer of the examples: its targets trace, and its flops are those of its sizes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ridgeline.core.trace import HOLDS, Trace
from ridgeline.programs.trace.jax_trace import trace_jax

pytest.importorskip("jax")
FOLDER = Path(__file__).parents[2] / "examples" / "programs"


@pytest.fixture(scope="module")
def example() -> Any:
    sys.path.insert(0, str(FOLDER))
    try:
        import jax_transformer
    finally:
        sys.path.remove(str(FOLDER))
    return jax_transformer


def products(trace: Trace) -> float:
    return sum(
        count * sum(float(value) for (engine, _, _), value in op.work.counts.items() if engine == "matrix")
        for op, count in zip(trace.ops, trace.counts, strict=True)
        if op.work is not None
    )


def held(trace: Trace, kind: str) -> float:
    return float(trace.buffers.size[trace.buffers.holds == HOLDS.index(kind)].sum())


def layer_weights(sizes: Any) -> int:
    kv = sizes.kv_heads * sizes.head
    return int(sizes.width * (2 * sizes.width + 2 * kv + 3 * sizes.inner))


def test_prefill_has_two_flops_per_weight_and_token_and_four_per_visible_pair_and_head_element(example: Any) -> None:
    sizes = example.LLAMA_1B
    function, args = example.prefill()
    trace = trace_jax(function, args)
    tokens = sizes.batch * sizes.sequence
    pairs = sizes.batch * sizes.heads * sizes.sequence * (sizes.sequence + 1) / 2
    weights = sizes.layers * layer_weights(sizes) + sizes.width * sizes.vocabulary
    assert products(trace) == 2 * tokens * weights + sizes.layers * 4 * sizes.head * pairs
    assert not trace.uncounted
    scale = 2 * (sizes.layers * (layer_weights(sizes) + 2 * sizes.width) + sizes.width * (sizes.vocabulary + 1))
    assert held(trace, "parameter") == scale


def test_a_training_step_computes_every_layer_four_times_and_the_head_three_times(example: Any) -> None:
    """Forward, again for the checkpoint, and two products per weight backward; attention has five products backward for two."""
    sizes = example.Sizes(layers=3, width=128, heads=8, kv_heads=2, inner=256, vocabulary=1000, batch=2, sequence=64)
    function, args = example.train(sizes)
    trace = trace_jax(function, args)
    tokens = sizes.batch * sizes.sequence
    pairs = sizes.batch * sizes.heads * sizes.sequence * (sizes.sequence + 1) / 2
    linear = 4 * 2 * tokens * sizes.layers * layer_weights(sizes)
    head = 3 * 2 * tokens * sizes.width * sizes.vocabulary
    # the last product of a layer is not needed to differentiate it, so the checkpoint computes all but `down` again
    spared = 2 * tokens * sizes.layers * sizes.inner * sizes.width
    attention = sizes.layers * (4 + 4 + 10) * sizes.head * pairs
    assert products(trace) == linear + head - spared + attention
    assert not trace.uncounted
    phases = {op.site.phase for op in trace.ops}
    assert phases == {"forward", "backward", "optimizer"}
    assert held(trace, "gradient") > 0
    assert held(trace, "state") == 2 * 2 * held(
        trace, "parameter"
    )  # fp32 twice for bf16, and both before and after the step


def test_every_op_of_the_example_has_a_line_of_it(example: Any) -> None:
    sizes = example.Sizes(layers=2, width=64, heads=4, kv_heads=2, inner=128, vocabulary=100, batch=1, sequence=16)
    function, args = example.train(sizes)
    trace = trace_jax(function, args)
    sources = [op.site.source.partition(":")[0] for op in trace.ops if op.work is not None]
    assert {Path(source).name for source in sources} == {"jax_transformer.py"}
