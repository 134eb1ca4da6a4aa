"""One measurement, from the choice of the device to the saved machine file.

    measure -> cpu.probes, cuda.probes or links.probes: measure = plan (which probes) -> run (protocol) -> Observations
            -> machines.calibrate: a Machine with measured ceilings
            -> Measured
    keep    -> the file of the machine `here`

Each stage is called once and returns its result to this file.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InputError, RidgelineError
from ..core.files import write_text
from ..core.machine import Figure, Machine
from ..core.notes import CONDITIONS, DRIFT, NOISE, NOT_MEASURED, STAND_IN, Note, not_of_kind, of_kind
from ..core.notes import STOPPED as STOPPED_KIND
from ..core.observation import Observation
from ..core.version import __version__
from ..machines import write as save
from ..machines.calibrate import REPEATS, calibrate, merge
from ..machines.detect import local as detect
from ..machines.load import load_file, saved_file
from .cpu.pool import counted
from .families import fitted_families
from .protocol import STOPPED

Progress = Callable[[str, int, int, str], None]
MAX_NAMES = 6  # of probes in one note


@dataclass(frozen=True)
class Measured:
    """What was measured; `machine` is None for collectives, which concern several machines."""

    what: str
    observations: tuple[Observation, ...]
    machine: Machine | None
    notes: tuple[str, ...] = ()

    schema: ClassVar = 1
    version: ClassVar = __version__
    DOCUMENT: ClassVar = (
        *("schema", "ridgeline=version", "what", "machine=machine_document", "observations=observation_documents"),
        "notes",
    )

    @property
    def machine_document(self) -> dict[str, Any] | None:
        return None if self.machine is None else self.machine.document()

    @property
    def observation_documents(self) -> list[dict[str, Any]]:
        return [item.document() for item in self.observations]


def measured_machine(
    observations: Sequence[Observation], found: Machine, conditions: Mapping[str, str] | None = None
) -> Machine:
    """The detected machine with what was measured, and what the BLAS reaches of the arithmetic peak."""
    machine = calibrate(found, observations, conditions)
    reached = {target: share for target in machine.peaks if (share := _reached(target, observations))}
    shares = {**machine.efficiency, **{f"gemm.{target}": share for target, share in reached.items()}}
    # what detection could not know, measuring has found out
    notes = [note for note in machine.notes if not note.startswith(("No peaks:", "Memory and cache bandwidth"))]
    notes += dict.fromkeys(note for item in observations for note in item.notes if note.startswith("lower bound"))
    itself = [target for target in reached if not any(_own(item) for item in observations if item.target == target)]
    if itself:
        notes.append(
            f"{', '.join(itself)}: measured with the matrix product itself, so that predicting one repeats what was measured"
        )
    return replace(machine, efficiency=shares, notes=tuple(notes))


def _own(item: Observation) -> bool:
    """A probe of the unit itself, where others run a library's product on it."""
    return "library" not in item.settings


def _alone(item: Observation) -> float:
    """Its best rate; where only a disturbed sample could be had, what that would be had it run all the time."""
    return item.best_rate / max(float(item.conditions.get("stand_in_busy", 1.0)), 0.01)


def _reached(target: str, observations: Sequence[Observation]) -> Figure | None:
    """What the BLAS reaches of a peak, product and probe on equally many cores: the most that were undisturbed, else one."""
    by_cores: dict[int, list[Observation]] = {}
    for item in observations:
        if item.target == target and item.settings.get("burst", True):
            by_cores.setdefault(int(item.settings.get("threads", 1)), []).append(item)
    pairs = []
    for cores, items in by_cores.items():
        products = [item for item in items if not _own(item)]
        if products:
            product, peak = max(products, key=_alone), max(items, key=_alone)
            calm = not any("stand_in_busy" in item.conditions for item in (product, peak))
            pairs.append((calm, cores, product, peak))
    if not pairs:
        return None
    # the fewer threads take part, the better what they were held back tells what they would have reached
    calm, cores, product, peak = max(pairs, key=lambda pair: (pair[0], pair[1] if pair[0] else -pair[1]))
    share = _alone(product) / _alone(peak)
    spread = max(product.spread + peak.spread, REPEATS["rate"])
    how = f"spread {spread:.0%}" if calm else "estimated from disturbed samples"
    told = f"{product.settings['library']} reaches {share:.0%} of the {target} peak measured here, both on {counted(cores)} ({how})"
    return Figure("", measured=share, source=told, measurement=told, spread=spread)


