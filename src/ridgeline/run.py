"""The main job: measure this machine, predict a handful of kernels, seal, run them, put both side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from . import __version__
from .calibrate import calibrate
from .machine import Figure, Machine
from .machines import detect, save
from .measure import build, cpu, protocol
from .measure.suite import Kernel, Suite
from .observation import Observation
from .prediction import Prediction, plain, predict
from .seal import seal, verify
from .units import show

Progress = Callable[[str, int, int, str], None]  # phase, steps done, steps in all, what is being done

REST = 0.3  # seconds until the idle threads of a BLAS have stopped spinning
GOOD = (0.65, 0.85)  # of the roof: where tuned kernels usually land
FAULT, AGAIN = 0.5, 0.9  # below the first suspect a fault, above the second measure again


@dataclass(frozen=True)
class Outcome:
    machine: Machine
    observations: tuple[Observation, ...]
    sealed: dict[str, Any]
    items: tuple[dict[str, Any], ...]
    sentence: str


def measured_machine(
    observations: Sequence[Observation], found: Machine, conditions: Mapping[str, str] | None = None
) -> Machine:
    """The detected machine with what was measured, and what the BLAS reaches of the arithmetic peak."""
    machine = calibrate(found, observations, conditions)
    shares = dict(machine.efficiency)
    for item in observations:
        library, peak = item.settings.get("library"), machine.peaks.get(item.target)
        if library and peak is not None and peak.measured:
            share = min(item.best_rate / peak.measured, 1.0)
            known = shares.get(f"gemm.{item.target}")
            if known is None or (known.measured or 0.0) < share:
                told = f"{library} reaches {share:.0%} of the {item.target} peak measured here"
                shares[f"gemm.{item.target}"] = Figure("", measured=share, source=told, measurement=told)
    # what detection could not know, measuring has found out
    notes = tuple(note for note in machine.notes if not note.startswith(("No peaks:", "Memory and cache bandwidth")))
    return replace(machine, efficiency=shares, notes=notes)


def job(quick: bool = True, on_progress: Progress | None = None, clock: protocol.Clock = protocol.REAL) -> Outcome:
    """All steps in order; everything it returns is plain enough for a report."""

    def tell(phase: str) -> Callable[[int, int, str], None]:
        return lambda done, total, label: on_progress(phase, done, total, label) if on_progress else None

    found = detect.here("cpu")
    observations = list(cpu.measure(found, quick=quick, clock=clock, on_progress=tell("measure")))
    time.sleep(REST)
    kernels, more = _kernels(found, clock)
    observations += more
    machine = measured_machine(observations, found)
    predictions = [predict(kernel.work, machine) for kernel in kernels]
    rows = [
        next(prediction.rows()) | {"name": kernel.name} for kernel, prediction in zip(kernels, predictions, strict=True)
    ]
    sealed = seal(rows, save.text(machine), datetime.now(UTC).isoformat(timespec="seconds"), __version__)
    # the library's products go last and apart: its idle threads spin and would take cores from whoever comes next
    own, library = ([kernel for kernel in kernels if kernel.library is wanted] for wanted in (False, True))
    series = [
        row
        for group in (own, library)
        for row in protocol.interleave(
            [kernel.probe() for kernel in group], rounds=7, clock=clock, on_progress=tell("run"), least=0.02
        ).series
    ]
    verify(sealed)
    seen = {row.probe.name: protocol.observation(row, {}, __version__) for row in series}
    items = tuple(
        settle(kernel, prediction, seen[kernel.name])
        for kernel, prediction in zip(kernels, predictions, strict=True)
        if kernel.name in seen
    )
    return Outcome(machine, (*observations, *seen.values()), sealed, items, sentence(items))


def _kernels(found: Machine, clock: protocol.Clock) -> tuple[list[Kernel], list[Observation]]:
    """The suite and what is measured with it; without a compiler only NumPy's product is left."""
    cache = max((level.total or 0.0 for level in found.levels[:-1]), default=0.0)
    try:
        suite = Suite(build.build().library, cache)
    except build.BuildError:
        return [Suite.without_library(cache).gemm()], []
    ran = protocol.interleave([suite.exponential()], rounds=5, clock=clock, least=0.02)
    return suite.kernels(), [protocol.observation(series, {}, __version__) for series in ran.series]


def settle(kernel: Kernel, prediction: Prediction, seen: Observation) -> dict[str, Any]:
    """One kernel's prediction against its run. Without counters the counts are the algorithm's own."""
    bound = prediction.bounds[0]
    floor, expected = float(np.asarray(prediction.floor)), float(np.asarray(prediction.time))
    share = floor / seen.median
    return {
        "name": kernel.name,
        "how": kernel.how,
        "flops": float(np.asarray(kernel.work.flops)),
        "bytes": float(np.asarray(kernel.work.bytes)),
        "engine": plain(bound.engine, 0),
        "bound_predicted": str(bound.bound),
        "limiter": str(bound.limiter),
        "floor_us": floor * 1e6,
        "predicted_us": expected * 1e6,
        "measured_us": seen.median * 1e6,
        "best_us": seen.best * 1e6,
        "spread": seen.spread,
        "predicted": expected,
        "measured": seen.median,
        "error": expected / seen.median - 1,
        "vertical_gap": seen.median / floor,
        "share_of_roof": share,
        "band": band(share),
        "notes": list(seen.notes),
    }


def band(share: float) -> str:
    if share > 1.03:
        return "above the roof: the ceiling is set too low or the data were in cache"
    if share > AGAIN:
        return "at the roof"
    if share >= GOOD[0]:
        return "where good kernels live"
    return "below the usual band" if share >= FAULT else "far below: suspect a fault or a limit the model does not have"


def sentence(items: Sequence[dict[str, Any]]) -> str:
    """What came out, in one sentence made of the data."""
    if not items:
        return "nothing was run, so nothing can be said"
    errors = sorted(abs(item["error"]) for item in items)
    middle = float(np.median(errors))
    worst = max(items, key=lambda item: abs(item["error"]))
    widest = max(items, key=lambda item: item["measured"] - item["floor_us"] / 1e6)
    lost = widest["measured"] - widest["floor_us"] / 1e6
    return (
        f"{len(items)} kernels: predicted times are off by {middle:.0%} in the middle, most for {worst['name']} ({worst['error']:+.0%}); "
        f"the widest gap to the roof is that of {widest['name']}, {show(lost, 's', 3)} above its floor, limited by {widest['limiter']}."
    )
