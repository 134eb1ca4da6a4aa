"""Correction of a formula by similar timed cases.

Libraries choose among kernels in ways that no short formula knows. Where cases were timed, the formula's time is
corrected by its errors at the timed cases around, the nearer the more:

    time = formula x exp(sum of w r / (sum of w + FORMULA_WEIGHT))      r = log(measured / formula)      w = (1 + d^2)^-3

with d the distance in octaves between the sizes that the family calls its shape. Outliers among similar timings
count less. Far from all timings w is small against FORMULA_WEIGHT and there is no correction. Sizes are rounded to half
octaves and the correction of each such cell is computed once, so that a million cases need some thousand cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, product
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
MAX_PLACE = 2**SIZE_BITS - 1
STEPS_ABOVE = (1, 2, 4, 8)  # cells, up to four octaves
MAX_PAIRS = 1 << 21  # pairs of cells and timed cases that are held at once
MAX_CELLS = 1 << 20  # cells that are kept

Vector = NDArray[np.float64]
Cells = NDArray[np.int64]


def _cells(size: Array) -> Array:
    """How far above the smallest size, in cells."""
    return CELLS_PER_OCTAVE * np.log2(np.maximum(size, MIN_SIZE) / MIN_SIZE)


class Kept:
    """Values of cells, in the order of the cells; computed when they are first asked for."""

    def __init__(self, compute: Callable[[Cells], Vector]) -> None:
        self.compute = compute
        self.cells: Cells = np.empty(0, dtype=np.int64)
        self.values: Vector = np.empty(0)

    def __call__(self, numbers: Cells) -> Vector:
        missing = numbers
        if len(self.cells):
            places = np.minimum(np.searchsorted(self.cells, numbers), len(self.cells) - 1)
            missing = numbers[self.cells[places] != numbers]
            if not len(missing):
                return self.values[places]
        fresh = np.unique(missing)
        if len(self.cells) + len(fresh) > MAX_CELLS:
            self.cells, self.values, fresh = self.cells[:0], self.values[:0], np.unique(numbers)
        cells, values = np.concatenate([self.cells, fresh]), np.concatenate([self.values, self.compute(fresh)])
        order = np.argsort(cells)
        self.cells, self.values = cells[order], values[order]
        return self.values[np.searchsorted(self.cells, numbers)]


@dataclass(eq=False)
class Nearby:
    """Timed cases: their sizes, and the logarithm of measured over the formula's time."""

    names: tuple[str, ...]
    sizes: Vector  # a row per name
    log_errors: Vector

    def correction(self, sizes: Sizes) -> Array:
        """The logarithm of what the formula's times are to be multiplied with."""
        return self._of_cases(self._corrections, sizes)

    def lowest(self, sizes: Sizes) -> Array:
        """The lowest correction here and at sizes of which some are up to four octaves larger."""
        return self._of_cases(self._lowest, sizes)

    def _of_cases(self, of_cells: Kept, sizes: Sizes) -> Array:
        number: Any = np.int64(0)  # of the cell of a case: the places of its sizes, one after the other
        for name in self.names:
            place = np.minimum(np.rint(_cells(sizes[name])), MAX_PLACE)
            number = (number << SIZE_BITS) | np.asarray(place).astype(np.int64)
        values = of_cells(np.ravel(number)).reshape(np.shape(number))
        return values if values.ndim else float(values)

    @cached_property
    def _corrections(self) -> Kept:
        def compute(cells: Cells) -> Vector:
            parts = np.array_split(cells, 1 + len(cells) * len(self.log_errors) // MAX_PAIRS)
            return np.concatenate([*map(self._computed, parts)])

        return Kept(compute)

    @cached_property
    def _lowest(self) -> Kept:
        # along a size that all timings have in common, the correction only fades
        varied = [back for back, row in enumerate(reversed(self.sizes)) if np.ptp(row)]
        # neighbours in a shape often grow together (queries and keys), as do the tensors of a stream
        together = {(back,) for back in varied} | set(pairwise(varied)) | {tuple(varied)}

        def compute(cells: Cells) -> Vector:
            around = [cells]
            for step, sizes in product(STEPS_ABOVE, together):
                larger = cells
                for back in sizes:
                    place = (larger >> (SIZE_BITS * back)) & MAX_PLACE
                    larger = larger + ((np.minimum(place + step, MAX_PLACE) - place) << (SIZE_BITS * back))
                around.append(larger)
            lowest: Vector = self._corrections(np.concatenate(around)).reshape(len(around), -1).min(axis=0)
            return lowest

        return Kept(compute)

    def _computed(self, cells: Cells) -> Vector:
        distance = np.ones((len(cells), len(self.log_errors)))
        for back, row in enumerate(reversed(self.sizes)):
            place = (cells >> (SIZE_BITS * back)) & MAX_PLACE
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
