"""The charts of roofs: of one machine, of its levels and number formats, of several machines, and the gaps below them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import InputError, MissingFigure
from ...core.machine import ANY, MAIN, Machine, positive
from ...core.notes import ABOVE_ROOFLINE, Note
from ...core.units import show
from ...core.work import Work
from ...machines import load as catalog
from ...prediction.compare import common_kind, default_dtype
from ...prediction.predict import Prediction
from ...programs import ops
from ..chart import LOG, Arrow, Axis, Chart, Line, Mark, Point
from ..draw.labels import amount, shorten
from .plane import (
    INTENSITY,
    PER_BYTE,
    PERFORMANCE,
    Case,
    axis_spans,
    bound_regions,
    case_points,
    cases,
    engine_for,
    engine_title,
    has_place,
    is_integer,
    kinds_used,
    known_levels,
    known_peak,
    level_title,
    name_of,
    plane_chart,
    power_span,
    predict_each,
    rate,
    rate_unit,
    ridge_marks,
    roof_lines,
    roofs_used,
    times,
    title_of,
)


def examples(dtype: str) -> list[Work]:
    """The kernels every roofline text begins with."""
    return [
        ops.axpy(n=1e8, dtype=dtype), ops.conv2d(batch=32, c_in=64, c_out=64, h=56, w=56, kernel=3, dtype=dtype), ops.gemm(m=4096, n=4096, k=4096, dtype=dtype),
    ]  # fmt: skip


def roofline(
    machine: Machine, predictions: Prediction | Iterable[Prediction] | None = None, works: Iterable[Work] | None = None, dtype: str | None = None,
    ceilings: str | None = None, title: str | None = None,
) -> Chart:  # fmt: skip
    """The roofline of a machine with kernels on it: bandwidth roof, compute roof, ridge, both regions."""
    notes: list[str] = []
    if predictions is None:
        name = dtype or default_dtype(machine)
        predictions, notes = predict_each(machine, examples(name) if works is None else works, ceilings)
    found = cases(predictions)
    engines, levels = roofs_used(machine, found, dtype, ceilings)
    chart = plane_chart(
        machine, engines, levels, found, ceilings, "roofline", title or f"Roofline of {machine.name}", notes
    )
    return _without_common(chart)


def _without_common(chart: Chart) -> Chart:
    """Labels without the words that all labels of an op share: of `linear 4096→4096 b8` and `... b16` the batch remains."""
    words = [point.label.split() for point in chart.points if point.label and point.role != "ridge"]
    ops_seen: dict[str, list[list[str]]] = {}
    for each in words:
        ops_seen.setdefault(each[0], []).append(each[1:])
    shared = {name: set(lists[0]).intersection(*lists[1:]) for name, lists in ops_seen.items() if len(lists) > 2}
    shared = {
        name: common for name, common in shared.items() if common and all(set(rest) - common for rest in ops_seen[name])
    }
    if not shared:
        return chart

    def short(point: Point) -> Point:
        name, *rest = point.label.split() or [""]
        return (
            replace(point, label=" ".join([name, *(word for word in rest if word not in shared[name])]))
            if name in shared
            else point
        )

    told = [
        f"{name}: all {' '.join(word for word in ops_seen[name][0] if word in common)}"
        for name, common in shared.items()
    ]
    return replace(chart, points=tuple(short(point) for point in chart.points), notes=(*told, *chart.notes))


def ceilings_chart(
    machine: Machine, dtype: str | None = None, works: Iterable[Work] = (), ceilings: str | None = None
) -> Chart:
    """All memory levels with a known bandwidth and several compute roofs on one chart."""
    wanted = ["vector.fp32", "tensor.tf32", "tensor.bf16" if "tensor.bf16" in machine.peaks else "tensor.fp16"]
    if dtype is not None:
        wanted = [engine_for(machine, dtype, ceilings), "vector.fp32"]
    engines = [name for name in dict.fromkeys(wanted) if known_peak(machine, name, ceilings) is not None]
    for name in ("vector.fp64", "tensor.fp8", "tensor.int8", "vector.bf16", ANY):
        if len(engines) < 2 and known_peak(machine, name, ceilings) is not None:
            engines.append(name)
    if not engines:
        engines = [engine_for(machine, default_dtype(machine), ceilings)]
    levels = known_levels(machine, ceilings)
    if not levels:
        raise InputError(
            f"{machine.name} has no memory bandwidth, so there is no sloped roof to draw; give --bandwidth"
        )
    absent = [level.name for level in machine.levels if level.name not in levels]
    notes = (
        [
            f"no {ceilings or 'published'} bandwidth for {', '.join(absent)}, so {'it is' if len(absent) == 1 else 'they are'} left out"
        ]
        if absent
        else []
    )
    made, more = predict_each(machine, works, ceilings)
    engines = sorted(engines, key=lambda name: -machine.peak(name, ceilings).value)
    return plane_chart(
        machine, engines, levels, cases(made), ceilings, "ceilings", f"Ceilings of {machine.name}", [*notes, *more]
    )


def precision_peaks(machine: Machine, ceilings: str | None = None) -> tuple[list[str], list[str]]:
    """The engine of each format a machine computes in, and those left out (int1 and int32 are no formats of kernels people compare)."""
    chosen: list[str] = []
    left: list[str] = []
    for name in machine.dtypes():
        engine = next(
            (key for key in (f"tensor.{name}", f"vector.{name}") if known_peak(machine, key, ceilings) is not None),
            None,
        )
        if engine is None:
            continue
        (left if name in ("int1", "int32") else chosen).append(engine)
    if ANY in machine.peaks:
        chosen = [ANY]
    return sorted(chosen, key=lambda key: machine.peak(key, ceilings).value), left


def precisions(
    machine: Machine,
    dtype: str | None = None,
    work: Callable[[str], Work] | None = None,
    to: str | None = None,
    ceilings: str | None = None,
) -> Chart:
    """One bandwidth line and a flat roof with its ridge for every number format; an arrow for quantising a kernel.

    `work` makes the kernel in a format; the arrow goes from `dtype` to `to`.
    """
    engines, left = precision_peaks(machine, ceilings)
    if not engines:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    levels = [machine.bandwidth(MAIN, ceilings).name]
    notes = (
        [
            f"left out: {', '.join(f'{engine_title(name)} {rate(machine.peak(name, ceilings).value, name)}' for name in left)}"
        ]
        if left
        else []
    )
    make = work or (lambda name: ops.linear(batch=16, in_features=4096, out_features=4096, dtype=name))
    first = dtype or default_dtype(machine)
    names = [name.partition(".")[2] for name in engines]
    then = to or next((name for name in ("fp8", "int8") if name in names and name != first), None)
    found: list[Case] = []
    arrows: tuple[Arrow, ...] = ()
    if then is not None and ANY not in engines:
        made, more = predict_each(machine, [make(first), make(then)], ceilings)
        notes += more
        if len(made) == 2:
            found = [
                replace(case, name=f"{case.name.partition(' ')[0]} {name}")
                for case, name in zip(cases(made), (first, then), strict=True)
            ]
            found = [
                replace(case, time=case.floor) for case in found
            ]  # on the roofs, so that the arrow shows the ceilings' change alone
            before, after = found
            arrows = (
                Arrow(
                    (before.intensity, before.attainable),
                    (after.intensity, after.attainable),
                    f"quantise {first} to {then}",
                    "change",
                    "change",
                ),
            )
            notes.append(
                f"{name_of(make(first))}: {first} to {then} multiplies intensity by {after.intensity / before.intensity:.3g} and the ridge by "
                f"{machine.peak(after.engine, ceilings).value / machine.peak(before.engine, ceilings).value:.3g}; its least time falls {before.floor / after.floor:.3g}-fold"
            )
            notes.append("the kernel stands on its roofs (least time), not at its expected rate")
    chart = plane_chart(
        machine, engines, levels, found, ceilings, "precisions", f"Precisions of {machine.name}", notes, by_bound=False
    )

    def shown(point: Point) -> Point:
        if point.role == "ridge":
            return replace(point, label=show(point.x, "", 3))
        # these points are floors: an expected time must not stand in their data
        return replace(
            point,
            role="value",
            details={key: value for key, value in point.details.items() if key not in ("time_us", "bound", "limiter")},
        )

    dots = tuple(shown(point) for point in chart.points)
    values = {dot.y: dot for dot in dots if dot.role == "ridge"}
    lines = tuple(
        replace(line, label=f"{line.label}, ridge {show(values[line.points[0][1]].x, '', 3)}")
        if line.role == "peak"
        else line
        for line in chart.lines
    )
    unit = "OP/s" if all(is_integer(name) for name in engines) else "FLOP/s"
    return replace(chart, points=dots, lines=lines, arrows=arrows, marks=(), y=replace(chart.y, unit=unit))


def locality(
    machine: Machine, dtype: str | None = None, work: Work | None = None, ceilings: str | None = None
) -> Chart:
    """One kernel at several locality states, each level's own intensity against its own ceiling.

    x is flops over the bytes that cross the level. The default kernel is a product in square tiles: each operand once
    from the outermost memory, small tiles (16, 32, 64, 128) from the levels between, innermost first.
    """
    name = dtype or (work.dtype if work is not None else "") or default_dtype(machine)
    engine = engine_for(machine, name, ceilings)
    levels = known_levels(machine, ceilings)
    if len(levels) < 2:
        raise InputError(
            f"{machine.name} has no inner level with a known bandwidth, so there is one locality state only; use the roofline chart"
        )
    inner = [level.name for level in machine.levels]
    peak = machine.peak(engine, ceilings).value
    points = []
    title = name_of(work) if work is not None else f"gemm 4096³ {name}"
    for level in levels:
        outer = level == machine.main.name
        if work is None:
            tile = None if outer else 16 * 2 ** min(3, inner.index(level))
            part = ops.gemm(
                m=4096, n=4096, k=4096, dtype=name, **({} if tile is None else {"traffic": "tiled", "tile": tile})
            )
            moved, how = float(part.bytes), "each operand once" if tile is None else f"{tile}-tiles"
        else:
            own = work.bytes_at(level) if not outer else 0.0
            moved, how = (
                float(own if np.any(np.asarray(own)) else work.bytes),
                "cold" if outer else ("its own traffic" if np.any(np.asarray(own)) else "same bytes"),
            )
        flops = float(part.flops if work is None else work.flops)
        speed = machine.bandwidth(level, ceilings).value
        state = f"cold, from {level_title(level)}" if outer else f"{level_title(level)} hit"
        points.append(
            Point(
                flops / moved,
                min(peak, speed * flops / moved),
                state,
                state,
                "value",
                f"{title}, {state}",
                {"level": level, "traffic": how, "flops": flops, "bytes": moved},
            )
        )
    found = [
        Case(
            point.label,
            float(point.details["flops"]),
            float(point.details["bytes"]),
            point.details["flops"] / point.y,
            point.details["flops"] / point.y,
            "",
            "",
            engine,
            "",
        )
        for point in points
    ]
    across, up = axis_spans(machine, [engine], levels, found, ceilings)
    lines, dots = roof_lines(machine, [engine], levels, across, ceilings)
    absent = [level.name for level in machine.levels if level.name not in levels]
    notes = [f"no bandwidth known for {', '.join(absent)}: left out"] if absent else []
    lowest = min(points, key=lambda point: point.y)
    notes += [
        "traffic: " + ", ".join(f"{point.label} {point.details['traffic']}" for point in points),
        f"the lowest point binds: {lowest.label}"
        if lowest.y < peak * 0.999
        else "every level can feed the compute roof",
    ]
    return Chart(
        "locality", f"{title}: one kernel, {len(points)} places its data can be", Axis("arithmetic intensity at each level", PER_BYTE, LOG, across),
        Axis(PERFORMANCE, rate_unit([engine]), LOG, up), f"{title_of(machine)}, {kinds_used(machine, [engine], levels, ceilings)}", tuple(lines), (*dots, *points),
        regions=bound_regions([dots[0].x], across), marks=tuple(ridge_marks(dots)), notes=("x of a point: flops over the bytes that cross that level", *notes),
    )  # fmt: skip


COMPARED = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")


def _others(machine: Machine, most: int = 3) -> list[Machine]:
    """Machines to set beside one: well-known ones of its kind, else the fastest of its kind in the catalog."""
    have = (
        [name for name in COMPARED if name in catalog.names() and name != machine.name] if machine.kind == "gpu" else []
    )
    if have:
        return [machine, *(catalog.load(name) for name in have[: most - 1])]
    same = [
        other
        for other in catalog.everything()
        if other.kind == machine.kind and other.name != machine.name and known_levels(other)
    ]
    same = sorted((other for other in same if other.peaks), key=lambda other: -(other.main.bandwidth.value() or 0.0))
    return [machine, *same[: most - 1]]


def compare(
    machine: Machine,
    machines: Sequence[Machine] | None = None,
    dtype: str | None = None,
    works: Iterable[Work] = (),
    ceilings: str | None = None,
) -> Chart:
    """The roofs of two or more machines on one chart, with the ridge of each; works stand on the first machine's and the others' roofs."""
    listed = list(machines) if machines else _others(machine)
    listed = [machine, *(other for other in listed if other.name != machine.name)]
    ceilings = ceilings or common_kind(listed, dtype)
    lines: list[Line] = []
    dots: list[Point] = []
    marks: list[Mark] = []
    notes: list[str] = []
    used = []
    for other in listed:
        name = dtype or default_dtype(other)
        try:
            used.append((other, name, engine_for(other, name, ceilings), other.bandwidth(MAIN, ceilings).value))
        except MissingFigure as missing:
            notes.append(f"{other.name} left out: {missing}")
    if not used:
        raise InputError("none of these machines has a peak and a bandwidth to draw: " + "; ".join(notes))
    tops = [other.peak(engine, ceilings).value for other, _, engine, _ in used]
    ridges = [top / speed for top, (_, _, _, speed) in zip(tops, used, strict=True)]
    points: list[Point] = []
    for other, _, _, _ in used:
        made, more = predict_each(other, works, ceilings)
        notes += more
        points += [
            replace(point, group=other.name, label=f"{point.label}")
            for point in case_points([case for case in cases(made) if has_place(other, case)], False)[0]
            if point.role != "floor"
        ]
    across = power_span([min(ridges) / 32, max(ridges) * 10, *(point.x for point in points)], 2.0, 1.1)
    for other, name, engine, _ in used:
        own, corner = roof_lines(other, [engine], [other.main.name], across, ceilings, other.name)
        lines += [
            replace(line, label=f"{other.name} {line.label}" if line.role == "peak" else line.label) for line in own
        ]
        dots += corner
        marks.append(
            Mark(
                "x",
                corner[0].x,
                f"ridge of {other.name} ({name}): {amount(corner[0].x, PER_BYTE)}",
                "ridge",
                other.name,
            )
        )
    low = min(across[0] * speed for _, _, _, speed in used)
    up = (10 ** (math.floor(math.log10(low) * 4) / 4), 10 ** (math.ceil(math.log10(max(tops) * 1.6) * 4) / 4))
    differing = len({name for _, name, _, _ in used}) > 1
    if differing:
        notes.append("each machine in the format it is usually judged by; give a dtype to compare one")
    return Chart(
        "compare", "Roofs of " + ", ".join(other.name for other, _, _, _ in used), Axis(INTENSITY, PER_BYTE, LOG, across),
        Axis(PERFORMANCE, rate_unit(engine for _, _, engine, _ in used), LOG, up), "; ".join(f"{other.name}: {kinds_used(other, [engine], [MAIN], ceilings)}" for other, _, engine, _ in used),
        tuple(lines), (*dots, *points), regions=bound_regions(ridges, across), marks=tuple(marks), notes=tuple(notes),
    )  # fmt: skip


@dataclass(frozen=True)
class Seen:
    """A kernel as it was seen: observed intensity and rate, and the intensity its algorithm would allow."""

    name: str
    intensity: float
    rate: float
    algorithmic: float | None = None


def gaps(
    machine: Machine, points: Iterable[Seen] | None = None, dtype: str | None = None, ceilings: str | None = None
) -> Chart:
    """Observed points with their vertical gap to the roof as an arrow, and algorithmic intensity as a target to the right."""
    name = dtype or default_dtype(machine)
    engine = engine_for(machine, name, ceilings)
    peak, speed = machine.peak(engine, ceilings).value, machine.bandwidth(MAIN, ceilings).value
    ridge = peak / speed
    given = points is not None
    seen = list(
        points or (Seen("M", ridge / 24, speed * ridge / 24 * 0.45, ridge / 8), Seen("C", ridge * 3, peak * 0.4))
    )
    dots: list[Point] = []
    arrows: list[Arrow] = []
    lines: list[Line] = []
    for item in seen:
        roof = min(peak, speed * positive(f"intensity of {item.name}", item.intensity))
        factor = roof / positive(f"rate of {item.name}", item.rate)
        side = "memory" if item.intensity < ridge else "compute"
        details = {
            "vertical_gap": factor,
            "algorithmic_intensity": item.algorithmic,
            "horizontal_gap": item.algorithmic / item.intensity if item.algorithmic else None,
        }
        dots.append(
            Point(item.intensity, item.rate, shorten(item.name), f"{side} side", "observed", item.name, details)
        )
        if factor > 1.02:
            arrows.append(
                Arrow(
                    (item.intensity, item.rate), (item.intensity, roof), f"{times(factor)} gap", "gap", f"{side} side"
                )
            )
        if item.algorithmic is not None and item.algorithmic > item.intensity * 1.001:
            dots.append(
                Point(
                    item.algorithmic,
                    item.rate,
                    f"algorithmic, {times(item.algorithmic / item.intensity)}",
                    f"{side} side",
                    "target",
                    f"{item.name} algorithmic",
                    {},
                )
            )
            lines.append(
                Line(((item.intensity, item.rate), (item.algorithmic, item.rate)), "target", "", f"{side} side", {})
            )
    above = [item.name for item in seen if item.rate > min(peak, speed * item.intensity) * 1.02]
    notes = ["solid: observed; hollow: where the algorithm's own traffic would put it"] + (
        [] if given else ["example points, not measurements"]
    )
    if above:
        text = f"{', '.join(above)} above the roof: check the flop count, the precision and the ceilings"
        notes.append(Note(ABOVE_ROOFLINE, text))
    found = [
        Case(item.name, item.intensity, 1.0, item.intensity / item.rate, item.intensity / item.rate, "", "", engine, "")
        for item in seen
    ]
    found += [replace(case, flops=item.algorithmic) for case, item in zip(found, seen, strict=True) if item.algorithmic]
    across, up = axis_spans(machine, [engine], [MAIN], found, ceilings)
    roofs, corner = roof_lines(machine, [engine], [machine.main.name], across, ceilings)
    return Chart(
        "gaps", f"Gaps on {machine.name}", Axis(f"{INTENSITY}, observed", PER_BYTE, LOG, across), Axis(PERFORMANCE, rate_unit([engine]), LOG, up),
        f"{title_of(machine)}, {kinds_used(machine, [engine], [MAIN], ceilings)}", (*roofs, *lines), (*corner, *dots), regions=bound_regions([ridge], across),
        marks=tuple(ridge_marks(corner)), arrows=tuple(arrows), notes=tuple(notes),
    )  # fmt: skip
