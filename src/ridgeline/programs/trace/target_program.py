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

from ...core.trace import Trace
from .program import trace
from .target import Target, maker, returned
from .torch_cast import cast

_IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|transformers)\b", re.M)


def trace_target(
    text: str, values: Mapping[str, Any] | None = None, *, backward: bool = False, dtype: str = ""
) -> Trace:
    """The trace of `file.py:name`, called with `values`; `dtype` casts the module and its inputs first."""

    def build() -> Target:
        target = returned(maker(text, values), text)
        return cast(target, dtype, text) if dtype else target

    if _of_torch(text):
        return _built(build, backward, _name(text))
    target = build()
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
