"""Works that models run between their products: norms with the residual added, rotary embedding with the cache written,
gated activations, quantization of activations; and ops called with sizes that need not be whole numbers.

A device may have a part of an expert's tokens on average, or a mean context of 1000.5: counts stay exact with fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.machine import MAIN
from ...core.work import READ, WRITE, Array, Kernel, Work, total, work
from ..ops.elementwise import PROFILE
from ..ops.registry import Op, find

ROTATION = 3.0  # flops per element: two products and a sum
QUANTIZATION = 3.0  # flops per element: absolute value, largest of the row, scale
SQUARED = "relu2"

Tensors = Mapping[str, tuple[Array, str, str]]  # by name: elements, format, formula


def built(op: Op, **values: Any) -> Work:
    """The work of an op from values that were checked before; sizes may be fractions."""
    made = op.make(**values)
    dtype = values.pop("dtype", op.params["dtype"].default if "dtype" in op.params else "")
    shape = {name: value for name, value in values.items() if value is not None and op._shows(name, value)}
    return replace(made, name=op.name, family=op.family, dtype=dtype, shape=shape)


def one_pass(made: Work, name: str, like: str, elements: Array) -> Work:
    """The work as one kernel that is priced as the timed op `like`: an elementwise kernel that moves as much.

    Kernels of engines and compilers run at the rate of their bytes, as those do; the timed norms are PyTorch's, which give
    every row to one block and leave a GPU idle where rows are few.
    """
    sizes = {
        "read": made.bytes_at(MAIN, READ), "written": made.bytes_at(MAIN, WRITE), "flops": made.flops,
        "special": made.special, "elements": elements, "launches": 1.0,
    }  # fmt: skip
    return replace(made, kernels=(Kernel("stream", sizes, name, label(made.dtype), like),))


def streamed(
    name: str, like: str, read: Tensors, write: Tensors, dtype: str, flops: tuple[Array, str] = (0.0, ""), special: Array = 0.0
) -> Work:  # fmt: skip
    """One pass over tensors, priced as the timed op `like`, which is built alike."""
    made = work({}, {name: flops}, read, write, special=special, dtype=dtype)
    elements = total(size for size, *_ in write.values())
    return replace(one_pass(made, name, like, elements), name=name, family="stream", shape={"n": elements})


def norm(kind: str, rows: Array, cols: Array, dtype: str) -> Work:
    """The norm op, priced as a kernel of an engine."""
    op = find(kind)
    return one_pass(built(op, rows=rows, cols=cols, dtype=dtype), f"fused_{kind}", "add", rows * cols)


def add_norm(kind: str, rows: Array, cols: Array, dtype: str, branches: int = 1) -> Work:
    """r = x + the results of the branches before, y = norm(r): branches + 1 tensors read, r and y written.

    The flops of the norm per element, and one addition per branch.
    """
    n, each = rows * cols, PROFILE[kind].nominal
    affine = ("gamma", "beta") if kind == "layernorm" else ("gamma",)
    read = {f"x{place}": (n, dtype, "rows cols") for place in range(branches + 1)}
    made = work(
        vector={kind: (each * n, f"{each:g} rows cols"), "residual": (branches * n, f"{branches} rows cols")},
        special=rows,
        read={**read, **dict.fromkeys(affine, (cols, dtype, "cols"))},
        write={"residual": (n, dtype, "rows cols"), "y": (n, dtype, "rows cols")},
        dtype=dtype,
    )
    shape = {"rows": rows, "cols": cols, "branches": float(branches)}
    return replace(one_pass(made, f"add_{kind}", "add", n), name=f"add_{kind}", family="rows", shape=shape)


def rotary(rows: Array, q: Array, k: Array, head_dim: Array, dtype: str, kv: str, *, rotates: bool, caches: bool) -> Work:  # fmt: skip
    """Queries and keys rotated by their position, keys and values written to the cache: one kernel, as engines run it.

    3 flops per element of queries and keys (x cos + x' sin), a row of cosines and sines read per token. Without a rotation
    keys and values are copied to the cache; without a cache queries and keys are rotated in place.
    """
    read: dict[str, tuple[Array, str, str]] = {"k": (rows * k, dtype, "rows k")}
    write: dict[str, tuple[Array, str, str]] = {}
    if rotates:
        read |= {"q": (rows * q, dtype, "rows q"), "cos_sin": (rows * head_dim, dtype, "rows head_dim")}
        write["q"] = (rows * q, dtype, "rows q")
    if caches:
        read["v"] = (rows * k, dtype, "rows k")
        write["cache"] = (2 * rows * k, kv, "2 rows k")
    else:
        write["k"] = (rows * k, dtype, "rows k")
    flops = (ROTATION * rows * (q + k), "3 rows (q + k)") if rotates else (0.0, "")
    return streamed("rotary", "add" if rotates else "stream_copy", read, write, dtype, flops)


def activation_profile(activation: str) -> str:
    """The elementwise op that an activation function is counted as."""
    for known in ("silu", "gelu", "relu", "tanh", "sigmoid"):
        if known in activation.lower():
            return known
    return "silu" if "swi" in activation.lower() else "gelu"


def activated(rows: Array, inter: Array, activation: str, dtype: str, gated: bool) -> Work:
    """f(gate) up, both read from one tensor and the product written; without a gate f(x)."""
    name, n = activation_profile(activation), rows * inter
    each = PROFILE[name].nominal + (SQUARED in activation.lower()) + gated
    read = {"x": ((1 + gated) * n, dtype, "2 rows inter" if gated else "rows inter")}
    called = f"{name}_and_mul" if gated else name
    made = streamed(
        called, "exp" if PROFILE[name].special else "relu", read, {"y": (n, dtype, "rows inter")}, dtype,
        (each * n, f"{each:g} rows inter"), PROFILE[name].special * n,
    )  # fmt: skip
    return replace(made, shape={"n": n, "gated": float(gated)})


def quantized(rows: Array, cols: Array, dtype: str, to: str) -> Work:
    """Rows in a narrower format, each with a scale: the largest absolute value of a row, then a division of its elements.

    3 flops per element; x read once, the quantized row and an fp32 scale per row written (formats with block scales bring
    theirs instead).
    """
    n, row = rows * cols, dtype_row(to)
    scales = {} if row.scale_bits else {"scale": (rows, "fp32", "rows")}
    made = work(
        vector={"quantize": (QUANTIZATION * n, "3 rows cols")},
        special=rows,
        read={"x": (n, dtype, "rows cols")},
        write={"y": (n, to, "rows cols"), **scales},
        dtype=dtype,
    )
    return replace(
        one_pass(made, "quantize", "relu", n), name="quantize", family="rows", shape={"rows": rows, "cols": cols}
    )


def chosen(rows: Array, experts: Array, topk: Array, dtype: str) -> Work:
    """Softmax of the router's logits and its largest values in one kernel: 5 flops per logit, fp32 weights and int32 places written."""
    n, kept = rows * experts, rows * topk
    write = {"weights": (kept, "fp32", "rows topk"), "places": (kept, "int32", "rows topk")}
    made = streamed(
        "softmax_topk", "exp", {"x": (n, dtype, "rows experts")}, write, dtype, (5 * n, "5 rows experts"), n
    )
    return replace(made, shape={"rows": rows, "cols": experts})
