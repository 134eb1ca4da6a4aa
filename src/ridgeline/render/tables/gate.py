"""The verdict of a regression gate as a Table: what got slower first."""

from __future__ import annotations

from ...gaps.gate import FASTER, SAME, SLOWER, UNCLEAR, Verdict
from ..table import Column, Table

ORDER = {SLOWER: 0, UNCLEAR: 1, FASTER: 2, SAME: 3}


def gate_table(verdict: Verdict) -> Table:
    rows = [
        {
            "name": item.name, "verdict": item.verdict, "baseline": item.baseline.median, "current": item.current.median, "change": item.ratio - 1,
            "between": f"{item.low - 1:+.1%} .. {item.high - 1:+.1%}", "chance": item.p_value, "samples": f"{len(item.baseline.samples)}, {len(item.current.samples)}",
        }
        for item in sorted(verdict.items, key=lambda item: (ORDER[item.verdict], -item.ratio))
    ]  # fmt: skip
    columns = (
        Column("name"), Column("verdict"), Column("baseline", "baseline", "s"), Column("current", "current", "s"), Column("change", "change", percent=True, digits=3),
        Column("between", "95 % between"), Column("chance", "by chance", digits=2), Column("samples"),
    )  # fmt: skip
    notes = [f"{item.name}: {item.why}" for item in verdict.items if item.why]
    notes += [f"new: {name}" for name in verdict.new] + [f"vanished: {name}" for name in verdict.vanished]
    return Table("", columns, rows, (*notes, *verdict.notes, verdict.sentence))
