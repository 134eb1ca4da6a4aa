"""Kernel families by name: formulas for the time of library kernels, a handful of named coefficients each.

Libraries choose among kernels by shape; where that choice is known, a family has variants (`gemm-odd`) that share its
formula and have coefficients of their own. A variant of a variant (`gemm-few-odd`) takes those of the wider one
(`gemm-few`) where it has none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from . import attention, convolution, cpu, forest, nearby, product, row_kernels, switches, tree
from .attention import ATTENTION, BACKWARD, DECODING
from .convolution import CONVOLUTION
from .effects import Array, TimeItem, merged
from .experts import EXPERTS
from .family import Coefficient, Family, Hardware, Mask, Sizes
from .key import RESIDENT, Key
from .product import PRODUCT
from .vector import ROWWISE, SCANNING, STREAMING, TRANSPOSING
from .weight_only import UNPACKING
from .weight_tiles import TILED_UNPACKING

FORMULAS = {
    family.name: family
    for family in (
        PRODUCT,
        UNPACKING,
        STREAMING,
        TRANSPOSING,
        ROWWISE,
        SCANNING,
        ATTENTION,
        BACKWARD,
        DECODING,
        CONVOLUTION,
        EXPERTS,
    )
}
# Formulas of kernels whose tiles are known, by family and backend.
OF_BACKENDS = {("weight_only", "triton"): TILED_UNPACKING}
CPU_FORMULAS = cpu.families(FORMULAS)
SHARED = {"reduce": "stream", "gather": "stream"}  # families that use the formula of another
VARIANTS: dict[str, Callable[[Sizes, str], dict[str, Mask]]] = {
    "gemm": product.variants,
    "rows": row_kernels.variants,
    "scan": row_kernels.scan_variants,
    "stream": row_kernels.stream_variants,
    "attention": attention.variants,
    "attention_backward": attention.backward_variants,
    "conv": convolution.variants,
}
OPS: dict[str, Callable[[Sizes], dict[str, Mask]]] = {
    "attention": attention.masks,
    "attention_backward": attention.masks,
    **dict.fromkeys(("gemm", "weight_only"), product.addends),
}  # ops that the sizes decide, where a kernel does not name its own


def formula(key: Key, kind: str = "gpu") -> Family:
    """The formula of a kernel on a kind of machine."""
    family = SHARED.get(key.family, key.family)
    if kind == "cpu":
        return CPU_FORMULAS[family]
    return OF_BACKENDS.get((family, key.backend)) or FORMULAS[family]


def keys(family: str, sizes: Sizes, dtype: str, op: str = "", kind: str = "gpu") -> Iterator[tuple[Key, Array]]:
    """The keys (variant and op) that the cases belong to, each with 1 where it holds and 0 elsewhere; 1.0 where it always does."""
    always = np.asarray(True)
    by_family = cpu.VARIANTS if kind == "cpu" else VARIANTS
    variants = by_family[family](sizes, op) if family in by_family else {family: always}
    if RESIDENT in sizes:
        variants = {cpu.with_resident(kernels): mask for kernels, mask in variants.items()}
    ops = OPS[family](sizes) if family in OPS and not op else {op: always}
    for kernels, of_variant in variants.items():
        for name, of_op in ops.items():
            mask = of_variant & of_op
            if np.all(mask):
                yield Key.of(kernels, dtype, name), 1.0
            elif np.any(mask):
                yield Key.of(kernels, dtype, name), mask.astype(np.float64)


__all__ = [
    "FORMULAS",
    "RESIDENT",
    "Coefficient",
    "Family",
    "Hardware",
    "Key",
    "TimeItem",
    "forest",
    "formula",
    "keys",
    "merged",
    "nearby",
    "switches",
    "tree",
]
