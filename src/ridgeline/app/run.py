"""The main job: measure this machine, predict a handful of kernels, seal, run them, reconcile."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ..core.documents import to_document
from ..core.errors import RidgelineError
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.version import __version__
from ..core.work import Program, Step
from ..gaps.ledger import Ledger, Sealed, open_ledger
from ..gaps.report import Report, reconcile
from ..gaps.settle import rows_of, settled_items
from ..machines import write as machine_file
from ..machines.calibrate import measured_machine
from ..machines.detect import local as detect
from ..measure import protocol
from ..measure.cpu import build, probes
from ..measure.cpu.suite import Kernel, Suite
from ..prediction.predict import Prediction, predict

Progress = Callable[[str, int, int, str], None]  # phase, steps done, steps in all, what is being done

COMPILED = ("triad", "dot", "gemv", "softmax", "layernorm", "stencil 3x3")  # kernels of the suite that are C
ROUNDS = 7  # samples of every kernel
MIN_SAMPLE_SECONDS = 0.02
BLAS_SPIN_SECONDS = 0.3  # until the idle threads of a BLAS have stopped spinning


@dataclass(frozen=True)
class Outcome:
    """What came of the job; `sealed` and `items` are empty where it was stopped before any kernel ran."""

    machine: Machine
    observations: tuple[Observation, ...]
    sealed: dict[str, Any]
    items: tuple[dict[str, Any], ...]
    sentence: str

    def document(self) -> dict[str, Any]:
        charted = ("predicted", "measured")  # in seconds, for the chart; the document has both in microseconds
        return {
            "machine": to_document(self.machine),
            "sealed": self.sealed,
            "items": [{key: value for key, value in item.items() if key not in charted} for item in self.items],
            "sentence": self.sentence,
            "observations": to_document(self.observations),
        }


class Workload(NamedTuple):
    """Kernels to run, observations that only their predictions need, and which kernels cannot run here and why."""

    kernels: list[Kernel]
    observations: list[Observation]
    left_out: str = ""


class Bench:
    """What the job needs of the CPU it runs on; tests bring a small one with times of its own."""

    clock: protocol.Clock = protocol.REAL

    def detect(self) -> Machine:
        return detect.here("cpu")

    def measure(self, machine: Machine, quick: bool, on_progress: protocol.Progress) -> list[Observation]:
        """The ceilings; Ctrl-C ends it early, and a note says so."""
        return probes.measure(machine, quick=quick, clock=self.clock, on_progress=on_progress)

    def workload(self, machine: Machine) -> Workload:
        """The kernel suite; without a compiler NumPy's product alone."""
        time.sleep(BLAS_SPIN_SECONDS)
        cache = max((level.total or 0.0 for level in machine.levels[:-1]), default=0.0)
        try:
            suite = Suite(build.build().library, cache)
        except build.BuildError as error:
            left_out = f"Not run, because they are C: {', '.join(COMPILED)} ({str(error).rstrip('.')})."
            return Workload([Suite(None, cache).gemm()], [], left_out)
        ran = protocol.interleave([suite.exponential()], rounds=5, clock=self.clock, min_seconds=MIN_SAMPLE_SECONDS)
        if ran.stopped:
            raise KeyboardInterrupt
        return Workload(suite.kernels(), [protocol.observation(series, {}, __version__) for series in ran.series])


def job(
    quick: bool = True, on_progress: Progress | None = None, ledger: Ledger | None = None, bench: Bench | None = None
) -> Outcome:
    """Measure, predict, seal, run, reconcile.

    Ctrl-C ends it at once: what was measured and which kernels had run is returned, and the sentence says so.
    """

    def phase(name: str) -> protocol.Progress:
        return lambda done, total, label: on_progress(name, done, total, label) if on_progress else None

    bench = bench or Bench()
    detected: Machine | None = None
    observations: list[Observation] = []
    try:
        detected = bench.detect()
        observations += bench.measure(detected, quick, phase("measure"))
        if probes.stopped(observations):
            raise KeyboardInterrupt
        workload = bench.workload(detected)
        observations += workload.observations
        machine = measured_machine(observations, detected)
        prediction = predict(Program(tuple(Step(kernel.name, kernel.work) for kernel in workload.kernels)), machine)
        seal = seal_prediction(ledger or open_ledger(), prediction)
        runs = run_kernels(workload.kernels, bench.clock, phase("run"))
        return _outcome(observations, workload, prediction, seal, runs)
    except KeyboardInterrupt:
        if detected is None or not observations:
            raise RidgelineError(f"{protocol.STOPPED} before anything was measured; nothing was written") from None
        sentence = f"{protocol.STOPPED} before any kernel had run: the ceilings measured until then are all there is"
        return Outcome(measured_machine(observations, detected), tuple(observations), {}, (), sentence)


