"""Predictions against observations: joined, each gap explained and priced, one verdict over the whole program.

`reconcile` gives a Report. Its items are gaps with their advice, in the order of the program; its verdict says which steps
hold the time, which gap is worth most and how much of the time each regime has; its sentence is made of the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from ..core.errors import InputError, unknown
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.units import show
from ..core.version import __version__
from ..machines.files import by_driver_name
from ..prediction.host import ONE_BY_ONE, waiting, way
from ..prediction.predict import Prediction
from .advice import Advice, advise
from .gap import FLOOR, GOOD, WAITING, Between, Gap, between, gap
from .join import Hints, Joined, Pair, join

SCHEMA = 1
UNDERUSED = "underused"


@dataclass(frozen=True)
class Item:
    """One pair: the gap, and what to do about it."""

    gap: Gap
    advice: tuple[Advice, ...]

    @property
    def name(self) -> str:
        return self.gap.name

    @property
    def measured(self) -> float:
        """Of all its runs in the program."""
        return self.gap.measured * self.gap.target.count

    @property
    def waiting(self) -> float | None:
        """For the host, beside the measured time, over all runs; None where it is not known whether and how long."""
        told = self.gap.waiting if self.gap.sent else None
        return None if told is None else told * self.gap.target.count

    @property
    def most(self) -> bool:
        """Whether the waiting is a bound: the host may take less."""
        return bool(self.waiting and self.gap.host and self.gap.host.most)

    @property
    def top(self) -> Advice | None:
        return self.advice[0] if self.advice else None

    @property
    def gain(self) -> float:
        """What the best move that is shown would bring over all runs."""
        shown = [item.gain for item in self.advice if item.status == "shown" and item.gain]
        return max(shown, default=0.0) * self.gap.target.count

    @property
    def sentence(self) -> str:
        """Fast because X; the gap is Y; next is Z."""
        return f"{self.name}: {self._because()}; the gap is {self._gap()}; next is {self._next()}."

    def _because(self) -> str:
        found, seen = self.gap, self.gap.regime
        if seen.bound == "overhead":
            return f"short, not slow, because launching takes {seen.share:.0%} of the time"
        speed = "fast" if found.share >= GOOD[0] else "slow"
        if seen.bound == UNDERUSED:
            told = f"; the busiest, {seen.limiter}, is at {seen.share:.0%}" if seen.basis == "counters" else ""
            return f"{speed} because nothing limits it{told} ({found.share:.0%} of the roof)"
        as_said = (
            "as predicted" if seen.limiter == found.target.limiter else f"where {found.target.limiter} was predicted"
        )
        return f"{speed} because {seen.limiter} is busy for {seen.share:.0%} of the time, {as_said}"

    def _gap(self) -> str:
        found, widest = self.gap, self.gap.widest
        above = found.measured - found.target.floor
        if above <= 0:
            return f"none: {show(-above, 's', 3)} below the floor"
        most = "at most " if self.most else ""
        beside = f", and {most}{show(found.waiting, 's', 3)} of {WAITING}" if found.sent and found.waiting else ""
        return f"{show(above, 's', 3)} above the floor, most of it {widest.cause} ({show(widest.time, 's', 3)}){beside}"

    def _next(self) -> str:
        if self.top is None:
            if self.gap.share >= GOOD[0]:
                return "another kernel"
            seen = self.gap.regime.basis == "counters"
            return "a closer look: no rule fits these counters" if seen else "counters, which would tell the cause"
        most = self.top.status != "shown" or bool(self.top.host and self.most)
        gain = "" if self.top.gain is None else f", {'at most ' if most else ''}{show(self.top.gain, 's', 3)}"
        return f"{'' if self.top.status == 'shown' else 'perhaps '}to {self.top.move}{gain}"

    def document(self) -> dict[str, Any]:
        found, target, seen = self.gap, self.gap.target, self.gap.regime
        return {
            "name": found.name,
            "count": target.count,
            "predicted_us": target.time * 1e6,
            "low_us": target.low * 1e6,
            "high_us": target.high * 1e6,
            "inside": found.inside,
            "measured_us": found.measured * 1e6,
            "best_us": min(found.seen.samples) * 1e6,
            "samples": len(found.seen.samples),
            **({"times_us": [sample * 1e6 for sample in found.seen.samples]} if len(found.seen.samples) > 1 else {}),
            "spread": found.seen.spread,
            "error": target.time / found.measured - 1,
            "floor_us": target.floor * 1e6,
            "over_floor": found.total,
            "share_of_roof": found.share,
            "points": found.points,
            "band": found.band,
            "vertical_gap": found.vertical,
            "horizontal_gap": found.horizontal,
            "excess_bytes": found.excess_bytes,
            "excess_flops": found.excess_flops,
            "uncertainty": found.uncertainty,
            "flops": target.flops,
            "bytes": target.bytes,
            "intensity_algorithmic": target.flops / target.bytes if target.bytes else None,
            "intensity_observed": found.intensity,
            "engine": target.engine or None,
            "ceilings": target.kind,
            "bound_predicted": target.bound,
            "limiter_predicted": target.limiter,
            "bound_observed": seen.bound,
            "limiter_observed": seen.limiter,
            "bound_from": seen.basis,
            "confirmed": seen.confirmed,
            "shares": {share.name: share.value for share in found.shares},
            "levels": found.levels(),
            "accounting": [{"cause": entry.cause, "us": entry.time * 1e6} for entry in found.accounting],
            "host": self._host(),
            "advice": [item.document() for item in self.advice],
            "direction": found.direction,
            "findings": list(found.findings),
            "sentence": self.sentence,
            "joined_by": found.how,
            "steps": list(target.steps),
            "fused": target.fused,
            "kernels": list(found.seen.kernels),
            "launches": found.seen.launches,
            "tools": list(found.seen.tools),
            "conditions": dict(found.seen.conditions),
            "notes": list(found.seen.notes),
        }

    def _host(self) -> dict[str, Any]:
        """The cause that is in no kernel's time; `sent` null says that it counts only if they are sent one by one."""
        found = self.gap
        return {
            "cause": WAITING,
            "us": None if found.waiting is None else found.waiting * 1e6,
            "sent": found.sent,
            "each_us": None if found.host is None else found.host.each * 1e6,
            "evidence": found.host.evidence if found.host else None,
        }


