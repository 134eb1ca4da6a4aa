"""What sets the time of a step: host or device, in which phase; the undisturbed time first; the interval of the sum."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from math import sqrt
from typing import Any

import numpy as np
import pytest
from timelines import ADD, MICRO, Story, call, repeated, tensor

from ridgeline.core.documents import to_document
from ridgeline.core.timeline import COPY, FORWARD, OPTIMIZER, Site, Timeline
from ridgeline.gaps.steps.kept import kept
from ridgeline.gaps.steps.pace import Pace, pace
from ridgeline.gaps.steps.queue import queue
from ridgeline.gaps.steps.report import program_report
from ridgeline.gaps.steps.view import FAMILY_CORRELATION
from ridgeline.machines.load import load
from ridgeline.prediction.queue import SYNC

H200 = load("h200-sxm")
UPDATE = Site(call("aten::mul_", tensor(1024, dtype="fp32"), 0.9), OPTIMIZER)


def loop(story: Story) -> None:
    """Ten kernels of 100 us in 100 us of host time, then 200 of 2 us in 2000 us: the host is late in the optimizer alone."""
    for _ in range(10):
        story.launch(ADD, 100.0)
    for _ in range(200):
        story.launch(UPDATE, 2.0)


def halves(story: Story) -> None:
    """Kernels of 1000 us that the host waits for, then 1000 us of launches of short ones: each sets half of the time."""
    for _ in range(10):
        story.launch(ADD, 100.0, cost=1.0)
    story.wait()
    for _ in range(100):
        story.launch(UPDATE, 1.0)
    story.wait()


def pace_of(step: Any) -> Pace:
    runs = kept(repeated(step, 5))
    return pace(runs, queue(runs, runs.steps - 2))


def test_a_step_is_host_bound_in_the_phase_whose_launches_take_longer_than_its_runs() -> None:
    made = pace_of(loop)
    assert made.host == pytest.approx(1.0, abs=0.01)
    assert made.device == pytest.approx(0.0, abs=0.01)
    assert made.host_bound_phases == (OPTIMIZER,)
    assert made.text == "host-bound in the optimizer"
    assert made.host_times[OPTIMIZER] == pytest.approx(2000 * MICRO)
    assert made.device_times[FORWARD] == pytest.approx(1000 * MICRO)


def test_near_the_boundary_both_shares_are_named() -> None:
    """The wall is 1000 + 1000 us and a little: both sensitivities are near a half."""
    made = pace_of(halves)
    assert made.host == pytest.approx(0.5, abs=0.03)
    assert made.device == pytest.approx(0.5, abs=0.03)
    assert "host-bound" in made.text
    assert "device-bound" in made.text
    assert "(optimizer)" in made.text


def test_one_sided_steps_name_one_side() -> None:
    assert pace_of(lambda story: [story.launch(ADD, 100.0) for _ in range(10)]).text == "device-bound"
    assert pace_of(lambda story: [story.launch(ADD, 2.0) for _ in range(10)]).text == "host-bound"


# -- launch calls that return late -----------------------------------------------------------------------------------


def late(times: Timeline, which: Any) -> Timeline:
    """With launch calls that return 1 us after their run."""
    end = np.asarray(times.runs.end)
    launched = np.where(which, end + MICRO, times.runs.launched)
    return replace(times, runs=replace(times.runs, launched=launched))


@cache
def mixed() -> Timeline:
    def step(story: Story) -> None:
        for _ in range(5):
            story.launch(ADD, 20.0)
        story.launch(None, 5.0, kind=COPY, name="memcpy DtoH", kernel="Memcpy DtoH (Device -> Pageable)", bytes=4)

    return repeated(step)


def syncs(times: Timeline) -> int:
    runs = kept(times)
    return int((queue(runs, 2).kind == SYNC).sum())


def test_a_short_kernel_whose_launch_returns_late_is_no_synchronisation() -> None:
    times = mixed()
    number = np.arange(len(times.runs.start)) % 6
    assert syncs(times) == 0
    assert syncs(late(times, number == 2)) == 0  # by chance
    assert syncs(late(times, number == 5)) == 1  # a copy to pageable memory waits for its end
    assert syncs(late(times, number < 5)) == 5  # launches that block, every one of them


# -- the step without the profiler ---------------------------------------------------------------------------------


def test_the_undisturbed_step_comes_first_and_sets_the_idle_time() -> None:
    """1200 us under the profiler, 900 us without: 300 us of device time leave 600 us idle."""

    def step(story: Story) -> None:
        for _ in range(100):
            story.launch(ADD, 3.0, cost=12.0)

    times = repeated(step)
    alone = program_report(times, H200, 900 * MICRO)
    assert alone.answer[0].startswith("step 900 us (1.2 ms profiled) · device 300 us (33 %) · host-bound")
    assert "device idle 600 us; 900 us under the profiler" in alone.answer[1]
    assert alone.view.step_idle == pytest.approx(600 * MICRO)
    assert all((move.gain or 0.0) <= 600 * MICRO + (move.device or 0.0) for move in alone.moves)
    assert to_document(alone)["step"]["unprofiled_wall_us"] == pytest.approx(900)
    profiled = program_report(times, H200)
    assert profiled.answer[0].startswith("step 1.2 ms · device busy 300 us (25 %)")


def test_a_host_that_launches_a_step_faster_than_the_device_runs_it_leaves_the_device_no_pause() -> None:
    """The host takes 400 us under the profiler, 200 us without; the device 1 ms, and two steps with the start of the queue 1.1 ms."""

    def step(story: Story) -> None:
        for _ in range(100):
            story.launch(ADD, 10.0, cost=4.0)

    ahead = program_report(repeated(step), H200, 1100 * MICRO, 200 * MICRO).view
    assert (ahead.step_time, ahead.regime) == (pytest.approx(1000 * MICRO), "device-bound")
    beside = program_report(repeated(step), H200, 1100 * MICRO, 1100 * MICRO).view
    assert beside.step_time == pytest.approx(1100 * MICRO)


# -- the interval of the sum ---------------------------------------------------------------------------------------


def test_the_interval_of_a_step_follows_from_the_correlation_of_its_families() -> None:
    """The same by the covariance matrix: w' R w with 1 on the diagonal of R and the correlation elsewhere."""

    def step(story: Story) -> None:
        story.launch(call("aten::mm", tensor(4096, 4096), tensor(4096, 4096)), 200.0)
        story.launch(ADD, 5.0).launch(call("aten::gelu", tensor(1 << 24)), 30.0).launch(ADD, 5.0)

    view = program_report(repeated(step), H200).view
    widths: dict[str, float] = defaultdict(float)
    for item in view.items:
        widths[item.group.owner.name] += (item.gap.target.high - item.gap.target.time) * item.group.count
    assert len(widths) == 3
    w = np.array(list(widths.values()))
    correlation = np.full((3, 3), FAMILY_CORRELATION) + (1 - FAMILY_CORRELATION) * np.eye(3)
    assert view.high is not None
    assert view.predicted is not None
    assert view.high - view.predicted == pytest.approx(sqrt(w @ correlation @ w), rel=1e-6)
