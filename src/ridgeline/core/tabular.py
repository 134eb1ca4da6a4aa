"""The one reader of delimited and JSON text, compressed or not, in any usual encoding; tables as rows, to and from files."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from .columns import Columns, Row, columns, of_documents, refuse_repeated
from .csv_files import csv_text, delimiter, is_comment, read_csv, write_csv
from .errors import InputError
from .files import write_atomically
from .intake.door import MAX_NUMBER
from .intake.limits import limit, refuse_over
from .intake.source import head, opened, whole_text
from .intake.text import clean
from .parquet_files import read_parquet, write_parquet

__all__ = [
    "MAX_NUMBER",
    "SUFFIXES",
    "Columns",
    "Row",
    "cells",
    "columns",
    "count",
    "csv_text",
    "decimal_mark",
    "head",
    "header",
    "is_comment",
    "json_document",
    "json_lines",
    "number",
    "opened",
    "parse_json",
    "read_columns",
    "read_rows",
    "records",
    "refuse_repeated",
    "whole_text",
    "write_blocks",
    "write_rows",
]  # fmt: skip


# -- delimited text ------------------------------------------------------------------------------------------------


def cells(line: str, delimiter: str = ",") -> list[str]:
    """One line of a table. Profilers keep a row on a line, and a stray quote then spoils that line only."""
    try:
        return next(csv.reader((line,), delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(f"a line of the table cannot be read ({error}): {line[:60]!r}; export it again") from error


def header(line: str) -> tuple[list[str], str]:
    """The names of the columns in the first line of a table, stripped, and what separates them."""
    sign = delimiter(line)
    return [name.strip() for name in cells(line.removeprefix("\ufeff"), sign)], sign


def records(lines: Iterable[str], names: Sequence[str], sign: str) -> Iterator[dict[str, str]]:
    """The rows of a table by column, cells stripped; a row that is cut off lacks its last columns."""
    for line in lines:
        yield {name: cell.strip() for name, cell in zip(names, cells(line, sign), strict=False)}


# -- numbers -------------------------------------------------------------------------------------------------------

_SEPARATED = re.compile(r"[+-]?(\d+)((?:[.,]\d+)+)$", re.ASCII)


def decimal_mark(texts: Iterable[str]) -> str:
    """`.` or `,`, by what the numbers of a file show; English where they show nothing.

    `1.234,56`, `1.234.567` and `0,5` show it; `1,024` does not, because it is a number in both ways of writing.
    """
    votes = {".": 0, ",": 0}
    for text in texts:
        separated = _SEPARATED.match(text.strip())
        if not separated:
            continue
        leading, groups = separated.groups()
        marks = [sign for sign in groups if sign in ".,"]
        if len(set(marks)) == 2:
            votes[marks[-1]] += 1
        elif len(marks) > 1:
            votes["." if marks[0] == "," else ","] += 1
        elif len(groups) != 4 or len(leading) > 3 or leading.startswith("0"):
            votes[marks[0]] += 1
    return "," if votes[","] > votes["."] else "."


# Thousands by a sign of their own; in India all groups but the last have two digits.
_GROUPED = {
    sign: re.compile(rf"\s*[+-]?\d{{1,3}}(?:[{sign}]\d{{2,3}})*[{sign}]\d{{3}}(?!\d)[^{sign}]*$", re.ASCII)
    for sign in ".,"
}


def number(text: str, mark: str = ".") -> float | None:
    """The number a cell holds, thousands separated or not; None where it holds none (n/a, nan, no data).

    In a file with decimal commas `2.4e7` is what Python and C write: a point that separates no thousands is a decimal point. A
    comma that separates none in a file with decimal points could mean either, and is no number.
    """
    other = "," if mark == "." else "."
    if other in text:
        if _GROUPED[other].match(text):
            text = text.replace(other, "")
        elif mark == "." or mark in text:
            return None
    if mark == ",":
        text = text.replace(",", ".")
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) < MAX_NUMBER else None


def count(text: str, mark: str = ".") -> float | None:
    """The number a cell holds, if it is one a counter or a clock can show."""
    value = number(text, mark)
    return value if value is not None and value >= 0 else None


# -- JSON ----------------------------------------------------------------------------------------------------------


def parse_json(text: str, nan: bool = True) -> Any:
    """A JSON document in which no key comes twice in one object; ValueError or RecursionError where it is none."""
    return json.loads(text, object_pairs_hook=_object, parse_constant=None if nan else _refuse_constant)


def json_document(text: str) -> Any:
    """One document, or the list of one per line where the first line is a document by itself; NaN is no number."""
    try:
        return parse_json(text, nan=False)
    except (ValueError, RecursionError) as error:
        problem = error
    try:
        parse_json(text.partition("\n")[0], nan=False)
    except (ValueError, RecursionError):
        raise problem from None
    return json_lines(text, nan=False)


def json_lines(text: str, nan: bool = True) -> list[Any]:
    """JSON with one document per line; a ValueError names the line of the file."""
    documents = []
    for place, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            documents.append(parse_json(line, nan))
        except json.JSONDecodeError as error:
            raise ValueError(f"line {place} column {error.colno}: {error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {place}: {error}") from None
    return documents


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        repeated = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"'{repeated}' appears twice in one object")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON number")


# -- rows of files -------------------------------------------------------------------------------------------------


def _read_json(path: Path) -> Columns:
    text = whole_text(path)
    # an object takes the memory of some eight values
    values = 8 * text.count("{") + text.count("[") + text.count(",")
    refuse_over("cells", values, f"{path} with its values")
    try:
        rows = parse_json(text) if path.suffix == ".json" and text.strip() else json_lines(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid {path.suffix[1:]}: {_why(error)}") from error
    except MemoryError as error:
        raise InputError(f"{path} needs more memory than there is; give a smaller part of it") from error
    if isinstance(rows, dict) and "rows" in rows:  # as `ridgeline predict` writes them
        rows = rows["rows"]
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} must hold a list of objects, one per case")
    refuse_over("rows", len(rows), f"the number of rows of {path}")
    return of_documents(rows, str(path))


def _why(error: BaseException) -> str:
    """What is wrong with a document; Python's own words speak of its settings."""
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {limit('depth'):.0f}"
    return "a number has thousands of digits" if "digits" in str(error) else clean(str(error), 200)


