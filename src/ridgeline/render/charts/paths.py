"""Paths on the roofline plane: a chain of changes as numbered arrows, and measured versions of one kernel."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...core.errors import InputError, MissingFigure
from ...core.machine import MAIN, Machine, positive
from ...core.observation import Observation
from ...core.units import show
from ...prediction import whatif
from ...prediction.compare import default_dtype
from ...programs import ops
from ..chart import LOG, Arrow, Axis, Chart, Line, Mark, Point
from ..draw.labels import amount, shorten
from ..table import Column, Table
from .plane import (
    INTENSITY,
    PER_BYTE,
    PERFORMANCE,
    bound_regions,
    engine_for,
    kinds_used,
    level_title,
    name_of,
    power_span,
    rate_unit,
    ridge_marks,
    roof_lines,
    times,
    title_of,
)

STEP = "change"
Spot = tuple[float, float]
NEAR = 0.02  # stops nearer than this in both coordinates are one place
EXAMPLE = "efficiency=0.6,tile=64,tile,fuse=gelu,efficiency=0.8"


def _example(machine: Machine) -> list[whatif.PricedCase]:
    """A product of small tiles that reaches a third of its roof, and five kinds of change."""
    dtype = default_dtype(machine)
    values = {"m": 4096, "n": 4096, "k": 4096, "dtype": dtype, "traffic": "tiled", "tile": 16}
    case = whatif.Case(machine, ops.gemm, values, options={"efficiency": 0.3})
    for narrow in ("fp8", "int8"):
        if narrow in machine.dtypes() and narrow != dtype:
            return whatif.apply(case, whatif.parse(f"{EXAMPLE},quantize={narrow}"))
    return whatif.apply(case, whatif.parse(EXAMPLE))


@dataclass(frozen=True)
class Roof:
    """One machine's roofs as far as points are judged against them."""

    machine: Machine
    engines: tuple[str, ...]
    level: str
    ceilings: str | None


def _roofs(stops: Sequence[whatif.PricedCase]) -> list[Roof]:
    found: dict[str, Roof] = {}
    for stop in stops:
        machine, options = stop.case.machine, stop.case.options
        known = found.get(machine.name)
        engines = (*(known.engines if known else ()), *((stop.engine,) if stop.engine else ()))
        ceilings = options.get("ceilings")
        level = machine.bandwidth(options.get("resident") or MAIN, ceilings).name
        found[machine.name] = Roof(machine, tuple(dict.fromkeys(engines)), level, ceilings)
    return [roof for roof in found.values() if roof.engines]


def _plane(
    kind: str,
    title: str,
    roofs: Sequence[Roof],
    points: Sequence[Point],
    arrows: Sequence[Arrow],
    guides: Sequence[Line],
    notes: Sequence[str],
) -> Chart:
    """The roofs of one or several machines with points and arrows; colours tell machines apart where there are several."""
    peaks = [roof.machine.peak(name, roof.ceilings).value for roof in roofs for name in roof.engines]
    speeds = [roof.machine.bandwidth(roof.level, roof.ceilings).value for roof in roofs]
    ridges = [
        roof.machine.peak(name, roof.ceilings).value / roof.machine.bandwidth(roof.level, roof.ceilings).value
        for roof in roofs
        for name in roof.engines
    ]
    spots = [point.x for point in points]
    across = power_span([min(ridges) / 4, max(ridges) * 4, min(spots) / 1.5, max(spots) * 1.5], 2.0, 1.1)
    low = min([across[0] * min(speeds) * 2, *(point.y for point in points)])
    high = max([*peaks, *(point.y for point in points)])
    up = (10 ** (math.floor(math.log10(low / 1.6) * 4) / 4), 10 ** (math.ceil(math.log10(high * 1.5) * 4) / 4))
    several = len(roofs) > 1
    lines: list[Line] = []
    dots: list[Point] = []
    marks: list[Mark] = []
    for roof in roofs:
        engines = sorted(roof.engines, key=lambda name: -roof.machine.peak(name, roof.ceilings).value)
        group = roof.machine.name if several else ""
        own, corners = roof_lines(roof.machine, engines, [roof.level], across, roof.ceilings, group)
        lines += own
        dots += corners
        marks += [] if several else ridge_marks(corners)
        marks += [
            Mark("x", dot.x, f"{dot.name}, {group}: {amount(dot.x, PER_BYTE)}", "ridge", group)
            for dot in corners
            if several
        ]
    kinds = list(dict.fromkeys(kinds_used(roof.machine, roof.engines, [roof.level], roof.ceilings) for roof in roofs))
    who = ", ".join(roof.machine.name for roof in roofs) if several else title_of(roofs[0].machine)
    used = f"{who}, {' and '.join(kinds)}"
    if any(roof.level != roof.machine.main.name for roof in roofs):
        notes = [*notes, f"the data sit in {', '.join(level_title(roof.level) for roof in roofs)}"]
    return Chart(
        kind, title, Axis(INTENSITY, PER_BYTE, LOG, across), Axis(PERFORMANCE, rate_unit(name for roof in roofs for name in roof.engines), LOG, up), used,
        (*lines, *guides), (*dots, *points), regions=bound_regions(ridges, across), marks=tuple(marks), arrows=tuple(arrows), notes=tuple(notes),
    )  # fmt: skip


