"""A table of cases on a roofline: predicted as `ridgeline predict --cases` does, reconciled where it has measured times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ....core.cached import cached_property
from ....core.columns import Columns
from ....core.documents import to_document
from ....core.errors import InputError
from ....core.intake import Door, at
from ....core.machine import Machine
from ....core.observation import LONGEST, SHORTEST, Observation
from ....core.tabular import number
from ....gaps.report import reconcile
from ....prediction.answer import answer, rows_document
from ....prediction.kernel_sets import Entry, KernelSet
from ....prediction.predict import predict
from ....prediction.table import CaseTable, Defaults
from ....programs.cases import checked, program
from ....render.chart import Chart
from ....render.charts.answers import cases as cases_chart
from ....render.charts.plane import MAX_POINTS
from ....render.draw.html import Page, Section
from ....render.tables.prediction import cases_lines, cases_table
from .lookup import machine_of
from .pictures import pictured, tabled
from .saved import SavedAnswer

MAX_ROWS = 500
MAX_ERRORS = 10
TIME = "time_us"
QUESTION = "Which machine shall they be predicted for? The table does not say."


@dataclass(frozen=True)
class CasesAnswer:
    title: str
    given: Columns
    chosen: Machine | None

    @classmethod
    def of(cls, title: str, given: Columns, chosen: Machine | None) -> CasesAnswer | SavedAnswer:
        """The cases of a table; those that were predicted before are predicted again, those that were timed reconciled."""
        asked = cls(title, given, chosen)
        timed = TIME in asked.given.cells and "floor_us" not in asked.given.cells
        return SavedAnswer(title, asked.reconciled, asked.machine) if timed and asked.machine else asked

    @property
    def reconciled(self) -> dict[str, Any]:
        """The gap report of cases with their measured times, as a document."""
        assert self.machine is not None
        rows = self.placed.rows()
        prediction = predict(program(rows, where=self.title), self.machine)
        door = Door(self.title)
        times = [_seconds(door, row.get(TIME), at(place, TIME)) for place, row in enumerate(rows, 1)]
        door.close()
        observations = [
            Observation(step.name, step.name, (time,), tool="cases")
            for step, time in zip(prediction.steps, times, strict=True)
            if time is not None
        ]
        report: dict[str, Any] = to_document(reconcile(prediction, observations))
        return report

    @cached_property
    def machine(self) -> Machine | None:
        """The chosen one, or the one that all rows name."""
        if self.chosen is not None:
            return self.chosen
        names = {str(cell).strip() for cell in self.given.cells.get("machine", ()) if cell}
        return machine_of(names.pop()) if len(names) == 1 else None

    @property
    def placed(self) -> Columns:
        """The rows for the machine that is chosen or that all name, whatever they name."""
        if self.machine is None:
            return self.given
        cells = {name: column for name, column in self.given.cells.items() if name != "machine"}
        return Columns(cells, len(self.given))

    @cached_property
    def _predicted(self) -> tuple[list[dict[str, Any]], dict[int, str]]:
        table = CaseTable(self.placed, Defaults(self.machine, machine_of, {}, {}))
        rows = [row for block in table.blocks(MAX_POINTS) for row in block.rows()]
        return rows, table.errors

    def answer(self) -> dict[str, Any]:
        if self.machine is None and "machine" not in self.given.cells:
            count = f"{len(self.given):,} case{'' if len(self.given) == 1 else 's'}"
            return {
                "kind": "unplaced", "title": self.title, "machine": None, "question": QUESTION, "answer": [count], "table": None,
            }  # fmt: skip
        rows, errors = self._predicted
        shown = replace(cases_table(rows[:MAX_ROWS], len(rows)), notes=())
        wrong = list(errors.values())
        more = [f"and {len(wrong) - MAX_ERRORS} more rows"] if len(wrong) > MAX_ERRORS else []
        chart, why = self._drawn()
        return {
            "kind": "cases", "title": self.title, "machine": self.machine.name if self.machine else None,
            "guessed": self.chosen is None, "answer": cases_lines(rows, len(self.given)), "warnings": [*wrong[:MAX_ERRORS], *more],
            "count": len(rows), "table": tabled(shown), "cards": [], "chart": chart, "no_chart": why,
        }  # fmt: skip

    def _drawn(self) -> tuple[dict[str, Any] | None, str]:
        try:
            return pictured(self.chart), ""
        except InputError as error:
            return None, str(error)

    @cached_property
    def _kept(self) -> list[tuple[int, Mapping[str, Any]]]:
        """The rows that could be predicted, with their places."""
        errors = self._predicted[1]
        rows = self.placed.part(0, min(len(self.given), MAX_POINTS)).rows()
        return [(place, row) for place, row in enumerate(rows) if place + 1 not in errors]

    @cached_property
    def chart(self) -> Chart:
        """All cases on one roofline; the key of a dot is the place of its row."""
        if self.machine is None:
            raise InputError("the cases are for several machines: choose one to see them on its roofline")
        if not self._kept:
            raise InputError("nothing to draw: no case could be predicted")
        steps = program([row for _, row in self._kept])
        places = {step.name: place for step, (place, _) in zip(steps.steps, self._kept, strict=True)}
        title = f"{len(self._kept)} cases on {self.machine.name}"
        chart = cases_chart(KernelSet(self.machine, (Entry("", predict(steps, self.machine)),), None, None, title))
        notes = tuple(note.partition("; --out FILE.csv")[0] for note in chart.notes)
        keyed = tuple(replace(point, key=str(places.get(point.name, ""))) for point in chart.points)
        return replace(chart, points=keyed, notes=notes)

    def card(self, place: int) -> dict[str, Any]:
        """The answer of `ridgeline predict` for one case, and its values, which open it in the explorer."""
        rows = self.placed.part(place, place + 1).rows() if 0 <= place < len(self.given) else []
        if not rows:
            raise InputError(f"there is no case {place + 1}; the table has {len(self.given)}")
        named = str(rows[0].get("machine") or "").strip()
        machine = machine_of(named) if named else self.machine
        if machine is None:
            raise InputError("a case is predicted for a machine: choose one")
        [(op, values)] = checked(rows, f"row {place + 1}")
        made = answer(op, values, machine)
        name = str(rows[0].get("name") or "").strip() or op.name
        return {
            "name": name, "sentence": made.lines[0], "lines": [*made.lines[1:], *made.support_notes],
            "explore": {"machines": [machine.name], "op": op.name, "values": values},
        }  # fmt: skip

    def page(self) -> Page:
        rows, _ = self._predicted
        drawn = [] if self._drawn()[0] is None else [self.chart]
        section = Section("", "", drawn, [replace(cases_table(rows, len(rows)), notes=())])
        return Page(f"{self.title}: cases", [section], self.data(), cases_lines(rows, len(self.given)))

    def data(self) -> Any:
        return rows_document(self._predicted[0])


def _seconds(door: Door, cell: Any, place: str) -> float | None:
    """A measured time in microseconds as seconds; None where a row has none."""
    if cell is None or cell == "":
        return None
    value = number(cell) if isinstance(cell, str) else cell
    return door.number(cell if value is None else value, place, SHORTEST * 1e6, LONGEST * 1e6) / 1e6
