"""Coordinates of a shape that follow from its sizes, by which cases are near each other as the sizes themselves do not say.

A convolution is a product whose rows are the pixels of all images: 64 images of 14x14 and 16 of 28x28 are alike to it.
Which kernel it gets depends on the powers of two that its channels and pixels are multiples of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from .effects import Array
from .family import Sizes

MAX_EXACT = 2.0**53  # the largest of the integers that floating point holds one by one
MAX_STEP = 128  # the largest power of two that counts as alignment


def alignment(size: Array) -> Array:
    """The largest power of two, up to MAX_STEP, that a size is a multiple of."""
    integer = np.minimum(size, MAX_EXACT).astype(np.int64)
    power: Array = np.minimum(integer & -integer, MAX_STEP).astype(np.float64)
    return power


Derived = Mapping[str, Callable[[Sizes], Array]]
STEPS: Derived = {
    "c_in_step": lambda sizes: alignment(sizes["c_in"]),
    "c_out_step": lambda sizes: alignment(sizes["c_out"]),
    "pixel_step": lambda sizes: alignment(sizes["h"] * sizes["w"]),
}  # which no growth at equal alignment changes
DERIVED: Derived = {**STEPS, "all_pixels": lambda sizes: sizes["images"] * sizes["ho"] * sizes["wo"]}
OF_ONE_SIZE = {"c_in_step": "c_in", "c_out_step": "c_out"}  # which a table need not hold: the size says it


def coordinate(sizes: Sizes, name: str) -> Array:
    """A size, or what follows from the sizes."""
    return DERIVED[name](sizes) if name in DERIVED else sizes[name]