class Seal(NamedTuple):
    """A sealed prediction, the ledger that has it, and a remark where that is not the user's."""

    ledger: Ledger
    sealed: Sealed
    note: str = ""


def seal_prediction(ledger: Ledger, prediction: Prediction) -> Seal:
    """Fixed in the user's ledger; where that cannot be written, in one of this run alone, and the remark says so."""
    rows, machine = rows_of(prediction), prediction.machine
    text = machine_file.text(machine)
    try:
        return Seal(ledger, ledger.seal(rows, text, machine.name, note="ridgeline run"))
    except RidgelineError as error:
        private = open_ledger(Path(tempfile.mkdtemp(prefix="ridgeline-")) / "ledger.sqlite")
        sealed = private.seal(rows, text, machine.name, note="ridgeline run")
        return Seal(private, sealed, f"sealed in {private.path} alone: {error}")


class KernelRuns(NamedTuple):
    """Observations of the kernels that ran, when the first began, and whether Ctrl-C ended the run."""

    observations: dict[str, Observation]
    begun: str
    stopped: bool


def run_kernels(kernels: Sequence[Kernel], clock: protocol.Clock, on_progress: protocol.Progress) -> KernelRuns:
    """Run the kernels in turns; KeyboardInterrupt where it is stopped before any has a sample."""
    begun = datetime.now(UTC).isoformat()
    series: list[protocol.Series] = []
    stopped = False
    # the library's products go last and apart: its idle threads spin and would take cores from whoever comes next
    for library in (False, True):
        probes = [kernel.probe() for kernel in kernels if kernel.library is library]
        if probes and not stopped:
            ran = protocol.interleave(probes, ROUNDS, clock, on_progress, min_seconds=MIN_SAMPLE_SECONDS)
            stopped = ran.stopped
            series += ran.series
    if not series:
        raise KeyboardInterrupt
    observed = {row.probe.name: protocol.observation(row, {"date": begun}, __version__) for row in series}
    return KernelRuns(observed, begun, stopped)


def _outcome(
    ceilings: Sequence[Observation], workload: Workload, prediction: Prediction, seal: Seal, runs: KernelRuns
) -> Outcome:
    """Reconcile the runs with the sealed predictions, in the ledger too."""
    sealed, observed = seal.sealed, runs.observations
    report = reconcile(prediction, list(observed.values()), sealed={"id": sealed.id, "time": sealed.time})
    items = settled_items(report, sealed, runs.begun)
    settled = seal.ledger.settle(sealed.id, items, {"tools": ["ridgeline run"]})
    return Outcome(
        prediction.machine,
        (*ceilings, *observed.values()),
        {**to_document(sealed), "settled": to_document(settled), "note": seal.note},
        _items(report, workload.kernels, observed),
        _sentence(report, workload, runs),
    )


def _items(report: Report, kernels: Sequence[Kernel], observed: dict[str, Observation]) -> tuple[dict[str, Any], ...]:
    how = {kernel.name: kernel.how for kernel in kernels}
    return tuple(
        {
            **to_document(item),
            "how": how[item.name],
            "limiter": item.gap.target.limiter,
            "predicted": item.gap.target.time,
            "measured": item.gap.measured,
            **_without_verdict(observed[item.name]),
        }
        for item in report.items
    )


def _without_verdict(observation: Observation) -> dict[str, Any]:
    """Where only a disturbed sample could be had: it may be so much too slow, and supports no verdict on the kernel."""
    busy = observation.conditions.get("stand_in_busy")
    return {"spread": 1 / busy - 1, "band": "no verdict: other programs had the cores"} if busy else {}


def _sentence(report: Report, workload: Workload, runs: KernelRuns) -> str:
    """What the report concludes, after what made times too long and before what is missing."""
    parts = [_caution(list(runs.observations.values())), report.sentence]
    if runs.stopped:
        missing = [kernel.name for kernel in workload.kernels if kernel.name not in runs.observations]
        lost = f"not run: {', '.join(missing)}" if missing else "fewer samples than planned"
        parts.append(f"It was {protocol.STOPPED}: {lost}.")
    return " ".join(part for part in (*parts, workload.left_out) if part)


def _caution(observations: Sequence[Observation]) -> str:
    """A warning where other programs made the times of kernels longer."""
    disturbed = sum("stand_in_busy" in item.conditions for item in observations)
    text = f"Other programs had the cores while {disturbed} of {len(observations)} kernels ran, so these took too long."
    return text if disturbed else ""
