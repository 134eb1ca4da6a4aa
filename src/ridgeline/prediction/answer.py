"""The answer to one `predict`: its first line, a case or a sweep, where it becomes compute-bound, and the source of each number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..core.bound import Bound, bound_words
from ..core.documents import to_document
from ..core.errors import InputError
from ..core.machine import Machine
from ..core.roofline import achieved
from ..core.terms import Term
from ..core.units import percent, show
from ..core.version import __version__
from ..programs.ops import Op
from .answer_line import answer_line, sides, unit_name
from .flat import efficiency
from .plain import plain
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
    options: Mapping[str, Any] = field(default_factory=dict)  # of `predict`

    @property
    def lines(self) -> list[str]:
        """The answer: of one case its time and bound, of a sweep the range of both; then what was asked."""
        prediction = self.prediction
        asked = f"{self.op.name} {self.sizes_text} {prediction.work.dtype} on {prediction.machine.name}"
        asked = f"{' '.join(asked.split())}, {self.bound.kinds} ceilings"
        short = [self.bound.shortage] if self.bound.shortage else []
        if self.single:
            return [*self._measured_line, answer_line(prediction), *self._collective_line, *short, asked]
        return [self._summary, *short, f"{asked}{self._ridges}"]

    @property
    def support_notes(self) -> list[str]:
        """The notes of the prediction that are no line of the answer."""
        made = self.prediction
        return [*(note for note in made.warnings if note != self.bound.shortage), *made.remarks]

    @property
    def _measured_line(self) -> list[str]:
        if self.measured is None:
            return []
        share, ratio = (
            first_number(self.prediction.roofline) / self.measured,
            self.measured / first_number(self.prediction.time),
        )
        text = f"measured {show(self.measured, 's')}: {percent(share)} of roofline, {ratio:.3g}x the expected time"
        if share > 1:
            text += "; above the roofline: the data were in cache, the kernel does less work than counted, or the ceiling is set too low"
        return [text]

    @property
    def _collective_line(self) -> list[str]:
        done = self.prediction.collective
        return [done.line(partial(unit_name, self.prediction.machine))] if done else []

    @property
    def _summary(self) -> str:
        times = np.ravel(self.prediction.time)
        counts = Counter(np.ravel(np.broadcast_to(sides(self.prediction), times.shape)).tolist())
        names = {side: bound_words(side) for side in counts}
        bounds = f"all {next(iter(names.values()))}" if len(counts) == 1 else _listing(counts, names)
        text = f"{self.prediction.count:,} cases: {show(float(times.min()), 's')} to {show(float(times.max()), 's')}; {bounds}"
        return f"{text}; {self.turning_text}" if self.turning is not None else text

    @property
    def turning_text(self) -> str:
        """`compute-bound at m >= 199`; nothing where the op has no such size."""
        return "" if self.turning is None else self.turning.text

    @property
    def sizes_text(self) -> str:
        """What was asked, as it was given: sizes, ranges of the swept ones, and the words that are not the dtype."""
        parts = []
        for name, value in {**self.prediction.work.shape, **self.values}.items():
            if name == "dtype" or value is None:
                continue
            given = self.values.get(name, value)
            if isinstance(given, np.ndarray):
                parts.append(f"{name}={plain(given, 0)}..{plain(given, len(given) - 1)}")
            elif not isinstance(given, bool) and np.ndim(given) == 0:
                parts.append(f"{name}={plain(given, 0)}")
        return " ".join(parts)

    @property
    def _ridges(self) -> str:
        """The ridge of a sweep; the range of it where the access mix of the cases differs."""
        if self.bound.ridge is None:
            return ""
        first, last = show(float(np.min(self.bound.ridge))), show(float(np.max(self.bound.ridge)))
        text = first if first == last else f"{first} to {last}"
        return f", ridge {text} FLOP/B"

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
        shared: dict[str, Any] = {"notes": [*self.prediction.notes]}
        if self.turning is not None:
            at = self.turning.at
            shared["turns_compute_bound_at"] = {self.turning.size: int(at) if np.isfinite(at) else None}
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
        run = achieved(row["flops"], row["bytes"], time, peak, first_number(level.rate))
        return {
            "time_us": time * 1e6,
            "rate": float(run.rate),
            "bandwidth": row["bytes"] / time,
            "peak_share": float(run.peak_share),
            "bandwidth_share": float(run.bandwidth_share),
            "roof_share": first_number(self.prediction.roofline) / time,
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
            # where the access mix was measured, its bandwidth: the one that the floor and the ridge are made of
            term = bound.terms.get(level.name)
            bandwidth = level.bandwidth.value(bound.ceilings) if term is None else first_number(term.rate)
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
        bound, flat = self.bound, self.prediction.expected[0].is_flat
        longest = first_number(bound.roofline)
        rows = []
        for name, term in bound.terms.items():
            time, rate, why = first_number(term.time), first_number(term.rate), _source(bound, name, term)
            row = CeilingRow(name, term.side, rate, term.ceiling.kind, time, time == longest, why)
            if flat:
                share = efficiency(bound, name, self.prediction.given_efficiency)
                why = f"{why}; efficiency: {share.why}"
                reached = first_number(share.value)
                row = replace(row, why=why, efficiency=reached, expected=time / reached)
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
    """Predict an op and where it becomes compute-bound; `ceilings` are `ceilings`, `engine` and `resident` of `predict`."""
    options = {"efficiency": efficiency, "backend": backend, **ceilings}
    values = {name: plain(value, 0) if np.size(value) == 1 else value for name, value in values.items()}  # `m=8..8`
    prediction = predict(op(**values), machine, **options)
    return Answer(op, values, prediction, turning_point(op, values, machine, **ceilings), measured, options)


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
    shared = {key: rows[0].get(key) for key in SHARED if rows and all(row.get(key) == rows[0].get(key) for row in rows)}
    return {"schema": SCHEMA, "ridgeline": __version__, **shared, **(top or {}), "rows": rows}


def first_number(value: Any) -> float:
    """The number of the first case."""
    return float(np.asarray(value).ravel()[0])


def _listing(counts: Mapping[str, int], names: Mapping[str, str]) -> str:
    return ", ".join(f"{count:,} {names[side]}" for side, count in counts.items())


def _source(bound: Bound, name: str, term: Term) -> str:
    """The sentence behind a ceiling; where a mix of accesses was measured, that of the mix which was taken."""
    rate = first_number(term.rate)
    of_level = rate != term.ceiling.value and any(level.name == name for level in bound.machine.levels)
    mixes = bound.machine.mix_figures(name) if of_level else ()
    return next((figure.measurement for _, figure in mixes if figure.measured == rate), term.ceiling.why)
