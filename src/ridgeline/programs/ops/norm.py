"""Ops over rows and columns: softmax, norms, row sums, transpose, cross entropy.

A row that fits on chip is read once and written once (`passes` = 1). A kernel that cannot keep its row reads
it again: two passes for norms and an online softmax, three for a textbook softmax.
"""

from __future__ import annotations

from typing import Literal

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.work import Kernel, Work, work
from .elementwise import PROFILE, flops_per_element
from .kernels import column_kernel, row_kernel
from .registry import Format, Op, Size, op


def _rowwise(name: str, doc: str, affine: tuple[str, ...] = (), special_per_row: float = 0.0) -> Op:
    """The op of a row of the profile; `affine` are per-column vectors, the special functions per row a root or a reciprocal."""

    def make(
        rows: Size,
        cols: Size,
        dtype: Format = "bf16",
        out_dtype: Format | None = None,
        passes: Size = 1,
        profile: Literal["nominal", "counted"] = "nominal",
    ) -> Work:
        n, each, out = rows * cols, flops_per_element(name, profile), out_dtype or dtype
        return work(
            vector={name: (each * n, f"{each:g} rows cols")},
            special=PROFILE[name].special * n + special_per_row * rows,
            read={"x": (n * passes, dtype, "passes rows cols"), **dict.fromkeys(affine, (cols, dtype, "cols"))},
            write={"y": (n, out, "rows cols")},
            sizes={"x": (n, dtype)},
            dtype=dtype,
            notes=(
                f"{profile} profile: {each:g} flop per element",
                "a row that fits on chip is read once (passes = 1)",
            ),
            kernels=row_kernel(name, rows, cols, dtype, out),
        )

    make.__name__, make.__doc__ = name, doc
    return op("rows", "norm")(make)


softmax = _rowwise(
    "softmax",
    """y = exp(x - max x) / sum over each row. 5 flops per element: max, subtract, exp, add, divide.

    The divisor is one per row, so kernels multiply by its reciprocal: one special function per element and one per row.
    """,
    special_per_row=1.0,
)
layernorm = _rowwise(
    "layernorm",
    "y = (x - mean) / sqrt(var + eps) gamma + beta. 8 flops per element: mean 1, variance 3, normalise 2, affine 2.",
    affine=("gamma", "beta"),
    special_per_row=1.0,
)
rmsnorm = _rowwise(
    "rmsnorm",
    "y = x / sqrt(mean x^2 + eps) gamma. 5 flops per element nominally, 4 by count (square, add, scale, gamma).",
    affine=("gamma",),
    special_per_row=1.0,
)
batchnorm = _rowwise(
    "batchnorm",
    "Inference: y = (x - mean) / sqrt(var + eps) gamma + beta with stored statistics per column. 8 flops nominally, 4 by count.",
    affine=("mean", "var", "gamma", "beta"),
)


@op("rows", "reduction")
def sum_rows(rows: Size, cols: Size, dtype: Format = "bf16", out_dtype: Format | None = None) -> Work:
    """s_i = sum over row i. rows (cols - 1) additions; all read, one value per row written."""
    return work(
        vector={"add": (rows * (cols - 1), "rows (cols - 1)")},
        read={"x": (rows * cols, dtype, "rows cols")},
        write={"s": (rows, out_dtype or dtype, "rows")},
        dtype=dtype,
        kernels=row_kernel("sum_rows", rows, cols, dtype, out_dtype or dtype, per_row=1.0),
    )


@op("rows", "reduction")
def sum_columns(rows: Size, cols: Size, dtype: Format = "bf16", out_dtype: Format | None = None) -> Work:
    """s_j = sum over column j, as the gradient of a bias is. (rows - 1) cols additions; all read, one value per column written.

    The kernel reduces `cols` results of `rows` elements each, which lie a row apart.
    """
    return work(
        vector={"add": ((rows - 1) * cols, "(rows - 1) cols")},
        read={"x": (rows * cols, dtype, "rows cols")},
        write={"s": (cols, out_dtype or dtype, "cols")},
        dtype=dtype,
        kernels=column_kernel(cols, rows, dtype, out_dtype or dtype),
    )


@op("transpose", "elementwise")
def transpose(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """y = x^T. No flops; every element read once and written once."""
    return work(
        read={"x": (rows * cols, dtype, "rows cols")},
        write={"y": (rows * cols, dtype, "rows cols")},
        dtype=dtype,
        kernels=(Kernel("transpose", {"rows": rows, "cols": cols, "x": dtype_row(dtype).bytes}, dtype=label(dtype)),),
    )


@op("rows", "norm")
def cross_entropy(rows: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """loss_i = log(sum_j exp(x_ij - max)) + max - x_i,target. 4 flops per element (max, subtract, exp, add), 3 per row.

    Logits read once, one 64-bit target per row read, one fp32 loss per row written.
    """
    n = rows * cols
    return work(
        vector={"log-sum-exp": (4 * n, "4 rows cols"), "loss": (3 * rows, "3 rows")},
        special=n + rows,
        read={"x": (n, dtype, "rows cols"), "target": (rows, "fp64", "rows")},
        write={"loss": (rows, "fp32", "rows")},
        dtype=dtype,
        kernels=row_kernel("cross_entropy", rows, cols, dtype, "fp32", per_row=1.0),
    )
