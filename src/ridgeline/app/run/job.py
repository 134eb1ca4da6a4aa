"""The loop of the main job, the same on every device; `cpu.py` and `cuda.py` bring the device."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ...core.documents import to_document
from ...core.errors import Interrupted, RidgelineError
from ...core.machine import Machine
from ...core.notes import PROVISIONAL, STOPPED, of_kind
from ...core.observation import Observation
from ...core.work import Program, Step, Work
from ...gaps.ledger import Ledger, Sealed, open_ledger
from ...gaps.report import Report, reconcile
from ...gaps.settle import rows_of, settled_items
from ...machines import write as machine_file
from ...measure import protocol
from ...measure.quality import quality
from ...prediction.predict import Prediction, predict
from .verdicts import Summary, next_move, verdict

Progress = Callable[[str, int, int, str], None]  # phase, steps done, steps in all, what is being done


@dataclass(frozen=True)
class Outcome:
    """What came of the job; `sealed` and `items` are empty where it was stopped before any kernel ran."""

    machine: Machine
    observations: tuple[Observation, ...]
    sealed: dict[str, Any]
    items: tuple[dict[str, Any], ...]
    sentence: str
    summary: Summary
    notes: tuple[str, ...] = ()  # how the predictions were calibrated, and what was left out
    remarks: tuple[str, ...] = ()  # those of them that the answer itself must say
    stopped: bool = False  # by Ctrl-C

    def document(self) -> dict[str, Any]:
        charted = ("predicted", "measured")  # in seconds, for the chart; the document has both in microseconds
        return {
            "machine": to_document(self.machine),
            "sealed": self.sealed,
            "items": [{key: value for key, value in item.items() if key not in charted} for item in self.items],
            "sentence": self.sentence,
            **to_document(self.summary),
            "notes": list(self.notes),
            "observations": to_document(self.observations),
        }


class Kernel(Protocol):
    """A kernel that can be predicted and run."""

    @property
    def name(self) -> str: ...
    @property
    def work(self) -> Work: ...
    @property
    def how(self) -> str: ...


@dataclass(frozen=True)
class Workload:
    """Kernels to predict, seal and run; what only their predictions need; one sentence on kernels that cannot run here."""

    kernels: Sequence[Kernel]
    observations: Sequence[Observation] = ()
    left_out: str = ""
    calibration: Any = None  # what the device times before, to calibrate the predictions


class KernelRuns(NamedTuple):
    """Observations of the kernels that ran, by name, whether Ctrl-C ended the run, and what could not run."""

    observations: Mapping[str, Observation]
    stopped: bool = False
    refused: Mapping[str, str] = MappingProxyType({})  # kernels that could not be timed, and why


class Bench(Protocol):
    """What the job needs of the device it runs on; tests bring a small one with times of its own."""

    clock: protocol.Clock
    place: str  # where kernels run, in words: `2 cores`

    def detect(self) -> Machine: ...

    def measure(self, machine: Machine, quick: bool, on_progress: protocol.Progress) -> list[Observation]:
        """The ceilings; Ctrl-C ends it early, and a note says so."""

    def ceilings(self, detected: Machine, observations: Sequence[Observation]) -> Machine:
        """The detected machine with what was measured."""

    def workload(self, machine: Machine) -> Workload: ...

    def calibrate(self, machine: Machine, workload: Workload, on_progress: protocol.Progress) -> tuple[Machine, str]:
        """The machine whose predictions are calibrated, and one sentence that says on what."""

    def run(self, workload: Workload, date: str, on_progress: protocol.Progress) -> KernelRuns:
        """The sealed kernels; KeyboardInterrupt where it is stopped before any has a sample."""


@dataclass
class Stage:
    """How far the job is: what a stop keeps."""

    detected: Machine | None = None
    observations: list[Observation] = field(default_factory=list)


def job(bench: Bench, quick: bool = True, on_progress: Progress | None = None, ledger: Ledger | None = None) -> Outcome:
    """Measure, predict, seal, run, reconcile.

    Ctrl-C ends it at once: what was measured and which kernels had run is returned, and the sentence says so.
    """
    begin, stage = bench.clock.now(), Stage()
    facts = Summary("quick" if quick else "full")
    try:
        return _job(bench, facts, begin, on_progress, ledger, stage)
    except KeyboardInterrupt:
        if stage.detected is None or not stage.observations:
            raise Interrupted(f"{protocol.STOPPED} before anything was measured; nothing was written") from None
        sentence = f"{protocol.STOPPED} before any kernel had run: only the ceilings below were measured"
        machine = bench.ceilings(stage.detected, stage.observations)
        summary = facts.after(bench.place, bench.clock.now() - begin)
        return Outcome(machine, tuple(stage.observations), {}, (), sentence, summary, stopped=True)


def _job(
    bench: Bench, facts: Summary, begin: float, on_progress: Progress | None, ledger: Ledger | None, stage: Stage
) -> Outcome:
    def phase(name: str) -> protocol.Progress:
        return lambda done, total, label: on_progress(name, done, total, label) if on_progress else None

    detected = stage.detected = bench.detect()
    stage.observations += bench.measure(detected, facts.effort == "quick", phase("measure"))
    if any(any(of_kind(item.notes, STOPPED)) for item in stage.observations):
        raise KeyboardInterrupt
    workload = bench.workload(bench.ceilings(detected, stage.observations))
    stage.observations += workload.observations
    machine = bench.ceilings(detected, stage.observations)
    assessed = quality(stage.observations, machine)
    if assessed.provisional:
        machine = replace(machine, conditions={**machine.conditions, PROVISIONAL: assessed.reason})
    machine, calibrated = bench.calibrate(machine, workload, phase("calibrate"))
    prediction = predict(Program(tuple(Step(kernel.name, kernel.work) for kernel in workload.kernels)), machine)
    seal = seal_prediction(ledger, prediction)
    begun = datetime.now(UTC).isoformat()
    runs = bench.run(workload, begun, phase("run"))
    report, sealed = _settled(prediction, seal, runs, begun)
    items = _items(report, workload.kernels, runs.observations)
    summary = facts.after(bench.place, bench.clock.now() - begin).judged(items, assessed, next_move(report, items))
    remarks = tuple(text for text in (_not_run(workload, runs), workload.left_out, seal.note) if text)
    return Outcome(
        prediction.machine,
        (*stage.observations, *runs.observations.values()),
        sealed,
        items,
        summary.sentence,
        summary,
        (*((calibrated,) if calibrated else ()), *remarks),
        remarks,
        runs.stopped,
    )


class Seal(NamedTuple):
    """A sealed prediction, the ledger that has it, and a remark where that is not the user's."""

    ledger: Ledger
    sealed: Sealed
    note: str = ""


