"""The answer to one `predict`: a case or a sweep, where it turns, what a measured time achieved, and what each number rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.bound import Bound, Term
from ..core.documents import to_document
from ..core.errors import InputError
from ..core.machine import Machine
from ..core.roofline import achieved
from ..core.version import __version__
from ..programs.ops import Op
from .expected import efficiency
from .predict import Prediction, predict
from .turning import TurningPoint, turning_point

SCHEMA = 1
SHARED = ("op", "dtype", "machine", "ceilings")  # fields that most rows have in common
MIN_ITEM_SHARE = 1e-4  # smaller items of time are not listed


@dataclass(frozen=True)
class LevelRow:
    """What crosses one memory level, and which side would bind if this were the only level."""

    level: str
    bandwidth: float | None
    kind: str | None
    bytes: float
    counted: bool  # the floor has a term for it
    intensity: float | None = None
    ridge: float | None = None
    time: float | None = None
    bound: str | None = None


@dataclass(frozen=True)
class CeilingRow:
    """One term of the floor; with flat efficiencies also its expected time."""

    term: str
    side: str
    rate: float
    kind: str
    time: float
    binds: bool
    why: str
    efficiency: float | None = None
    expected: float | None = None


@dataclass(frozen=True)
class ItemRow:
    """A share of the expected time; what an item takes away is negative."""

    item: str
    time: float
    share: float


@dataclass(frozen=True)
class TimeItems:
    """Where the expected time of the first case goes, and the fitted coefficients behind it."""

    items: tuple[ItemRow, ...]
    coefficients: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    op: Op
    values: dict[str, Any]
    prediction: Prediction
    turning: TurningPoint | None = None
    measured: float | None = None  # seconds that the first case took

    @property
    def single(self) -> bool:
        return self.prediction.count == 1

    @property
    def bound(self) -> Bound:
        return self.prediction.bounds[0]

    @property
    def swept(self) -> list[str]:
        """The sizes that were given as an axis."""
        return [name for name, value in self.values.items() if isinstance(value, np.ndarray)]

    def rows(self, limit: int | None = None) -> list[dict[str, Any]]:
        """One document per case, of the first `limit`."""
        rows = list(self.prediction.rows(limit))
        shared: dict[str, Any] = {"notes": [*self.prediction.work.notes, *self.bound.notes]}
        if self.turning is not None:
            size, value = self.turning
            shared["turns_compute_bound_at"] = {size: None if self.turning.never else int(value)}
        for row in rows:
            row.update(shared)
        if self.measured is not None:
            rows[0]["achieved"] = self.achieved(rows[0])
        return rows

    def achieved(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The measured time against the prediction of the first case, whose row this is; shares are of 1."""
        time = self.measured or 0.0
        if time <= 0:
            raise InputError(f"a measured time must be positive, got {time} s")
        peak = float("inf") if self.bound.peak is None else first_number(self.bound.peak)
        level = [term for term in self.bound.terms.values() if term.side == "memory"][-1]
        run = achieved(row["flops"], row["bytes"], time, peak, level.ceiling.value)
        return {
            "time_us": time * 1e6,
            "rate": float(run.rate),
            "bandwidth": row["bytes"] / time,
            "peak_share": float(run.peak_share),
            "bandwidth_share": float(run.bandwidth_share),
            "roof_share": row["floor_us"] / (time * 1e6),
            "verdict": str(run.verdict),
            "predicted_over_measured": row["time_us"] / (time * 1e6),
        }

    # -- the first case, level by level and ceiling by ceiling --------------------------------------------

    @property
    def levels(self) -> list[LevelRow]:
        """Every level of the machine, innermost first."""
        bound = self.bound
        flops, peak = first_number(bound.flops), None if bound.peak is None else first_number(bound.peak)
        rows: list[LevelRow] = []
        moved = 0.0  # what crosses a level must cross every level nearer the core too
        for level in reversed(self.prediction.machine.levels):
            term, bandwidth = bound.terms.get(level.name), level.bandwidth.value(bound.ceilings)
            moved = max(moved, first_number(term.amount)) if term else moved
            kind = level.bandwidth.kind(bound.ceilings) if bandwidth else None
            row = LevelRow(level.name, bandwidth, kind, moved, term is not None)
            if bandwidth:
                row = replace(row, intensity=flops / moved if moved else None, time=moved / bandwidth)
            if bandwidth and peak:
                side = "compute" if flops / peak >= moved / bandwidth else "memory"
                row = replace(row, ridge=peak / bandwidth, bound=side)
            rows.append(row)
        return rows[::-1]

    @property
    def ceilings(self) -> list[CeilingRow]:
        bound, flat = self.bound, not self.prediction.expected[0].kernels
        floor = first_number(bound.floor)
        rows = []
        for name, term in bound.terms.items():
            time, rate, why = first_number(term.time), first_number(term.rate), _source(bound, name, term)
            row = CeilingRow(name, term.side, rate, term.ceiling.kind, time, time == floor, why)
            if flat:
                share = efficiency(bound, name, self.prediction.given_efficiency)
                why = f"{why}; efficiency: {share.why}"
                row = replace(row, why=why, efficiency=share.value, expected=time / share.value)
            rows.append(row)
        return rows

    @property
    def time_items(self) -> TimeItems:
        expected = self.prediction.expected[0]
        total = first_number(expected.time)
        rows = []
        for item in expected.items():
            seconds = first_number(item.seconds)
            if abs(seconds) > MIN_ITEM_SHARE * total:
                name = f"{item.kernel}: {item.effect}" if item.kernel else item.effect
                rows.append(ItemRow(name, seconds, seconds / total))
        sources = []
        for kernel in expected.kernels:
            if first_number(kernel.applies):  # other kernels are those of other cases
                values = ", ".join(f"{name} {value:.3g}" for name, value in kernel.coefficients.items() if value)
                sources.append(f"{kernel.selected.key}: {values}; {kernel.selected.fitted.source}")
        return TimeItems((*rows, ItemRow("expected time", total, 1.0)), tuple(sources))


