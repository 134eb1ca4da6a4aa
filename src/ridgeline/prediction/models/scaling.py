"""Scaling: one model and one load over ever more devices, against the ideal of time that falls as devices are added.

Any degree may grow while the load, or the batch of a training step, stays: strong scaling. `devices` splits every layer over
tensor-parallel devices (`tp`) in serving, and the batch over replicas (`dp`) in training. Experts are split over devices that
are there for other degrees, so that `ep` changes no number of devices. The ideal starts at the first point that exists; its
efficiency is 1 there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from ...core.errors import InputError, RidgelineError, unknown
from ...programs.models.layout import CONTEXT, DATA, DEGREES, EXPERT, PIPELINE, TENSOR, Layout
from ...programs.models.program import COMMUNICATION
from .result import ModelPrediction, predict_model
from .step import StepPrediction
from .training import TrainingPrediction, predict_training

DEVICES = "devices"
# what a curve of scaling may name; in serving every replica has a load of its own, so that dp scales by definition
SERVED, TRAINED = (DEVICES, TENSOR, PIPELINE, EXPERT, CONTEXT), (DEVICES, *DEGREES)


@dataclass(frozen=True)
class ScalingPoint:
    """`time` is that of an output token, or of a training step; `communication` its share that waits for links."""

    machine: str
    layout: Layout
    time: float
    tokens_per_s: float
    communication: float
    bound: str
    fits: bool
    efficiency: float = 1.0  # tokens a second and device, over those of the first point

    DOCUMENT: ClassVar = (
        "machine", "devices", "layout", "time_us=time", "tokens_per_s", "efficiency", "communication", "bound", "fits",
    )  # fmt: skip

    @property
    def devices(self) -> int:
        return self.layout.devices


@dataclass(frozen=True)
class Scaling:
    """`refused` says why a number of devices has no point."""

    model: str
    training: bool
    degree: str  # that grows
    points: tuple[ScalingPoint, ...]
    refused: tuple[str, ...] = ()

    DOCUMENT: ClassVar = ("model", "training", "degree", "points", "refused")

    @property
    def machines(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(point.machine for point in self.points))

    def of(self, machine: str) -> tuple[ScalingPoint, ...]:
        return tuple(point for point in self.points if point.machine == machine)


def serving_scaling(predictions: Sequence[ModelPrediction], swept: str, values: Iterable[float]) -> Scaling:
    """The load of each prediction at other degrees of parallelism."""
    if swept not in SERVED:
        raise unknown("degree of a scaling curve", swept, SERVED)

    def point(before: ModelPrediction, layout: Layout) -> ScalingPoint:
        made = predict_model(
            before.architecture, before.machine, before.load, before.formats, layout, before.software.name, before.ceilings
        )  # fmt: skip
        share = float(made.decode.communication) / float(made.decode.time)
        rate, tpot = float(made.tokens_per_s), float(made.serving.tpot)
        return ScalingPoint(
            before.machine.name, layout, tpot, rate, share, str(made.decode.bound), bool(made.memory.fits)
        )

    starts = [(item.layout, partial(point, item)) for item in predictions]
    return _scaling(predictions[0].architecture.name, False, starts, swept, list(values))


def training_scaling(predictions: Sequence[TrainingPrediction], swept: str, values: Iterable[float]) -> Scaling:
    """The batch of each step at other degrees of parallelism."""
    if swept not in TRAINED:
        raise unknown("degree of a scaling curve of training", swept, TRAINED)

    def point(before: TrainingPrediction, layout: Layout) -> ScalingPoint:
        made = predict_training(
            before.architecture, before.machine, before.job, before.formats, layout, before.ceilings
        )
        kernels = StepPrediction(made.machine, tuple(item for item in made.step.ops if item.op.part != COMMUNICATION))
        bound = COMMUNICATION if communication_bound(made) else str(kernels.bound)
        share = made.waiting / made.time
        return ScalingPoint(
            before.machine.name, layout, made.time, made.tokens_per_s, share, bound, made.fits is not False
        )

    starts = [(item.layout, partial(point, item)) for item in predictions]
    return _scaling(predictions[0].architecture.name, True, starts, swept, list(values))


def communication_bound(made: TrainingPrediction) -> bool:
    """Whether collectives take longer than the kernels that could hide them."""
    return made.communication > made.kernels


def _scaling(
    model: str, training: bool, starts: Iterable[tuple[Layout, Callable[[Layout], ScalingPoint]]], swept: str, values: Sequence[float]
) -> Scaling:  # fmt: skip
    degree = swept if swept != DEVICES else DATA if training else TENSOR
    points: list[ScalingPoint] = []
    refused: list[str] = []
    for layout, point_at in starts:
        made: list[ScalingPoint] = []
        for value in values:
            try:
                made.append(point_at(_layout(layout, swept, degree, round(value))))
            except RidgelineError as error:
                refused.append(f"{swept}={value:g}: {error}")
        points += [
            replace(row, efficiency=row.tokens_per_s / row.devices / (made[0].tokens_per_s / made[0].devices))
            for row in made
        ]
    if not points:
        raise InputError(refused[0])
    return Scaling(model, training, degree, tuple(points), tuple(dict.fromkeys(refused)))


def _layout(layout: Layout, swept: str, degree: str, value: int) -> Layout:
    """With one degree changed: to the value, or so that there are as many devices in all."""
    if swept != DEVICES:
        return _at(layout, degree, value)
    others = layout.devices // int(getattr(layout, degree))
    if value % others:
        raise InputError(f"{value} devices cannot be split into groups of {others}, which the other degrees ask for")
    return _at(layout, degree, value // others)


def _at(layout: Layout, degree: str, value: int) -> Layout:
    degrees: dict[str, Any] = {degree: value}
    return replace(layout, **degrees)
