"""Timed cases around a case: how far the formula missed them tells how far it misses here.

Libraries choose among kernels in ways that no short formula knows. Where cases were timed, the formula's time is
corrected by what it missed around a case, the nearer the more:

    time = formula x exp(sum of w r / (sum of w + HELD))      r = log(measured / formula)      w = (1 + d^2)^-3

with d the distance in octaves between the sizes that the family calls its shape. Timings that miss by far more or less than
the rest around count less. Far from all timings w is small against HELD and the formula stands alone. Cases are told apart by half octaves, and what was worked out for one of these cells is
kept, so that a million of cases need no more than some thousand cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .effects import Array
from .family import Sizes

HELD = 0.03  # weight of the formula itself, against that of a case timed at the very place
CELL = 2.0  # cells per octave of a size
LEAST = 0.25  # what a size of 0 (a flag that is off) counts as
ALIKE = 0.15  # misses that differ by more from the rest around count less, in proportion: another kernel ran there
PASSES = 3  # until what the rest is no longer moves
FAR = 0.7  # a miss beyond twice or half says that another kernel ran, not how much its neighbours miss
BITS = 8  # of a coordinate in the number of a cell: 2^(2^BITS / CELL) is beyond any size
BLOCK = 1 << 21  # pairs of cells and timed cases that are held at once
KEPT = 1 << 20  # cells that are kept

Vector = NDArray[np.float64]
Cells = NDArray[np.int64]


def _cells(size: Array) -> Array:
    """How far above the least size, in cells."""
    return CELL * np.log2(np.maximum(size, LEAST) / LEAST)


@dataclass(eq=False)
class Nearby:
    """Timed cases: their sizes, and the logarithm of measured over the formula's time."""

    names: tuple[str, ...]
    sizes: Vector  # a row per name
    missed: Vector
    _kept: tuple[Cells, Vector] = field(default=(np.empty(0, dtype=np.int64), np.empty(0)), init=False)  # in order

    def correction(self, sizes: Sizes) -> Array:
        """The logarithm of what the formula's times are to be multiplied with."""
        number: Any = 0
        for name in self.names:
            place = np.minimum(np.rint(_cells(sizes[name])), 2.0**BITS - 1)
            number = (number << BITS) | np.asarray(place).astype(np.int64)
        found = self._known(np.ravel(number)).reshape(np.shape(number))
        return found if found.ndim else float(found)

    def _known(self, numbers: Cells) -> Vector:
        """What was worked out for these cells, now or before."""
        cells, values = self._kept
        if len(cells):
            places = np.minimum(np.searchsorted(cells, numbers), len(cells) - 1)
            missing = cells[places] != numbers
            if not np.any(missing):
                return values[places]
            fresh = np.unique(numbers[missing])
        else:
            fresh = np.unique(numbers)
        if len(cells) + len(fresh) > KEPT:
            cells, values, fresh = cells[:0], values[:0], np.unique(numbers)
        parts = np.array_split(fresh, 1 + len(fresh) * len(self.missed) // BLOCK)
        cells, values = np.concatenate([cells, fresh]), np.concatenate([values, *map(self._of, parts)])
        order = np.argsort(cells)
        self._kept = cells, values = cells[order], values[order]
        return values[np.searchsorted(cells, numbers)]

    def _of(self, cells: Cells) -> Vector:
        apart = np.ones((len(cells), len(self.missed)))
        for back, row in enumerate(reversed(self.sizes)):
            place = (cells >> (BITS * back)) & ((1 << BITS) - 1)
            apart += ((place[:, None] - _cells(row)) / CELL) ** 2
        weight = 1 / (apart * apart * apart)
        found: Vector = (weight @ self.missed) / (weight.sum(axis=1) + HELD)
        for _ in range(PASSES):
            alike = weight * (ALIKE / np.maximum(np.abs(self.missed - found[:, None]), ALIKE))
            found = (alike @ self.missed) / (alike.sum(axis=1) + HELD)
        return found

    def text(self) -> str:
        """A line of names, then a line per timed case; what `read` takes."""
        lines = [" ".join((*self.names, "missed"))]
        for *sizes, missed in zip(*self.sizes, self.missed, strict=True):
            lines.append(" ".join((*(f"{size:.10g}" for size in sizes), f"{missed:.3f}")))
        return "\n".join(lines)


def table(shape: Sequence[str], sizes: Sizes, ratio: Vector) -> Nearby:
    """From cases timed at these sizes, which took `ratio` times what the formula says."""
    rows = np.stack([np.broadcast_to(np.asarray(sizes[name], dtype=np.float64), ratio.shape) for name in shape])
    return Nearby(tuple(shape), rows, np.clip(np.log(ratio), -FAR, FAR))


@cache
def read(text: str) -> Nearby:
    """What `text` wrote; ValueError where it is no such table."""
    head, *lines = text.strip().split("\n")
    names = tuple(head.split())
    if len(names) < 2 or names[-1] != "missed" or not lines:
        raise ValueError("must begin with the names of the sizes and 'missed', and have a line per timed case")
    told = [line.split() for line in lines]
    if any(len(row) != len(names) for row in told):
        raise ValueError(f"must have {len(names)} numbers in every line")
    values = np.array(told, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError("must have numbers that are finite")
    return Nearby(names[:-1], values[:, :-1].T, values[:, -1])