def _write_jsonl(blocks: Iterable[Columns], order: Sequence[str], draft: Path) -> None:
    with draft.open("w", encoding="utf-8") as out:
        for block in blocks:
            out.writelines(f"{json_text(row)}\n" for row in block.rows())


def _write_json(blocks: Iterable[Columns], order: Sequence[str], draft: Path) -> None:
    with draft.open("w", encoding="utf-8") as out:
        sign = "[\n"
        for block in blocks:
            for row in block.rows():
                out.write(f"{sign}{json_text(row)}")
                sign = ",\n"
        out.write("\n]\n" if sign != "[\n" else "[]\n")


def json_text(row: Row) -> str:
    """A row as JSON, which has no infinity and no NaN; both become null."""
    try:
        return json.dumps(row, allow_nan=False)
    except ValueError:
        finite = {name: None if isinstance(cell, float) and not isfinite(cell) else cell for name, cell in row.items()}
        return json.dumps(finite, allow_nan=False)


Write = Callable[[Iterable[Columns], Sequence[str], Path], None]
FORMATS: dict[str, tuple[Callable[[Path], Columns], Write]] = {
    ".csv": (read_csv, write_csv),
    ".jsonl": (_read_json, _write_jsonl),
    ".json": (_read_json, _write_json),
    ".parquet": (read_parquet, write_parquet),
}
SUFFIXES = tuple(FORMATS)


def read_columns(path: Path) -> Columns:
    """The columns of a file, by its suffix; in csv every value is text, and a field that is left out is None."""
    read, _ = FORMATS[path.suffix]
    return read(path)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, by its suffix."""
    return read_columns(path).rows()


def write_blocks(blocks: Iterable[Columns], order: Sequence[str], path: Path) -> None:
    """A table that is made block by block to a file by its suffix, whole or not at all; csv has these columns."""
    _, write = FORMATS[path.suffix]
    write_atomically(path, lambda draft: write(blocks, order, draft))


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """The rows to a file by its suffix, whole or not at all."""
    write_blocks([Columns.of_rows(rows)], columns(rows), path)
