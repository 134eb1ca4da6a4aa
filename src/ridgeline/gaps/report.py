"""Predictions joined to observations: every gap explained and priced, and one verdict over the program.

`reconcile` returns a Report. Its items are gaps with their advice, in the order of the program. `answer` has the lines to
read first: how much of the time is explained, the verdict, the largest gaps with their moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.cached import cached_property
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
from ..prediction.together import evaluate_together
from . import sentences
from .advice import advise
from .gap import Gap, with_neighbours
from .item import Item
from .join import Hints, Joined, Pair, join
from .kernels import diagnosed
from .regime import COUNTERS

SCHEMA = 1
MAX_GAPS = 3  # in the answer
MAX_LISTED = 4  # items that the repr of a report names


@dataclass(frozen=True)
class Report:
    prediction: Prediction
    joined: Joined
    items: tuple[Item, ...]
    sealed: Any = None  # the seal of the predictions
    notes: tuple[str, ...] = ()  # warnings about the comparison
    schema: int = SCHEMA
    ridgeline: str = __version__

    DOCUMENT: ClassVar = (
        "schema", "ridgeline", "machine=prediction.machine.name", "explained_share", "items", "unmatched", "sealed",
        "verdict=verdict_of_items", "largest_gaps", "notes", "sentence",
    )  # fmt: skip

    @cached_property
    def unmatched(self) -> dict[str, list[Any]]:
        """Names that were not joined, on both sides, and what the counters of such kernels say."""
        names = [self.prediction.steps[place].name for place in self.joined.unmatched_predicted]
        listed = {"predicted": names, "observed": [item.name or item.kernel for item in self.joined.unmatched_observed]}
        causes = diagnosed(self.joined.unmatched_observed, self.prediction.machine)
        return {**listed, "diagnosed": causes} if causes else listed

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

    @property
    def trusted(self) -> list[Item]:
        """The items whose join is beyond doubt: only those are settled and counted as hits."""
        return [item for item in self.items if not item.gap.doubtful]

    @cached_property
    def waiting(self) -> float | None:
        """Host launch overhead of the program: within its steps or, where that is more, over all its kernels.

        A long kernel hides the launches after it, so the program waits at least launches x each - device. A step of one
        kernel has no such time; many of them have.
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
        """Times of all runs, the steps that hold them, the largest gain, the share of time by bound."""
        total = sum(item.measured for item in self.items)
        regimes: dict[str, float] = defaultdict(float)
        for item in self.items:
            regimes[item.gap.regime.bound] += item.measured / total
        trusted = self.trusted
        holders = sorted(self.items, key=lambda item: -item.measured)
        return {
            "measured_us": total * 1e6,
            "waiting_us": microseconds(self.waiting),
            "predicted_us": sum(item.gap.target.time * item.gap.target.count for item in self.items) * 1e6,
            "floor_us": sum(item.gap.target.floor * item.gap.target.count for item in self.items) * 1e6,
            "unmatched_us": self._unmatched_time * 1e6,
            "median_error": median([abs(item.gap.error) for item in trusted]) if trusted else None,
            "holders": [{"name": item.name, "share": item.measured / total} for item in holders],
            "worth_most": self._worth_most(total + (self.waiting or 0.0)),
            "regimes": dict(sorted(regimes.items(), key=lambda row: -row[1])),
            "confirmed": sum(item.gap.regime.confirmed for item in self.items),
            "inside": sum(item.gap.inside for item in trusted),
            "items": len(trusted),
            "doubtful": len(self.items) - len(trusted),
            "causes": self._us_by_cause(),
        }

    @property
    def verdict_of_items(self) -> dict[str, Any] | None:
        """None where nothing was joined."""
        return self.verdict if self.items else None

    @cached_property
    def _unmatched_time(self) -> float:
        """Seconds per run of the program in kernels that were not joined."""
        runs = [item.gap.measurement.runs / item.gap.target.count for item in self.items]
        per_run = max(median(runs), 1.0) if runs else 1.0
        return sum(sum(item.samples) / min(per_run, len(item.samples)) for item in self.joined.unmatched_observed)

    @cached_property
    def _measured(self) -> float:
        return sum(item.measured for item in self.items)

    @property
    def explained_share(self) -> float:
        """Share of the measured time that predictions were joined to."""
        total = self._measured + self._unmatched_time
        return self._measured / total if total else 0.0

    @property
    def largest_gaps(self) -> list[dict[str, Any]]:
        """The largest times above the roofline, each with its move."""
        ranked = sorted((item for item in self.items if item.above), key=lambda item: -item.above)
        return [
            {
                "name": item.name,
                "gap_us": item.above * 1e6,
                "cause": item.next.cause if item.next else None,
                "move": item.next.move if item.next else None,
                "gain_us": None if item.next is None else microseconds(item.next.gain),
                "next": item.action,
            }
            for item in ranked[:MAX_GAPS]
        ]

    def _worth_most(self, wall: float) -> dict[str, Any] | None:
        best = max(self.items, key=lambda item: item.gain, default=None)
        if best is None or not best.gain or best.top is None:
            return None
        gain = {"gain_us": best.gain * 1e6, "share": best.gain / wall}
        return {"name": best.name, "move": best.top.move, "cause": best.top.cause, **gain}

    def _us_by_cause(self) -> dict[str, float]:
        """Microseconds by cause over all runs."""
        times: dict[str, float] = defaultdict(float)
        for item in self.items:
            for entry in item.gap.accounting:
                times[entry.cause] += entry.time * item.gap.target.count * 1e6
        return dict(times)

    @property
    def answer(self) -> tuple[str, ...]:
        """Coverage, the verdict, and the host launch overhead; one line where nothing was joined."""
        if not self.items:
            return (sentences.NOTHING_JOINED,)
        joined = sum(len(pair.observations) for pair in self.joined.pairs)
        observed = joined + len(self.joined.unmatched_observed)
        doubts = len(self.items) - len(self.trusted)
        first = sentences.coverage(
            self.explained_share, self._measured + self._unmatched_time, joined, observed, doubts
        )
        alone, counted = len(self.items) == 1, any(item.gap.regime.basis == COUNTERS for item in self.items)
        verdict = (
            sentences.item_verdict(self.items[0].gap) if alone else sentences.program_verdict(self.verdict, counted)
        )
        host = sentences.host_overhead(self.waiting, any(item.waits_at_most for item in self.items))
        return (first, verdict, host) if host else (first, verdict)

    @property
    def sentence(self) -> str:
        """The answer and the largest gap in one text."""
        return ". ".join(self.answer) + "." + sentences.largest_gap(self.largest_gaps)


