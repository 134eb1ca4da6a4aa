"""Kept: the runs of a timeline that belong to its steps, and the wall time of each step.

A run belongs to the step in which it was launched. The host may be ahead of the device, so that a step on the host, from
its first launch to that of the next one, is not the same stretch of time as on the device.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.cached import cached_property
from ...core.errors import InputError
from ...core.timeline import COLLECTIVE, COPY, OPERATOR, Timeline

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Kept:
    """Columns of the kept runs, in order of their start; `places` are their places among all runs of the timeline."""

    timeline: Timeline
    places: Ints
    step: Ints  # of each run
    begin: Floats  # of each step's wall time
    end: Floats
    host: Floats  # start and end of each step on the host, two columns

    @property
    def steps(self) -> int:
        return len(self.begin)

    @cached_property
    def start(self) -> Floats:
        return np.asarray(self.timeline.runs.start, dtype=np.float64)[self.places]

    @cached_property
    def stop(self) -> Floats:
        return np.asarray(self.timeline.runs.end, dtype=np.float64)[self.places]

    @cached_property
    def time(self) -> Floats:
        return self.stop - self.start

    @cached_property
    def launched(self) -> Floats:
        """When the launch call of each run returned; NaN where that was not recorded."""
        return np.asarray(self.timeline.runs.launched, dtype=np.float64)[self.places]

    @cached_property
    def site(self) -> Ints:
        return np.asarray(self.timeline.runs.site, dtype=np.int64)[self.places]

    @cached_property
    def activity(self) -> Ints:
        return np.asarray(self.timeline.runs.activity, dtype=np.int64)[self.places]

    @cached_property
    def stream(self) -> Ints:
        return np.asarray(self.timeline.runs.stream, dtype=np.int64)[self.places]

    @cached_property
    def graph(self) -> NDArray[np.bool_]:
        return np.asarray(self.timeline.runs.graph, dtype=np.bool_)[self.places]

    @cached_property
    def correlated(self) -> NDArray[np.bool_]:
        return np.asarray(self.timeline.runs.correlated, dtype=np.bool_)[self.places]

    @cached_property
    def wall(self) -> Floats:
        return self.end - self.begin

    @cached_property
    def on_host(self) -> bool:
        """Whether the operators ran on the host itself: there is no device, and no launch."""
        return all(self.timeline.activities[place].kind == OPERATOR for place in np.unique(self.activity))

    @cached_property
    def median_step(self) -> int:
        """The step whose wall time is the median (of an even number, the shorter of the two).

        What comes after the last step on the host is not known, so that it counts only where there are few.
        """
        walls = self.wall[:-1] if self.steps > 2 else self.wall
        return int(np.argsort(walls, kind="stable")[(len(walls) - 1) // 2])

    @cached_property
    def call(self) -> Ints:
        """The row of the host's calls that launched each run, -1 where it is not known."""
        return np.asarray(self.timeline.runs.call, dtype=np.int64)[self.places]

    def host_span(self, step: int) -> tuple[float, float]:
        """Start and end of a step on the host."""
        return float(self.host[step, 0]), float(self.host[step, 1])

    def of_step(self, step: int) -> Ints:
        """The runs of a step."""
        return self._by_step[step]

    @cached_property
    def _by_step(self) -> list[Ints]:
        order = np.argsort(self.step, kind="stable")
        return np.split(order, np.searchsorted(self.step[order], np.arange(1, self.steps)))

    def kinds(self, *wanted: str) -> NDArray[np.bool_]:
        """Which runs are of these kinds of activity."""
        listed = np.array([activity.kind in wanted for activity in self.timeline.activities], dtype=np.bool_)
        return listed[self.activity]

    @property
    def moving(self) -> NDArray[np.bool_]:
        """Which runs are communication or copies between host and device."""
        return self.kinds(COLLECTIVE, COPY)


def kept(timeline: Timeline) -> Kept:
    """The runs of the kept steps."""
    runs = timeline.runs
    if not len(runs):
        raise InputError("the trace holds no kernels and no operators; run something inside the profiler")
    step = np.asarray(runs.step, dtype=np.int64)
    places = np.flatnonzero(step >= 0)
    if not len(places):
        raise InputError("no kernel of the trace was launched within its steps; record complete steps")
    start = np.asarray(runs.start, dtype=np.float64)
    places = places[np.argsort(start[places], kind="stable")]
    used = np.unique(step[places])
    begin, end = (np.asarray(column, dtype=np.float64)[used] for column in (timeline.steps.start, timeline.steps.end))
    renumbered = np.searchsorted(used, step[places])
    return Kept(timeline, places, renumbered, begin, end, _host_spans(timeline, places, renumbered, begin, end))


def _host_spans(timeline: Timeline, places: Ints, step: Ints, begin: Floats, end: Floats) -> Floats:
    """Start and end of each step on the host: from its first call to that of the next step."""
    launched = np.asarray(timeline.runs.launched, dtype=np.float64)[places]
    calls = np.asarray(timeline.runs.call, dtype=np.int64)[places]
    sent = np.where(np.isnan(launched), np.inf, launched)
    if len(timeline.calls):
        began = np.asarray(timeline.calls.start, dtype=np.float64)[np.maximum(calls, 0)]
        sent = np.where(calls >= 0, np.minimum(began, sent), sent)
    first = np.full(len(begin), np.inf)
    np.minimum.at(first, step, sent)
    first = np.where(np.isfinite(first), first, begin)
    waits = np.asarray(timeline.waits.start, dtype=np.float64)
    waited = np.asarray(timeline.waits.end, dtype=np.float64)[(waits >= first[-1]) & (waits < end[-1])]
    launches = np.where(np.isnan(launched), -np.inf, launched)[step == len(begin) - 1]
    last = np.append(first[1:], max(float(launches.max()), float(waited.max(initial=-np.inf)), float(first[-1])))
    return np.stack([first, np.maximum(last, first)], axis=1)


def busy(start: Floats, stop: Floats) -> float:
    """Seconds in which at least one of the intervals runs; they are in order of their start."""
    if not len(start):
        return 0.0
    reached = np.concatenate([[-np.inf], np.maximum.accumulate(stop)[:-1]])
    return float(np.maximum(stop - np.maximum(start, reached), 0.0).sum())
