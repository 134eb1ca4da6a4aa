"""Calls of Python functions as Work: of PyTorch by recording their operators, of arrays by the function's name and shapes.

Where that does not decide the work there is none, rather than a guess.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...core.timeline import Call, Tensor
from ...core.work import Work
from ..torch_dispatch import holds_torch, record
from .arguments import Settings, base_name
from .counted import HOST, UNKNOWN, WORK
from .kinds import is_free, is_host
from .table import count, rule_of

# Functions of array libraries by the operators they are, where the names differ.
OPERATORS = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg", "absolute": "abs",
    "power": "pow", "concatenate": "cat", "copyto": "copy_", "copy": "clone", "array": "clone", "less": "lt",
    "greater": "gt", "less_equal": "le", "greater_equal": "ge", "not_equal": "ne",
}  # fmt: skip
LEAF = Settings(leaf=True, device="cpu")


def work_of_call(
    function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Work | None:
    """The Work of calling a function on arrays or tensors; one of PyTorch is run once to record its operators."""
    if holds_torch(function, args, kwargs or {}):
        return _recorded(function, args, kwargs or {})
    tensors = [_tensor(arg) for arg in args if hasattr(arg, "shape") and hasattr(arg, "dtype")]
    name = getattr(function, "__name__", "") or type(function).__name__
    weight = getattr(function, "weight", None)
    if not hasattr(function, "__name__") and hasattr(weight, "shape"):
        tensors, name = [*tensors, _tensor(weight)], "linear"
    if len(tensors) != len(args) + (name == "linear" and not hasattr(function, "__name__")):
        return None  # an axis or another argument changes what the function does
    return work_of(name, tensors)


def work_of(name: str, tensors: Sequence[Tensor]) -> Work | None:
    """The Work of an operator on these tensors, without any further argument; None where they do not decide it."""
    base = base_name(name).lower()
    base = OPERATORS.get(base, base)
    if base == "dot" and any(len(tensor.shape) > 1 for tensor in tensors):
        base = "matmul"
    dtype = next((tensor.dtype for tensor in tensors), "")
    further: tuple[Any, ...] = ()
    if base in ("softmax", "_softmax"):  # along the rows, as profiles without arguments leave open
        base, further = "_softmax", (-1, False)
    if base in ("layer_norm", "native_layer_norm") and tensors:
        rest = tuple(tensors[1:])
        args: tuple[Any, ...] = (tensors[0], rest[0].shape if rest else tensors[0].shape[-1:], *rest)
        return count(Call("aten::native_layer_norm", args), LEAF).work
    if base == "copy_" and len(tensors) == 1:
        base = "clone"
    return count(Call(f"aten::{base}", (*tensors, *further)), replace(LEAF, dtype=dtype)).work


def has_work(name: str) -> bool:
    """Whether an operator of this name does work of its own."""
    base = base_name(name)
    return rule_of(name) is not None and not is_free(base) and not is_host(base)


def _recorded(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Work | None:
    recorded = record(function, args, kwargs)
    settings = Settings(recorded.tf32, recorded.conv_tf32, recorded.device, leaf=True)
    counts = [count(call, settings) for call in recorded.calls]
    if any(counted.kind in (UNKNOWN, HOST) for counted in counts):
        return None
    works = [counted.work for counted in counts if counted.kind == WORK and counted.work is not None]
    if not works:
        return None
    total = works[0]
    for work in works[1:]:
        total = total + work
    return total


def _tensor(array: Any) -> Tensor:
    return Tensor(tuple(int(size) for size in array.shape), str(array.dtype))
