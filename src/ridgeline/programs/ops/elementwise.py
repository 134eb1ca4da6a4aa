"""Elementwise ops over n elements and full reductions.

Flops per element come from a named profile. `nominal` is what roofline texts use (gelu 12, silu 4); `counted`
is a plain count with every transcendental as one (gelu by tanh 9, silu 5). The verdict never depends on it: all
of them sit far left of the ridge. `special` is the share of them that runs on the special-function unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...core.work import Work, work
from .registry import Format, Op, Size, op


@dataclass(frozen=True)
class PerElement:
    nominal: float
    counted: float
    special: float = 0.0


# flops per element: softmax = max, subtract, exp, add, divide; layernorm = mean 1, variance 3, normalise 2, affine 2;
# gelu (tanh form) counted = cube 2, scale 1, add 1, scale 1, tanh 1, add 1, halve 1, multiply 1.
PROFILE = {
    "relu": PerElement(1, 1),
    "gelu": PerElement(12, 9, 1),
    "gelu_erf": PerElement(12, 5, 1),
    "silu": PerElement(4, 5, 2),
    "tanh": PerElement(1, 1, 1),
    "exp": PerElement(1, 1, 1),
    "sigmoid": PerElement(3, 4, 2),
    "dropout": PerElement(2, 2),
    "add": PerElement(1, 1),
    "mul": PerElement(1, 1),
    "residual": PerElement(1, 1),
    "softmax": PerElement(5, 5, 1),
    "layernorm": PerElement(8, 8),
    "rmsnorm": PerElement(5, 4),
    "batchnorm": PerElement(8, 4),
}


def flops_per_element(name: str, profile: str) -> float:
    return float(getattr(PROFILE[name], profile))


def _elementwise(name: str, doc: str, *inputs: str) -> Op:
    """The op of a row of the profile: every input read once, y written once."""

    def make(
        n: Size,
        dtype: Format = "bf16",
        out_dtype: Format | None = None,
        profile: Literal["nominal", "counted"] = "nominal",
    ) -> Work:
        each = flops_per_element(name, profile)
        return work(
            vector={name: (each * n, f"{each:g} n")},
            special=PROFILE[name].special * n,
            read=dict.fromkeys(inputs or ("x",), (n, dtype, "n")),
            write={"y": (n, out_dtype or dtype, "n")},
            dtype=dtype,
            notes=(f"{profile} profile: {each:g} flop per element",),
        )

    make.__name__, make.__doc__ = name, doc
    return op("stream", "elementwise")(make)


add = _elementwise("add", "y = a + b. n flops; a and b read, y written: intensity 1/(3d) for d bytes per element.", "a", "b")  # fmt: skip
mul = _elementwise("mul", "y = a b, element by element. n flops; a and b read, y written.", "a", "b")
residual = _elementwise("residual", "y = x + f(x): the addition that closes a residual branch. n flops; both branches read, y written.", "x", "branch")  # fmt: skip
relu = _elementwise("relu", "y = max(x, 0). 1 flop per element; x read, y written: intensity 1/(2d).")
gelu = _elementwise("gelu", "y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). 12 flops per element nominally, 9 by count; x read, y written.")  # fmt: skip
gelu_erf = _elementwise("gelu_erf", "y = x/2 (1 + erf(x/sqrt 2)). 12 flops per element nominally, 5 by count (scale, erf, add, halve, multiply); x read, y written.")  # fmt: skip
silu = _elementwise("silu", "y = x sigmoid(x). 4 flops per element nominally, 5 by count (negate, exp, add, divide, multiply); x read, y written.")  # fmt: skip
sigmoid = _elementwise("sigmoid", "y = 1 / (1 + exp(-x)). 3 flops per element nominally, 4 by count (negate, exp, add, divide); x read, y written.")  # fmt: skip
tanh = _elementwise("tanh", "y = tanh(x), counted as one flop; x read, y written.")
exp = _elementwise("exp", "y = exp(x), counted as one flop; x read, y written.")
dropout = _elementwise("dropout", "y = x mask / (1 - p). 2 flops per element (compare, scale); x read, y written, the mask made on the fly.")  # fmt: skip


@op("stream", "elementwise")
def cast(n: Size, dtype: Format = "fp32", out_dtype: Format = "bf16") -> Work:
    """y = x in another format. No flops; n read as `dtype`, n written as `out_dtype`."""
    return work(read={"x": (n, dtype, "n")}, write={"y": (n, out_dtype, "n")}, dtype=dtype)


@op("reduce", "reduction")
def sum(n: Size, dtype: Format = "bf16") -> Work:
    """s = sum x_i. n - 1 additions; n read, one value written."""
    reads, writes = {"x": (n, dtype, "n")}, {"s": (1.0, dtype, "1")}
    return work(vector={"add": (n - 1, "n - 1")}, read=reads, write=writes, dtype=dtype)
