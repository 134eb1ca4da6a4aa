"""Tables of observations: what a profiler saw, and whether its counters can be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.observation import Observation
from ...core.units import show
from ..table import Column, Table, columns

MAX_ROWS = 60
MAX_NOTES = 4
MAX_KERNEL_NAME = 60


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
