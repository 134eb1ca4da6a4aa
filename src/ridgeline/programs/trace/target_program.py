"""trace_target: the program of `file.py:name` as a Trace, built and run on tensors without data.

A file of PyTorch is run, and its function called, under the modes of the trace: modules that it builds have shapes and no
memory. A file of JAX makes small arrays or shapes, and its function is traced by JAX itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...core.trace import Trace
from .program import trace
from .target import TORCH, Target, maker, returned
from .torch_cast import cast

_IMPORTS_TORCH = re.compile(r"^\s*(?:import|from)\s+(?:torch|transformers)\b", re.M)


def trace_target(
    text: str,
    values: Mapping[str, Any] | None = None,
    *,
    backward: bool = False,
    optimizer: Any = None,
    compiled: bool = False,
    dtype: str = "",
    framework: str = "",
) -> Trace:
    """The trace of `file.py:name`, called with `values`; `dtype` casts the module and its inputs first."""

    def build() -> Target:
        target = returned(maker(text, values), text)
        return cast(target, dtype, text) if dtype else target

    if framework == TORCH or (not framework and _of_torch(text)):
        from .torch_program import trace_built

        return trace_built(build, backward=backward, optimizer=optimizer, compiled=compiled)
    target = build()
    return trace(
        target.callable,
        *target.args,
        kwargs=target.kwargs,
        backward=backward,
        optimizer=optimizer,
        compiled=compiled,
        framework=framework,
        name=target.name,
    )


def _of_torch(text: str) -> bool:
    """Whether the file itself imports PyTorch, or a library of its models."""
    path = Path(text.rpartition(":")[0])
    try:
        return bool(_IMPORTS_TORCH.search(path.read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False  # said by who runs the file
