"""A table of cases in, the same rows with predictions out: csv, jsonl, json, parquet.

A file that cannot be what was meant (no cases, no column `op`, a column twice or misspelt) is refused whole. Rows are
grouped by op, dtype, machine and options, and each group is one array call. A row that cannot be predicted keeps its
place and says why in `error`, naming the column; the others come out all the same.
"""

from __future__ import annotations

import csv
import io
import json
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.dtypes import dtype as dtype_row
from ..core.errors import InputError, RidgelineError
from ..core.files import write_atomically
from ..core.machine import Machine
from ..core.text import delimiter, opened
from ..core.units import MAX_EXACT, number
from ..profilers.plain import json_lines, once, pairs
from ..programs.ops import OPS, Op, find
from ..programs.ops.registry import NO, YES, Param
from .predict import RESULTS, listed, predict_cases

SUFFIXES = (".csv", ".jsonl", ".json", ".parquet")
Row = dict[str, Any]


# columns that somebody reads; any other is carried along
KNOWN = {"op", "name", "machine", "backend", "count", "sent", "time_us", *(name for op in OPS.values() for name in op.params)}  # fmt: skip


def read(path: Path) -> list[Row]:
    """The rows of a file, by its suffix; what an empty field holds does not apply."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: cases are read from {', '.join(SUFFIXES)}, not from '{path.suffix}'")
    rows = READERS[path.suffix](path)
    if not rows:
        raise InputError(f"{path} holds no cases; a table has one row per kernel, with the columns op and its sizes")
    columns = _columns(rows)
    meant = {_letters(name): name for name in KNOWN}
    for name in columns:
        right = meant.get(_letters(name), name)
        if right != name:
            raise InputError(f"{path} has a column '{name}', which nobody reads; it is spelt {right}")
    if "op" not in columns:
        header = ", ".join(columns)
        sign = delimiter(header)
        hint = f"; its cells look separated by '{sign}', and belong separated by ','" if sign in columns[0] else ""
        raise InputError(f"{path} has no column op, which names the op of each case; it has {header[:200]!r}{hint}")
    return rows


def _letters(name: str) -> str:
    """A column's name without what hands and programs vary: case, blanks, dashes."""
    return re.sub(r"[\s_-]+", "", name).casefold()


def _text(path: Path) -> str:
    with opened(path) as stream:
        text = stream.read().removeprefix("\ufeff")
    if "\ufffd" in text or "\0" in text:
        raise InputError(f"{path} is not a text file in UTF-8 or UTF-16; save it again as UTF-8")
    return text


def _read_csv(path: Path) -> list[Row]:
    lines = csv.reader(io.StringIO(_text(path), newline=""))
    try:
        cells = [line for line in lines if line]
    except csv.Error as error:
        raise InputError(f"{path}, line {lines.line_num}, cannot be read: {error}") from error
    header, *rest = cells or [[]]
    once(header, str(path))
    for index, row in enumerate(rest, 1):
        if len(row) > len(header):
            raise InputError(f"{path}, row {index}: more fields than the header has")
    empty = dict.fromkeys(header)
    return [
        dict(zip(header, row, strict=True))
        if len(row) == len(header)
        else {**empty, **dict(zip(header, row, strict=False))}
        for row in rest
    ]


def _read_json(path: Path) -> list[Row]:
    def parsed(text: str) -> Any:
        return json.loads(text, object_pairs_hook=pairs)

    text = _text(path)
    try:
        found = parsed(text) if path.suffix == ".json" and text.strip() else json_lines(text, parsed)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid {path.suffix[1:]}: {error}") from error
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InputError(f"{path} must hold a list of objects, one per case")
    return [_unfold(row) for row in found]


def _unfold(row: Row) -> Row:
    """A prediction's own JSON keeps its sizes under `shape`; they are columns like any other."""
    shape = row.get("shape")
    return {**{key: value for key, value in row.items() if key != "shape"}, **shape} if isinstance(shape, dict) else row


def _read_parquet(path: Path) -> list[Row]:
    parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except OSError as error:
        raise InputError(f"cannot read the cases {path}: {error.strerror or error}") from error
    except Exception as error:  # pyarrow has an exception family of its own
        raise InputError(f"{path} is not a parquet file: {error}") from error
    once(table.column_names, str(path))
    rows: list[Row] = table.to_pylist()
    return rows


READERS: dict[str, Callable[[Path], list[Row]]] = {
    ".csv": _read_csv,
    ".jsonl": _read_json,
    ".json": _read_json,
    ".parquet": _read_parquet,
}


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError("parquet files need pyarrow; install ridgeline[data], or use .csv or .jsonl") from None
    return parquet


