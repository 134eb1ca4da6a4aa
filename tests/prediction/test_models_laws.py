"""Laws of models at scale: the smallest cases that the wide run of `benchmarks/models/laws.py` found broken, and a few of its questions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import ridgeline as rl
from ridgeline.prediction.models.memory import device_cache, device_weights
from ridgeline.prediction.models.step import predict_steps
from ridgeline.prediction.models.training import LIGHT, Job, predict_training
from ridgeline.programs.models.layout import Layout, stages
from ridgeline.programs.models.load import architecture
from ridgeline.programs.models.parameters import kv_bytes_per_token, weight_bytes
from ridgeline.programs.models.phase import Formats, train
from ridgeline.programs.models.program import stage_ops

BENCHMARKS = Path(__file__).parents[2] / "benchmarks" / "models"


@pytest.fixture
def laws(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("laws")
    for name in ("laws", "questions"):
        sys.modules.pop(name, None)


def test_random_questions_break_no_law(laws: ModuleType) -> None:
    count, _ = laws.run(cases=1, seed=5)
    assert count.cases >= 1
    assert count.checks["order"] > 0
    assert sum(count.violations.values()) == 0, count.worst


def test_a_broken_law_is_counted_with_its_case(laws: ModuleType) -> None:
    count = laws.Count()
    count.no_less("batch", "TTFT", np.array([2.0, 1.0, 1.0]), np.array([1.0, 1.0, 4.0]), lambda place: f"case {place}")
    count.equal("single", "links", 1.0, 1.0, str)
    assert (count.checks["batch"], count.violations["batch"], count.violations["single"]) == (3, 1, 0)
    assert count.worst["batch"] == [(0.75, "TTFT: case 2")]


@pytest.mark.parametrize(("name", "layout"), [("starcoder2-3b", {}), ("gemma-3-270m", {"pp": 8}), ("gpt-oss-20b", {"pp": 3})])  # fmt: skip
def test_a_load_among_others_is_predicted_as_it_is_alone(name: str, layout: dict[str, int]) -> None:
    """Windows cut some prompts and not others, and the busiest stage of a pipeline is another one for other loads."""
    prompts, batches = np.array([1.0, 39.0, 3296.0, 30000.0]), np.array([617.0, 1.0, 14.0, 2.0])
    together = rl.model(name, "h100-sxm", batches, prompts, **layout)
    alone = [rl.model(name, "h100-sxm", *pair, **layout) for pair in zip(batches, prompts, strict=True)]
    for figure in ("ttft_ms", "tpot_ms", "tokens_per_s"):
        np.testing.assert_allclose(getattr(together, figure), [float(getattr(made, figure)) for made in alone], rtol=1e-12)  # fmt: skip


def test_groups_of_a_pipeline_differ_by_one_sequence() -> None:
    """Seven sequences over three stages are groups of 3, 2 and 2, not three of 3."""
    three, two, seven = (rl.model("gpt-neox-20b", "h200-sxm", batch, 8192, 64, pp=3) for batch in (9.0, 6.0, 7.0))
    assert float(seven.decode.time) == pytest.approx((float(three.decode.time) + 2 * float(two.decode.time)) / 3)
    rows = rl.model("gpt-neox-20b", "h200-sxm", np.arange(1.0, 20.0), 8192, 64, pp=3)
    assert np.all(np.diff(rows.decode_time) >= 0)


def test_stages_have_the_layers_in_the_order_of_the_model() -> None:
    """Five layers with a window, then one without, over and over: every stage of two has its part of both kinds."""
    described = architecture("gemma-3-27b")
    for stage in stages(described, 2):
        counts = {layer.attention.window is None: layer.count for _, layer in stage}
        assert set(counts) == {True, False}
        assert abs(counts[False] / counts[True] - 5) < 1
    changed = replace(described, layers=tuple(replace(layer, count=layer.count + 1) for layer in described.layers))
    assert len(changed.kinds) == described.depth + len(described.layers)  # an order that does not fit is not used


def test_collectives_beyond_all_kernels_are_exposed() -> None:
    """Half of the collectives within layers hide behind kernels, but no more than there are kernels."""
    made = predict_training(architecture("gpt2"), "h100-sxm", Job(4, 1024), layout=Layout(tp=4, cp=4))
    assert made.communication > made.kernels
    assert made.best <= made.time <= made.worst


def test_the_stage_of_a_training_step_is_the_one_that_takes_longest() -> None:
    made = predict_training(architecture("gemma-3-1b"), "h100-sxm", Job(8, 1024), layout=Layout(pp=4))
    phase = train(8, 1024, 8)
    stages = stage_ops(made.architecture, phase, made.formats, made.layout, routing="balanced")
    steps = [predict_steps([ops], made.machine, layout=made.layout, light=LIGHT)[0] for ops in stages]  # none shared
    times = [replace(made, step=step).time for step in steps]
    assert len(times) > 1
    assert made.time == max(times) > min(times)


def test_weights_of_a_plan_are_those_of_the_checkpoint() -> None:
    """Attention of gpt-oss stays in 16 bits; arithmetic in fp32 keeps the embedding in it."""
    for name, formats in (("gpt-oss-20b", Formats("mxfp4")), ("gpt2", Formats("fp32", "fp32", "fp32")), ("deepseek-v3", Formats("fp8_e4m3"))):  # fmt: skip
        described = architecture(name)
        expected = weight_bytes(described, formats.weights, formats.values)
        assert device_weights(described, formats, Layout()) == pytest.approx(expected, rel=1e-3)
        assert device_weights(described, formats, Layout(pp=4)) * 4 >= expected


def test_the_cache_of_a_stage_is_that_of_its_layers() -> None:
    """61 layers over 8 stages: five have 8 of them, which is more than 61 / 8."""
    described = architecture("deepseek-v3")
    each = kv_bytes_per_token(described) / 61
    assert float(device_cache(described, 160.0, Formats(), Layout(pp=8))) == pytest.approx(160 * 8 * each)


def test_what_does_not_fit_says_whether_it_is_the_weights_or_one_sequence() -> None:
    weights = rl.model("llama-3-70b", "l4").notes[0]
    sequence = rl.model("llama-3-8b", "h200-sxm", prompt=4_000_000).notes[0]
    assert "the weights alone do not" in weights
    assert "not even one sequence of this length" in sequence
