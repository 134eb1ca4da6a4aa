"""Ends of the 80 % interval, from measured over predicted times of held-out timings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
INTERVAL = (0.09, 0.91)  # quantiles: a little more than the 80 % that are promised
INSIDE = 0.81  # of held-out timings between the ends; the timings of a fit lie a little nearer than others
TAIL_TIMINGS = 0.8  # a group of n timings gives up this / n of each tail, because its own quantiles are uncertain
MIN_TAIL, MAX_TAIL = 0.01, 0.15  # of the timings, beyond each end
STEPS = 57  # from one to the other
RUN_TO_RUN = 0.02  # relative: two runs of a case on a machine differ by that, so that no end lies nearer to the time


def ends(ratio: Vector, lowest: Vector | float = 0.0) -> tuple[float, float]:
    """The narrowest quantiles of the ratios, as far from either tail, that hold the share that is promised.

    `lowest` is the logarithm of the low end that a case has anyway, because larger sizes may take that little.
    """
    share = min(INSIDE + 2 * TAIL_TIMINGS / len(ratio), 1 - 2 * MIN_TAIL)
    anyway = np.exp(np.minimum(lowest, 0.0))
    low, high = 1 - RUN_TO_RUN, 1 + RUN_TO_RUN
    for tail in np.linspace(MAX_TAIL, MIN_TAIL, STEPS):
        low = min(float(np.quantile(ratio, tail)), 1 - RUN_TO_RUN)
        high = max(float(np.quantile(ratio, 1 - tail)), 1 + RUN_TO_RUN)
        if np.mean((ratio >= np.minimum(low, anyway)) & (ratio <= high)) >= share:
            break
    return low, high
