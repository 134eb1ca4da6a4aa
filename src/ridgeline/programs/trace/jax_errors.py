"""Errors of a JAX program while it is traced, as one message that names the user's line."""

from __future__ import annotations

from typing import Any

from ...core.errors import InputError, first_line, quoted
from .frames import raised_at

VALUES = (
    "Tracing has shapes and formats, no values: use jax.lax.cond, jax.lax.while_loop or jnp.where, or bind the argument "
    "with functools.partial"
)


def failure(error: Exception, name: str) -> InputError:
    """The message for a program that failed: the line, the cause, and what to do about it."""
    line = raised_at(error.__traceback__) or name
    kinds = {kind.__name__ for kind in type(error).__mro__}
    if kinds & {"ConcretizationTypeError", "TracerArrayConversionError", "TracerIntegerConversionError"}:
        return InputError(f"{line}: the program asks for the values of an array. {VALUES}. JAX: {first_line(error)}")
    if isinstance(error, TypeError) and "required positional argument" in str(error):
        return InputError(f"{line}: {first_line(error)}. Give example arguments, as arrays or jax.ShapeDtypeStructs")
    return InputError(f"{line}: the program failed while it was traced, {type(error).__name__}: {first_line(error)}")


def refused(path: str, value: Any) -> InputError:
    """The message for an argument that is no array."""
    return InputError(
        f"argument {path.strip('[]') if path.count('[') == 1 else path} is {quoted(value)} of type {type(value).__name__}; JAX traces arrays, numbers and containers "
        "of these. Bind other values with functools.partial"
    )
