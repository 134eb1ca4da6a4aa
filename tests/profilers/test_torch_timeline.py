"""The timeline of torch.profiler traces: sites, phases, steps, waits; nothing joined by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from profilers.made_traces import BACKWARD_THREAD, MadeTrace, training_step
from ridgeline.core.errors import InputError
from ridgeline.core.timeline import KERNEL, OPERATOR, Site, Tensor, Timeline
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


# -- traces written by hand ----------------------------------------------------------------------------------------


def phases_of(line: Timeline) -> dict[str, str]:
    return {site.call.name: site.phase for site in line.sites}


def test_each_kernel_has_its_phase_module_and_line(tmp_path: Path) -> None:
    trace = MadeTrace()
    training_step(trace, 1000)
    line = timeline(trace.write(tmp_path))
    assert phases_of(line) == {
        "aten::addmm": "forward",
        "aten::mm": "backward",
        "aten::sum": "backward",
        "aten::mul_": "optimizer",  # between the backward pass and the optimizer: gradients are clipped
        "aten::add_": "optimizer",
    }
    by_name = {site.call.name: site for site in line.sites}
    assert [call.name for call in by_name["aten::addmm"].outer] == ["aten::linear"]
    assert {site.source for site in line.sites} == {"train.py:14 (step)"}
    for name in ("aten::addmm", "aten::mm", "aten::sum"):  # derivatives belong to the module of their forward op
        assert by_name[name].modules == ("Linear_0",)
    assert line.runs.correlated.all()


def test_the_same_kernel_forward_and_backward_is_two_sites(tmp_path: Path) -> None:
    trace = MadeTrace()
    training_step(trace, 1000)
    line = timeline(trace.write(tmp_path))
    gemms = [
        place for place in range(len(line.runs)) if line.activities[line.runs.activity[place]].name == "gemm_kernel"
    ]
    seconds = (line.runs.end - line.runs.start)[gemms]
    assert [line.sites[line.runs.site[place]].phase for place in gemms] == ["forward", "backward"]
    assert seconds == pytest.approx([10e-6, 12e-6])


def many_steps(count: int, marked: str = "", idle: float = 0) -> MadeTrace:
    trace, at = MadeTrace(), 1000.0
    for number in range(count):
        at = training_step(trace, at, marked.format(number) if marked else "") + idle
    return trace


@pytest.mark.parametrize(
    ("marked", "how", "kept", "warmup"),
    [
        ("ProfilerStep#{}", "profiler", 4, 0),
        ("ridgeline.step#{}", "marked", 4, 0),
        ("", "optimizer", 3, 1),  # by the optimizer: the first step has no known beginning
    ],
)
def test_steps_are_found_by_their_marks(tmp_path: Path, marked: str, how: str, kept: int, warmup: int) -> None:
    line = timeline(many_steps(4, marked).write(tmp_path))
    assert (line.steps.how, len(line.steps), line.steps.warmup) == (how, kept, warmup)
    assert np.bincount(line.runs.step[line.runs.step >= 0]).tolist() == [5] * kept
    lengths = line.steps.end - line.steps.start
    assert lengths[1:] == pytest.approx([200e-6] * (kept - 1))
    assert line.steps.start[1:] == pytest.approx(line.steps.end[:-1])


@pytest.mark.parametrize("shared", [0, 2])
def test_optimizers_of_one_kind_that_step_in_turn_end_one_step(tmp_path: Path, shared: int) -> None:
    """A discriminator and a generator, both with Adam: told apart by the parameters that they update, some of one shape."""
    trace = MadeTrace()
    for number in range(8):
        at = 1000 + 100 * number
        trace.op("aten::mm", at, 20)
        trace.kernel("gemm_kernel", at + 2, 5)
        trace.range("Optimizer.step#Adam.step", at + 50, 40)
        for place, shape in enumerate([*[(32, 4)] * shared, ((8, 4), (16, 4))[number % 2]]):
            trace.op("aten::add_", at + 55 + 10 * place, 8, shapes=(shape,))
            trace.kernel("elementwise_kernel", at + 57 + 10 * place, 5)
    line = timeline(trace.write(tmp_path))
    assert (line.steps.how, len(line.steps), line.steps.warmup) == ("optimizer", 3, 1)
    assert np.bincount(line.runs.step[line.runs.step >= 0]).tolist() == [4 + 2 * shared] * 3


def test_steps_before_a_graph_are_not_those_of_its_replays(tmp_path: Path) -> None:
    """Two steps to warm up call the optimizer; ten replays of the captured step have most of the time."""
    trace = many_steps(2)
    for number in range(10):
        at = 1500 + 200 * number
        trace.op("aten::normal_", at, 20)
        trace.kernel("random_kernel", at + 5, 10)
        trace.kernel("step_kernel", at + 50, 100, call="cudaGraphLaunch")
    line = timeline(trace.write(tmp_path))
    assert line.steps.how == "repetition"
    assert len(line.steps) in (9, 10)


def test_a_step_lasts_until_the_device_has_finished_it(tmp_path: Path) -> None:
    """The host runs ahead of a slow device: launches 100 us apart, kernels of 400 us."""
    trace = MadeTrace()
    for number in range(5):
        at = 1000 + 100 * number
        trace.range(f"ProfilerStep#{number}", at, 100)
        trace.op("aten::mm", at + 10, 20)
        trace.kernel("gemm_kernel", at + 12, 400)
    line = timeline(trace.write(tmp_path))
    assert line.runs.step.tolist() == [0, 1, 2, 3, 4]
    assert line.steps.end - line.steps.start == pytest.approx([417e-6, 400e-6, 400e-6, 400e-6, 400e-6])


def test_a_slow_beginning_is_warm_up(tmp_path: Path) -> None:
    trace, at = MadeTrace(), 1000.0
    for number, length in enumerate([90, 5000, 100, 100, 105, 95]):  # the second step compiles
        trace.range(f"ProfilerStep#{number}", at, length)
        trace.op("aten::mm", at + length - 80, 20)
        trace.kernel("gemm_kernel", at + length - 78, 50)
        at += length
    line = timeline(trace.write(tmp_path))
    assert (len(line.steps), line.steps.warmup) == (4, 2)
    assert line.runs.step.tolist() == [-1, -1, 0, 1, 2, 3]


def inference(trace: MadeTrace, count: int, frame: str) -> MadeTrace:
    for number in range(count):
        at = 1000 + 100 * number
        if frame:
            trace.frame(frame, at, 95)
        for place, name in enumerate(("aten::mm", "aten::gelu", "aten::gelu", "aten::gelu")):
            trace.op(name, at + 5 + 20 * place, 15)
            trace.kernel(f"{name[6:]}_kernel", at + 6 + 20 * place, 10)
    return trace


@pytest.mark.parametrize("frame", ["serve.py(7): answer", "nn.Module: Net_0", ""], ids=["function", "module", "period"])
def test_inference_steps_are_found_by_repetition(tmp_path: Path, frame: str) -> None:
    line = timeline(inference(MadeTrace(), 5, frame).write(tmp_path))
    assert (line.steps.how, len(line.steps)) == ("repetition", 5)
    assert np.bincount(line.runs.step).tolist() == [4] * 5


def test_a_call_that_fills_memory_before_its_kernel_is_in_one_step(tmp_path: Path) -> None:
    """cuBLAS clears a workspace before some products: what it launches for one product is not parted by the steps."""
    trace = MadeTrace()
    for at in range(0, 600, 100):
        trace.op("aten::mm", at, 40, shapes=((64, 64), (64, 64)))
        correlation = trace.runtime("cudaMemsetAsync", at + 5, 2)
        trace.record("Memset (Device)", max(at + 10, trace.free), 1, correlation, "gpu_memset")
        trace.kernel("gemm", at + 20, 30)
        trace.op("aten::add", at + 50, 20)
        trace.kernel("add", at + 60, 10)
    line = timeline(trace.write(tmp_path))
    assert line.steps.how == "repetition"
    calls = [set(line.runs.step[line.runs.call == call].tolist()) for call in set(line.runs.call.tolist())]
    assert all(len(steps) == 1 for steps in calls)


def test_blocks_inside_a_module_are_no_steps(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.frame("nn.Module: Net_0", 990, 2000)
    inference(trace, 12, "nn.Module: Block_0")
    trace.op("aten::linear", 2300, 15)
    trace.kernel("head_kernel", 2301, 100)
    line = timeline(trace.write(tmp_path))
    assert (line.steps.how, len(line.steps)) == ("single", 1)
    assert "single step" in " ".join(line.notes)


def test_the_only_range_around_the_work_is_the_step(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.op("aten::normal_", 900, 20)
    trace.kernel("setup_kernel", 901, 5)
    trace.range("the part that matters", 1000, 150)
    trace.op("aten::mm", 1005, 20)
    trace.kernel("gemm_kernel", 1006, 60)
    line = timeline(trace.write(tmp_path))
    assert (line.steps.how, line.runs.step.tolist()) == ("marked", [-1, 0])


def test_waits_are_named_with_their_operator_and_line(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1000, 40)
    trace.frame("train.py(31): log", 1100, 100)
    trace.op("aten::item", 1105, 90)
    trace.op("aten::_local_scalar_dense", 1106, 88)
    trace.kernel("Memcpy DtoH (Device -> Pinned)", 1107, 2, call="cudaMemcpyAsync")
    trace.runtime("cudaStreamSynchronize", 1110, 80)
    trace.runtime("cudaDeviceSynchronize", 1300, 10)
    line = timeline(trace.write(tmp_path))
    assert line.waits.what == ("data loader", "aten::item", "cudaDeviceSynchronize")
    assert line.waits.through[1] == "cudaStreamSynchronize"
    assert line.waits.end - line.waits.start == pytest.approx([40e-6, 80e-6, 10e-6])
    assert line.sites[line.waits.site[1]].source == "train.py:31 (log)"
    assert line.waits.site[2] == -1


def graphed(
    kinds: tuple[str, ...] = ("kernel", "kernel"), captured: tuple[tuple[str, str], ...] = (("aten::mm", "aten::relu"),)
) -> MadeTrace:
    """Two launches captured in a graph, perhaps twice, then three replays."""
    trace = MadeTrace()
    for turn, names in enumerate(captured):
        begin = 800 + 100 * turn
        trace.runtime("cudaStreamBeginCapture", begin, 1)
        for place, name in enumerate(names):
            trace.op(name, begin + 10 + 20 * place, 15)
            trace.runtime("cudaLaunchKernel", begin + 12 + 20 * place, 2)
        trace.runtime("cudaStreamEndCapture", begin + 60, 1)
    for number in range(3):
        at = 1100 + 100 * number
        replay = trace.runtime("cudaGraphLaunch", at, 10)
        for place, kind in enumerate(kinds):
            trace.record(f"kernel_{place}", at + 20 + 30 * place, 25, replay, kind)
    return trace


def test_replays_are_joined_to_the_capture(tmp_path: Path) -> None:
    line = timeline(graphed().write(tmp_path))
    assert [line.sites[site].call.name for site in line.runs.site] == ["aten::mm", "aten::relu"] * 3
    assert line.runs.graph.all()
    assert not line.runs.correlated.any()
    assert len(set(line.runs.call.tolist())) == 6  # each replay calls anew
    assert (line.steps.how, len(line.steps)) == ("repetition", 3)


def test_a_replay_unlike_the_capture_is_not_joined(tmp_path: Path) -> None:
    line = timeline(graphed(("kernel", "kernel", "kernel")).write(tmp_path))
    assert line.runs.graph.all()
    assert set(line.runs.site.tolist()) == {-1}


def test_a_replay_of_a_graph_that_was_captured_twice(tmp_path: Path) -> None:
    twice = (("aten::mm", "aten::relu"),) * 2
    line = timeline(graphed(captured=twice).write(tmp_path))
    assert [line.sites[site].call.name for site in line.runs.site] == ["aten::mm", "aten::relu"] * 3


def test_a_replay_of_either_of_two_graphs_is_not_joined(tmp_path: Path) -> None:
    other = (("aten::mm", "aten::relu"), ("aten::mm", "aten::gelu"))
    assert set(timeline(graphed(captured=other).write(tmp_path)).runs.site.tolist()) == {-1}


# -- recorded on an H200 -------------------------------------------------------------------------------------------


def share_by(line: Timeline, of: Callable[[Site], str]) -> dict[str, float]:
    seconds = line.runs.end - line.runs.start
    shares: dict[str, float] = {}
    for site, took in zip(line.runs.site, seconds, strict=True):
        key = of(line.sites[site]) if site >= 0 else "none"
        shares[key] = shares.get(key, 0.0) + took / seconds.sum()
    return shares


def test_a_training_step_of_resnet() -> None:
    line = timeline(FIXTURES / "torch" / "h200_resnet.json.gz")
    assert len(line.steps) == 1
    assert line.runs.correlated.all()
    phases = share_by(line, lambda site: site.phase)
    assert phases["backward"] > phases["forward"] > phases["optimizer"] > phases["copy"]
    convolutions = [
        site for site in line.sites if site.call.name in ("aten::cudnn_convolution", "aten::convolution_backward")
    ]
    assert len(convolutions) == 2 * 53  # ResNet-50: 53 convolutions, each with its gradients
    assert all(site.modules[-1].startswith("Conv2d_") for site in convolutions)
    assert all(site.source.startswith("examples/scripts/resnet_train.py:") for site in convolutions)
    (wait,) = np.flatnonzero(np.array(line.waits.what) == "aten::item")
    assert line.sites[line.waits.site[wait]].source == "examples/scripts/resnet_train.py:51 (main)"


def test_a_compiled_training_step() -> None:
    line = timeline(FIXTURES / "torch" / "h200_vit_compile.json.gz")
    fused = {site.call.name: site for site in line.sites if site.fused}
    gelu = fused["triton_poi_fused_gelu_gelu_backward_view_9"]
    assert gelu.fused == ("gelu", "gelu_backward", "view")
    assert gelu.phase == "backward"
    assert {tensor.dtype for tensor in gelu.call.tensors} == {"bf16"}
    assert fused["triton_poi_fused_gelu_view_9"].phase == "forward"
    assert set(share_by(line, lambda site: site.phase)) == {"forward", "backward", "optimizer"}


def test_a_decoder_replayed_as_a_graph() -> None:
    line = timeline(FIXTURES / "torch" / "h200_llama_graph.json.gz")
    assert line.runs.graph.all()
    assert (len(line.steps), line.steps.warmup) == (5, 1)
    assert np.bincount(line.runs.step[line.runs.step >= 0]).tolist() == [195] * 5
    shares = share_by(line, lambda site: site.call.name)
    assert shares["aten::mm"] > 0.6  # decoding reads weights
    # a second way: library kernels of products are named nvjet or splitKreduce, whatever joined them
    for site, activity in zip(line.runs.site, line.runs.activity, strict=True):
        if line.activities[activity].kind == KERNEL:
            product = line.activities[activity].name.startswith(("nvjet", "splitKreduce"))
            assert product == (line.sites[site].call.name == "aten::mm")


def test_traces_of_several_processes_are_refused(tmp_path: Path) -> None:
    trace = many_steps(2)
    for event in list(trace.events):
        if event["cat"] == "cuda_runtime":
            trace.events.append({**event, "pid": 9})
    with pytest.raises(InputError, match="launches of 2 processes"):
        timeline(trace.write(tmp_path))


def test_streams_and_devices_are_kept_apart(tmp_path: Path) -> None:
    trace = MadeTrace()
    trace.op("aten::mm", 1000, 20)
    trace.kernel("gemm_kernel", 1002, 50)
    trace.op("aten::mm", 1030, 20)
    trace.kernel("gemm_kernel", 1032, 50)
    trace.events[-1]["args"] |= {"stream": 20, "device": 1}
    trace.events[-1]["ts"] = 1040.0  # at the same time as the first
    line = timeline(trace.write(tmp_path))
    assert line.runs.stream.tolist() == [7, 20]
    assert [line.activities[activity].device for activity in line.runs.activity] == ["0", "1"]
    assert line.runs.site[0] == line.runs.site[1]


def test_operators_of_two_threads_do_not_share_their_time(tmp_path: Path) -> None:
    """The backward thread works while the thread that called it waits inside nothing of its own."""
    trace = MadeTrace()
    trace.op("aten::linear", 1000, 40)
    trace.op("aten::addmm", 1005, 30, shapes=((8,), (16, 4), (4, 8)))
    trace.op("autograd::engine::evaluate_function: AddmmBackward0", 1010, 60, BACKWARD_THREAD, ())
    trace.op("aten::mm", 1020, 40, BACKWARD_THREAD)
    line = timeline(trace.write(tmp_path))
    taken: dict[str, float] = {}
    for activity, took in zip(line.runs.activity, line.runs.end - line.runs.start, strict=True):
        name = line.activities[activity].name
        taken[name] = taken.get(name, 0.0) + float(took)
    assert taken == pytest.approx(
        {
            "aten::linear": 10e-6,
            "aten::addmm": 30e-6,
            "autograd::engine::evaluate_function: AddmmBackward0": 20e-6,
            "aten::mm": 40e-6,
        }
    )
