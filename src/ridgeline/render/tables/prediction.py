"""Tables of one prediction: the card of a case, the rows of a sweep or of a table of cases, the memory levels."""

from __future__ import annotations

from typing import Any

from ...core.documents import to_document
from ...core.dtypes import dtype as dtype_row
from ...core.machine import ANY
from ...core.units import show
from ...gaps.rules import moves
from ...prediction.answer import Answer, first_number
from ...prediction.predict import plain
from ...prediction.turning import TurningPoint
from ..table import Column, Table, columns, facts_table, percent
from .explanation import explanation


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


# -- one case -------------------------------------------------------------------------------------------------


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


# -- many cases -----------------------------------------------------------------------------------------------


def rows_table(answer: Answer, limit: int | None = None) -> Table:
    """One row per case of a sweep, of the first `limit`."""
    rows, count = answer.rows(limit), answer.prediction.count
    first = rows[0]
    sizes = answer.swept or list(first["shape"])
    amount, rate = amount_and_rate(first["dtype"])
    shown = columns(
        *sizes, Column("flops", "FLOPs", amount), Column("bytes", "bytes", "B"), Column("intensity", "FLOP/B"), "bound", "limiter",
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
    return Table(title, shown, [{**row["shape"], **row} for row in rows], tuple(notes))


def cases_table(rows: list[dict[str, Any]], count: int) -> Table:
    """The first rows of `count` cases."""
    shown = columns(
        "op", "dtype", "machine", Column("intensity", "FLOP/B"), "bound", "limiter", Column("floor_us", "floor us"),
        Column("time_us", "time us"), "error",
    )  # fmt: skip
    notes = (f"{count - len(rows)} more rows: use --json or --out FILE",) if count > len(rows) else ()
    return Table(f"{count} case{'' if count == 1 else 's'}", shown, rows, notes)


# -- levels ---------------------------------------------------------------------------------------------------


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