def measure(what: str | None, quick: bool, on_progress: Progress, families: bool = False) -> Measured:
    """The probes of a device; without a choice the GPU where there is one, else the CPU.

    `families` also times some thousand library kernels and fits the coefficients of the kernel families to them.
    """
    try:
        what = what or ("cuda" if any(machine.kind == "gpu" for machine in detect.found()) else "cpu")
        if families and what != "cuda":
            raise InputError(f"--calibrate times the kernels of a CUDA GPU; {what} has no kernel families to fit")
        if what == "collective":
            return _collectives(quick, on_progress)
        return _cuda(quick, on_progress, families) if what == "cuda" else _cpu(quick, on_progress)
    except KeyboardInterrupt:
        raise RidgelineError(f"{STOPPED} before there was anything to keep; nothing was written") from None


def _telling(on_progress: Progress) -> Callable[[int, int, str], None]:
    return lambda done, total, label: on_progress("measure", done, total, label)


def _cpu(quick: bool, on_progress: Progress) -> Measured:
    from .cpu import probes

    detected = detect.here("cpu")
    observations = probes.measure(detected, quick=quick, on_progress=_telling(on_progress))
    machine = measured_machine(observations, detected, conditions(observations))
    return _measured("cpu", observations, machine, remarks(observations))


def _cuda(quick: bool, on_progress: Progress, families: bool) -> Measured:
    from .cuda import probes

    detected = detect.here("gpu")
    observations = probes.measure(detected, quick=quick, on_progress=_telling(on_progress))
    machine = calibrate(detected, observations, conditions(observations))
    notes = remarks(observations)
    if families:
        try:
            machine = replace(machine, fitted=fitted_families(machine, quick, on_progress))
        except KeyboardInterrupt:
            notes += (Note(NOT_MEASURED, f"not measured ({STOPPED}): the kernel families"),)
    return _measured("cuda", observations, machine, notes)


def _measured(what: str, observations: Sequence[Observation], machine: Machine, notes: tuple[str, ...]) -> Measured:
    # the notes go into the machine file too: who predicts with it must know how it was measured
    return Measured(what, tuple(observations), replace(machine, notes=(*machine.notes, *notes)), notes)


def _collectives(quick: bool, on_progress: Progress) -> Measured:
    if importlib.util.find_spec("torch") is None:
        raise InputError("collectives are measured through torch.distributed; install ridgeline[torch]")
    from .links import probes

    observations = probes.measure(quick=quick, on_progress=_telling(on_progress))
    # each point carries what concerns the whole job; noise of single points is reported once, with their names
    notes = dict.fromkeys(note for item in observations for note in not_of_kind(item.notes, NOISE, DRIFT))
    return Measured("collective", tuple(observations), None, (*notes, *remarks(observations)))


# -- what holds for all observations ----------------------------------------------------------------------------


def remarks(observations: Sequence[Observation]) -> tuple[str, ...]:
    """What a reader must know of a measurement before using it, each thing once."""
    notes = list(dict.fromkeys(note for item in observations for note in of_kind(item.notes, NOT_MEASURED, CONDITIONS)))
    preempted = [
        len(item.conditions["interrupted_samples"]) for item in observations if "interrupted_samples" in item.conditions
    ]
    if preempted:
        text = (
            f"disturbed: another program had the core during {sum(preempted)} samples of {len(preempted)} of "
            f"{len(observations)} probes; they are kept apart"
        )
        notes.append(Note(NOISE, text))
    for kind, text in (
        (STAND_IN, "disturbed: only disturbed samples could be had, and one stands in, for"),
        (DRIFT, "disturbed: samples drift or fall into two groups for"),
    ):
        if names := [item.name for item in observations if any(of_kind(item.notes, kind))]:
            notes.append(Note(kind, f"{text} {_names(names)}"))
    return tuple(notes)


def _names(names: Sequence[str]) -> str:
    more = len(names) - MAX_NAMES
    return "; ".join(names[:MAX_NAMES]) + (f"; and {more} more" if more > 0 else "")


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


# -- the saved file ---------------------------------------------------------------------------------------------


def keep(measured: Measured) -> list[Path]:
    """Save the machine as `here:cpu` or `here:gpu`, and as `here` where it is the one that `here` means."""
    assert measured.machine is not None
    files = [saved_file("gpu" if measured.what == "cuda" else "cpu")]
    if detect.here().title == measured.machine.title:
        files.append(saved_file())
    for file in files:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cannot keep the measurement in {file.parent}: {error.strerror}; use --no-save and --out FILE"
            ) from error
        write_text(file, save.text(_with_earlier(measured, measured.machine, file)))
    return files


def _with_earlier(measured: Measured, machine: Machine, file: Path) -> Machine:
    """The machine to keep; a run that was stopped does not take away what an earlier one measured."""
    stopped = any(any(of_kind(item.notes, STOPPED_KIND)) for item in measured.observations)
    if not stopped or not file.is_file():
        return machine
    try:
        return merge(machine, load_file(file))
    except RidgelineError:  # damaged, or of another machine
        return machine
