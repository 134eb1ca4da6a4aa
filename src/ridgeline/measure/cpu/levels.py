"""The levels of a CPU's memory: which working sets each serves by report, and what plateaus the read sweep shows."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.machine import Machine
from ...core.observation import Observation
from ...core.units import show

SMALLEST = 1024
MOST = {True: 1 << 31, False: 1 << 32}  # bytes of the largest working set, quick and full
PRICE = 0.12  # what one more stretch must explain, in units of the logarithm of bandwidth
FLAT = 1.15  # a stretch whose bandwidths differ by more is a slope between two levels
APART = 1.12  # neighbouring plateaus that differ by less are one
AGREES = 1.7  # a found capacity within this factor of the reported one agrees with it


# -- how large the working sets are ------------------------------------------------------------------------------------


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
        return third if self.first <= SMALLEST else math.sqrt(self.first * self.last)


def zones(machine: Machine, threads: int, largest: float) -> list[Zone]:
    """The zone of every level, inner to outer, for so many threads at once."""
    found: list[Zone] = []
    edge = 0.0
    for level in machine.levels[:-1]:
        one, total = level.capacity.value(), level.total
        if not one or not total:
            continue
        share = one if threads == 1 else min(one, total / threads)
        if share > edge:
            found.append(Zone(level.name, max(2 * edge, SMALLEST), 0.7 * share))
            edge = share
    name = machine.levels[-1].name if machine.levels else "memory"
    return [*found, Zone(name, min(3 * edge, largest) if edge else largest / 2, largest)]


def sizes(machine: Machine, threads: int, quick: bool) -> float:
    """Bytes per thread of the largest working set: four times the last cache, as far as the memory allows."""
    caches = [level for level in machine.levels[:-1] if level.total]
    last = caches[-1] if caches else None
    whole = 32 * 2.0**20 if last is None else float((last.capacity.value() if threads == 1 else last.total) or 0.0)
    room = _available() / 8  # arrays to read and to write, for one core and for all, and something left for others
    return max(min(4 * whole, MOST[quick], room) / threads, 16 * SMALLEST)


def _available() -> float:
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(float(row.split()[1]) * 1024 for row in rows if row.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration, IndexError):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2


def sweep(first: float, last: float, factor: float) -> list[int]:
    count = math.floor(math.log(last / first) / math.log(factor) + 1e-9) + 1
    return [int(first * factor**step) // 512 * 512 for step in range(count)]


# -- levels from the sweep ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plateau:
    """A stretch of working sets served at one bandwidth. `capacity` is where it ends; None for the outermost."""

    bandwidth: float
    first: float
    last: float
    capacity: float | None
    level: str = ""
    note: str = ""


def levels(observations: Iterable[Observation], machine: Machine | None = None) -> list[Plateau]:
    """The levels that the one-core read sweep shows, inner to outer; with a machine named and held against its caches."""
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
    found: list[Plateau] = []
    for first, last in _segments(np.log(rates)):
        rate = float(np.median(rates[first:last]))
        if at[last - 1] < 1.9 * at[first] or rates[first] > FLAT * rates[last - 1]:
            continue
        if found and found[-1].bandwidth < APART * rate:
            found[-1] = replace(found[-1], last=float(at[last - 1]))
        else:
            found.append(Plateau(rate, float(at[first]), float(at[last - 1]), None))
    if machine:
        found = _named(found, machine)
    ends = [at[at > plateau.last][0] if np.any(at > plateau.last) else None for plateau in found]
    found = [
        replace(row, capacity=math.sqrt(row.last * end) if end else None) for row, end in zip(found, ends, strict=True)
    ]
    return [_against(row, machine) for row in found] if machine else found


def _segments(values: Any) -> list[tuple[int, int]]:
    """Stretches that are nearly constant: the split with the least scatter plus a price for each stretch."""
    count = len(values)
    cost = [0.0] + [math.inf] * count
    start = [0] * (count + 1)
    for end in range(1, count + 1):
        for begin in range(end):
            part = values[begin:end]
            price = cost[begin] + float(np.abs(part - np.median(part)).sum()) + PRICE
            if price < cost[end]:
                cost[end], start[end] = price, begin
    found: list[tuple[int, int]] = []
    end = count
    while end > 0:
        found.append((start[end], end))
        end = start[end]
    return found[::-1]


def _named(found: list[Plateau], machine: Machine) -> list[Plateau]:
    """Each plateau after the cache that its middle fits into; two of one cache are one, as fast as its faster part."""
    caches = [(level.name, float(size)) for level in machine.levels[:-1] if (size := level.capacity.value())]
    outer = machine.levels[-1].name if machine.levels else "memory"
    named: list[Plateau] = []
    for plateau in found:
        middle = math.sqrt(plateau.first * plateau.last)
        name = next((name for name, size in caches if middle <= size), outer)
        if plateau is found[-1] and caches and plateau.last >= 2 * caches[-1][1]:
            name = outer  # what serves twice the last cache is not that cache, wherever it begins
        if named and named[-1].level == name:
            named[-1] = replace(named[-1], last=plateau.last)
        else:
            named.append(replace(plateau, level=name))
    return named


def _against(plateau: Plateau, machine: Machine) -> Plateau:
    size = next((level.capacity.value() for level in machine.levels[:-1] if level.name == plateau.level), None)
    if not size or not plateau.capacity or 1 / AGREES <= plateau.capacity / size <= AGREES:
        return plateau
    seen, told = (show(value, "B", binary=True) for value in (plateau.capacity, size))
    return replace(plateau, note=f"by the read sweep {plateau.level} ends at about {seen}, the system reports {told}")


def _unreported(found: list[Plateau]) -> list[str]:
    """The plateaus in words, where the system reports no caches that they could be given to."""
    steps = []
    for plateau in found:
        end = f"up to about {show(plateau.capacity, 'B', 3, binary=True)}" if plateau.capacity else "beyond"
        steps.append(f"{show(plateau.bandwidth, 'B/s', 3)} {end}")
    if len(steps) < 2:
        return []
    return [
        f"by the read sweep one core gets {', '.join(steps)}; the system reports no caches, so only the memory has a ceiling"
    ]


def noted(observations: list[Observation], machine: Machine) -> list[Observation]:
    """The read sweep's observations with what its plateaus say against the reported caches."""
    if not any(level.capacity.value() for level in machine.levels[:-1]):
        told = _unreported(levels(observations))
    else:
        found = levels(observations, machine)
        seen = {plateau.level for plateau in found}
        told = [plateau.note for plateau in found if plateau.note]
        told += [
            f"{level.name} ({show(level.capacity.value(), 'B', binary=True)} reported) shows no plateau of its own in the read sweep"
            for level in machine.levels[:-1]
            if found and level.capacity.value() and level.name not in seen
        ]
    if not told:
        return observations
    return [
        replace(each, notes=(*each.notes, *told))
        if each.settings.get("mix") == "read" and each.settings.get("threads") == 1
        else each
        for each in observations
    ]
