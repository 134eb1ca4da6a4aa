"""Target: the predicted side of a gap, for one run of the steps that a pair covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.errors import InputError
from ..core.machine import MAIN, Machine
from ..core.work import Array, Work, total
from ..prediction.predict import Prediction

STATED = "custom"  # family of work whose counts are stated
# Share of roofline that a kernel without faults achieves, by the kind of ceilings.
ACHIEVABLE_SHARE = {"stated": 0.8, "measured": 0.9}


@dataclass(frozen=True)
class Need:
    """Work on an engine or bytes over a level: at least `amount / rate` seconds."""

    side: str  # compute or memory
    amount: float
    rate: float
    uncertainty: float
    kind: str  # of the ceiling: stated, derived or measured

    @property
    def time(self) -> float:
        return self.amount / self.rate

    def of(self, amount: float) -> Need:
        """Another amount at the same ceiling."""
        return Need(self.side, amount, self.rate, self.uncertainty, self.kind)


def longest(needs: Mapping[str, Need], side: str = "") -> float:
    """Seconds of the longest need (of one side), the lower bound of all together."""
    return max((need.time for need in needs.values() if side in ("", need.side)), default=0.0)


@dataclass(frozen=True)
class Target:
    name: str
    machine: Machine
    ceilings: str | None
    work: Work
    time: float
    low: float
    high: float
    floor: float
    needs: Mapping[str, Need]
    launch: float  # seconds of launch latency in the expected time
    shape_items: float  # seconds of wave quantization, fill and drain in it
    bound: str
    limiter: str
    engine: str  # of the longest arithmetic, empty without any
    matrix_flops: float
    count: float
    steps: tuple[str, ...]
    algorithm_known: bool = True  # False: the counted work stands for it, so nothing is known to be in excess

    @property
    def fused(self) -> bool:
        return len(self.steps) > 1

    @property
    def main(self) -> str:
        return self.machine.main.name

    @property
    def flops(self) -> float:
        return self.needs[self.engine].amount if self.engine else 0.0

    @property
    def bytes(self) -> float:
        return float(np.asarray(self.work.bytes))

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes else None

    def moved(self, way: str) -> float:
        return float(np.asarray(self.work.bytes_at(MAIN, way)))

    @property
    def beyond_floor(self) -> float:
        """The expected time without floor and launch."""
        return max(self.time - self.floor - self.launch, 0.0)

    @property
    def shape_loss(self) -> float:
        """The part that comes from the shape; a measured ceiling already includes the rest of these items."""
        return min(self.shape_items, self.beyond_floor)

    @property
    def limiter_loss(self) -> float:
        """The usual loss of this kernel family on its limiter, per second of floor."""
        return (self.beyond_floor - self.shape_loss) / self.floor if self.floor else 0.0

    @property
    def at_achievable_share(self) -> float:
        """Seconds at the achievable share of roofline, or the expected time where that is less."""
        return min(self.time, self.floor / self.achievable_share + self.launch)

    @property
    def achievable_share(self) -> float:
        return ACHIEVABLE_SHARE[self.ceiling_kind]

    @property
    def ceiling_kind(self) -> str:
        """`measured`, or `stated` where any ceiling comes from a document."""
        kinds = {need.kind for name, need in self.needs.items() if not name.startswith("special.")}
        return "measured" if kinds == {"measured"} else "stated"


def target(prediction: Prediction, places: Sequence[int]) -> Target:
    """Steps of a prediction as one: times and work terms add up."""
    steps = [prediction.steps[place] for place in places]
    common = min(_number(step.count, step.name) for step in steps)
    part = Prediction(
        prediction.machine,
        tuple(steps if common == 1 else (replace(step, count=step.count / common) for step in steps)),
        tuple(prediction.bounds[place] for place in places),
        tuple(prediction.expected[place] for place in places),
        prediction.given_efficiency,
    )
    name = " + ".join(dict.fromkeys(step.name for step in steps))
    needs = _needs(part, name)
    seconds = {kind: _number(_seconds(part, kind), name) for kind in ("launch", "shape")}
    limiter = max(needs, key=lambda label: needs[label].time, default="")
    single = part.bounds[0] if len(steps) == 1 else None
    return Target(
        name=name,
        machine=prediction.machine,
        ceilings=part.bounds[0].ceilings,
        work=_work(part),
        time=_number(part.time, name),
        low=_number(part.low, name),
        high=_number(part.high, name),
        floor=longest(needs),
        needs=needs,
        launch=seconds["launch"],
        shape_items=seconds["shape"],
        bound=str(single.bound) if single else needs[limiter].side if limiter else "overhead",
        limiter=str(single.limiter) if single else limiter or "launch",
        engine=_engine(needs),
        matrix_flops=sum(_number(_matrix_flops(step.work, step.count), name) for step in part.steps),
        count=common,
        steps=tuple(step.name for step in steps),
    )


def target_cases(
    prediction: Prediction, names: Sequence[str], works: Sequence[Work], algorithm_known: bool = True
) -> list[Target]:
    """The target of each case of a step that was predicted over arrays, with its name and its work."""
    bound = prediction.bounds[0]

    def column(value: Any) -> list[Any]:
        listed: list[Any] = np.broadcast_to(np.asarray(value), (len(works),)).tolist()
        return listed

    terms = [(label, term.side, term.ceiling, column(term.amount), column(term.time)) for label, term in bound.terms.items()]  # fmt: skip
    launch, shape = (column(_seconds(prediction, kind)) for kind in ("launch", "shape"))
    columns = (prediction.time, prediction.low, prediction.high, bound.bound, bound.limiter)
    rows = zip(names, works, *map(column, columns), launch, shape, strict=True)
    targets = []
    for place, (name, work, time, low, high, side, limiter, waited, shaped) in enumerate(rows):
        needs = {}
        for label, kind, ceiling, amounts, times in terms:
            rate = amounts[place] / times[place] if times[place] else ceiling.value
            needs[label] = Need(kind, amounts[place], rate, ceiling.uncertainty, ceiling.kind)
        made = Target(
            name, prediction.machine, bound.ceilings, work, time, low, high, longest(needs), needs, waited, shaped,
            side, limiter, _engine(needs), float(_matrix_flops(work)), 1.0, (name,), algorithm_known,
        )  # fmt: skip
        targets.append(made)
    return targets


def _seconds(prediction: Prediction, kind: str) -> Array:
    return total(item.seconds for item in prediction.items if item.kind == kind)


def _engine(needs: Mapping[str, Need]) -> str:
    """Of the longest arithmetic; special functions are not arithmetic proper."""
    engines = [label for label, need in needs.items() if need.side == "compute" and not label.startswith("special.")]
    return max(engines, key=lambda label: needs[label].time, default="")


def _matrix_flops(work: Work, count: Array = 1.0) -> Array:
    return total(value * count for (engine, _, _), value in work.counts.items() if engine == "matrix")


def _needs(prediction: Prediction, name: str) -> dict[str, Need]:
    needs: dict[str, Need] = {}
    for bound, step in zip(prediction.bounds, prediction.steps, strict=True):
        for label, term in bound.terms.items():
            amount, time = (_number(value * step.count, name) for value in (term.amount, term.time))
            if label in needs:
                amount, time = amount + needs[label].amount, time + needs[label].time
            rate = amount / time if time else term.ceiling.value
            needs[label] = Need(term.side, amount, rate, term.ceiling.uncertainty, term.ceiling.kind)
    return needs


def _work(prediction: Prediction) -> Work:
    first, *others = prediction.steps
    if not others and first.count == 1:
        return first.work
    return sum((step.work.repeat(step.count) for step in prediction.steps), start=Work())


def _number(value: Array, name: str) -> float:
    if type(value) is float:
        return value
    array = np.asarray(value)
    if array.size != 1:
        raise InputError(f"{name}: the prediction is a sweep of {array.size} cases; predict only the case that was run")
    return float(array.reshape(()))
