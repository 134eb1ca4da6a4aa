"""The steps of a traced program, and which step launched what.

In this order: the profiler's own marks, `ridgeline.step()`, the end of `Optimizer.step`, the data loader, a range, function or
module that is called over and over, the period of the launches, else the entire run. Leading steps that take much longer than
the others (compilation, autotuning, first allocations) are left out and counted.

A host runs ahead of its device, so a step ends when the device has finished what the step launched, and the next begins
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...core.timeline import BACKWARD, COPY, FILL, OPTIMIZER, Activity, Site, Steps
from ..chrome_trace import MICRO, RANGE, SLACK, Span
from ..repetition import MIN_REPEATS, period, warmup_steps
from ..watcher import MAX_OPTIMIZERS
from .events import STEP, STEP_MARK
from .links import DATA_LOADER, Trace
from .phases import OPTIMIZER_STEP

if TYPE_CHECKING:
    from .timeline import Row

Blocks = Mapping[tuple[str, str], Sequence[Span]]
MIN_COVERAGE = 0.8  # of the time from the first to the last call of what is taken for a step
NEARLY = 0.2  # of the calls of two steps of optimizers: what scalars change from step to step
MIN_WORK = 0.5  # of the time of all kernels, that the steps must have launched


class Marks(NamedTuple):
    """When the host began each step, when it ended the last, and how that is known."""

    starts: np.ndarray
    end: float
    how: str
    unsure: bool = False  # whether the beginning of the first step is not known


class Launches(NamedTuple):
    """Kernels and operators in the order the host launched them; copies and fills are left out."""

    start: np.ndarray  # of the launch
    begun: np.ndarray  # the first launch of the same call, of a copy or a fill too
    times: np.ndarray
    exact: list[int]  # the same number for the same site and kernel
    names: list[int]  # the same number for the same operator and kernel
    phases: list[str]


def find_steps(
    trace: Trace, rows: Sequence[Row], sites: Sequence[Site], activities: Sequence[Activity], zero: float
) -> tuple[Steps, np.ndarray]:
    """The kept steps, and for every run the kept step that launched it or -1; `zero` is the time to count from."""
    launched = np.array([row.launch.start if row.launch else row.start for row in rows])
    begins, ends = np.array([row.start for row in rows]), np.array([row.end for row in rows])
    launches = _launches(rows, sites, activities, launched)
    marks = _marked(trace, launches) or _by_period(launches) or _single_range(trace.links.blocks, launches)
    if marks is None:
        first = min([*launched, *begins], default=zero)
        marks = Marks(np.array([first]), max([*ends, first]), "single")
    step_of = np.searchsorted(marks.starts, launched, "right") - 1
    step_of[launched > marks.end] = -1
    starts, finished = _boundaries(marks, step_of, ends, bool(trace.events.records))
    work = np.bincount(step_of[step_of >= 0], (ends - begins)[step_of >= 0], len(starts))
    first = int(marks.unsure)
    warmup = first + warmup_steps((finished - starts)[first:], work[first:])
    step_of = np.where(step_of >= warmup, step_of - warmup, -1)
    kept = slice(warmup, None)
    return Steps((starts[kept] - zero) * MICRO, (finished[kept] - zero) * MICRO, marks.how, warmup), step_of


def _launches(
    rows: Sequence[Row], sites: Sequence[Site], activities: Sequence[Activity], launched: np.ndarray
) -> Launches:
    order = [
        place
        for place in np.argsort(launched, kind="stable")
        if activities[rows[place].activity].kind not in (COPY, FILL)
    ]
    exact: dict[tuple[int, str], int] = {}
    names: dict[tuple[str, str], int] = {}
    described = [(rows[place].site, activities[rows[place].activity].name) for place in order]
    named = [(sites[site].call.name if site >= 0 else "", kernel) for site, kernel in described]
    first: dict[int, float] = {}
    for row, start in zip(rows, launched.tolist(), strict=True):
        if row.call >= 0:
            first[row.call] = min(start, first.get(row.call, start))
    return Launches(
        launched[order],
        np.array([first.get(rows[place].call, launched[place]) for place in order]),
        np.array([rows[place].end - rows[place].start for place in order]),
        [exact.setdefault(item, len(exact)) for item in described],
        [names.setdefault(item, len(names)) for item in named],
        [sites[rows[place].site].phase if rows[place].site >= 0 else "" for place in order],
    )


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


# -- marks ---------------------------------------------------------------------------------------------------------


def _marked(trace: Trace, launches: Launches) -> Marks | None:
    for mark, how in ((STEP, "profiler"), (STEP_MARK, "marked")):
        spans = sorted((span for span in trace.events.marks if span.what == mark), key=lambda span: span.start)
        if spans:
            return _from_spans(spans, how)
    blocks = trace.links.blocks
    return _ended_by(blocks, launches) or _begun_by(blocks, launches) or _covering(blocks, launches)


def _from_spans(spans: Sequence[Span], how: str) -> Marks:
    return Marks(np.array([span.start for span in spans]), max(span.end for span in spans), how)


def _ended_by(blocks: Blocks, launches: Launches) -> Marks | None:
    """A training step ends with the optimizer; of several optimizers the one that steps least often ends it, and of several
    of one kind that step in turn, the last.

    Where the first step began is not known: it is left out, with what was set up before it.
    """
    candidates = [spans for (_, name), spans in blocks.items() if name.startswith(OPTIMIZER_STEP) and len(spans) > 1]
    if not candidates or not len(launches.start):
        return None
    spans = min(candidates, key=len)
    launched = np.searchsorted(launches.start, [(span.start, span.end) for span in spans]).tolist()
    turn = _turn([Counter(launches.exact[begin:end]) for begin, end in launched])
    spans = spans[turn - 1 :: turn]
    first = min(float(launches.start.min()), spans[0].start)
    if launches.times[launches.start <= spans[-1].end].sum() < MIN_WORK * launches.times.sum():
        return None  # steps before a graph was captured, whose replays do not call the optimizer
    return Marks(np.array([first, *(span.end for span in spans[:-1])]), spans[-1].end, "optimizer", True)


def _turn(made: Sequence[Counter[int]]) -> int:
    """After how many steps of optimizers the same one steps again: where their calls are most alike, or nearly so.

    Optimizers of networks that mirror each other, as those of a GAN, have calls in common; the first steps also set up.
    """
    alike = [
        float(np.median([_likeness(one, other) for one, other in zip(made, made[lag:], strict=False)]))
        for lag in range(1, min(len(made) // 2, MAX_OPTIMIZERS) + 1)
    ]
    return next((lag for lag, share in enumerate(alike, 1) if share >= max(alike) - NEARLY), 1)


def _likeness(one: Counter[int], other: Counter[int]) -> float:
    """The share of calls that two steps have in common."""
    return (one & other).total() / max((one | other).total(), 1)


def _begun_by(blocks: Blocks, launches: Launches) -> Marks | None:
    """A step begins with its data; the last call of an exhausted loader begins none."""
    candidates = [spans for (_, name), spans in blocks.items() if name.startswith(DATA_LOADER)]
    if not candidates or not len(launches.start):
        return None
    last = float(launches.start.max())
    starts = [span.start for span in max(candidates, key=len) if span.start <= last]
    return Marks(np.array(starts), last, "data loader") if len(starts) >= MIN_REPEATS else None


def _covering(blocks: Blocks, launches: Launches) -> Marks | None:
    """The range, function or module that is called over and over, one call after the other, and has most of the time."""
    best: tuple[float, Sequence[Span]] | None = None
    for spans in blocks.values():
        if len(spans) < MIN_REPEATS or any(span.end > following.start + SLACK for span, following in pairwise(spans)):
            continue
        covered = sum(span.end - span.start for span in spans)
        if covered < MIN_COVERAGE * (spans[-1].end - spans[0].start) or (best and covered <= best[0]):
            continue
        edges = np.array([edge for span in spans for edge in (span.start, span.end)])
        inside = np.searchsorted(edges, launches.start) % 2 == 1
        if launches.times[inside].sum() >= MIN_WORK * launches.times.sum():
            best = covered, spans
    how = "marked" if best and best[1][0].kind == RANGE else "repetition"
    return _from_spans(best[1], how) if best else None


def _single_range(blocks: Blocks, launches: Launches) -> Marks | None:
    """The only range of the user that launched most of the work: what the user wants to look at."""
    candidates = []
    for (_, name), spans in blocks.items():
        if len(spans) == 1 and spans[0].kind == RANGE and not name.startswith((OPTIMIZER_STEP, DATA_LOADER)):
            inside = (launches.start >= spans[0].start) & (launches.start <= spans[0].end)
            if launches.times[inside].sum() >= MIN_WORK * launches.times.sum() > 0:
                candidates.append(spans[0])
    return _from_spans(candidates, "marked") if len(candidates) == 1 else None


# -- the period of the launches ------------------------------------------------------------------------------------


def _by_period(launches: Launches) -> Marks | None:
    """By sites and kernels; where shapes change from step to step (a growing cache), by operators and kernels."""
    for tokens in (launches.exact, launches.names):
        repeated = period(tokens, launches.times)
        if repeated is None:
            continue
        begin, turns = repeated.begin, repeated.repeats
        if repeated.end < len(
            tokens
        ):  # what follows belongs to a step in part: where one begins is not known by the end
            begin += _begin(launches.phases[begin : begin + repeated.length])
            turns -= begin > repeated.begin
        places = slice(begin, begin + turns * repeated.length, repeated.length)
        starts, calls = launches.start[places], launches.begun[places]
        if len(np.unique(calls)) == len(calls):  # a call whose memory is filled first is not parted
            starts = np.minimum(starts, calls)
        return Marks(starts, float(launches.start[begin + turns * repeated.length - 1]), "repetition")
    return None


def _begin(phases: Sequence[str]) -> int:
    """Where in a period the step begins: after the optimizer, else after the backward pass, else where the period does."""
    for last in (OPTIMIZER, BACKWARD):
        changes = [place for place, phase in enumerate(phases) if phases[place - 1] == last != phase]
        if changes:
            return changes[0]
    return 0
