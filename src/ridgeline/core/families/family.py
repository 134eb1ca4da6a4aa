"""A kernel family: a small formula with named coefficients, and how its time splits into items.

A formula gives the time of every case at once. It knows a few effects by name (launch, quantization, fill ...) and can
be asked for the time without some of them; the items of a time are what each effect adds when the effects are put back
one after the other, so they sum to the time exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = float | NDArray[np.float64]
Sizes = Mapping[str, Array]
Mask = NDArray[np.bool_]
Coefficients = Mapping[str, float]
NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Hardware:
    """What a formula needs to know of a machine, at its stated figures: coefficients are shares of these."""

    cores: float  # streaming multiprocessors, compute units
    peak: float  # flop/s of the engine that does the products (or the arithmetic, where there are none)
    bandwidth: float  # B/s of the main memory
    cache: float  # bytes of the last-level cache
    special: float = np.inf  # exp and the like per second
    vector: float = np.inf  # flop/s of the vector units in the format they work in


@dataclass(frozen=True)
class Coefficient:
    """A named number of a formula: where fitting starts, within which bounds it stays, what it means."""

    default: float
    low: float
    high: float
    meaning: str
    optional: bool = False  # absent (0) unless a fit brings it


Formula = Callable[[Sizes, Hardware, Coefficients, frozenset[str]], Array]


@dataclass(frozen=True)
class Family:
    """`main` is what the time is called that is left when every effect is taken away."""

    name: str
    formula: Formula
    coefficients: Mapping[str, Coefficient]
    effects: Mapping[str, str]  # effect -> what the item is called; the order is the order of putting back
    main: str
    shape: tuple[str, ...]  # the sizes by which two cases are near each other

    def time(self, sizes: Sizes, hardware: Hardware, given: Coefficients) -> Array:
        return self.formula(sizes, hardware, self.filled(given), NOTHING)

    def filled(self, given: Coefficients) -> dict[str, float]:
        return {name: given.get(name, 0.0 if row.optional else row.default) for name, row in self.coefficients.items()}

    def items(self, sizes: Sizes, hardware: Hardware, given: Coefficients) -> dict[str, Array]:
        """Seconds by item, in order; they sum to the time."""
        c = self.filled(given)
        off = set(self.effects)
        before = self.formula(sizes, hardware, c, frozenset(off))
        items: dict[str, Array] = {self.main: before}
        for effect, label in self.effects.items():
            off.discard(effect)
            now = self.formula(sizes, hardware, c, frozenset(off))
            items[label] = now - before
            before = now
        return items


def unaligned(size: Array, step: float) -> Mask:
    """Where a size is no multiple of a step."""
    return np.asarray(size != step * np.floor(np.asarray(size) / step))


def blend(first: Array, second: Array, power: float) -> Array:
    """Two things that overlap: between their maximum (large power) and their sum (power 1)."""
    larger, smaller = np.maximum(first, second), np.minimum(first, second)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(larger > 0, smaller / larger, 0.0)
    return larger * (1 + ratio**power) ** (1 / power)


def overlapped(compute: Array, memory: Array, c: Coefficients, off: frozenset[str]) -> Array:
    """Compute and memory together: the longer one, and as much of the other as does not overlap."""
    return np.maximum(compute, memory) if "overlap" in off else blend(compute, memory, c["blend"])


def under_load(compute: Array, c: Coefficients) -> Array:
    """Compute time with the clock that falls under lasting load."""
    return compute * (1 + (1 / c["sustained"] - 1) * compute / (compute + c["settle"]))


def waves(units: Array, places: float, c: Coefficients) -> Array:
    """Rounds that units of work take on so many places, the last one part-filled."""
    full = units / places
    return full + c["waves"] * (np.ceil(full) - full)
