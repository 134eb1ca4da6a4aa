"""Charts of a model: prefill and decode on one roofline, memory, and throughput against latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.units import counted, percent, show
from ...prediction.kernel_sets import Entry, KernelSet
from ...prediction.models.curve import Curve
from ...prediction.models.result import ModelPrediction
from ...prediction.models.summary import layout_text
from ...programs.models.program import COMMUNICATION
from ..chart import LINEAR, LOG, NO_AXIS, Axis, Bar, Chart, Line, Point
from .plane import Ranges, has_place, roof_chart, roofs_used
from .wording import title_of

MIN_SHARE = 0.004  # of a phase; smaller ops are left out
PHASES = ("prefill", "decode")
NAMED = 5  # ops of a phase that are named


def model_roofline(prediction: ModelPrediction, phases: Sequence[str] = PHASES, ranges: Ranges | None = None) -> Chart:
    """Ops of prefill and decode as dots, their area the share of their phase; the two totals are named."""
    machine = prediction.machine
    points, parts, linked = [], [], dict[str, float]()
    for name in phases:
        step = prediction.prefill if name == "prefill" else prediction.decode
        kernels = KernelSet(
            machine, tuple(Entry(item.op.name, item.prediction) for item in step.ops), None, prediction.ceilings, ""
        ).kernels
        rows = sorted(zip(kernels, step.ops, strict=True), key=lambda row: -float(np.max(row[1].time)))
        for place, (kernel, item) in enumerate(rows):
            share = float(np.max(item.time)) / float(np.max(step.time))
            if item.op.part == COMMUNICATION:
                linked[name] = linked.get(name, 0.0) + share
                continue
            if share < MIN_SHARE or not has_place(machine, kernel):
                continue
            text = f"{item.op.name} {percent(share)}" if place < NAMED else ""
            points.append(
                Point(
                    kernel.intensity,
                    kernel.rate,
                    text,
                    name,
                    "expected",
                    f"{name}: {item.op.name}",
                    to_document(kernel),
                    share,
                )
            )
            parts.append(Entry(item.op.name, item.prediction))
    if not points:
        raise InputError("no op of this model has a place on the roofline")
    roofs = roofs_used(KernelSet(machine, tuple(parts), None, prediction.ceilings, ""))
    ranges = ranges or roofs.ranges([point.spot for point in points])
    notes = ["area of a dot and percent: share of its phase"]
    if linked:
        shares = ", ".join(f"{percent(share)} of {name}" for name, share in linked.items())
        notes.append(f"not drawn, communication: {shares}")
    return roof_chart(
        "model", f"{_title(prediction)}: {' and '.join(phases)}", [roofs], ranges, (), points, notes=notes
    )


def model_memory(prediction: ModelPrediction) -> Chart:
    """Weights, cache and activations as one bar, against the memory of the device."""
    memory = prediction.memory
    bars, start = [], 0.0
    for name, size in (
        ("weights", memory.weights),
        ("cache", float(np.max(memory.kv))),
        ("activations", float(np.max(memory.activations))),
    ):
        bars.append(Bar(name, start + size, start, show(size, "B", 3), name))
        start += size
    capacity = memory.capacity or start
    if capacity > start:
        bars.append(Bar("free", capacity, start, show(capacity - start, "B", 3), "free", "unexplained"))
    across = Axis("memory of a device", "B", LINEAR, (0.0, max(start, capacity) * 1.12))
    load = prediction.load
    text = f"{show(float(np.max(load.batch)))} sequences of {show(float(np.max(load.longest)))} tokens, {show(memory.capacity, 'B', 3) if memory.capacity else 'memory not known'} a device"
    return Chart("model memory", f"{_title(prediction)}: memory", across, NO_AXIS, text, bars=tuple(bars), look="bars")


def curve_chart(curve: Curve) -> Chart:
    """Tokens a second and device against the time per token, a line for every machine; the swept size at its points."""
    lines, points = [], []
    for prediction in curve.predictions:
        rows = [point for point in curve.points if point.machine == prediction.machine.name]
        group = layout_text(prediction)
        usable = [row for row in rows if row.fits] or rows
        lines.append(Line(tuple((row.tpot, row.tokens_per_s_per_device) for row in usable), "series", "", group))
        points += [
            Point(
                row.tpot,
                row.tokens_per_s_per_device,
                f"{row.value}",
                group,
                "value",
                f"{group}: {curve.swept} {row.value}",
                to_document(row),
            )
            for row in usable
        ]
    spots = [point.spot for point in points]
    (left, right), (low, high) = ((min(values), max(values)) for values in zip(*spots, strict=True))
    first = curve.predictions[0]
    missing = sum(not point.fits for point in curve.points)
    notes = [f"numbers: {curve.swept}"]
    notes += [f"left out, more than the memory holds: {counted(missing, 'point')}"] if missing else []
    return Chart(
        "latency", f"{first.architecture.name}: throughput against latency", Axis("time per output token", "s", LOG, (left / 1.2, right * 1.2)),
        Axis("tokens a second and device", "tok/s", LOG, (low / 1.5, high * 1.5)), title_of(first.machine) if curve.machines == 1 else "", tuple(lines), tuple(points), notes=tuple(notes),
    )  # fmt: skip


def _title(prediction: ModelPrediction) -> str:
    return f"{prediction.architecture.name} on {layout_text(prediction)}"


CHARTS: dict[str, Callable[[ModelPrediction], Chart]] = {"roofline": model_roofline, "memory": model_memory}
