"""Tables of one prediction: the card of a case, rows of a sweep, memory levels, and everything the numbers rest on."""

from __future__ import annotations

from typing import Any

from ...core.documents import to_document
from ...core.dtypes import dtype as dtype_row
from ...core.machine import ANY
from ...core.units import show
from ...gaps.rules import moves
from ...prediction.answer import Answer, CeilingRow, first_number
from ...prediction.predict import plain
from ...prediction.turning import TurningPoint
from ..table import Column, Table, columns, facts_table, percent


def prediction_tables(answer: Answer, levels: bool = False, explain: bool = False, limit: int = 64) -> list[Table]:
    tables = [card(answer) if answer.single else rows_table(answer, limit)]
    tables += [levels_table(answer)] if levels else []
    return tables + (explanation(answer) if explain else [])


def amount_and_rate(dtype: str) -> tuple[str, str]:
    """The units of amount and rate: integer formats have operations, not flops."""
    return ("op", "op/s") if dtype and dtype_row(dtype).integer else ("flop", "flop/s")


def shape_text(shape: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        large = isinstance(value, int) and abs(value) >= 1e7
        return f"{value:g}" if isinstance(value, float) or large else f"{value}"

    return " ".join(f"{name}={text(value)}" for name, value in shape.items())


def card(answer: Answer) -> Table:
    """The whole answer of one case, top to bottom, ending in what to try next."""
    (row,), bound, machine = answer.rows(), answer.bound, answer.prediction.machine
    engine = plain(bound.engine, 0)
    read, written = (show(first_number(bound.work.bytes_at("main", way)), "B") for way in ("read", "write"))
    boundary = [name for name, term in bound.terms.items() if term.side == "memory"][-1]
    low, high = (show(row[key] / 1e6, "s", 3) for key in ("low_us", "high_us"))
    facts = {
        "flops": show(row["flops"], amount_and_rate(row["dtype"])[0]),
        "bytes": f"{show(row['bytes'], 'B')} ({read} read, {written} written)",
        "intensity": f"{show(row['intensity'], 'flop/B')} at {boundary}",
        "ridge": f"{show(row['ridge'], 'flop/B')} ({engine})" if row["ridge"] else "-",
        "bound": f"{row['bound']}, limited by {row['limiter']} ({row['bound_sure']:.0%} sure of the side)",
        "attainable": _attainable(answer, row, engine),
        "floor": f"{show(row['floor_us'] / 1e6, 's')} ({row['ceilings']} ceilings)",
        "time": f"{show(row['time_us'] / 1e6, 's')}, in four cases of five {low} to {high}; {row['efficiency']:.0%} of it is the floor",
        "confidence": row["confidence"],
    }
    if answer.turning is not None:
        never = f"never compute-bound, however large {answer.turning.size}"
        facts["turns"] = never if answer.turning.never else _turns(answer.turning)
    if "achieved" in row:
        facts |= _achieved(row["achieved"], engine)
    facts["next"] = "; ".join(f"{move.name} ({move.changes})" for move in moves(str(row["bound"])))
    title = f"{answer.op.name} {shape_text(row['shape'])} in {row['dtype']} on {machine.name}"
    return facts_table(title, facts, tuple(f"note: {text}" for text in bound.notes))


def _attainable(answer: Answer, row: dict[str, Any], engine: str | None) -> str:
    if not engine:
        return f"no flops; {show(row['bytes'] / (row['floor_us'] / 1e6), 'B/s')} at the floor"
    # the rate counts all flops; where other engines do a part of them it may pass the peak of the one it is judged by
    peak = 0.0 if answer.bound.peak is None else first_number(answer.bound.peak)
    together = " on all engines together" if row["attainable"] > peak * row["share_of_peak"] * 1.001 else ""
    name = "peak" if engine == ANY else f"{engine} peak"
    rate = show(row["attainable"], amount_and_rate(row["dtype"])[1])
    return f"{rate}{together}, {show(row['share_of_peak'] * 100, '%', 3)} of the {name}"


def _turns(turning: TurningPoint) -> str:
    return f"compute-bound from {turning.size} = {turning.value:.0f}"


def _achieved(run: dict[str, Any], engine: str | None) -> dict[str, str]:
    share = run["roof_share"]
    rates = f"{show(run['rate'], 'flop/s')}, {show(run['bandwidth'], 'B/s')}"
    text = f"{show(run['time_us'] / 1e6, 's')}: {rates}; {share:.1%} of the roof"
    if share > 1:
        text += ". Above the roof: data already in cache, other counts than the kernel's, or a ceiling set too low"
    peak = f"{run['peak_share']:.1%} of the {engine} peak, " if engine else ""
    shares = f"{peak}{run['bandwidth_share']:.1%} of the bandwidth"
    ratio = f"predicted / measured {run['predicted_over_measured']:.2f}"
    return {"measured": text, "verdict": f"{run['verdict']} ({shares}); {ratio}"}


def rows_table(answer: Answer, limit: int | None = None) -> Table:
    """One row per case of a sweep, of the first `limit`."""
    rows, count = answer.rows(limit), answer.prediction.count
    first = rows[0]
    sizes = answer.swept or list(first["shape"])
    amount, rate = amount_and_rate(first["dtype"])
    moved = Column(
        "moved" if "bytes" in first["shape"] else "bytes", "bytes moved" if "bytes" in first["shape"] else "bytes", "B"
    )
    shown = columns(
        *sizes, Column("flops", "FLOPs", amount), moved, Column("intensity", "FLOP/B"), "bound", "limiter",
        Column("attainable", "attainable", rate), percent("share_of_peak", "of peak"), Column("floor_us", "floor us"),
        Column("time_us", "time us"), Column("low_us", "from", digits=3), Column("high_us", "to us", digits=3),
        percent("efficiency", "floor/time"),
    )  # fmt: skip
    ridge = f"ridge {show(first['ridge'])} FLOP/B; " if first["ridge"] else ""
    notes = [f"{ridge}{first['ceilings']} ceilings; time: {answer.prediction.expected[0].basis}"]
    if answer.turning is not None and answer.turning.size in sizes:
        notes.append("never compute-bound" if answer.turning.never else _turns(answer.turning))
    notes += answer.bound.notes
    notes += [f"{count - len(rows)} more rows: use --json or --out FILE"] if count > len(rows) else []
    title = f"{answer.op.name} in {first['dtype']} on {answer.prediction.machine.name}"
    return Table(title, shown, [{**row, "moved": row["bytes"], **row["shape"]} for row in rows], tuple(notes))


def cases_table(rows: list[dict[str, Any]], count: int) -> Table:
    """The first rows of `count` cases."""
    shown = columns(
        "op", "dtype", "machine", Column("intensity", "FLOP/B"), "bound", "limiter", Column("floor_us", "floor us"),
        Column("time_us", "time us"), "error",
    )  # fmt: skip
    notes = (f"{count - len(rows)} more rows: use --json or --out FILE",) if count > len(rows) else ()
    return Table(f"{count} case{'' if count == 1 else 's'}", shown, rows, notes)


def levels_table(answer: Answer) -> Table:
    """Every level: bytes crossing it, intensity, its ridge, its time, the verdict there."""
    rows = [
        {**to_document(row), "counted": "yes" if row.counted else "no: at least what crosses the next level"}
        for row in answer.levels
    ]
    shown = columns(
        "level", Column("bandwidth", unit="B/s"), "kind", Column("bytes", unit="B"), Column("intensity", "FLOP/B"), "ridge",
        Column("time", unit="s"), Column("bound", "bound there"), Column("counted", "in the floor"),
    )  # fmt: skip
    note = "the floor is the largest term, never a sum; a level without a bandwidth is one nobody publishes"
    return Table(f"levels{'' if answer.single else ' (first case)'}", shown, rows, (note,))


def explanation(answer: Answer) -> list[Table]:
    """Every addend of flops and bytes, every ceiling, every item of the expected time."""
    case = "" if answer.single else " (first case)"
    return [_flops(answer, case), _bytes(answer, case), _ceilings(answer, case), _items(answer, case)]


def _flops(answer: Answer, case: str) -> Table:
    work = answer.bound.work
    rows = [
        {"what": f"{engine}.{dtype}", "addend": label, "formula": work.formulas.get((engine, dtype, label), ""), "amount": first_number(value)}
        for (engine, dtype, label), value in work.counts.items()
    ]  # fmt: skip
    total = {"what": "total", "addend": "", "formula": "a fused multiply-add counts as two"}
    rows.append({**total, "amount": first_number(answer.bound.flops)})
    notes = tuple(f"note: {text}" for text in work.notes)
    return Table(f"flops{case}: {answer.op.summary}", _columns("flop"), rows, notes)


def _bytes(answer: Answer, case: str) -> Table:
    work = answer.bound.work
    rows = [
        {"what": f"{level} {way}", "addend": tensor, "formula": work.formulas.get((level, tensor, way), ""), "amount": first_number(value)}
        for (level, tensor, way), value in work.moves.items()
    ]  # fmt: skip
    for level in work.levels():
        total = {"what": f"{level} total", "addend": "", "formula": "reads and writes"}
        rows.append({**total, "amount": first_number(work.bytes_at(level))})
    return Table(f"bytes{case}", _columns("B"), rows)


def _columns(unit: str) -> tuple[Column, ...]:
    return columns("what", "addend", "formula", Column("amount", unit=unit, digits=6))


def _ceilings(answer: Answer, case: str) -> Table:
    prediction, bound = answer.prediction, answer.bound
    rows = [_ceiling(row) for row in answer.ceilings]
    shown = columns("term", Column("rate", "ceiling"), "kind", Column("time", "time at ceiling", "s"))
    ending = columns("binds", Column("why", "source"))
    if prediction.expected[0].kernels:
        return Table(f"ceilings{case}", (*shown, *ending), rows)
    launches = first_number(bound.work.waits.get("launch", 0.0))
    launch = {"term": "launch", "rate": show(bound.launch, "s"), "kind": "", "binds": ""}
    why = f"{launches:g} launch(es); added to the slowest term"
    rows.append({**launch, "expected": bound.launch * launches, "why": why})
    time, floor = (show(first_number(value), "s") for value in (prediction.time, bound.floor))
    note = f"time = {time} = slowest expected term + launch; floor = {floor} = largest term"
    shown = (*shown, percent("efficiency"), Column("expected", unit="s"), *ending)
    return Table(f"ceilings{case}", shown, rows, (note, *(f"note: {text}" for text in bound.notes)))


def _ceiling(row: CeilingRow) -> dict[str, Any]:
    # integer work and special functions are operations, not flops
    compute = "op/s" if ".int" in row.term or row.term.startswith("special") else "flop/s"
    rate = show(row.rate, compute if row.side == "compute" else "B/s")
    return {**to_document(row), "rate": rate, "binds": "floor" if row.binds else ""}


def _items(answer: Answer, case: str) -> Table:
    """Where the expected time goes, item by item; what an item takes away is negative."""
    step, study = answer.prediction.expected[0], answer.time_items
    low, high = (show(first_number(end), "s") for end in (step.low, step.high))
    notes = (f"in four cases of five between {low} and {high}", *study.coefficients, str(plain(step.confidence, 0)))
    rows = [to_document(item) for item in study.items]
    return Table(f"expected time{case}", columns("item", Column("time", unit="s"), percent("share")), rows, notes)
