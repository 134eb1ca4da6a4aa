"""What detection asks of the outside, and what every device found has: its figures, its catalog machine, our tables."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from ...core.errors import RidgelineError
from ...core.figure import Figure, Level
from ...core.machine import Machine

FOLDER = Path(__file__).parent
NAME = "here"


class System:
    """Everything detection asks of the outside, so that tests can answer from a recording. No method raises."""

    def __init__(self) -> None:
        self.platform = sys.platform

    def read(self, path: str) -> bytes | None:
        """A whole file, or None. Plain descriptors, because a large server has thousands of these little files."""
        try:
            file = os.open(path, os.O_RDONLY)
        except (OSError, ValueError):
            return None
        try:
            parts = []
            while part := os.read(file, 1 << 16):
                parts.append(part)
            return b"".join(parts)
        except OSError:
            return None
        finally:
            os.close(file)

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (OSError, ValueError):
            return []

    def run(self, *command: str) -> str:
        """What a command prints, whatever its exit code: sysctl fails for one unknown key and still prints the rest."""
        import subprocess

        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=5,
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return ""
        return done.stdout.decode("utf-8", "replace")

    def library(self, *names: str) -> Any:
        """The first of these shared libraries that loads, or None."""
        loader = getattr(ctypes, "WinDLL", ctypes.CDLL)
        for name in names:
            try:
                return loader(name)
            except OSError:
                continue
        return None

    def affinity(self) -> set[int] | None:
        """The CPUs this process may run on, where the system says."""
        ask = getattr(os, "sched_getaffinity", None)
        try:
            return set(ask(0)) if ask else None
        except OSError:
            return None

    def count(self) -> int | None:
        return os.cpu_count()

    def memory(self) -> int | None:
        """Bytes of memory where no file says."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            return None

    def architecture(self) -> str:
        import platform

        return platform.machine()

    def processor(self) -> str:
        """The processor as Python's `platform` has it; on Linux and macOS that starts a process and tells little."""
        import platform

        return platform.processor()


@dataclass(frozen=True)
class Cores:
    """Cores of one kind at one clock; `key` is what cores.toml matches (`arm:0x41:0xd0c`, `GenuineIntel:6:143`)."""

    key: str
    count: int
    clock: float | None = None
    clock_from: str = ""


@dataclass(frozen=True)
class Found(ABC):
    """One device of this machine, as detected; `machine()` is what may be claimed of it."""

    kind: str
    selector: str
    name: str
    vendor: str = ""
    units: Mapping[str, int] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    simd_bits: int | None = None
    clocks: Mapping[str, Figure] = field(default_factory=dict)
    limits: Mapping[str, Figure] = field(default_factory=dict)
    cores: tuple[Cores, ...] = ()
    flags: frozenset[str] = frozenset()
    quota: float | None = None
    capability: str = ""
    named: bool = True  # whether `name` is the device's own, not only that of its cores
    matched: Machine | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    DOCUMENT: ClassVar = (
        "kind", "selector=address", "name", "vendor", "catalog", "units", "simd_bits", "capability=capability_or_none", "quota", "clocks", "cores",
        "levels", "limits", "notes",
    )  # fmt: skip

    @property
    def address(self) -> str:
        """The name it is asked for by: `here:gpu0`."""
        return f"{NAME}:{self.selector}"

    @property
    def capability_or_none(self) -> str | None:
        return self.capability or None

    @property
    def catalog(self) -> str | None:
        """Name of the catalog machine with this whole name, or None."""
        return self.matched.name if self.matched else None

    @abstractmethod
    def machine(self) -> Machine: ...


# -- small readers: odd text gives nothing, never an error ----------------------------------------------------


def read_text(system: System, path: str) -> str:
    return (system.read(path) or b"").decode("utf-8", "replace").strip("\0 \t\r\n")


def integer(text: object) -> int | None:
    """A whole number in decimal or 0x form; None for anything else."""
    hit = re.fullmatch(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18})", str(text).strip(), re.ASCII)
    return int(hit[0], 16 if "x" in hit[0].lower() else 10) if hit else None


def decimal(text: object) -> float | None:
    hit = re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{0,18})?", str(text).strip(), re.ASCII)
    return float(hit[0]) if hit else None


def positive(text: object) -> int | None:
    number = integer(text)
    return number if number is not None and number > 0 else None


# -- what CPU and GPUs have in common --------------------------------------------------------------------------


def reported(value: float, unit: str, by: str) -> Figure:
    """A figure the system reports, with who said it."""
    return Figure(unit, derived=float(value), derivation=by, source="reported by this machine")


def memory_level(size: int | None, by: str, name: str = "memory") -> Level:
    return Level(
        name, Figure("B/s"), reported(size, "B", by) if size else Figure("B"), source="reported by this machine"
    )


def catalogued(name: str, kind: str) -> tuple[Machine | None, str]:
    """The catalog machine with this whole name (the rule of `by_driver_name`), and a remark where its file is broken.

    Only files that mention the name are parsed: reading the whole catalog takes longer than all of detection.
    """
    from ..load import files, load_file

    wanted = " ".join(name.lower().split())
    if not wanted:
        return None, ""
    remark = ""
    for path in files().values():
        try:
            if wanted not in " ".join(path.read_text(encoding="utf-8").lower().split()):
                continue
            machine = load_file(path)
        except (OSError, ValueError):
            continue
        except RidgelineError as error:
            remark = (
                f"The machine file {path.name} mentions this device and cannot be used: {str(error).splitlines()[0]}."
            )
            continue
        if machine.kind == kind and any(" ".join(alias.lower().split()) == wanted for alias in machine.aliases):
            return machine, ""
    return None, remark


# -- our own tables (cores.toml, capability.toml) --------------------------------------------------------------


@cache
def own_table(name: str) -> dict[str, Any]:
    """One of our own tables; without it nothing is derived."""
    try:
        return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def sources_of(table: Mapping[str, Any]) -> Mapping[str, Any]:
    sources = table.get("sources", {})
    return sources if isinstance(sources, dict) else {}


def rate_of(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
