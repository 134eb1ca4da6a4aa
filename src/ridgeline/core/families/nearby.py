"""Correction of a formula by similar timed cases.

Libraries choose among kernels in ways that no short formula knows. Where cases were timed, the formula's time is
corrected by its errors at the timed cases around, the nearer the more:

    time = formula x exp(sum of w r / (sum of w + FORMULA_WEIGHT))      r = log(measured / formula)      w = (1 + d^2)^-3

with d the distance in octaves between the sizes that the family calls its shape. Outliers among similar timings
count less. Far from all timings w is small against FORMULA_WEIGHT and there is no correction. Sizes are rounded to half
octaves and the correction of each such cell is computed once, so that a million cases need some thousand cells.
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

FORMULA_WEIGHT = 0.03  # weight of the formula itself, against that of a case timed at the very place
CELLS_PER_OCTAVE = 2.0  # cells per octave of a size
MIN_SIZE = 0.25  # what a size of 0 (a flag that is off) counts as
TYPICAL_ERROR = 0.15  # errors that differ by more from those around count less, in proportion: another kernel ran there
REWEIGHTINGS = 3  # until the weights no longer change
MAX_LOG_ERROR = 0.7  # beyond twice or half another kernel ran, which says nothing of the cases around
SIZE_BITS = 8  # of a coordinate in the number of a cell: 2^(2^SIZE_BITS / CELLS_PER_OCTAVE) is beyond any size
MAX_PAIRS = 1 << 21  # pairs of cells and timed cases that are held at once
MAX_CELLS = 1 << 20  # cells that are kept

Vector = NDArray[np.float64]
Cells = NDArray[np.int64]


def _cells(size: Array) -> Array:
    """How far above the smallest size, in cells."""
    return CELLS_PER_OCTAVE * np.log2(np.maximum(size, MIN_SIZE) / MIN_SIZE)


@dataclass(eq=False)
class Nearby:
    """Timed cases: their sizes, and the logarithm of measured over the formula's time."""

    names: tuple[str, ...]
    sizes: Vector  # a row per name
    log_errors: Vector
    _kept: tuple[Cells, Vector] = field(default=(np.empty(0, dtype=np.int64), np.empty(0)), init=False)  # in order

    def correction(self, sizes: Sizes) -> Array:
        """The logarithm of what the formula's times are to be multiplied with."""
        number: Any = 0
        for name in self.names:
            place = np.minimum(np.rint(_cells(sizes[name])), 2.0**SIZE_BITS - 1)
            number = (number << SIZE_BITS) | np.asarray(place).astype(np.int64)
        corrections = self._of_cells(np.ravel(number)).reshape(np.shape(number))
        return corrections if corrections.ndim else float(corrections)

    def _of_cells(self, numbers: Cells) -> Vector:
        """The corrections of cells, computed now or before."""
        cells, values = self._kept
        missing = numbers
        if len(cells):
            places = np.minimum(np.searchsorted(cells, numbers), len(cells) - 1)
            missing = numbers[cells[places] != numbers]
            if not len(missing):
                return values[places]
        fresh = np.unique(missing)
        if len(cells) + len(fresh) > MAX_CELLS:
            cells, values, fresh = cells[:0], values[:0], np.unique(numbers)
        parts = np.array_split(fresh, 1 + len(fresh) * len(self.log_errors) // MAX_PAIRS)
        cells, values = np.concatenate([cells, fresh]), np.concatenate([values, *map(self._computed, parts)])
        order = np.argsort(cells)
        self._kept = cells, values = cells[order], values[order]
        return values[np.searchsorted(cells, numbers)]

    def _computed(self, cells: Cells) -> Vector:
        distance = np.ones((len(cells), len(self.log_errors)))
        for back, row in enumerate(reversed(self.sizes)):
            place = (cells >> (SIZE_BITS * back)) & ((1 << SIZE_BITS) - 1)
            distance += ((place[:, None] - _cells(row)) / CELLS_PER_OCTAVE) ** 2
        weight = 1 / (distance * distance * distance)
        correction: Vector = (weight @ self.log_errors) / (weight.sum(axis=1) + FORMULA_WEIGHT)
        for _ in range(REWEIGHTINGS):
            robust = weight * (TYPICAL_ERROR / np.maximum(np.abs(self.log_errors - correction[:, None]), TYPICAL_ERROR))
            correction = (robust @ self.log_errors) / (robust.sum(axis=1) + FORMULA_WEIGHT)
        return correction

    def text(self) -> str:
        """A line of names, then a line per timed case; what `read` takes."""
        lines = [" ".join((*self.names, "missed"))]
        for *sizes, log_error in zip(*self.sizes, self.log_errors, strict=True):
            lines.append(" ".join((*(f"{size:.10g}" for size in sizes), f"{log_error:.3f}")))
        return "\n".join(lines)


def table(shape: Sequence[str], sizes: Sizes, ratio: Vector) -> Nearby:
    """From cases timed at these sizes, which took `ratio` times what the formula says."""
    rows = np.stack([np.broadcast_to(np.asarray(sizes[name], dtype=np.float64), ratio.shape) for name in shape])
    return Nearby(tuple(shape), rows, np.clip(np.log(ratio), -MAX_LOG_ERROR, MAX_LOG_ERROR))


@cache
def read(text: str) -> Nearby:
    """What `text` wrote; ValueError where it is no such table."""
    head, *lines = text.strip().split("\n")
    names = tuple(head.split())
    if len(names) < 2 or names[-1] != "missed" or not lines:
        raise ValueError("must begin with the names of the sizes and 'missed', and have a line per timed case")
    rows = [line.split() for line in lines]
    if any(len(row) != len(names) for row in rows):
        raise ValueError(f"must have {len(names)} numbers in every line")
    values = np.array(rows, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError("must have numbers that are finite")
    return Nearby(names[:-1], values[:, :-1].T, values[:, -1])
