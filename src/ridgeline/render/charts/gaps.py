"""Charts of gaps: observed kernels below their roof, the kernels of a gap report or a profile, one gap as a waterfall."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...core.errors import InputError, unknown
from ...core.machine import Machine, positive
from ...core.notes import ABOVE_ROOFLINE, Note
from ...core.units import show
from ...gaps.accounting import Cause
from ...gaps.item import Item
from ...gaps.report import Report
from ...prediction.ceilings import default_dtype, engine_for, known_peak
from ..chart import NO_AXIS, Arrow, Axis, Bar, Chart, Line, Point
from ..draw.labels import shorten
from .plane import MIN_GAP, Roofs, Spot, roof_chart
from .wording import INTENSITY, bound_title, name_of, times

MIN_REPORTED_GAP = 1.25  # smaller gaps of a report are not drawn
MAX_NAMED_KERNELS = 14  # the longest ones are named
MAX_ARROWS = 5  # the largest gaps in time have an arrow
MAX_LISTED_NAMES = 6
MIN_ARROW_CLEARANCE = 0.12  # decades between an arrow and another dot
MIN_ENTRY_SHARE = 0.005  # of the measured time; smaller causes are not drawn
MIN_CAUSE_GAIN = 0.3  # of the time of a kernel, from which the cause of its gap is named


@dataclass(frozen=True)
class Observed:
    """A kernel as it was observed: intensity and rate, and the intensity its algorithm would allow."""

    name: str
    intensity: float
    rate: float
    algorithmic: float | None = None


def gaps(
    machine: Machine, points: Iterable[Observed] | None = None, dtype: str | None = None, ceilings: str | None = None
) -> Chart:
    """Observed points with their vertical gap to the roof as an arrow, and algorithmic intensity as a target to the right."""
    engine = engine_for(machine, dtype or default_dtype(machine), ceilings)
    roofs = Roofs(machine, [engine], [machine.main.name], ceilings)
    (peak,), (bandwidth,), (ridge,) = roofs.peaks, roofs.bandwidths, roofs.ridges
    kernels = list(points or _example(peak, bandwidth))
    dots: list[Point] = []
    arrows: list[Arrow] = []
    targets: list[Line] = []
    for kernel in kernels:
        roof = min(peak, bandwidth * positive(f"intensity of {kernel.name}", kernel.intensity))
        positive(f"rate of {kernel.name}", kernel.rate)
        shown = _gap(kernel, roof, bound_title("memory" if kernel.intensity < ridge else "compute"))
        dots, arrows, targets = [*dots, *shown[0]], [*arrows, *shown[1]], [*targets, *shown[2]]
    notes = ["solid: measured; hollow: algorithmic intensity (compulsory traffic only)"]
    notes += [] if points is not None else ["example points, not measurements"]
    above = [item.name for item in kernels if item.rate > min(peak, bandwidth * item.intensity) * MIN_GAP]
    if above:
        text = f"{', '.join(above)} above the roofline: check the flop count, the precision and the ceilings"
        notes.append(Note(ABOVE_ROOFLINE, text))
    spots = [(kernel.intensity, kernel.rate) for kernel in kernels]
    # a target counts with the time of its kernel, so that the range leaves room above it too
    spots += [(item.algorithmic, item.rate * item.algorithmic / item.intensity) for item in kernels if item.algorithmic]
    title, label = f"Gap to the roofline on {machine.name}", f"{INTENSITY}, measured"
    return roof_chart("gaps", title, [roofs], roofs.ranges(spots), targets, dots, arrows, notes, label)


def _example(peak: float, bandwidth: float) -> list[Observed]:
    """A kernel on each side of the ridge."""
    ridge = peak / bandwidth
    return [Observed("M", ridge / 24, bandwidth * ridge / 24 * 0.45, ridge / 8), Observed("C", ridge * 3, peak * 0.4)]


def _gap(kernel: Observed, roof: float, side: str) -> tuple[list[Point], list[Arrow], list[Line]]:
    """The point, the arrow up to its roof, and the target at its algorithmic intensity."""
    spot, vertical = (kernel.intensity, kernel.rate), roof / kernel.rate
    horizontal = kernel.algorithmic / kernel.intensity if kernel.algorithmic else None
    details = {
        "vertical_gap": vertical, "algorithmic_intensity": kernel.algorithmic, "horizontal_gap": horizontal,
    }  # fmt: skip
    points = [Point(*spot, shorten(kernel.name), side, "observed", kernel.name, details)]
    arrows, lines = [], []
    if vertical > MIN_GAP:
        arrows.append(Arrow(spot, (kernel.intensity, roof), f"{times(vertical)} gap", "gap", side))
    if kernel.algorithmic is not None and horizontal is not None and horizontal > 1.001:
        target = (kernel.algorithmic, kernel.rate)
        label, name = f"algorithmic, {times(horizontal)}", f"{kernel.name} algorithmic"
        points.append(Point(*target, label, side, "target", name, {}))
        lines.append(Line((spot, target), "target", "", side, {}))
    return points, arrows, lines


@dataclass(frozen=True)
class Landed:
    """A measured kernel on the plane: total time, where it is, the roof above it, and its algorithmic work where known.

    `share` of roofline is at the bandwidth of the kernel's access mix where that was measured, so that it need not be
    the distance to the drawn roof.
    """

    name: str
    time: float
    spot: Spot
    roof: float
    share: float
    bound: str
    engine: str
    target: Spot | None = None
    details: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""  # of its row in a table, where its name is not enough

    @property
    def identity(self) -> str:
        return self.key or self.name

    @property
    def gap(self) -> float:
        return 1 / self.share

    @property
    def lost(self) -> float:
        return self.time * max(0.0, 1 - 1 / self.gap)


def report_chart(report: Report) -> Chart:
    """Every kernel of a gap report where its counters put it; the area of a dot is its share of the time."""
    machine = report.prediction.machine
    if not report.items:
        raise InputError(f"there is nothing to draw: {report.sentence}")
    shown = [item for item in report.items if item.gap.target.flops and item.gap.target.bytes]
    if not shown:
        raise InputError("no kernel of this report does arithmetic, so none has a place on the roofline")
    left_out = [_label(item) for item in report.items if not (item.gap.target.flops and item.gap.target.bytes)]
    kernels = [landed_item(machine, item) for item in shown]
    title = f"Predicted vs measured on {name_of(machine)}"
    return _with_causes(landed_chart(machine, title, kernels, left_out), shown)


def _cause(item: Item) -> str:
    """The cause that the counters show, in a few words, where its move saves much of the time."""
    move = item.next
    return move.name if move and (move.gain or 0.0) >= MIN_CAUSE_GAIN * item.gap.measured else ""


def _label(item: Item) -> str:
    cause = _cause(item)
    return f"{shorten(item.name, 26)}{f' ({cause})' if cause else ''} {_percent(item.gap.share)}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share > 0.01 else f"{100 * share:.2g} %"


def _with_causes(chart: Chart, items: Iterable[Item]) -> Chart:
    """The labels of a gap report: kernels with a shown cause are named with it, however short they are."""
    labels = {item.name: _label(item) for item in items if _cause(item)}
    if not labels:
        return chart
    points = tuple(
        replace(point, label=labels[point.name]) if point.role == "observed" and point.name in labels else point
        for point in chart.points
    )
    return replace(chart, points=points, notes=(*chart.notes, "in brackets: the cause that the counters show"))


def landed_item(machine: Machine, item: Item) -> Landed:
    gap = item.gap
    engine = gap.counts.engine or gap.target.engine
    algorithmic = gap.target.flops / gap.target.bytes
    spot = (gap.counts.intensity or algorithmic, (gap.counts.flops or gap.target.flops) / gap.measured)
    # the rate of the algorithm's own work, without padding and repeats
    target = (algorithmic, gap.target.flops / gap.measured)
    peak = known_peak(machine, engine) or math.inf
    roof = min(peak, machine.bandwidth().value * spot[0])
    details = {"vertical_gap": gap.vertical, "excess_bytes": gap.excess_bytes, "excess_flops": gap.excess_flops}
    extra_bytes, extra_flops = target[0] > MIN_REPORTED_GAP * spot[0], spot[1] > MIN_REPORTED_GAP * target[1]
    apart = target if extra_bytes or extra_flops else None
    return Landed(
        item.name, item.measured, spot, roof, gap.share, bound_title(gap.regime.bound), engine, apart, details
    )


def landed_chart(machine: Machine, title: str, kernels: Sequence[Landed], left_out: Sequence[str]) -> Chart:
    """Dots with the area of their time, an arrow to the roofline at the largest gaps, the longest kernels named."""
    total = sum(kernel.time for kernel in kernels)
    by_peak = {kernel.engine for kernel in kernels if known_peak(machine, kernel.engine)}
    engines = sorted(by_peak, key=lambda name: (-machine.peak(name).value, name))
    roofs = Roofs(machine, engines or [engine_for(machine, default_dtype(machine))], [machine.main.name])
    longest = {kernel.identity for kernel in sorted(kernels, key=lambda item: -item.time)[:MAX_NAMED_KERNELS]}
    arrowed = _arrowed(kernels)
    points: list[Point] = []
    lines: list[Line] = []
    arrows: list[Arrow] = []
    for kernel in sorted(kernels, key=lambda item: -item.time):  # small dots are drawn over large ones
        label = f"{shorten(kernel.name, 26)} {_percent(kernel.share)}" if kernel.identity in longest else ""
        details = {**kernel.details, "share_of_roofline": kernel.share}
        share = kernel.time / total
        points.append(Point(*kernel.spot, label, kernel.bound, "observed", kernel.name, details, share, kernel.key))
        if kernel.identity in arrowed:
            arrows.append(Arrow(kernel.spot, (kernel.spot[0], kernel.roof), "", "gap", kernel.bound))
        if kernel.target is not None and (
            kernel.identity in arrowed or kernel.spot[1] > MIN_REPORTED_GAP * kernel.target[1]
        ):
            lines.append(Line((kernel.spot, kernel.target), "target", "", kernel.bound))
            points.append(
                Point(
                    *kernel.target,
                    "",
                    kernel.bound,
                    "target",
                    f"{kernel.name}, algorithmic",
                    key=kernel.identity,
                )
            )
    spots = [(point.x, point.y) for point in points]
    return roof_chart(
        "gaps",
        title,
        [roofs],
        roofs.ranges(spots),
        lines,
        points,
        arrows,
        _landed_notes(kernels, arrows, lines, left_out),
    )


def _arrowed(kernels: Sequence[Landed]) -> set[str]:
    """The kernels that lose the most time to their roofline; no arrow passes through another dot."""
    names: set[str] = set()
    across, up = (np.array([kernel.spot[axis] for kernel in kernels]) for axis in (0, 1))
    for place in sorted(range(len(kernels)), key=lambda place: -kernels[place].lost):
        kernel = kernels[place]
        if kernel.gap < MIN_REPORTED_GAP:
            continue
        (x, y), limit = kernel.spot, kernel.roof * 1.1
        near = (np.abs(np.log10(across / x)) < MIN_ARROW_CLEARANCE) & (y <= up) & (up <= limit)
        near[place] = False
        if not near.any():
            names.add(kernel.identity)
        if len(names) == MAX_ARROWS:
            break
    return names


def _landed_notes(
    kernels: Sequence[Landed], arrows: Sequence[Arrow], lines: Sequence[Line], left_out: Sequence[str]
) -> list[str]:
    notes = ["area of a dot: share of the time; percent: of roofline"]
    if arrows:
        notes[0] += f"; arrows: the {len(arrows)} largest gaps" if len(arrows) > 1 else "; arrow: the largest gap"
    if lines:
        notes.append("hollow: algorithmic intensity (compulsory traffic only)")
    if left_out:
        more = f" and {len(left_out) - MAX_LISTED_NAMES} more" if len(left_out) > MAX_LISTED_NAMES else ""
        notes.append(f"not drawn, no flops or bytes counted: {', '.join(left_out[:MAX_LISTED_NAMES])}{more}")
    if len(kernels) > MAX_NAMED_KERNELS:
        notes.append(f"the {MAX_NAMED_KERNELS} longest of {len(kernels)} kernels are named")
    above = [kernel.name for kernel in kernels if kernel.gap * MIN_GAP < 1]
    if above:
        text = f"{', '.join(above[:MAX_LISTED_NAMES])} above the roofline: check the counts and the ceilings"
        notes.append(Note(ABOVE_ROOFLINE, text))
    return notes


def gap_waterfall(report: Report, kernel: str) -> Chart:
    """From the floor of one kernel through the causes of its gap to its measured time."""
    item = next((item for item in report.items if item.name == kernel), None)
    if item is None:
        raise unknown("kernel of this report", kernel, [item.name for item in report.items])
    title = f"Where the time of {shorten(item.name)} goes on {report.prediction.machine.name}"
    subtitle = f"{item.gap.share * 100:.0f} % of roofline, {bound_title(item.gap.regime.bound)}"
    entries = [(entry.cause, entry.time) for entry in item.gap.accounting]
    return waterfall(title, subtitle, entries, item.gap.measured)


def waterfall(title: str, subtitle: str, entries: Iterable[tuple[str, float]], measured: float) -> Chart:
    """The causes of a time in seconds, one after the other from the roofline floor, which is the first, to its sum."""
    bars: list[Bar] = []
    reached = 0.0
    for cause, time in entries:
        start, reached = reached, reached + time
        if abs(time) < MIN_ENTRY_SHARE * measured and bars:
            continue
        role, group = ("value", "floor") if not bars else ("loss", "loss")
        if cause == Cause.RESIDUAL.value:
            role, group = "unexplained", "unexplained"
        sign = "" if not bars else "+" if time >= 0 else "-"
        text = f"{sign}{show(abs(time), 's', 3)}   {time / measured * 100:.0f} %"
        low, high = sorted((start, reached))
        bars.append(Bar(cause if bars else "roofline floor", high, low, text, group, role, {"us": time * 1e6}))
    bars.append(Bar("measured", measured, 0.0, f"{show(measured, 's', 3)}   100 %", "measured", "measured", {}))
    across = Axis("time", "s", "linear", (0.0, max(bar.value for bar in bars) * 1.02))
    subtitle = f"{subtitle}, percent of the measured time"
    return Chart("waterfall", title, across, NO_AXIS, subtitle, bars=tuple(bars), look="bars")
