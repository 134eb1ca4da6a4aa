"""One measurement, from the choice of the device to the saved machine file.

    measure -> cpu.probes, cuda.probes or links.probes: measure = plan (which probes) -> run (protocol) -> Observations
            -> machines.calibrate: a Machine with measured ceilings
            -> Measured
    keep    -> the file of the machine `here`

Each stage is called once and returns its result to this file.
"""

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
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InputError, Interrupted, RidgelineError
from ..core.families.key import Key
from ..core.files import write_text
from ..core.fitted import Fitted
from ..core.machine import Machine
from ..core.notes import CONDITIONS, DRIFT, NOISE, NOT_MEASURED, PROVISIONAL, STAND_IN, Note, not_of_kind, of_kind
from ..core.notes import STOPPED as STOPPED_KIND
from ..core.observation import Observation
from ..core.version import __version__
from ..machines import coefficients
from ..machines import write as save
from ..machines.calibrate import calibrate, measured_machine
from ..machines.detect import local as detect
from ..machines.files import load_file, saved_file
from ..machines.merge import merge
from ..machines.schema import read
from ..prediction.fit import fit_cases, require
from .protocol import STOPPED
from .quality import Quality, is_noisy, quality, replaces

Progress = Callable[[str, int, int, str], None]


@dataclass(frozen=True)
class Measured:
    """What was measured; `machine` is None for collectives, which concern several machines."""

    what: str
    observations: tuple[Observation, ...]
    machine: Machine | None
    notes: tuple[str, ...] = ()
    quality: Quality | None = None

    schema: ClassVar = 1
    version: ClassVar = __version__
    DOCUMENT: ClassVar = ("schema", "ridgeline=version", "what", "machine", "quality?", "observations", "notes")


def measure(what: str | None, quick: bool, on_progress: Progress, families: bool = False) -> Measured:
    """The probes of a device; without a choice the GPU where there is one, else the CPU.

    `families` also times library kernels and fits the coefficients of the kernel families to them.
    """
    try:
        what = what or ("cuda" if any(machine.kind == "gpu" for machine in detect.devices()) else "cpu")
        if families and what == "collective":
            raise InputError("--calibrate times library kernels of a CPU or a CUDA GPU, and collectives have none")
        if families:
            require()
        if what == "collective":
            return _collectives(quick, on_progress)
        return _cuda(quick, on_progress, families) if what == "cuda" else _cpu(quick, on_progress, families)
    except KeyboardInterrupt:
        raise Interrupted(f"{STOPPED} before there was anything to keep; nothing was written") from None


def _telling(on_progress: Progress) -> Callable[[int, int, str], None]:
    return lambda done, total, label: on_progress("measure", done, total, label)


def _cpu(quick: bool, on_progress: Progress, families: bool) -> Measured:
    from .cpu import calibration, probes

    detected = detect.here("cpu")
    observations = probes.measure(detected, quick=quick, on_progress=_telling(on_progress))
    machine = measured_machine(observations, detected, conditions(observations))
    notes = remarks(observations)
    if families and not probes.stopped(observations):
        fitted, missing = calibration.fitted_families(machine, quick, on_progress)
        machine, notes = replace(machine, fitted=fitted), notes + missing
    return _measured("cpu", observations, machine, notes)


def _cuda(quick: bool, on_progress: Progress, families: bool) -> Measured:
    from .cuda import probes

    detected = detect.here("gpu")
    observations = probes.measure(detected, quick=quick, on_progress=_telling(on_progress))
    machine = calibrate(detected, observations, conditions(observations))
    notes = remarks(observations)
    if families:
        try:
            machine = replace(machine, fitted={**machine.fitted, **fitted_families(machine, quick, on_progress)})
        except KeyboardInterrupt:
            notes += (Note(NOT_MEASURED, f"not measured ({STOPPED}): the kernel families"),)
    return _measured("cuda", observations, machine, notes)


