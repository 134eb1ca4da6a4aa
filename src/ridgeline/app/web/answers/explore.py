"""Ops on the roofs of one or several machines: the chart, and for each case the same answer as `ridgeline predict`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ....core.cached import cached_property
from ....core.errors import InputError
from ....core.machine import Machine
from ....prediction.answer import Answer
from ....prediction.compare import Roofs, roofs
from ....prediction.kernel_sets import Entry
from ....prediction.plain import plain
from ....prediction.predict import predict
from ....prediction.turning import TurningPoint, turning_point
from ....programs.ops import Op
from ....programs.ops import find as find_op
from ....render.chart import Chart, document
from ....render.charts import find
from ....render.charts.machines import compare
from ....render.charts.plane import Ranges, widened
from ....render.table import Column, Table, columns, microseconds, percent
from ....render.tables.prediction import with_interval
from .export import Sheet
from .lookup import case_of, machine_of
from .pictures import pictured, tabled

MAX_ANSWERS = 2048  # kept, so that dragging one op does not predict the others again
# fields of a prediction that the table and the chart show
SHOWN = (
    "machine", "flops", "time_us", "low_us", "high_us", "bound", "share_of_roofline", "mfu", "intensity", "ridge", "floor_us",
)  # fmt: skip
SAME_PLACE = 1e-9  # relative difference of coordinates of one dot


@dataclass(frozen=True)
class Question:
    """Machines by name, cases as an op with its values, and which ceilings to use.

    `plane` are the axes that the page shows while a slider is dragged: those of the answer are no smaller, so that dots move
    on axes that stay.
    """

    machines: Sequence[str]
    cases: Sequence[tuple[str, Mapping[str, Any]]]
    ceilings: str | None = None
    levels: bool = False
    dtype: str | None = None
    plane: Ranges | None = None


@dataclass(frozen=True)
class Explored:
    """The chart, and the answers: a row for each case, in it one for each machine."""

    machines: Sequence[Machine]
    answers: Sequence[Sequence[Answer]]
    picture: Chart

    @property
    def lines(self) -> list[str]:
        """The answer to the first case on the first machine, or what the machines are."""
        return self.answers[0][0].lines if self.answers else [f"{self.picture.title}; add an op to place it"]

    @cached_property
    def rows(self) -> list[list[dict[str, Any]]]:
        """What is shown of every answer."""
        return [[_row(made) for made in row] for row in self.answers]

    def table(self) -> Table:
        rows = [row for rows in self.rows for row in rows]
        shown = columns(
            "case", *(["machine"] if len(self.machines) > 1 else []), microseconds("time_us", "time"), "interval", "bound",
            percent("share_of_roofline", "% of roofline"), percent("mfu", "MFU"), Column("intensity", "AI FLOP/B"),
            Column("ridge", "ridge FLOP/B"), microseconds("floor_us", "floor"), "crossover",
        )  # fmt: skip
        notes = tuple(dict.fromkeys(note for row in self.answers for made in row for note in made.prediction.warnings))
        return with_interval(Table("", shown, rows, notes))


def explored(asked: Question) -> Explored:
    names = list(dict.fromkeys(asked.machines))
    if not names:
        raise InputError("no machine: choose at least one")
    cases = [case_of(op_name, values) for op_name, values in asked.cases]
    answers = [[answered(op, values, name, asked.ceilings) for name in names] for op, values in cases]
    machines = [machine_of(name) for name in names]
    chart = _chart(machines, answers, asked)
    return Explored(machines, answers, chart if asked.plane is None else widened(chart, asked.plane))


def _chart(machines: Sequence[Machine], answers: Sequence[Sequence[Answer]], asked: Question) -> Chart:
    if len(machines) > 1:
        study = _roofs(tuple(machine.name for machine in machines), asked.dtype, asked.ceilings)
        entries = {
            machine.name: tuple(Entry("", row[place].prediction) for row in answers)
            for place, machine in enumerate(machines)
        }
        rows = (replace(row, works=replace(row.works, entries=entries[row.machine.name])) for row in study.roofs)
        return compare(replace(study, roofs=tuple(rows)))
    predictions = [row[0].prediction for row in answers]
    named = find("ceilings" if asked.levels else "roofline")
    made = named(machines[0], predictions=predictions, dtype=asked.dtype, ceilings=asked.ceilings)
    assert isinstance(made, Chart)
    return made


@lru_cache(maxsize=64)
def _roofs(names: tuple[str, ...], dtype: str | None, ceilings: str | None) -> Roofs:
    """The roofs of several machines, without any op on them."""
    machines = [machine_of(name) for name in names]
    return roofs(machines[0], machines, dtype, ceilings=ceilings)


def answered(op: Op, values: Mapping[str, Any], machine_name: str, ceilings: str | None) -> Answer:
    return _answered(op.name, tuple(values.items()), machine_name, ceilings)


@lru_cache(maxsize=MAX_ANSWERS)
def _answered(op_name: str, values: tuple[tuple[str, Any], ...], machine_name: str, ceilings: str | None) -> Answer:
    op, given = find_op(op_name), dict(values)
    prediction = predict(op(**given), machine_of(machine_name), ceilings=ceilings)
    fixed = tuple((name, value) for name, value in values if name != op.grows)
    return Answer(
        op, given, prediction, _turned(op_name, fixed, machine_name, ceilings), options={"ceilings": ceilings}
    )


@lru_cache(maxsize=MAX_ANSWERS)
def _turned(
    op_name: str, fixed: tuple[tuple[str, Any], ...], machine_name: str, ceilings: str | None
) -> TurningPoint | None:
    """It does not depend on the size that is dragged most."""
    return turning_point(find_op(op_name), dict(fixed), machine_of(machine_name), ceilings=ceilings)


def explore(asked: Question) -> dict[str, Any]:
    """The answer as the page gets it; every dot of a case has its place in `cases`, [case, machine]."""
    made = explored(asked)
    chart = pictured(made.picture)
    spots = _spots(made.rows)
    for item in chart["points"]:
        if item["role"] not in ("ridge", "floor"):
            item["case"] = _case_at(spots, item["x"], item["y"])
    return {"answer": made.lines, "chart": chart, "table": tabled(made.table())}


def _spots(rows: Sequence[Sequence[Mapping[str, Any]]]) -> list[tuple[float, float, list[int]]]:
    spots = []
    for number, row in enumerate(rows):
        for place, counted in enumerate(row):
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
    row = {name: plain(value, 0) for name, value in made.prediction.columns(SHOWN).items()}
    case = f"{made.op.name} {made.sizes_text} {made.prediction.work.dtype}"
    return {**row, "case": " ".join(case.split()), "crossover": made.turning_text or None}
