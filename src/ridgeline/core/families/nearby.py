"""Correction of a formula by similar timed cases.

Libraries choose among kernels in ways that no short formula knows. Where cases were timed, the formula's time is
corrected by its errors there, interpolated by a Gaussian process (kriging):

    time = formula x exp(sum over timed cases of w / (1 + d^2))        (K + noise) w = r        r = log(measured / formula)

with d the distance in octaves between the sizes that the family calls its shape, each size over its reach, and K the
matrix of 1 / (1 + d^2) among the timed cases. A fit finds reach and noise and keeps the weights w (`fit/similar.py`).
Far from all timings there is no correction. Sizes are rounded to quarter octaves and the correction of each such cell
is computed once, so that a million cases need some ten thousand cells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cached import cached_property
from ..units import MAX_SIZE
from . import forest, tree
from .coordinates import OF_ONE_SIZE, STEPS, alignment, coordinate
from .correction import Correction, Placed
from .effects import Array
from .family import Family, Sizes

CELLS_PER_OCTAVE = 4.0  # cells per octave of a size
MIN_SIZE = 0.25  # what a size of 0 (a flag that is off) counts as
MAX_LOG_ERROR = tree.MAX_VALUE  # beyond it another kernel ran
MAX_WEIGHT = 1e3  # of a timed case; a fit keeps them far below
CELL_BITS = 63  # of the number of a cell, which its coordinates share
SIZE_BITS = 8  # of a coordinate: 2^(2^SIZE_BITS / CELLS_PER_OCTAVE) is beyond any size; one less is beyond any image
MAX_COORDINATES = 9  # that fit in the number of a cell
STEPS_ABOVE = (1, 2, 4, 8, 16)  # cells, up to four octaves
MAX_PAIRS = 1 << 16  # pairs of cells and timed cases that are held at once: what caches hold
MAX_CELLS = 1 << 20  # cells that are kept
REACHES = (0.05, 1e3)  # octaves
# of tables that only say by how much the formula missed each case
USUAL_REACH, USUAL_NOISE = 2.0, 0.3  # octaves; variance of the noise over that which neighbours share
MAX_SOLVED = 2000  # cases of such a table, of which more are thinned
DIGITS, FEW_DIGITS = 4, 3  # of a size that is written: a cell is a fifth of it wide
COLUMNS = "columns"  # before the names of a table with a line per size; otherwise it has a line per case

Vector = NDArray[np.float64]
Cells = NDArray[np.int64]


def octaves(size: Array) -> Array:
    """How far above the smallest size, in octaves."""
    return np.log2(np.maximum(size, MIN_SIZE) / MIN_SIZE)


def cell_centers(coordinates: Vector) -> Vector:
    """The coordinates in octaves at which cases are corrected."""
    return np.asarray(np.rint(CELLS_PER_OCTAVE * coordinates) / CELLS_PER_OCTAVE)


def likeness(first: Vector, second: Vector, reach: Vector) -> Vector:
    """1 / (1 + d^2) between the columns of two sets of coordinates in octaves, a row per coordinate.

    d^2 = |a|^2 - 2 a b + |b|^2, so that 1 + d^2 of all pairs is one product of matrices. It is not left to BLAS, whose threads
    wait for each other on a busy machine and whose last digit depends on how many cases are asked for at once.
    """
    one, other = first / reach[:, None], second / reach[:, None]
    left = np.vstack([one, (one**2).sum(axis=0), np.ones(one.shape[1])])
    right = np.vstack([-2 * other, np.ones(other.shape[1]), 1 + (other**2).sum(axis=0)])
    distance: Vector = np.einsum("ka,kb->ab", left, right)
    return np.reciprocal(distance, out=distance)


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
class Nearby(Correction):
    """Timed cases: their sizes and weights, and the reach of each size in octaves."""

    names: tuple[str, ...]
    sizes: Vector  # a row per name
    reach: Vector  # of each name
    weights: Vector

    @cached_property
    def _bits(self) -> int:
        """Of a coordinate in the number of a cell."""
        return min(SIZE_BITS, CELL_BITS // len(self.names))

    @cached_property
    def _max_place(self) -> int:
        return int(2**self._bits - 1)

    def at(self, sizes: Sizes) -> Placed:
        """The lowest correction is that of sizes of which some are up to four octaves larger."""
        number: Any = np.int64(0)  # of the cell of a case: the places of its sizes, one after the other
        for name in self.names:
            place = np.minimum(np.rint(CELLS_PER_OCTAVE * octaves(coordinate(sizes, name))), self._max_place)
            number = (number << self._bits) | np.asarray(place).astype(np.int64)

        def of(cells: Kept) -> Array:
            values = cells(np.ravel(number)).reshape(np.shape(number))
            return values if values.ndim else float(values)

        return Placed(of(self._corrections), lambda: of(self._lowest))

    def unfit(self, family: Family) -> str:
        shape = (*family.shape, *(name for name in family.further if name in self.names))
        if self.names not in (shape, *family.finer_shapes):
            return f"must have the sizes {', '.join(shape)}, found {', '.join(self.names)}"
        if not (self.sizes.min() >= 0 and self.sizes.max() <= MAX_SIZE and max(abs(self.weights)) <= MAX_WEIGHT):
            return f"must have sizes from 0 to {MAX_SIZE:g}, and weights of at most {MAX_WEIGHT:g}"
        return ""

    @cached_property
    def _corrections(self) -> Kept:
        def compute(cells: Cells) -> Vector:
            parts = np.array_split(cells, 1 + len(cells) * len(self.weights) // MAX_PAIRS)
            return np.concatenate([*map(self._computed, parts)])

        return Kept(compute)

    @cached_property
    def _lowest(self) -> Kept:
        # along a size that all timings have in common, the correction only fades; alignment stays as it is
        by_back = enumerate(zip(reversed(self.names), reversed(self.sizes), strict=True))
        varied = [back for back, (name, row) in by_back if np.ptp(row) and name not in STEPS]
        # neighbours in a shape often grow together (queries and keys), as do the tensors of a stream
        together = {(back,) for back in varied} | set(pairwise(varied)) | {tuple(varied)}

        def compute(cells: Cells) -> Vector:
            around = [cells]
            for step, sizes in product(STEPS_ABOVE, together):
                larger = cells
                for back in sizes:
                    place = (larger >> (self._bits * back)) & self._max_place
                    larger = larger + ((np.minimum(place + step, self._max_place) - place) << (self._bits * back))
                around.append(larger)
            lowest: Vector = self._corrections(np.concatenate(around)).reshape(len(around), -1).min(axis=0)
            return lowest

        return Kept(compute)

    @cached_property
    def _coordinates(self) -> Vector:
        return np.asarray(octaves(self.sizes))

    def _computed(self, cells: Cells) -> Vector:
        backs = reversed(range(len(self.names)))
        places = np.stack([(cells >> (self._bits * back)) & self._max_place for back in backs]) / CELLS_PER_OCTAVE
        alike = likeness(places, self._coordinates, self.reach)
        correction: Vector = np.multiply(alike, self.weights, out=alike).sum(axis=1)
        return np.clip(correction, -MAX_LOG_ERROR, MAX_LOG_ERROR)

    def text(self) -> str:
        """What `read` takes: a line of names, one of reaches, then a line per size and one of weights.

        Cases are in the order of their sizes and columns on lines of their own, which a compressed file needs less for. What
        follows from one of the sizes has no line.
        """
        order = np.lexsort(self.sizes[::-1])
        lines = [" ".join((COLUMNS, *self.names, "weight"))]
        lines.append(" ".join(("reach", *(f"{octave:.4g}" for octave in self.reach))))
        for name, row in zip(self.names, self.sizes, strict=True):
            digits = FEW_DIGITS if name == "all_pixels" else DIGITS
            if name not in OF_ONE_SIZE:
                lines.append(" ".join(f"{float(f'{size:.{digits}g}'):.10g}" for size in row[order]))
        return "\n".join([*lines, " ".join(f"{weight:.3f}" for weight in self.weights[order])])


def rows(shape: Sequence[str], sizes: Sizes, count: int) -> Vector:
    """The sizes of a shape, a row each."""
    return np.stack(
        [np.broadcast_to(np.asarray(coordinate(sizes, name), dtype=np.float64), (count,)) for name in shape]
    )


def solved(shape: Sequence[str], sizes: Vector, log_errors: Vector, reach: Vector, noise: Vector | float) -> Nearby:
    """From cases at these sizes and the logarithm of measured over the formula's time.

    `noise` is the variance of each error that its neighbours do not share, over that which they do.
    """
    coordinates = np.asarray(octaves(sizes))
    errors = np.clip(log_errors, -MAX_LOG_ERROR, MAX_LOG_ERROR)
    matrix = likeness(coordinates, coordinates, reach) + np.diag(np.broadcast_to(noise, errors.shape))
    return Nearby(tuple(shape), sizes, reach, np.asarray(np.linalg.solve(matrix, errors), dtype=np.float64))


@cache
def read(text: str) -> Correction:
    """What `text` wrote, of timed cases or of trees, or a table with a line per case, of weights or misses, as earlier versions
    wrote it; ValueError where it is none of them."""
    if text.startswith(f"{forest.HEAD} "):
        return forest.read(text)
    return tree.read(text) if text.startswith(f"{tree.HEAD} ") else _read_cases(text)


def _read_cases(text: str) -> Nearby:
    head, *lines = text.strip().split("\n")
    by_column = head.startswith(f"{COLUMNS} ")
    names = tuple(head.removeprefix(f"{COLUMNS} ").split())
    reach = np.full(len(names) - 1, USUAL_REACH)
    if names[-1:] == ("weight",) and lines and lines[0].startswith("reach "):
        reach = np.array(lines.pop(0).split()[1:], dtype=np.float64)
    elif names[-1:] != ("missed",):
        lines = []
    if not 2 <= len(names) <= MAX_COORDINATES + 1 or not lines:
        raise ValueError("must begin with the names of the sizes and 'weight', and have timed cases")
    if len(reach) != len(names) - 1 or not np.all((reach >= REACHES[0]) & (reach <= REACHES[1])):
        raise ValueError(f"must have a reach from {REACHES[0]:g} to {REACHES[1]:g} octaves for every size")
    written = [name for name in names if name not in OF_ONE_SIZE]
    values = _numbers(lines, len(written), by_column)
    if len(written) < len(names):
        if any(OF_ONE_SIZE[name] not in written for name in set(names) - set(written)):
            raise ValueError("must have the sizes that others follow from")
        of = dict(zip(written, values, strict=True))
        values = np.stack([alignment(of[OF_ONE_SIZE[name]]) if name in OF_ONE_SIZE else of[name] for name in names])
    if names[-1] == "missed":
        values = values[:, :: -(-values.shape[1] // MAX_SOLVED)]
        return solved(names[:-1], values[:-1], values[-1], reach, USUAL_NOISE)
    return Nearby(names[:-1], values[:-1], reach, values[-1])


def _numbers(lines: Sequence[str], count: int, by_column: bool) -> Vector:
    """The numbers of a table, a row per name."""
    cells = [line.split() for line in lines]
    if by_column and (len(cells) != count or len({len(row) for row in cells}) != 1):
        raise ValueError(f"must have {count} lines of as many numbers")
    if not by_column and any(len(row) != count for row in cells):
        raise ValueError(f"must have {count} numbers in every line")
    values = np.array(cells, dtype=np.float64)
    if not np.all(np.isfinite(values)):
        raise ValueError("must have numbers that are finite")
    return values if by_column else values.T
