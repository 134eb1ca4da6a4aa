"""Cases: rows of a table, or words of a command, as arguments of ops.

A row names its op in the column `op` and gives the op's parameters in columns of their names. `batches` is the one check
of rows: it sorts them into array calls and says what is wrong with the others. `checked` gives each row its op and
arguments, `program` makes a Program of them, `arguments` reads `name=value` words. All of them read values by the rule of
`Param`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.columns import ABSENT, Columns
from ..core.errors import InputError, RidgelineError, letters, quoted, unknown
from ..core.intake.door import Door, shown
from ..core.intake.limits import refuse_over
from ..core.tabular import SUFFIXES, Row, read_columns, write_rows
from ..core.units import MAX_EXACT, axis, number
from ..core.work import Program, Step
from .ops import OPS, Op, op_name
from .ops.aliases import ALIASES, SIZES, size_name
from .ops.registry import blank

# Columns that are read; any other is carried along.
KNOWN = {"op", "name", "machine", "backend", "count", "sent", "time_us", *(name for op in OPS.values() for name in op.params)}  # fmt: skip

OTHER_SIZES = {letters(name) for name in SIZES}
Faults = dict[int, tuple[str, ...]]  # by place of a row, from 0: what is wrong with it, each with its column


def read(path: Path) -> list[Row]:
    """The cases of a file as rows."""
    return read_table(path).rows()


def read_table(path: Path) -> Columns:
    """The cases of a file; one without cases or without a column `op` is refused."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: cases are read from {', '.join(SUFFIXES)}, not from '{path.suffix}'")
    table = _unfolded(read_columns(path))
    if not len(table):
        raise InputError(f"{path} holds no cases; a table has one row per kernel, with the columns op and its sizes")
    refuse_over("cases", len(table), f"{path} with its {len(table):,} cases")
    spelling = {letters(name): name for name in KNOWN}
    renamed = {name: spelling[letters(name)] for name in table.cells if spelling.get(letters(name), name) != name}
    for name, known in renamed.items():
        if known in table.cells or list(renamed.values()).count(known) > 1:
            raise InputError(f"{path} has the column {known} twice, once as {quoted(name)}; keep one of them")
    table = Columns({renamed.get(name, name): cells for name, cells in table.cells.items()}, len(table))
    if "op" not in table.cells:
        header = ", ".join(table.cells)
        raise InputError(f"{path} has no column op, which names the op of each case; it has {header[:200]!r}")
    return _with_sizes(table)


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


def _unfolded(table: Columns) -> Columns:
    if any(isinstance(cell, dict) for cell in table.cells.get("shape", ())):
        return Columns.of_rows(map(unfold, table.rows()))
    if "given_bytes" in table.cells:
        own = table.cells.get("bytes", [ABSENT] * len(table))
        moved = [size if blank(given) else given for size, given in zip(own, table.cells["given_bytes"], strict=True)]
        return Columns({**table.cells, "bytes": moved}, len(table))
    return table


def _with_sizes(table: Columns) -> Columns:
    """The table with sizes that have other names (`in`, `batch_size`) under those of their op; what a row has stays."""
    others = [name for name in table.cells if name not in KNOWN and letters(name) in OTHER_SIZES]
    if not others:
        return table
    names = {text: op_name(text.strip()) for text in set(map(_text, table.cells["op"]))}
    cells = dict(table.cells)
    for other in others:
        known = {text: size_name(other, OPS[name].params) for text, name in names.items() if name is not None}
        kept = list(cells[other])
        moved: dict[str, list[Any]] = {}
        for place, op in enumerate(table.cells["op"]):
            size = known.get(_text(op))
            if size is None or (size in table.cells and table.cells[size][place] is not ABSENT):
                continue
            moved.setdefault(size, cells.get(size) or [ABSENT] * len(table))[place] = kept[place]
            kept[place] = ABSENT
        cells[other] = kept
        cells |= moved
        if all(cell is ABSENT for cell in kept):
            del cells[other]
    return Columns(cells, len(table))


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


