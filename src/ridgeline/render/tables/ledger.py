"""Tables of the ledger: a seal, what was settled beside it, whether the chain is intact, how good predictions were."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...gaps.ledger import Finding, Sealed, Settled
from ..table import Column, Table, columns, percent

MAX_MISSES = 5
NO_CASES = "none to judge"


def seal_table(seal: Sealed) -> Table:
    shown = columns(
        "name", "op", "dtype", "bound", Column("floor_us", "floor us"), Column("time_us", "time us"), Column("low_us", "from"),
        Column("high_us", "to us"),
    )  # fmt: skip
    rows = [dict(row) for row in seal.predictions]
    return Table(f"sealed {seal.id} at {seal.time}", shown, rows, (f"hash {seal.hash}",))


def settlement_table(settlement: Settled) -> Table:
    rows = [
        {
            "name": item["name"], "sealed": "yes" if item["sealed"] else "no", "repeat": "yes" if item["repeat"] else "",
            "reason": item["reason"],
        }
        for item in settlement.items
    ]  # fmt: skip
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
