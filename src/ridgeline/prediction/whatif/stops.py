"""Stops: a chain of changes priced one after the other, the arrow of each and what it brings to a program."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ...core.errors import InputError, MissingFigure
from ...core.units import show
from ..expected import Expected
from ..host import waiting
from ..predict import Prediction
from .case import Case
from .changes import Change, Idle

FIRST = "baseline"
NOTHING = 0.005  # relative change of the time that is called none
STILL = 0.01  # and of a coordinate on the chart


@dataclass(frozen=True)
class Stop:
    """One place on the way: a case, its prediction, its time, and what the step to it brought."""

    name: str
    case: Case
    prediction: Prediction
    time: float  # seconds of the whole case
    before: Stop | None = None
    first: Stop | None = None
    why: str = ""  # why nothing changed, where nothing did
    notes: tuple[str, ...] = ()

    @property
    def unit_time(self) -> float:
        """Seconds per unit of the baseline's work."""
        return self.time / self.case.amount

    @property
    def gain(self) -> float:
        """Seconds per unit that the step before this stop saves."""
        return 0.0 if self.before is None else self.before.unit_time - self.unit_time

    @property
    def ratio(self) -> float:
        return 1.0 if self.before is None else self.before.unit_time / self.unit_time

    @property
    def total_gain(self) -> float:
        return 0.0 if self.first is None else self.first.unit_time - self.unit_time

    @property
    def total_ratio(self) -> float:
        return 1.0 if self.first is None else self.first.unit_time / self.unit_time

    @property
    def waiting(self) -> float | None:
        """Seconds per unit that the device waits for the host, beside the time; None where no figure says what it takes.

        Sent one by one: max(launches x dispatch - time, 0). In a graph: 0.
        """
        if self.case.captured:
            return 0.0
        each = self.case.machine.dispatch.value()
        steps = self.prediction.steps
        launches = sum(float(step.work.waits.get("launch", 0.0)) * step.count for step in steps)
        return None if each is None else waiting(launches, each, self.time) / self.case.amount

    @property
    def low(self) -> float:
        return max(self.floor, self.time * float(self.prediction.low / self.prediction.time))

    @property
    def high(self) -> float:
        return self.time * float(self.prediction.high / self.prediction.time)

    @property
    def floor(self) -> float:
        return float(self.prediction.floor)

    @property
    def flops(self) -> float:
        return sum(float(step.work.flops) * step.count for step in self.prediction.steps)

    @property
    def bytes(self) -> float:
        """At the main memory; what crosses a link is not on the chart."""
        return sum(float(step.work.bytes) * step.count for step in self.prediction.steps)

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes > 0 else None

    @property
    def rate(self) -> float:
        return self.flops / self.time

    @cached_property
    def _heaviest(self) -> int:
        times = [
            float(item.time) * step.count
            for item, step in zip(self.prediction.expected, self.prediction.steps, strict=True)
        ]
        return int(np.argmax(times))

    @property
    def bound(self) -> str:
        """Of the kernel that takes most of the time."""
        return str(self.prediction.bounds[self._heaviest].bound)

    @property
    def limiter(self) -> str:
        return str(self.prediction.bounds[self._heaviest].limiter)

    @property
    def engine(self) -> str:
        return str(self.prediction.bounds[self._heaviest].engine or "")

    @property
    def direction(self) -> str:
        """Where the arrow to this stop points: right, up, both, none, or the worse ones by name."""
        if (
            self.before is None
            or not self.flops
            or not self.before.flops
            or not self.intensity
            or not self.before.intensity
        ):
            return "none"
        across = _sign(self.intensity / self.before.intensity)
        rise = _sign(self.rate / self.before.rate)
        return WAYS[across, rise]

    def document(self, share: float | None = None) -> dict[str, Any]:
        found = {
            "name": self.name,
            "machine": self.case.machine.name,
            "time_us": self.time * 1e6,
            "low_us": self.low * 1e6,
            "high_us": self.high * 1e6,
            "floor_us": self.floor * 1e6,
            "units": self.case.amount,
            "unit_time_us": self.unit_time * 1e6,
            "waiting_us": None if self.waiting is None else self.waiting * 1e6,
            "gain_us": self.gain * 1e6,
            "ratio": self.ratio,
            "total_gain_us": self.total_gain * 1e6,
            "total_ratio": self.total_ratio,
            "direction": self.direction,
            "bound_before": self.before.bound if self.before else None,
            "bound": self.bound,
            "limiter": self.limiter,
            "flops": self.flops,
            "bytes": self.bytes,
            "intensity": self.intensity,
            "rate": self.rate,
            "why": self.why,
            "notes": list(self.notes),
        }
        return found if share is None else {**found, "program_ratio": amdahl(share, self.total_ratio)}


