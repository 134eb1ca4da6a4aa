"""Coordinates of a shape that follow from its sizes, by which cases are near each other as the sizes themselves do not say.

A convolution is a product whose rows are the pixels of all images: 64 images of 14x14 and 16 of 28x28 are alike to it.
Which kernel it gets depends on the powers of two that its channels and pixels are multiples of. Which one a product gets also
depends on how many tiles it has, on its work and on what it reads and writes. A convolution has the coordinates of that product too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from .effects import Array
from .family import Sizes

MAX_EXACT = 2.0**53  # the largest of the integers that floating point holds one by one
MAX_STEP = 128  # the largest power of two that counts as alignment
MAX_FOLD = 1024  # the same of what a sum is cut into for: 8 parts in steps of 128
TILES = ((128, 128), (64, 64), (256, 128), (128, 64), (32, 32))  # rows and columns that products are counted in


def alignment(size: Array, most: int = MAX_STEP) -> Array:
    """The largest power of two, up to `most`, that a size is a multiple of."""
    integer = np.asarray(np.minimum(size, MAX_EXACT)).astype(np.int64)
    power: Array = np.minimum(integer & -integer, most).astype(np.float64)
    return power


def _step(name: str, sizes: Sizes) -> Array:
    return alignment(np.asarray(sizes[name]))


def _tiles(rows: float, columns: float, sizes: Sizes) -> Array:
    tiles: Array = sizes["b"] * np.ceil(sizes["m"] / rows) * np.ceil(sizes["n"] / columns)
    return tiles


def _moved(sizes: Sizes) -> Array:
    """Elements of A, B and C."""
    m, n, k = sizes["m"], sizes["n"], sizes["k"]
    return sizes["b"] * (m * k + n * k + m * n)


Derived = Mapping[str, Callable[[Sizes], Array]]
OF_PRODUCTS: Derived = {
    **{f"{name}_step": partial(_step, name) for name in "mnk"},
    "results": lambda sizes: sizes["b"] * sizes["m"] * sizes["n"],
    "aspect": lambda sizes: sizes["m"] / sizes["n"],
    "products": lambda sizes: sizes["b"] * sizes["m"] * sizes["n"] * sizes["k"],
    "elements_moved": _moved,
    **{f"tiles_{rows}x{columns}": partial(_tiles, rows, columns) for rows, columns in TILES},
}


def as_product(sizes: Sizes) -> dict[str, Array]:
    """The sizes of the product of matrices that a convolution is: outputs by channels, summed over channels and taps; the gradient of
    the weights is summed over outputs."""
    groups, kernel = sizes["groups"], sizes["kernel"]
    pixels, columns = sizes["images"] * sizes["ho"] * sizes["wo"], sizes["c_out"] / groups
    inner = sizes["c_in"] / groups * kernel * kernel
    if np.any(np.asarray(sizes.get("summed", 0.0)) > 0):
        return {"b": groups, "m": columns, "n": inner, "k": pixels}
    return {"b": groups, "m": pixels, "n": columns, "k": inner}


def _border(sizes: Sizes) -> Array:
    """Pixels that padding adds to a side, both ends together; negative where the last ones are left out."""
    spread, dilation = np.asarray(sizes.get("spread", 1.0)), sizes.get("dilation", 1.0)
    forward: Array = (sizes["ho"] - 1) * sizes["stride"] + dilation * (sizes["kernel"] - 1) + 1 - sizes["h"]
    backward: Array = (sizes["h"] - 1) * spread + dilation * (sizes["kernel"] * spread - 1) + 1 - sizes["ho"]
    return np.where(spread > 1, backward, forward)


OF_CONVOLUTIONS: Derived = {
    "taps": lambda sizes: sizes["kernel"] * sizes.get("spread", 1.0),
    "spread_by": lambda sizes: sizes.get("spread", 1.0),
    "dilated_by": lambda sizes: sizes.get("dilation", 1.0),
    "border": _border,
    "pixels_in": lambda sizes: sizes["images"] * sizes["h"] * sizes["w"],
    "width_in": lambda sizes: sizes["c_in"] / sizes["groups"],
    "width_out": lambda sizes: sizes["c_out"] / sizes["groups"],
    "elements_in": lambda sizes: sizes["images"] * sizes["h"] * sizes["w"] * sizes["c_in"],
    "elements_out": lambda sizes: sizes["images"] * sizes["ho"] * sizes["wo"] * sizes["c_out"],
    "across": lambda sizes: sizes["c_in"] / sizes["c_out"],
    "deep": lambda sizes: sizes["k"] / sizes["m"],
    "image_step": lambda sizes: alignment(sizes["images"]),
    "column_step": lambda sizes: alignment(sizes["w"]),
    "out_step": lambda sizes: alignment(sizes["ho"] * sizes["wo"]),
    "width_in_step": lambda sizes: alignment(sizes["c_in"] / sizes["groups"]),
    "width_out_step": lambda sizes: alignment(sizes["c_out"] / sizes["groups"]),
}
STEPS: Derived = {
    "c_in_step": lambda sizes: alignment(sizes["c_in"]),
    "c_out_step": lambda sizes: alignment(sizes["c_out"]),
    "pixel_step": lambda sizes: alignment(sizes["h"] * sizes["w"]),
}  # which no growth at equal alignment changes
DERIVED: Derived = {
    **STEPS,
    **OF_PRODUCTS,
    **OF_CONVOLUTIONS,
    "all_pixels": lambda sizes: sizes["images"] * sizes["ho"] * sizes["wo"],
    "k_fold": lambda sizes: alignment(sizes["k"], MAX_FOLD),
}
OF_ONE_SIZE = {"c_in_step": "c_in", "c_out_step": "c_out"}  # which a table need not hold: the size says it


def coordinate(sizes: Sizes, name: str) -> Array:
    """A size, or what follows from the sizes."""
    return DERIVED[name](sizes) if name in DERIVED else sizes[name]
