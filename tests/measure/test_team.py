"""Threads of the kernel suite: every row once, and honest about the time that their cores were taken."""

from __future__ import annotations

import time

import pytest

from ridgeline.measure.cpu import team
from ridgeline.measure.cpu.team import Team


@pytest.mark.parametrize(("rows", "step", "threads"), [(1024, 1, 3), (4096, 512, 2), (512, 512, 3), (7, 4, 2)])
def test_every_row_is_done_once_and_parts_begin_at_multiples_of_the_step(rows: int, step: int, threads: int) -> None:
    parts: list[tuple[int, int]] = []
    Team([-1] * threads).run(rows, step, lambda first, last: parts.append((first, last)))
    parts.sort()
    assert [row for first, last in parts for row in range(first, last)] == list(range(rows))
    assert all(first % step == 0 for first, last in parts if first < last)


def test_waiting_is_not_running() -> None:
    timing = Team([-1]).run(1, 1, lambda first, last: time.sleep(0.02))
    assert timing.seconds >= 0.02
    assert timing.busy < 0.5


def test_seconds_and_busy_share_give_the_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that waited 30 ms for its core and then ran for 10 ms had it for a quarter of the time."""
    wall, cpu = iter((0.0, 0.0305, 0.0405)), iter((1.0, 1.01))
    monkeypatch.setattr(team.time, "perf_counter", lambda: next(wall))
    monkeypatch.setattr(team.time, "thread_time", lambda: next(cpu))
    timing = team._timed(lambda first, last: None, 0, 1, 1, team.time.perf_counter())
    assert timing.busy == pytest.approx(0.25)
    assert timing.seconds * timing.busy == pytest.approx(0.01)


def test_loops_repeat_the_rows() -> None:
    calls: list[int] = []
    Team([-1]).run(1, 1, lambda first, last: calls.append(first), loops=5)
    assert calls == [0] * 5
