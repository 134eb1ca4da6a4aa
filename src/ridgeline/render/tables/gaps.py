"""Tables of a gap report: every kernel with its gaps, where its time went, what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.documents import to_document
from ...gaps.report import Item, Report
from ..table import Column, Table, columns, percent

MAX_ADVICE = 3  # of one kernel
MAX_UNMATCHED = 12
ROUNDING = 1e-12  # seconds; less is the rounding of sums


def report_tables(report: Report) -> list[Table]:
    """Gaps, accounting, and advice where there is any."""
    tables = [_gaps(report), _accounting(report)]
    advice = _advice(report)
    return [*tables, advice] if advice.rows else tables


def with_sentence(tables: Sequence[Table], sentence: str) -> list[Table]:
    """The tables with the sentence after the last of them."""
    return [*tables[:-1], replace(tables[-1], notes=(*tables[-1].notes, sentence))]


def _gaps(report: Report) -> Table:
    shown = columns(
        "name", Column("measured", unit="s"), Column("expected", unit="s"), Column("inside", "in interval"), Column("floor", unit="s"),
        percent("share", "of roof"), Column("vertical", "vertical gap", digits=3), Column("bytes", "bytes x", digits=3),
        Column("flops", "flops x", digits=3), Column("bound", "regime"), Column("gain", unit="s"), Column("top", "next"),
    )  # fmt: skip
    notes = list(report.notes)
    for side, names in report.unmatched.items():
        if names:
            more = " ..." if len(names) > MAX_UNMATCHED else ""
            notes.append(f"not joined, {side}: {', '.join(names[:MAX_UNMATCHED])}{more}")
    rows = [_gap_row(item) for item in report.items]
    return Table(f"gaps on {report.prediction.machine.name}", shown, rows, tuple(notes))


def _gap_row(item: Item) -> dict[str, Any]:
    values, top = to_document(item), item.top
    certainty = "" if top is None or top.status == "shown" else "perhaps "
    return {
        "name": item.name, "measured": values["measured_us"] / 1e6, "expected": values["predicted_us"] / 1e6,
        "inside": "yes" if values["inside"] else "no", "floor": values["floor_us"] / 1e6, "share": values["share_of_roof"],
        "vertical": values["vertical_gap"], "bytes": values["excess_bytes"], "flops": values["excess_flops"],
        "bound": f"{values['bound_predicted']} -> {values['bound_observed']}",
        "top": "" if top is None else f"{certainty}{top.move}", "gain": None if top is None else top.gain,
    }  # fmt: skip


def _accounting(report: Report) -> Table:
    causes = dict.fromkeys(entry.cause for item in report.items for entry in item.gap.accounting)
    rows = []
    for item in report.items:
        times = {entry.cause: entry.time if abs(entry.time) > ROUNDING else 0.0 for entry in item.gap.accounting}
        rows.append({"name": item.name, **times, "measured": item.gap.measured})
    shown = columns("name", *(Column(cause, unit="s", digits=3) for cause in causes), Column("measured", unit="s"))
    note = "each row sums to the measured time; negative is time that was saved"
    return Table("where the time went", shown, rows, (note,))


def _advice(report: Report) -> Table:
    keys = ("name", "status", "cause", "move", "direction")
    rows = [
        {**{key: getattr(advice, key) for key in keys[1:]}, "name": item.name, "gain": advice.gain, "evidence": "; ".join(advice.evidence)}
        for item in report.items
        for advice in item.advice[:MAX_ADVICE]
    ]  # fmt: skip
    return Table("advice", columns(*keys, Column("gain", unit="s", digits=3), "evidence"), rows)
