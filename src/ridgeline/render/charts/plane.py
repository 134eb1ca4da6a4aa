"""The roofline plane: the roofs, regions, ridges and points that charts of intensity against rate are made of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.machine import MAIN, Machine
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for, known_levels
from ...prediction.kernel_sets import KernelSet, PredictedKernel
from ..chart import LOG, Arrow, Axis, Chart, Line, Mark, Point, Region
from ..draw.labels import amount, shorten
from .wording import INTENSITY, PER_BYTE, PERFORMANCE, bound_title, engine_title, level_title, rate, rate_unit, title_of

MAX_POINTS, MAX_NAMED_POINTS, MAX_LONGEST = 5000, 40, 12
MAX_LISTED = 2  # names in a note
MIN_GAP = 1.02  # a rate nearer to its roof than this factor is drawn without a gap
MIN_SHAPE, MAX_SHAPE = 0.55, 0.85  # decades of y per decade of x, which are equally long: the shape of the plot
Range = tuple[float, float]
Ranges = tuple[Range, Range]  # of the x axis, of the y axis
Spot = tuple[float, float]  # intensity, rate


def power_span(values: Iterable[float], base: float, margin: float) -> Range:
    """A range around positive values that begins and ends at powers of `base`."""
    usable = [value for value in values if value > 0 and math.isfinite(value)]
    low, high = math.log(min(usable) / margin, base), math.log(max(usable) * margin, base)
    return base ** math.floor(low + 1e-9), base ** math.ceil(high - 1e-9)


def decade_span(low: float, high: float) -> Range:
    """A range of rates that begins and ends at quarters of a decade."""
    return 10 ** (math.floor(math.log10(low) * 4) / 4), 10 ** (math.ceil(math.log10(high) * 4) / 4)


def equal_decades(ranges: Ranges) -> Ranges:
    """Ranges of a plot that is neither too flat nor too tall when a decade has one length on both axes."""
    (left, right), (low, high) = ranges
    across, up = math.log10(right / left), math.log10(high / low)
    if up < MIN_SHAPE * across:
        low /= 10 ** (MIN_SHAPE * across - up)
    more = 10 ** (max(0.0, up / MAX_SHAPE - across) / 2)
    return (left / more, right * more), (low, high)


def plane_axes(ranges: Ranges, engines: Iterable[str], label: str = INTENSITY) -> tuple[Axis, Axis]:
    across, up = ranges
    return Axis(label, PER_BYTE, LOG, across), Axis(PERFORMANCE, rate_unit(engines), LOG, up)


@dataclass(frozen=True)
class Roofs:
    """Engines and memory levels of a machine that kernels are judged against; the first of each sets the ridge.

    `rates` are bandwidths (B/s) that a prediction used in place of the machine's own: those of its access mix.
    """

    machine: Machine
    engines: Sequence[str]
    levels: Sequence[str]
    ceilings: str | None = None
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def peaks(self) -> list[float]:
        return [self.machine.peak(name, self.ceilings).value for name in self.engines]

    def bandwidth(self, level: str) -> float:
        return self.rates.get(level) or self.machine.bandwidth(level, self.ceilings).value

    @property
    def bandwidths(self) -> list[float]:
        return [self.bandwidth(name) for name in self.levels]

    @property
    def ridges(self) -> list[float]:
        return [peak / self.bandwidths[0] for peak in self.peaks]

    @property
    def kinds(self) -> str:
        """Which kind of ceilings the picture shows, as every output must say."""
        used = {self.machine.peak(name, self.ceilings).kind for name in self.engines}
        used |= {self.machine.bandwidth(name, self.ceilings).kind for name in self.levels}
        return " and ".join(sorted(used)) + " ceilings"

    @property
    def subtitle(self) -> str:
        return f"{title_of(self.machine)}, {self.kinds}"

    def attainable(self, intensity: float, engine: str, level: str) -> float:
        return min(self.machine.peak(engine, self.ceilings).value, self.bandwidth(level) * intensity)

    def ranges(self, spots: Sequence[Spot]) -> Ranges:
        """Ranges of both axes: every ridge with room to its sides, and every point."""
        peaks, bandwidths = self.peaks, self.bandwidths
        low, high = min(peaks) / max(bandwidths), max(peaks) / min(bandwidths)
        at = [intensity for intensity, _ in spots]
        across = power_span([low / 16, high * 8, *at, *(intensity * 1.5 for intensity in at)], 2.0, 1.25)
        reached = [value for _, value in spots]
        lowest = min([across[0] * min(bandwidths) * 2, *reached])
        return equal_decades((across, decade_span(lowest / 1.6, max([*peaks, *reached]) * 1.5)))

    def lines(self, across: Range, group: str = "") -> tuple[list[Line], list[Point]]:
        """Sloped lines of the levels, flat lines of the engines, corner dots; the first engine sets the first dot.

        Without a group of their own, levels and engines have their fixed colours.
        """
        top, fastest = max(self.peaks), max(self.bandwidths)
        lines, ridges = [], []
        for name in self.levels:
            speed = self.bandwidth(name)
            end = min(top / speed, across[1])
            mix = self.machine.mix_at(name, speed, self.ceilings)
            label = f"{level_title(name)} {show(speed, 'B/s', 3)}{f' ({mix})' if mix else ''}"
            details = {"bandwidth": speed, "kind": self.machine.bandwidth(name, self.ceilings).kind, "level": name}
            ends = ((across[0], across[0] * speed), (end, end * speed))
            lines.append(Line(ends, "bandwidth", label, group or level_title(name), details))
        merged: dict[float, list[str]] = {}
        for name, peak in zip(self.engines, self.peaks, strict=True):
            merged.setdefault(peak, []).append(name)
        for peak, names in merged.items():
            title = " = ".join(engine_title(name) for name in names)
            kind = self.machine.peak(names[0], self.ceilings).kind
            details = {"peak": peak, "kind": kind, "engine": " ".join(names)}
            ends, owner = ((peak / fastest, peak), (across[1], peak)), names[0].partition(".")[0]
            lines.append(Line(ends, "peak", f"{title} {rate(peak, names[0])}", group or owner, details))
            ridge, level = peak / self.bandwidths[0], self.levels[0]
            ridges.append(Point(ridge, peak, "", group, "ridge", f"ridge of {title}", {"level": level}))
        return lines, ridges


def ridge_mark(ridge: Point) -> Mark:
    """The line at a ridge; with several machines on the plane it is named."""
    named = f"{ridge.group} ridge" if ridge.group else "ridge"
    return Mark("x", ridge.x, f"{named} {amount(ridge.x, PER_BYTE)}", "ridge", ridge.group)


def bound_regions(ridges: Sequence[float], across: Range) -> tuple[Region, ...]:
    """Memory-bound left of the first ridge, compute-bound right of the last."""
    left = Region("memory-bound", (across[0], min(ridges)), None, "memory")
    return left, Region("compute-bound", (max(ridges), across[1]), None, "compute")


def roofs_used(study: KernelSet) -> Roofs:
    """Engines and levels that kernels are judged against, the highest roof and the outermost level first."""
    machine, ceilings = study.machine, study.ceilings
    kernels = study.kernels
    engines = [kernel.engine for kernel in kernels if kernel.engine and not kernel.engine.startswith("special")]
    if study.dtype is not None or not engines:
        engines.append(engine_for(machine, study.dtype or default_dtype(machine), ceilings))
    engines = sorted(set(engines), key=lambda name: (-machine.peak(name, ceilings).value, name))
    reached = {kernel.level for kernel in kernels if has_place(machine, kernel)}
    levels = [level for level in known_levels(machine, ceilings) if level in reached]
    return Roofs(machine, engines, levels or [machine.bandwidth(MAIN, ceilings).name], ceilings)


def has_place(machine: Machine, kernel: PredictedKernel) -> bool:
    """Flops and bytes at a memory level; bytes over a link have no roof on this plane."""
    over_link = any(link.name == kernel.limiter for link in machine.links)
    at_level = any(level.name == kernel.level for level in machine.levels)
    return kernel.flops > 0 and kernel.bytes > 0 and not over_link and at_level


def kernel_points(
    kernels: Sequence[PredictedKernel], by_bound: bool, shares: bool = False
) -> tuple[list[Point], list[Line]]:
    """Expected point, roof marker and the thin line between them for each kernel; with `shares` the area of a dot is its time."""
    points, guides = [], []
    total = sum(kernel.time * kernel.count for kernel in kernels)
    for kernel in kernels:
        group = bound_title(kernel.bound) if by_bound and not kernel.group else kernel.group
        role = "overhead" if kernel.bound == "overhead" else "expected"
        spot, roof = (kernel.intensity, kernel.rate), (kernel.intensity, kernel.attainable)
        share = kernel.time * kernel.count / total if shares and total > 0 else None
        points.append(Point(*spot, shorten(kernel.name), group, role, kernel.name, to_document(kernel), share))
        if roof[1] > spot[1] * MIN_GAP:
            points.append(Point(*roof, "", group, "floor", kernel.name, {}))
            guides.append(Line((spot, roof), "guide", "", group, {}))
    return points, guides


def _unplaced(machine: Machine, kernels: Sequence[PredictedKernel]) -> tuple[list[dict[str, Any]], list[str]]:
    """Kernels without a place on these axes, listed with their bandwidth instead: no flops, no bytes, or bytes over a link."""
    rows, notes, no_flops = [], [], []
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
            # its bytes at the main memory say little about a link, so only the time is given
            rows.append(row)
            expected = show(kernel.time, "s", 3)
            notes.append(f"{kernel.name} is bound by the link {link.name}, which has no roof here: expected {expected}")
            continue
        figure = link.per_direction if link is not None else machine.level(kernel.level).bandwidth
        roof = figure.value() or math.nan
        reached = kernel.bytes / kernel.time if kernel.time > 0 else 0.0
        rows.append({"label": kernel.name, "bandwidth": reached, "roof": roof, **to_document(kernel)})
        share = f"{show(reached, 'B/s')} of {show(roof, 'B/s')} ({kernel.level})"
        no_flops.append((kernel.name, share))
    if len(no_flops) > MAX_LISTED:
        listed = ", ".join(name for name, _ in no_flops[:MAX_LISTED])
        return rows, [*notes, f"{len(no_flops)} kernels do no flops, so they are not on the plot: {listed} ..."]
    return rows, notes + [f"{name} does no flops, so it is not on the plot: {share}" for name, share in no_flops]


def roof_chart(
    kind: str,
    title: str,
    roofs: Sequence[Roofs],
    ranges: Ranges,
    lines: Iterable[Line],
    points: Iterable[Point],
    arrows: Iterable[Arrow] = (),
    notes: Iterable[str] = (),
    label: str = INTENSITY,
) -> Chart:
    """The roofs, ridges and regions of one machine or several, and what is shown under them; `label` is that of the x axis."""
    several = len(roofs) > 1
    drawn = [roof.lines(ranges[0], roof.machine.name if several else "") for roof in roofs]
    corners = [dot for _, dots in drawn for dot in dots]
    ridges = [dots[0] for _, dots in drawn]  # one for each machine: that of its first engine
    every_line = (*(line for roof_lines, _ in drawn for line in roof_lines), *lines)
    who = ", ".join(roof.machine.name for roof in roofs) if several else title_of(roofs[0].machine)
    kinds = dict.fromkeys(roof.kinds for roof in roofs)
    return Chart(
        kind, title, *plane_axes(ranges, [name for roof in roofs for name in roof.engines], label), f"{who}, {' and '.join(kinds)}",
        every_line, (*corners, *points), regions=bound_regions([dot.x for dot in ridges], ranges[0]), marks=tuple(map(ridge_mark, ridges)),
        arrows=tuple(arrows), notes=tuple(notes),
    )  # fmt: skip


def widened(chart: Chart, ranges: Ranges) -> Chart:
    """A chart of roofs on axes that also cover `ranges`: memory roofs begin further left on their slope, compute roofs end further
    right, regions reach the new edges, and all else stays where it is."""
    (left, right), (low, high) = chart.x.range, chart.y.range
    across = min(left, ranges[0][0]), max(right, ranges[0][1])
    up = min(low, ranges[1][0]), max(high, ranges[1][1])

    def longer(line: Line) -> Line:
        first, last = line.points[0], line.points[-1]
        if line.role == "bandwidth":
            return replace(line, points=((across[0], across[0] * line.details["bandwidth"]), last))
        return replace(line, points=(first, (across[1], last[1]))) if line.role == "peak" else line

    def wider(region: Region) -> Region:
        ends = {left: across[0], right: across[1]}
        return (
            region
            if region.x is None
            else replace(region, x=(ends.get(region.x[0], region.x[0]), ends.get(region.x[1], region.x[1])))
        )

    return replace(
        chart, x=replace(chart.x, range=across), y=replace(chart.y, range=up), lines=tuple(map(longer, chart.lines)),
        regions=tuple(map(wider, chart.regions)),
    )  # fmt: skip


def plane_chart(
    kind: str,
    study: KernelSet,
    roofs: Roofs | None = None,
    ranges: Ranges | None = None,
    by_bound: bool = False,
    shares: bool = False,
) -> Chart:
    """A roofline chart of some engines and levels with a set of kernels on it."""
    roofs = roofs or roofs_used(study)
    placed = [kernel for kernel in study.kernels if has_place(study.machine, kernel)]
    if len(placed) > MAX_POINTS:
        raise InputError(f"{len(placed):,} points are more than a chart can show; pick {MAX_POINTS:,} or fewer")
    ranges = ranges or roofs.ranges([(kernel.intensity, kernel.rate) for kernel in placed])
    points, guides = kernel_points(placed, by_bound, shares)
    unplaced, reasons = _unplaced(study.machine, study.kernels)
    notes = [*study.notes, *reasons]
    if len(placed) > MAX_NAMED_POINTS:
        longest = sorted(placed, key=lambda kernel: -kernel.time * kernel.count)[:MAX_LONGEST] if shares else []
        names = {kernel.name for kernel in longest}
        points = [point if point.name in names else replace(point, label="") for point in points]
        points, guides = [point for point in points if point.role != "floor"], []
        named = f"the {len(longest)} longest are named" if longest else "too many to name"
        notes.append(f"{len(placed)} points, {named}; --out FILE.csv lists all of them")
    notes += _reading_notes(roofs, {point.role for point in points})
    chart = roof_chart(kind, study.title, [roofs], ranges, guides, points, notes=notes)
    return replace(chart, unplaced=tuple(unplaced))


def _reading_notes(roofs: Roofs, roles: set[str]) -> list[str]:
    """How to read what this chart shows."""
    notes = []
    if len(set(roofs.peaks)) > 1 or len(roofs.levels) > 1:
        notes.append(f"ridge of {engine_title(roofs.engines[0])} at {level_title(roofs.levels[0])}")
    if "overhead" in roles:
        notes.append("squares: overhead-bound, shorter than a kernel launch")
    if "floor" in roles:
        notes.append("dot: expected rate; tick above it: attainable rate (roofline)")
    return notes
