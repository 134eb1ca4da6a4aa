"""Cases: rows of a table, or words of a command, as arguments of ops.

A row names its op in the column `op` and gives the op's parameters in columns of their names. `batches` sorts rows into
array calls, `program` makes a Program of them, `arguments` reads `name=value` words. All of them read values by the rule
of `Param`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError, RidgelineError, letters
from ..core.tabular import SUFFIXES, Row, columns, delimiter, read_rows, write_rows
from ..core.units import MAX_EXACT, axis, number
from ..core.work import Program, Step
from .ops import OPS, Op, find, op_name
from .ops.aliases import SIZES, size_name
from .ops.registry import blank

# Columns that are read; any other is carried along.
KNOWN = {"op", "name", "machine", "backend", "count", "sent", "time_us", *(name for op in OPS.values() for name in op.params)}  # fmt: skip

OTHER_SIZES = {letters(name) for name in SIZES}


def read(path: Path) -> list[Row]:
    """The cases of a file; one without cases or without a column `op` is refused."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: cases are read from {', '.join(SUFFIXES)}, not from '{path.suffix}'")
    rows = [unfold(row) for row in read_rows(path)]
    if not rows:
        raise InputError(f"{path} holds no cases; a table has one row per kernel, with the columns op and its sizes")
    names = columns(rows)
    spelling = {letters(name): name for name in KNOWN}
    renamed = {name: spelling[letters(name)] for name in names if spelling.get(letters(name), name) != name}
    for name, known in renamed.items():
        if known in names or list(renamed.values()).count(known) > 1:
            raise InputError(f"{path} has the column {known} twice, once as '{name}'; keep one of them")
    if renamed:
        rows = [{renamed.get(name, name): cell for name, cell in row.items()} for row in rows]
        names = columns(rows)
    if any(letters(name) in OTHER_SIZES for name in names if name not in KNOWN):
        rows = [_with_sizes(row) for row in rows]
    if "op" not in names:
        header = ", ".join(names)
        sign = delimiter(header)
        hint = f"; its cells look separated by '{sign}', and belong separated by ','" if sign in names[0] else ""
        raise InputError(f"{path} has no column op, which names the op of each case; it has {header[:200]!r}{hint}")
    return rows


def write(rows: Sequence[Row], path: Path) -> None:
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: cases are written to {', '.join(SUFFIXES)}, not to '{path.suffix}'")
    write_rows(rows, path)


def unfold(row: Row) -> Row:
    """A row with its sizes as columns, also where a prediction wrote it: under `shape`, or `bytes` as `given_bytes`."""
    if not blank(row.get("given_bytes")):  # `bytes` is then what a collective moves
        row = {**row, "bytes": row["given_bytes"]}
    shape = row.get("shape")
    return {**{key: value for key, value in row.items() if key != "shape"}, **shape} if isinstance(shape, dict) else row


def _with_sizes(row: Row) -> Row:
    """A row whose sizes have other names (`in`, `batch_size`) under those of its op; what the row has stays."""
    name = op_name(_text(row.get("op")).strip())
    if name is None:
        return row
    params = OPS[name].params
    names = {key: key if key in KNOWN else size_name(key, params) or key for key in row}
    return {key if known in row else known: row[key] for key, known in names.items()}


# -- words of a command --------------------------------------------------------------------------------------------


def arguments(
    op: Op, words: Iterable[str], formats: Mapping[str, str | None] | None = None, sweeps: bool = True
) -> dict[str, Any]:
    """`name=value` words and formats given apart as arguments of an op; sizes may be sweeps, such as `m=1..8192`."""
    values: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals:
            raise InputError(f"'{word}' is not of the form name=value; {op.name} is {op.signature}")
        name = op.parameter(name)
        if name in values:
            raise InputError(f"{op.name}: {name} is given twice")
        values[name] = text
        if op.params[name].kind in ("Size", "Count"):
            try:
                read = axis if sweeps else number
                values[name] = read(text, op.params[name].unit)
            except InputError as error:
                raise InputError(f"{op.name}: {name}: {error}") from error
    for name, value in (formats or {}).items():
        if value is None:
            continue
        if name not in op.params:
            raise InputError(f"{op.name} has no {name}; it is {op.signature}")
        if name in values:
            raise InputError(f"{op.name}: {name} is given twice, as {name}={values[name]} and as an option")
        values[name] = value
    return values


# -- rows to a Program ---------------------------------------------------------------------------------------------


def op_of(row: Mapping[str, Any]) -> Op:
    cell = row.get("op")
    if blank(cell):
        raise InputError("column op: is empty")
    try:
        return find(str(cell).strip())
    except RidgelineError as error:
        raise InputError(f"column op: {error}") from error


