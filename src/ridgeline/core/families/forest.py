"""Correction of a formula by several decision trees over the sizes of a convolution.

cuDNN chooses among thousands of kernels for a convolution, by rules over eight sizes, which no one tree has leaves for. Trees
that were fitted one after the other, each to what those before it left, have:

    time = formula x exp(sum over the trees of the value of the leaf that the case leads to)

The last tree is no part of the sum: it says by how much larger convolutions may take less, where that is more than the interval is
wide, so that the interval reaches down to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..cached import cached_property
from .coordinates import DERIVED, OF_CONVOLUTIONS, OF_PRODUCTS, STEPS, as_product
from .correction import Correction, Placed
from .family import Family, Sizes
from .tree import Floats, Grove, Nodes, read_nodes, table_of, written

HEAD = "forest"  # first word of a text, before the names of the coordinates
MAX_VALUE = 1.5  # of the logarithm of a time over that of its formula
AT_ONCE = 1 << 10  # cases whose way down all trees the caches hold
LINES = 3  # of a tree
PLAIN = (
    "images",
    "c_in",
    "c_out",
    "h",
    "w",
    "ho",
    "kernel",
    "stride",
    "groups",
)  # coordinates that are sizes themselves
PRODUCT = ("b", "m", "n", "k")  # sizes of the product that a convolution is
NAMES = (*PLAIN, *PRODUCT[1:], *STEPS, *OF_CONVOLUTIONS, *OF_PRODUCTS)


def coordinates_of(names: tuple[str, ...], sizes: Sizes, count: int) -> Floats:
    """A row for each case, with those of the product that it is."""
    return table_of(names, {**sizes, **as_product(sizes)}, count)


@dataclass(eq=False)
class Forest(Correction):
    """Trees over the coordinates of convolutions."""

    names: tuple[str, ...]
    trees: tuple[Nodes, ...]
    falls: Nodes  # how far below the correction the interval has to reach, 0 or negative

    def at(self, sizes: Sizes) -> Placed:
        shape = np.broadcast_shapes(*(np.shape(size) for size in sizes.values()))
        given = {name: np.broadcast_to(size, shape).ravel() for name, size in sizes.items()}
        total, lowest = np.empty((2, int(np.prod(shape))))
        for start in range(0, len(total), AT_ONCE):
            part = slice(start, min(start + AT_ONCE, len(total)))
            table = coordinates_of(self.names, {name: size[part] for name, size in given.items()}, part.stop - start)
            *values, falls = self._grove.values_of(table)
            total[part] = _summed(values)
            lowest[part] = total[part] + falls
        every, lows = total.reshape(shape), lowest.reshape(shape)
        return Placed(every, lambda: lows) if shape else Placed(float(every), lambda: float(lows))

    def unfit(self, family: Family) -> str:
        return "" if family.name == "conv" else "must be a table of timings: a forest is of convolutions"

    def sums(self, table: Floats) -> NDArray[np.float64]:
        """The correction of each row of coordinates."""
        return _summed([*self._grove.values_of(table)][:-1])

    @cached_property
    def _grove(self) -> Grove:
        return Grove((*self.trees, self.falls))

    def text(self) -> str:
        """What `read` takes: names, then the nodes of each tree, the falls last."""
        return written((HEAD, *self.names), *(line for nodes in (*self.trees, self.falls) for line in nodes.lines()))


def _summed(values: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    total: NDArray[np.float64] = np.clip(np.sum(values, axis=0), -MAX_VALUE, MAX_VALUE)
    return total


def read(text: str) -> Forest:
    """What `text` wrote; ValueError where it is nothing of the kind."""
    head, *lines = [line.split() for line in text.strip().split("\n")]
    names = tuple(head[1:])
    if head[:1] != [HEAD] or len(lines) < 2 * LINES or len(lines) % LINES:
        raise ValueError("must have names, and coordinates, thresholds and values of trees")
    if not names or any(name not in PLAIN and name not in PRODUCT and name not in DERIVED for name in names):
        raise ValueError("must have coordinates of convolutions")
    trees = [read_nodes(lines[start : start + LINES], len(names), MAX_VALUE) for start in range(0, len(lines), LINES)]
    if np.any(trees[-1].values > 0):
        raise ValueError("must have no value above 0 in the last tree")
    return Forest(names, tuple(trees[:-1]), trees[-1])
