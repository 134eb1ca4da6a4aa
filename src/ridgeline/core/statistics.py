"""Statistics of timings, by their names: median, spread, outliers, errors, rank test, bootstrap intervals.

Pure functions of samples: the same samples always give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Samples = Sequence[float] | Vector
OUTLIER_FENCE = 3.0  # distance from the quartiles, in interquartile ranges, beyond which a sample is an outlier
MAX_EXACT_PAIRS = 2500  # pairs of samples up to which the rank test counts every order
RESAMPLES = 2000  # of a bootstrap
MAX_DRAWN = 1000  # samples up to which every resampled series is drawn; of longer ones only its median
MAX_REACHING = 1100  # samples of the shorter series from which on any p-value can be reached: 2 ** -1100 is 0


def median(samples: Samples) -> float:
    """For a handful of samples much quicker than numpy's, and a trace has 100 000 handfuls."""
    ordered, half = sorted(samples), len(samples) // 2
    return float(ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def quantile(samples: Samples, share: float) -> float:
    return float(np.quantile(samples, share))


def spread(samples: Samples) -> float:
    """Half the width of the central 80 %, relative to the median: 0.02 is +/-2 %."""
    low, high = np.quantile(samples, [0.1, 0.9])
    return float((high - low) / 2 / median(samples))


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Places of samples far outside the interquartile range. They are named, never dropped."""
    first, third = np.quantile(samples, [0.25, 0.75])
    reach = OUTLIER_FENCE * (third - first)
    return tuple(place for place, sample in enumerate(samples) if not first - reach <= sample <= third + reach)


def median_deviation(samples: Samples) -> float:
    """Median absolute deviation from the median."""
    values = np.asarray(samples, dtype=np.float64)
    return float(np.median(np.abs(values - np.median(values))))


@dataclass(frozen=True)
class Errors:
    """Relative errors of predicted against measured times, |predicted - measured| / measured."""

    median: float
    mean: float
    p90: float
    signed: float  # median of predicted / measured - 1

    DOCUMENT: ClassVar = ("median", "mean", "p90", "signed_median=signed")

    @classmethod
    def of(cls, predicted: Samples, measured: Samples) -> Errors:
        signed = np.asarray(predicted, dtype=np.float64) / np.asarray(measured, dtype=np.float64) - 1
        size = np.abs(signed)
        return cls(float(np.median(size)), float(size.mean()), quantile(size, 0.9), float(np.median(signed)))


@lru_cache(maxsize=64)
def rank_orders(first: int, second: int) -> Vector:
    """How many orders of two series give each value of U, the number of pairs in which the second is the larger."""
    # f(u; m, n) = f(u - n; m - 1, n) + f(u; m, n - 1): the largest value belongs to the first series or to the second
    pairs = first * second
    row = [np.zeros(pairs + 1) for _ in range(second + 1)]
    for counts in row:
        counts[0] = 1.0
    for _ in range(first):
        before, row = row, [np.zeros(pairs + 1)]
        row[0][0] = 1.0
        for n in range(1, second + 1):
            counts = row[n - 1].copy()
            counts[n:] += before[n][: pairs + 1 - n]
            row.append(counts)
    return row[second]


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """One-sided Mann-Whitney p-value: how likely the second series lies this far above the first when both are alike.

    Exact for short series without ties, else the normal approximation with the correction for ties.
    """
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    m, n = len(x), len(y)
    ordered, y = np.sort(x), np.sort(y)  # neighbours are found fast after one another
    below, not_above = np.searchsorted(ordered, y, "left"), np.searchsorted(ordered, y, "right")
    u = float(below.sum() + not_above.sum()) / 2  # pairs in which the second is larger, and half of the ties
    _, repeats = np.unique(np.concatenate([x, y]), return_counts=True)
    if m * n <= MAX_EXACT_PAIRS and repeats.max() == 1:
        counts = rank_orders(m, n)
        return float(counts[round(u) :].sum() / counts.sum())
    ties = float(np.sum(repeats.astype(np.float64) ** 3 - repeats)) / ((m + n) * (m + n - 1))
    variance = m * n / 12 * (m + n + 1 - ties)
    if variance <= 0:
        return 1.0  # all samples are one value
    z = (u - m * n / 2 - 0.5) / math.sqrt(variance)
    return 0.5 * math.erfc(z / math.sqrt(2))


def can_reach(first: int, second: int, p_value: float) -> bool:
    """Whether series of these lengths can give a p-value this small at all: their most extreme order must be rare enough."""
    fewer, more = min(first, second, MAX_REACHING), max(first, second)
    return 1 / math.comb(fewer + more, fewer) < p_value


@lru_cache(maxsize=4)
def _drawn(count: int) -> NDArray[np.int64]:
    """The places of resampled series; those of one length are always the same."""
    return np.random.default_rng(count).integers(0, count, (RESAMPLES, count))


def bootstrap_medians(samples: Sequence[float]) -> Vector:
    """Medians of resampled series.

    Those of a long series are drawn without its resampled series: the k-th smallest of n numbers drawn from 0 to 1 has
    the distribution Beta(k, n + 1 - k), and says which of the sorted samples is the k-th smallest that was drawn.
    """
    values, count = np.asarray(samples, dtype=np.float64), len(samples)
    half = (count + 1) // 2
    if count <= MAX_DRAWN:
        drawn = np.partition(values[_drawn(count)], (half - 1, count - half), axis=1)
        return np.asarray((drawn[:, half - 1] + drawn[:, count - half]) / 2)
    ordered, generator = np.sort(values), np.random.default_rng(count)
    place = generator.beta(half, count + 1 - half, RESAMPLES)
    next_place = place if count % 2 else place + (1 - place) * generator.beta(1, count - half, RESAMPLES)
    low, high = (ordered[np.minimum((count * at).astype(np.int64), count - 1)] for at in (place, next_place))
    return np.asarray((low + high) / 2)


def ratio_interval(first: Sequence[float], second: Sequence[float], confidence: float = 0.95) -> tuple[float, float]:
    """Bootstrap confidence interval of the ratio of the medians, second over first."""
    if len(first) == len(second) == 1:  # nothing else can be drawn
        return (second[0] / first[0],) * 2
    # one of the two is turned round: series of one length are resampled alike and would vary together
    ratios = bootstrap_medians(second) / bootstrap_medians(first)[::-1]
    low, high = np.quantile(ratios, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def student_t_tail(t: float, freedom: float) -> float:
    """The probability that Student's t lies above `t`; the normal distribution where `freedom` is infinite.

    P(T > t) = I_x(freedom / 2, 1 / 2) / 2 for t >= 0, with x = freedom / (freedom + t^2) and I the regularized
    incomplete beta function.
    """
    if math.isinf(freedom):
        return 0.5 * math.erfc(t / math.sqrt(2))
    if t < 0:
        return 1.0 - student_t_tail(-t, freedom)
    return 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=1024)
def student_t_quantile(tail: float, freedom: float) -> float:
    """The t above which Student's t lies with probability `tail` (0 < tail <= 0.5), by bisection."""
    low, high = 0.0, 1.0
    while student_t_tail(high, freedom) > tail and high < 1e12:
        low, high = high, 2 * high
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if student_t_tail(middle, freedom) > tail else (low, middle)
    return high


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularized, by its continued fraction (Abramowitz and Stegun 26.5.8) with the method of Lentz."""
    if not 0 < x < 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x > (a + 1) / (a + b + 2):  # where the fraction converges slowly, the complement converges fast
        return 1.0 - _incomplete_beta(b, a, 1 - x)
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d, c = 1 / (1 + term * d), 1 + term / c
            fraction *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return front * fraction / a