def write(rows: list[Row], path: Path) -> None:
    """The rows to a file by its suffix, whole or not at all."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: cases are written to {', '.join(SUFFIXES)}, not to '{path.suffix}'")
    write_atomically(path, lambda draft: WRITERS[path.suffix](rows, draft))


def _columns(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(rows)))


def _write_csv(rows: list[Row], draft: Path) -> None:
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows([{key: "" if value is None else value for key, value in row.items()} for row in rows])


def _write_jsonl(rows: list[Row], draft: Path) -> None:
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_json(rows: list[Row], draft: Path) -> None:
    draft.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def _write_parquet(rows: list[Row], draft: Path) -> None:
    parquet = _pyarrow()
    import pyarrow

    data = {}
    for column in _columns(rows):
        values = [row.get(column) for row in rows]
        if any(isinstance(value, str) for value in values):
            values = [None if value is None else str(value) for value in values]
        elif any(isinstance(value, float) for value in values):
            values = [None if value is None else float(value) for value in values]
        data[column] = pyarrow.array(values)
    parquet.write_table(pyarrow.table(data), draft)


WRITERS: dict[str, Callable[[list[Row], Path], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".json": _write_json,
    ".parquet": _write_parquet,
}


@dataclass(frozen=True)
class Defaults:
    """What a row takes when it does not say: dtype, machine, storage formats."""

    machine: Machine | None
    load: Callable[[str], Machine]
    formats: dict[str, str]
    options: dict[str, Any]


def _blank(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and np.isnan(value))


class _Alike(NamedTuple):
    """What must be one value within an array call: the op, the machine, the library, every option that is a word."""

    op: str
    words: tuple[str, ...]  # by the names in `_Run.reads`; empty where a row does not say
    filled: tuple[bool, ...]  # which of its sizes a row gives


def _word(value: Any) -> str:
    return value if isinstance(value, str) else "" if _blank(value) else str(value)


def _words(op: Op) -> list[Param]:
    return [param for param in op.params.values() if param.kind in ("Format", "Choice")]


def _sizes(op: Op) -> list[Param]:
    return [param for param in op.params.values() if param.kind in ("Size", "Count", "Flag")]


def _chosen(op: Op, told: dict[str, str], defaults: Defaults) -> dict[str, str]:
    """The words of an array call by name, those that are not told as the caller's defaults say."""
    words = {}
    for param in _words(op):
        value = told.get(param.name) or defaults.formats.get(param.name)
        if not value:
            continue
        try:
            words[param.name] = dtype_row(value).name if param.kind == "Format" else value
            if param.choices and value not in param.choices:
                raise InputError(f"'{value}' is not {param.words}")
        except RidgelineError as error:
            raise InputError(f"column {param.name}: {error}") from error
    return words


def _number(param: Param, value: Any) -> float:
    where = f"column {param.name}"
    if param.kind == "Flag":
        text = str(value).strip().lower().removesuffix(".0")
        if text in YES + NO:
            return float(text in YES)
        raise InputError(f"{where}: must be yes or no, got '{value}'")
    try:
        found = float(value) if not isinstance(value, str) else number(value)
    except (RidgelineError, TypeError, ValueError, OverflowError):
        raise InputError(f"{where}: must be {param.words}, got '{value}'") from None
    least = 1 if param.kind == "Size" else 0
    if not (least <= found <= MAX_EXACT) or found != int(found):
        raise InputError(f"{where}: must be {param.words}, got '{value}'")
    return found


def _column(param: Param, values: Sequence[Any]) -> tuple[NDArray[np.float64], dict[int, str]]:
    """The numbers of a column, and by place what is wrong with those that are none."""
    if param.kind != "Flag":
        least = 1 if param.kind == "Size" else 0
        try:  # all at once, where all are written as programs write numbers
            found = np.array(values, dtype=np.float64)
            if found.ndim == 1 and np.all((found >= least) & (found <= MAX_EXACT) & (found == np.floor(found))):
                return found, {}
        except (TypeError, ValueError, OverflowError):
            pass
    found, wrong = np.ones(len(values)), {}
    for place, value in enumerate(values):
        try:
            found[place] = _number(param, value)
        except InputError as error:
            wrong[place] = str(error)
    return found, wrong


def run(rows: Iterable[Row], defaults: Defaults, most: int | None = None) -> tuple[list[Row], dict[int, str]]:
    """The rows with their predictions (the first `most` of them), and what is wrong with which of all, by its number."""
    return _Run(list(rows), defaults, most).all()


HIDDEN = {*RESULTS, "error"}  # a column of the caller's that a result would hide keeps its values under another name


