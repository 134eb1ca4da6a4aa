"""Errors of expected times against measured ones, by kernel family, and of three simple predictors on the same cases.

    roofline    max(flops / peak, bytes / bandwidth) at the stated figures, at the best there are where none is stated
    flat        0.78 of it, and no less than a launch
    fitted      max(flops / (a peak), bytes / (b bandwidth)) + t0, three numbers per family and dtype, fitted on the
                half of the cases that is not evaluated; left out where SciPy is not installed

Errors are |predicted - measured| / measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.documents import to_document
from ..core.errors import InputError, quoted
from ..core.families import Coefficient
from ..core.machine import Machine
from ..core.statistics import Errors, Vector
from ..core.tabular import MAX_NUMBER, Row
from ..core.units import number
from ..programs.ops import find
from .fit.least_squares import available, folds, solve
from .host import launch_latency
from .simple import EFFICIENCY
from .table import Defaults, run

MIN_TIME = 1e-9  # microseconds that a measured time has at least
SPLIT_BY_DTYPE = ("gemm",)
METHODS = ("ridgeline", "roofline", "flat", "fitted")
THREE_NUMBERS = {
    "compute": Coefficient(0.7, 0.01, 2.0, "share of the peak"),
    "memory": Coefficient(0.8, 0.01, 2.0, "share of the bandwidth"),
    "start": Coefficient(3e-6, 1e-8, 1e-2, "seconds added"),
}


@dataclass(frozen=True)
class FamilyScore:
    """The cases of a family: measured seconds and those of each predictor."""

    family: str
    measured: Vector
    predicted: Mapping[str, Vector]
    inside: Vector  # 1 where the measured time is inside the 80 % interval, else 0

    def errors(self, method: str = "ridgeline") -> Errors:
        return Errors.of(self.predicted[method], self.measured)


@dataclass(frozen=True)
class Evaluation:
    machine: str
    families: tuple[FamilyScore, ...]
    rows: tuple[Row, ...]
    row_errors: tuple[str, ...]  # which rows could not be evaluated, and why

    @property
    def failed(self) -> int:
        return len(self.row_errors)

    @property
    def methods(self) -> tuple[str, ...]:
        """The predictors there are, of METHODS."""
        return tuple(name for name in METHODS if name in self.families[0].predicted)

    @property
    def pooled(self) -> FamilyScore:
        return FamilyScore(
            "all",
            np.concatenate([family.measured for family in self.families]),
            {name: np.concatenate([family.predicted[name] for family in self.families]) for name in self.methods},
            np.concatenate([family.inside for family in self.families]),
        )


def document(evaluation: Evaluation) -> dict[str, Any]:
    families = []
    for score in (*evaluation.families, evaluation.pooled):
        inside = float(score.inside.mean())
        errors = {name: to_document(score.errors(name)) for name in evaluation.methods}
        families.append({"family": score.family, "cases": len(score.measured), "inside_interval": inside, **errors})
    failed = {"failed": evaluation.failed, "errors": list(evaluation.row_errors)}
    return {"machine": evaluation.machine, "families": families, **failed}


def family_of(row: Row) -> str:
    """The name a case is evaluated under: its op's family, products by dtype, decoding apart from prefill."""
    family = find(str(row["op"])).family
    if family == "attention" and number(str(row["seq_q"])) == 1:
        return "attention decode"
    return f"{family} {row['dtype']}" if family in SPLIT_BY_DTYPE else family


