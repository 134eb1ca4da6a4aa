"""Exercises of the lessons about counts, sides of the ridge and batch: what a page shows for what a reader did."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....core.errors import InputError
from ....core.machine import MAIN, Machine
from ....core.roofline import attainable, ridge
from ....core.units import percent, rounded_text, show
from ....prediction.answer_line import answer_line
from ....prediction.kernel_sets import Entry, KernelSet, PredictedKernel, kernels_of
from ....prediction.predict import Prediction, predict
from ....prediction.turning import critical_batch
from ....programs.ops import linear
from ....render.chart import Chart, Line, Point
from ....render.charts.plane import Ranges, Roofs, plane_chart, roof_chart, roofs_used
from ....render.charts.wording import engine_title
from .lookup import case_of_text, machine_of
from .pictures import pictured

WORKERS, BELT = 1000.0, 100.0  # steps per hour, parts per hour: the factory of the first lesson
MAX_BATCH = 512  # the end of the slider
SIDES = {"memory": "left", "compute": "right"}
Document = dict[str, Any]


def intensity_text(value: float) -> str:
    """An intensity as the lessons print it: four digits, two where it is below 1."""
    return rounded_text(value, 4 if value >= 1 else 2)


def side_of(intensity: float, at_ridge: float) -> str:
    return "compute" if intensity >= at_ridge else "memory"


# -- the factory -------------------------------------------------------------------------------------------------------


def factory(steps: float) -> Document:
    """Workers and a belt: which of them is busy all the time at so many steps per part."""
    rate, even = float(attainable(steps, WORKERS, BELT)), float(ridge(WORKERS, BELT))
    workers, belt = rate / WORKERS, rate / steps / BELT
    if steps == even:
        verdict = "Break-even: workers and belt are both busy all the time."
    elif steps < even:
        verdict = f"The belt is the bottleneck: the workers are busy {percent(workers)} of the time."
    else:
        verdict = f"The workers are the bottleneck: the belt runs {percent(belt)} of the time."
    made = f"{show(steps)} {'step' if steps == 1 else 'steps'} per part: {show(rate)} steps and {show(rate / steps)} parts per hour; break-even at {show(even)} steps per part"
    return {
        "answer": [verdict, made], "ridge": even, "rate": rate, "bound": "balanced" if steps == even else side_of(steps, even),
        "bars": [_bar("workers", "compute", workers, f"busy {percent(workers)}"), _bar("belt", "memory", belt, f"busy {percent(belt)}")],
    }  # fmt: skip


def _bar(label: str, side: str, share: float, text: str) -> Document:
    return {"label": label, "side": side, "share": share, "text": text}


# -- counts of two ops -------------------------------------------------------------------------------------------------


def counts(cases: Sequence[str], on: str) -> Document:
    """FLOPs, bytes and AI of each case, and the time that compute and memory need for it, as shares of the longer one."""
    return {"cases": [_counted(case, machine_of(on)) for case in cases]}


def _counted(case: str, machine: Machine) -> Document:
    prediction = _predicted(case, machine)
    (row,), terms = list(prediction.rows()), prediction.bounds[0].terms.values()
    times = {side: max(float(term.time) for term in terms if term.side == side) for side in SIDES}
    longest = max(times.values())
    bound = side_of(row["intensity"], row["ridge"])
    verdict = f"AI {intensity_text(row['intensity'])} FLOP/B, ridge {show(row['ridge'])}: {bound}-bound"
    counted = f"{show(row['flops'], 'flop')} over {show(row['bytes'], 'B')} on {machine.name}"
    labels = {"compute": "compute at peak", "memory": "memory at full bandwidth"}
    bars = [_bar(labels[side], side, times[side] / longest, show(times[side], "s")) for side in ("compute", "memory")]
    title = f"{row['op']} {' '.join(f'{name}={show(size)}' for name, size in row['shape'].items())} {row['dtype']}"
    return {"title": title, "answer": [verdict, counted], "intensity": row["intensity"], "intensity_text": intensity_text(row["intensity"]), "bound": bound, "bars": bars}  # fmt: skip


def _predicted(case: str, machine: Machine) -> Prediction:
    """One kernel with flops and bytes, which has a place on the chart."""
    op, values = case_of_text(case)
    prediction = predict(op(**values), machine)
    sides = {term.side for term in prediction.bounds[0].terms.values()}
    if prediction.count != 1 or len(prediction.steps) != 1 or not {"compute", "memory"} <= sides:
        raise InputError(f"{case} is not one kernel with flops and bytes, so it has no place on the chart")
    return prediction


# -- left or right of the ridge ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Placed:
    """A case of the exercise: its name, its kernel, and the roofs that it is judged by."""

    title: str
    study: KernelSet
    kernel: PredictedKernel
    roofs: Roofs

    @property
    def ridge(self) -> float:
        return self.roofs.ridges[0]

    @property
    def side(self) -> str:
        return side_of(self.kernel.intensity, self.ridge)


def place(cases: Sequence[tuple[str, str]], on: str, chosen: int, guess: float | None) -> Document:
    """The chart on which to place a case; with a guess (an AI), whether its side is right, and the case in its place.

    All charts of an exercise have the same axes, so that they do not give the answer away.
    """
    machine = machine_of(on)
    if not 0 <= chosen < len(cases):
        raise InputError(f"case {chosen} of {len(cases)}: choose one from 0 to {len(cases) - 1}")
    placed = [_placed(title, case, machine) for title, case in cases]
    item, ranges = placed[chosen], _common_ranges(machine, placed)
    unit = f"ridge of {engine_title(item.roofs.engines[0])}: {show(item.ridge, 'flop/B')}"
    chart = replace(_placed_chart(item, ranges), notes=())
    if guess is None:
        hidden = replace(chart, points=tuple(_ridges(chart)), lines=tuple(line for line in chart.lines if line.role != "guide"))  # fmt: skip
        return {"answer": [f"Where is {item.title}? Choose a side of the ridge.", unit], "chart": pictured(hidden)}
    right = side_of(guess, item.ridge) == item.side
    word = "Right" if right else "Not this side"
    where = f"{'above' if item.side == 'compute' else 'below'} its ridge of {show(item.ridge)}"
    verdict = f"{word}: {item.title} has AI {intensity_text(item.kernel.intensity)} FLOP/B, {where}, so it is {item.side}-bound."
    prediction = item.study.entries[0].prediction
    return {
        "answer": [verdict, f"expected {answer_line(prediction)}"], "right": right, "side": SIDES[item.side], "chart": pictured(chart),
        "spot": {"x": item.kernel.intensity, "y": item.kernel.rate}, "ridge": item.ridge,
    }  # fmt: skip


def _placed(title: str, case: str, machine: Machine) -> Placed:
    prediction = _predicted(case, machine)
    study = KernelSet(machine, (Entry(title, prediction),), None, None, title)
    (kernel,) = kernels_of(prediction, title)
    return Placed(title, study, kernel, roofs_used(study))


def _placed_chart(item: Placed, ranges: Ranges) -> Chart:
    return plane_chart("roofline", item.study, item.roofs, ranges, by_bound=True)


def _common_ranges(machine: Machine, placed: Sequence[Placed]) -> Ranges:
    engines = list(dict.fromkeys(name for item in placed for name in item.roofs.engines))
    roofs = Roofs(machine, engines, [machine.main.name])
    return roofs.ranges([(item.kernel.intensity, item.kernel.rate) for item in placed])


def _ridges(chart: Chart) -> list[Point]:
    return [point for point in chart.points if point.role == "ridge"]


def placed_all(cases: Sequence[tuple[str, str]], on: str) -> Document:
    """All cases of the exercise on one chart, at the end of it."""
    machine = machine_of(on)
    entries = [entry for title, case in cases for entry in _placed(title, case, machine).study.entries]
    study = KernelSet(machine, tuple(entries), None, None, f"All of them on {machine.name}")
    sides = [_placed(title, case, machine).side for title, case in cases]
    left = sides.count("memory")
    verdict = f"{left} of {len(sides)} are memory-bound."
    return {"answer": [verdict], "chart": pictured(plane_chart("roofline", study, by_bound=True))}


# -- the batch slider ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """A linear layer and its number format."""

    in_features: int
    out_features: int
    dtype: str


def batch(layer: Layer, on: str, rows: int, shown: Sequence[str] = ()) -> Document:
    """A linear layer at a batch on the roof of a machine; the axes suit every machine in `shown`."""
    return batch_on(layer, machine_of(on), rows, [machine_of(name) for name in shown])


def batch_on(layer: Layer, machine: Machine, rows: int, others: Sequence[Machine] = ()) -> Document:
    fan_in, fan_out, dtype = layer.in_features, layer.out_features, layer.dtype
    crossing = critical_batch(fan_in, fan_out, machine, None, dtype)
    prediction = predict(linear(rows, fan_in, fan_out, dtype=dtype), machine)
    (row,) = prediction.rows()
    side = side_of(row["intensity"], crossing.ridge)
    name = f"{fan_in} x {fan_out} layer"
    if crossing.never:
        limit = f"its AI approaches {show(crossing.saturation)} FLOP/B, the ridge is at {show(crossing.ridge)}"
        turn = f"Never crosses the ridge: this {name} is memory-bound at any batch; {limit}."
    else:
        turn = f"Compute-bound at batch >= {crossing.critical_batch} (ridge {show(crossing.ridge)} FLOP/B)."
        if crossing.batch > MAX_BATCH:
            turn += f" That is beyond the end of this slider, {MAX_BATCH}."
    verdict = f"Batch {rows}: AI {intensity_text(row['intensity'])} FLOP/B, {SIDES[side]} of the ridge: {side}-bound"
    return {
        "answer": [verdict, turn, f"expected {answer_line(prediction)}"], "side": side, "critical_batch": crossing.critical_batch,
        "never": crossing.never, "ridge": crossing.ridge, "intensity": row["intensity"], "chart": pictured(_batch_chart(layer, machine, rows, others)),
    }  # fmt: skip


def _batch_chart(layer: Layer, machine: Machine, rows: int, others: Sequence[Machine]) -> Chart:
    """The dot at its AI on the roof, and the way that it takes from batch 1 to the end of the slider."""
    roofs = _matrix_roofs(machine, layer.dtype)
    first, here, last = (_layer_intensity(layer, size) for size in (1, rows, MAX_BATCH))
    corner = roofs.ridges[0]
    way = [_on_roof(roofs, at) for at in (first, *([corner] if first < corner < last else []), last)]
    height, side = _on_roof(roofs, here)[1], side_of(here, corner)
    dot = Point(here, height, f"batch {rows}", f"{side}-bound", "expected", f"batch {rows}", {"intensity": here, "attainable": height})  # fmt: skip
    every = [_matrix_roofs(other, layer.dtype) for other in others or [machine]]
    spans = [roof.ranges([_on_roof(roof, first), _on_roof(roof, last)]) for roof in every]
    ranges = (
        (min(span[0][0] for span in spans), max(span[0][1] for span in spans)),
        (min(span[1][0] for span in spans), max(span[1][1] for span in spans)),
    )
    title = f"{layer.in_features} x {layer.out_features} layer in {layer.dtype} on {machine.name}"
    chart = roof_chart("roofline", title, [roofs], ranges, [Line(tuple(way), "guide", "", "")], [dot])
    return replace(chart, subtitle="", notes=())


def _on_roof(roofs: Roofs, intensity: float) -> tuple[float, float]:
    return intensity, roofs.attainable(intensity, roofs.engines[0], roofs.levels[0])


def _layer_intensity(layer: Layer, rows: int) -> float:
    return float(linear(rows, layer.in_features, layer.out_features, dtype=layer.dtype).intensity())


def _matrix_roofs(machine: Machine, dtype: str) -> Roofs:
    return Roofs(machine, [machine.engine("matrix", dtype)], [machine.bandwidth(MAIN).name])
