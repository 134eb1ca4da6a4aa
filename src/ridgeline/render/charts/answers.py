"""Pictures of predictions: one kernel, a sweep as a line, one kernel at every memory level, a table of cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...core.errors import InputError
from ...core.units import show
from ...core.work import Work
from ...prediction.kernel_sets import KernelSet, PredictedKernel, kernel_name, size_text
from ...prediction.locality import Locality
from ..chart import Chart, Line, Point
from .plane import MAX_POINTS, Roofs, has_place, kernel_points, plane_chart, roof_chart, roofs_used
from .wording import bound_title, engine_title, level_title, title_of

MIN_POINTS_OF_LINE = 3
MAX_LINES = 6  # of a sweep over two sizes


def roofline(study: KernelSet) -> Chart:
    """Kernels under the roofs of a machine: one prediction is named in the title, a sweep is a line."""
    if len(study.entries) != 1 or len(study.entries[0].prediction.steps) != 1:
        title = study.title or f"Roofline of {study.machine.name}"
        return plane_chart("roofline", replace(study, title=title), by_bound=True)
    prediction = study.entries[0].prediction
    if len(study.kernels) >= MIN_POINTS_OF_LINE and len(study.kernels) <= MAX_POINTS:
        chart = _sweep(study, prediction.work)
        if chart is not None:
            return chart
    name = kernel_name(prediction.work) if len(study.kernels) == 1 else prediction.work.name
    dtype = f" in {prediction.work.dtype}" if prediction.work.dtype else ""
    study = replace(study, title=study.title or f"{name}{dtype} on {study.machine.name}")
    chart = plane_chart("roofline", study, _own_roofs(study), by_bound=True)
    if len(study.kernels) > 1:
        return chart
    return replace(chart, points=tuple(_with_answer(point, study.kernels[0]) for point in chart.points))


def _own_roofs(study: KernelSet) -> Roofs:
    """The roofs that one prediction was judged by: the bandwidth is that of its access mix."""
    roofs, terms = roofs_used(study), study.entries[0].prediction.bounds[0].terms
    rates = {name: float(np.max(terms[name].rate)) for name in roofs.levels if name in terms}
    return replace(roofs, rates=rates)


def _with_answer(point: Point, kernel: PredictedKernel) -> Point:
    """The label of the only kernel of a chart: its time and its share of the roofline."""
    if point.role not in ("expected", "overhead"):
        return point
    return replace(point, label=f"{show(kernel.time, 's', 3)}, {_percent(kernel.share_of_roofline)} of roofline")


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %" if share >= 0.01 else f"{share * 100:.2g} %"


# -- a sweep ----------------------------------------------------------------------------------------------


def _swept(work: Work, count: int) -> dict[str, list[float]]:
    """The sizes that differ between cases; of several that are equal everywhere, the first."""
    sizes: dict[str, list[float]] = {}
    for name, value in work.shape.items():
        array = np.asarray(value)
        if array.ndim == 1 and array.dtype.kind in "iuf" and array.size == count and len(np.unique(array)) > 1:
            values = [float(item) for item in array]
            if values not in sizes.values():
                sizes[name] = values
    return sizes


def _sweep(study: KernelSet, work: Work) -> Chart | None:
    """A line through the cases, labelled by the swept size at its ends and where the bound changes; None for scattered cases."""
    kernels = study.kernels
    swept = _swept(work, len(kernels))
    if not 1 <= len(swept) <= 2 or not all(has_place(study.machine, kernel) for kernel in kernels):
        return None
    (along, sizes), *others = sorted(swept.items(), key=lambda item: -len(set(item[1])))
    (across, rows) = others[0] if others else ("", [0.0] * len(kernels))
    if len(set(rows)) > MAX_LINES:
        return None
    roofs = _own_roofs(study)
    lines: list[Line] = []
    points: list[Point] = []
    for row in dict.fromkeys(rows):
        members = sorted((place for place in range(len(kernels)) if rows[place] == row), key=lambda place: sizes[place])
        group = [kernels[place] for place in members]
        name = f"{across} {size_text(row)}" if across else ""
        lines.append(Line(tuple((kernel.intensity, kernel.rate) for kernel in group), "series", name, ""))
        points += _sweep_points(group, [f"{along} {size_text(sizes[place])}" for place in members])
    ranges = roofs.ranges([(point.x, point.y) for point in points])
    dtype = f" in {work.dtype}" if work.dtype else ""
    fixed = kernel_name(replace(work, shape={key: value for key, value in work.shape.items() if key not in swept}))
    title = f"{fixed}{dtype} on {study.machine.name}, {along} {size_text(min(sizes))} to {size_text(max(sizes))}"
    notes = [*study.notes, f"{len(kernels)} cases; labels at the ends and where the bound changes"]
    return roof_chart("roofline", study.title or title, [roofs], ranges, lines, points, notes=notes)


def _sweep_points(kernels: Sequence[PredictedKernel], names: Sequence[str]) -> list[Point]:
    points = []
    last = len(kernels) - 1
    for place, (kernel, name) in enumerate(zip(kernels, names, strict=True)):
        turns = place > 0 and kernel.bound != kernels[place - 1].bound
        label = name if place in (0, last) or turns else ""
        (point, *_), _ = kernel_points([kernel], True)
        points.append(replace(point, label=label, name=f"{kernel.name}"))
    return points


# -- one kernel at every level ----------------------------------------------------------------------------


def levels(study: Locality) -> Chart:
    """One kernel at its rate, once for each memory level: x is flops over the bytes that cross the level."""
    shown = [row for row in study.levels if row.bytes > 0 and not row.assumed]
    if not study.flops or not shown:
        raise InputError(
            f"{study.kernel} does no flops, so it has no place on the roofline; its levels are in the table"
        )
    roofs = Roofs(study.machine, [study.engine], [row.level for row in study.levels], study.ceilings)
    rate = study.flops / study.time
    points = []
    for row in shown:
        title, attainable = level_title(row.level), roofs.attainable(row.intensity, study.engine, row.level)
        share = _percent(rate / attainable)
        details = {
            "level": row.level,
            "bytes": row.bytes,
            "flops": study.flops,
            "time_us": study.time * 1e6,
            "attainable": attainable,
        }
        points.append(Point(row.intensity, rate, f"{title} {share}", title, "value", f"{study.kernel} at {title}", details))  # fmt: skip
    joined = Line(tuple((point.x, point.y) for point in sorted(points, key=lambda point: point.x)), "guide", "", "")
    ranges = roofs.ranges([(point.x, point.y) for point in points])
    title = f"{study.kernel} in {study.dtype} on {study.machine.name}: {show(study.time, 's', 3)}"
    chart = roof_chart("levels", title, [roofs], ranges, [joined], points, notes=_level_notes(study))
    return replace(chart, subtitle=f"{title_of(study.machine)}, {study.basis}, {roofs.kinds}")


def _level_notes(study: Locality) -> tuple[str, ...]:
    absent = [level_title(name) for name in study.without_bandwidth]
    assumed = [level_title(row.level) for row in study.levels if row.assumed]
    notes = [
        "one dot for each level: FLOP over the bytes that cross it; percent of the roofline of that level",
        f"limited by {_limiter_title(study.limiter)} ({bound_title(study.bound)})",
        *([f"{', '.join(assumed)}: no traffic counted for this op, so no dot"] if assumed else []),
        *([f"no bandwidth known for {', '.join(absent)}"] if absent else []),
    ]
    return tuple(notes)


def _limiter_title(limiter: str) -> str:
    return engine_title(limiter) if "." in limiter else level_title(limiter)


# -- a table of cases -------------------------------------------------------------------------------------


def cases(study: KernelSet) -> Chart:
    """Every case on the roofline; the area of a dot is its share of the total expected time."""
    return plane_chart("cases", study, by_bound=True, shares=True)
