"""Times of a plan's units: each predicted once, the formulas of all of them evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.machine import Machine
from ...core.work import Program, Step
from ..host import launch_latency
from ..kernel_times import evaluate_together
from ..predict import Prediction, predict
from ..queue import Floats, Ints
from .cache import Cache, time_ratio
from .plan import Plan, Unit

LABELS = ("uncalibrated", "transferred", "calibrated")  # worst first


@dataclass(frozen=True)
class Parts:
    """The kernels of all units as columns: one unit may run several, one after the other."""

    unit: Ints
    time: Floats  # cold, all of its calls within the unit together
    low: Floats
    high: Floats
    floor: Floats
    launch: Floats  # seconds that it takes however little it does
    memory: Floats  # its memory term
    other: Floats  # its longest other term
    launches: Floats

    def sums(self, values: Floats, units: int) -> Floats:
        return np.bincount(self.unit, values, minlength=units).astype(np.float64)


def predictions(units: Sequence[Unit], machine: Machine, ceilings: str | None) -> list[Prediction | str]:
    """Of each unit with work, or why there is none; empty text for a unit without work."""
    made: list[Prediction | str] = []
    for unit in units:
        if unit.work is None:
            made.append("")
            continue
        try:
            step = Step(unit.op.site.call.name, unit.work, 1.0, unit.backend)
            made.append(predict(Program((step,)), machine, ceilings))
        except RidgelineError as error:
            made.append(str(error))
    known = [item for item in made if isinstance(item, Prediction)]
    evaluate_together(kernel for each in known for expected in each.expected for kernel in expected.kernels)
    return made


def parts(made: Sequence[Prediction | str], machine: Machine) -> Parts:
    rows: list[tuple[Any, ...]] = []
    latency = launch_latency(machine)
    for unit, prediction in enumerate(made):
        if isinstance(prediction, str):
            continue
        for step, bound, expected in zip(prediction.steps, prediction.bounds, prediction.expected, strict=True):
            count = float(np.asarray(step.count))
            launches = float(np.asarray(step.work.waits.get("launch", 1.0)))
            time = float(np.asarray(expected.time))
            values = (time, expected.low, expected.high, bound.floor, min(latency * launches, time))
            terms = (bound.memory_time, bound.compute_time, launches)
            rows.append((unit, *(float(np.asarray(value)) * count for value in (*values, *terms))))
    columns = np.array(rows, dtype=np.float64).reshape(-1, 9).T
    return Parts(columns[0].astype(np.int64), *columns[1:])


def run_times(plan: Plan, units: Parts, hits: Floats, cache: Cache | None) -> Floats:
    """Seconds of each run with what it finds in the cache; 0 for runs without a prediction."""
    cold = units.sums(units.time, len(plan.units))[plan.unit]
    if cache is None or not hits.any():
        return cold
    moved = np.array(
        [sum(size for _, size in (*read, *written)) for read, written in zip(plan.reads, plan.writes, strict=True)]
    )
    share = np.divide(hits, moved, out=np.zeros(len(plan)), where=moved > 0)
    warm = cold.copy()
    starts = np.searchsorted(units.unit, np.arange(len(plan.units) + 1))
    for run in np.flatnonzero(share > 0).tolist():
        rows = slice(starts[plan.unit[run]], starts[plan.unit[run] + 1])
        ratio = time_ratio(units.memory[rows], units.other[rows], np.asarray(share[run]), cache.speedup)
        warm[run] = float((units.launch[rows] + (units.time[rows] - units.launch[rows]) * ratio).sum())
    return np.minimum(warm, cold)
