"""Ops on the roofs of one or several machines: the chart, and for each case the same answer as `ridgeline predict`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ....core.errors import InputError
from ....core.machine import Machine
from ....prediction.answer import Answer, answer
from ....programs.ops import Op
from ....programs.ops import find as find_op
from ....render.chart import Picture, document
from ....render.charts import find
from ....render.table import Column, Table, columns, microseconds, percent
from ....render.tables.prediction import with_interval
from .export import Sheet
from .lookup import case_of, machine_of
from .pictures import pictured, tabled

MAX_ANSWERS = 2048  # kept, so that dragging one op does not predict the others again
SAME_PLACE = 1e-9  # relative difference of coordinates of one dot


@dataclass(frozen=True)
class Question:
    """Machines by name, cases as an op with its values, and which ceilings to use."""

    machines: Sequence[str]
    cases: Sequence[tuple[str, Mapping[str, Any]]]
    ceilings: str | None = None
    levels: bool = False
    dtype: str | None = None


@dataclass(frozen=True)
class Explored:
    """The chart, and the answers: a row for each case, in it one for each machine."""

    machines: Sequence[Machine]
    answers: Sequence[Sequence[Answer]]
    picture: Picture

    @property
    def lines(self) -> list[str]:
        """The answer to the first case on the first machine, or what the machines are."""
        return self.answers[0][0].lines if self.answers else [f"{self.picture.title}; add an op to place it"]

    def table(self) -> Table:
        rows = [_row(made) for row in self.answers for made in row]
        shown = columns(
            "case", *(["machine"] if len(self.machines) > 1 else []), microseconds("time_us", "time"), "interval", "bound",
            percent("share_of_roofline", "% of roofline"), percent("mfu", "MFU"), Column("intensity", "AI FLOP/B"),
            Column("ridge", "ridge FLOP/B"), microseconds("floor_us", "floor"), "crossover",
        )  # fmt: skip
        notes = tuple(dict.fromkeys(note for row in self.answers for made in row for note in made.prediction.notes))
        return with_interval(Table("", shown, rows, notes))


def explored(asked: Question) -> Explored:
    names = list(dict.fromkeys(asked.machines))
    if not names:
        raise InputError("no machine: choose at least one")
    cases = [case_of(op_name, values) for op_name, values in asked.cases]
    answers = [[answered(op, values, name, asked.ceilings) for name in names] for op, values in cases]
    machines = [machine_of(name) for name in names]
    return Explored(machines, answers, _picture(machines, answers, asked))


def _picture(machines: Sequence[Machine], answers: Sequence[Sequence[Answer]], asked: Question) -> Picture:
    options = {"dtype": asked.dtype, "ceilings": asked.ceilings}
    if len(machines) > 1:
        works = [row[0].prediction.work for row in answers]
        return find("compare")(machines[0], machines=machines, works=works, **options)
    predictions = [row[0].prediction for row in answers]
    return find("ceilings" if asked.levels else "roofline")(machines[0], predictions=predictions, **options)


def answered(op: Op, values: Mapping[str, Any], machine_name: str, ceilings: str | None) -> Answer:
    return _answered(op.name, tuple(values.items()), machine_name, ceilings)


@lru_cache(maxsize=MAX_ANSWERS)
def _answered(op_name: str, values: tuple[tuple[str, Any], ...], machine_name: str, ceilings: str | None) -> Answer:
    return answer(find_op(op_name), dict(values), machine_of(machine_name), ceilings=ceilings)


def explore(asked: Question) -> dict[str, Any]:
    """The answer as the page gets it; every dot of a case has its place in `cases`, [case, machine]."""
    made = explored(asked)
    chart = pictured(made.picture)
    spots = _spots(made.answers)
    for item in chart["points"]:
        if item["role"] not in ("ridge", "floor"):
            item["case"] = _case_at(spots, item["x"], item["y"])
    return {"answer": made.lines, "chart": chart, "table": tabled(made.table())}


def _spots(answers: Sequence[Sequence[Answer]]) -> list[tuple[float, float, list[int]]]:
    spots = []
    for number, row in enumerate(answers):
        for place, made in enumerate(row):
            counted = next(made.prediction.rows())
            if counted["flops"] and counted["intensity"]:
                spots.append((counted["intensity"], counted["flops"] / (counted["time_us"] * 1e-6), [number, place]))
    return spots


def _case_at(spots: Sequence[tuple[float, float, list[int]]], x: float, y: float) -> list[int] | None:
    near = (case for at, rate, case in spots if math.isclose(at, x, rel_tol=SAME_PLACE) and math.isclose(rate, y, rel_tol=SAME_PLACE))  # fmt: skip
    return next(near, None)


def sheet(asked: Question) -> Sheet:
    made = explored(asked)
    rows = [{**next(iter(each.rows())), "crossover": each.turning_text} for row in made.answers for each in row]
    return Sheet(
        made.picture.title, made.lines, [made.picture], [made.table()] if made.answers else [],
        {"rows": rows, "chart": document(made.picture)},
    )  # fmt: skip


def _row(made: Answer) -> dict[str, Any]:
    row = next(made.prediction.rows())
    case = f"{made.op.name} {made.sizes_text} {made.prediction.work.dtype}"
    return {**row, "case": " ".join(case.split()), "crossover": made.turning_text or None}