def _measured(what: str, observations: Sequence[Observation], machine: Machine, notes: tuple[str, ...]) -> Measured:
    """With the quality, which goes into the machine file too: who predicts with it must know how it was measured."""
    assessed = quality(observations, machine)
    known = {**machine.conditions, "quality": assessed.line}
    if assessed.provisional:
        known[PROVISIONAL] = assessed.reason
        notes += (Note(PROVISIONAL, f"provisional ({assessed.reason}): measure again on a quiet machine"),)
    machine = replace(machine, conditions=known, notes=(*machine.notes, *notes))
    return Measured(what, tuple(observations), machine, notes, assessed)


def _collectives(quick: bool, on_progress: Progress) -> Measured:
    if importlib.util.find_spec("torch") is None:
        raise InputError("collectives are measured through torch.distributed; install ridgeline[torch]")
    from .links import probes

    observations = probes.measure(quick=quick, on_progress=_telling(on_progress))
    # each point carries what concerns the job; noise of single points is reported once, with their number
    notes = list(
        dict.fromkeys(note for item in observations for note in not_of_kind(item.notes, NOISE, DRIFT, STAND_IN))
    )
    if noisy := sum(map(is_noisy, observations)):
        notes.append(Note(NOISE, f"noisy: {noisy} of {len(observations)} probes"))
    return Measured("collective", tuple(observations), None, tuple(notes))


def remarks(observations: Sequence[Observation]) -> tuple[str, ...]:
    """What a reader must know of a measurement before using it, each thing once; noise is in its `Quality`."""
    return tuple(dict.fromkeys(note for item in observations for note in of_kind(item.notes, NOT_MEASURED, CONDITIONS)))


def conditions(observations: Sequence[Observation]) -> dict[str, str]:
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


def keep(measured: Measured, say: Callable[[str], None] = lambda text: None) -> list[Path]:
    """Save the machine as `here:cpu` or `here:gpu`, and as `here` where it is the one that `here` means.

    A provisional measurement is not saved over a better one; `say` gets the reason.
    """
    assert measured.machine is not None
    files = [saved_file("gpu" if measured.what == "cuda" else "cpu")]
    if detect.here().title == measured.machine.title:
        files.append(saved_file())
    written: list[Path] = []
    for file in files:
        machine = measured.machine
        if (saved := _saved(file, machine)) and not replaces(machine, saved):
            say(
                f"not saved: this measurement is provisional ({machine.conditions[PROVISIONAL]}) and {file} is better; "
                f"run `ridgeline measure {measured.what}` on a quiet machine, or write this one with --out FILE"
            )
            continue
        if saved:  # library kernels are timed only with --calibrate, and on a busy machine not all of them
            machine = replace(machine, fitted=coefficients.joined(machine, saved))
        # a run that was stopped does not take away what an earlier one measured
        store(merge(machine, saved) if was_stopped(measured) and saved else machine, file)
        written.append(file)
    return written


def was_stopped(measured: Measured) -> bool:
    """Whether Ctrl-C ended it early."""
    return any(any(of_kind(item.notes, STOPPED_KIND)) for item in measured.observations)


def require_folder() -> None:
    """InputError where a measurement could not be kept, before minutes are spent on it."""
    try:
        saved_file()
    except InputError as error:
        raise InputError(f"{error}; or measure with --no-save") from None


def store(machine: Machine, file: Path) -> None:
    """Write a machine file in the user's folder, which is made where it is missing."""
    text = save.text(machine)
    read(text, str(file))  # a file that cannot be read again must not replace one that can
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot keep the measurement in {file.parent}: {error.strerror}; use --no-save and --out FILE"
        ) from error
    write_text(file, text)


def _saved(file: Path, machine: Machine) -> Machine | None:
    """The earlier measurement of the same part of the same machine; None where there is none that can be used."""
    try:
        saved = load_file(file) if file.is_file() else None
    except RidgelineError:  # damaged
        return None
    return saved if saved and saved.title == machine.title and saved.units == machine.units else None


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
