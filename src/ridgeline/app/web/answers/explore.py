"""Ops on the roofs of one or several machines: the chart, and for each case the same answer as `ridgeline predict`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....core.errors import InputError
from ....prediction.answer import Answer, answer
from ....prediction.answer import document as answer_document
from ....render.charts import find
from .lookup import case_of, machine_of
from .pictures import pictured


@dataclass(frozen=True)
class Question:
    """Machines by name, cases as an op with its values, and which ceilings to use."""

    machines: Sequence[str]
    cases: Sequence[tuple[str, Mapping[str, Any]]]
    ceilings: str | None = None
    levels: bool = False
    dtype: str | None = None


def explore(asked: Question) -> dict[str, Any]:
    machines = [machine_of(name) for name in dict.fromkeys(asked.machines)]
    if not machines:
        raise InputError("no machine: choose at least one")
    cases = [case_of(op_name, values) for op_name, values in asked.cases]
    answers = [[answer(op, values, machine, ceilings=asked.ceilings) for machine in machines] for op, values in cases]
    predictions = [made.prediction for row in answers for made in row if made.prediction.machine is machines[0]]
    options = {"dtype": asked.dtype, "ceilings": asked.ceilings}
    if len(machines) > 1:
        works = [row[0].prediction.work for row in answers]
        chart = find("compare")(machines[0], machines=machines, works=works, **options)
    elif asked.levels:
        chart = find("ceilings")(machines[0], predictions=predictions, **options)
    else:
        chart = find("roofline")(machines[0], predictions=predictions, **options)
    return {
        "answer": answers[0][0].lines if answers else [],
        "chart": pictured(chart),
        "cases": [[_case(made) for made in row] for row in answers],
    }


def _case(made: Answer) -> dict[str, Any]:
    return {
        "machine": made.prediction.machine.name,
        "lines": made.lines,
        "turning": made.turning_text,
        "notes": made.support_notes,
        **answer_document(made)["rows"][0],
    }
