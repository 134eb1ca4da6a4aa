"""The outside world as detection asks it: files, commands, libraries, counts; and readers of the small texts they give."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from typing import Any


class System:
    """Everything detection asks of the outside, so that tests can answer from a recording. No method raises."""

    def __init__(self) -> None:
        self.platform = sys.platform

    def read(self, path: str) -> bytes | None:
        """The content of a file, or None. Plain descriptors, because a large server has thousands of these little files."""
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
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)
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
        """The processor as Python's `platform` has it; on Linux and macOS that starts a process and gives little."""
        import platform

        return platform.processor()


def read_text(system: System, path: str) -> str:
    return (system.read(path) or b"").decode("utf-8", "replace").strip("\0 \t\r\n")


def integer(text: object) -> int | None:
    """An integer in decimal or 0x form; None for anything else."""
    hit = re.fullmatch(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18})", str(text).strip(), re.ASCII)
    return int(hit[0], 16 if "x" in hit[0].lower() else 10) if hit else None


def decimal(text: object) -> float | None:
    hit = re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{0,18})?", str(text).strip(), re.ASCII)
    return float(hit[0]) if hit else None


def positive(text: object) -> int | None:
    number = integer(text)
    return number if number is not None and number > 0 else None
