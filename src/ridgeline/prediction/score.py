"""Expected times against measured ones, by kernel family, beside three simple predictors on the same cases.

    roofline    max(flops / peak, bytes / bandwidth) at the stated figures, at the best there are where none is stated
    flat        0.78 of it, and no less than a launch
    fitted      max(flops / (a peak), bytes / (b bandwidth)) + t0, three numbers per family and format, fitted on the
                half of the cases that is not judged

Errors are |predicted - measured| / measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.families import Coefficient
from ..core.machine import Machine
from ..core.row_files import Row
from ..core.units import number
from ..programs.ops import find
from . import expected as timing
from .solve import solve
from .table import Defaults, run

Vector = NDArray[np.float64]
FLAT = 0.78
SPLIT_BY_DTYPE = ("gemm",)
THREE = {
    "compute": Coefficient(0.7, 0.01, 2.0, "share of the peak"),
    "memory": Coefficient(0.8, 0.01, 2.0, "share of the bandwidth"),
    "start": Coefficient(3e-6, 1e-8, 1e-2, "seconds added"),
}
METHODS = ("ridgeline", "roofline", "flat", "fitted")


@dataclass(frozen=True)
class Score:
    """Errors of one predictor over some cases."""

    median: float
    mean: float
    p90: float
    signed: float  # median of predicted / measured - 1

    @classmethod
    def of(cls, predicted: Vector, measured: Vector) -> Score:
        error = predicted / measured - 1
        size = np.abs(error)
        return cls(
            *(float(value) for value in (np.median(size), size.mean(), np.quantile(size, 0.9), np.median(error)))
        )

    def document(self) -> dict[str, float]:
        return {"median": self.median, "mean": self.mean, "p90": self.p90, "signed_median": self.signed}


@dataclass(frozen=True)
class Judged:
    """A family's cases: what was measured and what each predictor said, in seconds."""

    family: str
    measured: Vector
    predicted: Mapping[str, Vector]
    inside: Vector  # whether the measured time lies in the 80 % interval

    def score(self, method: str = "ridgeline") -> Score:
        return Score.of(self.predicted[method], self.measured)


@dataclass(frozen=True)
class Evaluation:
    machine: str
    families: tuple[Judged, ...]
    rows: tuple[Row, ...]
    errors: tuple[str, ...]  # of the rows that could not be judged: which and why

    @property
    def failed(self) -> int:
        return len(self.errors)

    @property
    def pooled(self) -> Judged:
        return Judged(
            "all",
            np.concatenate([one.measured for one in self.families]),
            {name: np.concatenate([one.predicted[name] for one in self.families]) for name in METHODS},
            np.concatenate([one.inside for one in self.families]),
        )

    def document(self) -> dict[str, Any]:
        told = [
            {
                "family": one.family,
                "cases": len(one.measured),
                "inside_interval": float(one.inside.mean()),
                **{name: one.score(name).document() for name in METHODS},
            }
            for one in (*self.families, self.pooled)
        ]
        return {"machine": self.machine, "families": told, "failed": self.failed, "errors": list(self.errors)}


def family_of(row: Row) -> str:
    """The name a case is judged under: its op's family, products by format, decoding apart from whole sequences."""
    family = find(str(row["op"])).family
    if family == "attention" and number(str(row["seq_q"])) == 1:
        return "attention decode"
    return f"{family} {row['dtype']}" if family in SPLIT_BY_DTYPE else family


def _three(rows: Sequence[Row], compute: Vector, memory: Vector, measured: Vector) -> Vector:
    """The three-number predictor, each half of the cases judged with what the other half gave."""
    predicted = np.empty_like(measured)
    alike: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        alike.setdefault(f"{family_of(row)} {row['dtype']}", []).append(place)

    def formula(c: Mapping[str, float], chosen: NDArray[np.int64]) -> Vector:
        return np.maximum(compute[chosen] / c["compute"], memory[chosen] / c["memory"]) + c["start"]

    for members in alike.values():
        places = np.array(members)
        half = np.random.default_rng(len(places)).permutation(len(places)) % 2 == 0
        for side in (False, True):
            train, judge = places[half == side], places[half != side]
            if len(judge) == 0:
                continue
            used = train if len(train) else judge
            found = solve(lambda c, used=used: formula(c, used), measured[used], THREE)  # type: ignore[misc]
            predicted[judge] = formula(found, judge)
    return predicted


def evaluate(rows: Iterable[Row], defaults: Defaults) -> Evaluation:
    """Judge the expected times of cases that carry a measured `time_us`."""
    given = list(rows)
    if all(row.get("time_us") in (None, "") for row in given):
        raise InputError("no case has a measured time; the column is time_us, in microseconds")
    made, wrong = run(given, defaults)
    stated, _ = run(given, replace(defaults, options={**defaults.options, "ceilings": "stated"}))
    for index, row in enumerate(made, 1):
        if index not in wrong and _time(row) is None:
            told = row.get("given_time_us")
            what = "is empty" if told in (None, "") else f"must be a positive number of microseconds, got '{told}'"
            wrong[index] = f"row {index}, column time_us: {what}"
    errors = tuple(wrong[index] for index in sorted(wrong))
    if len(errors) == len(given):
        raise InputError(f"none of the {len(given)} cases could be judged; the first: {errors[0]}")
    good = [
        (row, row if paper["error"] else paper, str(asked.get("machine") or ""))
        for index, (asked, row, paper) in enumerate(zip(given, made, stated, strict=True), 1)
        if index not in wrong
    ]
    kept = [row for row, _, _ in good]
    measured = np.array([_time(row) for row in kept], dtype=np.float64) * 1e-6
    floor = np.array([paper["floor_us"] for _, paper, _ in good]) * 1e-6
    chosen = {name: defaults.load(name) if name else defaults.machine for name in {name for _, _, name in good}}
    on = [machine for _, _, name in good if (machine := chosen[name]) is not None]
    launch = np.array([timing.launch_latency(machine) for machine in on])
    compute, memory = _sides([paper for _, paper, _ in good], on)
    predicted = {
        "ridgeline": np.array([row["time_us"] for row in kept]) * 1e-6,
        "roofline": floor,
        "flat": np.maximum(floor / FLAT, launch),
        "fitted": _three(kept, compute, memory, measured),
    }
    inside = np.array([row["low_us"] <= _time(row) <= row["high_us"] for row in kept], dtype=np.float64)
    names = np.array([family_of(row) for row in kept])
    families = tuple(
        Judged(
            name,
            measured[names == name],
            {key: value[names == name] for key, value in predicted.items()},
            inside[names == name],
        )
        for name in sorted(set(names))
    )
    machines = sorted({str(row["machine"]) for row in kept})
    return Evaluation(", ".join(machines), families, tuple(kept), errors)


def _time(row: Row) -> float | None:
    """The measured time, under the name that `cases.run` gives it."""
    try:
        value = float(row.get("given_time_us", ""))
    except (TypeError, ValueError):
        return None
    return value if 0 < value < float("inf") else None


def _sides(papers: Sequence[Row], on: Sequence[Machine]) -> tuple[Vector, Vector]:
    """Seconds at the stated peak and at the stated bandwidth."""
    figures = [machine.main.bandwidth for machine in on]
    bandwidth = np.array([figure.value() if figure.stated is None else figure.stated for figure in figures])
    memory = np.array([row["bytes"] for row in papers]) / bandwidth
    compute = np.array(
        [
            row["flops"] / (row["ridge"] * width) if row["ridge"] else 0.0
            for row, width in zip(papers, bandwidth, strict=True)
        ]
    )
    return compute, memory
