"""Lines of the user's program in the Python stack: the innermost one that is no library's."""

from __future__ import annotations

import sys
import sysconfig
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType, FrameType, TracebackType

OURS = str(Path(__file__).parents[2])  # the package folder of ridgeline
SHOWN_PARTS = 2  # of a path outside the folders that Python searches: the file and its folder
USER, LIBRARY, HIDDEN = range(3)
_FRAMEWORKS = ("torch", "torch_xla", "functorch", "jax", "jaxlib")  # whose own lines say nothing


@cache
def _installed() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    return tuple(str(Path(paths[name]).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


@lru_cache(maxsize=65536)
def rank(file: str) -> int:
    """Whether a file is the user's, an installed library's, or hidden: of Python, of the framework, of ridgeline."""
    if file.startswith("<") and not file.startswith("<ipython"):
        return HIDDEN
    if file.startswith(OURS):
        return HIDDEN
    parts = Path(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts:
            package = parts[parts.index(folder) + 1]
            return HIDDEN if package in _FRAMEWORKS else LIBRARY
    return HIDDEN if file.startswith(_installed()) else USER


@lru_cache(maxsize=65536)
def short(file: str) -> str:
    """A path from the folder that Python finds it in, else its last parts."""
    path = Path(file)
    if not path.is_absolute():
        return file
    for folder in (str(Path.cwd()), *(entry for entry in sys.path if entry)):
        if rank(file) == USER and path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return "/".join(path.parts[-SHOWN_PARTS:])


def source_of(frame: FrameType | None) -> str:
    """`train.py:31` for the innermost line of the user's program above a frame; of a library where there is none."""
    library = ""
    while frame is not None:
        kind = _rank_of(frame.f_code)
        if kind == USER:
            return f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"
        if kind == LIBRARY and not library:
            library = f"{short(frame.f_code.co_filename)}:{frame.f_lineno}"
        frame = frame.f_back
    return library


def _rank_of(code: CodeType) -> int:
    return rank(code.co_filename)


def raised_at(traceback: TracebackType | None) -> str:
    """The line of the user's program that led to an error: the innermost one in its traceback."""
    line = library = ""
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        place = f"{short(file)}:{traceback.tb_lineno}"
        kind = rank(file)
        line, library = (place, library) if kind == USER else (line, place) if kind == LIBRARY else (line, library)
        traceback = traceback.tb_next
    return line or library
