"""Times of a plan's units: each predicted once, the formulas of all of them evaluated together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.families.effects import LAUNCH
from ...core.machine import Machine
from ...core.work import Program, Step, total
from ..host import launch_latency
from ..predict import Prediction, predict
from ..queue import Floats, Ints
from ..residence import holding, stays_in_cache
from ..together import evaluate_together
from .cache import Cache, warm_time
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


def predictions(plan: Plan, machine: Machine, ceilings: str | None) -> list[Prediction | str]:
    """Of each unit with work, or why there is none; empty text for a unit without work.

    Equal calls at several places of the program are predicted once. On a CPU whose cache holds what a step writes, they find
    their operands there, as steps that are repeated do.
    """
    made: dict[Any, Prediction | str] = {}
    keys = [_key(unit) for unit in plan.units]
    counts = np.bincount(plan.unit, plan.times, minlength=len(plan.units))
    works = [(unit.work, float(count)) for unit, count in zip(plan.units, counts, strict=True) if unit.work is not None]
    cached = stays_in_cache(machine, works)
    for unit, key in zip(plan.units, keys, strict=True):
        if key in made:
            continue
        made[key] = ""
        if unit.work is not None:
            try:
                step = Step(unit.op.site.call.name, unit.work, 1.0, unit.backend)
                level = holding(machine, float(step.work.footprint), ceilings) if cached else None
                made[key] = predict(Program((step,)), machine, ceilings, resident=level)
            except RidgelineError as error:
                made[key] = str(error)
    known = [item for item in made.values() if isinstance(item, Prediction)]
    evaluate_together(expected for each in known for expected in each.expected)
    return [made[key] for key in keys]


def _key(unit: Unit) -> Any:
    """Equal for units of equal work; the call of an op decides on it."""
    if unit.work is None:
        return None
    try:
        key = (unit.op.site.call, unit.backend, unit.variant)
        hash(key)
    except TypeError:
        return id(unit)
    return key


def parts(made: Sequence[Prediction | str], machine: Machine) -> Parts:
    rows: list[tuple[Any, ...]] = []
    latency, known = launch_latency(machine), dict[int, list[tuple[float, ...]]]()
    for unit, prediction in enumerate(made):
        if isinstance(prediction, str):
            continue
        if id(prediction) not in known:
            known[id(prediction)] = _columns(prediction, latency)
        rows += [(unit, *row) for row in known[id(prediction)]]
    columns = np.array(rows, dtype=np.float64).reshape(-1, 9).T
    return Parts(columns[0].astype(np.int64), *columns[1:])


def _columns(prediction: Prediction, latency: float) -> list[tuple[float, ...]]:
    """The kernels of one unit, in the order of the columns of Parts."""
    rows = []
    for step, bound, expected in zip(prediction.steps, prediction.bounds, prediction.expected, strict=True):
        count = float(np.asarray(step.count))
        launches = float(np.asarray(step.work.waits.get("launch", 1.0)))
        time = float(np.asarray(expected.time))
        fixed = [item.seconds for kernel in expected.kernels for item in kernel.effects if item.kind == LAUNCH.kind]
        launch = float(np.asarray(total(fixed))) if fixed else latency * launches
        values = (time, expected.low, expected.high, bound.floor, min(launch, time))
        terms = (bound.memory_time, bound.compute_time, launches)
        rows.append(tuple(float(np.asarray(value)) * count for value in (*values, *terms)))
    return rows


def run_times(plan: Plan, units: Parts, hits: Floats, cache: Cache | None) -> Floats:
    """Seconds of each run with what it finds in the cache; 0 for runs without a prediction."""
    cold = units.sums(units.time, len(plan.units))[plan.unit]
    if cache is None or not hits.any():
        return cold
    read, written = (
        np.array([sum(size for _, size in accesses) for accesses in listed]) for listed in (plan.reads, plan.writes)
    )
    of_reads, of_all = (
        np.divide(hits, moved, out=np.zeros(len(plan)), where=moved > 0) for moved in (read, read + written)
    )
    warm, starts = cold.copy(), np.searchsorted(units.unit, np.arange(len(plan.units) + 1))
    for run in np.flatnonzero(hits > 0).tolist():
        rows = slice(starts[plan.unit[run]], starts[plan.unit[run] + 1])
        time, launch, memory, other = (column[rows] for column in (units.time, units.launch, units.memory, units.other))
        warm[run] = float(warm_time(time, launch, memory, other, of_reads[run], of_all[run], cache).sum())
    return warm
