"""Operations of `transformers` in eager mode (5.17), where serving engines have one kernel: RMS norms, rotary embedding, masks
of windows, grouped products of experts.

Checked against the trace of its modules (`tests/programs/test_model_traces.py`). Left out: the positions, cosines and sines that a
step computes once, indices and counts of routed tokens, and the passes that mask tokens of other devices' experts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.work import Array, Work, work
from .. import ops
from ..ops.kernels import product_kernel
from .passes import built, streamed

WIDE = "fp32"  # RMS norms compute in it


def rms_norm(rows: Array, cols: Array, dtype: str) -> Work:
    """Eight kernels: cast, square, mean, epsilon, reciprocal root, product, cast back, product with the weights."""
    n, wide = rows * cols, WIDE
    every, per_row = {"x": (n, wide, "rows cols")}, {"s": (rows, wide, "rows")}
    kernels = [
        streamed("square", "mul", every, {"y": (n, wide, "rows cols")}, wide, (n, "rows cols")),
        built(ops.sum_rows, rows=rows, cols=cols, dtype=wide),
        streamed("epsilon", "add", per_row, per_row, wide, (rows, "rows")),
        streamed("rsqrt", "exp", per_row, per_row, wide, (rows, "rows"), rows),
        streamed("normalise", "mul", every | per_row, {"y": (n, wide, "rows cols")}, wide, (n, "rows cols")),
        streamed(
            "weigh", "mul", {"x": (n, dtype, "rows cols"), "gamma": (cols, dtype, "cols")},
            {"y": (n, dtype, "rows cols")}, dtype, (n, "rows cols"),
        ),
    ]  # fmt: skip
    if dtype_row(dtype).name != wide:
        kernels.insert(0, built(ops.cast, n=n, dtype=dtype, out_dtype=wide))
        kernels.insert(-1, built(ops.cast, n=n, dtype=wide, out_dtype=dtype))
    return replace(
        reduce(add, kernels), name="rmsnorm_eager", family="rows", dtype=dtype, shape={"rows": rows, "cols": cols}
    )


def rotation(name: str, n: Array, positions: Array, head_dim: Array, dtype: str) -> Iterator[tuple[str, Work, float]]:
    """x cos + (-x2, x1) sin over n elements: two products with a row per position, a negation, a join, a sum."""
    x, y = {"x": (n, dtype, "n")}, {"y": (n, dtype, "n")}
    angles = {"cos_sin": (positions * head_dim, dtype, "positions head_dim")}
    half = (n / 2, dtype, "n / 2")
    yield f"rotary {name} mul", streamed("rotary", "mul", x | angles, y, dtype, (n, "n")), 2.0
    yield f"rotary {name} neg", streamed("rotary", "relu", {"x": half}, {"y": half}, dtype, (n / 2, "n / 2")), 1.0
    yield f"rotary {name} cat", streamed("rotary", "stream_copy", x, y, dtype), 1.0
    yield f"rotary {name} add", streamed("rotary", "add", {"a": x["x"], "b": x["x"]}, y, dtype, (n, "n")), 1.0


def grouped_product(rows: Array, groups: Array, inputs: Array, outputs: Array, dtype: str, weights: str, out: str) -> Work:  # fmt: skip
    """Rows shared out to `groups` matrices of inputs x outputs: 2 rows inputs outputs flops, every matrix read."""
    made = work(
        matrix={"multiply-add": (2 * rows * inputs * outputs, "2 rows in out")},
        read={"x": (rows * inputs, dtype, "rows in"), "W": (groups * inputs * outputs, weights, "groups in out")},
        write={"y": (rows * outputs, out, "rows out")},
        dtype=dtype,
        # priced as a batch of products with the mean number of rows
        kernels=product_kernel(groups, np.maximum(rows / groups, 1.0), outputs, inputs, dtype, weights, out),
    )
    shape = {"rows": rows, "groups": groups, "in_features": inputs, "out_features": outputs}
    return replace(made, name="grouped_product", family="gemm", shape=shape)
