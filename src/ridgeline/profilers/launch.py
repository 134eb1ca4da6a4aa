"""Starts a Python program under `script.py` and says what came of it: its trace, its exit code, how it was recorded."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InputError
from ..core.intake import Door, clean
from ..core.tabular import json_document, whole_text
from . import script, watcher
from .torchrun import EXECUTABLE, is_torchrun, rank_interpreter

RUNNER = Path(script.__file__)
MAX_STEPS = 10_000
MAX_SECONDS = 3600.0
EXAMPLE = "ridgeline run -- python train.py"
# The profiler's own remarks are not the program's.
QUIET = {"KINETO_LOG_LEVEL": "99", "KINETO_USE_DAEMON": "0"}


NUMBERS = (
    "step_seconds",
    "launch_seconds",
    "unprofiled_steps",
    "steps",
    "recorded_seconds",
    "waited_seconds",
)  # among the facts


class NothingRecorded(InputError):
    """A program that ran and left nothing to report; `exit_code` is its own."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True)
class Recorded:
    """A program that ran: where its trace is, and how it ended."""

    command: tuple[str, ...]
    trace: Path
    exit_code: int
    library: str  # torch or jax
    recorded: str  # `5 optimizer steps`
    step_time: float | None = None  # seconds, of steps without the profiler
    unprofiled_steps: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)

    DOCUMENT: ClassVar = (
        "command", "exit_code", "library", "recorded", "unprofiled_step_us=step_time", "unprofiled_steps", "waited_share",
    )  # fmt: skip

    @property
    def waited_share(self) -> float | None:
        """Of the recorded time, in which the main thread had no core; None where that was not counted."""
        total, waited = self.facts.get("recorded_seconds"), self.facts.get("waited_seconds")
        return None if not total or waited is None else max(waited, 0.0) / total


def run_program(words: Sequence[str], folder: Path, steps: int, seconds: float, stdout: int | None = None) -> Recorded:
    """Run `python ...` and record it into a folder; `stdout` is where the program's own output goes, if not where ours does."""
    if not 1 <= steps <= MAX_STEPS:
        raise InputError(f"the steps to record are a number from 1 to {MAX_STEPS}; got {steps}")
    if not 0 < seconds <= MAX_SECONDS:
        raise InputError(f"the time to record is a number of seconds up to {MAX_SECONDS:g}; got {seconds:g}")
    safe_path = "PYTHONSAFEPATH" not in os.environ
    settings = json.dumps({"steps": steps, "seconds": seconds, "safe_path": safe_path})
    if is_torchrun(words):
        ranks = rank_interpreter(words, RUNNER, folder, json.dumps({"steps": steps, "seconds": seconds}))
        code = _wait(words, {**QUIET, **os.environ, EXECUTABLE: str(ranks)}, stdout)
    else:
        options, program = split(words)
        command = [words[0], *options, str(RUNNER), str(folder), settings, *program]
        code = _wait(command, {"PYTHONSAFEPATH": "1", **QUIET, **os.environ}, stdout)
    facts, trace, asked = _facts(folder / watcher.FACTS), _trace(folder), f"'{' '.join(words)}'"
    ended = f"; it ended with exit code {code}" if code else ""
    if facts is None:
        raise NothingRecorded(f"{asked} was ended before its profile was written; nothing to report{ended}", code)
    if not facts["library"]:
        raise NothingRecorded(
            f"{asked} imported neither torch nor jax, so there is nothing to profile; {TOOK}{ended}", code
        )
    if trace is None:
        raise NothingRecorded(f"{asked} left no trace; recorded: {facts['recorded']}{ended}", code)
    known = facts.get("step_seconds"), int(facts.get("unprofiled_steps") or 0)
    return Recorded(tuple(words), trace, code, facts["library"], facts["recorded"], *known, facts)


TOOK = "of other kernels give the time that you measured: `ridgeline predict OP ... --took TIME`"


def split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of python, and the script or `-m module` with its arguments; refuses what is no Python program."""
    asked = " ".join(words)
    if not words:
        raise InputError(f"no program: {EXAMPLE}")
    if not Path(words[0]).name.lower().startswith(("python", "pypy")):
        hint = f"python {asked}" if words[0].endswith(".py") else "python script.py"
        raise InputError(
            f"'{asked}' is run neither by Python nor by torchrun: a program is profiled in its interpreter, as in -- {hint}; "
            f"{TOOK}"
        )
    if shutil.which(words[0]) is None:
        raise InputError(f"there is no '{words[0]}' to run '{asked}'")
    place = 1
    while place < len(words) and words[place].startswith("-") and words[place] not in ("-m", "-c", "-"):
        place += 2 if words[place] in ("-W", "-X") else 1
    options, program = list(words[1:place]), list(words[place:])
    if not program or program[0] in ("-c", "-") or program == ["-m"]:
        raise InputError(f"'{asked}' names no script; put the code into a file: {EXAMPLE}")
    if program[0] != "-m" and not Path(program[0]).is_file():
        raise InputError(f"there is no script '{program[0]}' to run; got '{asked}'")
    return options, program


def _wait(command: Sequence[str], environment: Mapping[str, str], stdout: int | None) -> int:
    """Run to the end. Ctrl-C reaches the program too, which ends and writes what was recorded."""
    sys.stdout.flush()
    try:
        process = subprocess.Popen(command, env=dict(environment), stdout=stdout)
    except OSError as error:
        raise InputError(f"cannot run {command[0]}: {error.strerror}") from error
    while True:
        try:
            code = process.wait()
            break
        except KeyboardInterrupt:
            continue
    return 128 - code if code < 0 else code


def _facts(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    door = Door(f"'{path}'")
    with suppress(ValueError, RecursionError):
        table = door.table(json_document(whole_text(path)), "the facts")
        texts = {key: clean(str(table.get(key) or "")) for key in ("library", "recorded", "kind")}
        numbers = {key: table[key] for key in NUMBERS if isinstance(table.get(key), int | float)}
        return {**numbers, **texts}
    return None


def _trace(folder: Path) -> Path | None:
    """The trace of torch, or the newest that JAX wrote below the folder."""
    if (folder / watcher.TRACE).is_file():
        return folder / watcher.TRACE
    written = sorted(folder.glob("plugins/profile/*/*.trace.json.gz"), key=lambda path: path.stat().st_mtime)
    return written[-1] if written else None
