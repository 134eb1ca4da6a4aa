"""Kernel families by name: formulas for the time of what libraries run, a handful of named coefficients each.

Libraries choose among kernels by shape; where that choice is known, a family has variants (`gemm-odd`) that share its
formula and have coefficients of their own. A variant of a variant (`gemm-few-odd`) takes those of the wider one
(`gemm-few`) where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from . import attention, convolution, nearby, product, vector
from .attention import ATTENTION, DECODING
from .convolution import CONVOLUTION
from .experts import EXPERTS
from .family import Array, Coefficient, Family, Hardware, Mask, Sizes
from .product import PRODUCT
from .vector import ROWWISE, STREAMING, TRANSPOSING

FORMULAS = {
    family.name: family
    for family in (PRODUCT, STREAMING, TRANSPOSING, ROWWISE, ATTENTION, DECODING, CONVOLUTION, EXPERTS)
}
SHARED = {"reduce": "stream", "gather": "stream"}  # families that borrow a formula
VARIANTS: dict[str, Callable[[Sizes, str], dict[str, Mask]]] = {
    "gemm": product.variants,
    "rows": vector.variants,
    "attention": attention.variants,
    "conv": convolution.variants,
}
OPS: dict[str, Callable[[Sizes], dict[str, Mask]]] = {"attention": attention.masks}  # ops that sizes tell apart


def base(name: str) -> str:
    """The family of a variant."""
    return name.partition("-")[0]


def wider(name: str) -> Iterator[str]:
    """A variant, the one it is a variant of, and so on to the family."""
    while name:
        yield name
        name = name.rpartition("-")[0]


def formula(name: str) -> Family:
    return FORMULAS[SHARED.get(base(name), base(name))]


def variants(family: str, sizes: Sizes, op: str = "") -> Iterator[tuple[str, str, Array]]:
    """The variants and ops that the cases belong to, each with 1 where it holds and 0 elsewhere (1.0 where it always does)."""
    always = {"": np.asarray(True)}
    for name, where in (VARIANTS[family](sizes, op) if family in VARIANTS else always).items():
        for sized_op, holds in (OPS[family](sizes) if family in OPS else always).items():
            both = where & holds
            if np.any(both):
                yield name or family, sized_op or op, 1.0 if np.all(both) else np.where(both, 1.0, 0.0)


__all__ = ["FORMULAS", "Coefficient", "Family", "Hardware", "base", "formula", "nearby", "variants", "wider"]
