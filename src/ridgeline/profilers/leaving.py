"""How a program that `script.py` runs ends: with its exit code, and without freeing what the profiler left.

The standard library only, as `script.py`, which loads it from its folder.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
import threading
import traceback
from contextlib import suppress


def exit_code(end: BaseException, runner: str) -> int:
    """The exit code that Python gives for what ended a program; an error is printed as Python prints it, without `runner`."""
    if isinstance(end, SystemExit):
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    if isinstance(end, KeyboardInterrupt):
        return 130
    frames = end.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (runner, runpy.__file__, "<frozen runpy>"):
        frames = frames.tb_next
    traceback.print_exception(type(end), end, frames)
    return 1


def leave(code: int) -> None:
    """End the process as Python does, without freeing its memory.

    PyTorch's profiler, begun anew after a recording with stacks, leaves memory that fails to be freed: the process would
    end with a segmentation fault after the program is done.
    """
    threading._shutdown()  # type: ignore[attr-defined]  # ends the pools of concurrent.futures and waits for threads
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, OSError, ValueError):
            stream.flush()
    os._exit(code)
