"""Tables as rows, a dict of values by column each: read from and written to csv, jsonl, json and parquet."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

from .errors import InputError
from .files import write_atomically
from .tabular import json_lines, parse_json, refuse_repeated, whole_text

SUFFIXES = (".csv", ".jsonl", ".json", ".parquet")
Row = dict[str, Any]


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every column of the rows, in the order they first come."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, by its suffix; in csv every value is text, and a field that is left out is None."""
    return READERS[path.suffix](path)


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """The rows to a file by its suffix, whole or not at all."""
    write_atomically(path, lambda draft: WRITERS[path.suffix](rows, draft))


# -- reading -------------------------------------------------------------------------------------------------------


def _read_csv(path: Path) -> list[Row]:
    reader = csv.reader(io.StringIO(whole_text(path), newline=""))
    try:
        lines = [line for line in reader if line]
    except csv.Error as error:
        raise InputError(f"{path}, line {reader.line_num}, cannot be read: {error}") from error
    header, *records = lines or [[]]
    refuse_repeated(header, str(path))
    for index, record in enumerate(records, 1):
        if len(record) > len(header):
            raise InputError(f"{path}, row {index}: more fields than the header has")
    empty = dict.fromkeys(header)
    return [
        dict(zip(header, record, strict=True))
        if len(record) == len(header)
        else {**empty, **dict(zip(header, record, strict=False))}
        for record in records
    ]


def _read_json(path: Path) -> list[Row]:
    text = whole_text(path)
    try:
        rows = parse_json(text) if path.suffix == ".json" and text.strip() else json_lines(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid {path.suffix[1:]}: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} must hold a list of objects, one per case")
    return rows


def _read_parquet(path: Path) -> list[Row]:
    parquet = _pyarrow()
    try:
        table = parquet.read_table(path)
    except OSError as error:
        raise InputError(f"cannot read the cases {path}: {error.strerror or error}") from error
    except Exception as error:  # pyarrow has an exception family of its own
        raise InputError(f"{path} is not a parquet file: {error}") from error
    refuse_repeated(table.column_names, str(path))
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


# -- writing -------------------------------------------------------------------------------------------------------


def csv_text(rows: Sequence[Row], order: Sequence[str]) -> str:
    """The rows as csv with the columns in this order; what a row does not have is an empty field."""
    text = io.StringIO()
    _csv(rows, order, text)
    return text.getvalue()


def _csv(rows: Sequence[Row], order: Sequence[str], stream: TextIO) -> None:
    writer = csv.DictWriter(stream, order, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _write_csv(rows: Sequence[Row], draft: Path) -> None:
    with draft.open("w", encoding="utf-8", newline="") as stream:
        _csv(rows, columns(rows), stream)


def _write_jsonl(rows: Sequence[Row], draft: Path) -> None:
    draft.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _write_json(rows: Sequence[Row], draft: Path) -> None:
    draft.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n", encoding="utf-8")


def _write_parquet(rows: Sequence[Row], draft: Path) -> None:
    parquet = _pyarrow()
    import pyarrow

    arrays = {}
    for column in columns(rows):
        values = [row.get(column) for row in rows]
        if any(isinstance(value, str) for value in values):
            values = [None if value is None else str(value) for value in values]
        elif any(isinstance(value, float) for value in values):
            values = [None if value is None else float(value) for value in values]
        arrays[column] = pyarrow.array(values)
    parquet.write_table(pyarrow.table(arrays), draft)


WRITERS: dict[str, Callable[[Sequence[Row], Path], None]] = {
    ".csv": _write_csv,
    ".jsonl": _write_jsonl,
    ".json": _write_json,
    ".parquet": _write_parquet,
}
