"""The one reader of delimited and JSON text, compressed or not, in any usual encoding; tables as rows, to and from files."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from .errors import InputError
from .files import write_atomically

Row = dict[str, Any]  # the values of a row of a table, by column
HEAD = 1 << 16  # characters that are enough to recognise a format
BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
MAX_NUMBER = 10.0**100  # no counter gets there, and products of two such numbers are still numbers
GZIP = b"\x1f\x8b"


@contextmanager
def opened(path: Path) -> Iterator[TextIO]:
    """The text of a file; whatever goes wrong while it is read is one InputError."""
    try:
        with _bytes(path) as stream:
            start = stream.read(4)
            stream.seek(0)
            encoding = next((name for mark, name in BYTE_ORDER_MARKS if start.startswith(mark)), "utf-8")
            with io.TextIOWrapper(stream, encoding=encoding, errors="replace", newline="") as text:
                yield text
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"cannot read '{path}': {why}; check that the file is whole and readable") from error


def _bytes(path: Path) -> BinaryIO:
    with path.open("rb") as plain:
        packed = plain.read(2) == GZIP
    return cast(BinaryIO, gzip.open(path)) if packed else path.open("rb")


def head(path: Path) -> str:
    """The first characters of a file, enough to recognise what wrote it."""
    with opened(path) as text:
        return text.read(HEAD)


def whole_text(path: Path) -> str:
    """All of a text file, which must be UTF-8 or UTF-16 throughout."""
    with opened(path) as stream:
        text = stream.read().removeprefix("\ufeff")
    if "\ufffd" in text or "\0" in text:
        raise InputError(f"{path} is not a text file in UTF-8 or UTF-16; save it again as UTF-8")
    return text


# -- delimited text ------------------------------------------------------------------------------------------------


def cells(line: str, delimiter: str = ",") -> list[str]:
    """One line of a table. Profilers keep a row on a line, and a stray quote then spoils that line only."""
    try:
        return next(csv.reader((line,), delimiter=delimiter), [])
    except csv.Error as error:
        raise InputError(f"a line of the table cannot be read ({error}): {line[:60]!r}; export it again") from error


def delimiter(line: str) -> str:
    """What separates the cells of a header: a comma, a semicolon or a tab."""
    return max(",;\t", key=line.count)


def header(line: str) -> tuple[list[str], str]:
    """The names of the columns in the first line of a table, stripped, and what separates them."""
    sign = delimiter(line)
    return [name.strip() for name in cells(line.removeprefix("\ufeff"), sign)], sign


def records(lines: Iterable[str], names: Sequence[str], sign: str) -> Iterator[dict[str, str]]:
    """The rows of a table by column, cells stripped; a row that is cut off lacks its last columns."""
    for line in lines:
        yield {name: cell.strip() for name, cell in zip(names, cells(line, sign), strict=False)}


def refuse_repeated(names: Sequence[str], where: str) -> None:
    """Refuses a header in which a column comes twice: one of the two would be lost."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        column = f"the column {repeated[0]}" if repeated[0] else "a column without a name"
        raise InputError(f"{where} has {column} more than once; keep one, or give them names of their own")


# -- numbers -------------------------------------------------------------------------------------------------------

_SEPARATED = re.compile(r"[+-]?(\d+)((?:[.,]\d+)+)$")


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


def number(text: str, mark: str = ".") -> float | None:
    """The number a cell holds, thousands separated or not; None where it holds none (n/a, nan, no data)."""
    if mark == ",":
        text = text.replace(".", "").replace(",", ".")
    elif "," in text:
        text = text.replace(",", "")
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
        raise ValueError(f"'{repeated}' stands twice in one object")
    return members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


# -- rows of files -------------------------------------------------------------------------------------------------


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every column of the rows, in the order they first come."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


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
    return [dict(zip_longest(header, record)) for record in records]


def _read_json(path: Path) -> list[Row]:
    text = whole_text(path)
    try:
        rows = parse_json(text) if path.suffix == ".json" and text.strip() else json_lines(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid {path.suffix[1:]}: {error}") from error
    if isinstance(rows, dict) and "rows" in rows:  # as `ridgeline predict` writes them
        rows = rows["rows"]
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


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise InputError("parquet files need pyarrow; install ridgeline[data], or use .csv or .jsonl") from None
    return parquet


def csv_text(rows: Sequence[Row], order: Sequence[str]) -> str:
    """The rows as csv with the columns in this order; what a row does not have is an empty field."""
    text = io.StringIO()
    writer = csv.DictWriter(text, order, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _write_csv(rows: Sequence[Row], draft: Path) -> None:
    draft.write_text(csv_text(rows, columns(rows)), encoding="utf-8", newline="")


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


FORMATS: dict[str, tuple[Callable[[Path], list[Row]], Callable[[Sequence[Row], Path], None]]] = {
    ".csv": (_read_csv, _write_csv),
    ".jsonl": (_read_json, _write_jsonl),
    ".json": (_read_json, _write_json),
    ".parquet": (_read_parquet, _write_parquet),
}
SUFFIXES = tuple(FORMATS)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file, by its suffix; in csv every value is text, and a field that is left out is None."""
    read, _ = FORMATS[path.suffix]
    return read(path)


def write_rows(rows: Sequence[Row], path: Path) -> None:
    """The rows to a file by its suffix, whole or not at all."""
    _, write = FORMATS[path.suffix]
    write_atomically(path, lambda draft: write(rows, draft))
