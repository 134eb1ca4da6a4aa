"""Nsight Compute reports: work per class, bytes per level, time, clocks and signs of every kernel.

Read are the raw page (`ncu --csv --page raw`: one wide row per kernel, units in the second line), the details page (one
row per metric) and, through the `ncu` program, `.ncu-rep` files. What is taken, and how it follows
from ncu's metrics, is the table of `ncu.metrics`. A counter that read zero is 0; one that the report does not have is
absent; one that the report has without a value (n/a, nan, no data) is absent and named in a note.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from ...core.errors import InputError
from ...core.observation import Observation
from ...core.tabular import cells, opened
from .pages import HOW, is_header, observations

__all__ = ["HOW", "program", "read", "recognises"]

SUFFIXES = (".ncu-rep", ".ncu-repz", ".nsight-cuprof-report")
MAGIC = "NVR\x00"
INSTALLED = (("/usr/local", "cuda*/bin/ncu"), ("/opt/nvidia/nsight-compute", "*/ncu"))


def recognises(head: str, path: Path) -> bool:
    """A report, or a table whose header names kernels the way ncu does."""
    if path.name.removesuffix(".gz").endswith(SUFFIXES) or head.startswith(MAGIC):
        return True
    if "==PROF==" in head or "==ERROR==" in head:
        return True
    # The header of a raw page may be longer than the head, so its first cells have to do.
    return any(is_header(cells(line[:4096])) for line in head.splitlines() if "Kernel Name" in line[:4096])


def read(path: Path) -> list[Observation]:
    """Every kernel of a report, in the order they ran."""
    if path.name.endswith(SUFFIXES) or _binary(path):
        return _read_report(path)
    with opened(path) as text:
        return observations(text, path)


def _binary(path: Path) -> bool:
    with opened(path) as text:
        return text.read(len(MAGIC)) == MAGIC


def _read_report(path: Path) -> list[Observation]:
    """Through the ncu program, which reads reports of its own version and of older ones."""
    tool = program()
    if tool is None:
        raise InputError(f"'{path}' is a Nsight Compute report, and ncu is not here to read it; where it is, export it: {HOW}")  # fmt: skip
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace", newline="") as out:
        words = [tool, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
        done = subprocess.run(words, stdout=out, stderr=subprocess.PIPE, text=True, errors="replace", check=False)
        out.seek(0)
        if done.returncode:
            message = " ".join(f"{done.stderr} {out.read(400)}".split()) or "nothing"
            raise InputError(f"'{' '.join(words)}' failed and said: {message[:400]}; export the report with the ncu that wrote it: {HOW}")  # fmt: skip
        return observations(out, path)


def program() -> str | None:
    """The ncu program: on the path, or where its installers put it, the newest first."""
    installed = (place for root, pattern in INSTALLED for place in sorted(Path(root).glob(pattern), reverse=True))
    return shutil.which("ncu") or next((str(place) for place in installed), None)
