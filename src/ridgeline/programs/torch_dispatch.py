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
    try:
        import torch
        from torch.utils._python_dispatch import TorchDispatchMode
    except ImportError:
        raise InputError("recording the operators of a function needs PyTorch, which is not installed") from None
    calls: list[Call] = []
    devices: set[str] = set()

    class Recorder(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            given = _placed(torch, func, args, kwargs or {}, devices)  # before an operator in place changes them
            result = func(*args, **(kwargs or {}))
            if len(calls) >= MAX_CALLS:
                raise InputError(f"the function makes more than {MAX_CALLS} operator calls; give a smaller part of it")
            outputs = result if isinstance(result, tuple | list) else (result,)
            tensors = tuple(_tensor(item) for item in _flat(outputs) if isinstance(item, torch.Tensor))
            calls.append(Call(str(func._schema.name), given, tensors))
            return result

    with Recorder():
        result = function(*args, **(kwargs or {}))
    device = "cuda" if "cuda" in devices else "cpu"
    tf32 = torch.get_float32_matmul_precision() != "highest" or torch.backends.cuda.matmul.allow_tf32
    return Recorded(tuple(calls), result, device, bool(tf32), bool(torch.backends.cudnn.allow_tf32))


def holds_torch(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a function is a module of torch or has one of its tensors among its arguments, without loading torch."""
    if "torch" not in sys.modules:
        return False
    import torch

    kinds = (torch.Tensor, torch.nn.Module)
    return isinstance(function, kinds) or any(isinstance(item, kinds) for item in _flat((args, tuple(kwargs.values()))))


def _placed(torch: Any, func: Any, args: Any, kwargs: Mapping[str, Any], devices: set[str]) -> tuple[Any, ...]:
    """The arguments at the places of the operator's schema, defaults included."""
    placed = []
    for place, argument in enumerate(func._schema.arguments):
        if place < len(args):
            value = args[place]
        elif argument.name in kwargs:
            value = kwargs[argument.name]
        else:
            value = argument.default_value if argument.has_default_value() else None
        placed.append(_plain(torch, value, devices))
    return tuple(placed)


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
    """Shape, format and strides; a sparse or nested tensor has no strides."""
    try:
        strides = tuple(int(step) for step in value.stride())
    except (RuntimeError, NotImplementedError):
        strides = ()
    return Tensor(tuple(int(size) for size in value.shape), str(value.dtype).removeprefix("torch."), strides)


def _flat(values: Any) -> list[Any]:
    return [item for value in values for item in (_flat(value) if isinstance(value, tuple | list) else [value])]
