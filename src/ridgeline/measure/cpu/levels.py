"""The levels of a CPU's memory: which working sets the system says each serves, and the plateaus of the read sweep."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.machine import Machine
from ...core.notes import CONDITIONS, Note
from ...core.observation import Observation
from ...core.statistics import median
from ...core.units import show

MIN_BYTES = 1024
MIN_MEMORY_SET = 64e6  # bytes of the working set that is meant for the main memory, all cores together
MAX_MEMORY_SET = 1 << 32
CACHE_MULTIPLE = 4  # of the last-level cache that this set is
MEMORY_SHARE = 4  # the set is read and written: twice the set may take half of the available memory
SEGMENT_COST = 0.12  # what one more segment must explain, in units of the logarithm of bandwidth
CGROUP_MEMORY = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
MAX_PLATEAU_RATIO = 1.15  # a segment whose bandwidths differ by more is a slope between two levels
MIN_STEP_RATIO = 1.12  # neighbouring plateaus that differ by less are one
MAX_CAPACITY_RATIO = 1.7  # a capacity within this factor of the reported one agrees with it


@dataclass(frozen=True)
class Zone:
    """The working sets per thread that a level serves for certain: well above the level before, well within its own."""

    name: str
    first: float
    last: float

    def holds(self, size: float) -> bool:
        return self.first <= size <= self.last

    @property
    def middle(self) -> float:
        """A typical working set: of the innermost level a third, where the loop's own start no longer shows."""
        third = max(self.first, self.last / 3)
        return third if self.first <= MIN_BYTES else math.sqrt(self.first * self.last)


