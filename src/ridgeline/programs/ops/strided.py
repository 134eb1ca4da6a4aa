"""Elementwise kernels that load no vectors: operands in another order, broadcast, in two formats, or joined.

Libraries then compute the place of every element, or convert it as it is loaded, so that index arithmetic and not the memory may
limit them. Operators of programs whose tensors lie so are priced by the timings of these.
"""

from __future__ import annotations

from typing import Literal

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.work import Array, Kernel, Work, work
from .registry import Format, Size, op

# Kernels that index every element, also of a tensor that is repeated, convert formats as they load, join tensors, or join or
# stack such that are indexed.
STRIDED, EXPANDED, CONVERTED, JOINED = "strided", "expanded", "converted", "cat"
JOINED_STRIDED, STACKED_STRIDED = "cat_strided", "stack_strided"
JOINED_IMAGES = "cat_images"  # with channels last, along the channels


def _kernel(
    name: str, read: Array, written: Array, flops: Array, elements: Array, dtype: str, like: str = "", **more: Array
) -> tuple[Kernel, ...]:
    sizes = {"read": read, "written": written, "flops": flops, "special": 0.0, "elements": elements, "launches": 1.0}
    return (Kernel("stream", sizes | more, name, label(dtype), like),)


@op("stream", "elementwise")
def permute(batch: Size, rows: Size, cols: Size, inner: Size, dtype: Format = "bf16") -> Work:
    """y[batch,cols,rows,inner] = x[batch,rows,cols,inner], the heads of attention moved. No flops; all read and written."""
    n = batch * rows * cols * inner
    each = dtype_row(dtype).bytes
    return work(
        read={"x": (n, dtype, "batch rows cols inner")},
        write={"y": (n, dtype, "batch rows cols inner")},
        dtype=dtype,
        kernels=_kernel(STRIDED, n * each, n * each, 0.0, n, dtype),
    )


@op("stream", "elementwise")
def add_row(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """y_ij = x_ij + b_j: a row added to all rows. 1 flop per element; x and the row read, y written."""
    n = rows * cols
    each = dtype_row(dtype).bytes
    return work(
        vector={"add": (n, "rows cols")},
        read={"x": (n, dtype, "rows cols"), "b": (cols, dtype, "cols")},
        write={"y": (n, dtype, "rows cols")},
        dtype=dtype,
        kernels=_kernel(STRIDED, (n + cols) * each, n * each, n, n, dtype),
    )


@op("stream", "elementwise")
def scale_expanded(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """y_ij = a x_i: a column repeated over all columns, as the gradient of a mean is. 1 flop per element; x read, y written."""
    n = rows * cols
    each = dtype_row(dtype).bytes
    return work(
        vector={"scale": (n, "rows cols")},
        read={"x": (rows, dtype, "rows")},
        write={"y": (n, dtype, "rows cols")},
        dtype=dtype,
        kernels=_kernel(EXPANDED, rows * each, n * each, n, n, dtype, STRIDED),
    )


@op("stream", "elementwise")
def add_mixed(n: Size, dtype: Format = "fp32", other: Literal["bf16", "fp16"] = "bf16") -> Work:
    """y = a + b with b stored in another format. n flops; a read and y written as `dtype`, b read as `other`."""
    wide, narrow = dtype_row(dtype).bytes, dtype_row(other).bytes
    return work(
        vector={"add": (n, "n")},
        read={"a": (n, dtype, "n"), "b": (n, other, "n")},
        write={"y": (n, dtype, "n")},
        dtype=dtype,
        kernels=_kernel(CONVERTED, n * (wide + narrow), n * wide, n, n, dtype),
    )


@op("stream", "elementwise")
def concatenate(
    rows: Size, cols: Size, parts: Size = 2, dtype: Format = "bf16", layout: Literal["nchw", "nhwc"] = "nchw"
) -> Work:
    """`parts` tensors of rows x cols next to each other: y[rows, parts cols]. No flops; all read and written.

    With `layout` nhwc the rows are the pixels of images with channels last, which are joined along their channels.
    """
    n = rows * cols * parts
    each = dtype_row(dtype).bytes
    images = _kernel(JOINED_IMAGES, n * each, n * each, 0.0, n, dtype, STACKED_STRIDED)
    return work(
        read={"x": (n, dtype, "parts rows cols")},
        write={"y": (n, dtype, "parts rows cols")},
        dtype=dtype,
        kernels=images if layout == "nhwc" else _kernel(JOINED, n * each, n * each, 0.0, n, dtype, piece=cols * each),
    )


@op("stream", "elementwise")
def stack_permuted(batch: Size, rows: Size, cols: Size, inner: Size, parts: Size = 3, dtype: Format = "bf16") -> Work:
    """y[batch,rows,part,cols,inner] = x_part[batch,cols,rows,inner]: heads of queries, keys and values joined. No flops."""
    n = batch * rows * cols * inner * parts
    each = dtype_row(dtype).bytes
    return work(
        read={"x": (n, dtype, "parts batch rows cols inner")},
        write={"y": (n, dtype, "parts batch rows cols inner")},
        dtype=dtype,
        kernels=_kernel(STACKED_STRIDED, n * each, n * each, 0.0, n, dtype, JOINED_STRIDED),
    )