def reconcile(
    prediction: Prediction,
    observations: Iterable[Observation],
    hints: Hints | None = None,
    sealed: Any = None,
    sent: Mapping[str, str] | None = None,
) -> Report:
    """The gap report of a prediction and its observations.

    `hints` names the step (or steps) of observations that have other names; `sealed` is kept as given; `sent` gives by
    step how its kernels are launched, `one by one` or `graph`, for tools that do not record it.
    """
    if not isinstance(observations, Iterable):
        raise InputError(
            f"reconcile takes a prediction and its observations; got {type(observations).__name__} for these"
        )
    observations = list(observations)
    if not observations:
        raise InputError("nothing to reconcile: no observations were given; run or import a profile first")
    names = {step.name for step in prediction.steps}
    for name, text in (sent or {}).items():
        if name not in names:
            raise unknown("step of the prediction", name, names, "It is named in `sent`.")
        way(text, name)
    joined = join(prediction, observations, hints)
    steps = {step for pair in joined.pairs for step in pair.steps}
    evaluate_together(prediction.expected[step] for step in sorted(steps))
    gaps = [Gap.of(prediction, pair, _sent(prediction, pair, sent or {})) for pair in joined.pairs]
    items = tuple(Item(gap, tuple(advise(gap))) for gap in with_neighbours(gaps))
    return Report(
        prediction,
        joined,
        items,
        sealed,
        other_machines(prediction.machine, (item.conditions for item in observations)),
    )


def other_machines(machine: Machine, conditions: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """A note for each observed device that the catalog lists as another machine; unknown names are ignored."""
    devices = (each.get(key) for each in conditions if each for key in ("gpu", "device"))
    aliases = {" ".join(alias.lower().split()) for alias in machine.aliases}
    notes = []
    for name in dict.fromkeys(name for name in devices if isinstance(name, str)) if aliases else ():
        known = None if " ".join(name.lower().split()) in aliases else by_driver_name(name, "gpu")[0]
        if known is not None:
            text = f"measured on {name} ({known.name}), predicted for {machine.name}"
            notes.append(f"{text}: the gaps compare two machines; use --on {known.name}")
    return tuple(notes)


def _sent(prediction: Prediction, pair: Pair, sent: Mapping[str, str]) -> str | None:
    """How all steps of a pair are launched; None where they differ or one is unknown."""
    ways = {sent.get(prediction.steps[place].name) for place in pair.steps}
    return ways.pop() if len(ways) == 1 else None
