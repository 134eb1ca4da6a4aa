"""Paths on the roofline plane: a chain of changes as numbered arrows, and measured versions of one kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.errors import InputError, MissingFigure
from ...core.machine import MAIN, Machine, positive
from ...core.observation import Observation
from ...core.units import show
from ...prediction.ceilings import default_dtype, engine_for
from ...prediction.kernel_sets import kernel_name
from ...prediction.studies import Changes
from ...prediction.whatif import PricedCase
from ..chart import Arrow, Chart, Line, Point
from ..draw.labels import shorten
from .plane import MIN_GAP, Ranges, Roofs, Spot, decade_span, equal_decades, power_span, roof_chart
from .wording import bound_title, level_title, times

STEP = "change"
MIN_DISTANCE = 0.02  # of the logarithm of a coordinate; nearer points are one place


def _path_ranges(roofs: Sequence[Roofs], points: Sequence[Point]) -> Ranges:
    """Ranges of both axes around the ridges of all machines and the points."""
    ridges = [ridge for roof in roofs for ridge in roof.ridges]
    peaks = [peak for roof in roofs for peak in roof.peaks]
    at, rates = [point.x for point in points], [point.y for point in points]
    across = power_span([min(ridges) / 4, max(ridges) * 4, min(at) / 1.5, max(at) * 1.5], 2.0, 1.1)
    low = min([across[0] * min(roof.bandwidths[0] for roof in roofs) * 2, *rates])
    return equal_decades((across, decade_span(low / 1.6, max([*peaks, *rates]) * 1.5)))


def _apart(first: Spot, second: Spot) -> bool:
    return any(abs(math.log(a / b)) > MIN_DISTANCE for a, b in zip(first, second, strict=True))


def changes(study: Changes) -> Chart:
    """Numbered arrows from the baseline, each priced, under the roofs of every machine on the way."""
    chain = study.stops
    placed = [stop for stop in chain if stop.flops > 0 and stop.intensity]
    if not placed or not chain[0].flops:
        raise InputError(
            f"{kernel_name(chain[0].case.main)} does no flops, so it has no place on the plane; the table has its times"
        )
    roofs = _roofs(placed)
    several = len(roofs) > 1
    points: list[Point] = []
    arrows: list[Arrow] = []
    spot: Spot | None = None
    for number, stop in enumerate(chain):
        if stop.flops <= 0 or not stop.intensity:
            continue
        place = (stop.intensity, stop.rate)
        if spot is not None and not _apart(spot, place):
            continue
        group = stop.case.machine.name if several else STEP
        label = shorten(kernel_name(stop.case.main)) if number == 0 else ""
        details = {
            "step": number, "time_us": stop.time * 1e6, "ratio": stop.ratio, "bound": stop.bound, "limiter": stop.limiter,
        }  # fmt: skip
        points.append(Point(*place, label, group, "expected", f"{number} {stop.name}", details))
        if spot is not None:
            arrows.append(Arrow(spot, place, str(number), "change", group))
        spot = place
    last = placed[-1]
    roof, group = last.flops / last.floor, last.case.machine.name if several else STEP
    guides: list[Line] = []
    if spot is not None and roof > last.rate * MIN_GAP:
        left = f"{times(roof / last.rate)} left"
        points.append(Point(spot[0], roof, left, group, "floor", f"roof of {last.name}", {}))
        guides.append(Line((spot, (spot[0], roof)), "guide", "", group, {}))
    notes = ["an example, not a measurement"] if study.example else []
    notes += [_stop_line(number, stop) for number, stop in enumerate(chain)]
    notes += dict.fromkeys(note for stop in chain for note in stop.notes)
    if any(roof.levels[0] != roof.machine.main.name for roof in roofs):
        notes.append(f"the data sit in {', '.join(level_title(roof.levels[0]) for roof in roofs)}")
    ranges = _path_ranges(roofs, points)
    return roof_chart("changes", study.title, roofs, ranges, guides, points, arrows, notes)


def _roofs(stops: Sequence[PricedCase]) -> list[Roofs]:
    """The roofs of every machine on the way, with the engines its stops are judged by, the fastest first."""
    by_machine: dict[str, Roofs] = {}
    for stop in stops:
        machine, ceilings = stop.case.machine, stop.case.options.get("ceilings")
        before = by_machine[machine.name].engines if machine.name in by_machine else ()
        engines = dict.fromkeys((*before, *((stop.engine,) if stop.engine else ())))
        fastest_first = sorted(engines, key=lambda name: -machine.peak(name, ceilings).value)
        level = machine.bandwidth(stop.case.options.get("resident") or MAIN, ceilings).name
        by_machine[machine.name] = Roofs(machine, fastest_first, [level], ceilings)
    return [roof for roof in by_machine.values() if roof.engines]


def _stop_line(number: int, stop: PricedCase) -> str:
    """One line of the list below the chart: number, name, time and what it brought."""
    if stop.why and stop.before is not None:
        return f"{number}  {stop.name}: no effect, {stop.why}"
    change = ""
    if stop.before is not None:
        change = f"{stop.ratio:.3g}x, " if stop.ratio >= 1 else f"{1 / stop.ratio:.3g}x slower, "
    return f"{number}  {stop.name}: {show(stop.unit_time, 's', 3)}, {change}{stop.bound}-bound"


@dataclass(frozen=True)
class Version:
    """One version of a kernel as it was measured: seconds, flops and the bytes that crossed the main memory."""

    name: str
    time: float
    flops: float
    bytes: float

    @property
    def spot(self) -> Spot:
        return self.flops / self.bytes, self.flops / self.time


def version(observation: Observation, machine: Machine) -> Version:
    """An observation as a version: what counters saw of its work, else what its algorithm asks for."""
    flops = sum(observation.flops.values()) or float(observation.work.flops)
    counted = observation.bytes.get(machine.main.name) or observation.bytes.get(MAIN)
    moved = counted or float(observation.work.bytes)
    if not flops or not moved:
        lacking = " and ".join(what for what, value in (("flops", flops), ("bytes", moved)) if not value)
        raise InputError(
            f"version '{observation.name}' has no {lacking}; a path needs a time, flops and bytes for each"
        )
    return Version(observation.name, observation.median, flops, moved)


def _example_versions(roof: Roofs) -> list[Version]:
    """Three example versions of a GEMM: naive, tiled, pipelined."""
    (peak,), (bandwidth,), (ridge,), flops = roof.peaks, roof.bandwidths, roof.ridges, 2.0 * 4096**3
    return [
        Version("naive", flops / (bandwidth * ridge / 16 * 0.3), flops, flops / (ridge / 16)),
        Version("tiled", flops / (peak * 0.35), flops, flops / (ridge * 3)),
        Version("pipelined", flops / (peak * 0.78), flops, flops / (ridge * 3.2)),
    ]


def versions(
    machine: Machine,
    path: Iterable[Version] | None = None,
    engine: str | None = None,
    dtype: str | None = None,
    ceilings: str | None = None,
    title: str | None = None,
) -> Chart:
    """Measured versions of one kernel as a path, the gain of every step at its arrow.

    `engine` (`tensor.bf16`) names the roof they are held against; else it is that of the format.
    """
    engine = engine or engine_for(machine, dtype or default_dtype(machine), ceilings)
    try:
        machine.peak(engine, ceilings)
    except MissingFigure as missing:
        raise InputError(f"no roof to draw the versions under: {missing}") from missing
    roof = Roofs(machine, [engine], [machine.bandwidth(MAIN, ceilings).name], ceilings)
    chain = list(path) if path is not None else _example_versions(roof)
    if not chain:
        raise InputError("no version is given; a path needs at least one of name, time, flops and bytes")
    points: list[Point] = []
    arrows: list[Arrow] = []
    notes = ["example versions, not measurements"] if path is None else []
    for number, item in enumerate(chain):
        for what in ("time", "flops", "bytes"):
            positive(f"{what} of version '{item.name}'", getattr(item, what))
        point, lines = _version_point(number, item, chain[0], roof)
        points.append(point)
        notes += lines
        before = chain[number - 1]
        if number and _apart(before.spot, item.spot):
            arrows.append(Arrow(before.spot, item.spot, times(before.time / item.time), "change", point.group))
    title = title or f"{len(chain)} versions on {machine.name}"
    return roof_chart("versions", title, [roof], _path_ranges([roof], points), (), points, arrows, notes)


def _version_point(number: int, item: Version, first: Version, roof: Roofs) -> tuple[Point, list[str]]:
    """The point of a version, and its line in the list below the chart."""
    (intensity, rate), (peak,), (bandwidth,), (ridge,) = item.spot, roof.peaks, roof.bandwidths, roof.ridges
    attainable, total = min(peak, bandwidth * intensity), first.time / item.time
    side = bound_title("memory" if intensity < ridge else "compute")
    details = {
        "time_us": item.time * 1e6, "flops": item.flops, "bytes": item.bytes, "share_of_roof": rate / attainable, "total_ratio": total,
    }  # fmt: skip
    ratio = f", {total:.3g}x the first" if number else ""
    notes = [
        f"{number + 1}  {item.name}: {show(item.time, 's', 3)}, {rate / attainable * 100:.0f} % of roofline, {side}{ratio}"
    ]
    if rate > attainable * MIN_GAP:
        notes.append(f"{item.name} is above the roofline: check the counts, the format and the ceilings")
    label = f"{number + 1} {shorten(item.name, 24)}"
    return Point(intensity, rate, label, side, "observed", item.name, details), notes
