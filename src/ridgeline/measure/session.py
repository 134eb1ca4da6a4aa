"""One measurement from the command line: choose the device, run its probes, make the machine, keep it."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..core.documents import to_document
from ..core.errors import InputError, RidgelineError
from ..core.families.key import Key
from ..core.files import write_text
from ..core.machine import Fitted, Machine
from ..core.observation import Observation
from ..core.version import __version__
from ..machines import coefficients as fitted
from ..machines import write as save
from ..machines.calibrate import calibrate, measured_machine
from ..machines.detect import local as detect
from ..machines.files import load_file, saved_file
from ..machines.merge import merge
from ..prediction.fit import fit_cases, require
from .protocol import EARLY, STAND_IN, STOPPED

Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Measured:
    """What was measured; `machine` is None for collectives, which speak of several machines."""

    what: str
    observations: tuple[Observation, ...]
    machine: Machine | None
    notes: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "ridgeline": __version__,
            "what": self.what,
            "machine": to_document(self.machine),
            "observations": to_document(self.observations),
            "notes": list(self.notes),
        }


def measure(what: str | None, quick: bool, on_progress: Progress, families: bool = False) -> Measured:
    """The probes of a device; without a choice the GPU where there is one, else the CPU.

    `families` also times some thousand library kernels and fits the coefficients of the kernel families to them.
    """
    try:
        return _measure(what, quick, on_progress, families)
    except KeyboardInterrupt:
        raise RidgelineError(f"{STOPPED} before there was anything to keep; nothing was written") from None


def _measure(what: str | None, quick: bool, on_progress: Progress, families: bool) -> Measured:
    if what is None:
        what = "cuda" if any(device.kind == "gpu" for device in detect.devices()) else "cpu"
    if families and what != "cuda":
        raise InputError(f"--calibrate times the kernels of a CUDA GPU; {what} has no kernel families to fit")
    if families:
        require()

    def tell(done: int, total: int, label: str) -> None:
        on_progress("measure", done, total, label)

    if what == "collective":
        return _collective(quick, tell)
    told: tuple[str, ...] = ()
    if what == "cuda":
        from .cuda import probes as cuda

        machine = detect.here("gpu")
        seen = cuda.measure(machine, quick=quick, on_progress=tell)
        made = calibrate(machine, seen, conditions(seen))
        if families:
            try:
                made = replace(made, fitted=fitted_families(made, quick, on_progress))
            except KeyboardInterrupt:
                told = (f"not measured ({STOPPED}): the kernel families",)
    else:
        from .cpu import probes as cpu

        machine = detect.here("cpu")
        seen = cpu.measure(machine, quick=quick, on_progress=tell)
        made = measured_machine(seen, machine, conditions(seen))
    told = (*remarks(seen), *told)
    # they go into the machine file too: who predicts with it must know how it was measured
    return Measured(what, tuple(seen), replace(made, notes=(*made.notes, *told)), told)


# notes that concern a measurement as a whole; the others speak of one probe and stay with it
WHOLE = ("not measured", "a second load", "the cache folder", "compiled without", "by the read sweep")
MOST_NAMES = 6


def remarks(seen: Sequence[Observation]) -> tuple[str, ...]:
    """What a reader must know of a measurement before using it, each thing once."""
    found = list(dict.fromkeys(note for item in seen for note in item.notes if note.startswith(WHOLE)))
    apart = [len(item.conditions["interrupted_samples"]) for item in seen if "interrupted_samples" in item.conditions]
    if apart:
        found.append(
            f"disturbed: another program had the core during {sum(apart)} samples of {len(apart)} of {len(seen)} probes; "
            "they are kept apart"
        )
    if alone := [item.name for item in seen if STAND_IN in item.notes]:
        found.append(f"disturbed: only disturbed samples could be had, and one stands in, for {_names(alone)}")
    unsteady = [
        item.name
        for item in seen
        if any(note.startswith("disturbed") and ("drift" in note or "two groups" in note) for note in item.notes)
    ]
    if unsteady:
        found.append(f"disturbed: samples drift or fall into two groups for {_names(unsteady)}")
    return tuple(found)


def _names(names: Sequence[str]) -> str:
    more = len(names) - MOST_NAMES
    return "; ".join(names[:MOST_NAMES]) + (f"; and {more} more" if more > 0 else "")


def fitted_families(machine: Machine, quick: bool, on_progress: Progress) -> dict[Key, Fitted]:
    """Coefficients of the kernel families, fitted to kernels timed on this GPU; where they start, other machines lend."""
    rows, told = timed_kernels(quick, on_progress)
    source = f"timed on this machine ({told['device']}, device time, cold caches, default paths of PyTorch), {told['date'][:10]}"
    done: list[str] = []

    def tell(text: str) -> None:
        done.append(text)
        on_progress("fit", len(done), len(done) + 1, text)

    return fit_cases(rows, fitted.with_defaults(machine), source, tell)


def timed_kernels(quick: bool, on_progress: Progress) -> tuple[list[dict[str, str]], dict[str, Any]]:
    """Kernels timed in a process of their own: the profiler and the probes do not get on in one."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "ridgeline.measure.cuda.kernels", "--out", folder, "--what", "calibration"]
        package = str(Path(__file__).parents[2])
        search = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
        process = subprocess.Popen(
            [*words, *(["--quick"] if quick else [])],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": search},
        )
        last = ""
        for line in process.stderr or ():
            last = line.strip() or last
            done = re.search(r"(\d+) of (\d+)", line)
            if done:
                on_progress("kernels", int(done[1]), int(done[2]), "")
        process.wait()
        timings, conditions = Path(folder) / "calibration.csv", Path(folder) / "conditions.json"
        if not timings.is_file() or not conditions.is_file():
            raise InputError(f"no kernels were timed: {last}")
        with timings.open(encoding="utf-8", newline="") as file:
            rows = [{key: value for key, value in row.items() if value} for row in csv.DictReader(file)]
        return [row for row in rows if "time_us" in row], json.loads(conditions.read_text(encoding="utf-8"))


