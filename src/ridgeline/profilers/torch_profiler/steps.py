"""The steps of a traced program, and which step launched what.

In this order: the profiler's own marks, `ridgeline.step()`, a range of the user that repeats and covers the run, the end of
`Optimizer.step`, the data loader, the period of the launches, else the entire run. Leading steps that take much longer than
the others (compilation, autotuning, first allocations) are left out and counted.

A host runs ahead of its device, so a step ends when the device has finished what the step launched, and the next begins
there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.timeline import BACKWARD, COPY, FILL, OPTIMIZER, Activity, Site, Steps
from ..chrome_trace import MICRO, RANGE, SLACK, Span
from ..repetition import MIN_REPEATS, period
from .events import STEP, STEP_MARK, Events
from .links import DATA_LOADER

if TYPE_CHECKING:
    from .timeline import Row

OPTIMIZER_STEP = "Optimizer.step#"
MIN_RANGE_COVERAGE = 0.8  # of the time from the first to the last of the ranges that are taken for steps
WARMUP_RATIO = 1.5  # of the median of the others, from which a leading step is warm-up
_NUMBER = re.compile(r"\d+")


class Marks(NamedTuple):
    """When the host began each step, when it ended the last, and how that is known."""

    starts: np.ndarray
    end: float
    how: str


def find_steps(
    events: Events, rows: Sequence[Row], sites: Sequence[Site], activities: Sequence[Activity], zero: float
) -> tuple[Steps, np.ndarray]:
    """The kept steps, and for every run the kept step that launched it or -1; `zero` is the time to count from."""
    launched = np.array([row.launch.start if row.launch else row.start for row in rows])
    ends = np.array([row.end for row in rows])
    marks = _marked(events, rows) or _by_period(rows, sites, activities, launched)
    if marks is None:
        first = min((row.start for row in rows), default=zero)
        marks = Marks(np.array([min([first, *launched])]), max([*ends, first]), "single")
    step_of = np.searchsorted(marks.starts, launched, "right") - 1
    step_of[launched > marks.end] = -1
    starts, finished = _boundaries(marks, step_of, ends, bool(events.records))
    warmup = _warmup(finished - starts)
    step_of = np.where(step_of >= warmup, step_of - warmup, -1)
    kept = slice(warmup, None)
    return Steps((starts[kept] - zero) * MICRO, (finished[kept] - zero) * MICRO, marks.how, warmup), step_of


def _boundaries(marks: Marks, step_of: np.ndarray, ends: np.ndarray, device: bool) -> tuple[np.ndarray, np.ndarray]:
    host_ends = np.append(marks.starts[1:], marks.end)
    if not device:
        return marks.starts, host_ends
    finished = np.full(len(marks.starts), -np.inf)
    inside = step_of >= 0
    np.maximum.at(finished, step_of[inside], ends[inside])
    finished = np.where(np.isfinite(finished), finished, host_ends)
    if len(finished) == 1:
        finished = np.maximum(finished, host_ends)
    finished = np.maximum.accumulate(np.maximum(finished, marks.starts[0]))
    return np.append(marks.starts[0], finished[:-1]), finished


def _warmup(lengths: np.ndarray) -> int:
    """How many leading steps take more than 1.5 times the median of those after them; at most half of all."""
    count = 0
    while 2 * (count + 1) <= len(lengths) and lengths[count] > WARMUP_RATIO * np.median(lengths[count + 1 :]):
        count += 1
    return count


# -- marks ---------------------------------------------------------------------------------------------------------


def _marked(events: Events, rows: Sequence[Row]) -> Marks | None:
    for mark, how in ((STEP, "profiler"), (STEP_MARK, "marked")):
        spans = sorted((span for span in events.marks if span.what == mark), key=lambda span: span.start)
        if spans:
            return _from_spans(spans, how)
    ranges = _ranges(events)
    return _covering(ranges) or _ended_by(ranges, OPTIMIZER_STEP, rows) or _begun_by(ranges, DATA_LOADER, rows)


def _from_spans(spans: Sequence[Span], how: str) -> Marks:
    return Marks(np.array([span.start for span in spans]), max(span.end for span in spans), how)


def _ranges(events: Events) -> dict[tuple[str, str], list[Span]]:
    """The user's ranges by thread and name without its numbers, in the order they began."""
    ranges: dict[tuple[str, str], list[Span]] = defaultdict(list)
    for lane, spans in events.lanes.items():
        for span in spans:
            if span.kind == RANGE:
                ranges[lane, _NUMBER.sub("#", span.what)].append(span)
    for spans in ranges.values():
        spans.sort(key=lambda span: span.start)
    return ranges


