"""Idle time of the device, gap by gap: what ended each gap, and why the device had nothing to do.

A gap lies between the end of all runs so far and the start of the next one. Where the launch of that one had returned
before the device ran dry, the gap is latency of the device. Else the host was late: it waited for data, it had just
waited for the device (a synchronisation), or it was dispatching.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.timeline import Timeline
from .kept import Kept, busy
from .queue import is_data_wait

LAUNCH, SYNCHRONISATION, DATA, LATENCY, UNKNOWN = CAUSES = (
    "launch", "synchronisation", "data loader", "device latency", "unknown",
)  # fmt: skip
SLACK = 1e-6  # seconds within which two events are taken as simultaneous
MIN_DATA_SHARE = 0.5  # of a gap in which the host waited for data
MAX_GAPS = 5  # that are listed


@dataclass(frozen=True)
class IdleGap:
    """`wait` is the place of the wait that caused it among those of the timeline, -1 without any."""

    step: int
    time: float
    cause: str
    ended_by: str  # the operator or kernel that ran next
    source: str = ""
    after: str = ""
    wait: int = -1

    DOCUMENT: ClassVar = ("us=time", "cause", "ended_by", "after", "source?")


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


def idle_gaps(kept: Kept) -> list[IdleGap]:
    """All gaps of the kept steps, in order; empty for a program that runs on the host."""
    if kept.on_host:
        return []
    timeline = kept.timeline
    gaps: list[IdleGap] = []
    for step in range(kept.steps):
        places = kept.of_step(step)
        reached = np.maximum.accumulate(np.concatenate([[kept.begin[step]], kept.stop[places]]))
        lengths = kept.start[places] - reached[:-1]
        for row in np.flatnonzero(lengths > 0).tolist():
            place = int(places[row])
            before = int(places[row - 1]) if row else -1
            gaps.append(_gap(kept, step, place, before, float(reached[row]), float(lengths[row])))
        trailing = float(kept.end[step] - reached[-1])
        if trailing > SLACK:
            cause, wait = _host_cause(timeline, float(reached[-1]), float(kept.end[step]))
            gaps.append(IdleGap(step, trailing, cause, "end of step", after=_name(kept, int(places[-1])), wait=wait))
    return gaps


def _gap(kept: Kept, step: int, place: int, before: int, dry: float, length: float) -> IdleGap:
    returned = float(kept.launched[place])
    if np.isnan(returned):
        cause, wait = UNKNOWN, -1
    elif returned <= dry + SLACK:
        cause, wait = LATENCY, -1
    else:
        cause, wait = _host_cause(kept.timeline, dry, min(returned, dry + length))
    site = int(kept.site[place])
    source = kept.timeline.sites[site].source if site >= 0 else ""
    return IdleGap(step, length, cause, _name(kept, place), source, _name(kept, before) if before >= 0 else "", wait)


def _name(kept: Kept, place: int) -> str:
    site = int(kept.site[place])
    ran = kept.timeline.activities[int(kept.activity[place])]
    return kept.timeline.sites[site].call.name if site >= 0 else ran.name


def _host_cause(timeline: Timeline, dry: float, sent: float) -> tuple[str, int]:
    """What the host did between the device running dry and the next launch, and the wait that it did it in."""
    waits = timeline.waits
    if not len(waits):
        return LAUNCH, -1
    start, end = np.asarray(waits.start), np.asarray(waits.end)
    overlap = np.minimum(end, sent) - np.maximum(start, dry)
    touching = np.flatnonzero((overlap > 0) | ((end >= dry - SLACK) & (start <= dry)))
    data = [place for place in touching.tolist() if is_data_wait(waits.what[place])]
    if data and sum(max(float(overlap[place]), 0.0) for place in data) >= MIN_DATA_SHARE * (sent - dry):
        return DATA, data[0]
    for place in touching.tolist():
        if not is_data_wait(waits.what[place]):
            return SYNCHRONISATION, place
    return LAUNCH, -1


def idle_by_cause(kept: Kept, gaps: list[IdleGap]) -> dict[str, float]:
    """Mean seconds per step of each cause."""
    return {cause: sum(gap.time for gap in gaps if gap.cause == cause) / kept.steps for cause in CAUSES}


def waited(kept: Kept, gaps: list[IdleGap]) -> list[Waited]:
    """The synchronisations and waits for data of the steps by operator and line, those that cost most first."""
    waits, timeline = kept.timeline.waits, kept.timeline
    groups: dict[tuple[str, str, str], list[int]] = {}
    spans = [kept.host_span(step) for step in range(kept.steps)]
    for place in range(len(waits)):
        if any(low <= waits.start[place] < high for low, high in spans):
            site = timeline.sites[int(waits.site[place])] if waits.site[place] >= 0 else None
            operator = waits.what[place]
            key = (waits.through[place], operator, site.source if site else "")
            groups.setdefault(key, []).append(place)
    listed = []
    for (through, operator, source), places in groups.items():
        time = sum(float(waits.end[place] - waits.start[place]) for place in places)
        idle = sum(gap.time for gap in gaps if gap.wait in set(places))
        each = len(places) / kept.steps
        listed.append(Waited(through, operator, source, each, time / kept.steps, idle / kept.steps, tuple(places)))
    return sorted(listed, key=lambda item: (-item.idle, -item.time))


def busy_times(kept: Kept) -> list[float]:
    """Seconds of each step in which the device runs something."""
    return [busy(kept.start[kept.of_step(step)], kept.stop[kept.of_step(step)]) for step in range(kept.steps)]
