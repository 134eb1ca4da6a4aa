"""Charts of profiled kernels one by one: all of a profile, each with the key of its row, and one with its moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import InputError
from ...core.machine import Machine
from ...core.observation import Observation
from ...core.roofline import achieved
from ...core.units import counted
from ...core.units import percent as percent_text
from ...gaps.counted import Places, main_bytes, name_engine, unknown_engines
from ...gaps.item import Item
from ...gaps.kernels import KernelReport
from ...gaps.steps.report import ProgramReport
from ...prediction.ceilings import known_peak
from ..chart import Arrow, Chart, Line, Point
from ..draw.labels import shorten
from .gaps import MIN_REPORTED_GAP, Landed, landed_chart, landed_item
from .plane import MIN_GAP, Roofs, Spot, roof_chart
from .wording import bound_title, name_of, times

MAX_DOTS = 10_000  # the longest kernels are drawn
MAX_MOVES = 4  # arrows of one kernel


def kernels_chart(report: KernelReport) -> Chart:
    """The kernels of a profile by their counters; the key of a dot is the place of its kernel in the report."""
    landed = [
        replace(landed_item(report.machine, Item(kernel.gap, ())), time=kernel.time, name=kernel.name, key=str(place))
        for place, kernel in enumerate(report.kernels)
        if kernel.gap is not None and kernel.gap.target.flops and kernel.gap.target.bytes
    ]
    if not landed:
        raise _none_placed(report.machine, report.observations)
    placed = {int(kernel.key) for kernel in landed}
    left_out = [kernel.name for place, kernel in enumerate(report.kernels) if place not in placed]
    title = f"{counted(len(landed), 'kernel')} on the roofline of {name_of(report.machine)}"
    return placed_chart(report.machine, title, landed, list(dict.fromkeys(left_out)))


def profile_chart(machine: Machine, observations: Sequence[Observation]) -> Chart:
    """The kernels of a profile on the roofline of a machine, by their counted flops and bytes; dot area is time."""
    kernels: dict[str, Landed] = {}
    places = Places(machine)
    without: list[str] = []
    for item in observations:
        name = item.name or item.kernel
        landed = _landed_observation(places, name, item)
        if landed is None:
            without.append(name)
        elif name in kernels:
            kernels[name] = replace(kernels[name], time=kernels[name].time + landed.time)
        else:
            kernels[name] = landed
    if not kernels:
        raise _none_placed(machine, observations)
    title = f"{counted(len(kernels), 'kernel')} on the roofline of {name_of(machine)}"
    return placed_chart(machine, title, list(kernels.values()), list(dict.fromkeys(without)))


def _none_placed(machine: Machine, observations: Iterable[Observation]) -> InputError:
    """Why no kernel has a place on the roofline, and what to do."""
    what = "no kernel of this file has a place on the roofline"
    unnamed = unknown_engines(observations, machine)
    if unnamed:
        return InputError(f"{what}: {name_engine(unnamed, machine)}")
    return InputError(
        f"{what}, which takes counted flops and bytes; profile with Nsight Compute (`ridgeline profile`), which counts them"
    )


def _landed_observation(places: Places, name: str, item: Observation) -> Landed | None:
    """None without bytes at the main memory or without flops, which may name no engine where the memory limits on any."""
    machine = places.machine
    moved = main_bytes(machine, item) or 0.0
    peaks = {engine: known_peak(machine, engine) for engine in item.flops}
    times = {engine: item.flops[engine] / peak for engine, peak in peaks.items() if peak and item.flops[engine] > 0}
    if moved <= 0 or not any(item.flops.values()):
        return None
    if times:
        engine = max(times, key=lambda key: times[key])
        flops = item.flops[engine]
    elif places.slowest is not None and places.on_any_engine(item):
        engine, flops = places.slowest[0], sum(item.flops.values())
    else:
        return None
    peak, bandwidth = machine.peak(engine).value, machine.bandwidth().value
    run = achieved(flops, moved, item.median, peak, bandwidth)
    details = {"flops": flops, "bytes": moved, "time_us": item.median * 1e6, "engine": engine}
    spot = (flops / moved, flops / item.median)
    roof = min(peak, bandwidth * spot[0])
    return Landed(
        name, sum(item.samples), spot, roof, spot[1] / roof, bound_title(str(run.verdict)), engine, None, details
    )


def operators_chart(report: ProgramReport) -> Chart:
    """The operators of a step; the key of a dot is the place of its operator by device time."""
    landed = [
        replace(landed_item(report.machine, item), bound=bound_title(item.gap.target.bound), key=str(place))
        for place, item in enumerate(report.by_time)
        if item.gap.target.flops and item.gap.target.bytes
    ]
    if not landed:
        raise InputError("no operator of this program does arithmetic, so none has a place on the roofline")
    placed = {int(kernel.key) for kernel in landed}
    left_out = [item.name for place, item in enumerate(report.by_time) if place not in placed]
    return placed_chart(report.machine, f"Operators on the roofline of {name_of(report.machine)}", landed, left_out)


def placed_chart(machine: Machine, title: str, landed: Sequence[Landed], left_out: Sequence[str]) -> Chart:
    """The longest kernels on the roofline, with a note where there are more."""
    longest = sorted(landed, key=lambda kernel: -kernel.time)[:MAX_DOTS]
    chart = landed_chart(machine, title, longest, left_out)
    if len(longest) == len(landed):
        return chart
    share = sum(kernel.time for kernel in longest) / sum(kernel.time for kernel in landed)
    note = f"the {MAX_DOTS:,} longest of {len(landed):,} kernels are drawn, {percent_text(share)} of the time"
    return replace(chart, notes=(*chart.notes, note))


@dataclass(frozen=True)
class Destination:
    """Where a move would put a kernel, and the move in words."""

    move: str
    spot: Spot


def moves_chart(machine: Machine, kernel: Landed, moves: Iterable[Destination] = ()) -> Chart:
    """One kernel with its gap up to the roof, its algorithmic intensity, and numbered arrows to where moves would put it."""
    if known_peak(machine, kernel.engine) is None:
        raise InputError(f"{machine.name} has no peak of {kernel.engine}, so there is no roof to draw")
    roofs = Roofs(machine, [kernel.engine], [machine.main.name])
    points = [Point(*kernel.spot, shorten(kernel.name), kernel.bound, "observed", kernel.name, kernel.details)]
    lines: list[Line] = []
    arrows: list[Arrow] = []
    notes: list[str] = []
    vertical = kernel.roof / kernel.spot[1]
    if vertical > MIN_GAP:
        lines.append(Line((kernel.spot, (kernel.spot[0], kernel.roof)), "guide", "", kernel.bound))
        points.append(Point(kernel.spot[0], kernel.roof, times(vertical), kernel.bound, "floor", "the roof above it"))
    if kernel.target is not None:
        lines.append(Line((kernel.spot, kernel.target), "target", "", kernel.bound))
        points.append(Point(*kernel.target, "", kernel.bound, "target", "at its algorithmic counts"))
        notes.append("hollow: at the algorithmic FLOPs and bytes")
    for number, move in enumerate(moves, 1):
        if number <= MAX_MOVES:
            arrows.append(Arrow(kernel.spot, move.spot, str(number), "change", kernel.bound))
            points.append(Point(*move.spot, "", kernel.bound, "target", f"{number} {move.move}"))
            notes.append(f"{number}  {move.move}")
    spots = [(point.x, point.y) for point in points]
    title = f"{shorten(kernel.name)} on the roofline of {name_of(machine)}"
    return roof_chart("moves", title, [roofs], roofs.ranges(spots), lines, points, arrows, notes)


def landed_document(machine: Machine, item: Mapping[str, Any], key: str = "") -> Landed | None:
    """Where the item of a saved report was, by the names its figures have in JSON; None without arithmetic or bytes.

    The counted FLOPs are those of the algorithm times `excess_flops`; where nothing was counted the algorithm's stand.
    """
    flops, moved, engine = item.get("flops"), item.get("bytes"), str(item.get("engine") or "")
    peak = known_peak(machine, engine)
    if not flops or not moved or peak is None:
        return None
    time = item["measured_us"] / 1e6
    spot = (item.get("intensity_observed") or flops / moved, flops * (item.get("excess_flops") or 1.0) / time)
    algorithmic = (flops / moved, flops / time)
    roof = min(peak, machine.bandwidth().value * spot[0])
    apart = algorithmic if algorithmic[0] > MIN_REPORTED_GAP * spot[0] or spot[1] > MIN_REPORTED_GAP * algorithmic[1] else None  # fmt: skip
    bound = str(item.get("bound_observed") or item.get("bound_predicted") or "")
    share = item.get("share_of_roofline") or spot[1] / roof
    total = time * (item.get("count") or 1.0)
    return Landed(str(item["name"]), total, spot, roof, share, bound_title(bound), engine, apart, {}, key)
