"""Predictions against observations: joined, each gap explained and priced, one verdict over the program.

`reconcile` gives a Report. Its items are gaps with their advice, in the order of the program; its verdict says which steps
hold the time, which gap is worth most and how much of the time each regime has; its sentence is made of the data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from ..core.documents import microseconds
from ..core.errors import InputError, unknown
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.statistics import median
from ..core.units import counted, show
from ..core.version import __version__
from ..machines.files import by_driver_name
from ..prediction.host import ONE_BY_ONE, waiting, way
from ..prediction.predict import Prediction
from . import sentences
from .accounting import Cause
from .advice import Advice, advise
from .gap import Gap, with_neighbours
from .join import Hints, Joined, Pair, join

SCHEMA = 1
MAX_LISTED = 4  # items that the repr of a report names


@dataclass(frozen=True)
class Item:
    gap: Gap
    advice: tuple[Advice, ...]

    DOCUMENT: ClassVar = (
        "name", "count=gap.target.count", "predicted_us=gap.target.time", "low_us=gap.target.low", "high_us=gap.target.high",
        "inside=gap.inside", "measured_us=gap.measured", "best_us=gap.measurement.best", "samples=gap.measurement.runs",
        "times_us?=gap.measurement.several", "spread=gap.measurement.spread", "error=gap.error", "floor_us=gap.target.floor",
        "over_floor=gap.total", "share_of_roof=gap.share", "points=gap.points", "band", "vertical_gap=gap.vertical",
        "horizontal_gap=gap.horizontal", "excess_bytes=gap.excess_bytes", "excess_flops=gap.excess_flops",
        "uncertainty=gap.uncertainty", "flops=gap.target.flops", "bytes=gap.target.bytes",
        "intensity_algorithmic=gap.target.intensity", "intensity_observed=gap.counts.intensity", "engine",
        "ceilings=gap.target.ceiling_kind", "bound_predicted=gap.target.bound", "limiter_predicted=gap.target.limiter",
        "bound_observed=gap.regime.bound", "limiter_observed=gap.regime.limiter", "bound_from=gap.regime.basis",
        "confirmed=gap.regime.confirmed", "shares", "levels=gap.levels", "accounting=gap.accounting", "host", "advice",
        "direction=gap.direction", "findings", "sentence", "joined_by=gap.how", "steps=gap.target.steps",
        "fused=gap.target.fused", "kernels=gap.measurement.kernels", "launches=gap.measurement.launches",
        "tools=gap.measurement.tools", "conditions=gap.measurement.conditions", "notes=gap.measurement.notes",
    )  # fmt: skip

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
        waiting = self.gap.waiting if self.gap.sent else None
        return None if waiting is None else waiting * self.gap.target.count

    @property
    def waits_at_most(self) -> bool:
        """Whether the waiting is an upper bound: the host may take less."""
        return bool(self.waiting and self.gap.host and self.gap.host.at_most)

    @property
    def top(self) -> Advice | None:
        return self.advice[0] if self.advice else None

    @property
    def gain(self) -> float:
        """What the best move that is shown would bring over all runs."""
        return max((item.gain for item in self.advice if item.shown and item.gain), default=0.0) * self.gap.target.count

    @property
    def sentence(self) -> str:
        return sentences.item_sentence(self.gap, self.top, self.waits_at_most)

    # -- only for the document ----------------------------------------------------------------------------

    @property
    def band(self) -> str:
        return sentences.gap_band(self.gap)

    @property
    def findings(self) -> tuple[str, ...]:
        return sentences.findings(self.gap)

    @property
    def engine(self) -> str | None:
        return self.gap.target.engine or None

    @property
    def shares(self) -> dict[str, float]:
        return {share.name: share.value for share in self.gap.shares}

    @property
    def host(self) -> dict[str, Any]:
        """The cause that is in no kernel's time; `sent` null says that it counts only if they are sent one by one."""
        host = self.gap.host
        return {
            "cause": Cause.HOST_WAIT.value,
            "us": microseconds(self.gap.waiting),
            "sent": self.gap.sent,
            "each_us": microseconds(host.each) if host else None,
            "evidence": host.evidence if host else None,
        }