WAYS = {
    (1, 0): "right", (0, 1): "up", (1, 1): "both", (0, 0): "none", (-1, 0): "left", (0, -1): "down",
    (-1, -1): "left and down", (1, -1): "right and down", (-1, 1): "left and up",
}  # fmt: skip


def _sign(ratio: float) -> int:
    return 0 if abs(math.log(ratio)) < STILL else (1 if ratio > 1 else -1)


def apply(case: Case, changes: Iterable[Change]) -> list[Stop]:
    """The baseline and one stop per change, each applied to the case before it."""
    chain = list(changes)
    for change in chain:
        case = change.prepare(case)
    made = case.predict()
    start = Stop(FIRST, case, made, float(made.time), notes=tuple(dict.fromkeys(_missing(made))))
    stops = [start]
    for change in chain:
        stops.append(_step(stops[-1], start, change))
    return stops


def _step(before: Stop, first: Stop, change: Change) -> Stop:
    try:
        case = change.make(before.case)
        made = case.predict()
    except Idle as idle:
        return Stop(change.name, before.case, before.prediction, before.time, before, first, str(idle))
    except MissingFigure as missing:
        raise InputError(f"{change.name}: {missing}") from missing
    now, then = _like(made, before.prediction)
    time = max(before.time * (now / then), float(made.floor))
    left_out = _missing(made) if len(_missing(made)) > len(_missing(before.prediction)) else []
    notes = tuple(note for note in (change.note, *left_out) if note)
    stop = Stop(change.name, case, made, time, before, first, "", notes)
    stop = replace(stop, notes=(*notes, *_of_host(stop, before)))
    return replace(stop, why=_why(stop, before)) if abs(stop.ratio - 1) <= NOTHING else stop


def _of_host(stop: Stop, before: Stop) -> list[str]:
    """What a graph saves beside the time on the device, or that it is not known."""
    if not stop.case.captured or before.case.captured:
        return []
    machine = before.case.machine
    if before.waiting is None:
        return [
            f"what the host takes to send a kernel is not known of {machine.name}: what a graph saves of it is not priced"
        ]
    if not before.waiting:
        return []
    each = show(machine.dispatch.value() or 0.0, "s", 3)
    return [
        f"sent one by one, the device also waits {show(before.waiting, 's', 3)} for the host, which takes {each} to send a "
        "kernel; in a graph it does not"
    ]


def _missing(made: Prediction) -> list[str]:
    return [note for item in made.bounds for note in item.notes]


def _like(one: Prediction, other: Prediction) -> tuple[float, float]:
    """Times of two predictions on one footing: those of the kernel families where both have them, else the flat form of both."""
    if all(item.kernels for made in (one, other) for item in made.expected):
        return float(one.time), float(other.time)
    return _flat(one), _flat(other)


def _flat(made: Prediction) -> float:
    return sum(
        float(Expected(item, made.given_efficiency, flat=True).time) * step.count
        for item, step in zip(made.bounds, made.steps, strict=True)
    )


def _why(stop: Stop, before: Stop) -> str:
    """Why a change that was made brings nothing: what sets the time is not what it touches."""
    limits = f"{before.limiter} sets the time ({before.bound}-bound)"
    if stop.limiter != before.limiter:
        return f"{limits}; without it {stop.limiter} takes as long"
    if stop.case.amount != before.case.amount:
        return f"{limits}, and every unit brings its own share of it"
    return f"{limits}, and this {'leaves it as it is' if stop.ratio == 1 else 'takes too little off it to show'}"


def amdahl(share: float, ratio: float) -> float:
    """How much faster a program gets when a share of its time gets `ratio` times as fast."""
    if not 0 <= share <= 1:
        raise InputError(f"a share of a program's time lies from 0 to 1, got {share}")
    if not ratio > 0:
        raise InputError(f"a ratio of times is above 0, got {ratio}")
    rest = 1 - share + (share / ratio if math.isfinite(ratio) else 0.0)
    return 1 / rest if rest else math.inf


def document(stops: Sequence[Stop], share: float | None = None) -> dict[str, Any]:
    """The chain as `ridgeline whatif --json` gives it; with a share of a program also what that gains, and can gain at most."""
    found: dict[str, Any] = {
        "case": stops[0].prediction.steps[0].name
        if len(stops[0].prediction.steps) == 1
        else stops[0].case.program.name,
        "stops": [stop.document(share) for stop in stops],
        "total_ratio": stops[-1].total_ratio,
        "total_gain_us": stops[-1].total_gain * 1e6,
    }
    if share is not None:
        found |= {
            "share": share,
            "program_ratio": amdahl(share, stops[-1].total_ratio),
            "program_limit": amdahl(share, math.inf),
        }
    return found
