"""Charts of machines: several roofs on one plane, generations, peaks, the memory hierarchy, what is reached of a figure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from ...core.errors import InputError
from ...core.figure import Figure, Level
from ...core.machine import Machine, positive
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for, known_peak
from ...prediction.compare import MachineRoof, Trend
from ...prediction.compare import Roofs as ComparedRoofs
from ..chart import LOG, NO_AXIS, Axis, Bar, Chart, Line, Panel, Picture, Point
from ..draw.labels import shorten
from ..tables.catalog import limit_of
from .plane import Roofs, decade_span, equal_decades, has_place, kernel_points, power_span, roof_chart
from .wording import is_integer, level_title, rate, rate_unit, times, title_of

Losses = Iterable[tuple[str, float]]  # causes and amounts
Given = tuple[Losses, float] | None  # the losses of a kernel and its measured rate


def compare(study: ComparedRoofs) -> Chart:
    """The roofs of several machines with the ridge of each, and the same works on all of them."""
    roofs = [Roofs(row.machine, [row.engine], [row.machine.main.name], study.ceilings) for row in study.roofs]
    points = [point for row in study.roofs for point in _works(row)]
    ridges = [ridge for roof in roofs for ridge in roof.ridges]
    across = power_span([min(ridges) / 32, max(ridges) * 10, *(point.x for point in points)], 2.0, 1.1)
    lowest = [across[0] * min(roof.bandwidths[0] for roof in roofs), *(point.y for point in points)]
    up = decade_span(min(lowest), max(roof.peaks[0] for roof in roofs) * 1.6)
    names = ", ".join(row.machine.name for row in study.roofs)
    works = list(dict.fromkeys(point.name for point in points))
    title = f"{_listed(works)} on {names}" if works else f"Rooflines of {names}"
    notes = list(study.notes)
    if len({row.dtype for row in study.roofs}) > 1:
        notes.append("each machine in its usual format; --dtype compares one")
    # several works have their names on the plane, a single one those of the machines
    several = len(works) > 1
    points = [replace(point, label=f"{shorten(point.name, 24) if several else point.group} {_time(point)}") for point in points]  # fmt: skip
    chart = roof_chart("compare", title, roofs, equal_decades((across, up)), (), points, notes=notes)
    # the name of the machine is on the flat line
    lines = [replace(line, label=f"{line.group} {line.label}") if line.role == "peak" else line for line in chart.lines]
    return replace(chart, lines=tuple(lines))


def _listed(works: Sequence[str]) -> str:
    return works[0] if len(works) == 1 else f"{len(works)} ops"


def _time(point: Point) -> str:
    return show(point.details["time_us"] / 1e6, "s", 3)


def _works(roof: MachineRoof) -> list[Point]:
    placed = [kernel for kernel in roof.works.kernels if has_place(roof.machine, kernel)]
    points, _ = kernel_points(placed, False)
    return [replace(point, group=roof.machine.name) for point in points if point.role != "floor"]


def trend(study: Trend) -> Chart:
    """Peak, bandwidth and ridge relative to the first generation, by year of release."""
    machine, rows = study.machine, list(study.by_year.values())
    years, first = list(study.by_year), rows[0]
    growth = {
        name: [getattr(row, name) / getattr(first, name) for row in rows] for name in ("peak", "bandwidth", "ridge")
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
    kinds = "+".join(sorted({row.ceilings for row in rows}))
    return Chart(
        "trend", f"Generations of {machine.vendor} {machine.kind.upper()}: growth since {first.name}",
        Axis("year of release", "year", "linear", (years[0] - 0.8, years[-1] + 1.4)), Axis(f"relative to {first.name}", "", LOG, up),
        f"dense peaks in {study.dtype or '16-bit formats where there are any'}, {kinds} ceilings", tuple(lines), tuple(points),
        notes=(f"{older.name} to {newer.name}: compute {compute:.3g}x, bandwidth {memory:.3g}x, so {gains}",),
    )  # fmt: skip


def peaks(machine: Machine, ceilings: str | None = None, sparse: bool = False) -> Chart:
    """Bars of the peak by precision, with the factor over the fp64 and fp32 vector peaks."""
    # engines of one unit with one peak share a bar; integer formats count OP/s and have their own
    engines: dict[tuple[str, float, bool], list[str]] = {}
    for engine in machine.peaks:
        unit, value = engine.partition(".")[0], known_peak(machine, engine, ceilings)
        if value is None or unit == "special" or (unit == "tensor-sparse" and not sparse):
            continue
        engines.setdefault((unit, value, is_integer(engine)), []).append(engine)
    if not engines:
        raise InputError(f"{machine.name} has no {ceilings or 'known'} peak to draw")
    vector = {name: known_peak(machine, f"vector.{name}", ceilings) for name in ("fp64", "fp32")}
    base = {name: value for name, value in vector.items() if value}
    by_peak = sorted(engines.items(), key=lambda item: (item[0][1], item[0][0]))
    bars = [_peak_bar(unit, value, names, base) for (unit, value, _), names in by_peak]
    drawn = [name for names in engines.values() for name in names]
    integers = [is_integer(name) for name in drawn]
    label = "peak, integer formats in OP/s" if any(integers) and not all(integers) else "peak"
    kinds = sorted({machine.peak(names[0], ceilings).kind for names in engines.values()})
    factors = f"factors: over the {' and '.join(base)} vector peak"
    notes = (
        factors if base else "no fp64 or fp32 vector peak to compare with", "tensor-sparse: 2:4" if sparse else "dense peaks",
    )  # fmt: skip
    return Chart(
        "peaks", f"Peak by precision of {machine.name}", Axis(label, rate_unit(drawn), "linear", (0.0, max(bar.value for bar in bars) * 1.02)), NO_AXIS,
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
        bars.append(
            Bar("registers", size * units, None, text, "registers", "value", {"capacity": size, "instances": units})
        )
    bars += [_level_bar(level, ceilings) for level in machine.levels]
    if not bars:
        raise InputError(
            f"{machine.name} has no memory level to draw; fill a [[level]] in {machine.file or 'its file'}"
        )
    timed = any(level.latency.value() is not None for level in machine.levels)
    notes = (
        "width: capacity of all instances on a log scale",
        *(() if timed else ("no latency data for this machine",)),
    )
    sizes = [bar.value for bar in bars if bar.value > 0] or [1.0]
    across = (min(sizes) / 64, max(max(sizes), min(sizes) * 2))
    return Chart(
        "pyramid", f"Memory hierarchy of {machine.name}", Axis("capacity", "B", LOG, across, shown=False), NO_AXIS, title_of(machine),
        bars=tuple(bars), notes=notes, look="pyramid",
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
    return Bar(name, total, None, " · ".join(parts), level_title(level.name), "value", details)


def _public(machine: Machine, name: str) -> tuple[float, str] | None:
    """The fraction of a ceiling that a public measurement reached, and its source."""
    figure = machine.efficiency.get(name)
    value = None if figure is None else figure.value()
    return None if figure is None or value is None else (float(value), figure.source)


def bandwidth_bars(rows: Iterable[tuple[str, float, float | None]], notes: Sequence[str] = ()) -> Chart:
    """Bars of theoretical and measured bandwidth (B/s) per device with the percentage; a device without a measurement shows one bar."""
    bars = []
    for name, limit, measured in rows:
        positive(f"bandwidth of {name}", limit)
        bars.append(Bar(name, limit, None, show(limit, "B/s", 4), "stated", "value", {}))
        if measured is not None:
            share = positive(f"measured bandwidth of {name}", measured) / limit
            text = f"{show(measured, 'B/s', 4)}   {share * 100:.1f} %"
            bars.append(Bar(name, measured, None, text, "measured", "measured", {"share": share}))
    if not bars:
        raise InputError("there is no bandwidth to draw; give at least one device")
    across = Axis("bandwidth", "B/s", "linear", (0.0, max(bar.value for bar in bars) * 1.02))
    return Chart(
        "bandwidth", "Stated vs measured bandwidth", across, NO_AXIS, "percent of the stated bandwidth", bars=tuple(bars), notes=tuple(notes), look="bars",
    )  # fmt: skip


def bandwidth(machine: Machine, machines: Sequence[Machine] | None = None, measured: float | None = None) -> Chart:
    """Theoretical against measured bandwidth; without a measurement of one's own, the public one the machine file carries."""
    rows: list[tuple[str, float, float | None]] = []
    notes: list[str] = []
    for other in [machine, *(each for each in machines or () if each.name != machine.name)]:
        limit = limit_of(other.main.bandwidth)
        if limit is None:
            notes.append(f"{other.name} has no stated or derived bandwidth")
            continue
        reached = measured if other is machine and measured is not None else other.main.bandwidth.measured
        public = _public(other, other.main.name)
        if reached is None and public is not None:
            reached = limit * public[0]
            notes.append(f"{other.name}: public measurement, {public[1]}")
        elif reached is None:
            notes.append(f"{other.name}: nothing measured yet")
        rows.append((other.name, limit, reached))
    if not rows:
        raise InputError(f"{'; '.join(notes)}, so there is nothing to hold a measurement against; add machines")
    return bandwidth_bars(rows, notes=notes)


