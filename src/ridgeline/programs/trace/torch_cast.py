"""A program of PyTorch in another number format: its module and its floating-point inputs, cast before the trace."""

from __future__ import annotations

from typing import Any

from ...core.dtypes import dtype as find_dtype
from ...core.errors import InputError, quoted
from ..torch_dispatch import require_torch
from .target import Target

TORCH_DTYPES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def cast(target: Target, dtype: str, text: str) -> Target:
    """The target `text` with its module in another format; a function holds what nobody but itself can cast."""
    name = find_dtype(dtype).name
    if name not in TORCH_DTYPES:
        known = ", ".join(TORCH_DTYPES)
        raise InputError(f"a module can be cast to {known}; {name} needs other kernels than a cast gives")
    torch = require_torch("casting a program to another format")
    if not isinstance(target.callable, torch.nn.Module):
        raise InputError(
            f"{quoted(text)} returns a function, and only a module can be cast to {name}; return the module, or cast it there"
        )
    from torch.utils._pytree import tree_map

    chosen = getattr(torch, TORCH_DTYPES[name])

    def converted(value: Any) -> Any:
        return value.to(chosen) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    args, kwargs = tree_map(converted, (target.args, dict(target.kwargs)))
    return Target(target.callable.to(chosen), args, kwargs, target.name)
