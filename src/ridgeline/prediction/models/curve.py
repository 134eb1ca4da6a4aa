"""Curve: a model under loads that differ in one size: latency against throughput as the batch grows, or the context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.errors import unknown
from .result import ModelPrediction

SWEPT = ("batch", "prompt", "generate")


@dataclass(frozen=True)
class CurvePoint:
    machine: str
    value: int
    ttft: float
    tpot: float
    tokens_per_s: float
    tokens_per_s_per_device: float
    memory: float | None  # share of the device's memory
    bound: str  # of decode
    fits: bool

    DOCUMENT: ClassVar = (
        "machine", "value", "ttft_us=ttft", "tpot_us=tpot", "tokens_per_s", "tokens_per_s_per_device", "memory", "bound", "fits",
    )  # fmt: skip


@dataclass(frozen=True)
class Curve:
    swept: str
    predictions: tuple[ModelPrediction, ...]  # with an array where the load is swept
    points: tuple[CurvePoint, ...]

    DOCUMENT: ClassVar = ("swept", "points")

    @property
    def machines(self) -> int:
        return len(self.predictions)

    def of(self, machine: str) -> tuple[CurvePoint, ...]:
        return tuple(point for point in self.points if point.machine == machine)


def curve(predictions: Sequence[ModelPrediction], swept: str, values: NDArray[np.float64]) -> Curve:
    """Each prediction under its load with one size replaced by values; evaluated at once."""
    if swept not in SWEPT:
        raise unknown("size of a load", swept, SWEPT)
    made, points = [], []
    for prediction in predictions:
        swept_one = prediction.with_load(**{swept: values})
        made.append(swept_one)
        shape = values.shape
        columns = [
            np.broadcast_to(np.asarray(column), shape).tolist()
            for column in (
                swept_one.serving.ttft, swept_one.serving.tpot, swept_one.tokens_per_s, swept_one.tokens_per_s_per_device,
                np.nan if swept_one.memory.share is None else swept_one.memory.share, swept_one.decode.bound, swept_one.memory.fits,
            )
        ]  # fmt: skip
        for value, ttft, tpot, rate, each, memory, bound, fits in zip(values.tolist(), *columns, strict=True):
            share = None if np.isnan(memory) else memory
            points.append(CurvePoint(prediction.machine.name, int(value), ttft, tpot, rate, each, share, bound, fits))
    return Curve(swept, tuple(made), tuple(points))
