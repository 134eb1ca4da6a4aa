"""A program run under a profiler, and what it saw; where counters are refused, the next best thing, by name.

counters        Nsight Compute with hardware counters
timing only     torch.profiler: times of kernels, no counts
analytic only   nothing ran: the definition's own counts
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.files import folder, write_text
from ..core.observation import Observation
from . import load as observe
from .check_kernels import EXPECTED
from .commands import Command, ncu
from .ncu import program as ncu_program

TOOLS = ("ncu", "torch")
REFUSED = "ERR_NVGPUCTRPERM"
DEFAULT = "diagnosis"  # which counters, where nobody says


@dataclass(frozen=True)
class Profile:
    tool: str
    step: str  # counters, timing only
    command: tuple[str, ...]
    out: Path
    observations: tuple[Observation, ...]
    notes: tuple[str, ...] = ()


def find_ncu() -> str:
    """The path of Nsight Compute, or one message that says how to come by it."""
    found = ncu_program()
    if found is None:
        raise InputError(
            "ncu (Nsight Compute) is not on the PATH; install it, or profile with --with torch, which times kernels without counters"
        )
    return found


def profile(
    program: Sequence[str],
    tool: str = "ncu",
    out: Path | None = None,
    use: str = DEFAULT,
    kernel: str = "",
    launches: int = 0,
    tell: Callable[[str], None] = lambda text: None,
) -> Profile:
    """Run a program under a profiler; `tell` hears the command before it runs."""
    if not program:
        raise InputError("no program: ridgeline profile --with ncu -- python script.py")
    if launches < 0:
        raise InputError(f"--launches stops after so many kernels, 0 for all of them; got {launches}")
    try:
        re.compile(kernel)
    except re.error as error:
        raise InputError(f"--kernel takes a regular expression; '{kernel}' is none: {error}") from None
    chosen = [name for name, given in _choices(use, kernel, launches).items() if given]
    if tool == "torch":
        if chosen:
            raise InputError(
                f"--with torch times every kernel and counts nothing; {chosen[0]} goes with --with ncu only"
            )
        return _torch(program, out or Path("trace.json.gz"), tell)
    where = out or Path("kernels.csv")
    [command] = ncu(list(program), out=str(where), use=use, kernel=kernel, launches=launches, tool=find_ncu())
    ended = _run(command, tell)
    said = where.read_text(encoding="utf-8", errors="replace") if where.is_file() else ""
    if REFUSED in said or REFUSED in ended:
        step = (
            "counters are refused to this user (ERR_NVGPUCTRPERM): ask an administrator to set "
            "NVreg_RestrictProfilingToAdminUsers=0 or run as root; next best is timing only (torch.profiler)"
        )
        if chosen:
            step += f"; it times every kernel and knows no {', '.join(chosen)}"
        tell(step)
        found = _torch(program, where.with_suffix(".trace.json.gz"), tell)
        return Profile(found.tool, "timing only", found.command, found.out, found.observations, (step,))
    return Profile("ncu", "counters", tuple(command.words), where, tuple(observe.load(where, "ncu")), (command.why,))


def _choices(use: str, kernel: str, launches: int) -> dict[str, bool]:
    """Options that choose kernels or counters, and whether they do."""
    return {"--use": use != DEFAULT, "--kernel": bool(kernel), "--launches": bool(launches)}


@dataclass(frozen=True)
class Checked:
    """One kernel of the self-check: what it must count, what was counted."""

    name: str
    what: str
    expected: float
    counted: float | None
    allowed: tuple[float, float]

    @property
    def holds(self) -> bool:
        return self.counted is not None and self.allowed[0] <= self.counted / self.expected <= self.allowed[1]

    def document(self) -> dict[str, Any]:
        ratio = None if self.counted is None else self.counted / self.expected
        return {"name": self.name, "what": self.what, "expected": self.expected, "counted": self.counted, "ratio": ratio, "holds": self.holds}  # fmt: skip


# Tiles pad a product; a cache may keep a little of a copy; a chain has nothing that could differ.
ALLOWED = {"product": (1.0, 1.05), "copy": (0.97, 1.03), "chain": (1.0, 1.0001)}


def checked(observations: Sequence[Observation]) -> list[Checked]:
    """The self-check of a machine's counters: three kernels against the counts that follow from their definition."""
    seen = {item.name: item for item in observations}
    found = []
    for name, (side, key, expected) in EXPECTED.items():
        counted = getattr(seen[name], side).get(key) if name in seen else None
        found.append(Checked(name, f"{side} {key}", expected, counted, ALLOWED[name]))
    return found


