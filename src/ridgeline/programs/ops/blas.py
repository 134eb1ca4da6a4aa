"""BLAS levels 1 to 3 and batched products.

Conventions: a multiply-add is 2 flops; products count 2mnk; sums count exactly (n - 1 additions); a tensor that
is updated counts one read and one write; symmetric and triangular operands store n(n+1)/2 elements; `beta`
reads the old result (its scaling is part of the product's epilogue and not counted).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import result
from ...core.work import Array, Work, only_if, work
from .kernels import added_to, padding, product_kernel, row_kernel
from .registry import Flag, Format, Size, op

# -- level 1 ----------------------------------------------------------------------------------------------


@op("stream", "blas1")
def copy(n: Size, dtype: Format = "bf16") -> Work:
    """y = x. No flops; n read, n written."""
    return work(read={"x": (n, dtype, "n")}, write={"y": (n, dtype, "n")}, dtype=dtype)


@op("stream", "blas1")
def scal(n: Size, dtype: Format = "bf16") -> Work:
    """x = a x. n multiplications; x read and written."""
    x = {"x": (n, dtype, "n")}
    return work(vector={"multiply": (n, "n")}, read=x, write=x, dtype=dtype)


@op("stream", "blas1")
def axpy(n: Size, dtype: Format = "bf16") -> Work:
    """y = a x + y. 2n flops; x and y read, y written."""
    y = {"y": (n, dtype, "n")}
    return work(vector={"multiply-add": (2 * n, "2 n")}, read={"x": (n, dtype, "n"), **y}, write=y, dtype=dtype)


@op("reduce", "blas1")
def dot(n: Size, dtype: Format = "bf16") -> Work:
    """s = sum x_i y_i. n multiplications and n - 1 additions; x and y read, one value written."""
    reads = dict.fromkeys("xy", (n, dtype, "n"))
    flops = {"multiply": (n, "n"), "add": (n - 1, "n - 1")}
    return work(vector=flops, read=reads, write={"s": (1.0, dtype, "1")}, dtype=dtype)


@op("reduce", "blas1")
def nrm2(n: Size, dtype: Format = "bf16") -> Work:
    """s = sqrt(sum x_i^2). n multiplications, n - 1 additions, one square root; x read, one value written."""
    return work(
        vector={"multiply": (n, "n"), "add": (n - 1, "n - 1"), "square root": (1.0, "1")},
        special=1.0,
        read={"x": (n, dtype, "n")},
        write={"s": (1.0, dtype, "1")},
        dtype=dtype,
    )


@op("reduce", "blas1")
def asum(n: Size, dtype: Format = "bf16") -> Work:
    """s = sum |x_i|. n - 1 additions (taking the sign off is not counted); x read, one value written."""
    reads, writes = {"x": (n, dtype, "n")}, {"s": (1.0, dtype, "1")}
    return work(vector={"add": (n - 1, "n - 1")}, read=reads, write=writes, dtype=dtype)


# -- level 2 ----------------------------------------------------------------------------------------------


def _triangle(n: Array) -> Array:
    return n * (n + 1) / 2


@op("gemv", "blas2")
def gemv(m: Size, n: Size, dtype: Format = "bf16", weights: Format | None = None, beta: Flag = False) -> Work:
    """y[m] = A[m,n] x[n] (+ beta y). 2mn flops; A and x read, y written; `weights` is the format A is stored in."""
    out = result(dtype).name
    return work(
        vector={"multiply-add": (2 * m * n, "2 m n")},
        read={"A": (m * n, weights or dtype, "m n"), "x": (n, dtype, "n"), "y": (only_if(beta, m), out, "m")},
        write={"y": (m, out, "m")},
        dtype=dtype,
        kernels=row_kernel("gemv", m, n, dtype, out, per_row=1.0, stored=weights),
    )


@op("gemv", "blas2")
def symv(n: Size, dtype: Format = "bf16", beta: Flag = False) -> Work:
    """y = A x (+ beta y), A symmetric, one triangle stored: 2n^2 flops over n(n+1)/2 elements."""
    out = result(dtype).name
    return work(
        vector={"multiply-add": (2 * n * n, "2 n^2")},
        read={"A": (_triangle(n), dtype, "n (n+1) / 2"), "x": (n, dtype, "n"), "y": (only_if(beta, n), out, "n")},
        write={"y": (n, out, "n")},
        dtype=dtype,
    )


@op("gemv", "blas2")
def trmv(n: Size, dtype: Format = "bf16") -> Work:
    """x = A x, A triangular: row i takes i multiplications and i - 1 additions, n^2 flops in all; x read and written."""
    x = {"x": (n, dtype, "n")}
    reads = {"A": (_triangle(n), dtype, "n (n+1) / 2"), **x}
    return work(vector={"multiply-add": (n * n, "n^2")}, read=reads, write=x, dtype=dtype)


@op("stream", "blas2")
def ger(m: Size, n: Size, dtype: Format = "bf16") -> Work:
    """A[m,n] = A + x y^T. 2mn flops; A read and written, x and y read."""
    matrix = {"A": (m * n, dtype, "m n")}
    reads = {**matrix, "x": (m, dtype, "m"), "y": (n, dtype, "n")}
    return work(vector={"multiply-add": (2 * m * n, "2 m n")}, read=reads, write=matrix, dtype=dtype)


# -- level 3 ----------------------------------------------------------------------------------------------

DEFAULT_TILE = 128.0


def _product(
    batch: Array | None,
    m: Array,
    n: Array,
    k: Array,
    dtype: str,
    weights: str | None,
    out_dtype: str | None,
    beta: Array,
    traffic: str,
    tile: Array | None,
    tile_level: str,
) -> Work:
    """What gemm, bmm and linear share; `batch` products of A[m,k] and B[k,n]."""
    stored, out = weights or dtype, out_dtype or result(dtype).name
    lead = "" if batch is None else "batch "
    rows = m if batch is None else batch * m
    a, b, c = rows * k, (k if batch is None else batch * k) * n, rows * n
    notes: tuple[str, ...] = (f"{traffic} traffic", *(padding("k", k, dtype, stored) if batch is None else ()))
    once = {"A": (a, dtype, f"{lead}m k"), "B": (b, stored, f"{lead}k n")}
    products = product_kernel(batch, m, n, k, dtype, stored, out)
    old, new = {"C": (only_if(beta, c), out, f"{lead}m n")}, {"C": (c, out, f"{lead}m n")}
    reads, inner = once, None
    if traffic == "no_reuse":
        # every multiply-add fetches both its operands
        reads = {"A": (c * k, dtype, f"{lead}m n k"), "B": (c * k, stored, f"{lead}m n k")}
    elif traffic == "tiled" or tile is not None:
        side = DEFAULT_TILE if tile is None else tile
        tiles: dict[str, tuple[Array, str, str]] = {
            "A": (a * np.ceil(n / side), dtype, f"{lead}m k ceil(n/tile)"),
            "B": (b * np.ceil(m / side), stored, f"{lead}k n ceil(m/tile)"),
        }
        reads, inner = (tiles, None) if traffic == "tiled" else (once, tiles)
        notes = (*notes, "square tiles; A is fetched once per column of tiles, B once per row, C once")
    return work(
        matrix={"multiply-add": (2 * c * k, f"2 {lead}m n k")},
        read={**reads, **old},
        write=new,
        inner_read={tile_level: {**inner, **old}} if inner else None,
        inner_write={tile_level: new} if inner else None,
        sizes=once if reads is not once else None,
        dtype=dtype,
        notes=notes,
        kernels=tuple(added_to(each, beta * dtype_row(out).bytes) for each in products),
    )


@op("gemm", "gemm", grows="m")
def gemm(
    m: Size,
    n: Size,
    k: Size,
    dtype: Format = "bf16",
    weights: Format | None = None,
    out_dtype: Format | None = None,
    beta: Flag = False,
    traffic: Literal["compulsory", "tiled", "no_reuse"] = "compulsory",
    tile: Size | None = None,
    tile_level: Literal["l1", "l2", "l3"] = "l2",
) -> Work:
    """C[m,n] = A[m,k] B[k,n] (+ beta C). 2mnk flops; A and B read, C written.

    Traffic at the main memory is `compulsory` (each element once), `tiled` (T x T tiles of C: A fetched ceil(n/T)
    times, B ceil(m/T) times) or `no_reuse` (2mnk operands). With compulsory traffic a `tile` adds the tiled traffic
    at the level that feeds the tiles. `weights` is the storage format of B, `out_dtype` of C.
    """
    return _product(None, m, n, k, dtype, weights, out_dtype, beta, traffic, tile, tile_level)


@op("gemm", "gemm", grows="m")
def bmm(
    batch: Size,
    m: Size,
    n: Size,
    k: Size,
    dtype: Format = "bf16",
    weights: Format | None = None,
    out_dtype: Format | None = None,
    beta: Flag = False,
    traffic: Literal["compulsory", "tiled", "no_reuse"] = "compulsory",
    tile: Size | None = None,
    tile_level: Literal["l1", "l2", "l3"] = "l2",
) -> Work:
    """C[batch,m,n] = A[batch,m,k] B[batch,k,n]: `batch` independent products, each with operands of its own."""
    return _product(batch, m, n, k, dtype, weights, out_dtype, beta, traffic, tile, tile_level)


@op("gemm", "gemm", grows="batch")
def linear(
    batch: Size,
    in_features: Size,
    out_features: Size,
    dtype: Format = "bf16",
    weights: Format | None = None,
    out_dtype: Format | None = None,
    bias: Flag = False,
) -> Work:
    """y[batch,out] = x[batch,in] W^T, W stored (out, in) in the format `weights`. 2 batch in out flops.

    Intensity AI(B) = (2/d) B / (1 + B/in + B/out) when all three share a width of d bytes. Quantised weights are
    widened on the fly: their bytes shrink, the arithmetic stays in `dtype`.
    """
    out = out_dtype or result(dtype).name
    return work(
        matrix={"multiply-add": (2 * batch * in_features * out_features, "2 batch in out")},
        vector={"bias": (only_if(bias, batch * out_features), "batch out")},
        read={
            "x": (batch * in_features, dtype, "batch in"),
            "W": (in_features * out_features, weights or dtype, "in out"),
            "bias": (only_if(bias, out_features), out, "out"),
        },
        write={"y": (batch * out_features, out, "batch out")},
        dtype=dtype,
        notes=padding("in_features", in_features, dtype, weights or dtype),
        kernels=product_kernel(None, batch, out_features, in_features, dtype, weights or dtype, out, bias),
    )


@op("gemm", "blas3")
def symm(m: Size, n: Size, dtype: Format = "bf16", beta: Flag = False) -> Work:
    """C[m,n] = A[m,m] B[m,n] (+ beta C), A symmetric, one triangle stored. 2m^2 n flops."""
    out = result(dtype).name
    return work(
        matrix={"multiply-add": (2 * m * m * n, "2 m^2 n")},
        read={
            "A": (_triangle(m), dtype, "m (m+1) / 2"),
            "B": (m * n, dtype, "m n"),
            "C": (only_if(beta, m * n), out, "m n"),
        },
        write={"C": (m * n, out, "m n")},
        dtype=dtype,
        kernels=product_kernel(None, m, n, m, dtype, dtype, out),
    )


@op("gemm", "blas3")
def syrk(n: Size, k: Size, dtype: Format = "bf16", beta: Flag = False) -> Work:
    """C[n,n] = A[n,k] A^T (+ beta C), one triangle of C computed and stored: n(n+1)k flops."""
    half, out = _triangle(n), result(dtype).name
    return work(
        matrix={"multiply-add": (2 * half * k, "n (n+1) k")},
        read={"A": (n * k, dtype, "n k"), "C": (only_if(beta, half), out, "n (n+1) / 2")},
        write={"C": (half, out, "n (n+1) / 2")},
        dtype=dtype,
    )


@op("gemm", "blas3")
def trmm(m: Size, n: Size, dtype: Format = "bf16") -> Work:
    """B[m,n] = A[m,m] B, A triangular. m^2 n flops (row i takes i multiplications, i - 1 additions); B read and written."""
    b = {"B": (m * n, dtype, "m n")}
    reads = {"A": (_triangle(m), dtype, "m (m+1) / 2"), **b}
    return work(matrix={"multiply-add": (m * m * n, "m^2 n")}, read=reads, write=b, dtype=dtype)