def waterfall(
    title: str, unit: str, peak: float, losses: Losses, measured: float, subtitle: str = "percent of the peak"
) -> Chart:
    """From a peak through named losses (amounts, same unit) to what was measured; what no cause explains is a bar of its own."""
    positive("peak", peak)
    positive("measured", measured)

    def text(value: float, sign: str = "", digits: int = 1) -> str:
        return f"{sign}{show(value, unit, 4)}   {value / peak * 100:.{digits}f} %"

    bars = [Bar("peak", peak, 0.0, text(peak, digits=0), "peak", "value", {})]
    left = peak
    for cause, lost in losses:
        if not 0 <= lost <= left:
            raise InputError(
                f"loss '{cause}' of {show(lost, unit)} does not fit: {show(left, unit)} is left of the peak"
            )
        bars.append(Bar(cause, left, left - lost, text(lost, "-"), "loss", "loss", {}))
        left -= lost
    remainder = left - measured
    if abs(remainder) > 1e-9 * peak:
        ends, words = (max(left, measured), min(left, measured)), text(abs(remainder), "-" if remainder > 0 else "+")
        bars.append(Bar("unexplained", *ends, words, "unexplained", "unexplained", {"remainder": remainder}))
    bars.append(Bar("measured", measured, 0.0, text(measured), "measured", "measured", {}))
    notes = ("the named losses add up to more than was lost",) if remainder < -1e-9 * peak else ()
    across = Axis("rate", unit, "linear", (0.0, peak * 1.02))
    return Chart("losses", title, across, NO_AXIS, subtitle, bars=tuple(bars), notes=notes, look="bars")


