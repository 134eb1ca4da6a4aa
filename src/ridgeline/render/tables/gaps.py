"""Gap reports, observations, seals and the ledger as tables, and one chart with both works of every kernel on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...core.documents import to_document
from ...core.errors import InputError
from ...core.observation import Observation
from ...core.units import show
from ...gaps.ledger import Finding, Sealed, Settled
from ...gaps.report import Report
from ..chart import LOG, Arrow, Axis, Chart, Line, Point
from ..draw import report as report_page
from ..draw.labels import shorten
from ..table import Column, Table

NEAR = 1.05  # gaps smaller than this are not drawn
NAMED = 30  # kernels of a picture that have a label; more cannot be told apart
GRAIN = 1e-12  # seconds; less is the rounding of sums


def observed(found: Sequence[Observation], most: int = 60) -> Table:
    rows = [
        {
            "name": item.name,
            "kernel": item.kernel[:60],
            "time": item.median,
            "runs": len(item.samples),
            "flops": ", ".join(f"{name} {show(value, 'flop', 3)}" for name, value in item.flops.items() if value),
            "bytes": ", ".join(f"{name} {show(value, 'B', 3)}" for name, value in item.bytes.items() if value),
        }
        for item in found[:most]
    ]
    notes = [f"{len(found) - most} more: use --json or --out FILE"] if len(found) > most else []
    notes += list(dict.fromkeys(note for item in found for note in item.notes))[:4]
    columns = [
        Column("name"),
        Column("time", unit="s"),
        Column("runs"),
        Column("flops"),
        Column("bytes"),
        Column("kernel"),
    ]
    title = f"{len(found)} observation{'' if len(found) == 1 else 's'} by {found[0].tool} {found[0].version}".rstrip()
    return Table(title, tuple(columns), rows, tuple(notes))


def observed_data(found: Sequence[Observation]) -> Table:
    """All observations as a file keeps them: plain numbers under the columns that `import` reads back."""
    rows = [
        {
            "name": item.name,
            "time_us": item.median * 1e6,
            **{f"flops.{engine}": value for engine, value in item.flops.items()},
            **{f"bytes.{level}": value for level, value in item.bytes.items()},
            "runs": len(item.samples),
            "kernel": item.kernel,
            "tool": item.tool,
        }
        for item in found
    ]
    counts = dict.fromkeys(key for row in rows for key in row if key.partition(".")[0] in ("flops", "bytes"))
    names = ("name", "time_us", *counts, "runs", "kernel", "tool")
    return Table("", tuple(Column(name) for name in names), rows)


def self_check(rows: Sequence[dict[str, Any]], holds: bool) -> Table:
    title = (
        "the counters tell the truth"
        if holds
        else "the counters do not tell the truth: no verdict by level is to be trusted"
    )
    columns = (
        Column("name"),
        Column("what"),
        Column("expected"),
        Column("counted"),
        Column("ratio", digits=6),
        Column("holds"),
    )
    return Table(title, columns, [{**row, "holds": "yes" if row["holds"] else "no"} for row in rows])


def report(found: Report, most: int = 3) -> list[Table]:
    rows = []
    for item in found.items:
        told = to_document(item)
        rows.append(
            {
                "name": item.name,
                "measured": told["measured_us"] / 1e6,
                "expected": told["predicted_us"] / 1e6,
                "inside": "yes" if told["inside"] else "no",
                "floor": told["floor_us"] / 1e6,
                "share": told["share_of_roof"],
                "vertical": told["vertical_gap"],
                "bytes": told["excess_bytes"],
                "flops": told["excess_flops"],
                "bound": f"{told['bound_predicted']} -> {told['bound_observed']}",
                "top": "" if item.top is None else f"{'' if item.top.status == 'shown' else 'perhaps '}{item.top.move}",
                "gain": None if item.top is None else item.top.gain,
            }
        )
    columns = (
        Column("name"),
        Column("measured", unit="s"),
        Column("expected", unit="s"),
        Column("inside", "in interval"),
        Column("floor", unit="s"),
        Column("share", "of roof", percent=True, digits=3),
        Column("vertical", "vertical gap", digits=3),
        Column("bytes", "bytes x", digits=3),
        Column("flops", "flops x", digits=3),
        Column("bound", "regime"),
        Column("gain", unit="s"),
        Column("top", "next"),
    )
    notes = list(found.notes)
    for side, names in found.unmatched.items():
        if names:
            notes.append(f"not joined, {side}: {', '.join(names[:12])}{' ...' if len(names) > 12 else ''}")
    tables = [Table(f"gaps on {found.prediction.machine.name}", columns, rows, tuple(notes))]
    causes = list(dict.fromkeys(entry.cause for item in found.items for entry in item.gap.accounting))
    accounts = [
        {
            "name": item.name,
            **{entry.cause: entry.time if abs(entry.time) > GRAIN else 0.0 for entry in item.gap.accounting},
            "measured": item.gap.measured,
        }
        for item in found.items
    ]
    tables.append(
        Table(
            "where the time went",
            (Column("name"), *(Column(cause, unit="s", digits=3) for cause in causes), Column("measured", unit="s")),
            accounts,
            ("each row sums to the measured time; negative is time that was saved",),
        )
    )
    advice = [
        {
            "name": item.name,
            "status": one.status,
            "cause": one.cause,
            "move": one.move,
            "direction": one.direction,
            "gain": one.gain,
            "evidence": "; ".join(one.evidence),
        }
        for item in found.items
        for one in item.advice[:most]
    ]
    if advice:
        shown = ("name", "status", "cause", "move", "direction")
        tables.append(
            Table(
                "advice",
                (*(Column(key) for key in shown), Column("gain", unit="s", digits=3), Column("evidence")),
                advice,
            )
        )
    return tables


def ended(tables: Sequence[Table], sentence: str) -> list[Table]:
    """The tables with the sentence after the last of them."""
    return [*tables[:-1], replace(tables[-1], notes=(*tables[-1].notes, sentence))]


def chart(found: Report) -> Chart:
    """Every kernel where its counters put it, with the way up to its own roof and its algorithmic intensity beside it."""
    machine = found.prediction.machine
    bandwidth = machine.bandwidth().value
    shown = [item for item in found.items if item.gap.target.flops and item.gap.target.bytes]
    if not found.items:
        raise InputError(f"there is nothing to draw: {found.sentence}")
    if not shown:
        raise InputError("no kernel of this report does arithmetic, so none has a place on the roofline")
    named = {id(item) for item in sorted(shown, key=lambda item: -item.measured)[:NAMED]}
    peaks: dict[str, float] = {}
    points: list[Point] = []
    lines: list[Line] = []
    arrows: list[Arrow] = []
    for item in shown:
        gap = item.gap
        engine = gap.counts.engine or gap.target.engine
        if engine in machine.peaks:
            peaks[engine] = machine.peak(engine).value
        wanted = gap.target.flops / gap.target.bytes
        ran = gap.counts.flops or gap.target.flops
        at, rate = gap.counts.intensity or wanted, ran / gap.measured
        roof = min(peaks.get(engine, float("inf")), bandwidth * at)
        side = gap.regime.bound
        told = {"vertical_gap": gap.vertical, "excess_bytes": gap.excess_bytes, "excess_flops": gap.excess_flops}
        label = shorten(item.name) if id(item) in named else ""
        points.append(Point(at, rate, label, side, "observed", item.name, told))
        if roof > NEAR * rate:
            arrows.append(Arrow((at, rate), (at, roof), "", "gap", side))
        own = gap.target.flops / gap.measured  # the rate of what had to be done, padding and repeats aside
        if not 1 / NEAR < wanted / at < NEAR or not 1 / NEAR < own / rate < NEAR:
            lines.append(Line(((at, rate), (wanted, own)), "guide", "", side))
            points.append(Point(wanted, own, "", side, "target", f"{item.name}, algorithmic"))
    top = max(peaks.values(), default=max(point.y for point in points))
    at_all, rates = [point.x for point in points], [point.y for point in points]
    left, right = min(at_all) / 3, max([*at_all, top / bandwidth]) * 3
    lines.append(
        Line(
            ((left, left * bandwidth), (top / bandwidth, top)),
            "bandwidth",
            f"{machine.main.name} {show(bandwidth, 'B/s')}",
        )
    )
    lines += [
        Line(((peak / bandwidth, peak), (right, peak)), "peak", f"{name} {show(peak, 'flop/s')}")
        for name, peak in peaks.items()
    ]
    notes = [
        "solid: work as counted; hollow: the algorithm's own work in the same time; arrows go to the kernel's own roof"
    ]
    left_out = [item.name for item in found.items if not (item.gap.target.flops and item.gap.target.bytes)]
    if left_out:
        notes.append(
            f"without arithmetic, so not drawn: {', '.join(left_out[:6])}{' ...' if len(left_out) > 6 else ''}"
        )
    if len(shown) > NAMED:
        notes.append(f"named are the {NAMED} of {len(shown)} that hold the most time")
    return Chart(
        "gaps",
        f"Observed and algorithmic work on {machine.name}",
        Axis("arithmetic intensity", "FLOP/byte", LOG, (left, right)),
        Axis("performance", "FLOP/s", LOG, (min([*rates, left * bandwidth]) / 2, max([top, *rates]) * 2)),
        found.sentence,
        tuple(lines),
        tuple(points),
        arrows=tuple(arrows),
        notes=tuple(notes),
    )


def page(found: Report, tables: Sequence[Table], document: Any, out: Path) -> None:
    """The gap report as one offline file."""
    names = {one.gap.target.flops for one in found.items}
    pictures = [chart(found)] if any(names) else []
    sections = [report_page.Section("What came out", found.sentence, pictures, tables[:1])]
    sections.append(report_page.Section("Where the time went", "", (), tables[1:2]))
    if tables[2:]:
        sections.append(report_page.Section("What to do next", "", (), tables[2:]))
    report_page.write(out, f"ridgeline: gaps on {found.prediction.machine.name}", sections, document)


def sealed(one: Sealed) -> Table:
    rows = [dict(row) for row in one.predictions]
    lead = (Column("name"), Column("op"), Column("dtype"), Column("bound"), Column("floor_us", "floor us"))
    times = (Column("time_us", "time us"), Column("low_us", "from"), Column("high_us", "to us"))
    return Table(f"sealed {one.id} at {one.time}", (*lead, *times), rows, (f"hash {one.hash}",))


def settled(one: Settled) -> Table:
    rows = [
        {
            "name": item["name"],
            "sealed": "yes" if item["sealed"] else "no",
            "repeat": "yes" if item["repeat"] else "",
            "reason": item["reason"],
        }
        for item in one.items
    ]
    return Table(
        f"settled beside the seal {one.seal}",
        (Column("name"), Column("sealed", "sealed evidence"), Column("repeat"), Column("reason")),
        rows,
    )


def findings(found: Sequence[Finding], head: tuple[int, str]) -> Table:
    rows = [{"record": one.record, "what": one.what, "text": one.text} for one in found]
    note = f"{head[0]} record{'' if head[0] == 1 else 's'}, head {head[1]}"
    title = "the chain is broken" if rows else "every record is as it was written"
    return Table(title, (Column("record"), Column("what"), Column("text")), rows, (note,))


def ledger(found: dict[str, Any]) -> list[Table]:
    """The record as people read it: what stands, how often regimes and intervals held, errors by family, worst misses."""
    facts = {
        "seals": found["seals"],
        "predictions": f"{found['predictions']}, of which {found['settled']} settled and {found['open']} open",
        "chain": "intact"
        if found["intact"]
        else f"broken ({len(found['findings'])} found), see `ridgeline ledger verify`",
    }
    for part in ("sealed", "blind", "unsealed"):
        told = found[part]
        if told["cases"]:
            error = told["error"]
            facts[f"{part}: error"] = (
                f"median {error['median']:.1%}, P90 {error['p90']:.1%}, signed {error['signed']:+.1%} over {error['cases']}"
                if error["cases"]
                else "none to judge"
            )
            facts[f"{part}: regimes hit"] = _share(told["regimes"])
            calibrated = f": {told['intervals']['verdict']}" if told["intervals"]["cases"] else ""
            facts[f"{part}: inside the 80 % interval"] = _share(told["intervals"]) + calibrated
    rows = [{"what": key, "value": str(value)} for key, value in facts.items()]
    tables = [Table("how good the predictions were", (Column("what"), Column("value")), rows)]
    families = [row for row in found["sealed"].get("by_family", ()) if row["month"] == "all"]
    percent = [
        Column(key, title, percent=True, digits=3) for key, title in (("median", ""), ("p90", "P90"), ("signed", ""))
    ]
    if families:
        lead = (Column("family"), Column("machine"), Column("cases"))
        tables.append(Table("sealed, by family and machine", (*lead, *percent), families))
    reached = found["sealed"].get("efficiency", ())
    if reached:
        ends = [Column(key, percent=True, digits=3) for key in ("median", "low", "high")]
        lead = (Column("machine"), Column("bound"), Column("cases"))
        title = "share of the roof reached, and where half of the cases lie (a number for --efficiency)"
        tables.append(Table(title, (*lead, *ends), [dict(row) for row in reached]))
    worst = found["sealed"].get("worst", ())[:5]
    if worst:
        first = (
            Column("name"),
            Column("machine"),
            Column("predicted_us", "predicted us"),
            Column("measured_us", "measured us"),
        )
        tables.append(
            Table(
                "worst misses",
                (*first, Column("error", percent=True, digits=3), Column("cause")),
                [dict(row) for row in worst],
            )
        )
    return tables


def _share(told: dict[str, Any]) -> str:
    """A share as the ledger tells it: hits of cases, with the range its number leaves open."""
    if not told["cases"]:
        return "none to judge"
    return f"{told['hits']} of {told['cases']}, {told['share']:.0%} ({told['low']:.0%} to {told['high']:.0%})"
