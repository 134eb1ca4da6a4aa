"""Charts of machines: several roofs on one plane, generations, peaks by precision, the memory hierarchy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ...core.errors import InputError
from ...core.figure import Level
from ...core.machine import MAIN, Machine
from ...core.units import show
from ...prediction.ceilings import known_peak
from ...prediction.compare import MachineRoof, Roofs, Trend
from ..chart import LOG, Axis, Bar, Chart, Line, Mark, Point
from ..draw.labels import amount
from .plane import Range, bound_regions, decade_span, has_place, kernel_points, plane_axes, power_span, roof_lines
from .wording import PER_BYTE, is_integer, kinds_used, level_title, rate, times, title_of

NO_AXIS = Axis("", "", "linear", (0.0, 1.0), shown=False)


# -- several machines -----------------------------------------------------------------------------------------


def compare(study: Roofs) -> Chart:
    """The roofs of several machines with the ridge of each, and the same works on all of them."""
    roofs, ceilings = study.roofs, study.ceilings
    ridges = [roof.ridge for roof in roofs]
    points = [point for roof in roofs for point in _works(roof)]
    across = power_span([min(ridges) / 32, max(ridges) * 10, *(point.x for point in points)], 2.0, 1.1)
    lines: list[Line] = []
    corners: list[Point] = []
    marks = []
    for roof in roofs:
        name = roof.machine.name
        drawn, (corner,) = _named_roof(roof, across, ceilings)
        lines, corners = [*lines, *drawn], [*corners, corner]
        marks.append(
            Mark("x", corner.x, f"ridge of {name} ({roof.dtype}): {amount(corner.x, PER_BYTE)}", "ridge", name)
        )
    up = decade_span(min(across[0] * roof.bandwidth for roof in roofs), max(roof.peak for roof in roofs) * 1.6)
    notes = list(study.notes)
    if len({roof.dtype for roof in roofs}) > 1:
        notes.append("each machine in the format it is usually judged by; give a dtype to compare one")
    kinds = (f"{roof.machine.name}: {kinds_used(roof.machine, [roof.engine], [MAIN], ceilings)}" for roof in roofs)
    return Chart(
        "compare", "Roofs of " + ", ".join(roof.machine.name for roof in roofs), *plane_axes(across, up, [roof.engine for roof in roofs]),
        "; ".join(kinds), tuple(lines), (*corners, *points), regions=bound_regions(ridges, across), marks=tuple(marks), notes=tuple(notes),
    )  # fmt: skip


def _works(roof: MachineRoof) -> list[Point]:
    placed = [kernel for kernel in roof.works.kernels if has_place(roof.machine, kernel)]
    points, _ = kernel_points(placed, False)
    return [replace(point, group=roof.machine.name) for point in points if point.role != "floor"]


def _named_roof(roof: MachineRoof, across: Range, ceilings: str | None) -> tuple[list[Line], list[Point]]:
    """The roof of one machine; its name is on the flat line."""
    machine = roof.machine
    lines, corner = roof_lines(machine, [roof.engine], [machine.main.name], across, ceilings, machine.name)
    return [
        replace(line, label=f"{machine.name} {line.label}") if line.role == "peak" else line for line in lines
    ], corner  # fmt: skip


def trend(study: Trend) -> Chart:
    """Peak, bandwidth and ridge relative to the first generation, by year of release."""
    machine, rows = study.machine, list(study.by_year.values())
    years, first = list(study.by_year), rows[0]
    growth = {
        "peak": [row.peak / first.peak for row in rows],
        "bandwidth": [row.bandwidth / first.bandwidth for row in rows],
        "ridge": [row.ridge / first.ridge for row in rows],
    }
    lines, points = [], []
    for label, factors in growth.items():
        lines.append(Line(tuple((float(year), factor) for year, factor in zip(years, factors, strict=True)), "series", "", label, {}))  # fmt: skip
        for year, factor, row in zip(years, factors, rows, strict=True):
            # the machines are named on the series that is on top at the end
            text = row.name if label == "peak" else (f"{factor:.2g}x" if abs(factor - 1) >= 0.005 else "")
            details = {"factor": factor, "peak": row.peak, "bandwidth": row.bandwidth, "ridge": row.ridge}
            points.append(Point(float(year), factor, text, label, "value", row.name, details))
    older, newer = rows[-2:]
    compute, memory = newer.peak / older.peak, newer.bandwidth / older.bandwidth
    gains = "compute-bound work gains more" if compute > memory else "memory-bound work gains more"
    up = power_span([min(point.y for point in points), max(point.y for point in points)], 2.0, 1.2)
    return Chart(
        "trend", f"Generations of {machine.vendor} {machine.kind.upper()}: growth since {first.name}",
        Axis("year of release", "year", "linear", (years[0] - 0.8, years[-1] + 1.4)), Axis(f"relative to {first.name}", "", LOG, up),
        f"dense peaks in {study.dtype or '16-bit formats where there are any'}", tuple(lines), tuple(points),
        notes=(f"{older.name} to {newer.name}: compute {compute:.3g}x, bandwidth {memory:.3g}x, so {gains}",),
    )  # fmt: skip


# -- one machine ----------------------------------------------------------------------------------------------


def peaks(machine: Machine, ceilings: str | None = None, sparse: bool = False) -> Chart:
    """Bars of the peak by precision on a log axis, with the factor over the fp64 and fp32 vector peaks."""
    engines: dict[tuple[str, float], list[str]] = {}  # engines of one unit with one peak share a bar
    for engine in machine.peaks:
        unit, value = engine.partition(".")[0], known_peak(machine, engine, ceilings)
        if value is None or unit == "special" or (unit == "tensor-sparse" and not sparse):
            continue
        engines.setdefault((unit, value), []).append(engine)
    if not engines:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    vector = {name: known_peak(machine, f"vector.{name}", ceilings) for name in ("fp64", "fp32")}
    base = {name: value for name, value in vector.items() if value}
    by_peak = sorted(engines.items(), key=lambda item: (item[0][1], item[0][0]))
    bars = [_peak_bar(unit, value, names, base) for (unit, value), names in by_peak]
    drawn = [name for names in engines.values() for name in names]
    low, high = min(bar.value for bar in bars), max(bar.value for bar in bars)
    kinds = sorted({machine.peak(names[0], ceilings).kind for names in engines.values()})
    factors = f"factors are against the {' and '.join(base)} vector peak"
    notes = (
        factors if base else "no fp64 or fp32 vector peak to compare with", "tensor-sparse: 2:4" if sparse else "dense peaks",
    )  # fmt: skip
    unit = "OP/s" if all(is_integer(name) for name in drawn) else "FLOP/s"
    return Chart(
        "peaks", f"Peak by precision of {machine.name}", Axis("peak", unit, LOG, (10 ** math.floor(math.log10(low / 2)), high * 1.3)), NO_AXIS,
        f"{title_of(machine)}, {' and '.join(kinds)} ceilings", bars=tuple(bars), notes=notes, look="bars",
    )  # fmt: skip


def _peak_bar(unit: str, value: float, engines: Sequence[str], base: dict[str, float]) -> Bar:
    dtypes = [name.partition(".")[2] for name in engines]
    factors = [f"{times(value / slow)} {name}" for name, slow in base.items() if value > slow * 1.02]
    text = rate(value, engines[0]) + (f"   {' · '.join(factors)}" if factors else "")
    details = {"engine": unit, **{f"times_{name}_vector": value / slow for name, slow in base.items()}}
    label = f"{', '.join(dtype for dtype in dtypes if dtype)} {unit}".strip()
    return Bar(label, value, None, text, unit, "value", details)


def pyramid(machine: Machine, ceilings: str | None = None) -> Chart:
    """The memory hierarchy from the core outwards: capacity of one and of all, bandwidth, latency."""
    bars = []
    registers, units = machine.limits.get("registers_per_sm"), machine.units.get("sm")
    size = registers.value() if registers is not None else None
    if size is not None and units:
        text = f"{show(size, 'B', 4, binary=True)} x {units} = {show(size * units, 'B', 4, binary=True)}"
        bars.append(Bar("registers", size * units, None, text, "", "value", {"capacity": size, "instances": units}))
    bars += [_level_bar(level, ceilings) for level in machine.levels]
    if not bars:
        raise InputError(
            f"{machine.name} has no memory level to draw; fill a [[level]] in {machine.file or 'its file'}"
        )
    timed = any(level.latency.value() is not None for level in machine.levels)
    return Chart(
        "pyramid", f"Memory hierarchy of {machine.name}", NO_AXIS, NO_AXIS, title_of(machine),
        bars=tuple(bars), notes=() if timed else ("its file has no latencies",), look="pyramid",
    )  # fmt: skip


def _level_bar(level: Level, ceilings: str | None) -> Bar:
    capacity, speed, latency = level.capacity.value(), level.bandwidth.value(ceilings), level.latency.value()
    size = show(capacity, "B", 4, binary=True) if capacity is not None else "capacity not known"
    if level.instances > 1 and level.total is not None:
        size += f" x {level.instances} = {show(level.total, 'B', 4, binary=True)}"
    kind = level.bandwidth.kind(ceilings)
    parts = [size, f"{show(speed, 'B/s', 4)} ({kind})" if speed is not None else "bandwidth not known"]
    parts += [show(latency, "s", 3)] if latency is not None else []
    name = level_title(level.name) + (f" ({level.technology})" if level.technology else "")
    details = {
        "capacity": capacity, "instances": level.instances, "bandwidth": speed, "latency": latency, "scope": level.scope,
    }  # fmt: skip
    total = level.total if level.total is not None else math.nan
    return Bar(name, total, None, " · ".join(parts), "", "value", details)
