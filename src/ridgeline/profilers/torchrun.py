"""Programs of several ranks that `torchrun` starts: rank 0 is recorded, the others run as they are.

torchrun starts the processes of the ranks with the interpreter that PYTHON_EXEC names. That is a file of ours: it runs the
program of rank 0 under `script.py`, and that of every other rank in the interpreter itself, so that no two write one trace.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..core.errors import InputError

EXECUTABLE = "PYTHON_EXEC"  # the variable with the interpreter of the ranks
NAMES = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
MODULE = "python -m torch.distributed.run"
RANKS = """#!/bin/sh
# torchrun calls it as `python -u [-m] program arguments`
if [ "${{RANK:-0}}" != 0 ]; then exec {python} "$@"; fi
if [ "$1" = -u ]; then shift; fi
exec {python} -u {runner} {folder} {settings} "$@"
"""


def is_torchrun(words: Sequence[str]) -> bool:
    """Whether a command starts ranks: `torchrun ...` or `python -m torch.distributed.run ...`."""
    if not words:
        return False
    return Path(words[0]).name in NAMES or (
        _is_python(words[0]) and words[1:2] == ["-m"] and words[2:3] != [] and words[2] in NAMES
    )


def _is_python(word: str) -> bool:
    return Path(word).name.lower().startswith(("python", "pypy"))


def interpreter(words: Sequence[str]) -> str:
    """The interpreter that torchrun itself runs in, by its first line; its ranks run in the same one."""
    place = shutil.which(words[0])
    if place is None:
        raise InputError(f"there is no '{words[0]}' to run '{' '.join(words)}'")
    if _is_python(words[0]):
        return place
    with open(place, "rb") as file:
        first = file.readline(4096).decode("utf-8", "replace")
    python = first.removeprefix("#!").strip()
    if not first.startswith("#!") or not _is_python(python.split(" ")[0]):
        raise InputError(f"'{place}' does not say which Python runs it; use {MODULE} in place of {words[0]}")
    return python


def rank_interpreter(words: Sequence[str], runner: Path, folder: Path, settings: str) -> Path:
    """Write the file that stands for the interpreter of the ranks; the trace of rank 0 is written into the folder."""
    python = interpreter(words)
    quoted = {"runner": str(runner), "folder": str(folder), "settings": settings}
    path = folder / "python-of-ranks"
    text = RANKS.format(python=shlex.quote(python), **{name: shlex.quote(value) for name, value in quoted.items()})
    path.write_text(text, encoding="utf-8")
    path.chmod(0o700)
    return path
