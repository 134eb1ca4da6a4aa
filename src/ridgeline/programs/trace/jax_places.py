"""Where a step of a JAX program is: its stack of names, and the user's line that made it."""

from __future__ import annotations

from typing import Any

from .frames import LIBRARY, USER, rank, short

ATTENTION = "dot_product_attention"  # a function of jax.nn to see as a unit: JAX gives it no scope of its own


def joined_scope(*scopes: str) -> str:
    return "/".join(scope for scope in scopes if scope)


def located(traceback: Any) -> tuple[str, str]:
    """`train.py:14`, the innermost line of the user's program, else of a library; and the function of jax.nn around it."""
    line = library = scope = ""
    for frame in traceback.frames if traceback is not None else ():  # innermost first
        if frame.function_name == ATTENTION:
            scope = ATTENTION
        kind = rank(frame.file_name)
        if kind == USER:
            line = f"{short(frame.file_name)}:{frame.line_num}"
            break
        if kind == LIBRARY and not library:
            library = f"{short(frame.file_name)}:{frame.line_num}"
    return line or library, scope
