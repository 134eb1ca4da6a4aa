"""Pricing: a chain of changes applied one after the other, what each brings, and what a program gains from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...core.bound import Bound, bound_words
from ...core.cached import cached_property
from ...core.documents import to_document
from ...core.errors import InputError, MissingFigure
from ...core.units import show
from ..answer_line import LATENCY, latency_of, sides
from ..flat import STEPS_IN_TURN
from ..host import waiting
from ..predict import Prediction
from .case import Case, Change, NoEffect

BASELINE = "baseline"
MIN_RELATIVE_CHANGE = 0.005  # of the time, up to which a change is said to bring nothing
MIN_MOVE = 0.01  # relative change of a coordinate that counts as a move on the chart
DIRECTIONS = {  # by the signs of the changes in intensity and in rate
    (1, 0): "right", (0, 1): "up", (1, 1): "both", (0, 0): "none", (-1, 0): "left", (0, -1): "down",
    (-1, -1): "left and down", (1, -1): "right and down", (-1, 1): "left and up",
}  # fmt: skip


def _sign(ratio: float) -> int:
    return 0 if abs(math.log(ratio)) < MIN_MOVE else (1 if ratio > 1 else -1)


@dataclass(frozen=True)
class PricedCase:
    """A case of a chain of changes: its prediction, its time, and what the change that led to it brought."""

    name: str
    case: Case
    prediction: Prediction
    before: PricedCase | None = None
    first: PricedCase | None = None
    why: str = ""  # why nothing changed, where nothing did
    notes: tuple[str, ...] = ()

    DOCUMENT: ClassVar = (
        "name", "machine=case.machine.name", "time_us=time", "low_us=low", "high_us=high", "floor_us=floor",
        "units=case.amount", "unit_time_us=unit_time", "waiting_us=waiting", "gain_us=gain", "ratio",
        "total_gain_us=total_gain", "total_ratio", "direction", "bound_before", "bound", "limiter", "ceilings", "flops", "bytes",
        "intensity", "rate", "why", "notes",
    )  # fmt: skip

    @property
    def time(self) -> float:
        """Seconds of the case, of all its units of work."""
        return float(self.prediction.time)

    @property
    def unit_time(self) -> float:
        """Seconds per unit of the baseline's work."""
        return self.time / self.case.amount

    @property
    def gain(self) -> float:
        """Seconds per unit that the change saves."""
        return (self.before or self).unit_time - self.unit_time

    @property
    def ratio(self) -> float:
        return (self.before or self).unit_time / self.unit_time

    @property
    def total_gain(self) -> float:
        return (self.first or self).unit_time - self.unit_time

    @property
    def total_ratio(self) -> float:
        return (self.first or self).unit_time / self.unit_time

    @property
    def waiting(self) -> float | None:
        """Seconds per unit that the device waits for the host, not part of the time; None where the dispatch cost is unknown.

        Launched one by one: max(launches x dispatch - time, 0). In a graph: 0.
        """
        if self.case.captured:
            return 0.0
        each = self.case.machine.dispatch.value()
        steps = self.prediction.steps
        launches = sum(float(step.work.waits.get("launch", 0.0) * step.count) for step in steps)
        return None if each is None else waiting(launches, each, self.time) / self.case.amount

    @property
    def spared(self) -> float:
        """Seconds of waiting for the host, per unit, that the change takes away; 0 where they are not known."""
        before, now = (self.before or self).waiting, self.waiting
        return 0.0 if before is None or now is None else before - now

    @property
    def low(self) -> float:
        return float(self.prediction.low)

    @property
    def high(self) -> float:
        return float(self.prediction.high)

    @property
    def floor(self) -> float:
        return float(self.prediction.floor)

    @property
    def flops(self) -> float:
        return sum(float(step.work.flops * step.count) for step in self.prediction.steps)

    @property
    def bytes(self) -> float:
        """At the main memory; traffic over links is not on the chart."""
        return sum(float(step.work.bytes * step.count) for step in self.prediction.steps)

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes > 0 else None

    @property
    def rate(self) -> float:
        return self.flops / self.time

    @cached_property
    def _longest(self) -> Bound:
        """Of the kernel that takes most of the time."""
        rows = zip(self.prediction.bounds, self.prediction.expected, self.prediction.steps, strict=True)
        times = [(float(expected.time) * step.count, bound) for bound, expected, step in rows]
        return max(times, key=lambda row: row[0])[1]

    @property
    def bound(self) -> str:
        return str(self._longest.bound)

    @property
    def waits_for_steps(self) -> bool:
        """Whether the time is that of steps that follow each other, or of too little work at once, which no ceiling speeds up."""
        return len(self.prediction.steps) == 1 and str(sides(self.prediction)) == LATENCY

    @property
    def bound_words(self) -> str:
        """`memory-bound`, as the answer of `predict` has it."""
        return bound_words(LATENCY if self.waits_for_steps else self.bound)

    @property
    def bound_before(self) -> str | None:
        return self.before.bound if self.before else None

    @property
    def limiter(self) -> str:
        return str(self._longest.limiter)

    @property
    def ceilings(self) -> str:
        """The kinds of ceilings of all kernels."""
        return "+".join(sorted({kind for bound in self.prediction.bounds for kind in bound.kinds.split("+") if kind}))

    @property
    def engine(self) -> str:
        return str(self._longest.engine or "")

    @property
    def direction(self) -> str:
        """Where the case moves on the roofline chart: right, up, both, none, or the worse ones by name."""
        before = self.before
        if before is None or not (self.flops and before.flops and self.intensity and before.intensity):
            return "none"
        return DIRECTIONS[_sign(self.intensity / before.intensity), _sign(self.rate / before.rate)]


