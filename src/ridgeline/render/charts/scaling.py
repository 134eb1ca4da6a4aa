"""Charts of a model over batches and devices: scaling with its ideal, energy per token, small multiples of the roofline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.units import counted, percent, show
from ...prediction.extended import CommunicationRoofline
from ...prediction.models.result import ModelPrediction
from ...prediction.models.scaling import Scaling, ScalingPoint
from ...prediction.models.summary import devices_text, layout_text
from ...programs.models.layout import CONTEXT, DATA, EXPERT, PIPELINE, TENSOR
from ..chart import LOG, Axis, Chart, Line, Panel, Point
from .extended import communication
from .models import model_roofline
from .plane import Ranges

MARGIN = 1.25
SPLIT = {TENSOR: "tensor", PIPELINE: "pipeline", DATA: "data", EXPERT: "expert", CONTEXT: "context"}
SHORTER, LONGER = "shorter than the arithmetic", "longer than the arithmetic"  # of the step, at the ceilings


def scaling_chart(scaling: Scaling) -> Panel:
    """Tokens a second, and the time of a token or step, against devices; dashed: the ideal from the first point on.

    Experts are split over devices that are there anyway: that curve is drawn against `ep`, and its ideal is flat.
    """
    what = "step" if scaling.training else "time per output token"
    rate = _against_devices(scaling, "tokens per second", "tok/s", lambda row: row.tokens_per_s, 1)
    time = _against_devices(scaling, what, "s", lambda row: row.time, -1)
    how = f"{SPLIT[scaling.degree]} parallel, fixed {'batch' if scaling.training else 'load'}"
    missing = sum(not point.fits for point in scaling.points)
    notes = ["dashed: ideal scaling from the first point; percent: scaling efficiency"]
    notes += [f"more than the memory of a device holds: {counted(missing, 'point')}"] if missing else []
    return Panel(
        f"{scaling.model}: scaling over {'ep' if scaling.degree == EXPERT else 'devices'}",
        (rate, time),
        how,
        tuple(notes),
        "scaling",
        columns=2,
    )


def _against_devices(scaling: Scaling, label: str, unit: str, value: Callable[[ScalingPoint], float], power: int) -> Chart:  # fmt: skip
    lines, points = [], []
    by_experts = scaling.degree == EXPERT

    def place(row: ScalingPoint) -> float:
        return float(row.layout.ep if by_experts else row.devices)

    for machine in scaling.machines:
        rows = scaling.of(machine)
        first = rows[0]
        ideal = tuple((place(row), value(first) * (row.devices / first.devices) ** power) for row in rows)
        lines.append(Line(tuple((place(row), value(row)) for row in rows), "series", "", machine))
        lines.append(Line(ideal, "target", "", machine))
        points += [
            Point(place(row), value(row), percent(row.efficiency), machine, "value", devices_text(row.layout, machine), to_document(row))
            for row in rows
        ]  # fmt: skip
    across = [point.x for point in points]
    up = [y for line in lines for _, y in line.points]
    return Chart(
        "scaling", label, Axis("ep" if by_experts else "devices", "", LOG, (min(across) / MARGIN, max(across) * MARGIN)),
        Axis(label, unit, LOG, (min(up) / MARGIN, max(up) * MARGIN)), "", tuple(lines), tuple(points),
    )  # fmt: skip


def energy_chart(prediction: ModelPrediction) -> Chart:
    """Joules per generated token against the batch, of a prediction whose batch is an array."""
    joules, batches = prediction.joules_per_token, np.asarray(prediction.load.batch)
    if joules is None:
        raise InputError(f"{prediction.machine.name} has neither energy figures nor a power limit")
    fits = np.broadcast_to(np.asarray(prediction.memory.fits), batches.shape)
    spots = [spot for spot, usable in zip(zip(batches.tolist(), np.asarray(joules).tolist(), strict=True), fits, strict=True) if usable]  # fmt: skip
    if len(spots) < 2:
        raise InputError(f"{prediction.architecture.name} does not fit: nothing to draw over batches")
    group = layout_text(prediction)
    points = tuple(Point(x, y, show(y, "J", 3), group, "value", f"batch {x:g}", {"batch": x, "joules": y}) for x, y in spots)  # fmt: skip
    up = [y for _, y in spots]
    left_out = int(batches.size - len(spots))
    notes = [f"{prediction.energy_basis}; decode steps at their expected time, prompts left out"]
    notes += [f"left out, more than the memory holds: {counted(left_out, 'point')}"] if left_out else []
    return Chart(
        "model energy", f"{prediction.architecture.name} on {group}: energy per token",
        Axis("batch", "", LOG, (spots[0][0] / MARGIN, spots[-1][0] * MARGIN)), Axis("energy per generated token", "J", LOG, (min(up) / MARGIN, max(up) * MARGIN)),
        f"all devices, contexts of {show(float(np.max(prediction.load.context)))} tokens", (Line(tuple(spots), "series", "", group),), points, notes=tuple(notes),
    )  # fmt: skip


def batches_chart(predictions: Sequence[ModelPrediction]) -> Panel:
    """The decode ops of a model under the same roofs and axes, a chart for every batch."""
    charts = [model_roofline(prediction, phases=("decode",)) for prediction in predictions]
    across, up = ((min(a for a, _ in ends), max(b for _, b in ends)) for ends in ([chart.x.range for chart in charts], [chart.y.range for chart in charts]))  # fmt: skip
    same = tuple(_at_batch(item, (across, up)) for item in predictions)
    first = predictions[0]
    roofs = ", ".join(dict.fromkeys(line.label for line in charts[0].lines if line.label))
    notes = ["area of a dot and percent: share of the step", f"roofs: {roofs}"]
    linked = [float(item.decode.communication) / float(item.decode.time) for item in predictions]
    if any(linked):
        shares = ", ".join(
            f"{percent(share)} at batch {float(item.load.batch):g}"
            for share, item in zip(linked, predictions, strict=True)
        )
        notes.append(f"not drawn, communication: {shares}")
    title = f"{first.architecture.name} on {layout_text(first)}: decode by batch"
    return Panel(title, same, charts[0].subtitle, tuple(notes), "batches", columns=2)


def _at_batch(prediction: ModelPrediction, ranges: Ranges) -> Chart:
    """Its dots say which batch they are of: an op has one in every chart. The roofs are the same, and named once below."""
    title = f"batch {float(prediction.load.batch):g}"
    chart = model_roofline(prediction, ("decode",), ranges)
    points = tuple(
        point if point.role == "ridge" else replace(point, name=f"{title}, {point.name}", key="") for point in chart.points
    )  # fmt: skip
    lines = tuple(replace(line, label="") for line in chart.lines)
    return replace(chart, title=title, subtitle="", notes=(), points=points, lines=lines)


def layout_communication(study: CommunicationRoofline, title: str) -> Chart:
    """The links of a machine, and a point for every collective of a layout."""
    notes = (
        "numbers at the corners: ridge of each link, in FLOP per byte sent",
        "dots: FLOPs of a step over the bytes a device sends in all calls of a collective; right of the ridge of its link it is shorter than the arithmetic",
        "NIC: nominal rates of common network cards; links: payload per direction; latency is not on this chart",
    )  # fmt: skip
    chart = communication(study)
    points = tuple(point if point.role == "ridge" else replace(point, group=_against_arithmetic(study, point)) for point in chart.points)  # fmt: skip
    return replace(chart, title=f"{title}: communication", points=points, notes=notes)


def _against_arithmetic(study: CommunicationRoofline, point: Point) -> str:
    """A collective is no kernel: it is not compute-bound, the arithmetic of its step outlasts it."""
    return SHORTER if point.x >= study.ridge(study.carriers[point.label]) else LONGER
