"""`ridgeline run -- python script.py`: profile a program, predict every operator of a step, reconcile."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.files import write_atomically
from ...core.timeline import COPIES, OPERATOR, Timeline
from ...core.units import percent
from ...prediction.coefficients import UNCALIBRATED
from .job import Progress

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...gaps.steps.report import ProgramReport
    from ...profilers.launch import Recorded

# Recorded by default: few steps, so that a short program has some left without the profiler.
STEPS, SECONDS = 5, 10.0
MAX_GUESSED = 0.2  # of the time with uncalibrated predictions, above which the answer says it
MAX_SLOWDOWN = 1.1  # of the steps under the profiler, above which the answer says it
MAX_WAITED = 0.05  # of the time that the program waited for a core, above which the answer says it
MAX_PRICED_WAIT = 0.2  # and above which no other move can be priced
COMPILED_NAME = re.compile(r"trace\.json(?:\.gz)?$")  # what is the name of its compiled programs otherwise
DEVICES = {"cpu": "here:cpu", "cuda": "here:gpu"}
Say = Callable[[str], None]


@dataclass(frozen=True)
class ProgramRun:
    """A program that ran, and the report of its steps."""

    recorded: Recorded
    report: ProgramReport
    notes: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        return {**to_document(self.report), "program": {**to_document(self.recorded), "notes": list(self.notes)}}


def report_of(recorded: Recorded, on: str | None, say: Say, on_progress: Progress | None = None) -> ProgramRun:
    """The report of a recorded program on the machine asked for, else on the one it ran on."""
    from ...gaps.steps.moves.cpu import waiting_for_cores
    from ...gaps.steps.report import program_report
    from ...profilers.load import timeline
    from ...profilers.torch_profiler import EmptyTrace

    try:
        times = timeline(recorded.trace)
    except EmptyTrace as error:
        raise InputError(
            f"'{' '.join(recorded.command)}' ran no operator in its own process (recorded: {recorded.recorded}); "
            "processes that it starts are not recorded: run what they run by itself"
        ) from error
    except InputError as error:
        raise InputError(f"nothing of '{' '.join(recorded.command)}' can be reported: {error}") from error
    if not len(times.runs):
        raise InputError(f"'{' '.join(recorded.command)}' ran no operator while {recorded.recorded} was recorded")
    machine = machine_for(times, on, say, on_progress)
    report = program_report(times, machine, recorded.step_time, recorded.facts.get("launch_seconds"))
    if report.view.step_time is None:
        recorded = replace(recorded, step_time=None, unprofiled_steps=0)
    if report.view.kept.on_host and (recorded.waited_share or 0.0) > MAX_PRICED_WAIT:
        report = replace(report, moves=(waiting_for_cores(report.view, recorded.waited_share or 0.0),))
    return ProgramRun(recorded, report, tuple(_notes(recorded, report)))


def machine_for(times: Timeline, on: str | None, say: Say, on_progress: Progress | None) -> Machine:
    """The machine asked for; else the GPU that ran kernels; else this CPU, measured quickly where it never was."""
    from ...machines.files import saved_measurement
    from ...machines.load import load
    from ...prediction.fit.least_squares import available

    used = {activity.kind for activity in times.activities}
    device = "cpu" if used <= {OPERATOR} else "cuda"
    if on is not None and on not in DEVICES:
        return load(on)
    if device == "cuda" or on == "cuda":
        return load(DEVICES["cuda"])
    if saved_measurement("cpu") is None:
        say("no ceilings of this CPU yet: measuring them and timing its library kernels (about a minute, once)")
        return _measured(on_progress, say)
    machine = load(DEVICES["cpu"])
    if not machine.fitted and available():
        say("library kernels of this CPU were never timed: timing them (about a minute, once)")
        return _measured(on_progress, say)
    return machine


def _measured(on_progress: Progress | None, say: Say) -> Machine:
    """This CPU, measured quickly and calibrated where SciPy can fit it, and saved as `ridgeline measure` does."""
    from ...measure import session
    from ...prediction.fit.least_squares import available

    measured = session.measure("cpu", True, on_progress or (lambda *_: None), available())
    if measured.machine is None:
        raise InputError("this CPU could not be measured; name a machine with --on")
    session.keep(measured, say)
    return measured.machine


def _notes(recorded: Recorded, report: ProgramReport) -> list[str]:
    """How it was recorded, what the predictions rest on, and by how much the profiler slowed the steps."""
    notes = [f"recorded: {recorded.recorded}"]
    # calibrating times kernels, and no copies
    guessed = report.view.share_of(lambda item: item.calibration == UNCALIBRATED and item.group.phase != COPIES)
    if guessed > MAX_GUESSED:
        notes.append(
            f"{percent(guessed)} of the time has uncalibrated predictions: run `ridgeline measure --quick --calibrate`"
        )
    if recorded.step_time and report.view.wall > MAX_SLOWDOWN * recorded.step_time:
        inflated = "times of operators" if report.view.kept.on_host else "host and idle times"
        slower = percent(report.view.wall / recorded.step_time - 1)
        notes.append(f"the profiler makes a step {slower} longer: {inflated} below include recording")
    if (recorded.waited_share or 0.0) > MAX_WAITED:
        share = percent(recorded.waited_share)
        affected = "times of operators" if report.view.kept.on_host else "host and idle times"
        notes.append(
            f"loaded machine: the program waited {share} of the time for a core; {affected} include that: run it on an idle machine"
        )
    if recorded.exit_code:
        notes.append(f"the program ended with exit code {recorded.exit_code}; what it ran before is reported")
    return notes


def keep_trace(recorded: Recorded, out: Path) -> list[Path]:
    """Copy the trace to where it was asked for, and the compiled programs that JAX writes next to it."""
    kept = [(recorded.trace, out)]
    programs, beside = (path.with_name(COMPILED_NAME.sub("xplane.pb", path.name)) for path in (recorded.trace, out))
    if programs != recorded.trace and beside != out and programs.is_file():
        kept.append((programs, beside))
    for source, target in kept:
        write_atomically(target, partial(shutil.copyfile, source))
    return [target for _, target in kept]
