"""Tables of a traced program that was sealed and run: predicted and measured times of its operators."""

from __future__ import annotations

from ...core.units import counted, percent, show, show_interval
from ...gaps.traced import BY_SHAPE, BY_WORK, Joined, ProgramSettlement
from ..table import Column, Table, columns
from ..table import percent as percent_column
from .gaps import MAX_WIDTH, clip

MAX_OPS = 12  # on the terminal without -v
MAX_NAME = 48
MAX_LISTED = 3


def program_settlement_answer(settlement: ProgramSettlement) -> list[str]:
    """Predicted and measured device time of the step, the error of its operators, and what was not joined."""
    row, measured = settlement.step, show(settlement.step_measured_us / 1e6, "s", 3)
    predicted = show_interval(*(float(row[key]) / 1e6 for key in ("time_us", "low_us", "high_us")))
    lines = [
        f"device time of a step: predicted {predicted}, measured {measured} ({settlement.step_error * 100:+.1f} %)"
    ]
    inside = sum(item.inside for item in settlement.joined)
    joined = counted(len(settlement.joined), "operator")
    error = percent(settlement.median_error)
    lines.append(
        f"{joined} joined, {percent(settlement.joined_share)} of device time: median error {error}, "
        f"{inside} inside the 80 % interval"
    )
    for side, what in (
        ("predicted", "predicted and not in the profile"),
        ("observed", "in the profile and not predicted"),
    ):
        names = settlement.unmatched[side]
        if names:
            more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
            lines.append(clip(f"{what}: {'; '.join(names[:MAX_LISTED])}{more}", MAX_WIDTH))
    if settlement.settled is not None:
        sealed = sum(bool(item["sealed"]) for item in settlement.settled.items)
        total = counted(len(settlement.settled.items), "prediction")
        lines.append(f"settled {total} of seal {settlement.sealed.id[:8]}: {sealed} sealed before the run")
        reason = next((item["reason"] for item in settlement.settled.items if item["reason"]), "")
        lines += [clip(f"not sealed evidence: {reason}", MAX_WIDTH)] if reason else []
    return lines


def program_settlement_table(settlement: ProgramSettlement, limit: int | None = MAX_OPS) -> Table:
    """Operators by measured time of a step; times are of one call."""
    rows = [_row(item, limit is not None) for item in settlement.joined[:limit]]
    more = len(settlement.joined) - len(rows)
    notes = [f"and {more} more operators: -v"] if more > 0 else []
    if any(item.how == BY_WORK for item in settlement.joined):
        notes.append("joined by work: the device runs the call under another name")
    if any(item.how == BY_SHAPE for item in settlement.joined):
        notes.append(
            "joined by shape: attention with the same queries, whose mask the profile describes in another way"
        )
    heads = columns(
        Column("name", "operator"), Column("calls"), Column("predicted", unit="s"), Column("measured", unit="s"),
        percent_column("error", digits=2), "inside", Column("joined", "joined by"),
    )  # fmt: skip
    return Table("", heads, rows, tuple(notes))


def _row(item: Joined, short: bool) -> dict[str, object]:
    calls = f"{item.measured_count:g}"
    if item.measured_count != item.predicted_count:
        calls += f" (predicted {item.predicted_count:g})"
    return {
        "name": clip(item.name, MAX_NAME) if short else item.name, "calls": calls, "predicted": item.predicted,
        "measured": item.measured, "error": item.error, "inside": item.inside, "joined": item.how,
    }  # fmt: skip
