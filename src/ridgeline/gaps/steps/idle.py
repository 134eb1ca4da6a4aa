"""Idle time of the device, gap by gap: what ended each gap, and why the device had nothing to do.

A gap lies between the end of all runs so far and the start of the next one. Where the launch of that one had returned
before the device ran dry, the gap is latency of the device. Else the host was late: it waited for data, it had just
waited for the device (a synchronisation), or it was dispatching.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from .kept import Floats, Ints, Kept, busy
from .queue import is_data_wait

LAUNCH, SYNCHRONISATION, DATA, LATENCY, UNKNOWN = CAUSES = (
    "launch", "synchronisation", "data loader", "device latency", "unknown",
)  # fmt: skip
SLACK = 1e-6  # seconds within which two events are taken as simultaneous
MIN_DATA_SHARE = 0.5  # of a gap in which the host waited for data
MAX_GAPS = 5  # that are listed


@dataclass(frozen=True)
class IdleGap:
    """One gap as it is shown."""

    time: float
    cause: str
    ended_by: str  # the operator or kernel that ran next
    after: str = ""
    source: str = ""

    DOCUMENT: ClassVar = ("idle_us=time", "cause", "ended_by", "after", "source?")


@dataclass(frozen=True)
class Gaps:
    """All gaps as columns; `run` ended it (-1: the step ended), `wait` caused it among the waits of the timeline (or -1)."""

    step: Ints
    time: Floats
    cause: Ints  # place in CAUSES
    run: Ints
    before: Ints
    wait: Ints

    def by_cause(self, steps: int) -> dict[str, float]:
        """Mean seconds per step of each cause."""
        times = np.bincount(self.cause, self.time, minlength=len(CAUSES)) / max(steps, 1)
        return dict(zip(CAUSES, times.tolist(), strict=True))

    def largest(self, kept: Kept, step: int, count: int) -> list[IdleGap]:
        """The largest gaps of a step."""
        places = np.flatnonzero(self.step == step)
        ranked = places[np.argsort(-self.time[places], kind="stable")][:count]
        return [self._shown(kept, place) for place in ranked.tolist()]

    def _shown(self, kept: Kept, place: int) -> IdleGap:
        run, before = int(self.run[place]), int(self.before[place])
        site = int(kept.site[run]) if run >= 0 else -1
        source = kept.timeline.sites[site].source if site >= 0 else ""
        ended, after = _name(kept, run) if run >= 0 else "end of step", _name(kept, before) if before >= 0 else ""
        return IdleGap(float(self.time[place]), CAUSES[int(self.cause[place])], ended, after, source)


@dataclass(frozen=True)
class Waited:
    """A place of the program where the host waits for the device, per step."""

    through: str  # the library call that waits
    operator: str  # that made it, or the library call itself
    source: str
    count: float
    time: float
    idle: float  # of the device, right after it
    waits: tuple[int, ...] = ()  # their places among those of the timeline

    DOCUMENT: ClassVar = ("operator", "through", "source", "count", "wait_us=time", "idle_us=idle")

    @property
    def name(self) -> str:
        at = f" at {self.source}" if self.source else ""
        return f"{self.operator or self.through}{at}"


def idle_gaps(kept: Kept) -> Gaps:
    """All gaps of the kept steps, in order; none for a program that runs on the host."""
    columns: list[list[Any]] = [[], [], [], [], []]  # step, start, end, run, run before
    for step in range(0 if kept.on_host else kept.steps):
        places = kept.of_step(step)
        reached = np.maximum.accumulate(np.concatenate([[kept.begin[step]], kept.stop[places]]))
        rows = np.flatnonzero(kept.start[places] > reached[:-1])
        trailing = bool(kept.end[step] - reached[-1] > SLACK)
        columns[0] += [step] * (len(rows) + trailing)
        columns[1] += [*reached[rows].tolist(), *([float(reached[-1])] * trailing)]
        columns[2] += [*kept.start[places[rows]].tolist(), *([float(kept.end[step])] * trailing)]
        columns[3] += [*places[rows].tolist(), *([-1] * trailing)]
        columns[4] += [*np.where(rows > 0, places[rows - 1], -1).tolist(), *([int(places[-1])] * trailing)]
    steps, runs, before = (np.array(columns[place], dtype=np.int64) for place in (0, 3, 4))
    dry, end = np.array(columns[1], dtype=np.float64), np.array(columns[2], dtype=np.float64)
    cause, wait = _causes(kept, dry, end, runs)
    return Gaps(steps, end - dry, cause, runs, before, wait)


def _name(kept: Kept, place: int) -> str:
    site = int(kept.site[place])
    ran = kept.timeline.activities[int(kept.activity[place])]
    return kept.timeline.sites[site].call.name if site >= 0 else ran.name


def _causes(kept: Kept, dry: Floats, end: Floats, runs: Ints) -> tuple[Ints, Ints]:
    """Why the device had nothing to do in each gap, and the wait of the host that is to blame."""
    returned = np.where(runs >= 0, kept.launched[np.maximum(runs, 0)], end) if len(kept.places) else end
    cause = np.full(len(dry), CAUSES.index(LAUNCH), dtype=np.int64)
    wait = np.full(len(dry), -1, dtype=np.int64)
    cause[np.isnan(returned)] = CAUSES.index(UNKNOWN)
    early = returned <= dry + SLACK
    cause[early] = CAUSES.index(LATENCY)
    sent = np.minimum(returned, end)
    waits = kept.timeline.waits
    start, stop = np.asarray(waits.start, dtype=np.float64), np.asarray(waits.end, dtype=np.float64)
    # waits are in order and hardly overlap: those that may touch a gap lie between two places
    low = np.searchsorted(np.maximum.accumulate(stop), dry - SLACK, side="left") if len(start) else dry
    high = np.searchsorted(start, sent, side="right") if len(start) else dry
    for gap in np.flatnonzero((cause == CAUSES.index(LAUNCH)) & (high > low)).tolist():
        touching = range(int(low[gap]), int(high[gap]))
        overlap = {place: min(stop[place], sent[gap]) - max(start[place], dry[gap]) for place in touching}
        data = [place for place in touching if is_data_wait(waits.what[place]) and overlap[place] > 0]
        if data and sum(overlap[place] for place in data) >= MIN_DATA_SHARE * (sent[gap] - dry[gap]):
            cause[gap], wait[gap] = CAUSES.index(DATA), data[0]
            continue
        for place in touching:
            stands = overlap[place] > 0 or (stop[place] >= dry[gap] - SLACK and start[place] <= dry[gap])
            if stands and not is_data_wait(waits.what[place]):
                cause[gap], wait[gap] = CAUSES.index(SYNCHRONISATION), place
                break
    return cause, wait


def waited(kept: Kept, gaps: Gaps) -> list[Waited]:
    """The synchronisations and waits for data of the steps by operator and line, those that cost most first."""
    waits, timeline = kept.timeline.waits, kept.timeline
    start = np.asarray(waits.start, dtype=np.float64)
    step = np.searchsorted(kept.host[:, 0], start, side="right") - 1
    inside = (step >= 0) & (start < kept.host[np.maximum(step, 0), 1])
    idle = np.bincount(gaps.wait[gaps.wait >= 0], gaps.time[gaps.wait >= 0], minlength=len(start))
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place in np.flatnonzero(inside).tolist():
        site = timeline.sites[int(waits.site[place])] if waits.site[place] >= 0 else None
        key = (waits.through[place], waits.what[place], site.source if site else "")
        groups.setdefault(key, []).append(place)
    listed = []
    for (through, operator, source), places in groups.items():
        time = sum(float(waits.end[place] - waits.start[place]) for place in places)
        caused = float(idle[places].sum())
        each = len(places) / kept.steps
        listed.append(Waited(through, operator, source, each, time / kept.steps, caused / kept.steps, tuple(places)))
    return sorted(listed, key=lambda item: (-item.idle, -item.time))


def busy_times(kept: Kept) -> list[float]:
    """Seconds of each step in which the device runs something."""
    return [busy(kept.start[kept.of_step(step)], kept.stop[kept.of_step(step)]) for step in range(kept.steps)]
