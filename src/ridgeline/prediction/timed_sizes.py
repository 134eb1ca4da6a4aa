"""How far the sizes of cases lie from those that a kernel was timed with.

Formulas fitted to the smaller 60 % of the sizes of 85 groups of public timings (A100, H100, V100): 80 % of the errors are below 0.10 (in logarithms,
median group) within these sizes, 0.15, 0.17, 0.21 and 0.26 one to four doublings beyond. With 0.05 added per doubling the interval holds 78 % of the cases up
to one doubling beyond, 79 % of those up to four, 75 % up to eight; it is the error of the formula that grows, not what a machine or a format differs
by. Elementwise kernels, whose bytes stream, err no more beyond their sizes than within them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..core.families.attention import MAX_HEAD
from ..core.work import Array, largest
from .doubt import STREAMING

HEADED = ("attention", "attention_backward", "decode")  # families of kernels that are built for a size of the head
GROWTH_PER_DOUBLING = 0.05  # of the logarithm of an interval's end, per doubling of a size beyond those that were timed
# And of the upper end of products smaller than these: fitted to sides from 256 or 512 on, 7,700 predictions of smaller fp32 products on
# A100, T4 and V100 (most of them twice) take up to 0.24, 0.38, 0.55, 0.61 and 0.69 (in logarithms, 90 % of them) longer one to five halvings below, and up to 0.14, 0.18,
# 0.20, 0.25 and 0.37 less.
GROWTH_PER_HALVING, PRODUCTS = 0.13, ("gemm",)
MAX_DOUBLINGS = 12.0  # that count; beyond, nothing is known better
CALIBRATED_WITHIN = 4.0  # times the sizes that were timed, up to which timings speak for a kernel: a doubling later, formulas err twice as much
# The ends of the interval over the time, at least, of kernels far below the timed sizes that do little more than launch: those of
# kernels that another GPU lends, because long kernels say little of a launch.
BELOW_TIMED = {"low": 0.77, "high": 1.3}
BELOW_DOUBLINGS = 2.0  # below the timed sizes, over which the interval widens to these

Sizes = Mapping[str, Array]
Ranges = Mapping[str, tuple[float, float]]


def distance(family: str, sizes: Sizes, ranges: Ranges) -> Array:
    """As a factor, 1 within the timed sizes. What a kernel has none of (no reads, no flops) is missing from it, and no smaller case of it."""
    factor: Array = 1.0
    if family in HEADED:
        factor = np.maximum(sizes["d"] / MAX_HEAD, 1.0)
    for name, (low, high) in ranges.items():
        size = sizes.get(name)
        if size is not None:
            below = np.where(np.asarray(size) > 0, low / np.maximum(size, 1e-300), 1.0)
            factor = np.maximum(factor, np.maximum(below, size / high if high else 1.0))
    return factor


def growth(family: str, distance: Array, end: str, smaller: Array) -> Array:
    """What the logarithm of an end of the interval grows by this far beyond the timed sizes, or where `smaller` is 1 below them."""
    if family in STREAMING:
        return 0.0
    each: Array = GROWTH_PER_DOUBLING
    if end == "high" and family in PRODUCTS:
        each = np.where(np.asarray(smaller) > 0, GROWTH_PER_HALVING, each)
    return each * np.minimum(np.log2(distance), MAX_DOUBLINGS)


def near(family: str, distance: Array) -> NDArray[np.bool_]:
    """Whether sizes this far beyond are near enough to the timed ones to be called calibrated."""
    return np.asarray(distance) <= (np.inf if family in STREAMING else CALIBRATED_WITHIN)


def below(sizes: Sizes, ranges: Ranges) -> NDArray[np.bool_]:
    """Which cases have a size below the timed ones, and none above them."""
    timed = {name: np.asarray(sizes[name]) for name in ranges if name in sizes}
    smaller = [np.where((size > 0) & (size < ranges[name][0]), 1.0, 0.0) for name, size in timed.items()]
    larger = [np.where(size > ranges[name][1], 1.0, 0.0) for name, size in timed.items()]
    return np.asarray(largest([0.0, *smaller])) > largest([0.0, *larger])


def unknown_below(end: str, distance: Array, launch: Array) -> Array:
    """An end of the interval over the time, at least, this far below the timed sizes; `launch` is its share of the time."""
    return BELOW_TIMED[end] ** np.clip(np.log2(distance) / BELOW_DOUBLINGS * np.minimum(2 * launch, 1.0), 0.0, 1.0)