def answer(
    op: Op,
    values: dict[str, Any],
    machine: Machine,
    measured: float | None = None,
    efficiency: float | None = None,
    backend: str | None = None,
    **ceilings: Any,
) -> Answer:
    """Predict an op and find where it turns compute-bound; `ceilings` are `ceilings`, `engine` and `resident` of `predict`."""
    prediction = predict(op(**values), machine, efficiency=efficiency, backend=backend, **ceilings)
    return Answer(op, values, prediction, turning_point(op, values, machine, **ceilings), measured)


def document(answer: Answer, levels: bool = False, explain: bool = False) -> dict[str, Any]:
    """The document of one op: that of its rows, with the fields of a single case at the top as well.

    `levels` and `explain` add the memory levels, and the terms and items, of the first case.
    """
    rows = answer.rows()
    top = dict(rows[0]) if answer.single else {}
    top |= {"levels": to_document(answer.levels)} if levels else {}
    top |= {"terms": to_document(answer.ceilings), "items": to_document(answer.time_items.items)} if explain else {}
    return rows_document(rows, top)


def rows_document(rows: Sequence[Mapping[str, Any]], top: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """One shape whatever the number of rows: the fields that all share, those of `top`, and the `rows`."""
    shared = {key: rows[0].get(key) for key in SHARED if len({row.get(key) for row in rows}) == 1}
    return {"schema": SCHEMA, "ridgeline": __version__, **shared, **(top or {}), "rows": rows}


def first_number(value: Any) -> float:
    """The number of the first case."""
    return float(np.asarray(value).ravel()[0])


def _source(bound: Bound, name: str, term: Term) -> str:
    """The sentence behind a ceiling; where a mix of accesses was measured, that of the mix which was taken."""
    rate = first_number(term.rate)
    level = next((level for level in bound.machine.levels if level.name == name), None)
    mixes = level.mixes.values() if level and rate != term.ceiling.value else ()
    return next((figure.measurement for figure in mixes if figure.measured == rate), term.ceiling.why)
