"""Charts of gaps: observed kernels below their roof, and the kernels of a gap report with both of their works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.errors import InputError
from ...core.machine import Machine, positive
from ...core.notes import ABOVE_ROOFLINE, Note
from ...gaps.report import Report
from ...prediction.ceilings import default_dtype, engine_for
from ..chart import LOG, Arrow, Axis, Chart, Line, Point
from ..draw.labels import shorten
from .plane import MIN_GAP, Roofs, Spot, main_roofs, roof_chart
from .wording import INTENSITY, PER_BYTE, PERFORMANCE, times

MIN_REPORTED_GAP = 1.05  # gaps of a report below this factor are not drawn
MAX_NAMED_KERNELS = 30  # more labels cannot be told apart
MAX_LISTED_NAMES = 6


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
        shown = _gap(kernel, roof, f"{'memory' if kernel.intensity < ridge else 'compute'} side")
        dots, arrows, targets = [*dots, *shown[0]], [*arrows, *shown[1]], [*targets, *shown[2]]
    notes = ["solid: observed; hollow: where the algorithm's own traffic would put it"]
    notes += [] if points is not None else ["example points, not measurements"]
    above = [item.name for item in kernels if item.rate > min(peak, bandwidth * item.intensity) * MIN_GAP]
    if above:
        text = f"{', '.join(above)} above the roof: check the flop count, the precision and the ceilings"
        notes.append(Note(ABOVE_ROOFLINE, text))
    spots = [(kernel.intensity, kernel.rate) for kernel in kernels]
    # a target counts with the time of its kernel, so that the range leaves room above it too
    spots += [(item.algorithmic, item.rate * item.algorithmic / item.intensity) for item in kernels if item.algorithmic]
    title, label = f"Gaps on {machine.name}", f"{INTENSITY}, observed"
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


def report_chart(report: Report) -> Chart:
    """Every kernel where its counters put it, with the way up to its own roof and its algorithmic intensity beside it."""
    machine = report.prediction.machine
    bandwidth = machine.bandwidth().value
    shown = [item for item in report.items if item.gap.target.flops and item.gap.target.bytes]
    if not report.items:
        raise InputError(f"there is nothing to draw: {report.sentence}")
    if not shown:
        raise InputError("no kernel of this report does arithmetic, so none has a place on the roofline")
    named = {id(item) for item in sorted(shown, key=lambda item: -item.measured)[:MAX_NAMED_KERNELS]}
    peaks: dict[str, float] = {}
    points: list[Point] = []
    lines: list[Line] = []
    arrows: list[Arrow] = []
    for item in shown:
        gap = item.gap
        engine = gap.counts.engine or gap.target.engine
        if engine in machine.peaks:
            peaks[engine] = machine.peak(engine).value
        algorithmic = gap.target.flops / gap.target.bytes
        counted = gap.counts.flops or gap.target.flops
        spot = (gap.counts.intensity or algorithmic, counted / gap.measured)
        # the rate of what had to be done, padding and repeats aside
        target = (algorithmic, gap.target.flops / gap.measured)
        roof = min(peaks.get(engine, float("inf")), bandwidth * spot[0])
        side = gap.regime.bound
        label = shorten(item.name) if id(item) in named else ""
        details = {"vertical_gap": gap.vertical, "excess_bytes": gap.excess_bytes, "excess_flops": gap.excess_flops}
        points.append(Point(*spot, label, side, "observed", item.name, details))
        if roof > MIN_REPORTED_GAP * spot[1]:
            arrows.append(Arrow(spot, (spot[0], roof), "", "gap", side))
        if _apart(spot, target):
            lines.append(Line((spot, target), "guide", "", side))
            points.append(Point(*target, "", side, "target", f"{item.name}, algorithmic", key=item.name))
    roofs, across, up = _report_roofs(machine, peaks, points)
    return Chart(
        "gaps", f"Observed and algorithmic work on {machine.name}", Axis(INTENSITY, PER_BYTE, LOG, across),
        Axis(PERFORMANCE, "FLOP/s", LOG, up), report.sentence, (*lines, *roofs), tuple(points), arrows=tuple(arrows),
        notes=_report_notes(report, len(shown)),
    )  # fmt: skip


def _apart(spot: Spot, target: Spot) -> bool:
    """Whether two places differ by more than the least gap that is drawn."""
    ratios = (second / first for first, second in zip(spot, target, strict=True))
    return any(not 1 / MIN_REPORTED_GAP < ratio < MIN_REPORTED_GAP for ratio in ratios)


def _report_roofs(machine: Machine, peaks: dict[str, float], points: Sequence[Point]) -> tuple[list[Line], Spot, Spot]:
    """The bandwidth line, the peaks that kernels ran at, and the ranges that hold them and all points."""
    bandwidth = machine.bandwidth().value
    at, rates = [point.x for point in points], [point.y for point in points]
    top = max(peaks.values(), default=max(rates))
    left, right = min(at) / 3, max([*at, top / bandwidth]) * 3
    up = (min([*rates, left * bandwidth]) / 2, max([top, *rates]) * 2)
    return main_roofs(machine, peaks, (left, right), top), (left, right), up


def _report_notes(report: Report, shown: int) -> tuple[str, ...]:
    notes = [
        "solid: work as counted; hollow: the algorithm's own work in the same time; arrows go to the kernel's own roof"
    ]
    left_out = [item.name for item in report.items if not (item.gap.target.flops and item.gap.target.bytes)]
    if left_out:
        more = " ..." if len(left_out) > MAX_LISTED_NAMES else ""
        notes.append(f"without arithmetic, so not drawn: {', '.join(left_out[:MAX_LISTED_NAMES])}{more}")
    if shown > MAX_NAMED_KERNELS:
        notes.append(f"named are the {MAX_NAMED_KERNELS} of {shown} that hold the most time")
    return tuple(notes)