class _Run:
    """Cases on their way to predictions: `results` has the rows that are wanted, `errors` by place what went wrong."""

    def __init__(self, rows: list[Row], defaults: Defaults, most: int | None) -> None:
        self.rows = rows
        self.defaults = defaults
        self.errors: dict[int, str] = {}
        self.reads: dict[
            str, tuple[list[str], list[str]]
        ] = {}  # by op: the columns of words and of sizes that it reads
        self.results = [
            dict(row)
            if HIDDEN.isdisjoint(row)
            else {(f"given_{key}" if key in HIDDEN else key): value for key, value in row.items()}
            for row in rows[:most]
        ]

    def all(self) -> tuple[list[Row], dict[int, str]]:
        groups: dict[_Alike, list[int]] = {}
        for place, key in enumerate(self._keys()):
            if key is not None:
                groups.setdefault(key, []).append(place)
        for key, places in groups.items():
            self._group(key, places)
        told = {place + 1: f"row {place + 1}, {self.errors[place]}" for place in sorted(self.errors)}
        for index, row in enumerate(self.results, 1):
            row.update({**dict.fromkeys(RESULTS), "error": told[index]} if index in told else {"error": ""})
        return self.results, told

    def _keys(self) -> Iterable[_Alike | None]:
        """What each row must share with others to go through together; None where its op is not known."""
        present = set(_columns(self.rows))
        for place, row in enumerate(self.rows):
            name = _word(row.get("op"))
            if name not in self.reads:
                try:
                    if not name.strip():
                        raise InputError("is empty")
                    op = find(name.strip())
                except RidgelineError as error:
                    self.errors[place] = f"column op: {error}"
                    yield None
                    continue
                words = ["machine", "backend", *(one.name for one in _words(op))]
                sizes = [one.name for one in _sizes(op)]
                self.reads[name] = [one for one in words if one in present], [one for one in sizes if one in present]
            words, sizes = self.reads[name]
            yield _Alike(
                name,
                tuple(["" if value is None else _word(value) for value in map(row.get, words)]),
                tuple([value is not None and value != "" and value == value for value in map(row.get, sizes)]),
            )

    def _group(self, key: _Alike, places: list[int]) -> None:
        op = find(key.op.strip())
        words, sizes = self.reads[key.op]
        told = {name: word.strip() for name, word in zip(words, key.words, strict=True)}
        try:
            chosen = _chosen(op, told, self.defaults)
        except InputError as error:
            self._fail(places, str(error))
            return
        columns = {}
        for name in [name for name, filled in zip(sizes, key.filled, strict=True) if filled]:
            columns[name], wrong = _column(op.params[name], [self.rows[place][name] for place in places])
            for at, why in wrong.items():
                self.errors.setdefault(places[at], why)
        good = [at for at, place in enumerate(places) if place not in self.errors]
        places, columns = [places[at] for at in good], {name: column[good] for name, column in columns.items()}
        missing = [name for name, param in op.params.items() if param.required and name not in columns]
        if missing:
            self._fail(places, f"column {missing[0]}: {op.name} needs it and it is empty")
            return
        try:
            on = told.get("machine", "")
            machine = self.defaults.load(on) if on else self.defaults.machine
            if machine is None:
                raise InputError("no machine: give --on, or fill the column machine")
        except RidgelineError as error:
            self._fail(places, f"column {'machine' if on else 'op'}: {error}")
            return
        options = self.defaults.options | chosen | ({"backend": told["backend"]} if told.get("backend") else {})
        shown = bisect_left(places, len(self.results))
        for part in (slice(None, shown), slice(shown, None)):
            if places[part]:
                cut = {name: one[part] for name, one in columns.items()}
                self._predict(op, machine, cut, options, places[part])

    def _fail(self, places: Iterable[int], why: str) -> None:
        self.errors.update(dict.fromkeys(places, why))

    def _predict(
        self,
        op: Op,
        machine: Machine,
        columns: dict[str, Any],
        options: dict[str, Any],
        places: list[int],
    ) -> None:
        shown = places[0] < len(self.results)
        # of rows nobody sees it matters only whether they have a time
        wanted = ("dtype", "machine", *RESULTS) if shown else ("time_us",)
        try:
            made = predict_cases(op, machine, columns, wanted, **options)
        except RidgelineError as error:
            if len(places) == 1:
                self._fail(places, f"column op: {error}")
                return
            half = len(places) // 2  # halves of halves lead to the rows at fault; the rest still come out
            for part in (slice(None, half), slice(half, None)):
                self._predict(op, machine, {name: one[part] for name, one in columns.items()}, options, places[part])
            return
        if not shown:
            return
        lists = {"op": [op.name] * len(places)} | {name: listed(value, len(places)) for name, value in made.items()}
        for place, values in zip(places, zip(*lists.values(), strict=True), strict=True):
            self.results[place].update(zip(lists, values, strict=True))
