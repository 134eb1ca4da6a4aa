"""Charts of a model: its steps on the roofline, memory, and throughput against latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.machine import Machine
from ...core.units import counted, percent, show
from ...prediction.kernel_sets import Entry, KernelSet, PredictedKernel
from ...prediction.models.curve import Curve
from ...prediction.models.result import ModelPrediction
from ...prediction.models.step import OpTime, StepPrediction
from ...prediction.models.summary import devices_text, layout_text
from ...prediction.models.training import TrainingPrediction
from ...programs.models.model_op import COMMUNICATION, PASSES
from ..chart import LINEAR, LOG, NO_AXIS, Axis, Bar, Chart, Line, Panel, Point
from ..table import dot_key
from .plane import Ranges, has_place, roof_chart, roofs_used
from .wording import title_of

MIN_SHARE = 0.004  # of a phase; smaller ops are left out
PHASES = ("prefill", "decode")
NAMED = 5  # ops of a phase that are named


def model_roofline(prediction: ModelPrediction, phases: Sequence[str] = PHASES, ranges: Ranges | None = None) -> Chart:
    """Ops of prefill and decode as dots, their area the share of their phase; the two totals are named."""
    every = {"prefill": prediction.prefill, "decode": prediction.decode}
    steps = {name: every[name] for name in phases}
    title = f"{_title(prediction)}: {' and '.join(phases)}"
    return _steps_roofline(prediction.machine, steps, prediction.ceilings, title, "its phase", ranges)


def model_phases(prediction: ModelPrediction) -> Panel:
    """Prefill and decode side by side, under the same roofs and axes."""
    both = model_roofline(prediction)
    ranges = (both.x.range, both.y.range)
    charts = [model_roofline(prediction, (name,), ranges) for name in PHASES]
    named = (replace(chart, title=name, subtitle="", notes=()) for name, chart in zip(PHASES, charts, strict=True))
    return Panel(f"{_title(prediction)}: prefill and decode", tuple(named), both.subtitle, both.notes, "phases")


def training_roofline(made: TrainingPrediction) -> Chart:
    """Ops of a training step as dots, their area the share of their pass: forward, backward, the update."""
    every = {name: tuple(item for item in made.step.ops if item.op.step_pass == name) for name in PASSES}
    steps = {name: StepPrediction(made.machine, ops) for name, ops in every.items() if ops}
    return _steps_roofline(made.machine, steps, made.ceilings, f"{_training_title(made)}: ops", "its pass", apart=False)


def _steps_roofline(
    machine: Machine, steps: Mapping[str, StepPrediction], ceilings: str | None, title: str, whose: str, ranges: Ranges | None = None,
    apart: bool = True,
) -> Chart:  # fmt: skip
    """Steps by name; `apart` says that each has a table of its own, whose rows its dots belong to."""
    points, parts, linked = [], [], dict[str, float]()
    for name, step in steps.items():
        for place, (kernel, item) in enumerate(_kernels(machine, step, ceilings)):
            share = float(np.max(item.time)) / float(np.max(step.time))
            if item.op.part == COMMUNICATION:
                linked[name] = linked.get(name, 0.0) + share
                continue
            if share < MIN_SHARE or not has_place(machine, kernel):
                continue
            label = f"{item.op.name} {percent(share)}" if place < NAMED else ""
            details = {**to_document(kernel), "calls": round(float(np.max(item.op.count)))}
            full = dot_key(name, item.op.name)
            key = full if apart else item.op.name
            points.append(Point(kernel.intensity, kernel.rate, label, name, "expected", full, details, share, key))
            parts.append(Entry(item.op.name, item.prediction))
    if not points:
        raise InputError("no op of this model has a place on the roofline")
    roofs = roofs_used(KernelSet(machine, tuple(parts), None, ceilings, ""))
    ranges = ranges or roofs.ranges([point.spot for point in points])
    notes = [f"area of a dot and percent: share of {whose}"]
    if linked:
        shares = ", ".join(f"{percent(share)} of {name}" for name, share in linked.items())
        notes.append(f"not drawn, communication: {shares}")
    return roof_chart("model", title, [roofs], ranges, (), points, notes=notes)


def _kernels(machine: Machine, step: StepPrediction, ceilings: str | None) -> list[tuple[PredictedKernel, OpTime]]:
    """A call of every op, those that take longest in all first; in the time that the step counts for it."""
    entries = tuple(Entry(item.op.name, item.prediction) for item in step.ops)
    rows = []
    for kernel, item in zip(KernelSet(machine, entries, None, ceilings, "").kernels, step.ops, strict=True):
        each = float(np.max(item.each))
        timed = kernel if each == kernel.time else replace(kernel, time=each, low=None, high=None)
        rows.append((timed, item))
    return sorted(rows, key=lambda row: -float(np.max(row[1].time)))


def model_memory(prediction: ModelPrediction) -> Chart:
    """Weights, cache and activations as bars, against the memory of the device."""
    memory, load = prediction.memory, prediction.load
    held = {
        "weights": memory.weights,
        "cache": float(np.max(memory.kv)),
        "activations": float(np.max(memory.activations)),
    }
    what = f"{show(float(np.max(load.batch)))} sequences of {show(float(np.max(load.longest)))} tokens"
    return _memory_chart(f"{_title(prediction)}: memory", what, held, memory.capacity)


def training_memory(made: TrainingPrediction) -> Chart:
    """Weights, gradients, states and activations as bars, against the memory of the device."""
    what = f"{made.job.micro} x {show(made.job.tokens)} tokens at a time, recompute {made.job.recompute}"
    return _memory_chart(f"{_training_title(made)}: memory", what, made.memory, made.machine.main.capacity.value())


def _memory_chart(title: str, what: str, held: Mapping[str, float], capacity: float | None) -> Chart:
    """Each bar begins where the one above it ends; the last is what is left of the memory of the device."""
    bars, start = [], 0.0
    for name, size in held.items():
        bars.append(Bar(name, start + size, start, show(size, "B", 3), name))
        start += size
    if capacity and capacity > start:
        bars.append(Bar("free", capacity, start, show(capacity - start, "B", 3), "free", "unexplained"))
    across = Axis("memory per device", "B", LINEAR, (0.0, max(start, capacity or 0.0) * 1.12))
    room = f"{show(start, 'B', 3)} of {show(capacity, 'B', 3)}" if capacity else "memory per device not known"
    return Chart("model memory", title, across, NO_AXIS, f"{what}; {room}", bars=tuple(bars), look="bars")


def curve_chart(curve: Curve) -> Chart:
    """Tokens a second and device against the time per token, a line for every machine; the swept size at its points."""
    lines, points = [], []
    for prediction in curve.predictions:
        rows = curve.of(prediction.machine.name)
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
                dot_key(group, f"{curve.swept} {row.value}"),
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
        Axis("tokens per second per device", "tok/s", LOG, (low / 1.5, high * 1.5)), title_of(first.machine) if curve.machines == 1 else "", tuple(lines), tuple(points), notes=tuple(notes),
    )  # fmt: skip


def _title(prediction: ModelPrediction) -> str:
    return f"{prediction.architecture.name} on {layout_text(prediction)}"


def _training_title(made: TrainingPrediction) -> str:
    return f"{made.architecture.name} on {devices_text(made.layout, made.machine.name)}, training"