def _covering(ranges: dict[tuple[str, str], list[Span]]) -> Marks | None:
    """The range that repeats one after the other and has most of the time."""
    best: tuple[float, Sequence[Span]] | None = None
    for (_, name), spans in ranges.items():
        if len(spans) < MIN_REPEATS or name.startswith((OPTIMIZER_STEP, DATA_LOADER)):
            continue
        apart = all(span.end <= following.start + SLACK for span, following in pairwise(spans))
        covered = sum(span.end - span.start for span in spans)
        length = spans[-1].end - spans[0].start
        if apart and covered >= MIN_RANGE_COVERAGE * length and (best is None or covered > best[0]):
            best = covered, spans
    return _from_spans(best[1], "marked") if best else None


def _ended_by(ranges: dict[tuple[str, str], list[Span]], name: str, rows: Sequence[Row]) -> Marks | None:
    """A training step ends with the optimizer; of several optimizers the one that steps least often ends it."""
    candidates = [spans for (_, other), spans in ranges.items() if other.startswith(name) and len(spans) > 1]
    if not candidates or not rows:
        return None
    spans = min(candidates, key=len)
    first = min(rows[0].launch.start if rows[0].launch else rows[0].start, spans[0].start)
    return Marks(np.array([first, *(span.end for span in spans[:-1])]), spans[-1].end, "repetition")


def _begun_by(ranges: dict[tuple[str, str], list[Span]], name: str, rows: Sequence[Row]) -> Marks | None:
    """A step begins with its data; the last call of an exhausted loader begins none."""
    candidates = [spans for (_, other), spans in ranges.items() if other.startswith(name) and len(spans) >= MIN_REPEATS]
    if not candidates or not rows:
        return None
    spans = max(candidates, key=len)
    launched = [row.launch.start if row.launch else row.start for row in rows]
    last = max(launched)
    starts = [span.start for span in spans if span.start <= last]
    return Marks(np.array(starts), last, "repetition") if len(starts) >= MIN_REPEATS else None


# -- the period of the launches ------------------------------------------------------------------------------------


def _by_period(
    rows: Sequence[Row], sites: Sequence[Site], activities: Sequence[Activity], launched: np.ndarray
) -> Marks | None:
    """By sites and kernels; where shapes change from step to step (a growing cache), by operators and kernels."""
    order = [
        place
        for place in np.argsort(launched, kind="stable")
        if activities[rows[place].activity].kind not in (COPY, FILL)
    ]
    if not order:
        return None
    times = np.array([rows[place].end - rows[place].start for place in order])
    exact = [(rows[place].site, activities[rows[place].activity].name) for place in order]
    names = [(sites[site].call.name if site >= 0 else "", kernel) for site, kernel in exact]
    for described in (exact, names):
        numbers: dict[object, int] = {}
        tokens = [numbers.setdefault(item, len(numbers)) for item in described]
        repeated = period(tokens, times)
        if repeated is None:
            continue
        phases = [sites[rows[place].site].phase if rows[place].site >= 0 else "" for place in order]
        begin = _begin(phases[repeated.begin : repeated.begin + repeated.length]) + repeated.begin
        count = repeated.repeats if begin == repeated.begin else repeated.repeats - 1
        starts = launched[[order[begin + turn * repeated.length] for turn in range(count)]]
        last = order[begin + count * repeated.length - 1]
        return Marks(starts, float(launched[last]), "repetition")
    return None


def _begin(phases: Sequence[str]) -> int:
    """Where in a period the step begins: after the optimizer, else after the backward pass, else where the period does."""
    for last in (OPTIMIZER, BACKWARD):
        changes = [place for place, phase in enumerate(phases) if phases[place - 1] == last != phase]
        if changes:
            return changes[0]
    return 0