def _collective(quick: bool, tell: Callable[[int, int, str], None]) -> Measured:
    if importlib.util.find_spec("torch") is None:
        raise InputError("collectives are measured through torch.distributed; install ridgeline[torch]")
    from . import links as collective

    seen = collective.measure(quick=quick, on_progress=tell)
    # each point carries what concerns the whole job; what was noticed of single points is told once, with their names
    whole = dict.fromkeys(note for item in seen for note in item.notes if not note.startswith("disturbed"))
    return Measured("collective", tuple(seen), None, (*whole, *remarks(seen)))


def conditions(observations: list[Observation]) -> dict[str, str]:
    """The conditions that held for all, as texts for the machine file."""
    if not observations:
        return {}
    common = dict(observations[0].conditions)
    for item in observations[1:]:
        common = {key: value for key, value in common.items() if item.conditions.get(key) == value}
    dates = sorted(str(item.conditions["date"]) for item in observations if "date" in item.conditions)
    plain = {key: _text(value) for key, value in common.items()}
    return {**plain, **({"date": dates[0]} if dates else {})}


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(_text(item) for item in value)
    return str(value)


def keep(found: Measured) -> list[Path]:
    """Save the machine as `here:cpu` or `here:gpu`, and as `here` where it is the one that `here` means."""
    assert found.machine is not None
    which = "gpu" if found.what == "cuda" else "cpu"
    places = [saved_file(which)]
    if detect.here().title == found.machine.title:
        places.append(saved_file())
    for place in places:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot keep the measurement in {place.parent}: {error.strerror}; use --no-save and --out FILE"
            ) from error
        write_text(place, save.text(_with_earlier(found, place)))
    return places


def _with_earlier(found: Measured, place: Path) -> Machine:
    """The machine to keep; a run that was stopped does not take away what an earlier one measured."""
    assert found.machine is not None
    if not any(EARLY in note for item in found.observations for note in item.notes) or not place.is_file():
        return found.machine
    try:
        return merge(found.machine, load_file(place))
    except RidgelineError:  # damaged, or of another machine
        return found.machine
