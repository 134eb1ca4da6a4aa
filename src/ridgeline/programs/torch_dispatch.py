"""Calls of a PyTorch function as they reach the dispatcher: run once, every operator recorded with its arguments.

What the dispatcher sees are leaves: operators made of other operators are taken apart before, those of the backward pass and
of optimizers included.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.errors import InputError
from ..core.timeline import Call, Tensor
from .aten.formats import format_of

MAX_CALLS = 1_000_000  # a function of more calls is a program, and is profiled instead


@dataclass(frozen=True)
class Recorded:
    """The calls of one run in order, what the function returned, and the device of its tensors."""

    calls: tuple[Call, ...]
    result: Any
    device: str  # "cuda" or "cpu"
    tf32: bool = False  # whether products of fp32 matrices may run on the tensor cores
    conv_tf32: bool = True  # and convolutions


def record(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Recorded:
    """Run a function once and record its operators; needs torch."""
    torch = require_torch("recording the operators of a function")
    calls: list[Call] = []
    devices: set[str] = set()

    def handle(func: Any, args: Any, kwargs: Mapping[str, Any]) -> Any:
        given = placed(torch, func, args, kwargs, devices)  # before an operator in place changes them
        result = func(*args, **kwargs)
        if len(calls) >= MAX_CALLS:
            raise InputError(f"the function makes more than {MAX_CALLS} operator calls; give a smaller part of it")
        calls.append(Call(str(func._schema.name), given, results(torch, result)))
        return result

    with dispatch_mode(handle):
        result = function(*args, **(kwargs or {}))
    tf32, conv_tf32 = tf32_flags(torch)
    return Recorded(tuple(calls), result, "cuda" if "cuda" in devices else "cpu", tf32, conv_tf32)


def require_torch(purpose: str) -> Any:
    """The torch package, or one message where it is missing."""
    try:
        import torch
    except ImportError:
        raise InputError(f"{purpose} needs PyTorch, which is not installed") from None
    return torch


def dispatch_mode(handle: Callable[[Any, Any, Mapping[str, Any]], Any]) -> Any:
    """A mode of the dispatcher that hands every operator call to `handle(func, args, kwargs)`, which runs it."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Handed(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if any(hasattr(kind, "__tensor_flatten__") for kind in types):
                return NotImplemented  # a tensor made of others, as a distributed one, calls the operators on its parts
            return handle(func, args, kwargs or {})

    return Handed()


def tf32_flags(torch: Any) -> tuple[bool, bool]:
    """Whether products and convolutions of fp32 tensors may run on the tensor cores, as the program has set it."""
    products = torch.get_float32_matmul_precision() != "highest" or torch.backends.cuda.matmul.allow_tf32
    return bool(products), bool(torch.backends.cudnn.allow_tf32)


def holds_torch(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function is a module of torch or has one of its tensors among its arguments, without loading torch."""
    if "torch" not in sys.modules:
        return False
    import torch

    kinds = (torch.Tensor, torch.nn.Module)
    return isinstance(function, kinds) or any(isinstance(item, kinds) for item in flat((args, tuple(kwargs.values()))))


def placed(torch: Any, func: Any, args: Any, kwargs: Mapping[str, Any], devices: set[str]) -> tuple[Any, ...]:
    """The arguments at the places of the operator's schema, defaults included."""
    values = []
    for place, argument in enumerate(func._schema.arguments):
        if place < len(args):
            value = args[place]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            value = argument.default_value if argument.has_default_value() else None
        values.append(_plain(torch, value, devices))
    return tuple(values)


def results(torch: Any, result: Any) -> tuple[Tensor, ...]:
    """The tensors that a call returned."""
    outputs = result if isinstance(result, tuple | list) else (result,)
    return tuple(_tensor(item) for item in flat(outputs) if isinstance(item, torch.Tensor))


def _plain(torch: Any, value: Any, devices: set[str]) -> Any:
    """A value without anything of torch: tensors as shapes, formats and devices as texts."""
    if isinstance(value, torch.Tensor):
        devices.add(value.device.type)
        return _tensor(value)
    if isinstance(value, tuple | list):
        return tuple(_plain(torch, item, devices) for item in value)
    if value is None or isinstance(value, bool | int | float | complex | str):
        return value
    return str(value)


def _tensor(value: Any) -> Tensor:
    """Shape, format in ridgeline's name (torch's where it has none) and strides; a sparse or nested tensor has no strides."""
    try:
        strides = tuple(int(step) for step in value.stride())
    except (RuntimeError, NotImplementedError):
        strides = ()
    row = format_of(str(value.dtype))
    dtype = row.name if row is not None else str(value.dtype).removeprefix("torch.")
    return Tensor(tuple(int(size) for size in value.shape), dtype, strides)


def flat(values: Any) -> list[Any]:
    return [item for value in values for item in (flat(value) if isinstance(value, tuple | list) else [value])]
