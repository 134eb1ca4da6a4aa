"""Cases in, the same rows with predictions out, each batch of them in one array call.

A row that cannot be predicted keeps its place and says why in `error`, naming the column; the others come out all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from ..core.errors import InputError, RidgelineError
from ..core.machine import Machine
from ..core.tabular import Row
from ..programs.cases import Batch, batches
from .predict import RESULTS, listed, predict_cases

HIDDEN = {*RESULTS, "error"}  # a column of the caller's that a result would hide keeps its values under another name


@dataclass(frozen=True)
class Defaults:
    """What a row takes when it does not say: machine, dtype and storage formats, options of `predict`."""

    machine: Machine | None
    load: Callable[[str], Machine]
    formats: dict[str, str]
    options: dict[str, Any]


def run(rows: Iterable[Row], defaults: Defaults, most: int | None = None) -> tuple[list[Row], dict[int, str]]:
    """The rows with their predictions (the first `most` of them), and what is wrong with which of all, by its number."""
    return _Run(list(rows), defaults, most).all()


class _Run:
    """Cases on their way to predictions: `results` has the rows that are wanted, `errors` by place what went wrong."""

    def __init__(self, rows: list[Row], defaults: Defaults, most: int | None) -> None:
        self.rows = rows
        self.defaults = defaults
        self.errors: dict[int, str] = {}
        self.results = [
            dict(row)
            if HIDDEN.isdisjoint(row)
            else {(f"given_{key}" if key in HIDDEN else key): value for key, value in row.items()}
            for row in rows[:most]
        ]

    def all(self) -> tuple[list[Row], dict[int, str]]:
        groups, self.errors = batches(self.rows, self.defaults.formats, ("machine", "backend"))
        for batch in groups:
            self._batch(batch)
        errors = {place + 1: f"row {place + 1}, {self.errors[place]}" for place in sorted(self.errors)}
        for index, row in enumerate(self.results, 1):
            row.update({**dict.fromkeys(RESULTS), "error": errors[index]} if index in errors else {"error": ""})
        return self.results, errors

    def _batch(self, batch: Batch) -> None:
        name = batch.labels.get("machine", "")
        try:
            machine = self.defaults.load(name) if name else self.defaults.machine
            if machine is None:
                raise InputError("no machine: give --on, or fill the column machine")
        except RidgelineError as error:
            self._fail(batch.places, f"column {'machine' if name else 'op'}: {error}")
            return
        backend = {"backend": batch.labels["backend"]} if "backend" in batch.labels else {}
        options = {**self.defaults.options, **backend}
        shown = bisect_left(batch.places, len(self.results))
        for part in (batch.part(0, shown), batch.part(shown, len(batch.places))):
            if part.places:
                self._predict(part, machine, options)

    def _fail(self, places: Iterable[int], why: str) -> None:
        self.errors.update(dict.fromkeys(places, why))

    def _predict(self, batch: Batch, machine: Machine, options: dict[str, Any]) -> None:
        count = len(batch.places)
        shown = batch.places[0] < len(self.results)
        # of rows that are not shown it matters only whether they have a time
        wanted = ("dtype", "machine", *RESULTS) if shown else ("time_us",)
        try:
            columns = predict_cases(batch.op, machine, batch.sizes, wanted, **options, **batch.words)
        except RidgelineError as error:
            if count == 1:
                self._fail(batch.places, f"column op: {error}")
                return
            for part in (batch.part(0, count // 2), batch.part(count // 2, count)):  # halves lead to the rows at fault
                self._predict(part, machine, options)
            return
        if not shown:
            return
        lists = {"op": [batch.op.name] * count} | {name: listed(value, count) for name, value in columns.items()}
        for place, values in zip(batch.places, zip(*lists.values(), strict=True), strict=True):
            self.results[place].update(zip(lists, values, strict=True))
