"""The exercise of the three regimes: say which one limits a kernel, then read its prediction and the gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ....core.units import percent, show
from ....prediction.answer import Answer, answer
from ....prediction.answer_line import answer_line
from ....prediction.kernel_sets import Entry, KernelSet
from ....prediction.next_move import next_move
from ....render.charts.plane import plane_chart
from .lookup import case_of_text, machine_of
from .pictures import pictured

REGIMES = ("memory", "compute", "overhead")
BALANCED = "balanced"  # near the ridge both sides are right
MAX_PARTS = 3  # of the gap that are named
Document = dict[str, Any]


def regime(case: str, on: str, guess: str) -> Document:
    """Whether the regime of a case was guessed, its prediction, and what lies between its roofline and its expected time."""
    made = _answered(case, on)
    (row,) = made.rows()
    right = is_right(row["bound"], guess)
    floor, time = float(made.prediction.roofline), row["time_us"] * 1e-6
    verdict = f"{'Right' if right else f'Not {guess}-bound'}: {_name(row['bound'])}. {reason(made)}"
    gap = f"Gap: {show(time - floor, 's')} between the roofline time of {show(floor, 's')} and the expected {show(time, 's')} ({percent(floor / time)} of roofline)"
    move = next_move(made)
    return {
        "answer": [verdict, answer_line(made.prediction), f"{gap}{_parts(made)}.", *([f"What would help: {move}."] if move else [])],
        "right": right, "bound": row["bound"], "intensity": row["intensity"], "ridge": row["ridge"], "floor_us": row["floor_us"],
        "time_us": row["time_us"], "gap_us": row["time_us"] - row["floor_us"], "share_of_roofline": row["share_of_roofline"],
    }  # fmt: skip


def is_right(bound: str, guess: str) -> bool:
    return guess in ("memory", "compute") if bound == BALANCED else guess == bound


def _name(bound: str) -> str:
    return BALANCED if bound == BALANCED else f"{bound}-bound"


def reason(made: Answer) -> str:
    """Why a case has its bound: the AI against the ridge, or the roofline time against what a launch adds."""
    (row,) = made.rows()
    if row["bound"] == "overhead":
        launch = next((item.time for item in made.time_items.items if item.item == "launch"), None)
        against = f", a launch adds {show(launch, 's')}" if launch else ""
        return f"The roofline time is {show(row['floor_us'] * 1e-6, 's')}{against}."
    if row["ridge"] is None or row["intensity"] is None:
        return ""
    where = "above" if row["intensity"] >= row["ridge"] else "below"
    return f"AI {show(row['intensity'], 'flop/B')} is {where} the ridge at {show(row['ridge'], 'flop/B')}."


def _parts(made: Answer) -> str:
    """The items of the expected time that are not the work itself, largest first."""
    *items, _ = made.time_items.items
    losses = sorted((item for item in items[1:] if item.time > 0), key=lambda item: -item.time)[:MAX_PARTS]
    return "".join([": ", ", ".join(f"{item.item} {show(item.time, 's')}" for item in losses)]) if losses else ""


def all_regimes(cases: Sequence[tuple[str, str]], on: str) -> Document:
    """All cases of the exercise on one roofline, at the end of it."""
    machine = machine_of(on)
    answers = [(title.partition(":")[0], _answered(case, on)) for title, case in cases]
    entries = tuple(Entry(title, made.prediction) for title, made in answers)
    bounds = [made.rows()[0]["bound"] for _, made in answers]
    counted = ", ".join(f"{bounds.count(bound)} {_name(bound)}" for bound in dict.fromkeys(bounds))
    chart = plane_chart("roofline", KernelSet(machine, entries, None, None, f"All of them on {machine.name}"), by_bound=True)  # fmt: skip
    return {"answer": [f"{counted[:1].upper()}{counted[1:]}."], "chart": pictured(replace(chart, subtitle=""))}


def _answered(case: str, on: str) -> Answer:
    op, values = case_of_text(case)
    return answer(op, values, machine_of(on))
