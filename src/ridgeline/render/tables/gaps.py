"""Tables of what was predicted and measured: the gaps of a report, the verdict of a gate, the records of the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.documents import to_document
from ...gaps.gate import FASTER, SAME, SLOWER, UNCLEAR, Verdict
from ...gaps.ledger import Finding, Sealed, Settled
from ...gaps.report import Item, Report
from ..table import Column, Table, columns, percent

MAX_ADVICE = 3  # of one kernel
MAX_UNMATCHED = 12
MAX_MISSES = 5
ROUNDING = 1e-12  # seconds; less is the rounding of sums
ORDER = (SLOWER, UNCLEAR, FASTER, SAME)  # of the verdicts of a gate
NO_CASES = "none to judge"


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


def gate_table(verdict: Verdict) -> Table:
    """What got slower first."""
    rows = [
        {
            "name": item.name, "verdict": item.verdict, "baseline": item.baseline.median, "current": item.current.median, "change": item.ratio - 1,
            "between": f"{item.low - 1:+.1%} .. {item.high - 1:+.1%}", "chance": item.p_value, "samples": f"{len(item.baseline.samples)}, {len(item.current.samples)}",
        }
        for item in sorted(verdict.items, key=lambda item: (ORDER.index(item.verdict), -item.ratio))
    ]  # fmt: skip
    shown = columns(
        "name", "verdict", Column("baseline", unit="s"), Column("current", unit="s"), percent("change"),
        Column("between", "95 % between"), Column("chance", "by chance", digits=2), "samples",
    )  # fmt: skip
    notes = [f"{item.name}: {item.why}" for item in verdict.items if item.why]
    notes += [f"new: {name}" for name in verdict.new] + [f"vanished: {name}" for name in verdict.vanished]
    return Table("", shown, rows, (*notes, *verdict.notes, verdict.sentence))


def seal_table(seal: Sealed) -> Table:
    shown = columns(
        "name", "op", "dtype", "bound", Column("floor_us", "floor us"), Column("time_us", "time us"), Column("low_us", "from"),
        Column("high_us", "to us"),
    )  # fmt: skip
    rows = [dict(row) for row in seal.predictions]
    return Table(f"sealed {seal.id} at {seal.time}", shown, rows, (f"hash {seal.hash}",))


def settlement_table(settlement: Settled) -> Table:
    rows = [
        {**item, "sealed": "yes" if item["sealed"] else "no", "repeat": "yes" if item["repeat"] else ""}
        for item in settlement.items
    ]
    shown = columns("name", Column("sealed", "sealed evidence"), "repeat", "reason")
    return Table(f"settled beside the seal {settlement.seal}", shown, rows)


def verification_table(findings: Sequence[Finding], head: tuple[int, str]) -> Table:
    rows = [{"record": finding.record, "what": finding.what, "text": finding.text} for finding in findings]
    note = f"{head[0]} record{'' if head[0] == 1 else 's'}, head {head[1]}"
    title = "the chain is broken" if rows else "every record is as it was written"
    return Table(title, columns("record", "what", "text"), rows, (note,))


def ledger_tables(report: dict[str, Any]) -> list[Table]:
    """The record as people read it: what stands, how often regimes and intervals held, errors by family, worst misses."""
    tables = [_facts(report)]
    sealed = report["sealed"]
    families = [row for row in sealed.get("by_family", ()) if row["month"] == "all"]
    if families:
        errors = percent("median"), percent("p90", "P90"), percent("signed")
        tables.append(Table("sealed, by family and machine", columns("family", "machine", "cases", *errors), families))
    if sealed.get("efficiency"):
        title = "share of the roof reached, and where half of the cases lie (a number for --efficiency)"
        shown = columns("machine", "bound", "cases", *(percent(key) for key in ("median", "low", "high")))
        tables.append(Table(title, shown, [dict(row) for row in sealed["efficiency"]]))
    if sealed.get("worst"):
        times = Column("predicted_us", "predicted us"), Column("measured_us", "measured us")
        shown = columns("name", "machine", *times, percent("error"), "cause")
        tables.append(Table("worst misses", shown, [dict(row) for row in sealed["worst"][:MAX_MISSES]]))
    return tables


def _facts(report: dict[str, Any]) -> Table:
    broken = f"broken ({len(report['findings'])} found), see `ridgeline ledger verify`"
    facts = {
        "seals": str(report["seals"]),
        "predictions": f"{report['predictions']}, of which {report['settled']} settled and {report['open']} open",
        "chain": "intact" if report["intact"] else broken,
    }
    for name in ("sealed", "blind", "unsealed"):
        part = report[name]
        if not part["cases"]:
            continue
        error, intervals = part["error"], part["intervals"]
        facts[f"{name}: error"] = (
            f"median {error['median']:.1%}, P90 {error['p90']:.1%}, signed {error['signed']:+.1%} over {error['cases']}"
            if error["cases"]
            else NO_CASES
        )
        facts[f"{name}: regimes hit"] = _share(part["regimes"])
        verdict = f": {intervals['verdict']}" if intervals["cases"] else ""
        facts[f"{name}: inside the 80 % interval"] = _share(intervals) + verdict
    rows = [{"what": name, "value": text} for name, text in facts.items()]
    return Table("how good the predictions were", columns("what", "value"), rows)


def _share(counts: dict[str, Any]) -> str:
    """Hits of cases, with the range that so few cases leave open."""
    if not counts["cases"]:
        return NO_CASES
    return f"{counts['hits']} of {counts['cases']}, {counts['share']:.0%} ({counts['low']:.0%} to {counts['high']:.0%})"
