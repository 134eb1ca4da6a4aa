"""The roofline plane: the roofs, regions, ridges and points that charts of intensity against rate are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.machine import MAIN, Machine
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for, known_levels
from ...prediction.kernel_sets import KernelSet, PredictedKernel
from ..chart import LOG, Axis, Chart, Line, Mark, Point, Region
from ..draw.labels import amount, shorten
from .wording import (
    INTENSITY,
    PER_BYTE,
    PERFORMANCE,
    engine_title,
    kinds_used,
    level_title,
    rate,
    rate_unit,
    title_of,
)

MAX_POINTS, MAX_NAMED_POINTS = 5000, 60
MIN_GAP = 1.02  # a rate nearer to its roof than this factor stands on the roof
Range = tuple[float, float]
Spot = tuple[float, float]  # intensity, rate


# -- axes -----------------------------------------------------------------------------------------------------


def power_span(values: Iterable[float], base: float, margin: float) -> Range:
    """A range around positive values that begins and ends at powers of `base`."""
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = math.log(min(usable) / margin, base), math.log(max(usable) * margin, base)
    return base ** math.floor(low + 1e-9), base ** math.ceil(high - 1e-9)


def decade_span(low: float, high: float) -> Range:
    """A range of rates that begins and ends at quarters of a decade."""
    return 10 ** (math.floor(math.log10(low) * 4) / 4), 10 ** (math.ceil(math.log10(high) * 4) / 4)


def plane_axes(
    across: Range, up: Range, engines: Iterable[str], label: str = INTENSITY
) -> tuple[Axis, Axis]:  # fmt: skip
    return Axis(label, PER_BYTE, LOG, across), Axis(PERFORMANCE, rate_unit(engines), LOG, up)


def axis_ranges(
    machine: Machine, engines: Sequence[str], levels: Sequence[str], spots: Sequence[Spot], ceilings: str | None
) -> tuple[Range, Range]:
    """Ranges of both axes: every ridge with room to its sides, and every point."""
    peaks = [machine.peak(name, ceilings).value for name in engines]
    bandwidths = [machine.bandwidth(name, ceilings).value for name in levels]
    ridges = [peak / bandwidth for peak in peaks for bandwidth in bandwidths]
    at = [intensity for intensity, _ in spots]
    across = power_span(
        [min(ridges) / 16, max(ridges) * 8, *at, *(intensity * 1.5 for intensity in at)], 2.0, 1.25
    )  # fmt: skip
    low = min([across[0] * min(bandwidths) * 2, *(reached for _, reached in spots)])
    return across, decade_span(low / 1.6, max(peaks) * 1.5)


# -- roofs ----------------------------------------------------------------------------------------------------


def roof_lines(
    machine: Machine,
    engines: Sequence[str],
    levels: Sequence[str],
    across: Range,
    ceilings: str | None,
    group: str = "",
) -> tuple[list[Line], list[Point]]:
    """Sloped lines of the levels up to the highest roof, flat lines of the engines from the fastest level on, corner dots."""
    peaks = {name: machine.peak(name, ceilings) for name in engines}
    bandwidths = {name: machine.bandwidth(name, ceilings) for name in levels}
    top, fastest = max(peak.value for peak in peaks.values()), max(speed.value for speed in bandwidths.values())
    lines, ridges = [], []
    for name, ceiling in bandwidths.items():
        speed = ceiling.value
        end = min(top / speed, across[1])
        label = f"{level_title(name)} {show(speed, 'B/s', 4)}"
        details = {"bandwidth": speed, "kind": ceiling.kind, "level": name}
        lines.append(Line(((across[0], across[0] * speed), (end, end * speed)), "bandwidth", label, group, details))
    merged: dict[float, list[str]] = {}
    for name, ceiling in peaks.items():
        merged.setdefault(ceiling.value, []).append(name)
    for peak, names in merged.items():
        title = " = ".join(engine_title(name) for name in names)
        details = {"peak": peak, "kind": peaks[names[0]].kind, "engine": " ".join(names)}
        ends = ((peak / fastest, peak), (across[1], peak))
        lines.append(Line(ends, "peak", f"{title} {rate(peak, names[0])}", group, details))
        ridge = peak / bandwidths[levels[0]].value
        ridges.append(Point(ridge, peak, "", group, "ridge", f"ridge of {title}", {"level": levels[0]}))
    return lines, ridges


def ridge_marks(ridges: Sequence[Point], of: str = "") -> list[Mark]:
    """A line at every ridge; `of` names the machine where several share the plane."""
    named = len(ridges) > 1 or of
    where = f", {of}" if of else ""
    return [
        Mark("x", dot.x, f"{dot.name if named else 'ridge'}{where}: {amount(dot.x, PER_BYTE)}", "ridge", of)
        for dot in ridges
    ]


def bound_regions(ridges: Sequence[float], across: Range) -> tuple[Region, ...]:
    """Left of the first ridge everything is memory-bound, right of the last compute-bound; between them it depends on the engine."""
    left = Region("memory-bound", (across[0], min(ridges)), None, "memory")
    return left, Region("compute-bound", (max(ridges), across[1]), None, "compute")


def roofs_used(study: KernelSet) -> tuple[list[str], list[str]]:
    """Engines and levels that kernels are judged against, the highest roof and the outermost level first."""
    machine, ceilings = study.machine, study.ceilings
    kernels = study.kernels
    engines = [kernel.engine for kernel in kernels if kernel.engine and not kernel.engine.startswith("special")]
    if study.dtype is not None or not engines:
        engines.append(engine_for(machine, study.dtype or default_dtype(machine), ceilings))
    engines = sorted(set(engines), key=lambda name: (-machine.peak(name, ceilings).value, name))
    reached = {kernel.level for kernel in kernels if has_place(machine, kernel)}
    levels = [level for level in known_levels(machine, ceilings) if level in reached]
    return engines, levels or [machine.bandwidth(MAIN, ceilings).name]


# -- kernels --------------------------------------------------------------------------------------------------


def has_place(machine: Machine, kernel: PredictedKernel) -> bool:
    """Flops and bytes at a memory level; bytes over a link have no roof on this plane."""
    over_link = any(link.name == kernel.limiter for link in machine.links)
    at_level = any(level.name == kernel.level for level in machine.levels)
    return kernel.flops > 0 and kernel.bytes > 0 and not over_link and at_level


def kernel_points(kernels: Sequence[PredictedKernel], by_bound: bool) -> tuple[list[Point], list[Line]]:
    """Expected point, roof marker and the thin line between them for each kernel."""
    points, guides = [], []
    for kernel in kernels:
        group = kernel.group
        if by_bound and not group:
            group = f"{kernel.bound}-bound" if kernel.bound in ("memory", "compute", "overhead") else kernel.bound
        role = "overhead" if kernel.bound == "overhead" else "expected"
        spot, roof = (kernel.intensity, kernel.rate), (kernel.intensity, kernel.attainable)
        points.append(Point(*spot, shorten(kernel.name), group, role, kernel.name, to_document(kernel)))
        if roof[1] > spot[1] * MIN_GAP:
            points.append(Point(*roof, "", group, "floor", kernel.name, {}))
            guides.append(Line((spot, roof), "guide", "", group, {}))
    return points, guides


def _unplaced(machine: Machine, kernels: Sequence[PredictedKernel]) -> tuple[list[dict[str, Any]], list[str]]:
    """Kernels without a place on these axes, told in bytes per second instead: no flops, no bytes, or bytes over a link."""
    rows, notes = [], []
    for kernel in kernels:
        if has_place(machine, kernel):
            continue
        row = {"label": kernel.name, **to_document(kernel)}
        if kernel.bytes <= 0:
            rows.append(row)
            notes.append(f"{kernel.name} moves no bytes, so it has no intensity and is not drawn")
            continue
        crossed = kernel.limiter if kernel.flops > 0 else kernel.level
        link = next((each for each in machine.links if each.name == crossed), None)
        if kernel.flops > 0 and link is not None:
            # its bytes at the main memory say little about a link, so only the time is told
            rows.append(row)
            expected = show(kernel.time, "s", 3)
            notes.append(f"{kernel.name} is bound by the link {link.name}, which has no roof here: expected {expected}")
            continue
        figure = link.per_direction if link is not None else machine.level(kernel.level).bandwidth
        roof = figure.value() or math.nan
        reached = kernel.bytes / kernel.time if kernel.time > 0 else 0.0
        rows.append({"label": kernel.name, "bandwidth": reached, "roof": roof, **to_document(kernel)})
        share = f"{show(reached, 'B/s')} of {show(roof, 'B/s')} ({kernel.level})"
        notes.append(f"{kernel.name} does no flops, so it has no place on a log axis: {share}")
    return rows, notes


# -- the chart ------------------------------------------------------------------------------------------------


def plane_chart(
    kind: str,
    study: KernelSet,
    roofs: tuple[Sequence[str], Sequence[str]] | None = None,
    ranges: tuple[Range, Range] | None = None,
    by_bound: bool = False,
    notes: Sequence[str] = (),
) -> Chart:
    """A roofline chart of some engines and levels with a set of kernels on it."""
    machine, ceilings = study.machine, study.ceilings
    engines, levels = roofs or roofs_used(study)
    placed = [kernel for kernel in study.kernels if has_place(machine, kernel)]
    if len(placed) > MAX_POINTS:
        raise InputError(f"{len(placed):,} points are more than a chart can show; pick {MAX_POINTS:,} or fewer")
    spots = [(kernel.intensity, kernel.rate) for kernel in placed]
    across, up = ranges or axis_ranges(machine, engines, levels, spots, ceilings)
    lines, ridges = roof_lines(machine, engines, levels, across, ceilings)
    points, guides = kernel_points(placed, by_bound)
    unplaced, reasons = _unplaced(machine, study.kernels)
    shown = [*study.notes, *notes, *reasons]
    if len(placed) > MAX_NAMED_POINTS:
        points, guides = [replace(point, label="") for point in points if point.role != "floor"], []
        shown.append(f"{len(placed)} points, too many to name here; the table behind the chart names them")
    shown += _reading_notes(ridges if kind != "precisions" else (), levels, {point.role for point in points})
    return Chart(
        kind, study.title, *plane_axes(across, up, engines), f"{title_of(machine)}, {kinds_used(machine, engines, levels, ceilings)}",
        (*lines, *guides), (*ridges, *points), regions=bound_regions([dot.x for dot in ridges], across),
        marks=tuple(ridge_marks(ridges)), notes=tuple(shown), unplaced=tuple(unplaced),
    )  # fmt: skip


def _reading_notes(ridges: Sequence[Point], levels: Sequence[str], roles: set[str]) -> list[str]:
    """How to read what this chart shows."""
    notes = []
    if len(ridges) > 1:
        notes.append("regions: left of every ridge and right of every ridge; between them it depends on the engine")
    if len(levels) > 1:
        notes.append(f"ridges and regions are those of {level_title(levels[0])}")
    if "overhead" in roles:
        notes.append(
            "overhead (squares in a drawing): shorter than a kernel launch, so the launch sets the time, not a roof"
        )
    if "floor" in roles:
        notes.append("a point stands at its expected rate, the small mark above it on its roof")
    return notes
