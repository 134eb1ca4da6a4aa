"""Ops without arithmetic to speak of: fill, sort, top-k; and prefix sums."""

from __future__ import annotations

import numpy as np

from ...core.errors import InputError
from ...core.work import Work, work
from .kernels import row_kernel
from .registry import Format, Size, op


@op("stream", "elementwise")
def fill(n: Size, dtype: Format = "bf16") -> Work:
    """x = a constant. No flops; n written."""
    return work(write={"x": (n, dtype, "n")}, dtype=dtype)


@op("rows", "selection")
def sort(rows: Size, cols: Size, dtype: Format = "fp32") -> Work:
    """Each row in order, with the places its values came from. Comparisons are not flops; x read, values and 64-bit places written."""
    n = rows * cols
    return work(
        read={"x": (n, dtype, "rows cols")},
        write={"values": (n, dtype, "rows cols"), "places": (n, "fp64", "rows cols")},
        dtype=dtype,
        kernels=row_kernel("sort", rows, cols, dtype, "fp64"),
    )


@op("rows", "selection")
def topk(rows: Size, cols: Size, k: Size, dtype: Format = "bf16") -> Work:
    """The k largest of each row and their places. Comparisons are not flops; x read, k values and 64-bit places per row written."""
    if np.any(np.asarray(k) > np.asarray(cols)):
        raise InputError("topk: k must not exceed cols")
    return work(
        read={"x": (rows * cols, dtype, "rows cols")},
        write={"values": (rows * k, dtype, "rows k"), "places": (rows * k, "fp64", "rows k")},
        dtype=dtype,
        kernels=row_kernel("topk", rows, cols, dtype, "fp64", per_row=1.0 * k),
    )


@op("rows", "reduction")
def cumsum(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """y_j = x_1 + ... + x_j along each row. rows (cols - 1) additions; x read, y written."""
    n = rows * cols
    return work(
        vector={"add": (n - rows, "rows (cols - 1)")},
        read={"x": (n, dtype, "rows cols")},
        write={"y": (n, dtype, "rows cols")},
        dtype=dtype,
        kernels=row_kernel("", rows, cols, dtype, dtype, family="scan"),
    )
