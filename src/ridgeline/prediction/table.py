"""Cases in, the same rows with predictions out, block by block, each batch of them in one array call.

A row that cannot be predicted keeps its place and says why in `error`, naming the column; the others come out all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.columns import Columns, Row
from ..core.errors import InputError, RidgelineError
from ..core.machine import Machine
from ..programs.cases import Batch, Faults, batches
from .many import predict_cases
from .plain import listed
from .predict import NAMES, RESULTS

HIDDEN = {*RESULTS, "error"}  # a column of the caller's that a result would hide keeps its values under another name
Part = tuple[NDArray[np.int64], dict[str, Any]]  # places of rows in their block, and their predictions by column
MAX_UNKNOWN_MACHINES = 100  # names of machines that are looked up in vain


@dataclass(frozen=True)
class Defaults:
    """What a row takes when it does not say: machine, dtype and storage formats, options of `predict`."""

    machine: Machine | None
    load: Callable[[str], Machine]
    formats: dict[str, str]
    options: dict[str, Any]


def run(
    rows: Iterable[Row], defaults: Defaults, most: int | None = None, results: Sequence[str] = RESULTS
) -> tuple[list[Row], dict[int, str]]:
    """The rows with these results (the first `most` of them), and what is wrong with which of all, by its number."""
    table = CaseTable(Columns.of_rows(rows), defaults, results)
    return [row for block in table.blocks(most) for row in block.rows()], table.errors


@dataclass
class CaseTable:
    """A table of cases and its predictions, which are made block by block. `errors` grow with the blocks."""

    given: Columns
    defaults: Defaults
    results: Sequence[str] = RESULTS
    errors: dict[int, str] = field(default_factory=dict)  # by number of the row, from 1
    _machines: dict[str, Machine | RidgelineError] = field(default_factory=dict)

    @property
    def order(self) -> list[str]:
        """The columns of the predicted table: those given, then the results."""
        return list(dict.fromkeys([*map(_kept_name, self.given.cells), *NAMES, *self.results, "error"]))

    def blocks(self, most: int | None = None) -> Iterator[Columns]:
        """The rows with their predictions; of rows after the first `most` only the errors are found."""
        count = len(self.given) if most is None else min(most, len(self.given))
        for block in self.given.part(0, count).blocks():
            yield self._predicted(block)
        for block in self.given.part(count, len(self.given)).blocks():
            self._faults(block, count + block.first, None)

    def _predicted(self, block: Columns) -> Columns:
        cells = {_kept_name(name): column for name, column in block.cells.items()}
        parts: list[Part] = []
        errors = self._faults(block, block.first, parts)
        for name in (*NAMES, *self.results):
            cells[name] = _joined([(places, values[name]) for places, values in parts], cells.get(name), len(block))
        cells["error"] = [errors.get(place, "") for place in range(len(block))] if errors else [""] * len(block)
        return Columns(cells, len(block), block.first)

    def _faults(self, block: Columns, first: int, parts: list[Part] | None) -> dict[int, str]:
        """By place why a row has no prediction; the predictions of the others go to `parts`, where they are wanted."""
        calls, faults = batches(block, self.defaults.formats, ("machine", "backend"))
        for batch in calls:
            machine = self._machine(batch.labels.get("machine", ""))
            if isinstance(machine, RidgelineError):
                column = "machine" if batch.labels.get("machine") else "op"
                faults |= dict.fromkeys(batch.places, (f"column {column}: {machine}",))
                continue
            options = {**self.defaults.options}
            if "backend" in batch.labels:
                options |= {"backend": None, "ran_on": batch.labels["backend"]}
            # of rows that are not shown it matters only whether they have a time
            wanted = ("time_us",) if parts is None else ("dtype", "machine", *self.results)
            faults |= _predict(batch, machine, options, wanted, parts)
        errors = {place: f"row {first + place + 1}, {'; '.join(faults[place])}" for place in sorted(faults)}
        self.errors |= {first + place + 1: text for place, text in errors.items()}
        return errors

    def _machine(self, name: str) -> Machine | RidgelineError:
        """The machine of a name, looked up once."""
        if name not in self._machines:
            self._machines[name] = self._loaded(name)
        return self._machines[name]

    def _loaded(self, name: str) -> Machine | RidgelineError:
        if not name:
            return self.defaults.machine or InputError("no machine: name one for all rows, or in a column `machine`")
        if sum(isinstance(machine, RidgelineError) for machine in self._machines.values()) >= MAX_UNKNOWN_MACHINES:
            return InputError(f"not looked up after {MAX_UNKNOWN_MACHINES} unknown machines; correct those first")
        try:
            return self.defaults.load(name)
        except RidgelineError as error:
            return error


def _kept_name(name: str) -> str:
    return f"given_{name}" if name in HIDDEN else name


def _predict(
    batch: Batch, machine: Machine, options: Mapping[str, Any], wanted: Sequence[str], parts: list[Part] | None
) -> Faults:
    """The predictions of a batch to the end of `parts`; by place why a row has none."""
    count = len(batch.places)
    try:
        columns = predict_cases(batch.op, machine, batch.sizes, wanted, batch.words, **options)
    except RidgelineError as error:
        if count == 1:
            return {batch.places[0]: (f"column op: {error}",)}
        halves = (batch.part(0, count // 2), batch.part(count // 2, count))  # which lead to the rows at fault
        return {place: why for half in halves for place, why in _predict(half, machine, options, wanted, parts).items()}
    if parts is not None:
        parts.append((np.array(batch.places), {"op": batch.op.name, **columns}))
    return {}


def _joined(parts: Sequence[tuple[NDArray[np.int64], Any]], given: list[Any] | None, count: int) -> Any:
    """One column of the parts; rows that are in none of them keep what was given."""
    values = [(places, np.asarray(value)) for places, value in parts]
    if sum(len(places) for places, _ in values) == count and all(value.dtype.kind == "f" for _, value in values):
        numbers = np.empty(count)
        for places, value in values:
            numbers[places] = value
        return numbers
    column = np.full(count, None, dtype=object)
    if given is not None:
        column[:] = given
    for places, value in values:
        column[places] = value.item() if value.ndim == 0 else listed(value, len(places))
    return column.tolist()