def zones(machine: Machine, threads: int, largest: float) -> list[Zone]:
    """The zone of every level, inner to outer, for so many threads at once."""
    caches: list[Zone] = []
    edge = 0.0
    for level in machine.levels[:-1]:
        instance, total = level.capacity.value(), level.total
        if not instance or not total:
            continue
        share = instance if threads == 1 else min(instance, total / threads)
        if share > edge:
            caches.append(Zone(level.name, max(2 * edge, MIN_BYTES), 0.7 * share))
            edge = share
    name = machine.levels[-1].name if machine.levels else "memory"
    return [*caches, Zone(name, min(3 * edge, largest // 512 * 512) if edge else largest / 2, largest)]


def last_cache(machine: Machine) -> tuple[str, float, float]:
    """Name of the last-level cache, bytes of one instance and of all; zeros where none is reported."""
    caches = [level for level in machine.levels[:-1] if level.total]
    return (
        (caches[-1].name, float(caches[-1].capacity.value() or 0), float(caches[-1].total or 0))
        if caches
        else ("", 0, 0)
    )


def working_set(machine: Machine, threads: int, quick: bool) -> float:
    """Bytes per thread of the largest working set: four times the last-level cache, as far as the memory allows."""
    _, instance, total = last_cache(machine)
    wanted = max(CACHE_MULTIPLE * (instance if threads == 1 else total), MIN_MEMORY_SET)
    return max(min(wanted, MAX_MEMORY_SET, available_memory() / MEMORY_SHARE) / threads, 16 * MIN_BYTES)


def available_memory() -> float:
    """Bytes that this process may still allocate: what the system has, within the limit of its cgroup."""
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        size = next(float(row.split()[1]) * 1024 for row in rows if row.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration, IndexError):
        size = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2
    for limit, used in CGROUP_MEMORY:
        try:
            size = min(size, float(Path(limit).read_text()) - float(Path(used).read_text()))
        except (OSError, ValueError):  # no such cgroup, or no limit
            continue
    return max(size, 0.0)


def sweep(first: float, last: float, factor: float) -> list[int]:
    count = math.floor(math.log(last / first) / math.log(factor) + 1e-9) + 1
    return [int(first * factor**step) // 512 * 512 for step in range(count)]


@dataclass(frozen=True)
class Plateau:
    """A range of working sets served at one bandwidth. `capacity` is where it ends; None for the outermost."""

    bandwidth: float
    first: float
    last: float
    capacity: float | None
    level: str = ""
    note: str = ""


def levels(observations: Iterable[Observation], machine: Machine | None = None) -> list[Plateau]:
    """The levels that the one-core read sweep shows, inner to outer; with a machine named and compared with its caches."""
    points = sorted(
        (float(each.settings["bytes"]), each.best_bandwidth)
        for each in observations
        if each.settings.get("mix") == "read" and each.settings.get("threads") == 1 and each.settings.get("burst", True)
    )
    if len(points) < 4:
        return []
    at = np.array([size for size, _ in points])
    # more data never comes faster: a small set that does is held up by the loop's own start, not by the cache
    rates = np.maximum.accumulate(np.array([rate for _, rate in points])[::-1])[::-1]
    plateaus: list[Plateau] = []
    for first, last in _segments(np.log(rates)):
        rate = median(rates[first:last].tolist())
        if at[last - 1] < 1.9 * at[first] or rates[first] > MAX_PLATEAU_RATIO * rates[last - 1]:
            continue
        if plateaus and plateaus[-1].bandwidth < MIN_STEP_RATIO * rate:
            plateaus[-1] = replace(plateaus[-1], last=float(at[last - 1]))
        else:
            plateaus.append(Plateau(rate, float(at[first]), float(at[last - 1]), None))
    if machine:
        plateaus = _named(plateaus, machine)
    beyond = [at[at > plateau.last] for plateau in plateaus]
    plateaus = [
        replace(plateau, capacity=math.sqrt(plateau.last * sizes[0]) if len(sizes) else None)
        for plateau, sizes in zip(plateaus, beyond, strict=True)
    ]
    return [_against_report(plateau, machine) for plateau in plateaus] if machine else plateaus


def _segments(values: Any) -> list[tuple[int, int]]:
    """Segments that are nearly constant: the split with the least scatter plus a cost for each segment."""
    count = len(values)
    cost = [0.0] + [math.inf] * count
    start = [0] * (count + 1)
    for end in range(1, count + 1):
        for begin in range(end):
            part = values[begin:end]
            total = cost[begin] + float(np.abs(part - np.median(part)).sum()) + SEGMENT_COST
            if total < cost[end]:
                cost[end], start[end] = total, begin
    segments: list[tuple[int, int]] = []
    end = count
    while end > 0:
        segments.append((start[end], end))
        end = start[end]
    return segments[::-1]


def _named(plateaus: list[Plateau], machine: Machine) -> list[Plateau]:
    """Each plateau after the cache that its middle fits into; two of one cache are one, as fast as its faster part."""
    caches = [(level.name, float(size)) for level in machine.levels[:-1] if (size := level.capacity.value())]
    outer = machine.levels[-1].name if machine.levels else "memory"
    named: list[Plateau] = []
    for plateau in plateaus:
        middle = math.sqrt(plateau.first * plateau.last)
        name = next((name for name, size in caches if middle <= size), outer)
        if plateau is plateaus[-1] and caches and plateau.last >= 2 * caches[-1][1]:
            name = outer  # what serves twice the last cache is not that cache, wherever it begins
        if named and named[-1].level == name:
            named[-1] = replace(named[-1], last=plateau.last)
        else:
            named.append(replace(plateau, level=name))
    return named


def _against_report(plateau: Plateau, machine: Machine) -> Plateau:
    size = next((level.capacity.value() for level in machine.levels[:-1] if level.name == plateau.level), None)
    if not size or not plateau.capacity or 1 / MAX_CAPACITY_RATIO <= plateau.capacity / size <= MAX_CAPACITY_RATIO:
        return plateau
    measured, reported = (show(value, "B", binary=True) for value in (plateau.capacity, size))
    text = f"read sweep: {plateau.level} ends at about {measured}; the system reports {reported}"
    return replace(plateau, note=Note(CONDITIONS, text))


def _unreported(plateaus: list[Plateau]) -> list[str]:
    """The plateaus in words, where the system reports no caches that they could be given to."""
    steps = []
    for plateau in plateaus:
        end = f"up to about {show(plateau.capacity, 'B', 3, binary=True)}" if plateau.capacity else "beyond"
        steps.append(f"{show(plateau.bandwidth, 'B/s', 3)} {end}")
    if len(steps) < 2:
        return []
    text = f"read sweep on one core: {', '.join(steps)}; the system reports no caches, so only the memory has a ceiling"
    return [Note(CONDITIONS, text)]


def with_plateau_notes(observations: list[Observation], machine: Machine) -> list[Observation]:
    """The read sweep's observations with what its plateaus say against the reported caches."""
    if not any(level.capacity.value() for level in machine.levels[:-1]):
        notes = _unreported(levels(observations))
    else:
        plateaus = levels(observations, machine)
        shown = {plateau.level for plateau in plateaus}
        notes = [plateau.note for plateau in plateaus if plateau.note]
        notes += [
            f"{level.name} ({show(level.capacity.value(), 'B', binary=True)} reported) has no plateau in the read sweep"
            for level in machine.levels[:-1]
            if plateaus and level.capacity.value() and level.name not in shown
        ]
    if not notes:
        return observations
    return [
        replace(each, notes=(*each.notes, *notes))
        if each.settings.get("mix") == "read" and each.settings.get("threads") == 1
        else each
        for each in observations
    ]
