"""What the times of kernels are asked for: the machine, the library, the launch, and how far sizes were raised already."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.families.row_kernels import COLUMN_SUMS
from ..core.machine import Machine

# Sizes that are raised one after the other; the rows and columns of products are raised together.
MAX_PADDED = {"rows": 3, "scan": 2, "conv": 3, **dict.fromkeys(("sort", "attention", "attention_backward"), 4)}
MAX_PADDED |= dict.fromkeys(COLUMN_SUMS, 1)


@dataclass(frozen=True)
class Asked:
    """What the times of kernels are asked for."""

    machine: Machine
    backend: str | None = None
    launch: float | None = None  # the caller's, in place of the fitted one
    padded: int = 0  # how many sizes were raised to the next one
    timed: bool = True  # whether timings of the kernels speak for them; without, only their formulas do
