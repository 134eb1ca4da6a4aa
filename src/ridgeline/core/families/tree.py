"""Correction of a formula by a decision tree over the sizes of a case.

Libraries choose among hundreds of kernels for a matrix product, by rules that change from one size to the next. Which kernel
they take can be asked without running it, so that the choice is known at hundreds of thousands of sizes where only tens of
thousands were timed. A tree keeps what the kernels taken there mean for the time:

    time = formula x exp(value of the leaf that the sizes of the case lead to)

A node compares one coordinate with a threshold and goes right where it is larger. A leaf also knows the lowest value that
larger sizes lead to, where these take so much less that the interval has to reach down to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..cached import cached_property
from .coordinates import OF_PRODUCTS, coordinate
from .correction import Correction, Placed
from .family import Family, Sizes

HEAD = "tree"  # first word of a text, before the names of the coordinates
LEAF = -1  # in place of a coordinate
PLAIN = ("b", "m", "n", "k")  # coordinates that are sizes themselves
PER_UNIT = 1000.0  # of the logarithm of a time: values are written in thousandths
MAX_VALUE = 0.7  # beyond twice or half another kernel ran, which says nothing of the cases around
AT_ONCE = 1 << 13  # cases whose coordinates the caches hold
LEVELS_AT_ONCE = 4  # that all cases go down before those at a leaf are set aside

# Cases begin as far down as their cell leads: m, n and k by their exponent and the first bit of their fraction, from 1 to 32768.
CELLED, CELL_SHIFT, CELLS = ("m", "n", "k"), 22, 31
MIN_CELLED = 1 << 11  # cases from which finding what the cells lead to takes less than it saves
FIRST_CELL = 127 << 1  # the bits of 1
FALLING = ("aspect",)  # coordinates that fall when n grows
STEPPED = ("m_step", "n_step", "k_step")  # coordinates that no range of sizes bounds

Integers = NDArray[np.int32]
Floats = NDArray[np.float32]


@dataclass(eq=False)
class Nodes:
    """In the order in which they are written: a node, all of its left side, then its right side."""

    coordinates: Integers  # that each node compares, LEAF at a leaf
    thresholds: Floats  # of each node
    values: NDArray[np.float64]  # of each node, 0 but at leaves
    _children: NDArray[np.int64] = field(init=False)  # left and right of each node; a leaf leads to itself
    _compared: NDArray[np.int64] = field(init=False)  # the coordinate of each node; any at a leaf

    def __post_init__(self) -> None:
        # A node opens two sides and is one itself, a leaf only closes one: how many are open after each.
        inner, count = self.coordinates != LEAF, len(self.coordinates)
        opened = np.cumsum(np.where(inner, 1, -1))
        if not count or opened[-1] != -1 or np.any(opened[:-1] < 0):
            raise ValueError("must have one tree, with two sides of every node")
        children = np.repeat(np.arange(count), 2)
        nodes = np.flatnonzero(inner)
        # the left side of a node ends where for the first time fewer are open than after the node; its right side comes next
        places = opened * count + np.arange(count)
        order = np.argsort(places, kind="stable")
        ends = order[np.searchsorted(places, (opened[nodes] - 1) * count + nodes, sorter=order)]
        children[2 * nodes], children[2 * nodes + 1] = nodes + 1, ends + 1
        self._children, self._compared = children, np.maximum(self.coordinates, 0).astype(np.int64)

    def leaves_of(self, table: Floats, nodes: NDArray[np.int64] | None = None) -> Integers:
        """The leaf of each case, whose coordinates are a row of the table; `nodes` is where each begins, the root without it."""
        count, width = table.shape
        begin = np.zeros(count, dtype=np.int64) if nodes is None else nodes
        return self.reached(table.ravel(), width * np.arange(count), begin)

    def reached(self, flat: Floats, rows: NDArray[np.int64], nodes: NDArray[np.int64]) -> Integers:
        """The leaf below each of the nodes, for the case whose coordinates begin there in a flat table."""
        cases, reached = np.arange(len(nodes)), np.empty(len(nodes), dtype=np.int32)
        # no place is out of range; mode clip leaves out the check, which takes twice as long as the rest
        while len(cases):
            for _ in range(LEVELS_AT_ONCE):
                compared = flat.take(self._compared.take(nodes, mode="clip") + rows, mode="clip")
                larger = compared > self.thresholds.take(nodes, mode="clip")
                nodes = self._children.take(2 * nodes + larger, mode="clip")
            at_leaf = self.coordinates.take(nodes) == LEAF
            reached[cases[at_leaf]] = nodes[at_leaf]
            further = ~at_leaf
            cases, rows, nodes = cases[further], rows[further], nodes[further]
        return reached

    def lines(self) -> tuple[Sequence[object], ...]:
        """Coordinates of all nodes, thresholds of the inner ones, values of the leaves."""
        leaf = self.coordinates == LEAF
        values = np.rint(PER_UNIT * self.values[leaf]).astype(int)
        thresholds = [f"{threshold:.5g}" for threshold in self.thresholds[~leaf]]
        return self.coordinates.tolist(), thresholds, values.tolist()


class Grove(Nodes):
    """The nodes of several trees one behind the other, which each case goes down at once."""

    def __init__(self, trees: Sequence[Nodes]) -> None:
        sizes = [len(tree.coordinates) for tree in trees]
        self.roots = np.cumsum([0, *sizes[:-1]])
        self.coordinates = np.concatenate([tree.coordinates for tree in trees])
        self.thresholds = np.concatenate([tree.thresholds for tree in trees])
        self.values = np.concatenate([tree.values for tree in trees])
        self._children = np.concatenate([tree._children + root for tree, root in zip(trees, self.roots, strict=True)])
        self._compared = np.concatenate([tree._compared for tree in trees])

    def values_of(self, table: Floats) -> NDArray[np.float64]:
        """The values of the leaves that each case leads to: a row for each tree."""
        count, width = table.shape
        rows = np.tile(width * np.arange(count), len(self.roots))
        leaves = self.reached(table.ravel(), rows, np.repeat(self.roots, count))
        return self.values.take(leaves).reshape(len(self.roots), count)


@dataclass(eq=False)
class Tree(Nodes, Correction):
    """Nodes over the coordinates of products."""

    names: tuple[str, ...]  # of the coordinates
    lows: NDArray[np.float64]  # the lowest value of larger sizes, at leaves; elsewhere 0

    def at(self, sizes: Sizes) -> Placed:
        shape = np.broadcast_shapes(*(np.shape(sizes[name]) for name in PLAIN))
        leaves = self.leaves(sizes, shape).reshape(shape)
        if not shape:
            return Placed(float(self.values[leaves]), lambda: float(self.lows[leaves]))
        return Placed(self.values[leaves], lambda: self.lows[leaves])

    def unfit(self, family: Family) -> str:
        return "" if family.shape == PLAIN else "must be a table of timings: a tree is of matrix products"

    def leaves(self, sizes: Sizes, shape: tuple[int, ...]) -> Integers:
        """The leaf of each case."""
        given = {name: np.broadcast_to(sizes[name], shape).ravel() for name in PLAIN}
        reached = np.empty(len(given["m"]), dtype=np.int32)
        for start in range(0, len(reached), AT_ONCE):
            part = {name: size[start : start + AT_ONCE] for name, size in given.items()}
            self._descend(part, reached[start : start + AT_ONCE])
        return reached

    def _descend(self, sizes: Sizes, reached: Integers) -> None:
        """Write the leaf of each case."""
        reached[:] = self.leaves_of(table_of(self.names, sizes, len(reached)), self._starts(sizes))

    def _starts(self, sizes: Sizes) -> NDArray[np.int64]:
        """The node that each case begins at: the root, or as far down as all products of about these sizes go."""
        place = np.zeros(np.shape(sizes["m"]), dtype=np.int32)
        if len(place) < MIN_CELLED or np.any(np.asarray(sizes["b"]) != 1):
            return place.astype(np.int64)
        for name in CELLED:
            bits = np.asarray(sizes[name], dtype=np.float32).view(np.int32) >> CELL_SHIFT
            place = place * CELLS + np.clip(bits - FIRST_CELL, 0, CELLS - 1)
        return self._cells[place]

    @cached_property
    def _cells(self) -> NDArray[np.int64]:
        """For each cell of m, n and k of one product the node down to which all of its sizes lead."""
        edges = (np.arange(CELLS + 1, dtype=np.int32) + FIRST_CELL << CELL_SHIFT).view(np.float32).astype(np.float64)
        edges[0], edges[-1] = 0.0, np.inf
        grid = [axis.ravel() for axis in np.meshgrid(*[np.arange(CELLS)] * len(CELLED), indexing="ij")]
        low, high = (
            {"b": np.ones(1), **{name: edges[place + end] for name, place in zip(CELLED, grid, strict=True)}}
            for end in (0, 1)
        )
        least, most = (np.empty((len(grid[0]), len(self.names))) for _ in range(2))
        with np.errstate(invalid="ignore", divide="ignore"):
            for place, name in enumerate(self.names):
                if name in FALLING:  # with n
                    ends = coordinate({**low, "n": high["n"]}, name), coordinate({**high, "n": low["n"]}, name)
                else:
                    ends = (0.0, np.inf) if name in STEPPED else (coordinate(low, name), coordinate(high, name))
                # infinite times 0, as of sizes without an end
                least[:, place], most[:, place] = (
                    np.nan_to_num(ends[0], nan=0.0, posinf=np.inf),
                    np.nan_to_num(ends[1], nan=np.inf, posinf=np.inf),
                )
        nodes, cases = np.zeros(len(grid[0]), dtype=np.int64), np.arange(len(grid[0]))
        while len(cases):
            at, compared = nodes[cases], self._compared[nodes[cases]]
            left = most[cases, compared] <= self.thresholds[at]
            right = least[cases, compared] > self.thresholds[at]
            further = (left | right) & (self.coordinates[at] != LEAF)
            cases, right = cases[further], right[further]
            nodes[cases] = self._children[2 * nodes[cases] + right]
        return nodes

    def text(self) -> str:
        """What `read` takes: names, the nodes, and lows of those leaves that have one below their value, each behind the place of its
        leaf."""
        leaf = self.coordinates == LEAF
        values, lows = (np.rint(PER_UNIT * each[leaf]).astype(int) for each in (self.values, self.lows))
        lower = np.flatnonzero(lows < values)
        further = np.stack([lower, lows[lower]], axis=1).ravel().tolist()
        return written((HEAD, *self.names), *self.lines(), further)


def table_of(names: Sequence[str], sizes: Sizes, count: int) -> Floats:
    """The coordinates of each case side by side."""
    table = np.empty((count, len(names)), dtype=np.float32)
    for place, name in enumerate(names):
        table[:, place] = coordinate(sizes, name)
    return table


def written(*lines: Sequence[object]) -> str:
    return "\n".join(" ".join(map(str, line)) for line in lines).rstrip()


def read_nodes(lines: Sequence[Sequence[str]], names: int, most: float) -> Nodes:
    """What `Nodes.lines` wrote, over so many names and with values of at most `most`; ValueError where it is nothing of the kind."""
    coordinates = np.array(lines[0], dtype=np.int32)
    leaf = coordinates == LEAF
    if not len(coordinates) or coordinates.min() < LEAF or coordinates.max() >= names:
        raise ValueError(f"must have coordinates from 0 to {names - 1}, and {LEAF} for leaves")
    thresholds, values = np.array(lines[1], dtype=np.float32), np.array(lines[2], dtype=np.float64) / PER_UNIT
    if len(thresholds) != np.sum(~leaf) or len(values) != np.sum(leaf) or not np.all(np.isfinite(thresholds)):
        raise ValueError("must have a threshold for every node, and a value for every leaf")
    if not np.all(np.abs(values) <= most):
        raise ValueError(f"must have values of at most {PER_UNIT * most:g}")
    every = {name: np.zeros(len(coordinates)) for name in ("thresholds", "values")}
    every["thresholds"][~leaf], every["values"][leaf] = thresholds, values
    return Nodes(coordinates, every["thresholds"].astype(np.float32), every["values"])


def read(text: str) -> Tree:
    """What `text` wrote; ValueError where it is nothing of the kind."""
    lines = [line.split() for line in text.split("\n")]
    if len(lines) < 4 or lines[0][:1] != [HEAD]:
        raise ValueError("must have names, coordinates, thresholds and values of a tree")
    names = tuple(lines[0][1:])
    if not names or any(name not in PLAIN and name not in OF_PRODUCTS for name in names):
        raise ValueError("must have coordinates of products")
    nodes = read_nodes(lines[1:4], len(names), MAX_VALUE)
    leaf = nodes.coordinates == LEAF
    lows, every = nodes.values[leaf], np.zeros(len(leaf))
    pairs = np.array(lines[4] if len(lines) > 4 else [], dtype=np.float64)
    places, lower = pairs[::2].astype(int), pairs[1::2] / PER_UNIT
    if len(pairs) % 2 or not np.all((places >= 0) & (places < len(lows)) & (lower <= MAX_VALUE)):
        raise ValueError("must have a leaf and a value for every low")
    lows[places] = np.minimum(lows[places], lower)
    every[leaf] = lows
    return Tree(nodes.coordinates, nodes.thresholds, nodes.values, names, every)
