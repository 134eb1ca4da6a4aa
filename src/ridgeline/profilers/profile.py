"""Run a program under a profiler; where counters are not permitted, fall back by named steps.

counters        Nsight Compute with hardware counters
timing only     torch.profiler: times of kernels, no counts
analytic only   nothing ran: the definition's own counts
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ..core.errors import InputError
from ..core.observation import Observation
from . import load as observe
from .commands import Command, ncu
from .ncu import program as ncu_program

REFUSED = "ERR_NVGPUCTRPERM"
DEFAULT_USE = "diagnosis"  # of the counters
Tell = Callable[[str], None]  # receives the command before it runs


@dataclass(frozen=True)
class Profile:
    tool: str
    step: str  # counters, timing only
    command: tuple[str, ...]
    out: Path
    observations: tuple[Observation, ...]
    notes: tuple[str, ...] = ()


def find_ncu() -> str:
    """The path of Nsight Compute, or an error with the remedy."""
    if path := ncu_program():
        return path
    raise InputError(
        "ncu (Nsight Compute) is not on the PATH; install it, or profile with --with torch, which times kernels without counters"
    )


def profile(
    program: Sequence[str],
    tool: str = "ncu",
    out: Path | None = None,
    use: str = DEFAULT_USE,
    kernel: str = "",
    launches: int = 0,
    tell: Tell = lambda text: None,
) -> Profile:
    """Run a program under a profiler; `tell` receives the command before it runs."""
    if not program:
        raise InputError("no program: ridgeline profile --with ncu -- python script.py")
    if launches < 0:
        raise InputError(f"--launches is the number of kernels to profile, 0 for all; got {launches}")
    try:
        re.compile(kernel)
    except re.error as error:
        raise InputError(f"--kernel takes a regular expression; '{kernel}' is not one: {error}") from None
    options = {"--use": use != DEFAULT_USE, "--kernel": kernel, "--launches": launches}
    chosen = [name for name, is_given in options.items() if is_given]
    if tool == "torch":
        if chosen:
            message = f"--with torch times every kernel and counts nothing; {chosen[0]} goes with --with ncu only"
            raise InputError(message)
        return _torch(program, out or Path("trace.json.gz"), tell)
    where = out or Path("kernels.csv")
    [command] = ncu(list(program), out=str(where), use=use, kernel=kernel, launches=launches, tool=find_ncu())
    errors = _run(command, tell)
    report = where.read_text(encoding="utf-8", errors="replace") if where.is_file() else ""
    if REFUSED in report or REFUSED in errors:
        return _timing_only(program, where.with_suffix(".trace.json.gz"), chosen, tell)
    return Profile("ncu", "counters", tuple(command.words), where, tuple(observe.load(where, "ncu")), (command.why,))


def _timing_only(program: Sequence[str], out: Path, chosen: Sequence[str], tell: Tell) -> Profile:
    why = (
        "hardware counters are not permitted for this user (ERR_NVGPUCTRPERM): run as root, or ask an administrator to set "
        "NVreg_RestrictProfilingToAdminUsers=0; using torch.profiler, which times kernels without counters"
    )
    if chosen:
        why += f" and ignores {', '.join(chosen)}"
    tell(why)
    return replace(_torch(program, out, tell), notes=(why,))


def _torch(program: Sequence[str], out: Path, tell: Tell) -> Profile:
    script = program[1] if len(program) > 1 else ""
    module = script == "-m" and len(program) > 2
    if not Path(program[0]).name.startswith("python") or not script or (script.startswith("-") and not module):
        raise InputError(
            "--with torch runs a Python script or module: ridgeline profile --with torch -- python script.py ... "
            f"(or python -m module ...); got '{' '.join(program)}'; put code and options of python into a script"
        )
    if not module and not Path(script).exists():
        raise InputError(f"there is no script '{script}' to run; got '{' '.join(program)}'")
    words = [program[0], "-P", "-m", "ridgeline.profilers.live", str(out), *program[1:]]  # -P: nothing of this folder
    command = Command(words, str(out), "the script runs inside torch.profiler; times of kernels, no counters")
    _run(command, tell)
    if not out.is_file():
        raise InputError(f"{' '.join(program)} ended before a trace was written to {out}")
    return Profile("torch", "timing only", tuple(words), out, tuple(observe.load(out)), (command.why,))


def _run(command: Command, tell: Tell) -> str:
    tell("running: " + " ".join(command.words))
    try:
        out = sys.stderr.fileno()
        ended = subprocess.run(command.words, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise InputError(f"cannot run {command.words[0]}: {error.strerror}") from error
    except KeyboardInterrupt:
        raise InputError(f"stopped; what was written so far is in {command.out}") from None
    if ended.returncode and REFUSED not in ended.stderr:
        last = "; ".join(ended.stderr.strip().splitlines()[-3:])
        raise InputError(f"'{' '.join(command.words[:3])} ...' ended with code {ended.returncode}: {last}")
    return ended.stderr
