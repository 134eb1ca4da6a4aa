"""The main job: measure this machine, predict a handful of kernels, seal, run them, put both side by side."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..core.errors import RidgelineError
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.version import __version__
from ..core.work import Program, Step
from ..gaps.ledger import Ledger, Sealed, open_ledger
from ..gaps.report import reconcile
from ..gaps.settle import rows_of, settled_items
from ..machines import write as save
from ..machines.detect import local as detect
from ..measure import protocol
from ..measure.cpu import build
from ..measure.cpu import probes as cpu
from ..measure.cpu.suite import Kernel, Suite
from ..measure.session import measured_machine
from ..prediction.predict import predict

Progress = Callable[[str, int, int, str], None]  # phase, steps done, steps in all, what is being done

REST = 0.3  # seconds until the idle threads of a BLAS have stopped spinning


@dataclass(frozen=True)
class Outcome:
    """What came of the job; `sealed` and `items` are empty where it was stopped before any kernel ran."""

    machine: Machine
    observations: tuple[Observation, ...]
    sealed: dict[str, Any]
    items: tuple[dict[str, Any], ...]
    sentence: str


def job(
    quick: bool = True,
    on_progress: Progress | None = None,
    clock: protocol.Clock = protocol.REAL,
    ledger: Ledger | None = None,
) -> Outcome:
    """All steps in order; everything it returns is plain enough for a report.

    Ctrl-C ends it at once: what was measured and which kernels had run is returned, and the sentence says so.
    """

    def tell(phase: str) -> Callable[[int, int, str], None]:
        return lambda done, total, label: on_progress(phase, done, total, label) if on_progress else None

    observations: list[Observation] = []
    found: Machine | None = None
    try:
        found = detect.here("cpu")
        observations += cpu.measure(found, quick=quick, clock=clock, on_progress=tell("measure"))
        if cpu.stopped(observations):
            raise KeyboardInterrupt
        time.sleep(REST)
        kernels, more, left = _kernels(found, clock)
        observations += more
        machine = measured_machine(observations, found)
        outcome = _settled(kernels, observations, machine, clock, tell("run"), ledger)
        return replace(outcome, sentence=f"{outcome.sentence} {left}") if left else outcome
    except KeyboardInterrupt:
        if found is None or not observations:
            raise RidgelineError(f"{protocol.STOPPED} before anything was measured; nothing was written") from None
        told = f"{protocol.STOPPED} before any kernel had run: the ceilings measured until then are all there is"
        return Outcome(measured_machine(observations, found), tuple(observations), {}, (), told)


def _settled(
    kernels: Sequence[Kernel],
    observations: Sequence[Observation],
    machine: Machine,
    clock: protocol.Clock,
    tell: protocol.Progress,
    ledger: Ledger | None,
) -> Outcome:
    """Predict, seal, run, reconcile; KeyboardInterrupt where it is stopped before any kernel has a sample."""
    prediction = predict(Program(tuple(Step(kernel.name, kernel.work) for kernel in kernels)), machine)
    book, sealed, note = _seal(ledger or open_ledger(), rows_of(prediction), machine)
    begun = datetime.now(UTC).isoformat()
    # the library's products go last and apart: its idle threads spin and would take cores from whoever comes next
    own, library = ([kernel for kernel in kernels if kernel.library is wanted] for wanted in (False, True))
    series: list[protocol.Series] = []
    ended = False
    for group in (own, library):
        if not ended:
            probes = [kernel.probe() for kernel in group]
            ran = protocol.interleave(probes, rounds=7, clock=clock, on_progress=tell, min_seconds=0.02)
            ended = ran.why == protocol.STOPPED
            series += ran.series
    if not series:
        raise KeyboardInterrupt
    seen = {row.probe.name: protocol.observation(row, {"date": begun}, __version__) for row in series}
    report = reconcile(prediction, list(seen.values()), sealed={"id": sealed.id, "time": sealed.time})
    settled = book.settle(sealed.id, settled_items(report, sealed, begun), {"tools": ["ridgeline run"]})
    told = {kernel.name: kernel.how for kernel in kernels}
    items = tuple(
        {
            **item.document(),
            "how": told[item.name],
            "limiter": item.gap.target.limiter,
            "predicted": item.gap.target.time,
            "measured": item.gap.measured,
            **_disturbed(seen[item.name]),
        }
        for item in report.items
    )
    document = {**sealed.document(), "settled": settled.document(), "note": note}
    sentence = _caution(list(seen.values())) + report.sentence
    if ended:
        left = [kernel.name for kernel in kernels if kernel.name not in seen]
        missed = f"not run: {', '.join(left)}" if left else "fewer samples than planned"
        sentence += f" It was {protocol.STOPPED}: {missed}."
    return Outcome(machine, (*observations, *seen.values()), document, items, sentence)


def _caution(seen: Sequence[Observation]) -> str:
    """What must be known before anything is concluded from times that other programs made longer."""
    held = sum("stand_in_busy" in item.conditions for item in seen)
    return (
        f"Other programs had the cores while {held} of {len(seen)} kernels ran, so these took too long. "
        if held
        else ""
    )


def _disturbed(seen: Observation) -> dict[str, Any]:
    """Where only a disturbed sample could be had: it may be so much too slow, and no verdict on the kernel stands on it."""
    busy = seen.conditions.get("stand_in_busy")
    return {"spread": 1 / busy - 1, "band": "no verdict: other programs had the cores"} if busy else {}


def _seal(book: Ledger, rows: list[dict[str, Any]], machine: Machine) -> tuple[Ledger, Sealed, str]:
    """Fixed in the user's ledger; where that cannot be written, in one beside the run, and a note says so."""
    text = save.text(machine)
    try:
        return book, book.seal(rows, text, machine.name, note="ridgeline run"), ""
    except RidgelineError as error:
        book = open_ledger(Path(tempfile.mkdtemp(prefix="ridgeline-")) / "ledger.sqlite")
        return book, book.seal(rows, text, machine.name, note="ridgeline run"), f"sealed in {book.path} alone: {error}"


COMPILED = ("triad", "dot", "gemv", "softmax", "layernorm", "stencil 3x3")  # kernels of the suite that are C


def _kernels(found: Machine, clock: protocol.Clock) -> tuple[list[Kernel], list[Observation], str]:
    """The suite and what is measured with it; without a compiler only NumPy's product is left, and a sentence says so."""
    cache = max((level.total or 0.0 for level in found.levels[:-1]), default=0.0)
    try:
        suite = Suite(build.build().library, cache)
    except build.BuildError as error:
        left = f"Not run, because they are C: {', '.join(COMPILED)} ({str(error).rstrip('.')})."
        return [Suite.without_library(cache).gemm()], [], left
    ran = protocol.interleave([suite.exponential()], rounds=5, clock=clock, min_seconds=0.02)
    if ran.why == protocol.STOPPED:
        raise KeyboardInterrupt
    return suite.kernels(), [protocol.observation(series, {}, __version__) for series in ran.series], ""
