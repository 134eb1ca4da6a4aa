"""Ends of the 80 % interval, from measured over predicted times of held-out timings."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
INTERVAL = (
    0.09,
    0.91,
)  # quantiles of what is predicted from other machines: a little more than the 80 % that are promised
INSIDE = 0.80  # of held-out timings between the quantiles
TAIL_TIMINGS = 0.8  # a group of n timings gives up this / n of each tail, because its own quantiles are uncertain
MIN_TAIL, MAX_TAIL = 0.01, 0.15  # of the timings, beyond each end
STEPS = 57  # from one to the other
RUN_TO_RUN = (
    0.02  # of the logarithm: another run of a case on another day differs by that from those that were held out
)


def ends(ratio: Vector, lowest: Vector | float = 0.0) -> tuple[float, float]:
    """The narrowest quantiles of the ratios, as far from either tail, that hold the share that is promised; with what
    two runs differ by, added in quadrature: most timings of a fit are of the same runs.

    `lowest` is the logarithm of the low end that a case has anyway, because larger sizes may take that little.
    """
    share = min(INSIDE + 2 * TAIL_TIMINGS / len(ratio), 1 - 2 * MIN_TAIL)
    anyway = np.exp(np.minimum(lowest, 0.0))
    low = high = 1.0
    for tail in np.linspace(MAX_TAIL, MIN_TAIL, STEPS):
        low = min(float(np.quantile(ratio, tail)), 1.0)
        high = max(float(np.quantile(ratio, 1 - tail)), 1.0)
        if np.mean((ratio >= np.minimum(low, anyway)) & (ratio <= high)) >= share:
            break
    return math.exp(-math.hypot(math.log(low), RUN_TO_RUN)), math.exp(math.hypot(math.log(high), RUN_TO_RUN))
