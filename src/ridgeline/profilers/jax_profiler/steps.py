"""Steps of a JAX program: as it marked them, else by what its compiled programs ran over and over."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.timeline import Steps
from ..chrome_trace import MICRO, Span
from ..repetition import period, warmup_steps

if TYPE_CHECKING:
    from .timeline import Event

_PROGRAM = re.compile(r"(?:jit|pmap|pjit)_")


def by_execution(places: Sequence[int], rows: Sequence[Any]) -> list[int]:
    """The places of a CPU's events, one execution of a program after the other, within one in an order that is always the same.

    Instructions of a program that do not wait for each other run there in any order. A stream of a GPU has one order.
    """
    begun: dict[int, int] = {}
    keys: list[tuple[int, str, int]] = []
    for place in places:
        event: Event = rows[place][4]
        alone = event.streams or not event.span.ident  # an execution is not known
        first = place if alone else begun.setdefault(event.span.ident, place)
        keys.append((first, event.span.what[0], place))
    return [place for _, _, place in sorted(keys)]


def _repeated(rows: Sequence[Any], times: np.ndarray) -> np.ndarray | None:
    """The step of every row by what the programs ran over and over, -1 outside of it; None where nothing repeats."""
    parts: dict[int, list[int]] = defaultdict(list)  # of an event: between them, events inside it ran
    for place, row in enumerate(rows):
        if _PROGRAM.match(str(row[4].span.what[1].get("hlo_module", ""))):
            parts[id(row[4])].append(place)
    ran = by_execution([places[0] for places in parts.values()], rows)
    numbers: dict[Any, int] = {}
    tokens = [numbers.setdefault((rows[place][2], rows[place][4].span.what[0]), len(numbers)) for place in ran]
    taken = np.array([times[parts[id(rows[place][4])]].sum() for place in ran])
    repeated = period(tokens, taken) if ran else None
    if repeated is None:
        return None
    step_of = np.full(len(rows), -1)
    for number, place in enumerate(ran[repeated.begin : repeated.end]):
        step_of[parts[id(rows[place][4])]] = number // repeated.length
    return step_of


def steps(marks: Sequence[Span], rows: Sequence[Any], sent: np.ndarray, zero: float) -> tuple[Steps, np.ndarray]:
    """By `StepTraceAnnotation`, else by the repetition of what the programs ran, else the entire run.

    A step ends when the device has finished what it launched, and the next begins there.
    """
    begins, ends = (np.array([row[place] for row in rows]) for place in (0, 1))
    step_of, how = np.zeros(len(rows), np.int64), "single"
    if marks:
        starts = np.array([mark.start for mark in marks])
        step_of, how = np.searchsorted(starts, sent, "right") - 1, "marked"
        step_of[sent > max(mark.end for mark in marks)] = -1
    else:
        repeated = _repeated(rows, ends - begins)
        if repeated is not None:
            how, step_of = "repetition", repeated
    present, renumbered = np.unique(step_of[step_of >= 0], return_inverse=True)
    if not len(present):
        entire = np.zeros(len(rows), np.int64)
        return Steps(np.zeros(1), np.array([(ends.max(initial=zero) - zero) * MICRO]), "single"), entire
    inside = step_of >= 0
    step_of[inside] = renumbered
    finished = np.full(len(present), -np.inf)
    np.maximum.at(finished, renumbered, ends[inside])
    finished = np.maximum.accumulate(finished)
    started = np.append(min(begins[step_of == 0].min(), sent[step_of == 0].min()), finished[:-1])
    warmup = warmup_steps(finished - started, np.bincount(renumbered, (ends - begins)[inside], len(present)))
    kept = slice(warmup, None)
    step_of = np.where(step_of >= warmup, step_of - warmup, -1)
    return Steps((started[kept] - zero) * MICRO, (finished[kept] - zero) * MICRO, how, warmup), step_of
