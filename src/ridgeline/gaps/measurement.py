"""Measurement: the observations of a pair as runs of its step, with several kernels combined into one.

Profilers put kernels that differ only in time into one observation, whether they are runs of the step or parts of one
run. Counted flops or bytes decide which; without them every sample is a run. A sample faster than the floor is a finding,
and is never added to others until they make a plausible time.

The dispatch cost per launch comes from the machine's figure or from a trace:

    wall = max(device, launches x dispatch cost per launch)      waiting = wall - device
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import fsum, gcd, inf
from typing import Any

import numpy as np

from ..core.cached import cached_property
from ..core.errors import InputError
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.statistics import median, spread
from ..core.units import show
from ..core.work import Work
from .kernel_families import only_converts

MIN_SHARE_OF_STEP = 0.5  # of a step's amounts or floor, from which observations are a complete run
# Counters that add up over kernels; the others are ratios and sizes, which are weighted by time.
AMOUNTS = frozenset(
    {
        "hbm_read", "hbm_write", "l2_to_sm", "tma", "cycles", "spills", "local_sectors", "bank_conflicts",
        "shared_wavefronts",
    }
)  # fmt: skip


@dataclass(frozen=True)
class Measurement:
    """One run of a step: times and amounts add up, ratios are weighted by time."""

    samples: tuple[float, ...]  # seconds, one per run
    flops: Mapping[str, float]
    bytes: Mapping[str, float]
    counters: Mapping[str, float]
    conditions: Mapping[str, Any]
    kernels: tuple[str, ...]  # names of the kernels, each once
    launches: float  # kernels of one run
    path: tuple[str, ...]  # modules or ranges around all of it
    tools: tuple[str, ...]
    notes: tuple[str, ...]
    threads: float | None = None  # CPU threads it ran on, where the tool records them
    converting: float = 0.0  # share of the time in kernels that only copy a tensor into another layout

    @cached_property
    def median(self) -> float:
        return median(self.samples)

    @property
    def best(self) -> float:
        return min(self.samples)

    @property
    def runs(self) -> int:
        return len(self.samples)

    @property
    def several(self) -> tuple[float, ...]:
        """The samples, where there is more than one."""
        return self.samples if self.runs > 1 else ()

    @cached_property
    def spread(self) -> float:
        return spread(self.samples)


def combine(items: Sequence[Observation], work: Work, count: float = 1.0, ranged: bool = False) -> Measurement:
    """The observations of a pair as runs of its step, `count` of which the program has.

    `ranged`: the step is a range of the program, so that all kernels of one of its runs are parts of it.
    """
    if not items:
        raise InputError("no observations to combine")
    runs = _runs(items, work, count)
    parts = _in_range(items) if ranged and runs == 1 else 1
    parts = parts if parts > 1 else _parts(items, runs, work, count)
    weights = [_calls(item) * item.median for item in items]
    longest = items[int(np.argmax(weights))]
    threads = longest.settings.get("threads")
    return Measurement(
        samples=_samples(items, runs, parts),
        flops=_added([item.flops for item in items], items, runs / parts),
        bytes=_added([item.bytes for item in items], items, runs / parts),
        counters=_counters(items, weights, runs / parts),
        conditions=longest.conditions,
        kernels=tuple(dict.fromkeys(item.kernel for item in items if item.kernel)),
        launches=sum(_calls(item) for item in items) * parts / runs,
        path=_common_path([item.path for item in items]),
        tools=tuple(dict.fromkeys(item.tool for item in items)),
        notes=tuple(dict.fromkeys(note for item in items for note in item.notes)),
        threads=float(threads) if isinstance(threads, int | float) else None,
        converting=_converting(items, weights),
    )


def _common_path(paths: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The common start of all paths."""
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False))
    return tuple(parts[0] for parts in shared)


def _converting(items: Sequence[Observation], weights: Sequence[float]) -> float:
    """The share of the time in kernels that only copy a tensor into another layout; 0 where all do, as that is the step then."""
    spent, total = (
        fsum(weight for item, weight in zip(items, weights, strict=True) if only_converts(item)),
        fsum(weights),
    )
    return spent / total if spent < total else 0.0


def _calls(item: Observation) -> float:
    """How often a kernel ran per call of its op, where one observation holds the samples of several."""
    if not item.settings:
        return 1.0
    count, calls = item.settings.get("count"), item.settings.get("calls")
    return max(count / calls, 1.0) if isinstance(count, int) and isinstance(calls, int) and calls > 0 else 1.0


def _by_kernel(items: Sequence[Observation]) -> list[list[Observation]]:
    groups: dict[str, list[Observation]] = defaultdict(list)
    for item in items:
        groups[item.kernel or item.name].append(item)
    return list(groups.values())


def _runs(items: Sequence[Observation], work: Work, count: float) -> int:
    """How many times the step ran; repeated kernels are runs only where each can be the complete step."""
    common = gcd(*map(len, _by_kernel(items)))
    if common == 1:
        return 1
    if count > 1:
        return int(count) if common % int(count) == 0 else common
    return common if _share_of_step(items, work) / common >= MIN_SHARE_OF_STEP else 1


