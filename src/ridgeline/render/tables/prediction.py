"""Tables of a prediction: the support of one case, rows of a sweep or of cases, memory levels, the source of every number."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import isclose
from typing import Any

import numpy as np

from ...core.bound import bound_words
from ...core.documents import to_document
from ...core.dtypes import dtype as dtype_row
from ...core.machine import ANY, MAIN
from ...core.notes import ASSUMED, of_kind
from ...core.units import percent as share
from ...core.units import show, span_text, time_unit
from ...core.work import WRITE
from ...prediction.answer import Answer, CeilingRow, first_number
from ...prediction.answer_line import LATENCY, sides, unit_name
from ...prediction.next_move import next_move
from ...prediction.plain import plain
from ...prediction.predict import RESULTS
from ...programs.ops import OPS
from ..table import Column, Table, columns, facts_table, microseconds, percent


def prediction_tables(
    answer: Answer, levels: bool = False, explain: bool = False, limit: int = 64, verbose: bool = False
) -> list[Table]:
    """What a terminal shows below the answer."""
    tables = [card(answer) if answer.single else rows_table(answer, limit, verbose)]
    tables += [levels_table(answer)] if levels or verbose else []
    return tables + (explanation(answer) if explain or verbose else [])


def amount_and_rate(dtype: str) -> tuple[str, str]:
    """The units of amount and rate: integer formats have operations, not flops."""
    return ("op", "op/s") if dtype and dtype_row(dtype).integer else ("flop", "flop/s")


def shape_text(shape: dict[str, Any]) -> str:
    def text(value: Any) -> str:
        return f"{value:g}" if isinstance(value, float) and not value.is_integer() else f"{plain(value, 0)}"

    return " ".join(f"{name}={text(value)}" for name, value in shape.items())


def card(answer: Answer) -> Table:
    """The support of one answer: counts, intensity and ridge, what the time rests on, what to try next."""
    (row,), bound, machine = answer.rows(), answer.bound, answer.prediction.machine
    engine = plain(bound.engine, 0)
    read, written = (show(first_number(bound.work.bytes_at("main", way)), "B") for way in ("read", "write"))
    outer = [name for name, term in bound.terms.items() if term.side == "memory"][-1]
    amount, _ = amount_and_rate(row["dtype"])
    ridge = f"; ridge {show(row['ridge'], f'{amount}/B')} ({engine}{_mix(answer, outer)})" if row["ridge"] else ""
    facts = {
        f"{amount}s": show(row["flops"], amount),
        "bytes": f"{show(row['bytes'], 'B')} ({read} read, {written} written)",
        "AI": f"{show(row['intensity'], f'{amount}/B')} at {unit_name(machine, outer)}{ridge}",
        "attainable": _attainable(answer, row, engine),
        "floor": _floor(answer, row),
        "time": row["confidence"],
    }
    if answer.turning is not None:
        facts["crossover"] = answer.turning_text
    if "achieved" in row:
        facts |= _achieved(row["achieved"], engine)
    if move := next_move(answer):
        facts["next"] = move
    assumed = of_kind(bound.work.notes, ASSUMED)
    return facts_table("", facts, tuple(f"note: {text}" for text in (*assumed, *answer.support_notes)))


def _floor(answer: Answer, row: dict[str, Any]) -> str:
    roofline, floor = first_number(answer.prediction.roofline), row["floor_us"] / 1e6
    if isclose(floor, roofline):
        return f"{show(floor, 's')}, the roofline time"
    return f"{show(floor, 's')}, with one product per output and channel; roofline time {show(roofline, 's')}, with direct ones"


def _mix(answer: Answer, level: str) -> str:
    """The access mix whose bandwidth the ridge is made of, where several were measured."""
    bound = answer.bound
    if not any(known.name == level for known in bound.machine.levels):
        return ""
    term = bound.terms[level]
    if term.mix is None:
        return ""
    mix = bound.machine.mix_at(level, first_number(term.rate), bound.ceilings)
    written = first_number(bound.work.bytes_at(MAIN, WRITE)) / first_number(term.amount)
    return f", {mix} bandwidth" if mix else f", bandwidth at {share(written)} writes"


def _attainable(answer: Answer, row: dict[str, Any], engine: str | None) -> str:
    if not engine:
        return f"no flops; {show(row['bytes'] / (row['floor_us'] / 1e6), 'B/s')} at the floor"
    # the rate counts all flops; where other engines do a part of them it may pass the peak of the one it is judged by
    peak = 0.0 if answer.bound.peak is None else first_number(answer.bound.peak)
    together = " on all engines together" if row["attainable"] > peak * row["share_of_peak"] * 1.001 else ""
    name = "peak" if engine == ANY else f"{engine} peak"
    rate = show(row["attainable"], amount_and_rate(row["dtype"])[1])
    return f"{rate}{together}, {share(row['share_of_peak'])} of the {name}"


def _achieved(run: dict[str, Any], engine: str | None) -> dict[str, str]:
    rates = f"{show(run['rate'], 'flop/s')}, " if engine else ""
    peak = f"{share(run['peak_share'])} of the {engine} peak, " if engine else ""
    shares = f"{peak}{share(run['bandwidth_share'])} of the bandwidth"
    verdict = "latency-bound or inefficient: neither peak nor bandwidth is half used"
    verdict = verdict if run["verdict"] == "underused" else f"{run['verdict']}-bound"
    verdict = verdict if run["roof_share"] <= 1 else "above the roofline, so that these ceilings are not what bounds it"
    return {"measured": f"{rates}{show(run['bandwidth'], 'B/s')}: {shares}; {verdict}"}


def rows_table(answer: Answer, limit: int | None = None, data: bool = False) -> Table:
    """One row per case of a sweep, of the first `limit`; with `data` every figure in a column of its own."""
    rows, count = answer.rows(limit), answer.prediction.count
    first = rows[0]
    sizes = [_size_column(name) for name in answer.swept or first["shape"]]
    amount, rate = amount_and_rate(first["dtype"])
    shown = columns(*sizes, microseconds("time_us", "time"))
    shares = percent("share_of_roofline", "% of roofline"), percent("mfu", "MFU")
    intensity = Column("intensity", f"AI {amount.upper()}/B"), Column("attainable", "attainable", rate)
    if data:
        counts = Column("flops", "FLOPs" if amount == "flop" else "OPs", amount), Column("bytes", "bytes", "B")
        interval = microseconds("low_us", "from"), microseconds("high_us", "to")
        rest = percent("mbu", "MBU"), percent("share_of_peak", "attainable / peak"), percent("efficiency", "floor/time")
        shown += columns(
            *interval, microseconds("floor_us", "floor"), "bound", "limiter", *shares, *intensity, *counts, *rest,
            Column("footprint", "footprint", "B"), "fits",
        )  # fmt: skip
    else:
        short = [] if np.all(answer.bound.fits is None or answer.bound.fits) else ["fits"]
        shown += columns("interval", "bound", "limiter", *shares, *intensity, *short)
        for row, side in zip(rows, np.broadcast_to(sides(answer.prediction), (count,)), strict=False):
            row |= {"bound": LATENCY, "limiter": "steps"} if side == LATENCY else {}  # as the answer line says
    notes = [] if data else [f"time: {answer.prediction.expected[0].basis}"]
    notes += answer.support_notes
    notes += [f"{count - len(rows):,} more rows: use --json or --out FILE"] if count > len(rows) else []
    return with_interval(Table("", shown, [_with_sizes(row) for row in rows], tuple(notes)))


def _size_column(name: str) -> Column:
    """The column of a size; one that a result has the name of is kept apart, as in a table of cases."""
    return Column(f"given_{name}" if name in RESULTS else name, name)


def _with_sizes(row: dict[str, Any]) -> dict[str, Any]:
    return {_size_column(name).key: value for name, value in row["shape"].items()} | row


def with_interval(table: Table) -> Table:
    """The 80 % interval as one text a row, in the unit of the time."""
    places = [place for place, column in enumerate(table.columns) if column.key == "interval"]
    if not places:
        return table
    times = [row["time_us"] * 1e-6 for row in table.rows if row.get("time_us") is not None]
    factor, unit = time_unit(times)
    for row in table.rows:
        if row.get("time_us") is not None:
            row["interval"] = span_text(row["low_us"] * 1e-6 / factor, row["high_us"] * 1e-6 / factor)
    shown = [
        Column("interval", f"80 % interval {unit}") if place in places else column
        for place, column in enumerate(table.columns)
    ]
    return replace(table, columns=shown)


def cases_lines(rows: list[dict[str, Any]], count: int) -> list[str]:
    """How many cases, from what time to what time, and how they are bound."""
    known = [row for row in rows if not row.get("error")]
    title = f"{count:,} case{'' if count == 1 else 's'}"
    title = title if len(rows) == count else f"first {len(rows):,} of {title}"
    if not known:
        return [f"{title}: none could be predicted"]
    times = [row["time_us"] * 1e-6 for row in known]
    sides = Counter(str(row["bound"]) for row in known)
    bounds = ", ".join(f"{number} {bound_words(side)}" for side, number in sides.items())
    failed = f"; {len(rows) - len(known)} could not be predicted" if len(known) < len(rows) else ""
    machines = ", ".join(dict.fromkeys(str(row["machine"]) for row in known))
    kinds = ", ".join(dict.fromkeys(str(row["ceilings"]) for row in known))
    span = f"{show(min(times), 's')} to {show(max(times), 's')}, {show(sum(times), 's')} in total"
    span = span if len(times) > 1 else show(times[0], "s")
    return [f"{title}: {span}; {bounds}{failed}", f"on {machines}, {kinds} ceilings"]


def cases_table(rows: list[dict[str, Any]], count: int) -> Table:
    """The first rows of `count` cases, with their names and sizes."""
    shown = columns(
        "name", "op", Column("sizes", "shape"), "dtype", "machine", microseconds("time_us", "time"), "interval", "bound", "limiter",
        percent("share_of_roofline", "% of roofline"), Column("intensity", "AI FLOP/B"), microseconds("floor_us", "floor"), "fits", "error",
    )  # fmt: skip
    several = len({row.get("machine") for row in rows if not row.get("error")}) > 1
    empty = {
        column.key
        for column in shown
        if column.key in ("name", "error") and not any(row.get(column.key) for row in rows)
    }
    empty |= set() if several else {"machine"}
    empty |= set() if any(row.get("fits") is False for row in rows) else {"fits"}
    notes = (f"{count - len(rows):,} more rows: use --json or --out FILE",) if count > len(rows) else ()
    kept = [column for column in shown if column.key not in empty]
    return with_interval(Table("", kept, [{**row, "sizes": _sizes_of(row)} for row in rows], notes))


def _sizes_of(row: dict[str, Any]) -> str:
    """The sizes of a case, by the parameters of its op."""
    op = OPS.get(str(row.get("op")))
    sizes = {name: row.get(_size_column(name).key) for name in (op.params if op else ()) if name != "dtype"}
    return shape_text({name: value for name, value in sizes.items() if value not in (None, "")})


def levels_table(answer: Answer) -> Table:
    """Every level: bytes crossing it, intensity, its ridge, its time, the verdict there."""
    rows = [
        {**to_document(row), "counted": "yes" if row.counted else "no: lower bound from the next level"}
        for row in answer.levels
    ]
    shown = columns(
        "level", Column("bandwidth", unit="B/s"), "kind", Column("bytes", unit="B"), Column("intensity", "AI FLOP/B"), Column("ridge", "ridge FLOP/B"),
        Column("time", unit="s"), Column("bound", "bound at this level"), Column("counted", "in the floor"),
    )  # fmt: skip
    note = "the floor is the largest term, never a sum; - means that no figure is known"
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
    if not prediction.expected[0].is_flat:
        return Table(f"ceilings{case}", (*shown, *ending), rows)
    launches = first_number(bound.work.waits.get("launch", 0.0))
    launch = {"term": "launch", "rate": show(bound.launch, "s"), "kind": "", "binds": ""}
    why = f"{launches:g} launch(es); added to the slowest term"
    rows.append({**launch, "expected": bound.launch * launches, "why": why})
    time, floor = (show(first_number(value), "s") for value in (prediction.time, bound.roofline))
    note = f"time = {time} = slowest expected term + launch; floor = {floor} = largest term"
    shown = (*shown, percent("efficiency"), Column("expected", unit="s"), *ending)
    return Table(f"ceilings{case}", shown, rows, (note, *(f"note: {text}" for text in bound.notes)))


def _ceiling(row: CeilingRow) -> dict[str, Any]:
    # integer work and special functions are operations, not flops
    compute = "op/s" if ".int" in row.term or row.term.startswith("special") else "flop/s"
    rate = show(row.rate, compute if row.side == "compute" else "B/s")
    return {**to_document(row), "rate": rate, "binds": "floor" if row.binds else ""}


def _items(answer: Answer, case: str) -> Table:
    """Where the expected time goes, item by item; an item that shortens it is negative."""
    step, study = answer.prediction.expected[0], answer.time_items
    low, high = (show(first_number(end), "s") for end in (step.low, step.high))
    notes = (f"80 % interval {low} to {high}", *study.coefficients, str(plain(step.confidence, 0)))
    rows = [to_document(item) for item in study.items]
    return Table(f"expected time{case}", columns("item", Column("time", unit="s"), percent("share")), rows, notes)
