"""Tables of a traced program: its parts by device time, its ops, memory, what is not counted; programs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.units import percent as percent_text
from ...core.units import show
from ...prediction.traced import ProgramPrediction
from ...prediction.traced.breakdown import FAMILY, LINE, MODULE, OP, PHASE, Part, breakdown, distinct_labels, longest
from ...prediction.traced.side_by_side import SideBySide
from ...prediction.traced.whatif import ProgramChange
from ..table import ROW_KEY, Column, Table, columns, percent
from .gaps import clip

MAX_PARTS = 8  # on the terminal without -v or --top
MAX_NAME = 46
MIN_GAIN = 0.02  # of the wall time, from which a change is named
INDENT = "  "
TITLES = {OP: "op", FAMILY: "family", PHASE: "phase", MODULE: "module", LINE: "source line"}


def view_title(by: str) -> str:
    return f"Device time by {TITLES[by]}"


def part_table(program: ProgramPrediction, by: str = OP, limit: int | None = MAX_PARTS, short: bool = True) -> Table:
    """Parts of a program by device time; without a limit all of them. Names are clipped for a terminal if `short`."""
    every = breakdown(program, by)
    shown = longest(every, limit)
    rows = [part_row(part, short) for part in shown]
    if by != MODULE:
        reached = 0.0
        for row in rows:
            reached += row["share"] or 0.0
            row["cumulative"] = reached
    notes = [f"and {len(every) - len(shown)} more: -v, or --top {len(every)}"] if len(every) > len(shown) else []
    cumulative = () if by == MODULE else (percent("cumulative", "sum", 2),)
    heads = columns(
        Column("name", TITLES[by]), Column("calls"), Column("time", unit="s"), percent("share", digits=2), *cumulative,
        Column("flops", unit="flop"), Column("bytes", unit="B"), percent("roofline", digits=2), "bound",
    )  # fmt: skip
    return Table("", heads, rows, tuple(notes))


def labelled_table(program: ProgramPrediction) -> Table:
    """All ops by device time under their labels, unclipped, for a page; no two have one name."""
    table, parts = part_table(program, OP, None), breakdown(program)
    rows = [{**row, "name": name} for row, name in zip(table.rows, distinct_labels(parts), strict=True)]
    return replace(table, rows=rows)


def part_row(part: Part, short: bool = False) -> dict[str, Any]:
    """One part; modules are indented by their depth, and say how many they are."""
    several = f" x{part.modules}" if part.modules > 1 else ""
    name = part.label if short else part.name
    name = f"{INDENT * part.depth}{name}{several}"
    return {
        "name": clip(name, MAX_NAME) if short else name, "calls": round(part.calls), "time": part.time or None, "share": part.share,
        "flops": part.flops or None, "bytes": part.bytes or None, "roofline": part.share_of_roofline, "bound": part.bound,
    }  # fmt: skip


def op_table(program: ProgramPrediction) -> Table:
    """Every distinct op with its place in the program, as files hold it."""
    rows = [
        {
            "name": item.name, "module": item.module, "op": item.op, "phase": item.phase, "source": item.source,
            "count": item.count, "flops": item.flops, "bytes": item.bytes, "bound": item.bound, "limiter": item.limiter,
            "floor": item.floor, "time": item.time, "low": item.low, "high": item.high, "calibration": item.calibration,
        }
        for item in program.ops
    ]  # fmt: skip
    heads = columns(
        "name", "module", "op", "phase", "source", "count", Column("flops", unit="flop"), Column("bytes", unit="B"), "bound", "limiter",
        Column("floor", "roofline", unit="s"), Column("time", unit="s"), Column("low", unit="s"), Column("high", unit="s"), "calibration",
    )  # fmt: skip
    return Table("", heads, rows)


def program_tables(program: ProgramPrediction, limit: int | None = None) -> list[Table]:
    """All of it: parts in every view, memory at its peak, what is not counted."""
    views = [
        Table(view_title(by), table.columns, table.rows, table.notes)
        for by in (OP, FAMILY, PHASE, MODULE, LINE)
        for table in [part_table(program, by, limit, short=False)]
    ]
    tables = [*views, memory_table(program), uncounted_table(program)]
    return [table for table in tables if table.rows]


def memory_table(program: ProgramPrediction) -> Table:
    peak = program.peak_memory
    rows = [
        {"kind": kind, "bytes": size, "share": size / peak}
        for kind, size in program.memory.at_peak.items()
        if size and peak
    ]
    heads = columns("kind", Column("bytes", unit="B"), percent("share", digits=2))
    return Table(f"Memory at its peak of {show(peak, 'B', 3)}", heads, rows)


def uncounted_table(program: ProgramPrediction) -> Table:
    rows = [
        {"op": item.op, "count": round(item.count), "bytes": item.bytes, "reason": item.reason}
        for item in program.uncounted
    ]
    heads = columns("op", Column("count", "calls"), Column("bytes", unit="B"), "reason")
    return Table("Not in the times", heads, rows)


def side_table(study: SideBySide) -> Table:
    """A row for every program: what differs, then times, regime and memory, and how much faster than the first."""
    names = study.varying
    rows = [
        {
            **{name: case.setting[name] for name in names}, ROW_KEY: case.label, "wall": case.program.wall, "device": case.program.time,
            "host": case.program.host, "regime": case.program.regime, "mfu": case.program.mfu, "flops": case.program.flops,
            "memory": case.program.peak_memory, "fits": case.program.fits, "speedup": study.speedup(case), "rate": study.rate(case),
        }
        for case in study.cases
    ]  # fmt: skip
    rate = [Column("rate", f"{study.swept}/s")] if study.swept else []
    heads = columns(
        *names, Column("wall", "wall time", unit="s"), *rate, Column("speedup", "speedup"), Column("device", unit="s"),
        Column("host", unit="s"), "regime", percent("mfu", "MFU", 2), Column("memory", "peak memory", unit="B"), "fits",
    )  # fmt: skip
    return Table("", heads, rows)


def change_table(changes: Sequence[ProgramChange]) -> Table:
    """Changes of a program, each by itself, with what it would save of the wall time for as much work as before."""
    rows = [
        {
            "change": item.name, "wall": item.wall, "gain": item.gain, "speedup": item.speedup, "regime": item.regime or None,
            "memory": None if item.after is None else item.after.peak_memory, "fits": None if item.after is None else item.after.fits,
            "what": f"not possible: {item.reason}" if item.reason else item.what,
        }
        for item in changes
    ]  # fmt: skip
    heads = columns(
        "change", Column("wall", "wall time", unit="s"), Column("gain", unit="s"), Column("speedup"), "regime",
        Column("memory", "peak memory", unit="B"), "fits", "what",
    )  # fmt: skip
    return Table("What each change would bring", heads, rows)


def next_lines(changes: Sequence[ProgramChange]) -> list[str]:
    """The change that is worth most, in a line, where it is worth naming."""
    best = changes[0] if changes else None
    if best is None or best.gain is None or best.gain < MIN_GAIN * best.before.wall:
        return []
    share = percent_text(best.gain / best.before.wall)
    what = best.what.removeprefix(f"{best.name}: ")
    return [f"next: {best.name} saves {show(best.gain, 's', 3)} ({share}): {what}"]
