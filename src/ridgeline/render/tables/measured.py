"""Tables of what was measured: ceilings, latencies, changes, observations, collectives, kernels, counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ...core.machine import Machine
from ...core.observation import Observation
from ...core.units import show
from ...machines.merge import changes
from ..table import Column, Table, columns, percent
from .catalog import limit_of

MAX_ROWS, MAX_NOTES = 60, 4
MAX_KERNEL_NAME = 60


def ceiling_rows(machine: Machine) -> list[dict[str, Any]]:
    """Every figure that was measured beside its stated or derived limit, and the share of it that was reached."""
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


def ceilings(machine: Machine) -> Table:
    """Every ceiling that was measured, against the limit it has."""
    rows = []
    for row in ceiling_rows(machine):
        unit = row.pop("unit")
        rows.append(row | {f"{key}:unit": unit for key in ("measured", "sustained", "limit")})
    limits = Column("limit", "stated or derived"), percent("share", "of it")
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


def against(earlier: Machine, now: Machine) -> Table:
    """Two measurements: what changed by more than both spreads."""
    rows = [
        {
            "ceiling": change.name, "first": change.first, "second": change.second, "ratio": change.ratio, "spread": change.spread,
            "verdict": "differs" if change.differs else "the same", "first:unit": change.unit, "second:unit": change.unit,
        }
        for change in changes(earlier, now)
    ]  # fmt: skip
    values = Column("first", "earlier"), Column("second", "now"), Column("ratio", digits=3)
    shown = columns("ceiling", *values, percent("spread", "both spreads", 2), "verdict")
    notes = []
    if earlier.title != now.title:
        notes.append(f"these are two machines: {earlier.title or earlier.name} and {now.title or now.name}")
    for unit in {**earlier.units, **now.units}:
        before, after = earlier.units.get(unit, 0), now.units.get(unit, 0)
        if before != after:
            notes.append(f"the earlier one has {before} of the {unit}s, this one {after}")
    return Table("against the earlier measurement", shown, rows, tuple(notes))


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
            "every rank's machine, all at the same time",
            columns("rank", "host", "device", Column("copy", "own copy", "B/s"), Column("product", "own product fp32", "flop/s"), Column("next", "to the next rank", "B/s")),
            ranks, notes,
        ),
        Table(
            f"{settings['ranks']} ranks, {settings['backend']}: time = alpha + bytes sent / beta",
            columns("op", Column("alpha", "latency alpha", "s"), Column("beta", "bandwidth beta", "B/s"), percent("residual", digits=2)),
            fits, tuple(conditions.get("gaps", ())),
        ),
        Table("every size: median of the slowest rank", columns("op", Column("bytes", unit="B", binary=True), Column("median", unit="s"), percent("spread", digits=2), Column("bus", "bus bandwidth", "B/s")), sizes),
    ]  # fmt: skip


def observations_table(observations: Sequence[Observation], limit: int = MAX_ROWS) -> Table:
    """The first `limit` observations as people read them."""
    rows = [
        {
            "name": item.name, "kernel": item.kernel[:MAX_KERNEL_NAME], "time": item.median, "runs": len(item.samples),
            "flops": _counts(item.flops, "flop"), "bytes": _counts(item.bytes, "B"),
        }
        for item in observations[:limit]
    ]  # fmt: skip
    count, first = len(observations), observations[0]
    notes = [f"{count - limit} more: use --json or --out FILE"] if count > limit else []
    notes += list(dict.fromkeys(note for item in observations for note in item.notes))[:MAX_NOTES]
    title = f"{count} observation{'' if count == 1 else 's'} by {first.tool} {first.version}".rstrip()
    return Table(
        title, columns("name", Column("time", unit="s"), "runs", "flops", "bytes", "kernel"), rows, tuple(notes)
    )


def _counts(counts: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{name} {show(value, unit, 3)}" for name, value in counts.items() if value)


def observations_data(observations: Sequence[Observation]) -> Table:
    """All observations as a file keeps them: plain numbers under the columns that `import` reads back."""
    rows = [
        {
            "name": item.name, "time_us": item.median * 1e6,
            **{f"flops.{engine}": value for engine, value in item.flops.items()},
            **{f"bytes.{level}": value for level, value in item.bytes.items()},
            "runs": len(item.samples), "kernel": item.kernel, "tool": item.tool,
        }
        for item in observations
    ]  # fmt: skip
    counts = dict.fromkeys(key for row in rows for key in row if key.partition(".")[0] in ("flops", "bytes"))
    return Table("", columns("name", "time_us", *counts, "runs", "kernel", "tool"), rows)


def self_check_table(rows: Sequence[dict[str, Any]], holds: bool) -> Table:
    """Counters against counts that are known."""
    false = "the counters do not tell the truth: no verdict by level is to be trusted"
    shown = columns("name", "what", "expected", "counted", Column("ratio", digits=6), "holds")
    answers = [{**row, "holds": "yes" if row["holds"] else "no"} for row in rows]
    return Table("the counters tell the truth" if holds else false, shown, answers)
