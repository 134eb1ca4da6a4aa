"""Ends of the 80 % interval, from measured over predicted times of held-out timings."""

from __future__ import annotations

import math
from typing import NamedTuple

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
JITTERS = (0.0, 0.05e-6, 0.1e-6, 0.15e-6, 0.2e-6, 0.3e-6, 0.5e-6, 1e-6, 2e-6, 5e-6)  # seconds, of which one is chosen
MAX_SHARE = (
    0.25  # of what the shortest tenth takes, that these seconds may be: what is shorter yet is not known from them
)
MIN_TIMINGS = 60  # from which the widths of short and long kernels can be told apart


class Ends(NamedTuple):
    """Factors of the time, and seconds that are added to their logarithms in quadrature, over the time."""

    low: float
    high: float
    jitter: float = 0.0


def ends(ratio: Vector, lowest: Vector | float = 0.0, predicted: Vector | None = None) -> Ends:
    """The narrowest quantiles of the ratios, as far from either tail, that hold the share that is promised; with what
    two runs differ by, added in quadrature: most timings of a fit are of the same runs.

    `lowest` is the logarithm of the low end that a case has anyway, because larger sizes may take that little. With the
    `predicted` seconds, part of the width may be seconds instead of a share of the time: as many as give the least interval
    score (Gneiting and Raftery 2007), the mean width plus 2 / (1 - share) times what lies outside.
    """
    times = np.full(len(ratio), np.inf) if predicted is None else predicted
    told_apart = predicted is not None and len(ratio) >= MIN_TIMINGS
    most = MAX_SHARE * float(np.quantile(times, 0.1)) if told_apart else 0.0
    errors, anyway = np.log(ratio), np.minimum(lowest, 0.0)
    share = min(INSIDE + 2 * TAIL_TIMINGS / len(ratio), 1 - 2 * MIN_TAIL)
    scored = []
    for jitter in (each for each in JITTERS if each <= most):
        own = jitter / times
        low, high = _widths(errors, own, anyway, share)
        under, over = -np.hypot(low, own), np.hypot(high, own)
        outside = np.maximum(np.minimum(under, anyway) - errors, 0) + np.maximum(errors - over, 0)
        scored.append((float(np.mean(over - under + 2 / (1 - INSIDE) * outside)), jitter, low, high))
    _, jitter, low, high = min(scored)
    return Ends(math.exp(-math.hypot(low, RUN_TO_RUN)), math.exp(math.hypot(high, RUN_TO_RUN)), jitter)


def _widths(errors: Vector, own: Vector, anyway: Vector | float, share: float) -> tuple[float, float]:
    """Distances of both ends from the time, as logarithms, next to what is each case's own in quadrature."""
    beyond = np.copysign(np.sqrt(np.maximum(errors**2 - own**2, 0.0)), errors)
    low = high = 0.0
    for tail in np.linspace(MAX_TAIL, MIN_TAIL, STEPS):
        low, high = max(-float(np.quantile(beyond, tail)), 0.0), max(float(np.quantile(beyond, 1 - tail)), 0.0)
        if np.mean(((beyond >= -low) | (errors >= anyway)) & (beyond <= high)) >= share:
            break
    return low, high
