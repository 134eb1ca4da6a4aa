"""A program report made of a timeline alone: whose work each run is, what it should take, and what adds up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from timelines import ADD, MICRO, Story, call, repeated, tensor

from ridgeline.core.documents import to_document
from ridgeline.core.errors import InputError
from ridgeline.core.timeline import (
    BACKWARD,
    COPY,
    FILL,
    FORWARD,
    OPERATOR,
    OPTIMIZER,
    PHASES,
    Call,
    Site,
    Tensor,
    Timeline,
)
from ridgeline.gaps.steps.report import ProgramReport, program_report
from ridgeline.machines.load import load
from ridgeline.prediction.predict import predict
from ridgeline.programs import ops

H200 = load("h200-sxm")
MM = call("aten::mm", tensor(1024, 512), tensor(512, 2048))
LINEAR = Call("aten::linear", (tensor(1024, 512), tensor(2048, 512)))


def report(step: Any, times: int = 4, **parts: Any) -> ProgramReport:
    return program_report(repeated(step, times, **parts), H200)


def test_an_operator_whose_timings_hold_the_one_it_calls_owns_its_kernels() -> None:
    """The gradient of a softmax multiplies first: both kernels are one item, and its time is that of both."""
    scores = tensor(4096, 512, dtype="fp32")
    gradient = call("aten::_softmax_backward_data", scores, scores, -1, 6)

    def step(story: Story) -> None:
        story.launch(
            Site(call("aten::mul", scores, scores), BACKWARD, outer=(gradient,)), 8.0, kernel="mul_kernel<float>"
        )
        story.launch(Site(gradient, BACKWARD), 9.0, kernel="softmax_warp_backward<float, float, float, 9>")
        story.launch(Site(call("aten::mul", scores, scores), BACKWARD), 8.0, kernel="mul_kernel<float>")

    made = report(step)
    softmax, product = made.items
    assert softmax.name.startswith("_softmax_backward_data 4096x512")
    assert (softmax.group.count, softmax.group.launches) == (1, 2)
    assert softmax.group.time == pytest.approx(17 * MICRO)
    assert (product.name, product.group.count) == ("mul 4096x512 fp32", 1)


def test_a_kernel_belongs_to_the_innermost_operator_with_work() -> None:
    """linear -> mm -> kernel: the item is that of mm, and nothing of linear."""

    def step(story: Story) -> None:
        site = Site(MM, FORWARD, outer=(LINEAR,), modules=("Net_0", "Linear_3"))
        story.launch(site, 20.0, kernel="nvjet_tst_gemm").launch(ADD, 5.0)

    made = report(step)
    assert [item.name for item in made.items] == ["mm 1024x512·512x2048 bf16", "add 1048576 bf16"]
    mm = made.items[0]
    expected = predict(ops.gemm(m=1024, n=2048, k=512), H200)
    assert mm.gap.target.time == pytest.approx(float(np.asarray(expected.time)))
    assert (mm.group.count, mm.group.module, mm.gap.how, mm.gap.confidence) == (1.0, "Linear", "correlation", "high")
    assert made.view.explained_share == 1.0


def test_helper_kernels_are_part_of_their_operator() -> None:
    made = report(lambda story: story.launch(MM, 20.0, 3.0))
    (item,) = made.items
    assert item.gap.measured == pytest.approx(23 * MICRO)
    assert (item.group.count, item.group.launches) == (1.0, 2.0)


def test_equal_calls_are_one_item_with_their_count_and_phases_stay_apart() -> None:
    def step(story: Story) -> None:
        for _ in range(3):
            story.launch(Site(MM, FORWARD, source="a.py:1"), 20.0)
        story.launch(Site(MM, FORWARD, source="a.py:2"), 26.0)
        story.launch(Site(MM, BACKWARD), 40.0)

    made = report(step)
    counts = {(item.group.phase, item.group.count, round(item.gap.measured / MICRO, 3)) for item in made.items}
    assert counts == {(FORWARD, 4.0, 21.5), (BACKWARD, 1.0, 40.0)}
    forward = next(item for item in made.items if item.group.phase == FORWARD)
    assert forward.group.sources == ("a.py:1", "a.py:2")
    phases = to_document(made)["step"]["phases"]
    assert list(phases) == list(PHASES)
    assert phases[FORWARD]["device_us"] == pytest.approx(86)
    assert phases[BACKWARD]["device_us"] == pytest.approx(40)


def test_what_no_rule_counts_is_named_with_its_share_and_gets_no_prediction() -> None:
    def step(story: Story) -> None:
        story.launch(MM, 30.0).launch(call("custom::thing", tensor(8)), 10.0, kernel="thing_kernel")

    made = report(step)
    (row,) = made.coverage
    assert (row["op"], row["kernel"], row["share"]) == ("custom::thing", "thing_kernel", pytest.approx(0.25))
    assert row["reason"]
    view = made.view
    assert view.explained_share == pytest.approx(0.75)
    predicted = sum(item.predicted for item in made.items)
    assert view.predicted == pytest.approx(predicted + 10 * MICRO)  # at its measured time
    assert view.low is not None
    assert view.high is not None
    assert view.low < view.predicted < view.high  # type: ignore[operator]


def test_graph_replays_and_traces_without_arguments_are_known_by_kernel_name_alone() -> None:
    made = report(lambda story: story.launch(None, 30.0, kernel="some_gemm", graph=True))
    assert not made.items
    (item,) = made.uncounted
    assert (item.group.owner.how, item.group.owner.confidence) == ("name", "low")
    assert "graph" in item.reason
    assert made.view.predicted is None
    assert made.view.predicted_wall is None
    assert to_document(made)["step"]["predicted_device_us"] is None
    bare = report(lambda story: story.launch(Call("aten::mm"), 30.0), shapes=False)
    assert not bare.items
    assert "shapes were not recorded" in bare.coverage[0]["reason"]


def test_copies_cross_the_host_link_and_fills_are_written() -> None:
    """64 MB at 55.5 GB/s take 1.15 ms; the copy is of no operator, whoever called it."""

    def step(story: Story) -> None:
        story.launch(call("aten::copy_", tensor(8), tensor(8)), 1300.0, kind=COPY, name="memcpy HtoD",
                     kernel="Memcpy HtoD (Pageable -> Device)", bytes=64_000_000)  # fmt: skip
        story.launch(None, 30.0, kind=FILL, name="memset", bytes=64_000_000)

    made = report(step)
    copy, fill = made.items
    link = H200.link("pcie").per_direction.value()
    assert link is not None
    assert copy.gap.target.floor == pytest.approx(64e6 / link)
    assert copy.gap.target.limiter == "pcie"
    assert copy.group.phase == "copy"
    assert fill.gap.target.bytes == 64e6
    assert any(move.rule == "pageable copies" for move in made.moves)


def test_lists_too_long_for_the_profiler_take_the_shapes_of_the_gradients() -> None:
    gradients = (tensor(1024, 1024, dtype="fp32"), tensor(1024, dtype="fp32"))
    update = Site(Call("aten::_foreach_add_", ((), (), 1.0)), OPTIMIZER)

    def step(story: Story) -> None:
        story.launch(update, 12.0, kernel="multi_tensor_apply_kernel<BinaryOpListAlphaFunctor<float, 2, 2, 0>>")

    (item,) = report(step, gradients=gradients).items
    assert item.gap.target.bytes == pytest.approx(3 * 4 * (1024 * 1024 + 1024))
    assert not report(step).items


def test_tf32_is_read_from_the_kernel_that_ran() -> None:
    product = call("aten::mm", tensor(4096, 4096, dtype="fp32"), tensor(4096, 4096, dtype="fp32"))
    (fast,) = report(
        lambda story: story.launch(product, 400.0, kernel="cutlass_80_tensorop_s1688gemm_128x256_tf32")
    ).items
    (slow,) = report(lambda story: story.launch(product, 2800.0, kernel="ampere_sgemm_128x64_nn")).items
    assert slow.gap.target.time > 5 * fast.gap.target.time
    assert {slow.gap.target.engine, fast.gap.target.engine} == {"vector.fp32", "tensor.tf32"}


def test_operators_on_the_host_have_no_launches_and_wrappers_no_device_time() -> None:
    """A CPU trace: mm takes 60 us, its wrapper 10 us, Python 30 us."""

    def story() -> Timeline:
        told = Story()
        for _ in range(3):
            told.edges.append(told.host)
            for site, time in ((Site(LINEAR, FORWARD), 10.0), (Site(MM, FORWARD, outer=(LINEAR,)), 60.0)):
                told.launch(site, time, cost=0.0, kind=OPERATOR, name=site.call.name)
                told.host += time
            told.work(30.0)
            told.end()
        made = told.timeline()
        starts = np.array(told.edges) * MICRO
        ends = np.append(starts[1:], told.host * MICRO)
        step = np.repeat(np.arange(3), 2)
        runs = replace(made.runs, step=step, launched=np.full(6, np.nan))
        return replace(made, runs=runs, steps=replace(made.steps, start=starts, end=ends))

    view = program_report(story(), H200).view
    assert view.wall == pytest.approx(100 * MICRO)
    assert view.device == pytest.approx(60 * MICRO)
    assert view.regime == "device-bound"
    assert view.explained_share == 1.0
    assert [group.owner.name for group in view.overhead] == ["aten::linear"]


def test_the_document_has_the_fields_that_outsiders_rely_on() -> None:
    document = to_document(report(lambda story: story.launch(MM, 30.0)))
    assert {"items", "unmatched", "sealed", "sentence", "step", "moves", "coverage"} <= document.keys()
    step = document["step"]
    assert step.keys() >= {
        "steps", "wall_us", "device_us", "idle_us", "regime", "explained_share", "predicted_device_us",
        "predicted_wall_us", "phases",
    }  # fmt: skip
    (item,) = document["items"]
    assert item.keys() >= {
        "name", "predicted_us", "measured_us", "floor_us", "vertical_gap", "horizontal_gap", "bound_predicted",
        "bound_observed", "accounting", "advice", "joined_by", "confidence", "count", "phase", "op",
    }  # fmt: skip
    assert step["wall_us"] == pytest.approx(step["device_us"] + step["idle_us"])
    assert step["regime"] in ("host-bound", "device-bound")


def test_a_timeline_without_runs_is_refused() -> None:
    empty = repeated(lambda story: story.launch(MM, 30.0))
    nothing = replace(empty, runs=replace(empty.runs, **{
        name: getattr(empty.runs, name)[:0]
        for name in ("start", "end", "site", "activity", "call", "step", "stream", "correlated", "graph", "launched")
    }))  # fmt: skip
    with pytest.raises(InputError, match="no kernels"):
        program_report(nothing, H200)


def test_a_machine_without_a_figure_leaves_the_item_unpredicted() -> None:
    fp8 = Call("aten::mm", (Tensor((1024, 512), "fp64"), Tensor((512, 2048), "fp64")))
    made = program_report(repeated(lambda story: story.launch(fp8, 30.0)), load("l4"))
    assert len(made.items) + len(made.uncounted) == 1
    assert all(row["reason"] for row in made.coverage)


@pytest.mark.parametrize(("name", "named"), [("here", "the CPU of this machine"), ("xeon-8480plus", "xeon-8480plus, a CPU")])  # fmt: skip
def test_a_trace_of_a_gpu_compared_with_a_cpu_says_so(name: str, named: str) -> None:
    cpu = replace(load("xeon-8480plus"), name=name)
    made = program_report(repeated(lambda story: story.launch(ADD, 30.0)), cpu)
    assert f"recorded on a GPU, predicted for {named}: the gaps compare two machines" in made.warnings[-1]


def test_a_step_is_not_shorter_than_its_work_on_the_device() -> None:
    """The host runs ahead of the device in a few steps without the profiler: the time between them is none of a step."""
    recorded = repeated(lambda story: story.launch(ADD, 30.0))
    device = program_report(recorded, H200).view.device
    assert program_report(recorded, H200, device / 2).view.step_time is None
    assert program_report(recorded, H200, device * 2).view.step_time == device * 2
