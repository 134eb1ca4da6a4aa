"""Tables of what was predicted and measured: the gaps of a report, the verdict of a gate, the records of the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.units import counted, show
from ...core.units import percent as percent_text
from ...gaps.gap import Gap
from ...gaps.gate import FASTER, SAME, SLOWER, UNCLEAR, Verdict
from ...gaps.item import Item
from ...gaps.ledger import Finding, Sealed, Settled
from ...gaps.regime import COUNTERS, OVERHEAD, unit_name
from ...gaps.report import Report
from ...gaps.sentences import bound_text
from ..table import Column, Table, columns, facts_table, microseconds, percent

MAX_ADVICE = 3  # of one kernel
MAX_ROWS, MAX_NAMES = 22, 4  # on the terminal without -v
MAX_NAME, MAX_WIDTH = 26, 118  # characters
MAX_BOUND = 22
MAX_MISSES = 5
ROUNDING = 1e-12  # seconds; less is the rounding of sums
ORDER = (SLOWER, UNCLEAR, FASTER, SAME)  # of the verdicts of a gate
NO_CASES = "none"


def report_answer(report: Report) -> list[str]:
    """Coverage, the verdict, then the largest gaps with their moves."""
    lines = list(report.answer)
    gaps = report.largest_gaps
    if not gaps:
        return lines
    names = [clip(gap["name"], MAX_NAME) for gap in gaps]
    times = [show(gap["gap_us"] / 1e6, "s", 3) for gap in gaps]
    lines.append("largest gaps (time above the roofline):")
    for name, time, gap in zip(names, times, gaps, strict=True):
        line = f"  {name:<{max(map(len, names))}}  {time:>{max(map(len, times))}}  {gap['next']}"
        lines.append(line if len(line) <= MAX_WIDTH else line.rpartition(" (")[0][:MAX_WIDTH])
    return lines


def clip(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def report_tables(report: Report) -> list[Table]:
    """All of it: gaps, accounting, and advice where there is any."""
    tables = [_gaps(report), _accounting(report)]
    advice = _advice(report)
    return [*tables, advice] if advice.rows else tables


def report_summary(report: Report) -> Table:
    """The kernels that hold the time, for a terminal of 120 columns; names that were not joined are counted."""
    shown = columns(
        Column("name", "kernel"), "bound", Column("measured", unit="s"), Column("expected", "predicted", unit="s"),
        percent("error", digits=2), Column("inside", "in 80 %"), percent("share", "% of attainable", 2),
        Column("above", "gap", unit="s"),
    )  # fmt: skip
    ranked = sorted(report.items, key=lambda item: -item.measured)
    rows = [
        {
            **_gap_row(item), "name": clip(item.name, MAX_NAME), "bound": short_bound(item.gap), "above": item.above,
        }
        for item in ranked[:MAX_ROWS]
    ]  # fmt: skip
    notes = [f"and {len(ranked) - MAX_ROWS} more: -v"] if len(ranked) > MAX_ROWS else []
    notes += _listed(
        "doubtful joins, by order or kernel family alone",
        [item.name for item in ranked if item.gap.doubtful],
        MAX_NAMES,
    )
    other = [item.name for item in ranked if item.gap.regime.limited and not item.gap.regime.confirmed]
    notes += _listed("bound differs from the prediction", other, MAX_NAMES)
    notes += _unmatched(report, MAX_NAMES)
    return Table("", shown, rows, tuple(clip(note, MAX_WIDTH) for note in notes))


def _unmatched(report: Report, limit: int | None) -> list[str]:
    """Names that were not joined, on both sides; of kernels with counters, the causes to act on, the longest kernel first."""
    rows = [row for row in report.unmatched.get("diagnosed", ()) if row["diagnosis"]]
    causes = [f"{row['name']}: {row['diagnosis'][0]['cause'].partition(':')[0]}" for row in rows]
    more = f"; and {len(causes) - limit} more: -v" if limit and len(causes) > limit else ""
    return [
        *_listed("measured, not predicted", report.unmatched["observed"], limit),
        *([f"diagnosed by their counters: {'; '.join(causes[:limit])}{more}"] if causes else []),
        *_listed("predicted, not measured", report.unmatched["predicted"], limit),
    ]


def _listed(title: str, names: Sequence[str], limit: int | None) -> list[str]:
    """`title (12): a, b, c, d, and 8 more: -v`; nothing without names."""
    names = list(dict.fromkeys(names))
    if not names:
        return []
    more = f", and {len(names) - limit} more: -v" if limit and len(names) > limit else ""
    shown = [clip(name, MAX_NAME) for name in names[:limit]] if limit else names
    return [f"{title} ({len(names)}): {', '.join(shown)}{more}"]


def _gaps(report: Report) -> Table:
    shown = columns(
        Column("name", "kernel"), "bound", Column("measured", unit="s"), Column("expected", "predicted", unit="s"),
        Column("low", "80 % low", unit="s"), Column("high", "80 % high", unit="s"), percent("error", digits=2),
        Column("floor", "roofline", unit="s"), percent("share", "% of attainable", 2), Column("vertical", "vertical gap"),
        Column("bytes", "bytes x"), Column("flops", "FLOPs x"), Column("joined", "joined by"), Column("gain", unit="s"),
        Column("top", "next"),
    )  # fmt: skip
    rows = [_gap_row(item) for item in report.items]
    title = f"Predicted vs measured on {report.prediction.machine.name}"
    return Table(title, shown, rows, (*report.notes, *_unmatched(report, None)))


def short_bound(gap: Gap) -> str:
    """`memory (HBM)`, `compute (issue)`, `latency`, `launch`; `-` where only counters would tell."""
    regime = gap.regime
    if regime.limited:
        return clip(f"{regime.bound} ({unit_name(regime.limiter).removeprefix('instruction ')})", MAX_BOUND)
    if regime.bound == OVERHEAD:
        return "launch"
    return regime.bound if regime.basis == COUNTERS else "-"


def _gap_row(item: Item) -> dict[str, Any]:
    gap, move = item.gap, item.next
    return {
        "name": item.name, "bound": bound_text(gap), "measured": gap.measured, "expected": gap.target.time,
        "low": gap.target.low, "high": gap.target.high, "error": gap.error, "inside": "yes" if gap.inside else "no",
        "floor": gap.target.floor, "share": gap.share, "vertical": gap.vertical, "bytes": gap.excess_bytes,
        "flops": gap.excess_flops, "joined": f"{gap.how} ({gap.confidence})", "top": move.move if move else "", "gain": move.gain if move else None,
    }  # fmt: skip


def _accounting(report: Report) -> Table:
    """A row for every kernel and cause."""
    rows = []
    for item in report.items:
        for entry in item.gap.accounting:
            if abs(entry.time) > ROUNDING:
                share = entry.time / item.gap.measured
                rows.append({"name": item.name, "cause": entry.cause, "time": entry.time, "share": share})
    shown = columns(Column("name", "kernel"), "cause", Column("time", unit="s"), percent("share", "% of kernel", 2))
    note = "the causes of a kernel sum to its measured time; negative is time saved"
    return Table("Time by cause", shown, rows, (note,))


def _advice(report: Report) -> Table:
    keys = ("name", "status", "cause", "move", "direction")
    rows = [
        {**{key: getattr(advice, key) for key in keys[1:]}, "name": item.name, "gain": advice.gain, "evidence": "; ".join(advice.evidence)}
        for item in report.items
        for advice in item.advice[:MAX_ADVICE]
    ]  # fmt: skip
    return Table("Advice", columns(*keys, Column("gain", unit="s"), "evidence"), rows)


def gate_table(verdict: Verdict) -> Table:
    """Regressions first."""
    several = verdict.runs != (1, 1)
    rows = [
        {
            "name": item.name, "verdict": item.verdict, "baseline": item.baseline_time, "current": item.current_time, "change": item.ratio - 1,
            "between": f"{signed(item.low - 1)} to {signed(item.high - 1)}", "p": item.p_value, "detectable": item.detectable,
            "counts": ", ".join(map(str, item.runs if several else item.samples)),
        }
        for item in sorted(verdict.items, key=lambda item: (ORDER.index(item.verdict), -item.ratio))
    ]  # fmt: skip
    shown = columns(
        "name", "verdict", Column("baseline", unit="s"), Column("current", unit="s"), percent("change", digits=2),
        Column("between", "95 % confidence"), Column("p", "p-value", digits=2), percent("detectable", "detects", digits=2),
        Column("counts", "runs" if several else "samples"),
    )  # fmt: skip
    notes = [f"{item.name}: {item.why}" for item in verdict.items if item.why]
    notes += [f"new: {name}" for name in verdict.new] + [f"missing: {name}" for name in verdict.vanished]
    limit = f"changes up to {percent_text(verdict.min_difference)} count as unchanged"
    rate = f"probability of a false alarm over all names: {percent_text(verdict.max_p_value)}"
    return Table("", shown, rows, (*notes, *verdict.notes, f"times are means of the fastest tenth; {limit}; {rate}"))


def seal_answer(seal: Sealed) -> str:
    """`sealed 12 predictions as 49449d77 for h200-sxm at ...`."""
    count = counted(len(seal.predictions), "prediction")
    return f"sealed {count} as {seal.id} for {seal.machine['name']} at {seal.time}"


def seal_table(seal: Sealed) -> Table:
    shown = columns(
        "name", "op", "dtype", "bound", microseconds("floor_us", "roofline"), microseconds("time_us", "predicted"),
        microseconds("low_us", "80 % low"), microseconds("high_us", "80 % high"),
    )  # fmt: skip
    settle = f"settle them after the run: ridgeline reconcile FILE --seal {seal.id}"
    return Table("", shown, [dict(row) for row in seal.predictions], (f"record hash {seal.hash}", settle))


def settlement_answer(settlement: Settled) -> str:
    """How many of the items count as sealed evidence."""
    sealed = sum(bool(item["sealed"]) for item in settlement.items)
    return f"settled {counted(len(settlement.items), 'prediction')} of seal {settlement.seal[:8]}: {sealed} sealed before the run"


def settlement_table(settlement: Settled) -> Table:
    rows = [
        {**item, "sealed": "yes" if item["sealed"] else "no", "repeat": "yes" if item["repeat"] else ""}
        for item in settlement.items
    ]
    shown = columns("name", Column("sealed", "sealed before the run"), "repeat", "reason")
    return Table(f"Settled against seal {settlement.seal}", shown, rows)


def verification_answer(findings: Sequence[Finding], head: tuple[int, str]) -> str:
    """`intact: 812 records`, or the first broken record."""
    faults = [finding for finding in findings if finding.fault]
    if not faults:
        notices = f", {counted(len(findings), 'notice')}" if findings else ""
        return f"intact: {counted(head[0], 'record')}, head {head[1]}{notices}"
    more = f" and {counted(len(findings) - 1, 'more finding')}" if len(findings) > 1 else ""
    return f"broken: {faults[0].text}{more}"


def verification_table(findings: Sequence[Finding]) -> Table:
    rows = [{"record": finding.record, "what": finding.what, "text": finding.text} for finding in findings]
    return Table("", columns("record", "what", "text"), rows)


def ledger_answer(report: dict[str, Any]) -> str:
    """Median error and coverage of the settled predictions, and whether the chain is intact."""
    part, open_ = report["sealed"], report["open"]
    waiting = f"; {open_} not settled yet" if open_ else ""
    chain = "" if report["intact"] else f"; the chain is broken ({counted(len(report['findings']), 'finding')})"
    if not part["error"]["cases"]:
        return f"no settled predictions yet: {counted(report['predictions'], 'prediction')} sealed{chain}"
    error, inside = part["error"], part["intervals"]
    share = f", {percent_text(inside['share'])} inside the 80 % interval" if inside["cases"] else ""
    figures = f"median error {percent_text(error['median'])}, P90 {percent_text(error['p90'])}{share}"
    return f"{figures} over {counted(error['cases'], 'settled prediction')}{waiting}{chain}"


def ledger_tables(report: dict[str, Any]) -> list[Table]:
    """The record: counts, bounds and intervals, errors by family, worst misses."""
    tables = [_facts(report)]
    sealed = report["sealed"]
    families = [row for row in sealed.get("by_family", ()) if row["month"] == "all"]
    if families:
        errors = percent("median", "median error"), percent("p90", "P90"), percent("signed", "signed median")
        tables.append(Table("Sealed, by family and machine", columns("family", "machine", "cases", *errors), families))
    if sealed.get("efficiency"):
        tables.append(efficiency_table(sealed["efficiency"]))
    if sealed.get("worst"):
        times = microseconds("predicted_us", "predicted"), microseconds("measured_us", "measured")
        shown = columns("name", "machine", *times, percent("error"), "cause")
        rows = [{**row, "cause": str(row["cause"]).partition(":")[0]} for row in sealed["worst"][:MAX_MISSES]]
        tables.append(Table("Worst misses", shown, rows))
    return tables


def efficiency_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """The share of roofline that settled kernels reached, by machine and bound."""
    quartiles = percent("median"), percent("low", "25th percentile"), percent("high", "75th percentile")
    shown = columns("machine", "bound", "cases", *quartiles)
    return Table("Achieved % of roofline (a value for --efficiency)", shown, [dict(row) for row in rows])


def efficiency_answer(rows: Sequence[Mapping[str, Any]]) -> str:
    """What to give as efficiency, and for which machine: that of the bound with the most settled kernels."""
    if not rows:
        return "no settled predictions with a roofline time: run `ridgeline seal`, then `ridgeline reconcile --seal`"
    row = max(rows, key=lambda each: each["cases"])
    reached = f"{row['bound']}-bound kernels on {row['machine']} reach {row['median']:.2f} of roofline"
    spread = f"(median of {row['cases']}, quartiles {row['low']:.2f}-{row['high']:.2f})"
    return f"{reached} {spread}: predict with --efficiency {min(row['median'], 1.0):.2f}"


def _facts(report: dict[str, Any]) -> Table:
    broken = f"broken ({counted(len(report['findings']), 'finding')}): run `ridgeline ledger verify`"
    facts = {
        "predictions": f"{report['predictions']} in {counted(report['seals'], 'seal')}: {report['settled']} settled, {report['open']} open",
        "chain": "intact" if report["intact"] else broken,
    }
    for name in ("sealed", "blind", "unsealed"):
        part = report[name]
        if not part["cases"]:
            continue
        error, intervals = part["error"], part["intervals"]
        facts[f"{name}: error"] = (
            f"median {percent_text(error['median'])}, P90 {percent_text(error['p90'])}, signed median {signed(error['signed'])} over {error['cases']}"
            if error["cases"]
            else NO_CASES
        )
        facts[f"{name}: bound correct"] = _share(part["regimes"])
        verdict = f": {intervals['verdict']}" if intervals["cases"] else ""
        facts[f"{name}: inside the 80 % interval"] = _share(intervals) + verdict
    return facts_table("", facts)


def _share(counts: dict[str, Any]) -> str:
    """Hits of cases, with the 95 % confidence interval of their share."""
    if not counts["cases"]:
        return NO_CASES
    low, high = percent_text(counts["low"]), percent_text(counts["high"])
    return f"{counts['hits']} of {counts['cases']}, {percent_text(counts['share'])} (95 % confidence {low} to {high})"


def signed(share: float) -> str:
    """A change in percent, with two decimals where it is small: `-0.03 %`, `+5.4 %`."""
    if abs(share) < 1e-3:
        return f"{round(100 * share, 2) + 0.0:+.2f} %" if round(100 * share, 2) else "0 %"
    return f"{'+' if share > 0 else ''}{percent_text(share)}"