MAX_EXPLAINED = 200  # different names of ops that are looked for among similar ones
UNEXPLAINED = "column op: names no op, like many rows before it; correct those first"


def batches(
    table: Columns, formats: Mapping[str, str] | None = None, labels: Sequence[str] = ("backend",)
) -> tuple[list[Batch], Faults]:
    """The rows as array calls, and by place why a row is in none.

    The rows of a batch also agree in the columns `labels`. `formats` are the words of rows that leave them out.
    """
    calls = []
    groups, faults = _groups(table, labels)
    for op, words, cells, places in groups:
        values, wrong, shared = op.bind_columns(words, cells, formats)
        if shared:
            faults |= {place: (*shared, *wrong.get(position, ())) for position, place in enumerate(places)}
            continue
        if wrong:
            faults |= {places[position]: tuple(why) for position, why in wrong.items()}
            good = [position for position in range(len(places)) if position not in wrong]
            values |= {name: values[name][good] for name in cells}
            places = [places[position] for position in good]
        if places:
            arrays = {name: values.pop(name) for name in cells}
            named = {name: words[name] for name in labels if name in words}
            calls.append(Batch(op, values, arrays, named, places))
    return sorted(calls, key=lambda batch: batch.places[0]), faults


# op, words by column, cells of sizes by column, places of the rows
_Group = tuple[Op, dict[str, str], dict[str, list[Any]], list[int]]


def _groups(table: Columns, labels: Sequence[str]) -> tuple[list[_Group], Faults]:
    """Rows of one op with the same words and the same sizes filled; and by place why a row has no op."""
    ops = _texts(table.cells["op"]) if "op" in table.cells else [""] * len(table)
    groups: list[_Group] = []
    faults: Faults = {}
    for number_of, ((text,), places) in enumerate(_alike([ops])):
        name = op_name(text.strip())
        if name is not None:
            groups += _groups_of_op(OPS[name], table, places, labels)
        else:
            why = _no_op(text.strip(), table.cells) if number_of < MAX_EXPLAINED else UNEXPLAINED
            faults.update(dict.fromkeys(places, (why,)))
    return groups, faults


def _no_op(text: str, names: Iterable[str]) -> str:
    """Why a text names no op."""
    if text:
        return f"column op: {unknown('op', text, [*OPS, *ALIASES])}"
    return "column op: is empty" + ("" if "op" in names else f"; the columns are {', '.join(names)[:200]}")


def _groups_of_op(op: Op, table: Columns, places: list[int], labels: Sequence[str]) -> list[_Group]:
    params = [param for param in op.params.values() if param.name in table.cells]
    words = [*(label for label in labels if label in table.cells), *(param.name for param in params if param.is_word)]
    sizes = [param.name for param in params if not param.is_word]
    cells = {name: list(map(table.cells[name].__getitem__, places)) for name in (*words, *sizes)}
    keys: list[list[Any]] = [_texts(cells[name]) for name in words]
    keys += [_filled(cells[name]) for name in sizes]
    if not keys:
        return [(op, {}, {}, places)]
    groups: list[_Group] = []
    for key, alike in _alike(keys):
        shared = {word: text.strip() for word, text in zip(words, key, strict=False) if text.strip()}
        filled = [size for size, is_filled in zip(sizes, key[len(words) :], strict=True) if is_filled]
        if len(alike) == len(places):
            groups.append((op, shared, {name: cells[name] for name in filled}, places))
        else:
            part = {name: list(map(cells[name].__getitem__, alike)) for name in filled}
            groups.append((op, shared, part, [places[place] for place in alike]))
    return groups


