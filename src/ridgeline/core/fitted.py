"""Coefficients that were fitted to timings of a machine, or that it borrows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:  # the formulas of the families bring numpy
    from .families.key import Key
    from .packed import Packed

# Coefficients of kernel families that say how much faster L2, or what one core can pull, is than main memory.
OVER_MEMORY: Mapping[str, tuple[str, ...]] = {"gemm": ("reuse",), "moe": ("reuse",), "decode": ("core",)}


@dataclass(frozen=True)
class Fitted:
    """Coefficients of a kernel family's formula as fitted to timings, and their error on held-out timings."""

    coefficients: Mapping[str, float]
    error: float  # median of |predicted - measured| / measured over timings that were not fitted to
    p90: float
    low: float  # 80 % of these timings lie between low and high times the predicted one
    high: float
    cases: int
    source: str
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # of each size among the timings
    borrowed: bool = False  # from other machines; the error is then the leave-one-machine-out error
    nearby: str | Packed = field(
        default="", repr=False
    )  # what corrects the formula: timings (`families/nearby.py`) or trees (`families/tree.py`, `families/forest.py`)
    jitter: float = (
        0.0  # seconds that the interval has in quadrature: short kernels differ by more than a share of their time
    )

    DOCUMENT: ClassVar = (
        "coefficients", "error", "p90", "low", "high", "jitter", "cases", "source", "ranges", "borrowed",
    )  # fmt: skip

    @property
    def errors(self) -> str:
        """`held-out error 4 % median, 15 % P90`."""
        kind = "leave-one-machine-out" if self.borrowed else "held-out"
        return f"{kind} error {100 * self.error:.0f} % median, {100 * self.p90:.0f} % P90"


def over_memory(fitted: Mapping[Key, Fitted], faster: float) -> dict[Key, Fitted]:
    """Coefficients for a main memory that is so many times slower, beside an L2 and cores that are as they were."""
    return {
        key: replace(
            row, coefficients={**row.coefficients, **{name: row.coefficients[name] * faster for name in moved}}
        )
        if (moved := [name for name in OVER_MEMORY.get(key.family, ()) if name in row.coefficients])
        else row
        for key, row in fitted.items()
    }
