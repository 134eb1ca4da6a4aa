"""Items of a program report: every group of runs with its prediction as a gap, or with the reason why it has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ...core.cached import cached_property
from ...core.errors import RidgelineError
from ...core.machine import Machine
from ...core.work import Program, Step
from ...prediction.coefficients import TRANSFERRED
from ...prediction.formats import computed_in, formats_on
from ...prediction.host import GRAPH, ONE_BY_ONE
from ...prediction.predict import Prediction, predict
from ...prediction.residence import holding, stays_in_cache
from ...prediction.together import evaluate_together
from ..advice import advise
from ..gap import Gap
from ..item import Item
from ..measurement import Measurement
from ..target import Target, target
from .dispatch import is_small, loops, with_dispatch
from .groups import Group
from .kept import Kept

MAX_KERNELS = 4  # names that a document lists of one item


@dataclass(frozen=True)
class OpItem(Item):
    """A group with its gap: times are of one call, `count` is per step."""

    group: Group

    DOCUMENT: ClassVar[tuple[str, ...]] = (
        "name", "op=group.owner.name", "phase=group.phase", "module=group.module", "sources=group.sources", "shapes",
        "calibration", *(entry for entry in Item.DOCUMENT[1:] if not entry.startswith(("kernels=", "conditions="))),
        "kernels", "confidence=group.owner.confidence",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def predicted(self) -> float:
        """Expected device time per step."""
        return self.gap.target.time * self.gap.target.count

    @property
    def shapes(self) -> list[list[int]]:
        return [list(tensor.shape) for tensor in self.group.owner.call.tensors]

    @property
    def kernels(self) -> tuple[str, ...]:
        return self.group.kernels[:MAX_KERNELS]

    @cached_property
    def calibration(self) -> str:
        """What the prediction rests on: calibrated, transferred or uncalibrated, by the kernel known least."""
        return str(self.group.fields.get("calibration", ""))


@dataclass(frozen=True)
class Uncounted:
    """A group without a prediction, and the reason."""

    group: Group

    DOCUMENT: ClassVar = (
        "name", "op=group.owner.name", "kernel", "phase=group.phase", "count=group.count", "device_us=group.time", "reason",
        "joined_by=group.owner.how", "confidence=group.owner.confidence", "sources=group.sources",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return self.group.name

    @property
    def kernel(self) -> str:
        return self.group.kernels[0] if self.group.kernels else ""

    @property
    def reason(self) -> str:
        return str(self.group.fields.get("refused", self.group.owner.reason))


def items(
    kept: Kept, grouped: Sequence[Group], machine: Machine, dispatch: float | None = None
) -> tuple[list[OpItem], list[Uncounted]]:
    """The groups that are predicted, and those that are not; `dispatch` is that of an operator that runs on the host."""
    wanted = [group for group in grouped if group.owner.work is not None and group.time > 0]
    works = [(each.owner.work, each.count) for each in wanted if each.owner.work is not None]
    cached = kept.on_host and stays_in_cache(machine, works)
    predictions = _predictions(wanted, machine, cached)
    made: list[OpItem] = []
    without: list[Uncounted] = [Uncounted(group) for group in grouped if group.owner.work is None and group.time > 0]
    for group, outcome in zip(wanted, predictions, strict=True):
        if isinstance(outcome, str):
            group.fields["refused"] = outcome
            without.append(Uncounted(group))
        else:
            by_dispatch = dispatch if is_small(group) and (loops(group) or not cached) else None
            made.append(_item(kept, group, outcome, by_dispatch))
    return made, without


def _predictions(wanted: Sequence[Group], machine: Machine, cached: bool) -> list[Prediction | str]:
    """The prediction of each group's call, or why there is none; the formulas of all are evaluated at once.

    `cached` says that the calls find their operands in a cache of the CPU.
    """
    predictions: list[Prediction | str] = []
    formats = formats_on(machine)
    for group in wanted:
        assert group.owner.work is not None
        step = Step(group.name, computed_in(group.owner.work, formats), 1.0, group.owner.backend)
        try:
            level = holding(machine, float(step.work.footprint)) if cached else None
            predictions.append(predict(Program((step,)), machine, resident=level))
        except RidgelineError as error:
            predictions.append(str(error))
    made = [prediction for prediction in predictions if isinstance(prediction, Prediction)]
    evaluate_together(expected for each in made for expected in each.expected)
    return predictions


def _item(kept: Kept, group: Group, prediction: Prediction, dispatch: float | None) -> OpItem:
    timeline = kept.timeline
    replayed = bool(kept.graph[group.runs].all())
    measurement = Measurement(
        samples=group.samples,
        flops={},
        bytes={},
        counters={},
        conditions=timeline.conditions,
        kernels=group.kernels,
        launches=group.launches,
        path=(),
        tools=(timeline.tool,) if timeline.tool else (),
        notes=(),
    )
    side = _one_call(target(prediction, range(len(prediction.steps))), group)
    labels = {str(expected.label) for expected in prediction.expected}
    order = ("uncalibrated", "transferred", "calibrated")
    group.fields["calibration"] = next((label for label in order if label in labels), "")
    group.fields["prediction"] = prediction
    if dispatch is not None:
        side = with_dispatch(side, group, prediction.machine, dispatch)
        group.fields["calibration"] = TRANSFERRED
    gap = Gap(side, measurement, group.owner.how, sent=GRAPH if replayed else ONE_BY_ONE)
    return OpItem(gap, tuple(advise(gap)), group)


def _one_call(side: Target, group: Group) -> Target:
    """The target of one call, which may be several equal runs of a part."""
    parts = side.count
    needs = {name: replace(need, amount=need.amount * parts) for name, need in side.needs.items()}
    names = ("time", "low", "high", "floor", "launch", "shape_items", "matrix_flops")
    times = {name: getattr(side, name) * parts for name in names}
    work = group.owner.work if group.owner.work is not None else side.work
    return replace(side, **times, work=work, needs=needs, name=group.name, count=group.count, steps=(group.name,))
