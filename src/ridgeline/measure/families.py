"""Coefficients of the kernel families of this GPU: some thousand library kernels timed, then fitted."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.families.key import Key
from ..core.machine import Fitted, Machine
from ..machines import coefficients
from ..prediction.fit import fit_cases

Progress = Callable[[str, int, int, str], None]


def fitted_families(machine: Machine, quick: bool, on_progress: Progress) -> dict[Key, Fitted]:
    """Coefficients of the kernel families, fitted to kernels timed on this GPU; the fit starts from those of other machines."""
    rows, conditions = timed_kernels(quick, on_progress)
    how = f"{conditions['device']}, device time, cold caches, default paths of PyTorch"
    source = f"timed on this machine ({how}), {conditions['date'][:10]}"
    steps = count(1)

    def tell(text: str) -> None:
        done = next(steps)
        on_progress("fit", done, done + 1, text)

    return fit_cases(rows, coefficients.with_defaults(machine), source, tell)


def timed_kernels(quick: bool, on_progress: Progress) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Kernels timed in another process, because the profiler slows every launch after it."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "ridgeline.measure.cuda.kernels", "--out", folder, "--what", "calibration"]
        package = str(Path(__file__).parents[2])
        search = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [*command, *(["--quick"] if quick else [])], stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": search},
        )  # fmt: skip
        last_line = ""
        for line in process.stderr or ():
            last_line = line.strip() or last_line
            if progress := re.search(r"(\d+) of (\d+)", line):
                on_progress("kernels", int(progress[1]), int(progress[2]), "")
        process.wait()
        timings, conditions = Path(folder) / "calibration.csv", Path(folder) / "conditions.json"
        if not timings.is_file() or not conditions.is_file():
            raise InputError(f"no kernels were timed: {last_line}")
        with timings.open(encoding="utf-8", newline="") as file:
            rows = [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]
        return [row for row in rows if "time_us" in row], json.loads(conditions.read_text(encoding="utf-8"))
