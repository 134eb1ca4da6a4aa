"""Tables of a program report: the phases of a step, the moves, the operators by time, what was not counted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.units import percent as percent_text
from ...core.units import show
from ...gaps.steps.items import OpItem
from ...gaps.steps.moves import Move
from ...gaps.steps.report import ProgramReport
from ..table import Column, Table, columns, microseconds, percent
from .gaps import MAX_WIDTH, clip

MAX_OPS = 12  # on the terminal without -v
MAX_MOVES = 3
MAX_UNCOUNTED = 3
MAX_NAME = 32


def step_answer(report: ProgramReport) -> list[str]:
    """The step in one line, what the device waits for, the steps it rests on."""
    return [clip(line, MAX_WIDTH) for line in report.answer]


def move_lines(moves: Sequence[Move], limit: int = MAX_MOVES) -> list[str]:
    """The moves that are worth most, each with its evidence."""
    if not moves:
        return ["no move is worth half a percent of the step"]
    times = [show(move.gain, "s", 3) for move in moves[:limit]]
    lines = ["worth most (gain per step):"]
    for time, move in zip(times, moves, strict=False):
        status = "" if move.shown else f" [{move.status}]"
        at = f" ({', '.join(move.sources[:1])})" if move.sources and move.sources[0] not in move.cause else ""
        lines.append(clip(f"  {time:>{max(map(len, times))}}  {move.move}{status}", MAX_WIDTH))
        lines.append(clip(f"    {move.cause}{at}", MAX_WIDTH))
        lines.append(clip(f"    {'; '.join(move.evidence)}", MAX_WIDTH))
    return lines


def phase_table(report: ProgramReport) -> Table:
    """Measured and predicted device time of each phase that has any."""
    total = sum(row["device_us"] or 0.0 for row in report.view.phases.values())
    rows = [
        {"phase": name, **row, "share": (row["device_us"] or 0.0) / total if total else None, "error": _error(row)}
        for name, row in report.view.phases.items()
        if row["device_us"]
    ]
    shown = columns(
        "phase", microseconds("device_us", "measured"), microseconds("predicted_us", "predicted"),
        percent("error", digits=2), percent("share", "% of device time", 2),
    )  # fmt: skip
    return Table("", shown, rows)


def _error(row: dict[str, float | None]) -> float | None:
    measured, predicted = row["device_us"], row["predicted_us"]
    return None if not measured or predicted is None else predicted / measured - 1


def op_table(report: ProgramReport, limit: int | None = MAX_OPS) -> Table:
    """The operators by device time per step, with their cumulative share; those not counted are named below."""
    total = report.view.explained_time + report.view.unexplained
    rows: list[dict[str, Any]] = []
    reached = 0.0
    for item in report.by_time:
        reached += item.group.time / total
        rows.append({**op_row(item), "share": item.group.time / total, "cumulative": reached})
    shown = columns(
        Column("name", "operator"), "phase", Column("count", "calls"), Column("measured", "time", "s"), percent("share", digits=2),
        percent("cumulative", "sum", 2), Column("predicted", unit="s"), percent("error", digits=2),
        percent("roofline", digits=2), "bound",
    )  # fmt: skip
    notes = [f"and {len(rows) - limit} more operators: -v"] if limit is not None and len(rows) > limit else []
    notes += uncounted_lines(report, MAX_UNCOUNTED if limit is not None else None)
    short = [{**row, "name": clip(row["name"], MAX_NAME)} for row in rows[:limit]] if limit is not None else rows
    return Table(
        "", shown, short, tuple(clip(note, MAX_WIDTH) for note in notes) if limit is not None else tuple(notes)
    )


def op_row(item: OpItem) -> dict[str, Any]:
    """One operator: times over all calls of a step."""
    gap = item.gap
    return {
        "name": item.name, "phase": item.group.phase, "count": item.group.count, "measured": item.group.time,
        "predicted": item.predicted, "error": gap.error, "roofline": gap.share,
        "bound": gap.target.bound, "source": ", ".join(item.group.sources[:1]),
        "calibration": item.calibration, "kernel": item.kernels[0] if item.kernels else "",
    }  # fmt: skip


def uncounted_lines(report: ProgramReport, limit: int | None) -> list[str]:
    """Device time without a prediction, by operator, with the reason."""
    rows = report.coverage
    if not rows:
        return []
    listed = [
        f"{row['op'].rpartition('::')[2] or row['kernel']} {percent_text(row['share'])} ({row['reason']})"
        for row in rows[:limit]
    ]
    more = f", and {len(rows) - limit} more: -v" if limit is not None and len(rows) > limit else ""
    share = percent_text(1 - report.view.explained_share)
    return [f"not predicted, {share} of device time: {'; '.join(listed)}{more}"]


def step_tables(report: ProgramReport) -> list[Table]:
    """All of it: phases, operators, moves, what was not counted, idle gaps and synchronisations."""
    tables = [_titled("Device time by phase", phase_table(report)), _operators(report)]
    tables += [table for table in (_moves(report), _coverage(report), _idle(report), _waits(report)) if table.rows]
    return tables


def _titled(title: str, table: Table) -> Table:
    return Table(title, table.columns, table.rows, table.notes)


def _operators(report: ProgramReport) -> Table:
    table = op_table(report, None)
    shown = (*table.columns, *columns("calibration", Column("source", "line"), "kernel"))
    return Table("Operators by device time per step", shown, table.rows, table.notes)


def _moves(report: ProgramReport) -> Table:
    rows = [
        {
            "move": move.move, "gain": move.gain, "device": move.device, "status": move.status, "cause": move.cause,
            "evidence": "; ".join(move.evidence), "lines": ", ".join(move.sources),
        }
        for move in report.moves
    ]  # fmt: skip
    shown = columns("move", Column("gain", unit="s"), Column("device", "of it on the device", unit="s"), "status", "cause", "evidence", "lines")  # fmt: skip
    return Table("Moves", shown, rows)


def _coverage(report: ProgramReport) -> Table:
    shown = columns(
        "op", "kernel", "count", microseconds("us", "time"), percent("share", "% of device time", 2), "reason"
    )
    return Table("Not predicted", shown, report.coverage)


def _idle(report: ProgramReport) -> Table:
    shown = columns(
        microseconds("idle_us", "idle"), "cause", "after", Column("ended_by", "ended by"), Column("source", "line")
    )
    return Table("Largest idle gaps of the median step", shown, report.view.largest_idle)


def _waits(report: ProgramReport) -> Table:
    shown = columns(
        "operator", "through", Column("source", "line"), Column("count", "per step"), microseconds("wait_us", "host waits"),
        microseconds("idle_us", "device idle after it"),
    )  # fmt: skip
    return Table("Synchronisations and waits for data", shown, report.view.synchronisations)
