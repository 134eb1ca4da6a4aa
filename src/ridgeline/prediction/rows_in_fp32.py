"""Norms and softmax of 16 bits by timings of those in fp32: the arithmetic is the same, and the bytes are twice as many.

Those of other machines than the ones that lend in 16 bits: what one was timed at in both formats stays as it is, since there
kernels for 16 bits do take longer at some sizes. So do sizes above the timed ones; those below take no longer than these, and
how much less a fit to many rows does not say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..core.work import Array, Kernel
from ..machines.coefficients import lender
from .coefficients import Selected
from .doubt import HALVES

if TYPE_CHECKING:
    from .kernel_times import KernelTime

HALF = 2.0  # bytes of an element in 16 bits
WIDE = "fp32"


def widened(kernel: Kernel, wider: float) -> Kernel | None:
    """A kernel over rows in fp32, with elements so many times wider; None where it is no kernel over rows of 16 bits."""
    sizes = kernel.sizes
    if kernel.family != "rows" or kernel.dtype not in HALVES or np.any(np.asarray(sizes["x"]) != HALF):
        return None
    widths = {name: sizes[name] * wider for name in ("x", "y") if np.all(np.asarray(sizes[name]) == HALF)}
    return replace(kernel, sizes={**sizes, **widths}, dtype=WIDE)


def least(times: Iterable[KernelTime], halves: Selected) -> Array:
    """The least seconds by kernels in fp32 that others lend than lend those of 16 bits; infinite where there are none."""
    best: Array = np.inf
    for wide in times:
        key, ranges = wide.selected.key, wide.selected.fitted.ranges
        if (key.op, key.dtype) != (halves.key.op, WIDE) or lender(wide.selected.fitted) == lender(halves.fitted):
            continue
        sizes = {name: np.maximum(size, ranges.get(name, (0.0,))[0]) for name, size in wide.kernel.sizes.items()}
        raised = replace(wide, kernel=replace(wide.kernel, sizes=sizes))
        timed = (np.asarray(raised.applies) > 0) & (np.asarray(raised.distance) <= 1.0)
        best = np.where(timed, np.minimum(best, raised.time), best)
    return best
