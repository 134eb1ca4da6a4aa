"""The timeline of torch.profiler traces: sites, phases, steps, waits; nothing joined by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ridgeline.core.errors import InputError
from ridgeline.core.timeline import OPERATOR, Tensor
from ridgeline.profilers import torch_profiler
from ridgeline.profilers.load import timeline

FIXTURES = Path(__file__).parents[1] / "fixtures"
HANDMADE = FIXTURES / "torch" / "handmade_gpu.json"


def test_handmade_trace_has_two_steps_with_their_kernels() -> None:
    line = timeline(HANDMADE)
    assert line.steps.how == "profiler"
    assert len(line.steps) == 2
    assert np.bincount(line.runs.step).tolist() == [8, 8]
    phases = {line.sites[site].call.name: line.sites[site].phase for site in line.runs.site if site >= 0}
    assert phases == {
        "aten::copy_": "copy",
        "aten::addmm": "forward",
        "aten::_softmax": "forward",
        "scale_kernel": "forward",
        "aten::mm": "backward",
        "record_param_comms": "communication",
    }


def test_kernels_of_one_call_share_it() -> None:
    line = timeline(HANDMADE)
    addmm = [
        place for place, site in enumerate(line.runs.site) if site >= 0 and line.sites[site].call.name == "aten::addmm"
    ]
    calls = line.runs.call[addmm]
    assert len(addmm) == 4
    assert len(set(calls.tolist())) == 2
    for place in addmm:
        call = line.runs.call[place]
        assert line.calls.site[call] == line.runs.site[place]
        assert line.calls.start[call] <= line.runs.launched[place]


@pytest.mark.parametrize("name", ["trace_gpu.json.gz", "trace_cpu.json.gz"])
def test_recorded_traces_keep_forward_and_backward_apart(name: str) -> None:
    line = timeline(FIXTURES / "torch" / name)
    seconds = line.runs.end - line.runs.start
    norms = {"forward": 0.0, "backward": 0.0}
    for site, took in zip(line.runs.site, seconds, strict=True):
        if line.sites[site].call.name.startswith("aten::native_layer_norm"):
            expected = "backward" if line.sites[site].call.name.endswith("_backward") else "forward"
            assert line.sites[site].phase == expected
            norms[expected] += took
    assert all(norms.values())
    matrix = [site for site in line.sites if site.call.name in ("aten::mm", "aten::addmm")]
    assert {site.phase for site in matrix if site.call.name == "aten::mm"} == {"backward"}
    assert {site.phase for site in matrix if site.call.name == "aten::addmm"} == {"forward"}
    assert all(site.modules for site in matrix)  # backward products too: those of the forward op


def test_arguments_are_at_the_places_of_the_schema() -> None:
    line = timeline(FIXTURES / "torch" / "trace_gpu.json.gz")
    addmm = next(site.call for site in line.sites if site.call.name == "aten::addmm")
    bias, x, weight, beta, alpha = addmm.args
    assert (bias, x.shape, weight.shape) == (Tensor((768,), "bf16", (1,)), (256, 256), (256, 768))
    assert weight.strides == (1, 256)  # a Linear's weight, transposed
    assert (beta, alpha) == (1, 1)
    outer = next(site.outer for site in line.sites if site.call.name == "aten::addmm")
    assert [call.name for call in outer] == ["aten::linear"]
    assert outer[0].args[1].shape == (768, 256)


def test_operators_of_the_host_have_the_time_outside_what_they_called() -> None:
    """Counted a second way: the self times that `observations` sums up."""
    path = FIXTURES / "torch" / "trace_cpu.json.gz"
    line = timeline(path)
    assert {activity.kind for activity in line.activities} == {OPERATOR}
    by_name: dict[str, float] = {}
    for activity, took in zip(line.runs.activity, line.runs.end - line.runs.start, strict=True):
        name = line.activities[activity].name
        by_name[name] = by_name.get(name, 0.0) + took
    summed: dict[str, float] = {}
    for item in torch_profiler.read(path):
        summed[item.name] = summed.get(item.name, 0.0) + sum(item.samples)
    for name, took in summed.items():
        assert by_name[name] == pytest.approx(took, abs=1e-8)
    assert by_name["aten::linear"] < 0.2 * by_name["aten::addmm"]  # a wrapper owns none of its kernel's time


def test_a_report_without_times_of_day_is_refused() -> None:
    with pytest.raises(InputError, match="reads as ncu, which records kernels and not when they ran; give a trace"):
        timeline(FIXTURES / "ncu" / "h200_ranges.csv")