@dataclass(frozen=True)
class Report:
    prediction: Prediction
    joined: Joined
    items: tuple[Item, ...]
    sealed: Any = None  # what the ledger says of the predictions
    notes: tuple[str, ...] = ()  # what to know before trusting the gaps
    schema: int = SCHEMA
    ridgeline: str = __version__

    DOCUMENT: ClassVar = (
        "schema", "ridgeline", "machine=prediction.machine.name", "items", "unmatched", "sealed",
        "verdict=verdict_of_items", "notes", "sentence",
    )  # fmt: skip

    @property
    def unmatched(self) -> dict[str, list[str]]:
        """What could not be joined, on both sides."""
        return {
            "predicted": [self.prediction.steps[place].name for place in self.joined.unmatched_predicted],
            "observed": [item.name or item.kernel for item in self.joined.unmatched_observed],
        }

    def __repr__(self) -> str:
        """The verdict, then the steps that took longest."""
        longest = sorted(self.items, key=lambda item: -item.measured)
        rows = [
            f"  {item.name}: measured {show(item.gap.measured, 's', 3)}, predicted {show(item.gap.target.time, 's', 3)}, "
            f"{item.gap.share * 100:.0f} % of roofline"
            for item in longest[:MAX_LISTED]
        ]
        more = [f"  ... {len(self.items) - MAX_LISTED} more"] if len(self.items) > MAX_LISTED else []
        on = f"{counted(len(self.items), 'kernel')} on {self.prediction.machine.name}"
        return "\n".join([self.sentence, on, *rows, *more])

    @cached_property
    def waiting(self) -> float | None:
        """For the host, over the program: within its steps or, where that is more, for all its kernels together.

        A long kernel hides the sending of those after it, so that all together wait at least launches x each - device.
        One step of one kernel has no such time; many of them have.
        """
        within = [item.waiting for item in self.items if item.waiting is not None]
        each = self.prediction.machine.dispatch.value()
        launches = sum(
            item.gap.measurement.launches * item.gap.target.count for item in self.items if item.gap.sent == ONE_BY_ONE
        )
        device = sum(item.measured for item in self.items)
        across = [waiting(launches, each, device)] if each is not None and launches >= 2 else []
        return max([sum(within), *across]) if within or across else None

    @cached_property
    def verdict(self) -> dict[str, Any]:
        """Times of all runs, which steps hold them, what is worth most, the regimes' shares."""
        total = sum(item.measured for item in self.items)
        regimes: dict[str, float] = defaultdict(float)
        for item in self.items:
            regimes[item.gap.regime.bound] += item.measured / total
        holders = sorted(self.items, key=lambda item: -item.measured)
        unmatched = sum(sum(item.samples) for item in self.joined.unmatched_observed)
        return {
            "measured_us": total * 1e6,
            "waiting_us": microseconds(self.waiting),
            "predicted_us": sum(item.gap.target.time * item.gap.target.count for item in self.items) * 1e6,
            "floor_us": sum(item.gap.target.floor * item.gap.target.count for item in self.items) * 1e6,
            "unmatched_us": unmatched * 1e6,
            "holders": [{"name": item.name, "share": item.measured / total} for item in holders],
            "worth_most": self._worth_most(total + (self.waiting or 0.0)),
            "regimes": dict(sorted(regimes.items(), key=lambda row: -row[1])),
            "confirmed": sum(item.gap.regime.confirmed for item in self.items),
            "inside": sum(item.gap.inside for item in self.items),
            "items": len(self.items),
            "causes": self._us_by_cause(),
        }

    @property
    def verdict_of_items(self) -> dict[str, Any] | None:
        """None where nothing was joined."""
        return self.verdict if self.items else None

    def _worth_most(self, wall: float) -> dict[str, Any] | None:
        best = max(self.items, key=lambda item: item.gain, default=None)
        if best is None or not best.gain or best.top is None:
            return None
        gain = {"gain_us": best.gain * 1e6, "share": best.gain / wall}
        return {"name": best.name, "move": best.top.move, "cause": best.top.cause, **gain}

    def _us_by_cause(self, *without: Cause) -> dict[str, float]:
        """Microseconds by cause over all runs."""
        times: dict[str, float] = defaultdict(float)
        for item in self.items:
            for entry in item.gap.accounting:
                if entry.kind not in without:
                    times[entry.cause] += entry.time * item.gap.target.count * 1e6
        return dict(times)

    @property
    def sentence(self) -> str:
        """Fast because X; the gap is Y; next is Z: of the one item, or of the program."""
        if not self.items:
            return sentences.NOTHING_JOINED
        if len(self.items) == 1:
            return self.items[0].sentence
        error = median([abs(item.gap.error) for item in self.items])
        at_most = any(item.waits_at_most for item in self.items)
        return sentences.program_sentence(self.verdict, self._us_by_cause(Cause.FLOOR), error, at_most)


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
    gaps = [Gap.of(prediction, pair, _sent(prediction, pair, sent or {})) for pair in joined.pairs]
    items = tuple(Item(gap, tuple(advise(gap))) for gap in with_neighbours(gaps))
    return Report(prediction, joined, items, sealed, _other_machines(prediction.machine, observations))


def _other_machines(machine: Machine, observations: Iterable[Observation]) -> tuple[str, ...]:
    """A note for each device that was observed and that the catalog knows as another machine; unknown names say nothing."""
    devices = (item.conditions.get(key) for item in observations for key in ("gpu", "device"))
    aliases = {" ".join(alias.lower().split()) for alias in machine.aliases}
    notes = []
    for name in dict.fromkeys(name for name in devices if isinstance(name, str)) if aliases else ():
        known = None if " ".join(name.lower().split()) in aliases else by_driver_name(name, "gpu")[0]
        if known is not None:
            pair = f"observed on {name}, which is {known.name}, and predicted for {machine.name}"
            notes.append(f"{pair}: the gaps are those between two machines")
    return tuple(notes)


def _sent(prediction: Prediction, pair: Pair, sent: Mapping[str, str]) -> str | None:
    """How all steps of a pair are sent; None where they differ or one is not known."""
    ways = {sent.get(prediction.steps[place].name) for place in pair.steps}
    return ways.pop() if len(ways) == 1 else None
