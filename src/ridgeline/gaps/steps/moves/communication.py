"""Communication and copies that the device does not hide behind kernels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....core.timeline import COLLECTIVE, COPY
from ....core.units import show
from ..items import OpItem
from ..kept import Floats, Ints
from ..moved import copied_work, is_pageable, is_transfer
from ..view import View
from .move import Move, expected, price, price_runs, sources


def exposed(view: View) -> Iterator[Move]:
    """Collectives while no kernel runs: what other kernels of the step could cover."""
    runs = np.flatnonzero(view.kept.kinds(COLLECTIVE))
    cause, kind = "communication not overlapped", "communication"
    move = "overlap it with compute: bucketed gradients, a stream of its own, async collectives"
    yield from _uncovered_move(view, runs, "communication", cause, kind, move)


def exposed_copies(view: View) -> Iterator[Move]:
    """Copies from pinned memory while no kernel runs; those from pageable memory cannot overlap at all."""
    activities = view.kept.timeline.activities
    named = np.array([is_transfer(ran) and not is_pageable(ran) for ran in activities], dtype=np.bool_)
    runs = np.flatnonzero(named[view.kept.activity])
    cause, kind = "copies between host and device not overlapped", "copies"
    move = "copy the next batch ahead, on a stream of its own with non_blocking=True"
    yield from _uncovered_move(view, runs, "exposed copies", cause, kind, move)


def _uncovered_move(view: View, runs: Ints, rule: str, cause: str, kind: str, move: str) -> Iterator[Move]:
    """What kernels of the step could cover of some runs: as much as there is of both."""
    others = np.flatnonzero(~view.kept.kinds(COLLECTIVE, COPY))
    bare = _uncovered(view, runs, others)
    alone, compute = float(bare.sum()) / view.steps, float(view.kept.time[others].sum()) / view.steps
    hidden = min(alone, compute)
    if view.kept.on_host or alone <= 0:
        return
    spared = np.minimum(_spread(view, runs, bare), view.kept.time) * hidden / alone
    gain, device = price_runs(view, view.kept.time - spared)
    total = float(view.kept.time[runs].sum()) / view.steps
    evidence = (f"{show(alone, 's', 3)} of {show(total, 's', 3)} of {kind} per step is not covered by kernels",)
    groups = [item.group for item in view.items if np.isin(item.group.runs, runs).any()]
    yield Move(rule, cause, move, gain, evidence, device=device, sources=sources(groups))


def pageable_copies(view: View) -> Iterator[Move]:
    """Copies from pageable memory are staged by the driver; those that no kernel covers delay the step."""
    activities = view.kept.timeline.activities
    named = np.array([is_pageable(ran) for ran in activities], dtype=np.bool_)
    runs = np.flatnonzero(named[view.kept.activity])
    items = [item for item in view.items if np.isin(item.group.runs, runs).any()]
    if not items:
        return
    times = {item.group: min(_pinned_time(view, item), item.gap.measured) for item in items}
    gain, device = price(view, times)
    spent, pinned = sum(group.time for group in times), sum(time * group.count for group, time in times.items())
    size = sum(item.gap.target.count * float(sum(item.gap.target.work.moves.values())) for item in items)
    evidence = (
        f"{show(size, 'B', 3)} per step from pageable memory in {show(spent, 's', 3)}",
        f"expected {show(pinned, 's', 3)} from pinned memory, and less where it overlaps with kernels",
    )
    move = "pin the host memory (pin_memory=True) and copy with non_blocking=True"
    yield Move("pageable copies", "copies between device and pageable host memory", move, gain, evidence, device=device,
               sources=sources(times))  # fmt: skip


def _pinned_time(view: View, item: OpItem) -> float:
    """Seconds of a call as if its host memory were pinned."""
    ran = view.kept.timeline.activities[int(view.kept.activity[item.group.runs[0]])]
    work, _ = copied_work(ran, view.machine, pinned=True)
    return expected(view, work) if work is not None else float(item.gap.target.time)


def _uncovered(view: View, runs: Ints, others: Ints) -> Floats:
    """Seconds of each run in which none of the others runs."""
    start, stop = view.kept.start[others], view.kept.stop[others]
    order = np.argsort(start, kind="stable")
    start, stop = start[order], np.maximum.accumulate(stop[order]) if len(others) else stop
    bare = view.kept.time[runs].copy()
    for index, run in enumerate(runs.tolist()):
        low, high = view.kept.start[run], view.kept.stop[run]
        first, last = np.searchsorted(stop, low, side="right"), np.searchsorted(start, high)
        covered, reached = 0.0, low
        for place in range(int(first), int(last)):
            begin, end = max(float(start[place]), reached), min(float(stop[place]), high)
            if end > begin:
                covered += end - begin
                reached = end
        bare[index] -= covered
    return np.maximum(bare, 0.0)


def _spread(view: View, runs: Ints, values: Floats) -> Floats:
    every = np.zeros(len(view.kept.places))
    every[runs] = values
    return every
