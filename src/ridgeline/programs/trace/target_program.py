"""trace_target: the program of `file.py:name` as a Trace, built and run on tensors without data.

A file of PyTorch is run, and its function called, under the modes of the trace: modules that it builds have shapes and no
memory. A file of JAX makes small arrays or shapes, and its function is traced by JAX itself.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...core.dtypes import dtype as find_dtype
from ...core.errors import InputError, quoted
from ...core.trace import Trace
from .program import trace
from .target import Target, maker, returned

_IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|transformers)\b", re.M)
TORCH_DTYPES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def trace_target(
    text: str, values: Mapping[str, Any] | None = None, *, backward: bool = False, dtype: str = ""
) -> Trace:
    """The trace of `file.py:name`, called with `values`; `dtype` casts the module and its inputs first."""
    wanted = _wanted(dtype)
    if _of_torch(text):
        return _built(lambda: _cast(returned(maker(text, values), text), wanted, text), backward, _name(text))
    target = _cast(returned(maker(text, values), text), wanted, text)
    return trace(target.callable, *target.args, kwargs=target.kwargs, backward=backward, name=_name(text))


def _built(build: Callable[[], Target], backward: bool, name: str) -> Trace:
    """One run of a program of PyTorch that is built without memory too."""
    from .torch_program import Session, traced
    from .torch_twins import Substituted

    session = Session()
    with session.active(), _unlogged("torch._subclasses.fake_tensor"):
        target = build()
        substituted = Substituted(session.torch, session.twins)
        for item in (target.callable, target.args, dict(target.kwargs)):
            substituted.visit(item)
        return traced(session, target.callable, target.args, target.kwargs, backward, None, name)


@contextmanager
def _unlogged(name: str) -> Iterator[None]:
    """Without the log of a module that writes down errors which are reported anyway."""
    logger = logging.getLogger(name)
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _name(text: str) -> str:
    return text.rpartition(":")[2]


def _of_torch(text: str) -> bool:
    """Whether the file itself imports PyTorch, or a library of its models."""
    path = Path(text.rpartition(":")[0])
    try:
        return bool(_IMPORTS_TORCH.search(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False  # said by who runs the file


def _wanted(dtype: str) -> str:
    if not dtype:
        return ""
    name = find_dtype(dtype).name
    if name not in TORCH_DTYPES:
        known = ", ".join(TORCH_DTYPES)
        raise InputError(f"a module can be cast to {known}; {name} needs other kernels than a cast gives")
    return TORCH_DTYPES[name]


def _cast(target: Target, wanted: str, text: str) -> Target:
    """The target with its module and its floating-point inputs in another format."""
    if not wanted:
        return target
    from ..torch_dispatch import require_torch

    torch = require_torch("casting a program to another format")
    if not isinstance(target.callable, torch.nn.Module):
        raise InputError(
            f"{quoted(text)} returns a function, and only a module can be cast to {wanted}; return the module, or cast it there"
        )
    from torch.utils._pytree import tree_map

    format_ = getattr(torch, wanted)

    def cast(value: Any) -> Any:
        return value.to(format_) if isinstance(value, torch.Tensor) and value.is_floating_point() else value

    return Target(
        target.callable.to(format_),
        tree_map(cast, target.args),
        tree_map(cast, dict(target.kwargs)),
        target.name,
    )
