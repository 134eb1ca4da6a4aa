"""Charts of a traced program: its ops on the roofline, its time by module, its memory, and programs side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.trace import ACTIVATION, GRADIENT, HOLDS, INPUT, PARAMETER, STATE, TEMPORARY
from ...core.units import counted, percent, show
from ...prediction.traced import ProgramPrediction
from ...prediction.traced.breakdown import PartKernels, distinct_labels, flame, kernel_set
from ...prediction.traced.side_by_side import SideBySide
from ..chart import LINEAR, LOG, NO_AXIS, Axis, Bar, Chart, Line, Mark, Point
from ..draw.labels import shorten
from .plane import has_place, roof_chart, roofs_used
from .wording import bound_title, title_of

MIN_BAR_SHARE = 0.002  # of the device time; a narrower bar cannot be seen
MIN_DOT_SHARE = 0.003  # of the device time; smaller dots are counted in a note
MIN_INTENSITY = 1e-3  # FLOP/B; less is hardly arithmetic, and would stretch the axis
MAX_NAMED, MAX_LISTED = 12, 6
MAX_OF_CLOUD = 3  # ops that are named in each of several cases
MAX_SAMPLES = 400  # of a memory curve
MIN_KIND_SHARE = 0.002  # of the peak memory; less cannot be seen
STACKED = (PARAMETER, STATE, GRADIENT, INPUT, ACTIVATION, TEMPORARY)  # from the bottom: those that last first
SHOWN_CAPACITY = 2.5  # times the peak memory, up to which the memory of the machine is drawn


def program_roofline(program: ProgramPrediction) -> Chart:
    """Ops with equal work are one dot; its area is its share of the device time, and the longest are named."""
    machine, study = program.machine, kernel_set(program)
    labels = distinct_labels(study.parts)
    timed = [label for part, label in zip(study.parts, labels, strict=True) if part.time]
    kernels = [replace(kernel, name=label) for kernel, label in zip(study.kernels, timed, strict=True)]
    shares = [(kernel, kernel.time * kernel.count / program.time) for kernel in kernels]
    placed = [row for row in shares if has_place(machine, row[0]) and row[0].intensity >= MIN_INTENSITY]
    flat = [row for row in shares if row not in placed]
    drawn = [(kernel, share) for kernel, share in placed if share >= MIN_DOT_SHARE]
    if not drawn:
        raise InputError("no op of this program that takes time does arithmetic, so none has a place on the roofline")
    small = [share for _, share in placed if share < MIN_DOT_SHARE]
    points = [
        Point(
            kernel.intensity, kernel.rate, f"{shorten(kernel.name, 28)} {percent(share)}" if place < MAX_NAMED else "",
            bound_title(kernel.bound), "expected", f"{kernel.name} {percent(share)}", {**to_document(kernel), "calls": round(kernel.count)}, share, kernel.name,
        )
        for place, (kernel, share) in enumerate(sorted(drawn, key=lambda row: -row[1]))
    ]  # fmt: skip
    notes = ["area of a dot and percent: share of the device time"]
    notes += [f"the {MAX_NAMED} longest of {len(points)} ops are named"] if len(points) > MAX_NAMED else []
    if small:
        each = f"below {percent(MIN_DOT_SHARE)} of the device time each"
        notes.append(f"not drawn, {each}: {counted(len(small), 'op')}, {percent(sum(small))}")
    if flat:
        listed = ", ".join(dict.fromkeys(kernel.name.partition(" ")[0] for kernel, _ in flat[:MAX_LISTED]))
        total = percent(sum(share for _, share in flat))
        notes.append(f"not drawn, hardly any arithmetic ({listed}): {counted(len(flat), 'op')}, {total}")
    roofs = roofs_used(replace(study, parts=tuple(part for part in study.parts if (part.share or 0) >= MIN_DOT_SHARE)))
    ranges = roofs.ranges([point.spot for point in points])
    chart = roof_chart("program", f"{study.title}: ops by device time", [roofs], ranges, (), points, notes=notes)
    return replace(chart, unplaced=tuple({"label": kernel.name, **to_document(kernel)} for kernel, _ in flat))


def program_icicle(program: ProgramPrediction) -> Chart:
    """Device time by phase, module and op, from the top down; what bounds most of a bar is its colour."""
    parts = flame(program)
    if not program.time:
        raise InputError("no op of this program has a predicted time, so there is nothing to draw")
    bars: list[Bar] = []
    reached: dict[int, float] = {}  # by depth: where the next bar begins
    for part in parts:
        start = reached.get(part.depth, 0.0)
        end = reached[part.depth] = start + part.time
        reached[part.depth + 1] = start
        if part.time < MIN_BAR_SHARE * program.time:
            continue
        several = f" x{part.modules}" if part.modules > 1 else ""
        details = {"us": part.time * 1e6, "calls": part.calls, "share": part.share}
        text = f"{show(part.time, 's', 3)}, {percent(part.share)}"
        bars.append(
            Bar(f"{part.name}{several}", end, start, text, bound_title(part.bound), "value", details, part.depth)
        )
    across = Axis("device time", "s", LINEAR, (0.0, program.time))
    notes = (f"bars narrower than {percent(MIN_BAR_SHARE)} of the device time are left out",)
    hidden = len(bars) < len(parts)
    return Chart(
        "icicle", f"{_title(program)}: device time by module", across, NO_AXIS, title_of(program.machine), bars=tuple(bars),
        notes=notes if hidden else (), look="icicle",
    )  # fmt: skip


def program_memory(program: ProgramPrediction) -> Chart:
    """Bytes held over the device time, one kind on top of the other; those that last longest lie at the bottom."""
    calls, curve = program.memory.steps(MAX_SAMPLES)
    peak = program.peak_memory
    if not peak:
        raise InputError("this program holds no memory that is known, so there is nothing to draw")
    times = _device_times(program, calls)
    kinds = [HOLDS.index(kind) for kind in STACKED if curve[:, HOLDS.index(kind)].max() > MIN_KIND_SHARE * peak]
    tops = np.cumsum(curve[:, kinds], axis=1)
    lines = []
    for place in reversed(range(len(kinds))):  # the highest first: each lower one is drawn over it
        corners = tuple(zip(times.tolist(), tops[:, place].tolist(), strict=True))
        lines.append(Line(corners, "area", "", HOLDS[kinds[place]]))
    capacity = program.machine.levels[-1].total if program.machine.levels else None
    marks = []
    if capacity and capacity < SHOWN_CAPACITY * peak:
        marks.append(
            Mark("y", capacity, f"memory of {program.machine.name}: {show(capacity, 'B', 3)}", "capacity", "capacity")
        )
    top = max([peak, *(mark.value for mark in marks)]) * 1.06
    held = sorted(program.memory.at_peak.items(), key=lambda row: -row[1])
    most = ", ".join(f"{kind} {show(size, 'B', 3)}" for kind, size in held if size > MIN_KIND_SHARE * peak)
    end = float(times[-1]) if times[-1] > 0 else 1e-6
    return Chart(
        "memory", f"{_title(program)}: memory over time", Axis("device time", "s", LINEAR, (0.0, end)),
        Axis("memory", "B", LINEAR, (0.0, top)), f"peak {show(peak, 'B', 3)}: {most}", tuple(lines), marks=tuple(marks),
        notes=("without what an allocator rounds up and libraries take as workspace",),
    )  # fmt: skip


def _device_times(program: ProgramPrediction, calls: np.ndarray) -> np.ndarray:
    """Device time that is over when each of these calls of the trace begins."""
    plan = program.plan
    spent = np.concatenate([[0.0], np.cumsum(program.run_time * plan.times)])
    return np.asarray(spent[np.searchsorted(plan.call, calls, side="left")])


def side_chart(study: SideBySide) -> Chart:
    """Wall time against what is swept, a line for every other setting; bars where nothing is swept."""
    title = f"{study.name or 'Program'}: wall time"
    if not study.swept:
        bars = tuple(
            Bar(case.label, case.program.wall, None, show(case.program.wall, "s", 3), case.program.regime, "value")
            for case in study.cases
        )
        across = Axis("wall time", "s", LINEAR, (0.0, max(bar.value for bar in bars) * 1.02))
        return Chart("programs", title, across, NO_AXIS, bars=bars, look="bars")
    curves: dict[str, list[Point]] = {}
    for case in study.cases:
        name = ", ".join(str(case.setting[key]) for key in study.varying if key != study.swept) or study.name
        spot = case.setting[study.swept], case.program.wall
        curves.setdefault(name, []).append(Point(*spot, "", name, "value", case.label))
    points = tuple(point for curve in curves.values() for point in curve)
    spots = [point.spot for point in points]
    (left, right), (low, high) = ((min(values), max(values)) for values in zip(*spots, strict=True))
    lines = tuple(Line(tuple(point.spot for point in curve), "series", "", name) for name, curve in curves.items())
    return Chart(
        "programs", f"{title} against {study.swept}", Axis(study.swept, "", LOG, (left / 1.2, right * 1.2)),
        Axis("wall time", "s", LOG, (low / 1.6, high * 1.6)), ", ".join(study.shared), lines, points,
    )  # fmt: skip


def clouds_chart(study: SideBySide) -> Chart:
    """The ops of several cases of a program under the roofs of one machine, a colour for each case; its totals are in the notes."""
    machines = {case.program.machine.name for case in study.cases}
    if len(machines) > 1:
        raise InputError(f"a roofline of several cases is about one machine, got {', '.join(sorted(machines))}")
    points: list[Point] = []
    notes = ["area of a dot: share of the device time of its case"]
    drawn: list[PartKernels] = []
    for case in study.cases:
        program, parts = case.program, kernel_set(case.program)
        name = ", ".join(f"{key} {case.setting[key]}" for key in study.varying)
        placed = [
            (kernel, share)
            for kernel in parts.kernels
            if has_place(program.machine, kernel)
            and kernel.intensity >= MIN_INTENSITY
            and (share := kernel.time * kernel.count / program.time) >= MIN_DOT_SHARE
        ]
        points += [
            Point(
                kernel.intensity, kernel.rate, shorten(kernel.name, 28) if place < MAX_OF_CLOUD else "", name, "expected",
                f"{name}: {kernel.name} {percent(share)}", {**to_document(kernel), "calls": round(kernel.count)}, share, f"{name} {kernel.name}",
            )
            for place, (kernel, share) in enumerate(sorted(placed, key=lambda row: -row[1]))
        ]  # fmt: skip
        rate = show(program.flops / program.wall, "flop/s", 3) if program.wall else "-"
        mfu = f", MFU {percent(program.mfu)}" if program.mfu else ""
        notes.append(
            f"{name}: {show(program.flops, 'flop')} in {show(program.wall, 's', 3)}, {rate}{mfu}, {program.regime}"
        )
        drawn.append(replace(parts, parts=tuple(part for part in parts.parts if (part.share or 0) >= MIN_DOT_SHARE)))
    if not points:
        raise InputError("no op of this program that takes time does arithmetic, so none has a place on the roofline")
    roofs = roofs_used(replace(drawn[0], parts=tuple(part for parts in drawn for part in parts.parts)))
    title = f"{study.name or 'Program'} on {study.cases[0].program.machine.name}: ops by {' and '.join(study.varying)}"
    ranges = roofs.ranges([point.spot for point in points])
    return roof_chart("program", title, [roofs], ranges, (), points, notes=notes)


def _title(program: ProgramPrediction) -> str:
    return f"{program.trace.name or 'Program'} on {program.machine.name}, {program.mode}"


CHARTS: dict[str, Callable[[ProgramPrediction], Chart]] = {
    "roofline": program_roofline,
    "icicle": program_icicle,
    "memory": program_memory,
}