def evaluate(rows: Iterable[Row], defaults: Defaults) -> Evaluation:
    """Compare the expected times of cases with the measured `time_us` they carry."""
    given = list(rows)
    if all(row.get("time_us") in (None, "") for row in given):
        raise InputError("no case has a measured time; the column is time_us, in microseconds")
    predicted, wrong = run(given, defaults)
    at_vendor_rates = replace(defaults, options={**defaults.options, "ceilings": "stated"})
    stated, _ = run(given, at_vendor_rates, results=("flops", "bytes", "ridge", "floor_us"))
    for index, row in enumerate(predicted, 1):
        if index not in wrong and _time(row) is None:
            text = row.get("given_time_us")
            what = (
                "is empty" if text in (None, "") else f"must be a positive number of microseconds, got {quoted(text)}"
            )
            wrong[index] = f"row {index}, column time_us: {what}"
    row_errors = tuple(wrong[index] for index in sorted(wrong))
    if len(row_errors) == len(given):
        raise InputError(f"none of the {len(given)} cases could be evaluated; the first: {row_errors[0]}")
    good = [index for index in range(len(given)) if index + 1 not in wrong]
    kept = tuple(predicted[index] for index in good)
    at_stated = [predicted[index] if stated[index]["error"] else stated[index] for index in good]
    measured = np.array([_time(row) for row in kept], dtype=np.float64) * 1e-6
    times = _times(kept, at_stated, measured, _machines([given[index] for index in good], defaults))
    inside = np.array([row["low_us"] <= _time(row) <= row["high_us"] for row in kept], dtype=np.float64)
    names = np.array([family_of(row) for row in kept])
    families = tuple(
        FamilyScore(name, measured[at], {method: value[at] for method, value in times.items()}, inside[at])
        for name in sorted(set(names))
        for at in [names == name]
    )
    return Evaluation(", ".join(sorted({str(row["machine"]) for row in kept})), families, kept, row_errors)


def _machines(given: Sequence[Row], defaults: Defaults) -> list[Machine]:
    """The machine of every row: the one it names, else the one of all rows."""
    names = [str(row.get("machine") or "") for row in given]
    machines = {name: defaults.load(name) if name else defaults.machine for name in set(names)}
    return [machine for name in names if (machine := machines[name]) is not None]


def _times(
    rows: Sequence[Row], at_stated: Sequence[Row], measured: Vector, machines: Sequence[Machine]
) -> dict[str, Vector]:
    """Predicted seconds by method."""
    floor = np.array([row["floor_us"] for row in at_stated]) * 1e-6
    launch = np.array([launch_latency(machine) for machine in machines])
    times = {
        "ridgeline": np.array([row["time_us"] for row in rows]) * 1e-6,
        "roofline": floor,
        "flat": np.maximum(floor / EFFICIENCY, launch),
    }
    if available():
        groups = [f"{family_of(row)} {row['dtype']}" for row in rows]
        times["fitted"] = _three_number_times(groups, *_sides(at_stated, machines), measured)
    return times


def _time(row: Row) -> float | None:
    """The measured time, under the name that `run` gives it."""
    cell = row.get("given_time_us", "")
    try:
        value = 0.0 if isinstance(cell, bool) else float(cell)
    except (TypeError, ValueError, OverflowError):
        return None
    return value if MIN_TIME <= value <= MAX_NUMBER else None


def _sides(rows: Sequence[Row], machines: Sequence[Machine]) -> tuple[Vector, Vector]:
    """Seconds at the stated peak and at the stated bandwidth."""
    figures = [machine.main.bandwidth for machine in machines]
    bandwidth = np.array([figure.value() if figure.stated is None else figure.stated for figure in figures])
    memory = np.array([row["bytes"] for row in rows]) / bandwidth
    peaks = [row["ridge"] * rate if row["ridge"] else np.inf for row, rate in zip(rows, bandwidth, strict=True)]
    return np.array([row["flops"] for row in rows], dtype=np.float64) / np.array(peaks), memory


def _three_number_times(groups: Sequence[str], compute: Vector, memory: Vector, measured: Vector) -> Vector:
    """Predicted seconds of every case; each half of a group is predicted by numbers fitted to the other half."""
    predicted = np.empty_like(measured)
    names = np.asarray(groups)

    def formula(numbers: Mapping[str, float], cases: NDArray[np.int64]) -> Vector:
        return np.maximum(compute[cases] / numbers["compute"], memory[cases] / numbers["memory"]) + numbers["start"]

    for name in dict.fromkeys(groups):
        members = np.flatnonzero(names == name)
        (half,) = folds([len(members)])
        for side in (1, 0):
            train, held_out = members[half == side], members[half != side]
            if len(held_out) == 0:
                continue
            cases = train if len(train) else held_out
            numbers = solve(lambda c, cases=cases: formula(c, cases), measured[cases], THREE_NUMBERS)  # type: ignore[misc]
            predicted[held_out] = formula(numbers, held_out)
    return predicted
