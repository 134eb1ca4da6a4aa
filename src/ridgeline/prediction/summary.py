"""A prediction in a few lines, the answer first: what Python prints for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.bound import bound_words
from ..core.notes import ASSUMED, of_kind
from ..core.units import percent, show, show_interval
from ..core.work import Array
from .answer_line import answer_line, unit_name

if TYPE_CHECKING:
    from .predict import Prediction

MAX_LINES = 4  # cases of a sweep, or steps of a program, that are listed


def summary(prediction: Prediction) -> str:
    """The answer line with what it is of; of a sweep and a program the first rows and how many more there are."""
    on = f"on {prediction.machine.name}"
    times = np.atleast_1d(np.asarray(prediction.time)).ravel()
    if not prediction.steps:
        return f"nothing to predict {on}: the program has no steps"
    if len(times) > 1:
        span = f"{show(float(times.min()), 's', 3)} to {show(float(times.max()), 's', 3)}"
        is_list = len(prediction.steps) == 1 and np.ndim(prediction.time) == 1
        head = f"{len(times)} cases {on}: {span}"
        return "\n".join([head, *(_sweep_lines(prediction) if is_list else ()), *_short(prediction)])
    if len(prediction.steps) > 1:
        rows = [f"  {step.name} x{step.count:g}: {answer_line(prediction.step(place))}"
                for place, step in enumerate(prediction.steps[:MAX_LINES])]  # fmt: skip
        return "\n".join(
            [f"{answer_line(prediction)} {on}", *rows, *_more(len(prediction.steps), "steps"), *_short(prediction)]
        )
    work = prediction.bounds[0].work
    floor = f"roofline {show(_first(prediction.roofline), 's', 3)} ({prediction.bounds[0].kinds} ceilings)"
    count = _first(prediction.steps[0].count)
    again = f"{count:g} times " if count != 1 else ""
    basis = f"  {on}; {floor}; {_first_text(prediction.expected[0].confidence)}"
    said = [*of_kind(work.notes, ASSUMED), *prediction.warnings, *prediction.remarks]
    notes = [f"  note: {note}" for note in said if note != prediction.bounds[0].shortage]
    return "\n".join([answer_line(prediction), f"  {again}{work!r}", basis, *_short(prediction), *notes])


def _sweep_lines(prediction: Prediction) -> list[str]:
    work, lines = prediction.bounds[0].work, []
    for row in prediction.rows(MAX_LINES):
        sizes = " ".join(f"{name}={value}" for name, value in row["shape"].items())
        times = show_interval(*(row[key] / 1e6 for key in ("time_us", "low_us", "high_us")))
        bound = bound_words(row["bound"])
        lines.append(
            f"  {work.name} {sizes}: {times} · {bound} ({unit_name(prediction.machine, row['limiter'])}) · {percent(row['efficiency'])} of roofline"
        )
    return [*lines, *_more(prediction.count, "cases")]


def _short(prediction: Prediction) -> list[str]:
    """Working sets that do not fit the memory."""
    lines = [f"  {bound.work.name or 'work'} {bound.shortage}" for bound in prediction.bounds if bound.shortage]
    return [*lines[:MAX_LINES], *_more(len(lines), "steps that do not fit")]


def _more(count: int, what: str) -> list[str]:
    return [f"  ... {count - MAX_LINES} more {what}"] if count > MAX_LINES else []


def _first(value: Array) -> float:
    return float(np.asarray(value).ravel()[0])


def _first_text(value: Any) -> str:
    return str(np.asarray(value).ravel()[0])