def apply(case: Case, changes: Iterable[Change]) -> list[PricedCase]:
    """The baseline and one priced case per change, each applied to the case before it."""
    chain = list(changes)
    for change in chain:
        case = change.prepare(case)
    prediction = case.predict()
    baseline = PricedCase(BASELINE, case, prediction, notes=prediction.warnings)
    priced = [baseline]
    for change in chain:
        priced.append(_price(priced[-1], baseline, change))
    return priced


def _price(before: PricedCase, first: PricedCase, change: Change) -> PricedCase:
    try:
        case = change.make(before.case)
        prediction = case.predict()
    except NoEffect as reason:
        return PricedCase(change.name, before.case, before.prediction, before, first, str(reason))
    except MissingFigure as missing:
        raise InputError(f"{change.name}: {missing}") from missing
    fresh = (note for note in prediction.warnings if note not in before.prediction.warnings)
    notes = tuple(note for note in (change.note, *(f"{change.name}: {note}" for note in fresh)) if note)
    priced = PricedCase(change.name, case, prediction, before, first, "", notes)
    priced = replace(priced, notes=(*notes, *_host_notes(priced, before)))
    return replace(priced, why=_why(priced, before)) if abs(priced.ratio - 1) <= MIN_RELATIVE_CHANGE else priced


def _host_notes(priced: PricedCase, before: PricedCase) -> list[str]:
    """Device idle time that a graph saves, or that the dispatch cost is unknown."""
    if not priced.case.captured or before.case.captured:
        return []
    machine = before.case.machine
    if before.waiting is None:
        return [
            f"dispatch cost per launch of {machine.name} is unknown: the host time that a graph saves is not priced"
        ]
    if not before.waiting:
        return []
    each, wait = show(machine.dispatch.value() or 0.0, "s", 3), show(before.waiting, "s", 3)
    return [f"without a graph the device also idles {wait} waiting for the host (dispatch {each} per launch)"]


def _why(priced: PricedCase, before: PricedCase) -> str:
    """Why a change that was made brings nothing: it does not touch what limits the time."""
    if priced.case.captured and not before.case.captured:
        host = (
            "which saves the wait for the host" if before.waiting != 0 else "and the device does not wait for the host"
        )
        return f"a kernel takes as long in a graph, {host}"
    if before.waits_for_steps:
        waits = latency_of(before.prediction)
        return f"{waits} {'take' if waits == STEPS_IN_TURN else 'makes'} most of the time ({before.bound_words})"
    limits = f"{before.limiter} is the limiter ({before.bound_words})"
    if priced.limiter != before.limiter:
        return f"{limits}; then {priced.limiter} takes as long"
    if priced.case.amount != before.case.amount:
        return f"{limits} and its load grows with the batch"
    return f"{limits} and {'is not affected' if priced.ratio == 1 else 'changes by less than 0.5 %'}"


def amdahl(share: float, ratio: float) -> float:
    """How much faster a program gets when a share of its time gets `ratio` times as fast."""
    if not 0 <= share <= 1:
        raise InputError(f"a share of the program time must be from 0 to 1, got {share}")
    if not ratio > 0:
        raise InputError(f"a ratio of times is above 0, got {ratio}")
    rest = 1 - share + (share / ratio if math.isfinite(ratio) else 0.0)
    return 1 / rest if rest else math.inf


def case_document(priced: PricedCase, share: float | None = None) -> dict[str, Any]:
    """One case of a chain; with its share of a program also what the program gains."""
    document: dict[str, Any] = to_document(priced)
    return document if share is None else {**document, "program_ratio": amdahl(share, priced.total_ratio)}


def document(chain: Sequence[PricedCase], share: float | None = None) -> dict[str, Any]:
    """The chain as `ridgeline whatif --json` gives it; with a share of a program also what that gains, and can gain at most."""
    first, last = chain[0], chain[-1]
    steps = first.prediction.steps
    chain_document = {
        "case": steps[0].name if len(steps) == 1 else first.case.program.name,
        "stops": [case_document(priced, share) for priced in chain],
        "total_ratio": last.total_ratio,
        "total_gain_us": last.total_gain * 1e6,
    }
    if share is not None:
        ratio, limit = amdahl(share, last.total_ratio), amdahl(share, math.inf)
        chain_document |= {"share": share, "program_ratio": ratio, "program_limit": limit}
    return chain_document