def _apart(one: Spot, other: Spot) -> bool:
    return any(abs(math.log(a / b)) > NEAR for a, b in zip(one, other, strict=True))


def changes(machine: Machine, stops: Sequence[whatif.PricedCase] | None = None, title: str | None = None) -> Chart:
    """What changes would bring: numbered arrows from the baseline, each priced, the roofs of every machine on the way."""
    given = stops is not None
    chain = list(stops) if stops is not None else _example(machine)
    placed = [stop for stop in chain if stop.flops > 0 and stop.intensity]
    if not placed or not chain[0].flops:
        raise InputError(
            f"{name_of(chain[0].case.main)} does no flops, so it has no place on the plane; the table has its times"
        )
    roofs = _roofs(placed)
    several = len(roofs) > 1
    points: list[Point] = []
    arrows: list[Arrow] = []
    notes: list[str] = [] if given else ["an example, not a measurement"]
    spot: Spot | None = None
    for number, stop in enumerate(chain):
        notes.append(told(number, stop))
        if stop.flops <= 0 or not stop.intensity:
            continue
        here = (stop.intensity, stop.rate)
        group = stop.case.machine.name if several else STEP
        label = shorten(name_of(stop.case.main)) if number == 0 else ""
        details = {"step": number, "time_us": stop.time * 1e6, "ratio": stop.ratio, "bound": stop.bound, "limiter": stop.limiter}  # fmt: skip
        if spot is None or _apart(spot, here):
            points.append(Point(*here, label, group, "expected", f"{number} {stop.name}", details))
            if spot is not None:
                arrows.append(Arrow(spot, here, str(number), "change", group))
            spot = here
    last = placed[-1]
    roof = last.flops / last.floor
    guides: list[Line] = []
    if spot is not None and roof > last.rate * 1.02:
        group = last.case.machine.name if several else STEP
        points.append(
            Point(spot[0], roof, f"{times(roof / last.rate)} left", group, "floor", f"roof of {last.name}", {})
        )
        guides.append(Line((spot, (spot[0], roof)), "guide", "", group, {}))
    notes += list(dict.fromkeys(note for stop in chain for note in stop.notes))
    return _plane(
        "changes",
        title or f"{chain[0].case.program.name}: what {'a change' if len(chain) == 2 else 'changes'} would bring",
        roofs,
        points,
        arrows,
        guides,
        notes,
    )


def told(number: int, stop: whatif.PricedCase) -> str:
    """One line of the list below the chart: number, name, time and what it brought."""
    if stop.before is None:
        return f"{number}  {stop.name}: {show(stop.unit_time, 's', 3)}, {stop.bound}-bound"
    if stop.why:
        return f"{number}  {stop.name}: nothing, because {stop.why}"
    change = f"{stop.ratio:.3g}x" if stop.ratio >= 1 else f"{1 / stop.ratio:.3g}x slower"
    return f"{number}  {stop.name}: {show(stop.unit_time, 's', 3)}, {change}, {stop.bound}-bound"


