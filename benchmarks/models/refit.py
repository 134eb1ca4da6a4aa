"""Constants that were fitted to published rows, fitted again without one engine, publisher or model at a time.

    light          seconds of a short pass over activations: TPOT
    first, wait    prompts that a request waits for: TTFT
    EXPERT_LOSS    what training loses around experts: tokens/s

Each is the value of a grid with the least median error on the rows that are left; the error is that on the rows left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ridgeline.prediction.models import training
from ridgeline.prediction.models.result import ModelPrediction
from ridgeline.prediction.models.serving import serve
from ridgeline.prediction.models.step import StepPrediction
from ridgeline.prediction.models.training import TrainingPrediction

if TYPE_CHECKING:
    from published import Row

LIGHTS = [(value * 1e-6,) for value in np.arange(0.0, 10.1, 0.5)]
WAITS = list(product(np.arange(0.0, 2.01, 0.1), np.arange(0.0, 0.301, 0.025)))
LOSSES = [(value,) for value in np.arange(1.0, 4.01, 0.1)]
Constants = tuple[float, ...]
Errors = NDArray[np.float64]  # one line for each of the constants, one column for each row


def with_light(made: ModelPrediction, light: float) -> ModelPrediction:
    """The same kernels, passes over activations aside."""

    def again(step: StepPrediction) -> StepPrediction:
        return replace(step, ops=tuple(replace(item, light=light) for item in step.ops))

    return replace(
        made,
        software=replace(made.software, light=light),
        prefill=again(made.prefill),
        decode=again(made.decode),
    )


def tpot_errors(rows: Sequence[Row]) -> Errors:
    made = [[float(with_light(_served(row), *light).serving.tpot) for row in rows] for light in LIGHTS]
    return np.array(made) / [row.measured for row in rows] - 1


def ttft_errors(rows: Sequence[Row]) -> Errors:
    columns = []
    for row in rows:
        made = _served(row)
        prefill, decode = made.prefill_time, made.decode_time
        times = [
            float(
                serve(
                    replace(made.software, first=first, wait=wait), prefill, decode, made.load, made.layout.pp, made.running
                ).ttft
            )
            for first, wait in WAITS
        ]  # fmt: skip
        columns.append(np.array(times) / row.measured - 1)
    return np.array(columns).T


def loss_errors(rows: Sequence[Row]) -> Errors:
    made, before = [], training.EXPERT_LOSS
    try:
        for (loss,) in LOSSES:
            training.EXPERT_LOSS = loss
            made.append([replace(_trained(row)).tokens_per_s_per_device for row in rows])
    finally:
        training.EXPERT_LOSS = before
    return np.array(made) / [row.measured for row in rows] - 1


def _served(row: Row) -> ModelPrediction:
    assert isinstance(row.made, ModelPrediction)
    return row.made


def _trained(row: Row) -> TrainingPrediction:
    assert isinstance(row.made, TrainingPrediction)
    return row.made


def best(errors: Errors) -> int:
    """The place of the constants with the least median error; of several the one with the least mean."""
    absolute = np.abs(errors)
    return int(np.lexsort((absolute.mean(axis=1), np.round(np.median(absolute, axis=1), 3)))[0])


def lines_of(
    rows: Sequence[Row], kind: str, name: str, grid: Sequence[Constants], errors_of: Callable[[Sequence[Row]], Errors]
) -> Iterator[str]:
    chosen = [row for row in rows if row.kind == kind]
    errors, groups = errors_of(chosen), np.array([row.group for row in chosen])
    shipped = np.abs([row.error for row in chosen])

    def shown(place: int) -> str:
        return ", ".join(f"{value:.3g}" for value in grid[place])

    everything = best(errors)
    yield f"| {kind} | {name} | none | {len(chosen)} | {shown(everything)} | {np.median(np.abs(errors[everything])):.0%} | {np.median(shipped):.0%} |"
    left_out = []
    for group in dict.fromkeys(groups):
        inside = groups == group
        if np.all(inside):
            continue
        place = best(errors[:, ~inside])
        of_group = np.abs(errors[place, inside])
        left_out += of_group.tolist()
        yield f"| {kind} | {name} | {group} | {inside.sum()} | {shown(place)} | {np.median(of_group):.0%} | {np.median(shipped[inside]):.0%} |"
    yield f"| {kind} | {name} | each in turn | {len(left_out)} | | {np.median(left_out):.0%} | |"


def leave_one_out(rows: Sequence[Row]) -> Iterator[str]:
    yield "| figure | constants | left out | rows | fitted without it | median error on it | with the shipped constants |"
    yield "|---|---|---|--:|---|--:|--:|"
    yield from lines_of(rows, "serving TPOT", "light", LIGHTS, tpot_errors)
    yield from lines_of(rows, "serving TTFT", "first, wait", WAITS, ttft_errors)
    yield from lines_of(rows, "training, experts", "EXPERT_LOSS", LOSSES, loss_errors)
