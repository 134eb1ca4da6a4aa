"""A kernel family: a small formula with named coefficients, and the items its time consists of.

A formula gives the time of every case at once. It knows a few effects by name (launch, quantization, fill ...) and can
be asked for the time without some of them; the items of a time are what each effect adds when the effects are put back
one after the other, so they sum to the time exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .effects import Array, Effect, TimeItem

Sizes = Mapping[str, Array]
ADDEND = "addend"  # a size of products: bytes of an element of what is there and added to, where that is read
Mask = NDArray[np.bool_]
Coefficients = Mapping[str, float]


LASTING = 0.25  # seconds of products at the clock of a burst: the longest timed ones, of 0.22 s, ran at it


@dataclass(frozen=True)
class Hardware:
    """What a formula needs to know of a machine: coefficients are shares of a GPU's stated, a CPU's measured figures."""

    cores: float  # streaming multiprocessors, compute units, CPU cores
    peak: float  # flop/s of the engine that does the products (or the arithmetic, where there are none)
    bandwidth: float  # B/s of the main memory
    cache: float  # bytes of the last-level cache
    special: float = np.inf  # exp and the like per second
    vector: float = np.inf  # flop/s of the vector units in the format they work in
    caches: tuple[tuple[float, float], ...] = ()  # of a CPU, innermost first: bytes and B/s of all instances
    handling: float = 0.0  # flop/s of the vector units at addresses and loads; 0: as at arithmetic
    held_back: float = 1.0  # seconds of products under lasting load over those of a burst, as measured: the power limit

    @property
    def handled(self) -> float:
        return self.handling or self.vector


@dataclass(frozen=True)
class Coefficient:
    """A named number of a formula: where fitting starts, within which bounds it stays, what it means."""

    default: float
    low: float
    high: float
    meaning: str
    optional: bool = False  # absent (0) unless a fit brings it


def no_finer(sizes: Sizes) -> tuple[str, ...]:
    """A function with a name, so that predictions can be pickled."""
    return ()


Formula = Callable[[Sizes, Hardware, Coefficients, frozenset[str]], Array]


@dataclass(frozen=True)
class Family:
    """`main` is what the time is called that is left when every effect is taken away."""

    name: str
    formula: Formula
    coefficients: Mapping[str, Coefficient]
    effects: tuple[Effect, ...]  # in the order of putting back
    shape: tuple[str, ...]  # the sizes by which two cases are near each other
    main: str = "work at achieved rates"
    further: tuple[str, ...] = ()  # sizes of the shape that only some ops have
    finer: Callable[[Sizes], tuple[str, ...]] = no_finer  # a shape that tells some cases apart better, in place of it,
    finer_shapes: tuple[tuple[str, ...], ...] = ()  # and all of them

    def near_by(self, sizes: Sizes) -> tuple[str, ...]:
        """The coordinates by which these cases are near each other."""
        if finer := self.finer(sizes):
            return finer
        return (*self.shape, *(name for name in self.further if name in sizes))

    def time(self, sizes: Sizes, hardware: Hardware, given: Coefficients) -> Array:
        return self.formula(sizes, hardware, self.filled(given), frozenset())

    def filled(self, given: Coefficients) -> dict[str, float]:
        return {name: given.get(name, 0.0 if row.optional else row.default) for name, row in self.coefficients.items()}

    def items(self, sizes: Sizes, hardware: Hardware, given: Coefficients) -> tuple[TimeItem, ...]:
        """Seconds by effect, in order; they sum to the time."""
        c = self.filled(given)
        off = {effect.name for effect in self.effects}
        before = self.formula(sizes, hardware, c, frozenset(off))
        items = [TimeItem(self.main, "main", before)]
        for effect in self.effects:
            off.discard(effect.name)
            now = self.formula(sizes, hardware, c, frozenset(off))
            items.append(TimeItem(effect.label, effect.kind, now - before))
            before = now
        return tuple(items)


def off(size: Array, step: Array) -> Mask:
    """Where a size is no multiple of a step."""
    return np.asarray(size != step * np.floor(np.asarray(size) / step))


def element_width(stored: Array) -> Array:
    """Bytes of an element without the scales that elements share, which lie apart from them."""
    width: Array = np.floor(8 * np.asarray(stored)) / 8
    return width


def blend(first: Array, second: Array, power: float) -> Array:
    """Two things that overlap: between their maximum (large power) and their sum (power 1)."""
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(larger > 0, smaller / larger, 0.0)
    return larger * (1 + ratio**power) ** (1 / power)


def overlapped(first: Array, second: Array, c: Coefficients, off: frozenset[str]) -> Array:
    """The longer of two, and what they fail to overlap."""
    return np.maximum(first, second) if "overlap" in off else blend(first, second, c["blend"])


def under_load(compute: Array, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    """Seconds at the clock that lasting load leaves; of a kernel that is longer than any that was timed, at the rate that was measured under it."""
    if "clock" in off:
        return compute
    lasting: Array = 0.0 if hw.held_back == 1.0 else (hw.held_back - 1) * np.maximum(compute - LASTING, 0.0)
    return compute * (1 + (1 / c["sustained"] - 1) * compute / (compute + c["settle"])) + lasting