def losses(machine: Machine, dtype: str | None = None, memory: Given = None, compute: Given = None) -> Picture:
    """Loss cascades of a memory-bound and a compute-bound kernel: `(losses, measured)` each, in B/s and flop/s.

    Without numbers of one's own, what was measured of the machine is shown: the power limit is what lasting load takes
    from a burst, the rest stays unexplained. Without a measurement of this machine, a published one is used.
    """
    engine = engine_for(machine, dtype or default_dtype(machine))
    main = machine.main
    sides = (
        ("memory-bound", main.bandwidth, "B/s", main.name, memory),
        ("compute-bound", machine.peaks[engine], rate_unit([engine]), engine, compute),
    )
    charts, notes = [], []
    for title, figure, unit, name, given in sides:
        chart, note = _cascade(machine, title, figure, unit, name, given)
        charts += [chart] if chart is not None else []
        notes += [note] if note else []
    if not charts:
        raise InputError(
            f"{machine.name}: {'; '.join(notes)}, so there is no loss to draw; measure a machine whose peaks are stated, "
            "or give memory= or compute= in Python"
        )
    if len(charts) == 1:
        return replace(charts[0], title=f"Losses on {machine.name}, {charts[0].title}", notes=tuple(notes))
    return Panel(f"Losses on {machine.name}", tuple(charts), title_of(machine), tuple(notes), "losses")


def _cascade(
    machine: Machine, title: str, figure: Figure, unit: str, name: str, given: Given
) -> tuple[Chart | None, str]:
    """The losses of one figure and what they rest on, or why there is nothing to draw."""
    peak, public = limit_of(figure), _public(machine, name)
    if peak is None:
        return None, f"{name} has no stated or derived figure to lose from"
    if given is not None:
        return waterfall(title, unit, peak, *given), ""
    if figure.measured is not None:
        lasting = figure.sustained if figure.sustained is not None else figure.measured
        power = figure.measured - lasting
        causes = [("power limit under sustained load", power)] if power > 0 else []
        return waterfall(title, unit, peak, causes, lasting, f"{name}: measured"), f"{name}: {figure.measurement}"
    if public is not None:
        chart = waterfall(title, unit, peak, (), peak * public[0], f"{name}: public measurement")
        return chart, f"{name}: {public[1]}"
    return None, f"nothing measured for {name}"