def _alike(columns: Sequence[list[Any]]) -> list[tuple[tuple[Any, ...], list[int]]]:
    """The rows of these columns that agree in all of them: what they have, and their places; in order of appearance."""
    count = len(columns[0])
    if not count:
        return []
    keys: list[tuple[Any, ...]] = [()]
    which = np.zeros(count, dtype=np.int64)  # the key of each row
    for column in columns:
        values = list(dict.fromkeys(column))
        if len(values) > 1:
            number_of = {value: place for place, value in enumerate(values)}
            pairs = which * len(values) + np.fromiter(map(number_of.__getitem__, column), np.int64, count)
            kept, which = np.unique(pairs, return_inverse=True)
        else:
            kept = np.arange(len(keys))
        keys = [(*keys[pair // len(values)], values[pair % len(values)]) for pair in kept.tolist()]
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(keys)))
    parts = [part.tolist() for part in np.split(order, ends[:-1])]
    return sorted(zip(keys, parts, strict=True), key=lambda group: group[1][0])


def _texts(cells: list[Any]) -> list[str]:
    return cells if set(map(type, cells)) == {str} else list(map(_text, cells))


def _filled(cells: list[Any]) -> list[bool]:
    """Which cells say something; found at once where all are texts without blanks."""
    if set(map(type, cells)) == {str} and " " not in "".join(cells):
        return list(map(bool, cells))
    return [not blank(cell) for cell in cells]


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        return cell
    return "" if blank(cell) else shown(cell) if isinstance(cell, Mapping | list | int) else str(cell)


# -- rows to a Program ---------------------------------------------------------------------------------------------


def checked(rows: Sequence[Mapping[str, Any]], where: str = "the cases") -> list[tuple[Op, dict[str, Any]]]:
    """The op and the arguments of every row; a SchemaError says what is wrong with which rows, all at once."""
    if not rows:
        raise InputError("there are no cases; a table has one row per kernel, with the columns op, name and its sizes")
    calls, faults = batches(Columns.of_rows(rows), labels=())
    for place, row in enumerate(rows):
        why = (*faults.get(place, ()), *_other_faults(row))
        if why:
            faults[place] = why
    refuse(faults, where)
    bound: list[tuple[Op, dict[str, Any]]] = [None] * len(rows)  # type: ignore[list-item]
    for batch in calls:
        for position, place in enumerate(batch.places):
            sizes = {name: float(values[position]) for name, values in batch.sizes.items()}
            bound[place] = batch.op, {**sizes, **batch.words}
    return bound


def refuse(faults: Faults, where: str) -> None:
    """SchemaError with the faults of rows, where there are any."""
    door = Door(where)
    for place in sorted(faults):
        for why in faults[place]:
            door.complain("", f"row {place + 1}, {why}")
    door.close()


def program(rows: Sequence[Mapping[str, Any]], name: str = "", where: str = "the cases") -> Program:
    """Named steps of the cases' ops; a case without a name goes by its op, and a name that comes again is numbered."""
    steps: list[Step] = []
    uses: dict[str, int] = {}
    faults: Faults = {}
    for place, (row, (op, values)) in enumerate(zip(rows, checked(rows, where), strict=True)):
        try:
            work = op(**values)
        except RidgelineError as error:
            faults[place] = (f"column op: {error}",)
            continue
        step = _text(row.get("name")).strip() or op.name
        uses[step] = uses.get(step, 0) + 1
        if uses[step] > 1:
            step = f"{step}#{uses[step]}"
        steps.append(Step(step, work, _count(row.get("count")), _text(row.get("backend")).strip()))
    refuse(faults, where)
    return Program(tuple(steps), name)


def _other_faults(row: Mapping[str, Any]) -> list[str]:
    """What is wrong with the cells of a row that are no parameters of an op."""
    texts = [name for name in ("name", "machine", "backend", "sent") if isinstance(row.get(name), Mapping | list)]
    faults = [f"column {name}: must be a text, got {shown(row[name])}" for name in texts]
    if _count(row.get("count")) <= 0:
        faults.append(f"column count: is {quoted(row['count'])}; how often a case runs is a number above 0")
    return faults


def _count(cell: Any) -> float:
    """How often a case runs; once where the table does not say, 0 where it is no number."""
    if blank(cell):
        return 1.0
    try:
        count = number(cell) if isinstance(cell, str) else cell
    except InputError:
        return 0.0
    valid = isinstance(count, int | float) and not isinstance(count, bool) and 0 < count <= MAX_EXACT
    return float(count) if valid else 0.0
