"""Kernels that several ops run: a matrix product, and a pass over rows. The families price them by these sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.families.family import ADDEND
from ...core.families.product import ADDED, BIAS
from ...core.notes import ASSUMED, Note
from ...core.work import Array, Kernel


def product_kernel(
    b: Array | None, m: Array, n: Array, k: Array, dtype: str, stored: str, out: str, bias: Array = 0.0
) -> tuple[Kernel, ...]:
    """A product of A[m,k] and B[k,n], or `b` of them at once, with the widths of their elements.

    Weights that are stored narrower than the arithmetic are unpacked by kernels of their own, which take entire groups.
    """
    widths: dict[str, Array] = {"a": dtype_row(dtype).bytes, "w": dtype_row(stored).bytes, "c": dtype_row(out).bytes}
    if np.any(bias):
        widths[BIAS] = bias
    if b is None and dtype_row(stored).bits < dtype_row(dtype).bits:
        return (Kernel("weight_only", {"m": m, "n": n, "k": in_groups(k, stored), **widths}, dtype=label(dtype, stored)),)  # fmt: skip
    sizes = {"b": 1.0 if b is None else b, "m": m, "n": n, "k": k, **widths}
    return (Kernel("gemm", sizes, "" if b is None else "bmm", label(dtype, stored)),)


def added_to(kernel: Kernel, width: Array) -> Kernel:
    """A product that is added to a matrix as large as its result, of elements so wide; 0 where it is not, case by case.

    No such product was timed. Those of one pair of matrices are told apart case by case, by their key.
    """
    if not np.any(width) or kernel.family not in ("gemm", "weight_only"):
        return kernel
    by_key = kernel.family == "gemm" and not kernel.op
    return replace(kernel, sizes={**kernel.sizes, ADDEND: width}, unusual=kernel.unusual if by_key else ADDED)


def in_groups(k: Array, stored: str) -> Array:
    """A number of weights that share scales, padded to entire groups."""
    group = dtype_row(stored).block
    return np.ceil(k / group) * group if group > 1 else k


def padding(name: str, k: Array, dtype: str, stored: str) -> tuple[str, ...]:
    """The note that a size is padded to entire groups of weights, where it is no multiple of them."""
    row, padded = dtype_row(stored), in_groups(k, stored)
    if row.bits >= dtype_row(dtype).bits or np.all(padded == k):
        return ()
    to = f"{float(np.max(padded)):.0f}, a multiple" if np.ndim(k) == 0 else "multiples"
    return (Note(ASSUMED, f"{name} is padded to {to} of the {row.block} weights that share a scale: kernels take entire groups"),)  # fmt: skip


def row_kernel(
    op: str,
    rows: Array,
    cols: Array,
    dtype: str,
    out: str,
    per_row: Array = 0.0,
    fresh: Array = 1.0,
    family: str = "rows",
    stored: str | None = None,
) -> tuple[Kernel, ...]:
    """Rows of `cols` elements, each read and written whole.

    Where `per_row` is not 0 so many elements are written instead; `fresh` is the share of the rows that was not read
    before; `stored` is the format of the rows where the arithmetic has another.
    """
    sizes = {"rows": rows, "cols": cols, "x": dtype_row(stored or dtype).bytes, "y": dtype_row(out).bytes}
    return (Kernel(family, {**sizes, "per_row": per_row, "fresh": fresh}, op, label(dtype, stored)),)


def column_kernel(
    results: Array, length: Array, dtype: str, out: str, op: str = "sum_columns", like: str = "sum_rows"
) -> tuple[Kernel, ...]:
    """Sums of `length` elements each, which lie a row apart."""
    (kernel,) = row_kernel(op, results, length, dtype, out, per_row=1.0)
    return (replace(kernel, sizes={**kernel.sizes, "apart": 1.0}, like=like),)
