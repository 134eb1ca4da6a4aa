"""How far the sizes of cases lie from those that a kernel was timed with."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..core.families.attention import MAX_HEAD
from ..core.work import Array, largest

HEADED = ("attention", "attention_backward", "decode")  # families of kernels that are built for a size of the head

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


def below(sizes: Sizes, ranges: Ranges) -> NDArray[np.bool_]:
    """Which cases have a size below the timed ones, and none above them."""
    timed = {name: np.asarray(sizes[name]) for name in ranges if name in sizes}
    smaller = [np.where((size > 0) & (size < ranges[name][0]), 1.0, 0.0) for name, size in timed.items()]
    larger = [np.where(size > ranges[name][1], 1.0, 0.0) for name, size in timed.items()]
    return np.asarray(largest([0.0, *smaller])) > largest([0.0, *larger])