def seal_prediction(ledger: Ledger | None, prediction: Prediction) -> Seal:
    """Fixed in the user's ledger; where there can be none, in one of this run alone, and the remark says so."""
    rows, machine = rows_of(prediction), prediction.machine
    text = machine_file.text(machine)
    try:
        ledger = ledger or open_ledger()
        return Seal(ledger, ledger.seal(rows, text, machine.name, note="ridgeline run"))
    except RidgelineError as error:
        private = open_ledger(Path(tempfile.mkdtemp(prefix="ridgeline-")) / "ledger.sqlite")
        sealed = private.seal(rows, text, machine.name, note="ridgeline run")
        return Seal(private, sealed, f"sealed only in {private.path}: {error}")


def _settled(prediction: Prediction, seal: Seal, runs: KernelRuns, begun: str) -> tuple[Report, dict[str, Any]]:
    """The runs reconciled with the sealed predictions, in the ledger too."""
    sealed = seal.sealed
    report = reconcile(
        prediction, list(runs.observations.values()), sealed={"id": sealed.id, "time": sealed.time}
    )  # fmt: skip
    settled = seal.ledger.settle(sealed.id, settled_items(report, sealed, begun), {"tools": ["ridgeline run"]})
    return report, {**to_document(sealed), "settled": to_document(settled), "note": seal.note}


def _items(
    report: Report, kernels: Sequence[Kernel], observed: Mapping[str, Observation]
) -> tuple[dict[str, Any], ...]:
    how = {kernel.name: kernel.how for kernel in kernels}
    return tuple(
        {
            **to_document(item),
            "how": how[item.name],
            "limiter": item.gap.target.limiter,
            "predicted": item.gap.target.time,
            "measured": item.gap.measured,
            **verdict(item.gap, observed[item.name]),
        }
        for item in report.items
    )


def _not_run(workload: Workload, runs: KernelRuns) -> str:
    """One sentence on kernels that were predicted and have no time."""
    if runs.refused:
        return "not timed: " + "; ".join(f"{name} ({why})" for name, why in runs.refused.items())
    if not runs.stopped:
        return ""
    missing = [kernel.name for kernel in workload.kernels if kernel.name not in runs.observations]
    names = ", ".join(missing)
    return f"{protocol.STOPPED}: " + (f"not run: {names}" if missing else "fewer samples than planned")
