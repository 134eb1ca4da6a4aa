"""Products that a library may run in place of the one that is asked for: narrow weights widened first, few rows as with a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from ..core.families import Key
from ..core.work import Array, Kernel, total
from ..machines.transfer import backends
from .asked import Asked
from .coefficients import Selected, timed_backend
from .doubt import HALVES

if TYPE_CHECKING:
    from .kernel_times import KernelTime

WIDENING_SHARE = 0.8  # of the bandwidth, that the pass over the weights reaches: what casts were timed at
FEW = "few"  # begins the variants of products of few rows
FEW_UNITS = ("int8", "fp64")  # formats that some GPUs have hardly any matrix units for


def widened(kernel: Kernel, selected: Selected, asked: Asked) -> Kernel | None:
    """The product of wide weights; None where narrow ones were timed with the library that is asked for, or there are none."""
    backend = timed_backend(asked.machine, asked.backend, kernel.family)
    if kernel.family != "weight_only" or selected.key.backend in backends(backend):
        return None
    sizes = {"b": 1.0, **kernel.sizes, "w": kernel.sizes["a"]}
    return Kernel("gemm", sizes, dtype=Key("gemm", kernel.dtype).dtypes[0])


def rewritten(sizes: Mapping[str, Array]) -> Array:
    """Bytes of the pass that widens weights, as many as the bandwidth would move meanwhile."""
    return sizes["n"] * sizes["k"] * (sizes["w"] + sizes["a"]) / WIDENING_SHARE


def with_vector(kernel: Kernel, selected: Selected, asked: Asked) -> Kernel | None:
    """A product of few rows in 16 bits as a product with a vector, which streams the same matrix; None where its own timings, or those
    of a library that is asked for, say what it takes.

    GPUs that lend products of few rows wait for their memory, and what part of it is arithmetic, which a machine with less bandwidth
    hides, their timings do not tell.
    """
    few = kernel.family == "gemm" and selected.key.variant.startswith(FEW) and kernel.dtype in HALVES
    if not few or not selected.fitted.borrowed or asked.backend:
        return None
    sizes = kernel.sizes
    matrix = {"rows": sizes["b"] * np.maximum(sizes["m"], sizes["n"]), "cols": sizes["k"]}
    widths = {"x": sizes["w"], "y": sizes["c"]}
    return replace(
        kernel, family="rows", op="gemv", sizes={**matrix, **widths, "per_row": 1.0, "fresh": 1.0}, unusual=""
    )


def seconds(times: Sequence[KernelTime], uncovered: Array) -> Array:
    """Of a kernel, by its variants; infinite for the cases that no coefficients serve."""
    return np.where(np.asarray(uncovered) > 0, np.inf, total(time.time for time in times))