def program(rows: Sequence[Mapping[str, Any]], name: str = "") -> Program:
    """Named steps of the cases' ops; a case without a name goes by its op, and a name that comes again is numbered."""
    steps: list[Step] = []
    uses: dict[str, int] = {}
    for index, row in enumerate(rows, 1):
        if blank(row.get("op")):
            raise InputError(f"row {index}, column op: is empty; the columns are {', '.join(map(str, row))[:200]}")
        try:
            op = op_of(row)
            values, count = op.bind(row), _count(row.get("count"))
        except RidgelineError as error:
            raise InputError(f"row {index}, {error}") from error
        try:
            work = op(**values)
        except RidgelineError as error:
            raise InputError(f"row {index}: {error}") from error
        step = str(row.get("name") or "").strip() or op.name
        uses[step] = uses.get(step, 0) + 1
        if uses[step] > 1:
            step = f"{step}#{uses[step]}"
        steps.append(Step(step, work, count, str(row.get("backend") or "").strip()))
    if not steps:
        raise InputError("there are no cases; a table has one row per kernel, with the columns op, name and its sizes")
    return Program(tuple(steps), name)


def _count(cell: Any) -> float:
    """How often a case runs; once where the table does not say."""
    if blank(cell):
        return 1.0
    try:
        count = number(cell) if isinstance(cell, str) else cell
    except InputError:
        count = None
    if isinstance(count, bool) or not isinstance(count, int | float) or not 0 < count <= MAX_EXACT:
        raise InputError(f"column count: is {str(cell)!r}; how often a case runs is a number above 0")
    return float(count)


# -- rows to array calls -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """Rows that one array call of an op computes: they agree in every word and in which sizes they give."""

    op: Op
    words: dict[str, str]
    sizes: dict[str, NDArray[np.float64]]
    labels: dict[str, str]  # by column: the text of a column that is no parameter of the op
    places: list[int]  # which rows of the table, from 0, in order

    def part(self, start: int, stop: int) -> Batch:
        sizes = {name: values[start:stop] for name, values in self.sizes.items()}
        return replace(self, sizes=sizes, places=self.places[start:stop])


def batches(
    rows: Sequence[Mapping[str, Any]], formats: Mapping[str, str] | None = None, labels: Sequence[str] = ("backend",)
) -> tuple[list[Batch], dict[int, str]]:
    """The rows as array calls, and by place why a row is in none.

    The rows of a batch also agree in the columns `labels`. `formats` are the words of rows that leave them out.
    """
    calls = []
    groups, faults = _groups(rows, labels)
    for op, words, sizes, places in groups:
        cells = {name: [rows[place][name] for place in places] for name in sizes}
        try:
            values, wrong = op.bind_columns(words, cells, formats)
        except InputError as error:
            faults.update(dict.fromkeys(places, str(error)))
            continue
        if wrong:
            faults |= {places[position]: why for position, why in wrong.items()}
            good = [position for position in range(len(places)) if position not in wrong]
            values |= {name: values[name][good] for name in sizes}
            places = [places[position] for position in good]
        if places:
            arrays = {name: values.pop(name) for name in sizes}
            named = {name: words[name] for name in labels if name in words}
            calls.append(Batch(op, values, arrays, named, places))
    return calls, faults


_Group = tuple[Op, dict[str, str], list[str], list[int]]  # op, words by column, columns of sizes, places of the rows


def _groups(rows: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> tuple[list[_Group], dict[int, str]]:
    """Rows of one op with the same words and the same sizes filled; and by place why a row has no op."""
    present = set(columns(rows))
    reads: dict[str, tuple[Op, list[str], list[str]]] = {}  # by name of the op: its columns of words and of sizes
    groups: dict[tuple[Any, ...], list[int]] = {}
    faults: dict[int, str] = {}
    for place, row in enumerate(rows):
        name = _text(row.get("op"))
        if name not in reads:
            try:
                op = op_of(row)
            except InputError as error:
                faults[place] = str(error)
                continue
            params = [param for param in op.params.values() if param.name in present]
            words = [*(label for label in labels if label in present), *(p.name for p in params if p.is_word)]
            reads[name] = op, words, [param.name for param in params if not param.is_word]
        _, words, sizes = reads[name]
        key = name, tuple(map(_text, map(row.get, words))), tuple(map(blank, map(row.get, sizes)))
        groups.setdefault(key, []).append(place)
    named = []
    for (name, texts, empty), places in groups.items():
        op, words, sizes = reads[name]
        shared = {word: text.strip() for word, text in zip(words, texts, strict=True) if text.strip()}
        filled = [size for size, is_empty in zip(sizes, empty, strict=True) if not is_empty]
        named.append((op, shared, filled, places))
    return named, faults


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else "" if blank(cell) else str(cell)
