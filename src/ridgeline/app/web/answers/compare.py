"""What another machine would bring: growth of peak, bandwidth and ridge, and the factor of every op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import InputError
from ....prediction.answer import Answer
from ....prediction.compare import Comparison, comparison
from ....render.chart import NO_AXIS, Axis, Bar, Chart, Picture, document
from ....render.charts import find
from ....render.charts.plane import Ranges, widened
from ....render.table import Column, Table, columns
from ....render.tables.studies import comparison_lines, comparison_table
from .explore import answered
from .export import Sheet
from .lookup import case_of, machine_of
from .pictures import pictured, tabled


@dataclass(frozen=True)
class Compared:
    """Machines in order, their growth, and a row of answers for each case: one for each machine."""

    study: Comparison
    names: Sequence[str]
    answers: Sequence[Sequence[Answer]]
    roofs: Picture

    @property
    def lines(self) -> list[str]:
        if not self.answers:
            return comparison_lines(self.study, "")
        first, last = self.names[0], self.names[-1]
        factors = [_speedup(row, -1) for row in self.answers]
        low, high = min(factors), max(factors)
        span = f"{low:.3g}x" if len(factors) == 1 else f"{low:.3g}x to {high:.3g}x"
        counted = "this op runs" if len(factors) == 1 else f"these {len(factors)} ops run"
        return [f"{counted} {span} as fast on {last} as on {first}", *comparison_lines(self.study, "")[:1]]

    def table(self) -> Table:
        """A row for each case: the time on every machine, and how many times as fast the last is as the first."""
        rows = []
        for row in self.answers:
            times = {f"on:{name}": float(made.prediction.time) for name, made in zip(self.names, row, strict=True)}
            sides = [str(next(made.prediction.rows())["bound"]) for made in (row[0], row[-1])]
            bound = sides[0] if sides[0] == sides[1] else f"{sides[0]}, then {sides[1]}"
            rows.append({"case": _name(row[0]), **times, "speedup": _speedup(row, -1), "bound": bound})
        shown = columns(
            "case", *(Column(f"on:{name}", name, "s") for name in self.names), Column("speedup", f"{self.names[-1]} / {self.names[0]}"),
            "bound",
        )  # fmt: skip
        return Table("", shown, rows)

    def factors(self) -> Chart | None:
        """Bars of the speedup of each case on each machine over the first; None without a case."""
        if not self.answers:
            return None
        bars = [
            Bar(f"{_name(row[0])} on {name}" if len(self.names) > 2 else _name(row[0]), _speedup(row, place), None, f"{_speedup(row, place):.3g}x", name, "value", {})
            for row in self.answers
            for place, name in enumerate(self.names)
            if place
        ]  # fmt: skip
        top = max(bar.value for bar in bars)
        title = f"Speedup over {self.names[0]}"
        return Chart("factors", title, Axis("times as fast", "", "linear", (0.0, top * 1.02)), NO_AXIS, bars=tuple(bars), look="bars")  # fmt: skip


def compared(
    names: Sequence[str],
    cases: Sequence[tuple[str, Mapping[str, Any]]],
    dtype: str = "bf16",
    ceilings: str | None = None,
    plane: Ranges | None = None,
) -> Compared:
    """`plane` as of a question to `explore`."""
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        raise InputError("a comparison needs two machines or more")
    machines = [machine_of(name) for name in names]
    asked = []
    for op_name, values in cases:
        op, _ = case_of(op_name, values)
        given = {"dtype": dtype} if "dtype" in op.params and not values.get("dtype") else {}
        asked.append(case_of(op_name, {**values, **given}))
    answers = [[answered(op, values, name, ceilings) for name in names] for op, values in asked]
    works = [row[0].prediction.work for row in answers]
    roofs = find("compare")(machines[0], machines=machines, dtype=dtype, works=works, ceilings=ceilings)
    if plane is not None and isinstance(roofs, Chart):
        roofs = widened(roofs, plane)
    return Compared(comparison(machines, dtype, ceilings), names, answers, roofs)


def compare(*asked: Any) -> dict[str, Any]:
    made = compared(*asked)
    factors, chart = made.factors(), pictured(made.roofs)
    return {
        "answer": made.lines,
        "chart": chart,
        "factors": None if factors is None else {**pictured(factors), "colours": chart["colours"], "legend": []},
        "growth": tabled(comparison_table(made.study)),
        "table": tabled(made.table()) if made.answers else None,
    }


def sheet(*asked: Any) -> Sheet:
    made = compared(*asked)
    growth, factors = comparison_table(made.study), made.factors()
    pictures = [made.roofs, *([] if factors is None else [factors])]
    tables = [*([made.table()] if made.answers else []), growth]
    records = {"machines": growth.records, "cases": made.table().records, "chart": document(made.roofs)}
    return Sheet(made.roofs.title, made.lines, pictures, tables, records)


def _speedup(row: Sequence[Answer], place: int) -> float:
    return float(row[0].prediction.time) / float(row[place].prediction.time)


def _name(made: Answer) -> str:
    return " ".join(f"{made.op.name} {made.sizes_text} {made.prediction.work.dtype}".split())
