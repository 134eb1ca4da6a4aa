"""Device times of many cases with cold caches: built, warmed and traced in chunks, each with its reason where it fails.

A sample is the sum of the durations of a call's kernels; `span` is last end less first start.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ...core.errors import first_line
from .cases import Case
from .operands import Run
from .tracing import Event, open_gpu, split

Progress = Callable[[int, int], None]
Now = Callable[[], float]

LONG_SECONDS = 1e-3  # from which a case is called less often
LONG_REPEATS = 3
CHUNK_CASES = 64  # in one session of the profiler: some two thousand kernels
NAME_LENGTH = 120  # characters kept of a kernel's name


@dataclass(frozen=True)
class Timed:
    """What a case took: sums and spans of its kernels per call, the kernels of the median call; or why it has no time."""

    case: Case
    samples: tuple[float, ...] = ()
    span: tuple[float, ...] = ()
    kernels: tuple[tuple[str, float], ...] = ()
    reason: str = ""
    conditions: Mapping[str, float] = field(default_factory=dict)


class Bench(Protocol):
    """Where cases run; tests bring their own."""

    def build(self, case: Case) -> Run: ...

    def warm(self, run: Run) -> float: ...

    def trace(self, plan: Sequence[tuple[Run, int]]) -> list[Event]: ...

    def conditions(self, begin: float, end: float) -> dict[str, float]: ...

    def clear(self) -> None: ...


def short_name(kernel: str) -> str:
    """A kernel's name without what all of them carry."""
    for common in ("void ", "at::native::", "(anonymous namespace)::", "c10::", "<unnamed>::"):
        kernel = kernel.replace(common, "")
    return kernel[:NAME_LENGTH]


def summed(case: Case, calls: Sequence[Sequence[Event]], conditions: Mapping[str, float]) -> Timed:
    if not calls or not calls[0]:
        return Timed(case, reason="no kernel ran on the device")
    sums = tuple(sum(event.duration for event in call) for call in calls)
    spans = tuple(max(event.end for event in call) - min(event.start for event in call) for call in calls)
    median_call = calls[sums.index(sorted(sums)[len(sums) // 2])]
    kernels = tuple((short_name(event.name), event.duration) for event in median_call)
    return Timed(case, sums, spans, kernels, conditions=dict(conditions))


def times(
    cases: Sequence[Case], repeats: int = 7, on_progress: Progress | None = None, bench: Bench | None = None
) -> list[Timed]:
    """All cases in their order; one that cannot be timed keeps its place and says why."""
    if bench is None:
        gpu, watch, _ = open_gpu()
        with watch:
            return times(cases, repeats, on_progress, gpu)
    timed: list[Timed] = []
    for chunk in chunks(cases, bench, repeats):
        timed += chunk
        if on_progress is not None:
            on_progress(len(timed), len(cases))
    return timed


def chunks(
    cases: Sequence[Case], bench: Bench, repeats: int = 7, until: float = math.inf, now: Now = time.perf_counter
) -> Iterator[list[Timed]]:
    """The cases chunk by chunk, in their order, as they are timed; no chunk begins after `until` on the clock."""
    for first in range(0, len(cases), CHUNK_CASES):
        if now() >= until:
            return
        yield _chunk(cases[first : first + CHUNK_CASES], bench, repeats, now)
        bench.clear()


def _chunk(cases: Sequence[Case], bench: Bench, repeats: int, now: Now) -> list[Timed]:
    timed: dict[int, Timed] = {}
    plan: list[tuple[int, Run, int]] = []
    for index, case in enumerate(cases):
        try:
            run = bench.build(case)
            seconds = bench.warm(run)
        except Exception as error:  # whatever a library refuses: out of memory, a format, a layout
            timed[index] = Timed(case, reason=first_line(error))
            bench.clear()
        else:
            plan.append((index, run, min(repeats, LONG_REPEATS) if seconds > LONG_SECONDS else repeats))
    timed.update(_traced(cases, plan, bench, now))
    return [timed[index] for index in range(len(cases))]


def _traced(cases: Sequence[Case], plan: Sequence[tuple[int, Run, int]], bench: Bench, now: Now) -> dict[int, Timed]:
    """One session over the plan; where it fails, one over each half, down to single cases, which are tried twice."""
    if not plan:
        return {}
    why = ""
    for _ in range(2 if len(plan) == 1 else 1):
        begin = now()
        try:
            calls = split(bench.trace([(run, repeats) for _, run, repeats in plan]), [row[2] for row in plan])
        except Exception as error:  # lost events, or memory that no longer sufficed
            why = first_line(error)
            continue
        during = bench.conditions(begin, now())
        return {index: summed(cases[index], each, during) for (index, _, _), each in zip(plan, calls, strict=True)}
    if len(plan) == 1:
        index = plan[0][0]
        return {index: Timed(cases[index], reason=why)}
    half = len(plan) // 2
    return _traced(cases, plan[:half], bench, now) | _traced(cases, plan[half:], bench, now)
