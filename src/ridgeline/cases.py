"""A table of cases in, the same rows with predictions out: csv, jsonl, json, parquet.

Rows are grouped by op, dtype, machine and options, and each group is one array call. A row that cannot be
predicted keeps its place and says why in `error`, naming the column; the others come out all the same.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .dtypes import dtype as dtype_row
from .errors import InputError, RidgelineError
from .machine import Machine
from .ops import Op, find
from .ops.registry import NO, YES, Param
from .prediction import RESULTS, plain, predict_cases
from .storage import write_whole
from .units import MOST, number

SUFFIXES = (".csv", ".jsonl", ".json", ".parquet")
Row = dict[str, Any]


def read(path: Path) -> list[Row]:
    """The rows of a file, by its suffix; what an empty field holds does not apply."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path}: cases are read from {', '.join(SUFFIXES)}, not from '{path.suffix}'")
    try:
        if path.suffix == ".parquet":
            return _read_parquet(path)
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read the cases {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not a text file in UTF-8") from error
    if path.suffix == ".csv":
        rows = [dict(row) for row in csv.DictReader(text.splitlines())]
        for index, row in enumerate(rows, 1):
            if None in row:
                raise InputError(f"{path}, row {index}: more fields than the header has")
        return rows
    try:
        found = (
            json.loads(text)
            if path.suffix == ".json"
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except json.JSONDecodeError as error:
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
        rows: list[Row] = parquet.read_table(path).to_pylist()
    except OSError:
        raise
    except Exception as error:  # pyarrow has an exception family of its own
        raise InputError(f"{path} is not a parquet file: {error}") from error
    return rows


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
    write_whole(path, lambda draft: WRITERS[path.suffix](rows, draft))


def _columns(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _write_csv(rows: list[Row], draft: Path) -> None:
    with draft.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _columns(rows), lineterminator="\n")
        writer.writeheader()
        writer.writerows([{key: "" if value is None else value for key, value in row.items()} for row in rows])


def _write_jsonl(rows: list[Row], draft: Path) -> None:
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_json(rows: list[Row], draft: Path) -> None:
    draft.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


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


def _group(row: Row, index: int, defaults: Defaults) -> tuple[Op, str, tuple[tuple[str, str], ...]]:
    """What must be one value within an array call: the op, the machine, and every option that is a word."""
    name = row.get("op")
    if _blank(name):
        raise InputError(f"row {index}, column op: is empty")
    try:
        op = find(str(name).strip())
    except RidgelineError as error:
        raise InputError(f"row {index}, column op: {error}") from error
    words = {}
    for param in op.params.values():
        if param.kind in ("Format", "Choice"):
            value = row.get(param.name)
            value = defaults.formats.get(param.name) if _blank(value) else value
            if _blank(value):
                continue
            try:
                words[param.name] = dtype_row(str(value)).name if param.kind == "Format" else str(value).strip()
                if param.choices and words[param.name] not in param.choices:
                    raise InputError(f"'{value}' is not {param.words}")
            except RidgelineError as error:
                raise InputError(f"row {index}, column {param.name}: {error}") from error
    machine = row.get("machine")
    return op, "" if _blank(machine) else str(machine), tuple(sorted(words.items()))


def _number(param: Param, value: Any, index: int) -> float:
    where = f"row {index}, column {param.name}"
    if param.kind == "Flag":
        text = str(value).strip().lower().removesuffix(".0")
        if text in YES + NO:
            return float(text in YES)
        raise InputError(f"{where}: must be yes or no, got '{value}'")
    try:
        found = float(value) if not isinstance(value, str) else number(value)
    except (RidgelineError, TypeError, ValueError):
        raise InputError(f"{where}: must be {param.words}, got '{value}'") from None
    least = 1 if param.kind == "Size" else 0
    if not (least <= found <= MOST) or found != int(found):
        raise InputError(f"{where}: must be {param.words}, got '{value}'")
    return found


def run(rows: Iterable[Row], defaults: Defaults) -> tuple[list[Row], int]:
    """The rows with their predictions, and how many of them failed."""
    results: list[Row] = []
    groups: dict[Any, list[tuple[int, dict[str, float]]]] = {}
    for index, row in enumerate(rows, 1):
        # a column of the caller's that a result would hide keeps its values under another name
        results.append(
            {(f"given_{key}" if key in RESULTS or key == "error" else key): value for key, value in row.items()}
        )
        try:
            op, machine, words = _group(row, index, defaults)
            sizes = {
                name: _number(param, row[name], index)
                for name, param in op.params.items()
                if param.kind in ("Size", "Count", "Flag") and not _blank(row.get(name))
            }
            missing = [name for name, param in op.params.items() if param.required and name not in sizes]
            if missing:
                raise InputError(f"row {index}, column {missing[0]}: {op.name} needs it and it is empty")
        except InputError as error:
            results[-1]["error"] = str(error)
            continue
        backend = "" if _blank(row.get("backend")) else str(row["backend"]).strip()
        groups.setdefault((op.name, machine, words, tuple(sizes), backend), []).append((index, sizes))
    for (name, machine, words, _, backend), members in groups.items():
        meant = replace(defaults, options={**defaults.options, "backend": backend}) if backend else defaults
        _predict_group(find(name), machine, dict(words), members, results, meant)
    failed = sum(1 for row in results if row.get("error"))
    for row in results:
        for column in RESULTS:
            row.setdefault(column, None)
        row.setdefault("error", "")
    return results, failed


def _predict_group(
    op: Op,
    machine: str,
    words: dict[str, str],
    members: list[tuple[int, dict[str, float]]],
    results: list[Row],
    defaults: Defaults,
) -> None:
    try:
        target = defaults.load(machine) if machine else defaults.machine
        if target is None:
            raise InputError("no machine: give --on, or fill the column machine")
        arrays = {name: np.array([sizes[name] for _, sizes in members]) for name in members[0][1]}
        made = predict_cases(op, target, arrays, ("dtype", "machine", *RESULTS), **words, **defaults.options)
    except RidgelineError as error:
        if len(members) > 1:  # find the rows at fault one by one; the rest still come out
            for member in members:
                _predict_group(op, machine, words, [member], results, defaults)
            return
        index = members[0][0]
        results[index - 1]["error"] = (
            f"row {index}, column {'machine' if machine and str(error).startswith('unknown machine') else 'op'}: {error}"
        )
        return
    for place, (index, _) in enumerate(members):
        row = {name: plain(value, place) for name, value in made.items()}
        results[index - 1].update({"op": op.name, **row})
