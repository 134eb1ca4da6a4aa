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
    given = list(rows)
    results = [
        dict(row)
        if HIDDEN.isdisjoint(row)
        else {(f"given_{key}" if key in HIDDEN else key): value for key, value in row.items()}
        for row in given[:most]
    ]
    groups, faults = batches(given, defaults.formats, ("machine", "backend"))
    for batch in groups:
        name = batch.labels.get("machine", "")
        try:
            machine = defaults.load(name) if name else defaults.machine
            if machine is None:
                raise InputError("no machine: name one for all rows, or in a column `machine`")
        except RidgelineError as error:
            faults |= dict.fromkeys(batch.places, f"column {'machine' if name else 'op'}: {error}")
            continue
        backend = {"backend": batch.labels["backend"]} if "backend" in batch.labels else {}
        shown = bisect_left(batch.places, len(results))
        for part in (batch.part(0, shown), batch.part(shown, len(batch.places))):
            if part.places:
                faults |= _predict(part, machine, {**defaults.options, **backend}, results)
    errors = {place + 1: f"row {place + 1}, {faults[place]}" for place in sorted(faults)}
    for index, row in enumerate(results, 1):
        row.update({**dict.fromkeys(RESULTS), "error": errors[index]} if index in errors else {"error": ""})
    return results, errors


def _predict(batch: Batch, machine: Machine, options: dict[str, Any], results: list[Row]) -> dict[int, str]:
    """The predictions of a batch into their rows of `results`; by place why a row has none."""
    count = len(batch.places)
    shown = batch.places[0] < len(results)
    # of rows that are not shown it matters only whether they have a time
    wanted = ("dtype", "machine", *RESULTS) if shown else ("time_us",)
    try:
        columns = predict_cases(batch.op, machine, batch.sizes, wanted, **options, **batch.words)
    except RidgelineError as error:
        if count == 1:
            return {batch.places[0]: f"column op: {error}"}
        halves = (batch.part(0, count // 2), batch.part(count // 2, count))  # which lead to the rows at fault
        return {place: why for half in halves for place, why in _predict(half, machine, options, results).items()}
    if shown:
        lists = {"op": [batch.op.name] * count} | {name: listed(value, count) for name, value in columns.items()}
        for place, values in zip(batch.places, zip(*lists.values(), strict=True), strict=True):
            results[place].update(zip(lists, values, strict=True))
    return {}
