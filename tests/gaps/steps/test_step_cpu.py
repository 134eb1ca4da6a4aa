"""Programs on a CPU: small operators take a dispatch, foreach loops one per tensor; the moves that help there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from timelines import MICRO, Story, call, tensor

from ridgeline.core.families import Key
from ridgeline.core.fitted import Fitted
from ridgeline.core.timeline import BACKWARD, FORWARD, OPERATOR, OPTIMIZER, Call, Site, Timeline
from ridgeline.gaps.steps.report import ProgramReport, program_report
from ridgeline.machines.load import load

XEON = load("xeon-8480plus")
VIEW = 4.0
SMALL = tensor(64, 64, dtype="fp32")
RELU = Site(call("aten::relu", SMALL), FORWARD)
SHAPED = Site(call("aten::view", SMALL, (4096,)), FORWARD)
MM = Site(call("aten::mm", tensor(1024, 1024, dtype="fp32"), tensor(1024, 1024, dtype="fp32")), FORWARD)


def on_host(rows: list[tuple[Site, float]], slower: tuple[float, ...] = (1.0,) * 3, **parts: Any) -> Timeline:
    """Steps of operators one after the other, each with its time in microseconds; times of a step may all be `slower`."""
    story, count = Story(), len(slower)
    for factor in slower:
        story.edges.append(story.host)
        for site, time in rows:
            story.launch(site, time * factor, cost=0.0, kind=OPERATOR, name=site.call.name)
            story.host += time * factor
        story.end()
    made = story.timeline(**parts)
    starts = np.array(story.edges) * MICRO
    ends = np.append(starts[1:], story.host * MICRO)
    runs = replace(made.runs, step=np.repeat(np.arange(count), len(rows)), launched=np.full(count * len(rows), np.nan))
    return replace(made, runs=runs, steps=replace(made.steps, start=starts, end=ends))


def report(rows: list[tuple[Site, float]], **parts: Any) -> ProgramReport:
    return program_report(on_host(rows, **parts), XEON)


def test_a_small_operator_is_expected_to_take_a_dispatch_and_its_work_on_one_core() -> None:
    """Views take 4 us and do nothing; a relu of 4096 numbers is one of them, and 32 KB at the rate of one core."""
    made = report([(SHAPED, VIEW), (RELU, 6.0), (MM, 900.0)])
    relu, product = made.items
    cores = XEON.units["core"]
    assert relu.gap.target.time == pytest.approx(VIEW * MICRO + relu.gap.target.floor * cores)
    assert relu.gap.target.low < relu.gap.target.time < relu.gap.target.high
    assert relu.calibration == "transferred"
    without = report([(RELU, 6.0), (MM, 900.0)])  # no views, so that nothing is known of dispatch
    assert (
        without.items[1].gap.target.time == product.gap.target.time
    )  # a product is large enough for its library kernel
    assert without.items[0].gap.target.time != relu.gap.target.time


def test_a_small_operator_takes_what_was_timed_in_cache() -> None:
    """Where kernels of the machine were timed so, they say it; a loop over tensors is still as many dispatches."""
    timed = Fitted({"launch": 7e-6}, 0.1, 0.2, 0.8, 1.3, 12, "timed for a test, on this machine")
    machine = replace(XEON, fitted={Key("stream", "fp32", "resident", "relu"): timed})
    weights = tuple(tensor(8, dtype="fp32") for _ in range(3))
    looped = Site(call("aten::_foreach_mul_", weights, 2.0), OPTIMIZER)
    made = program_report(on_host([(SHAPED, VIEW), (RELU, 6.0), (looped, 15.0)]), machine)
    relu, loop = made.items
    assert relu.calibration == "calibrated"
    assert 7e-6 < relu.gap.target.time < 9e-6
    assert loop.gap.target.time == pytest.approx(3 * VIEW * MICRO, rel=0.1)


@pytest.mark.parametrize("other", ["fp32", "bf16"])
def test_joined_tensors_have_the_only_format_of_the_operators_around_them(other: str) -> None:
    """The profiler records no format of a list of tensors; where those around have two, it is not known."""
    joined = Site(call("aten::cat", (tensor(64, 64, dtype=""), tensor(64, 64, dtype="")), 0), FORWARD)
    made = report([(joined, 20.0), (RELU, 6.0), (Site(call("aten::relu", tensor(64, 64, dtype=other)), FORWARD), 6.0)])
    assert ("aten::cat" in {item.group.owner.name for item in made.items}) == (other == "fp32")


def test_disturbed_steps_leave_one_figure_for_each_time() -> None:
    """Two of five steps take 40 times as long; every figure is that of the others, and they agree with each other."""
    rows = [(MM, 900.0), (MM, 900.0), (SHAPED, 300.0)]
    view = program_report(on_host(rows, slower=(1.0, 40.0, 1.0, 40.0, 1.0)), XEON).view
    (item,) = view.items
    measured = sum(row["device_us"] or 0.0 for row in view.phases.values())
    assert view.device == pytest.approx(1800 * MICRO)
    assert measured == pytest.approx(1800)
    assert item.gap.error == pytest.approx(item.predicted / item.group.time - 1)
    assert view.predicted == pytest.approx(item.predicted)
    assert view.predicted_wall is not None
    assert view.predicted is not None
    assert view.predicted_wall == pytest.approx(view.predicted + 300 * MICRO)  # operators, and what is between them
    assert view.share_of(lambda _: True) == pytest.approx(1.0)


def test_an_operator_without_a_prediction_has_one_time_in_both_predicted_figures() -> None:
    """An all-reduce waits for the other ranks in most steps; the step of median length may be one where it did not."""
    reduction = Site(call("c10d::allreduce_", tensor(4096, dtype="")), BACKWARD)
    waiting = (900.0, 10.0, 900.0, 10.0, 900.0)
    story = on_host([(MM, 900.0), (reduction, 10.0)], slower=(1.0,) * 5)
    runs = story.runs
    extra = np.zeros(len(runs))
    extra[1::2] = (np.array(waiting) - 10.0) * MICRO
    shift = np.concatenate([[0.0], np.cumsum(extra)[:-1]])
    ends = story.steps.end + np.cumsum(extra)[1::2]
    steps = replace(story.steps, start=np.append(0.0, ends[:-1]), end=ends)
    moved = replace(story, runs=replace(runs, start=runs.start + shift, end=runs.end + shift + extra), steps=steps)
    view = program_report(moved, XEON).view
    assert view.unexplained == pytest.approx(900 * MICRO)
    assert view.predicted is not None
    assert view.predicted_wall is not None
    assert view.predicted_wall == pytest.approx(view.predicted)


def test_a_foreach_operator_dispatches_each_of_its_tensors() -> None:
    many = tuple(tensor(64, dtype="fp32") for _ in range(20))
    update = Site(Call("aten::_foreach_mul_", (many, 0.9)), OPTIMIZER)
    (item,) = report([(SHAPED, VIEW), (update, 90.0)], gradients=many).items
    assert item.gap.target.time == pytest.approx(20 * VIEW * MICRO, rel=0.05)


def test_small_operators_one_after_the_other_are_advised_to_be_compiled() -> None:
    made = report([(SHAPED, VIEW), *([(RELU, 6.0)] * 10), (MM, 100.0)])
    (found,) = [move for move in made.moves if move.rule == "small operators"]
    assert found.gain == pytest.approx(9 * VIEW * MICRO, rel=0.05)  # nine of ten dispatches
    assert "torch.compile" in found.move
    apart = report([(SHAPED, VIEW), *([(RELU, 6.0), (MM, 100.0)] * 5)])
    assert "small operators" not in {move.rule for move in apart.moves}


def test_products_are_advised_to_run_in_bf16_where_the_cpu_is_faster_in_it() -> None:
    made = report([(MM, 2000.0)])
    assert "bf16 products" in {move.rule for move in made.moves}
    (found,) = [move for move in made.moves if move.rule == "bf16 products"]
    assert found.gain is not None
    assert 0 < found.gain < 2000 * MICRO
    plain = replace(XEON, peaks={name: peak for name, peak in XEON.peaks.items() if "bf16" not in name})
    assert "bf16 products" not in {move.rule for move in program_report(on_host([(MM, 2000.0)]), plain).moves}


def test_a_loop_optimizer_on_a_cpu_is_advised_to_be_fused() -> None:
    gradients = tuple(tensor(64, 64, dtype="fp32") for _ in range(8))
    names = ("mul_", "lerp_", "addcmul_", "sqrt", "addcdiv_")
    rows = [(Site(Call(f"aten::{name}", (each,) * (3 if name.startswith("addc") else 1)), OPTIMIZER), 6.0) for each in gradients for name in names]  # fmt: skip
    (found,) = [move for move in report([(SHAPED, VIEW), *rows], gradients=gradients).moves if move.rule == "optimizer"]
    assert "40 calls" in found.evidence[0]
    assert found.gain is not None
    assert 0 < found.gain <= 240 * MICRO


@pytest.mark.parametrize("name", ["aten::mean", "aten::sum"])
def test_an_operator_that_leaves_its_work_to_another_is_counted_once(name: str) -> None:
    """`x.mean()` calls `sum`, and `x.sum()` one over all dimensions: the time of the outer one is dispatch."""
    big = tensor(4096, 4096, dtype="fp32")
    outer = Site(call(name, big), FORWARD)
    inner = Site(call("aten::sum", big, (0, 1)), FORWARD, outer=(outer.call,))
    made = report([(outer, 20.0), (inner, 900.0), (MM, 900.0)])
    assert [item.name.partition(" ")[0] for item in made.items] == ["sum", "mm"]
