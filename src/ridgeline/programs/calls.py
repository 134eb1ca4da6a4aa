"""Calls of library functions as Work, from the name of the function and the shapes and formats of its tensors.

Where shapes do not decide the work there is none, rather than a guess.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError
from ..core.work import Work
from . import ops

Shape = Sequence[int]
Rule = Callable[[list[Shape], str], Work | None]


def work_of(name: str, shapes: Sequence[Shape], dtypes: Sequence[str]) -> Work | None:
    """The Work of `aten::mm`, `matmul`, `softmax` ... on tensors of these shapes; None where they do not decide it."""
    rule = RULES.get(_base_name(name))
    given: list[Shape] = [tuple(shape) for shape in shapes if shape]  # scalars come without a shape
    if rule is None or not given or not dtypes or any(size < 1 for shape in given for size in shape):
        return None
    try:
        return rule(given, dtype_row(dtypes[0]).name)
    except InputError:  # a format we have no row for, or sizes that do not fit: not a call we know
        return None


def has_rule(name: str) -> bool:
    """Whether the shapes of its tensors can decide the work of a function of this name."""
    return _base_name(name) in RULES


def work_of_call(function: Callable[..., Any], args: Sequence[Any]) -> Work | None:
    """The Work of calling a library's function, or a layer with a weight, on arrays or tensors."""
    tensors = [arg for arg in args if hasattr(arg, "shape") and hasattr(arg, "dtype")]
    name = getattr(function, "__name__", "") or type(function).__name__
    if not hasattr(function, "__name__") and hasattr(getattr(function, "weight", None), "shape"):
        tensors.append(function.weight)  # type: ignore[attr-defined]
    return work_of(name, [tuple(item.shape) for item in tensors], [str(item.dtype) for item in tensors])


def _base_name(name: str) -> str:
    """`aten::_softmax`, `native_layer_norm` and `Linear` as `softmax`, `layer_norm` and `linear`."""
    return name.rpartition("::")[2].rpartition(".")[2].strip("_").removeprefix("native_").lower()


def _product(shapes: list[Shape], dtype: str) -> Work | None:
    if len(shapes) != 2:
        return None
    a, b = shapes
    if len(a) == 2 and len(b) == 1 and a[1] == b[0]:
        return ops.gemv(m=a[0], n=a[1], dtype=dtype)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        return None
    if len(b) == 2:
        return ops.gemm(m=math.prod(a[:-1]), n=b[1], k=b[0], dtype=dtype)
    if a[:-2] != b[:-2]:
        return None
    return ops.bmm(batch=math.prod(a[:-2]), m=a[-2], n=b[-1], k=a[-1], dtype=dtype)


def _added_product(shapes: list[Shape], dtype: str) -> Work | None:
    """The addend comes first; as a vector it costs next to nothing."""
    return _product(shapes[1:], dtype) if len(shapes) == 3 and len(shapes[0]) == 1 else None


def _linear(shapes: list[Shape], dtype: str) -> Work | None:
    x, w = shapes[0], shapes[1] if len(shapes) > 1 else ()
    if len(w) != 2 or x[-1] != w[1]:
        return None
    bias = len(shapes) > 2
    return ops.linear(batch=math.prod(x[:-1]), in_features=w[1], out_features=w[0], dtype=dtype, bias=bias)


def _elementwise(op: ops.Op, inputs: int) -> Rule:
    def rule(shapes: list[Shape], dtype: str) -> Work | None:
        if len(shapes) < inputs or any(shape != shapes[0] for shape in shapes[:inputs]):
            return None
        return op(n=math.prod(shapes[0]), dtype=dtype)

    return rule


def _rows(op: ops.Op) -> Rule:
    def rule(shapes: list[Shape], dtype: str) -> Work | None:
        return op(rows=math.prod(shapes[0][:-1]), cols=shapes[0][-1], dtype=dtype)

    return rule


RULES: dict[str, Rule] = {
    **dict.fromkeys(("mm", "matmul", "bmm", "mv", "dot"), _product),
    "addmm": _added_product,
    "linear": _linear,
    **{name: _elementwise(ops.find(name), 1) for name in ("relu", "gelu", "silu", "tanh", "exp", "sigmoid")},
    **dict.fromkeys(("add", "sub", "subtract"), _elementwise(ops.add, 2)),
    **dict.fromkeys(("mul", "multiply"), _elementwise(ops.mul, 2)),
    **dict.fromkeys(("copy", "clone", "copyto"), _elementwise(ops.copy, 1)),
    "sum": _elementwise(ops.sum, 1),
    "softmax": _rows(ops.softmax),
    "layer_norm": _rows(ops.layernorm),
    "rms_norm": _rows(ops.rmsnorm),
}
