"""Why a program of PyTorch cannot be traced: one message with the user's line, the cause and what to do."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ...core.errors import InputError, first_line
from .frames import raised_at
from .target import failure
from .torch_values import DataDependent


def check_inputs(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """That the example inputs fit the signature of what is called."""
    called = getattr(target, "forward", target)
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = getattr(target, "__name__", "") or type(target).__name__
        raise InputError(
            f"the example inputs do not fit {name}{signature}: {first_line(error)}; "
            "give the arguments that the program is called with"
        ) from None


def explained(error: Exception) -> InputError:
    """The error of a program as a message."""
    from torch._subclasses import fake_tensor

    place = raised_at(error.__traceback__)
    where = f"{place}: " if place else ""
    if isinstance(error, fake_tensor.DynamicOutputShapeException):
        return InputError(
            f"{where}the shape of the result of {_operator(error)} depends on the data, which a trace does not have; "
            "trace the program with that part replaced by one of a fixed shape"
        )
    if isinstance(error, fake_tensor.DataDependentOutputException | DataDependent):
        return InputError(
            f"{where}the program decides on a value that it reads from a tensor, and tensors have no data in a trace; "
            "make the decision outside of the traced function, or trace each branch"
        )
    if ".numpy()" in str(error):
        return InputError(
            f"{where}the program turns a tensor into an array of NumPy, and tensors have no data in a trace; "
            "trace the part before it"
        )
    if isinstance(error, fake_tensor.UnsupportedOperatorException | NotImplementedError):
        return InputError(
            f"{where}{_operator(error)} has no kernel for fake tensors, so its results are not known; "
            "give it one with torch.library.register_fake, or trace the program without it"
        )
    return InputError(f"the program cannot be traced: {failure(error)}")


def _operator(error: Exception) -> str:
    func = getattr(error, "func", None)
    named = re.search(r"HigherOrderOperator (\w+)", str(error))
    return str(func) if func is not None else named[1] if named else first_line(error)