def self_check(out: Path, tell: Callable[[str], None] = lambda text: None) -> list[Checked]:
    """Count the three kernels with Nsight Compute; without this a machine's hierarchical verdicts are not to be trusted."""
    program = [sys.executable, "-m", "ridgeline.profilers.check_kernels"]
    found = profile(program, "ncu", out, "roofline", tell=tell)
    if found.step != "counters":
        raise InputError(f"the counters cannot be checked: {found.notes[0]}")
    result = checked(found.observations)
    gpu = str(found.observations[0].conditions.get("gpu", ""))
    if gpu and all(one.holds for one in result):
        known = {**passed(), gpu: datetime.now(UTC).isoformat(timespec="seconds")}
        _stamps().parent.mkdir(parents=True, exist_ok=True)
        write_text(_stamps(), json.dumps(known, indent=1) + "\n")
    return result


def _stamps() -> Path:
    return folder("data") / "self-checks.json"


def passed() -> dict[str, str]:
    """GPUs whose counters passed the self-check here, and when."""
    try:
        found = json.loads(_stamps().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(key): str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def unchecked(observations: Sequence[Observation]) -> list[str]:
    """GPUs whose counters speak here without having been checked."""
    known = passed()
    seen = {str(item.conditions.get("gpu", "")) for item in observations if item.tool == "ncu" and item.bytes}
    return sorted(gpu for gpu in seen if gpu and gpu not in known)


def _torch(program: Sequence[str], out: Path, tell: Callable[[str], None]) -> Profile:
    script = program[1] if len(program) > 1 else ""
    module = script == "-m" and len(program) > 2
    if not Path(program[0]).name.startswith("python") or not script or (script.startswith("-") and not module):
        raise InputError(
            "--with torch runs a Python script or module: ridgeline profile --with torch -- python script.py ... "
            f"(or python -m module ...); got '{' '.join(program)}'; put code and options of python into a script"
        )
    if not module and not Path(script).exists():
        raise InputError(f"there is no script '{script}' to run; got '{' '.join(program)}'")
    words = [program[0], "-m", "ridgeline.profilers.run_torch", str(out), *program[1:]]
    command = Command(words, str(out), "the script runs inside torch.profiler; times of kernels, no counters")
    _run(command, tell)
    if not out.is_file():
        raise InputError(f"{' '.join(program)} ended before a trace was written to {out}")
    return Profile("torch", "timing only", tuple(words), out, tuple(observe.load(out)), (command.why,))


def _run(command: Command, tell: Callable[[str], None]) -> str:
    tell("running: " + " ".join(command.words))
    try:
        ended = subprocess.run(
            command.words, stdout=sys.stderr.fileno(), stderr=subprocess.PIPE, text=True, check=False
        )
    except OSError as error:
        raise InputError(f"cannot run {command.words[0]}: {error.strerror}") from error
    except KeyboardInterrupt:
        raise InputError(f"stopped; what was written so far is in {command.out}") from None
    if ended.returncode and REFUSED not in ended.stderr:
        last = "; ".join(ended.stderr.strip().splitlines()[-3:])
        raise InputError(f"'{' '.join(command.words[:3])} ...' ended with code {ended.returncode}: {last}")
    return ended.stderr
