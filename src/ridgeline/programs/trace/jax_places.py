"""Where a step of a JAX program is: its stack of names, and the user's line that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

PACKAGE = str(Path(__file__).parents[2])
SHOWN_PARTS = 2  # of a path: the file and its folder


ATTENTION = "dot_product_attention"


def joined_scope(*scopes: str) -> str:
    return "/".join(scope for scope in scopes if scope)


def library_scope(traceback: Any) -> str:
    """The function of jax.nn that made a step, where it is one to see as a unit: JAX gives attention no scope of its own."""
    made = traceback is not None and any(frame.function_name == ATTENTION for frame in traceback.frames)
    return ATTENTION if made else ""


def frame_line(traceback: Any) -> str:
    """`train.py:14 (step)`: the innermost frame outside of JAX and ridgeline; empty where there is none."""
    if traceback is None:
        return ""
    from jax._src import source_info_util

    frame = source_info_util.user_frame(traceback)
    if frame is None or frame.file_name.startswith(PACKAGE):
        return ""
    return line_text(frame.file_name, frame.start_line, frame.function_name)


def line_text(file: str, line: int, function: str) -> str:
    short = "/".join(Path(file).parts[-SHOWN_PARTS:])
    return f"{short}:{line} ({function})" if function else f"{short}:{line}"