@dataclass(frozen=True)
class Report:
    prediction: Prediction
    joined: Joined
    items: tuple[Item, ...]
    sealed: Any = None  # what the ledger says of the predictions
    notes: tuple[str, ...] = ()  # what to know before trusting the gaps

    @property
    def unmatched(self) -> dict[str, list[str]]:
        """What could not be joined, on both sides."""
        return {
            "predicted": [self.prediction.steps[place].name for place in self.joined.unmatched_predicted],
            "observed": [item.name or item.kernel for item in self.joined.unmatched_observed],
        }

    @cached_property
    def waiting(self) -> float | None:
        """For the host, over the whole program: within its steps or, where that is more, for all its kernels together.

        A long kernel hides the sending of those after it, so that all together wait at least launches x each - device.
        One step of one kernel has no such time; many of them have.
        """
        within = [item.waiting for item in self.items if item.waiting is not None]
        each = self.prediction.machine.dispatch.value()
        launches = sum(
            item.gap.seen.launches * item.gap.target.count for item in self.items if item.gap.sent == ONE_BY_ONE
        )
        device = sum(item.measured for item in self.items)
        across = [waiting(launches, each, device)] if each is not None and launches >= 2 else []
        return max([sum(within), *across]) if within or across else None

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """The program as a whole: times of all runs, who holds them, what is worth most, the regimes' shares."""
        total = sum(item.measured for item in self.items)
        waited = self.waiting or 0.0
        regimes: dict[str, float] = defaultdict(float)
        for item in self.items:
            regimes[item.gap.regime.bound] += item.measured / total
        holders = sorted(self.items, key=lambda item: -item.measured)
        worth = max(self.items, key=lambda item: item.gain, default=None)
        lost = sum(sum(item.samples) for item in self.joined.unmatched_observed)
        return {
            "measured_us": total * 1e6,
            "waiting_us": None if self.waiting is None else waited * 1e6,
            "predicted_us": sum(item.gap.target.time * item.gap.target.count for item in self.items) * 1e6,
            "floor_us": sum(item.gap.target.floor * item.gap.target.count for item in self.items) * 1e6,
            "unmatched_us": lost * 1e6,
            "holders": [{"name": item.name, "share": item.measured / total} for item in holders],
            "worth_most": None
            if worth is None or not worth.gain or worth.top is None
            else {
                "name": worth.name,
                "move": worth.top.move,
                "cause": worth.top.cause,
                "gain_us": worth.gain * 1e6,
                "share": worth.gain / (total + waited),
            },
            "regimes": dict(sorted(regimes.items(), key=lambda row: -row[1])),
            "confirmed": sum(item.gap.regime.confirmed for item in self.items),
            "inside": sum(item.gap.inside for item in self.items),
            "items": len(self.items),
            "causes": self._causes(),
        }

    def _causes(self) -> dict[str, float]:
        """Microseconds by cause over the whole program."""
        found: dict[str, float] = defaultdict(float)
        for item in self.items:
            for entry in item.gap.accounting:
                found[entry.cause] += entry.time * item.gap.target.count * 1e6
        return dict(found)

    @property
    def sentence(self) -> str:
        """Fast because X; the gap is Y; next is Z: of the one item, or of the program as a whole."""
        if not self.items:
            return (
                "nothing that was observed could be joined to what was predicted, so nothing can be said; "
                "give ranges or rows the names of the cases"
            )
        if len(self.items) == 1:
            return self.items[0].sentence
        verdict, holder = self.verdict, max(self.items, key=lambda item: item.measured)
        measured, floor = verdict["measured_us"] / 1e6, verdict["floor_us"] / 1e6
        errors = float(np.median([abs(item.gap.target.time / item.gap.measured - 1) for item in self.items]))
        bound, share = next(iter(verdict["regimes"].items()))
        causes = {cause: time for cause, time in verdict["causes"].items() if cause != FLOOR}
        widest = max(causes, key=lambda cause: causes[cause])
        worth, waited = verdict["worth_most"], verdict["waiting_us"]
        most = "at most " if any(item.most for item in self.items) else ""
        beside = f", and {most}{show(waited / 1e6, 's', 3)} of {WAITING} beside it" if waited else ""
        after = (
            f"to {worth['move']} in {worth['name']}, {show(worth['gain_us'] / 1e6, 's', 3)}"
            if worth
            else f"{holder.name}, which holds {holder.measured / measured:.0%} of the time"
        )
        held = (
            f"nothing is busy for {share:.0%} of the time"
            if bound == UNDERUSED
            else f"{bound} has {share:.0%} of the time"
        )
        return (
            f"{len(self.items)} steps in {show(measured, 's', 3)}, predicted within {errors:.0%} in the middle: "
            f"{'fast' if floor / measured >= GOOD[0] else 'slow'} because {held} and "
            f"{holder.name} holds {holder.measured / measured:.0%}; the gap is {show(measured - floor, 's', 3)} above the floor, "
            f"most of it {widest} ({show(causes[widest] / 1e6, 's', 3)}){beside}; next is {after}."
        )

    def document(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "ridgeline": __version__,
            "machine": self.prediction.machine.name,
            "items": [item.document() for item in self.items],
            "unmatched": self.unmatched,
            "sealed": self.sealed,
            "verdict": self.verdict if self.items else None,
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def reconcile(
    prediction: Prediction,
    observations: Iterable[Observation],
    hints: Hints | None = None,
    sealed: Any = None,
    sent: Mapping[str, str] | None = None,
) -> Report:
    """The gap report of a prediction and what was observed of it.

    `hints` names the step (or steps) of observations whose names do not tell; `sealed` is kept as it is; `sent` says by
    step how its kernels come to the device, `one by one` or `graph`, for tools that do not see it.
    """
    observations = list(observations)
    if not observations:
        raise InputError("there is nothing to reconcile: no observations were given; run or import a profile first")
    names = {step.name for step in prediction.steps}
    for name, text in (sent or {}).items():
        if name not in names:
            raise unknown("step of the prediction", name, names, "It was named in `sent`.")
        way(text, name)
    joined = join(prediction, observations, hints)
    gaps = _neighbours([gap(prediction, pair, _sent(prediction, pair, sent or {})) for pair in joined.pairs])
    items = tuple(Item(found, tuple(advise(found))) for found in gaps)
    return Report(prediction, joined, items, sealed, _elsewhere(prediction.machine, observations))


def _elsewhere(machine: Machine, observations: Iterable[Observation]) -> tuple[str, ...]:
    """A note for each device that was observed and that the catalog knows as another machine; unknown names say nothing."""
    told = (item.conditions.get(key) for item in observations for key in ("gpu", "device"))
    own = {" ".join(alias.lower().split()) for alias in machine.aliases}
    notes = []
    for name in dict.fromkeys(name for name in told if isinstance(name, str)) if own else ():
        known = None if " ".join(name.lower().split()) in own else by_driver_name(name, "gpu")[0]
        if known is not None:
            notes.append(
                f"observed on {name}, which is {known.name}, and predicted for {machine.name}: the gaps are those between two machines"
            )
    return tuple(notes)


def _sent(prediction: Prediction, pair: Pair, sent: Mapping[str, str]) -> str | None:
    """How all steps of a pair are sent; None where they differ or one is not told."""
    ways = {sent.get(prediction.steps[place].name) for place in pair.steps}
    return ways.pop() if len(ways) == 1 else None


def _neighbours(gaps: list[Gap]) -> list[Gap]:
    """Gaps that know the tensor they share with the step before or after; the one that only streams could join the other."""
    found: dict[int, Between] = {}
    for place, (first, second) in enumerate(pairwise(gaps)):
        shared = between(first, second)
        if shared is None or (first.target.matrix and second.target.matrix):
            continue
        mine = place + 1 if first.target.matrix else place
        if mine not in found or found[mine].bytes < shared.bytes:
            found[mine] = shared if mine == place else replace(shared, other=first.name)
    return [replace(item, between=found.get(place)) for place, item in enumerate(gaps)]