def table(stops: Sequence[whatif.PricedCase], share: float | None = None) -> Table:
    """A chain as rows: time, gain and ratio of every step and of all steps so far."""
    rows = []
    for number, stop in enumerate(stops):
        row = whatif.case_document(stop, share)
        rows.append({
            **row, "step": number, "time": stop.unit_time, "gain": stop.gain if stop.before else None, "change": stop.name,
            "ratio": row["ratio"] if stop.before else None, "total": row["total_ratio"], "direction": row["direction"] if stop.before else None,
        })  # fmt: skip
    several = len({stop.case.machine.name for stop in stops}) > 1
    columns = [
        Column("step", "#"), Column("change"), *([Column("machine")] if several else []), Column("time", "time", "s", 3), Column("gain", "gain", "s", 3),
        Column("ratio", "x before", digits=3), Column("total", "x baseline", digits=3), Column("direction", "moves"), Column("bound"), Column("limiter"), Column("intensity", "FLOP/B", digits=3),
    ]  # fmt: skip
    if share is not None:
        columns.append(Column("program_ratio", "x program", digits=3))
    notes = [f"{number} {stop.name}: {stop.why}" for number, stop in enumerate(stops) if stop.why]
    notes += list(dict.fromkeys(note for stop in stops for note in stop.notes))
    if share is not None:
        most = whatif.amdahl(share, math.inf)
        bound = (
            f", which gets {most:.3g}x as fast at most"
            if math.isfinite(most)
            else ": it gets as fast as the kernel does"
        )
        notes.append(f"the kernel is {share:.0%} of the program{bound}")
    return Table(f"{name_of(stops[0].case.main)} on {stops[0].case.machine.name}", columns, rows, tuple(notes))


# -- measured versions ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """One version of a kernel as it was measured: seconds, flops and the bytes that crossed the main memory."""

    name: str
    time: float
    flops: float
    bytes: float


def version(seen: Observation, machine: Machine) -> Version:
    """An observation as a version: what counters saw of its work, else what its algorithm asks for."""
    flops = sum(seen.flops.values()) or float(seen.work.flops)
    moved = seen.bytes.get(machine.main.name) or seen.bytes.get(MAIN) or float(seen.work.bytes)
    if not flops or not moved:
        lacking = " and ".join(what for what, value in (("flops", flops), ("bytes", moved)) if not value)
        raise InputError(f"version '{seen.name}' has no {lacking}; a path needs a time, flops and bytes for each")
    return Version(seen.name, seen.median, flops, moved)


def _versions(machine: Machine, engine: str, ceilings: str | None) -> list[Version]:
    """Three made-up versions of a product, as texts tell the story: naive, tiled, pipelined."""
    peak, speed = machine.peak(engine, ceilings).value, machine.bandwidth(MAIN, ceilings).value
    ridge, flops = peak / speed, 2.0 * 4096**3
    return [
        Version("naive", flops / (speed * ridge / 16 * 0.3), flops, flops / (ridge / 16)),
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
    owner = engine or engine_for(machine, dtype or default_dtype(machine), ceilings)
    try:
        machine.peak(owner, ceilings)
    except MissingFigure as missing:
        raise InputError(f"no roof to draw the versions under: {missing}") from missing
    chain = list(path) if path is not None else _versions(machine, owner, ceilings)
    if not chain:
        raise InputError("no version is given; a path needs at least one of name, time, flops and bytes")
    for item in chain:
        for what in ("time", "flops", "bytes"):
            positive(f"{what} of version '{item.name}'", getattr(item, what))
    level = machine.bandwidth(MAIN, ceilings).name
    speed, peak = machine.bandwidth(MAIN, ceilings).value, machine.peak(owner, ceilings).value
    points: list[Point] = []
    arrows: list[Arrow] = []
    notes = ["made-up versions, not measurements"] if path is None else []
    first = chain[0]
    for number, item in enumerate(chain):
        x, y = item.flops / item.bytes, item.flops / item.time
        roof = min(peak, speed * x)
        side = "memory side" if x < peak / speed else "compute side"
        details = {"time_us": item.time * 1e6, "flops": item.flops, "bytes": item.bytes, "share_of_roof": y / roof, "total_ratio": first.time / item.time}  # fmt: skip
        points.append(Point(x, y, f"{number + 1} {shorten(item.name, 24)}", side, "observed", item.name, details))
        notes.append(
            f"{number + 1}  {item.name}: {show(item.time, 's', 3)}, {y / roof:.0%} of the roof, {side}"
            + (f", {first.time / item.time:.3g}x the first" if number else "")
        )
        if number:
            before = chain[number - 1]
            start = (before.flops / before.bytes, before.flops / before.time)
            if _apart(start, (x, y)):
                arrows.append(Arrow(start, (x, y), times(before.time / item.time), "change", side))
        if y > roof * 1.02:
            notes.append(f"{item.name} stands above the roof: check the counts, the format and the ceilings")
    return _plane("versions", title or f"{len(chain)} versions on {machine.name}", [Roof(machine, (owner,), level, ceilings)], points, arrows, (), notes)  # fmt: skip
