"""Charts of a model that is served or trained in several ways: machines and layouts side by side, a draft over batches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.units import counted, rounded_text, show
from ...prediction.models.choice import Choice, ServiceLevel
from ...prediction.models.speculative import Speculation
from ...prediction.models.study_answers import choice_name
from ...prediction.models.summary import degrees_text, layout_text
from ...prediction.models.training import TrainingPrediction
from ..chart import LINEAR, LOG, NO_AXIS, Axis, Bar, Chart, Line, Mark, Panel, Point

MARGIN = 1.25
Row = tuple[str, float]  # what a bar is of, and its value


def machines_chart(rows: Sequence[Choice], model: str) -> Panel:
    """The time of a token and the tokens a second and device on every machine."""
    usable = [row for row in rows if not row.reason]
    if not usable:
        raise InputError(f"{model} does not fit on any of these machines: nothing to draw")
    times = [(row.machine, row.tpot) for row in usable]
    rates = [(row.machine, row.tokens_per_s_per_device) for row in usable]
    charts = _bars("time per output token", "s", times), _bars("tokens per second per device", "tok/s", rates)
    left_out = len(rows) - len(usable)
    notes = (f"not drawn, does not fit: {counted(left_out, 'machine')}",) if left_out else ()
    how = ", ".join(filter(None, [degrees_text(usable[0].layout), f"batch {usable[0].batch}"]))
    return Panel(f"{model}: machines side by side", charts, how, notes, "machines", columns=2)


def trained_chart(made: Sequence[TrainingPrediction]) -> Panel:
    """The time of a training step and the tokens a second and device on every machine."""
    names = [item.machine.name for item in made]
    times = [(name, item.time) for name, item in zip(names, made, strict=True)]
    rates = [(name, item.tokens_per_s_per_device) for name, item in zip(names, made, strict=True)]
    charts = _bars("step", "s", times), _bars("tokens per second per device", "tok/s", rates)
    return Panel(
        f"{made[0].architecture.name}, training: machines side by side",
        charts,
        degrees_text(made[0].layout),
        (),
        "machines",
        columns=2,
    )


def _bars(label: str, unit: str, rows: Sequence[Row]) -> Chart:
    bars = tuple(
        Bar(name, value, None, show(value, unit, 3) if unit == "s" else f"{show(value)} {unit}") for name, value in rows
    )
    across = Axis(label, unit, LINEAR, (0.0, max(value for _, value in rows) * 1.02))
    return Chart("machines", label, across, NO_AXIS, bars=bars, look="bars")


def choices_chart(rows: Sequence[Choice], model: str, level: ServiceLevel) -> Chart:
    """Layouts at their best batch: tokens a second and device against the time of a token; hollow ones miss a limit."""
    drawn = [row for row in rows if row.tokens_per_s > 0 and row.reason != "does not fit"]
    if not drawn:
        raise InputError(f"{model} does not fit in any of these layouts: nothing to draw")
    points = tuple(
        Point(
            row.tpot, row.tokens_per_s_per_device, choice_name(row), row.machine, "target" if row.reason else "value", choice_name(row),
            to_document(row),
        )
        for row in drawn
    )  # fmt: skip
    limit = level.tpot if math.isfinite(level.tpot) else None
    times = [point.x for point in points] + ([limit] if limit else [])
    rates = [point.y for point in points]
    marks = (Mark("x", limit, f"TPOT limit {show(limit, 's', 3)}", "capacity", "capacity"),) if limit else ()
    notes = ["hollow: misses a limit"] if any(row.reason for row in drawn) else []
    left_out = len(rows) - len(drawn)
    notes += [f"not drawn, does not fit: {counted(left_out, 'layout')}"] if left_out else []
    return Chart(
        "choices", f"{model}: layouts at their best batch", Axis("time per output token", "s", LOG, (min(times) / MARGIN, max(times) * MARGIN)),
        Axis("tokens per second per device", "tok/s", LOG, (min(rates) / MARGIN, max(rates) * MARGIN)), points=points, marks=marks, notes=tuple(notes),
    )  # fmt: skip


def speculation_chart(made: Speculation) -> Chart:
    """How much faster a token is with a draft, against the batch; made at an array of batches."""
    batches, gains, fits = (
        np.asarray(column).tolist()
        for column in np.broadcast_arrays(made.prediction.load.batch, made.speedup, made.fits)
    )
    spots = [(float(batch), float(gain)) for batch, gain, usable in zip(batches, gains, fits, strict=True) if usable]
    if len(spots) < 2:
        raise InputError("both models and their caches need more memory: nothing to draw over batches")
    group = f"{made.prediction.architecture.name} with {made.draft.architecture.name}"
    points = tuple(
        Point(x, y, f"{rounded_text(y, 3)}x", group, "value", f"batch {x:g}", {"batch": x, "speedup": y})
        for x, y in spots
    )
    heights = [1.0, *(y for _, y in spots)]
    left_out = len(batches) - len(spots)
    notes = (f"left out, more than the memory holds: {counted(left_out, 'point')}",) if left_out else ()
    return Chart(
        "speculation", f"{group} as draft: speedup", Axis("batch", "", LOG, (spots[0][0] / MARGIN, spots[-1][0] * MARGIN)),
        Axis("speedup of the time per token", "", LINEAR, (0.0, max(heights) * 1.15)),
        f"{layout_text(made.prediction)}, {made.drafted} drafted, {round(made.accepted * 100)} % accepted", (Line(tuple(spots), "series", "", group),), points,
        marks=(Mark("y", 1.0, "without a draft", "capacity", "capacity"),), notes=notes,
    )  # fmt: skip
