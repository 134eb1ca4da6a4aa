"""What a prediction rests on: every addend of flops and bytes, every ceiling, every item of the expected time."""

from __future__ import annotations

from typing import Any

from ...core.documents import to_document
from ...core.units import show
from ...prediction.answer import Answer, CeilingRow, first_number
from ...prediction.predict import plain
from ..table import Column, Table, columns, percent


def explanation(answer: Answer) -> list[Table]:
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
    launch = {
        "term": "launch",
        "rate": show(bound.launch, "s"),
        "kind": "",
        "binds": "",
        "expected": bound.launch * launches,
    }
    rows.append({**launch, "why": f"{launches:g} launch(es); added to the slowest term"})
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