def _parts(items: Sequence[Observation], runs: int, work: Work, count: float) -> int:
    """Samples of each item per run: several where all items together cannot be the complete step.

    Only kernels of a profile can be parts. Timings of a step are runs of it; those faster than the floor are a finding.
    """
    lengths = {len(item.samples) for item in items}
    samples = min(lengths)
    profiled = all(item.kernel for item in items)
    if not profiled or runs > 1 or len(lengths) > 1 or samples == 1 or _share_of_step(items, work) >= MIN_SHARE_OF_STEP:
        return 1
    return samples // int(count) if samples % int(count) == 0 else samples


def _in_range(items: Sequence[Observation]) -> int:
    """Samples of each item per run of the range around them, where the profiler counted those; else 1."""
    runs, lengths = {item.settings.get("range_runs") for item in items}, {len(item.samples) for item in items}
    number, samples = runs.pop() if len(runs) == 1 else None, lengths.pop() if len(lengths) == 1 else 0
    if not isinstance(number, int) or number < 1 or samples % number:
        return 1
    return samples // number


def _share_of_step(items: Sequence[Observation], work: Work) -> float:
    """Share of the step that the items cover by counted flops or bytes; infinite where neither is known."""
    shares = []
    flops, moved = float(np.asarray(work.flops)), float(np.asarray(work.bytes))
    if flops and all(item.flops for item in items):
        shares.append(sum(sum(item.flops.values()) for item in items) / flops)
    if moved and all(item.bytes for item in items):
        shares.append(sum(max(item.bytes.values()) for item in items) / moved)
    return max(shares, default=inf)


def _samples(items: Sequence[Observation], runs: int, parts: int) -> tuple[float, ...]:
    """Times of the runs, with `parts` samples of each item per run."""
    if parts > 1:
        return tuple(
            sum(_calls(item) * sum(item.samples[start : start + parts]) for item in items)
            for start in range(0, len(items[0].samples), parts)
        )
    if len(items) == 1 or runs == 1:
        return _summed(items)
    samples: list[float] = []
    shares = [(group, len(group) // runs) for group in _by_kernel(items)]
    for run in range(runs):
        samples += _summed([item for group, each in shares for item in group[run * each : (run + 1) * each]])
    return tuple(samples)


def _summed(items: Sequence[Observation]) -> tuple[float, ...]:
    """Times of runs that contain all items: sample by sample where the counts agree, else the sum of the medians."""
    if len(items) == 1 and _calls(items[0]) == 1.0:
        return items[0].samples
    if len({len(item.samples) for item in items}) > 1:
        return (sum(_calls(item) * item.median for item in items),)
    calls, rows = [_calls(item) for item in items], zip(*(item.samples for item in items), strict=True)
    return tuple(sum(count * sample for count, sample in zip(calls, row, strict=True)) for row in rows)


def _added(amounts: Sequence[Mapping[str, float]], items: Sequence[Observation], runs: float) -> dict[str, float]:
    """Amounts per run; an amount that any kernel lacks is unknown."""
    if len(items) == 1 and runs == 1 and _calls(items[0]) == 1:
        return dict(amounts[0])
    return {
        name: sum(_calls(item) * row[name] for row, item in zip(amounts, items, strict=True)) / runs
        for name in amounts[0]
        if all(name in row for row in amounts)
    }


def _counters(items: Sequence[Observation], weights: Sequence[float], runs: float) -> dict[str, float]:
    rows = [item.counters for item in items]
    if len(rows) == 1 and runs == 1:
        return dict(rows[0])
    total = sum(weights)
    return {
        name: sum(row[name] for row in rows) / runs
        if name in AMOUNTS
        else sum(weight * row[name] for weight, row in zip(weights, rows, strict=True)) / total
        for name in rows[0]
        if all(name in row for row in rows)
    }


@dataclass(frozen=True)
class Host:
    """Dispatch cost per launch in seconds, and its source."""

    each: float
    evidence: str
    at_most: bool = False  # an upper bound


def host_cost(items: Sequence[Observation], measurement: Measurement, machine: Machine) -> Host | None:
    """Dispatch cost per launch of the step's kernels: the machine's figure, or that of a trace where it is lower.

    A trace gives an upper bound, because recording slows the host: (device time + idle time) / launches. A single kernel
    has none: its wait depends on the kernels before it.
    """
    if measurement.launches < 2:
        return None
    idle = [wait for item in items if isinstance(wait := item.settings.get("host_wait"), float) and 0 <= wait < inf]
    traced = (measurement.median + fsum(idle) / len(measurement.samples)) / measurement.launches if idle else None
    figure = machine.dispatch.value()
    if figure is not None and (traced is None or figure <= traced):
        trace = f"; {show(traced, 's', 3)} in the trace, which slows the host" if traced is not None else ""
        kind = f"{machine.dispatch.kind()} on {machine.name}"
        return Host(figure, f"model: dispatch cost {show(figure, 's', 3)} per launch, {kind}{trace}")
    if traced is None:
        return None
    evidence = f"trace: one launch every {show(traced, 's', 3)}; an upper bound, because recording slows the host"
    return Host(traced, evidence, at_most=True)
