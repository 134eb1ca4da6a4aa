"""Tables of what was measured: ceilings, latencies, changes, observations, collectives, kernels, counters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from statistics import median
from typing import TYPE_CHECKING, Any

from ...core.machine import Machine
from ...core.observation import Observation
from ...core.units import counted, show
from ...core.units import percent as share
from ...machines.merge import changes
from ...prediction.answer_line import unit_name
from ..table import Column, Table, columns, facts_table, percent
from .catalog import bandwidth_text, limit_of

if TYPE_CHECKING:  # measuring loads much that tables do not need
    from ...measure.session import Measured

MAX_ROWS, MAX_NOTES = 60, 4
MAX_KERNEL_NAME = 60
MAX_CHANGES = 3  # ceilings that a comparison names in its first line
MAIN_FORMATS = ("fp64", "fp32", "bf16", "fp8")  # whose peaks the first line shows


def ceiling_rows(machine: Machine) -> list[dict[str, Any]]:
    """Every measured figure with its stated or derived limit, and the share of the limit that was reached."""
    figures = {name: (figure, limit_of(figure)) for name, figure in machine.peaks.items()}
    figures |= {level.name: (level.bandwidth, limit_of(level.bandwidth)) for level in machine.levels}
    for level in machine.levels:
        for mix, figure in level.mixes.items():
            limit = limit_of(figure)
            figures[f"{level.name}, {mix}"] = figure, limit_of(level.bandwidth) if limit is None else limit
    figures |= {link.name: (link.per_direction, limit_of(link.per_direction)) for link in machine.links}
    return [
        {
            "ceiling": name, "measured": figure.measured, "sustained": figure.sustained, "spread": figure.spread, "limit": limit,
            "share": figure.measured / limit if limit else None, "how": figure.measurement, "unit": figure.unit,
        }
        for name, (figure, limit) in figures.items()
        if figure.measured is not None
    ]  # fmt: skip


def measured_lines(measured: Measured, earlier: Machine | None = None) -> list[str]:
    """What changed since an earlier measurement where there is one, then the roofs and how noisy they are."""
    machine = measured.machine
    if machine is None:
        return collective_lines(measured.observations)
    lines = [] if earlier is None else [against_line(earlier, machine)]
    main = machine.main
    peaks = {name: figure.measured for name, figure in machine.peaks.items() if not name.startswith("special")}
    roofs = [f"{unit_name(machine, main.name)} {bandwidth_text(main)}"] if main.bandwidth.measured else []
    fastest: dict[str, float] = {}
    for name, peak in peaks.items():
        if peak is not None:
            dtype = name.partition(".")[2]
            fastest[dtype] = max(peak, fastest.get(dtype, 0.0))
    roofs += [f"{dtype} {_rate(dtype, fastest[dtype])}" for dtype in MAIN_FORMATS if dtype in fastest]
    return [
        *lines,
        f"{' | '.join(roofs) or 'no ceiling was measured'}; {noise_line(measured)}",
        machine.title or machine.name,
    ]


def _rate(name: str, value: float) -> str:
    """A peak; integer formats and special functions count operations."""
    return show(value, "op/s" if "int" in name or name.startswith("special") else "flop/s")


def noise_line(measured: Measured) -> str:
    """How noisy the ceilings are: the quality of the measurement, else the median of their spreads."""
    quality = getattr(measured, "quality", None)
    if quality is not None:
        repeat = f"; provisional: run `ridgeline measure {measured.what}` on a quiet machine"
        return f"{quality.line}{repeat if quality.provisional else ''}"
    spreads = (
        [row["spread"] for row in ceiling_rows(measured.machine) if row["spread"] is not None]
        if measured.machine
        else []
    )
    return f"noise +/-{share(median(spreads))}" if spreads else "noise unknown"


def roofs(machine: Machine, notes: Sequence[str] = ()) -> Table:
    """The ceilings in a few lines: bandwidths by level, peaks, latencies, ridges."""
    main = machine.main

    def listed(pairs: Iterable[tuple[str, str]]) -> str:
        return ", ".join(f"{name} {text}" for name, text in pairs)

    mixes = {mix: figure.measured for mix, figure in main.mixes.items() if figure.measured}
    if main.bandwidth.measured and not mixes:
        mixes = {"best": main.bandwidth.measured}
    inner = [level for level in machine.levels[:-1] if level.bandwidth.measured]
    latency = [(level, level.latency.measured) for level in machine.levels if level.latency.measured]
    peaks = {name: figure.measured for name, figure in machine.peaks.items() if figure.measured}
    ridges = {name: value for name, value in machine.ridges().items() if name in peaks}
    facts = {
        unit_name(machine, main.name): listed((mix, show(rate, "B/s")) for mix, rate in mixes.items()),
        "caches": listed((unit_name(machine, level.name), show(level.bandwidth.measured, "B/s")) for level in inner),
        "peak": listed((name, _rate(name, value)) for name, value in peaks.items()),
        "ridge": f"{listed((name, show(value)) for name, value in ridges.items())} FLOP/B{machine.ridge_mix()}"
        if ridges
        else "",
        "latency": listed((unit_name(machine, level.name), show(value, "s")) for level, value in latency),
        "launch": show(machine.launch.measured, "s") if machine.launch.measured else "",
    }
    below = [f"note: {note}" for note in notes[:MAX_NOTES]]
    below += [f"{counted(len(notes) - MAX_NOTES, 'more note')}: -v"] if len(notes) > MAX_NOTES else []
    return facts_table("", {name: text for name, text in facts.items() if text}, tuple(below))


def ceilings(machine: Machine) -> Table:
    """Every ceiling that was measured, against the limit it has."""
    rows = []
    for row in ceiling_rows(machine):
        unit = row.pop("unit")
        rows.append(row | {f"{key}:unit": unit for key in ("measured", "sustained", "limit")})
    limits = Column("limit", "stated or derived"), percent("share", "% of limit")
    shown = columns("ceiling", "measured", "sustained", percent("spread", digits=2), *limits, "how")
    return Table(f"measured ceilings of {machine.title or machine.name}", shown, rows, machine.notes)


def latencies(machine: Machine) -> Table:
    rows = [
        {"level": level.name, "latency": level.latency.measured, "how": level.latency.measurement}
        for level in machine.levels
        if level.latency.measured
    ]
    if machine.launch.measured:
        rows.append({"level": "launch", "latency": machine.launch.measured, "how": machine.launch.measurement})
    return Table("latencies", columns("level", Column("latency", unit="s"), "how"), rows)


def against_line(earlier: Machine, now: Machine) -> str:
    """How many ceilings changed, and the largest changes."""
    compared = changes(earlier, now)
    if not compared:
        return "no ceiling was measured in both"
    changed = sorted((item for item in compared if item.differs), key=lambda item: -abs(item.ratio - 1))
    named = [f"{item.name} {item.ratio:.3g}x" for item in changed[:MAX_CHANGES]]
    more = [f"and {len(changed) - MAX_CHANGES} more"] if len(changed) > MAX_CHANGES else []
    largest = f": {', '.join(named + more)}" if named else ""
    return f"{len(changed)} of {len(compared)} ceilings changed beyond the spread{largest}"


def against(earlier: Machine, now: Machine) -> Table:
    """Two measurements: what changed by more than the sum of the spreads."""
    rows = [
        {
            "ceiling": change.name, "first": change.first, "second": change.second, "ratio": change.ratio, "spread": change.spread,
            "verdict": "changed" if change.differs else "unchanged", "first:unit": change.unit, "second:unit": change.unit,
        }
        for change in changes(earlier, now)
    ]  # fmt: skip
    values = Column("first", "earlier"), Column("second", "now"), Column("ratio", "now / earlier")
    shown = columns("ceiling", *values, percent("spread", "sum of spreads", 2), "verdict")
    notes = []
    if earlier.title != now.title:
        notes.append(f"two different machines: {earlier.title or earlier.name} and {now.title or now.name}")
    for unit in {**earlier.units, **now.units}:
        before, after = earlier.units.get(unit, 0), now.units.get(unit, 0)
        if before != after:
            notes.append(f"measured on {before} {unit}s earlier, on {after} now")
    return Table("compared with the earlier measurement", shown, rows, tuple(notes))


def observations(items: Sequence[Observation], notes: tuple[str, ...] = ()) -> Table:
    """One row per observation; what a CSV of a measurement holds."""
    rows = [
        {"name": item.name, "target": item.target, "best": item.best, "median": item.median, "spread": item.spread, "samples": len(item.samples), "rate": item.best_rate if item.amount else None}
        for item in items
    ]  # fmt: skip
    times = Column("best", unit="s"), Column("median", unit="s"), percent("spread", digits=2)
    return Table(
        f"{len(rows)} observations",
        columns("name", "target", *times, "samples", Column("rate", "amount/s")),
        rows,
        notes,
    )


def collective_lines(items: Sequence[Observation]) -> list[str]:
    """The best bus bandwidth of every operation and its latency."""
    settings = items[0].settings
    best: dict[str, float] = {}
    for item in items:
        if "bus_bandwidth" in item.settings:
            name = str(item.settings["op"])
            best[name] = max(float(item.settings["bus_bandwidth"]), best.get(name, 0.0))
    latency = {str(item.settings["op"]): item.settings["alpha"] for item in items if "alpha" in item.settings}
    parts = [
        f"{name} {show(rate, 'B/s')}" + (f" (latency {show(latency[name], 's')})" if name in latency else "")
        for name, rate in best.items()
    ]
    return [f"bus bandwidth: {', '.join(parts) or 'not measured'}", f"{settings['ranks']} ranks, {settings['backend']}"]


def collectives(items: Sequence[Observation], notes: tuple[str, ...] = ()) -> list[Table]:
    """The machine of every rank, latency and bandwidth fitted per operation, then every size with its bus bandwidth."""
    settings, conditions = items[0].settings, items[0].conditions
    fits = [
        {"op": item.settings["op"], "alpha": item.settings["alpha"], "beta": item.settings["beta"], "residual": item.settings["residual_relative"]}
        for item in items
        if "alpha" in item.settings
    ]  # fmt: skip
    sizes = [
        {"op": item.settings["op"], "bytes": item.settings["bytes"], "median": item.median, "spread": item.spread, "bus": item.settings["bus_bandwidth"]}
        for item in items
        if "bus_bandwidth" in item.settings
    ]  # fmt: skip
    links = [link["bandwidth"] for link in conditions.get("links", [])]
    ranks = [{**host, "next": link} for host, link in zip_longest(conditions.get("hosts", []), links) if host]
    return [
        Table(
            "ranks, measured at the same time",
            columns("rank", "host", "device", Column("copy", "local copy", "B/s"), Column("product", "local fp32 GEMM", "flop/s"), Column("next", "to next rank", "B/s")),
            ranks, notes,
        ),
        Table(
            f"{settings['ranks']} ranks, {settings['backend']}: time = alpha + bytes sent / beta",
            columns("op", Column("alpha", "latency alpha", "s"), Column("beta", "bandwidth beta", "B/s"), percent("residual", digits=2)),
            fits, tuple(conditions.get("gaps", ())),
        ),
        Table("sizes (median of the slowest rank)", columns("op", Column("bytes", unit="B", binary=True), Column("median", unit="s"), percent("spread", digits=2), Column("bus", "bus bandwidth", "B/s")), sizes),
    ]  # fmt: skip
