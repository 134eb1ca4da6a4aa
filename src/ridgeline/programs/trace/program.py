"""`trace`: any program of PyTorch or JAX with example inputs as a Trace, read without running it on a device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...core.errors import InputError, quoted
from ...core.trace import Trace
from .target import FRAMEWORKS, JAX, Target, framework_of


def trace(
    target: Any,
    *example_inputs: Any,
    kwargs: Mapping[str, Any] | None = None,
    backward: bool = False,
    optimizer: Any = None,
    compiled: bool = False,
    framework: str = "",
    name: str = "",
) -> Trace:
    """What one run of a program does, op by op.

    `target` is a module, a function, an exported program, or `file.py:name` (a function without arguments that returns the
    callable and its arguments). `backward` differentiates the sum of its output, `optimizer` makes a step after it.
    `compiled` answers programs of PyTorch that ask whether they are being compiled: some then do other things. The
    program's Python runs; its tensors have no data, and no GPU is used.
    """
    if framework and framework not in FRAMEWORKS:
        raise InputError(f"framework is {' or '.join(FRAMEWORKS)}; {quoted(framework)} is neither")
    if isinstance(target, str):
        from .target_program import trace_target

        return trace_target(target, backward=backward, optimizer=optimizer, compiled=compiled, framework=framework)
    single = len(example_inputs) == 1 and type(example_inputs[0]) in (tuple, list)
    args = tuple(example_inputs[0]) if single else example_inputs
    chosen = framework or framework_of(target, args, dict(kwargs or {}))
    if chosen == JAX:
        return _of_jax(Target(target, args, dict(kwargs or {}), name), backward, optimizer)
    from .torch_program import trace_torch

    traced = trace_torch(target, args, kwargs, backward=backward, optimizer=optimizer, compiled=compiled, name=name)
    if not chosen and not len(traced.op):
        raise InputError(
            "the program ran no operator of PyTorch or JAX, so there is nothing to trace; give its inputs as tensors of one of "
            "them: arrays of NumPy are not traced"
        )
    return traced


def _of_jax(target: Target, backward: bool, optimizer: Any) -> Trace:
    if optimizer is not None:
        raise InputError("a step of an optimizer is part of a JAX function; trace the function that makes it")
    from .jax_trace import trace_jax

    return trace_jax(target.callable, target.args, target.kwargs, backward=backward, name=target.name)
