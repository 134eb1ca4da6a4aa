"""Answers of studies of a model, the first line being the one to act on: curves, scaling, machines side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...core.units import counted, percent, rounded_text, show
from .summary import choice_answer, devices_text, layout_text

if TYPE_CHECKING:
    from .choice import Choice
    from .curve import Curve, CurvePoint
    from .result import ModelPrediction
    from .scaling import Scaling, ScalingPoint
    from .training import TrainingPrediction


def curve_answer(curve: Curve) -> list[str]:
    """Of every machine: where throughput is highest, and where a token takes shortest."""
    lines = []
    for prediction in curve.predictions:
        usable = [row for row in curve.of(prediction.machine.name) if row.fits]
        place = f"{prediction.architecture.name} on {layout_text(prediction)}"
        if not usable:
            lines.append(f"{place}: does not fit at any {curve.swept} of these")
            continue
        best = max(usable, key=lambda row: row.tokens_per_s_per_device)
        quick = min(usable, key=lambda row: row.tpot)
        lines.append(
            f"{place}: {_rate(prediction, best)} at {curve.swept} {best.value:,}, TPOT {show(best.tpot, 's', 3)}"
        )
        if quick is not best:
            lines.append(
                f"shortest TPOT {show(quick.tpot, 's', 3)} at {curve.swept} {quick.value:,}: {_rate(prediction, quick)}"
            )
    missing = sum(not row.fits for row in curve.points)
    return [*lines, *([f"does not fit in memory: {counted(missing, 'point')}"] if missing else [])]


def _rate(prediction: ModelPrediction, row: CurvePoint) -> str:
    each = f", {show(row.tokens_per_s_per_device)} per device" if prediction.devices > 1 else ""
    return f"{show(row.tokens_per_s)} tok/s{each}"


def scaling_answer(scaling: Scaling) -> list[str]:
    """Of every machine: the layout that gives most, against the first, and what that is of the ideal."""
    lines = []
    for machine in scaling.machines:
        rows = scaling.of(machine)
        first, last = rows[0], max(rows, key=lambda row: row.tokens_per_s)
        what = "a step" if scaling.training else "a token"
        text = f"{scaling.model}: {show(last.tokens_per_s)} tok/s on {_place(last)}, {show(last.time, 's', 3)} {what}"
        if last is not first:
            gain = rounded_text(last.tokens_per_s / first.tokens_per_s, 3)
            text += f": {gain}x of {_place(first)}, {percent(last.efficiency)} of ideal"
        lines.append(text)
        small = [_place(row) for row in rows if not row.fits]
        if small:
            lines.append(f"does not fit in memory: {', '.join(small)}")
    return lines


def _place(row: ScalingPoint) -> str:
    return devices_text(row.layout, row.machine if row.devices > 1 else f"1 x {row.machine}")


def choice_name(row: Choice) -> str:
    """`4 x h200-sxm (tp=4), batch 32`."""
    return f"{devices_text(row.layout, row.machine)}, batch {row.batch}"


def machines_answer(rows: Sequence[Choice]) -> list[str]:
    """The machine that gives most for a device, or costs least where prices are given, against the others."""
    ranked = sorted((row for row in rows if not row.reason), key=_worth)
    if not ranked:
        return [f"{row.machine}: {row.reason}" for row in rows]
    first = ranked[0]
    priced = first.cost_per_million is not None
    lines = [f"{'cheapest' if priced else 'most tok/s per device'}: {choice_answer([first])[0]}"]
    for other in ranked[1:]:
        gain = rounded_text(first.tokens_per_s_per_device / other.tokens_per_s_per_device, 3)
        token = rounded_text(other.tpot / first.tpot, 3)
        lines.append(f"against {choice_name(other)}: {gain}x tok/s per device, {token}x as fast per token")
    return [*lines, *(f"{row.machine}: {row.reason}" for row in rows if row.reason)]


def _worth(row: Choice) -> float:
    cost = row.cost_per_million
    return cost if cost is not None else -row.tokens_per_s_per_device


def trained_answer(made: Sequence[TrainingPrediction]) -> list[str]:
    """The machine that trains most tokens a second and device, of those that the job fits on."""
    usable = sorted((item for item in made if item.fits is not False), key=lambda item: -item.tokens_per_s_per_device)
    lines = [_trained(item) for item in usable]
    lines[:1] = [f"most tok/s per device: {lines[0]}"] if lines else []
    left = [devices_text(item.layout, item.machine.name) for item in made if item.fits is False]
    return [*lines, *([f"does not fit in memory: {', '.join(left)}"] if left else [])]


def _trained(item: TrainingPrediction) -> str:
    mfu = f", MFU {percent(item.mfu)}" if item.mfu is not None else ""
    rate = f"{show(item.tokens_per_s)} tok/s, {show(item.tokens_per_s_per_device)} per device"
    return f"{devices_text(item.layout, item.machine.name)}: step {show(item.time, 's', 3)}, {rate}{mfu}"
