"""The queue between host and device: it gives back what was recorded, and prices what would change it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timelines import ADD, MICRO, Story, repeated

from ridgeline.gaps.steps.idle import DATA, LAUNCH, SYNCHRONISATION, idle_gaps, waited
from ridgeline.gaps.steps.kept import Kept, busy, kept
from ridgeline.gaps.steps.queue import queue, typical_queue
from ridgeline.prediction.queue import HOST_BOUND, PAUSE, RUN, SYNC, saved


def long_kernels(story: Story) -> None:
    """Ten kernels of 100 us, launched in 10 us each: the device sets the pace, 1000 us a step."""
    for _ in range(10):
        story.launch(ADD, 100.0)


def short_kernels(story: Story) -> None:
    """Ten kernels of 2 us, launched in 10 us each: the host sets the pace, 100 us a step."""
    for _ in range(10):
        story.launch(ADD, 2.0)


def with_item(story: Story) -> None:
    """Long kernels, then the host reads a result: the device runs dry once a step."""
    long_kernels(story)
    story.wait().work(40.0)


def with_data(story: Story) -> None:
    """The host waits 500 us for data before it launches kernels of 300 us in all."""
    story.pause(500.0)
    for _ in range(3):
        story.launch(ADD, 100.0)


Step = Callable[[Story], None]
CASES = [long_kernels, short_kernels, with_item, with_data]


def steady(runs: Kept) -> int:
    return runs.steps - 2


@pytest.mark.parametrize("step", CASES, ids=lambda step: step.__name__)
def test_the_queue_gives_back_the_recorded_step(step: Step) -> None:
    runs = kept(repeated(step))
    assert queue(runs, steady(runs)).wall() == pytest.approx(runs.wall[steady(runs)], rel=0.03)


@pytest.mark.parametrize(
    ("step", "host"), [(long_kernels, False), (short_kernels, True), (with_item, False), (with_data, True)]
)
def test_a_step_is_host_bound_where_it_takes_longer_than_its_kernels(step: Step, host: bool) -> None:
    runs = kept(repeated(step))
    assert (queue(runs, steady(runs)).regime == HOST_BOUND) == host


@given(kernel=st.floats(1.0, 200.0), cost=st.floats(1.0, 200.0))
def test_the_longer_of_host_and_device_sets_the_pace(kernel: float, cost: float) -> None:
    """By arithmetic: wall = launches x the larger of the two; and the larger of the two is the regime."""

    def step(story: Story) -> None:
        for _ in range(20):
            story.launch(ADD, kernel, cost=cost)

    runs = kept(repeated(step, 5))
    line = queue(runs, steady(runs))
    assert line.wall() == pytest.approx(20 * max(kernel, cost) * MICRO, rel=0.02)
    if not 0.8 < kernel / cost < 1.25:
        assert (line.regime == HOST_BOUND) == (cost > kernel)


def test_removing_a_synchronisation_saves_the_idle_time_that_it_causes() -> None:
    """The device idles while the host works 40 us and launches in 10 us: 50 us a step."""
    runs = kept(repeated(with_item))
    line = queue(runs, steady(runs))
    assert saved(line, line.without(line.kind == SYNC)) == pytest.approx(50 * MICRO, rel=0.05)
    gaps = idle_gaps(runs)
    assert gaps.by_cause(runs.steps)[SYNCHRONISATION] == pytest.approx(50 * MICRO, rel=0.4)
    (wait,) = waited(runs, gaps)
    assert (wait.operator, wait.source, wait.count) == ("aten::item", "train.py:9", 1.0)


def test_waits_for_data_are_named_apart_from_launches() -> None:
    runs = kept(repeated(with_data))
    causes = idle_gaps(runs).by_cause(runs.steps)
    assert causes[DATA] > 8 * causes[LAUNCH]
    line = queue(runs, steady(runs))
    gain = saved(line, line.without((line.kind == PAUSE) & (line.place >= 0)))
    assert gain == pytest.approx((530 - 300) * MICRO, rel=0.1)


def test_idle_time_of_short_kernels_is_that_of_launches() -> None:
    runs = kept(repeated(short_kernels))
    causes = idle_gaps(runs).by_cause(runs.steps)
    assert causes[LAUNCH] == pytest.approx(80 * MICRO, rel=0.15)
    assert causes[DATA] == causes[SYNCHRONISATION] == 0


def test_dropped_events_leave_the_other_work_of_the_host() -> None:
    runs = kept(repeated(short_kernels))
    line = queue(runs, steady(runs))
    half = np.arange(len(line)) % 2 == 0
    half &= line.kind == RUN
    assert line.without(half).cost.sum() == pytest.approx(line.cost.sum())
    assert line.without(half, np.inf).cost.sum() < 0.6 * line.cost.sum()


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 10)), max_size=30))
def test_busy_time_is_the_length_of_the_union(rows: list[tuple[float, float]]) -> None:
    """Counted a second way: on a grid of all end points, the cells that an interval covers."""
    rows.sort()
    start, stop = np.array([row[0] for row in rows]), np.array([sum(row) for row in rows])
    edges = np.unique(np.concatenate([start, stop])) if rows else np.array([])
    cells = itertools.pairwise(edges) if len(edges) else ()
    covered = sum(
        right - left for left, right in cells if any(a <= left and right <= b for a, b in zip(start, stop, strict=True))
    )
    assert busy(start, stop) == pytest.approx(covered, abs=1e-9)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_the_wall_time_without_the_profiler_says_what_the_host_itself_takes(share: float) -> None:
    runs = kept(repeated(short_kernels))
    recorded = queue(runs, steady(runs))
    alone = replace(recorded, cost=recorded.cost * share)
    assert recorded.host_share(alone.wall(), 0.2) == pytest.approx(share, abs=0.01)
    assert recorded.host_share(2 * recorded.wall(), 0.2) == pytest.approx(1.0, abs=0.01)
    assert recorded.host_share(0.0, 0.2) == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize("place", range(6))
def test_a_pause_after_one_step_is_in_neither_the_wall_time_nor_its_queue(place: int) -> None:
    """The host pauses 5 ms after one of six steps of 320 us; the device waits for it in the step after."""
    story = Story()
    for step in range(6):
        story.edges.append(story.host)
        for _ in range(4):
            story.launch(ADD, 80.0)
        story.wait().work(5000.0 if step == place else 0.0)
        story.end()
    runs = kept(story.timeline())
    wall = float(np.median(runs.wall))
    assert wall < 400 * MICRO
    assert typical_queue(runs).wall() == pytest.approx(wall, rel=0.05)
