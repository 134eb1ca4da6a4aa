"""Sizes at which libraries change kernels: up to such a size a case has a variant of its own, the next size has another.

A case could always be padded to the next size, so by the formulas alone it never takes longer than that one does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .convolution import BLOCK_CHANNELS, MAX_FEW_CHANNELS, MIN_LARGE_KERNEL, VECTOR_CHANNELS
from .effects import Array
from .family import Mask, Sizes
from .product import MAX_FEW_ROWS
from .vector import MAX_SHORT_ROW, VECTOR_LOAD


@dataclass(frozen=True)
class Switch:
    """Up to `at` of a size there is another variant than above it; `step` is the alignment that variants depend on."""

    size: str
    at: float
    step: float = 1.0

    def above(self, size: Array) -> Array:
        """The smallest size beyond the switch that is aligned as well."""
        aligned: Array = np.ones_like(size)
        while np.any(larger := (aligned < self.step) & (np.asarray(size) % (2 * aligned) == 0)):
            aligned = np.where(larger, 2 * aligned, aligned)
        return (np.floor(self.at / aligned) + 1) * aligned


FEW_ROWS = (Switch("m", 1.0), Switch("n", 1.0), Switch("m", MAX_FEW_ROWS), Switch("n", MAX_FEW_ROWS, 16.0))
CHANNELS = (Switch("c_in", MAX_FEW_CHANNELS, VECTOR_CHANNELS), Switch("c_in", MAX_FEW_CHANNELS, BLOCK_CHANNELS))
SWITCHES: dict[str, tuple[Switch, ...]] = {
    "gemm": FEW_ROWS,
    "rows": (Switch("cols", MAX_SHORT_ROW, VECTOR_LOAD),),
    "attention": (Switch("q", 1.0),),
    "conv": (*CHANNELS, Switch("kernel", 1.0), Switch("kernel", MIN_LARGE_KERNEL - 1)),
}


def next_sizes(family: str, sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """The sizes beyond each switch of a family, and for which cases they are: those on the other side of it."""
    for switch in SWITCHES.get(family, ()):
        size = np.asarray(sizes[switch.size], dtype=np.float64)
        below = size <= switch.at
        if np.any(below):
            yield {**sizes, switch.size: np.where(below, switch.above(size), size)}, below
