"""Plain tables and JSON: name, time, flops and bytes of anything timed; and what ridgeline itself wrote.

Columns: `name`; one time as `time` (with its unit: `12.5 us`; without one it is read as seconds, which a note says),
`time_s`, `time_ms`, `time_us` or `time_ns`;
`flops` and `bytes`, or one column per engine and level (`flops.tensor.bf16`, `bytes.hbm`). Work whose engine is not told
stands under `all`, bytes whose level is not told under `main`, the outermost memory of a machine. JSON is a list of such rows,
one row per line, the document of `ridgeline import --json`, or a file of observations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from json import JSONDecodeError
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..core.errors import InputError
from ..core.intake import Door, clean, refuse_over
from ..core.intake.door import shown
from ..core.observation import (
    LONGEST,
    SCHEMA,
    SHORTEST,
    Observation,
    checked_fields,
    plain_table,
    read_document,
    samples,
)
from ..core.tabular import cells, decimal_mark, header, is_comment, json_document, number, opened, refuse_repeated
from ..core.units import parse
from .rows import held

HOW = "a CSV with columns name,time_us,flops,bytes (or flops.tensor.bf16, bytes.hbm), or JSON with these keys"
TIMES = {"time": 1.0, "time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9}
PIECE = 1 << 20  # characters of JSON read at a time
PEEK = 1000  # rows that show how numbers are written
SECONDS = "a time without a unit was read as seconds; give it one (12.5 us), or call the column time_us"
MAX_SAID = 200  # characters of the parser's message that are passed on
UNNAMED = {"flops": "all", "bytes": "main"}  # the engine or level of a number that names none
FIELDS = frozenset(
    {"name", "kernel", "tool", "version", "notes", "path", "conditions", "settings", "counters", "defined", "times_us"}
)
UNITS = {"flops": "flop", "bytes": "B"}
_LEADING = re.compile(r"\s*[+-]?\d[\d.,]*(?:[eE][+-]?\d+)?", re.ASCII)
ABSENT = frozenset({"n/a", "nan", "none", "-", "no data"})
_KEYS = re.compile(rf'"(?:{"|".join(TIMES)}|times_us|samples|observations|items)"\s*:')


def recognises(head: str, path: Path) -> bool:
    """JSON with times or samples in it, or a header with a name and a time."""
    start = head.lstrip("\ufeff \t\r\n")
    if start[:1] in "[{":
        return bool(_KEYS.search(start)) or start[:1] == "["
    names, _ = header(next((line for line in start.splitlines() if not is_comment(line)), "").lower())
    return "name" in names and any(name in TIMES for name in names)


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        start = text.read(1).lstrip("\ufeff")
        while start.isspace():
            start = text.read(1)
        door = Door(f"'{path}'")
        read_rows = _documents if start in ("[", "{") else _table
        observations = list(held(read_rows(start, text, door, path), path))
    door.close()
    return [item for item in observations if item is not None]


# -- tables --------------------------------------------------------------------------------------------------------


def _table(start: str, lines: TextIO, door: Door, path: Path) -> Iterator[Observation | None]:
    first = start + next(lines, "")
    above = 1  # lines up to the header
    while first and is_comment(first):
        first, above = next(lines, ""), above + 1
    names, sign = header(first.lower())
    refuse_repeated(names, f"'{path}'")
    if "name" not in names or not any(name in TIMES for name in names):
        raise InputError(f"'{path}' has the columns {shown(', '.join(names))}; a plain table needs a name and one of {', '.join(TIMES)}")  # fmt: skip
    every = ((place, cells(line, sign)) for place, line in enumerate(lines, above + 1) if line.strip(f"{sign} \r\n"))
    rows = (
        (place, row) for place, row in every if [cell.strip().lower() for cell in row] != names
    )  # as in joined files
    first_rows = list(islice(rows, PEEK))
    counted = [place for place, name in enumerate(names) if name in TIMES or name.partition(".")[0] in UNNAMED]
    # a time may carry its unit; the number before it shows the decimal mark as well
    mark = decimal_mark(row[place].strip().partition(" ")[0] for _, row in first_rows for place in counted if place < len(row))  # fmt: skip
    for line, row in chain(first_rows, rows):
        refuse_over("rows", line, f"'{path}' line {line:,}")
        if len(row) > len(names):
            door.complain(f"line {line}", f"has {len(row)} cells where the header has {len(names)}; quote cells that hold a '{sign}'")  # fmt: skip
            continue
        filled = {name: cell.strip() for name, cell in zip(names, row, strict=False) if cell.strip()}
        yield _row(filled, door, f"line {line}", mark)


class Layout(NamedTuple):
    """The keys of a row by what they hold."""

    counts: tuple[tuple[str, str, str], ...]  # with flops or bytes, and the engine or level
    times: tuple[str, ...]
    others: tuple[str, ...]  # columns that are not ours


@lru_cache(maxsize=1024)  # the rows of a file have the same few sets of keys
def _layout(keys: tuple[str, ...]) -> Layout:
    parts = [(key, *key.partition(".")[::2]) for key in keys]
    counts = tuple((key, kind, clean(part) or UNNAMED[kind]) for key, kind, part in parts if kind in UNNAMED)
    others = tuple(key for key, kind, _ in parts if kind not in UNNAMED and key not in FIELDS and key not in TIMES)
    return Layout(counts, tuple(key for key in keys if key in TIMES), others)


def _row(row: Mapping[str, Any], door: Door, place: str, mark: str = ".") -> Observation | None:
    """One row of a table or of JSON; columns that are not ours become settings."""
    before, prefix, layout = door.refused, f"{place}, ", _layout(tuple(row))
    counts: dict[str, dict[str, float]] = {}
    for key, kind, part in layout.counts:
        value, amounts = row[key], counts.setdefault(kind, {})
        if isinstance(value, Mapping):
            amounts.update(door.amounts(value, prefix + key))
        elif value is not None and not (isinstance(value, str) and value.lower() in ABSENT):
            amounts[part] = door.number(_parsed(value, mark, UNITS[kind]), prefix + key)
    fields = checked_fields(row, door, prefix)
    fields["samples"] = _samples(row, layout.times, door, prefix, mark)
    fields["target"] = fields["name"]
    fields["tool"] = fields.get("tool") or "plain"
    if layout.others:
        columns = plain_table(door, {key: row[key] for key in layout.others}, place)
        fields["settings"] = {**fields.get("settings", {}), **columns}
    if "time" in row and (not isinstance(row["time"], str) or number(row["time"], mark) is not None):
        fields["notes"] = (*fields.get("notes", ()), SECONDS)
    return None if door.refused > before else Observation(**{**fields, **counts})


def _parsed(value: Any, mark: str, unit: str) -> Any:
    """The number that a cell holds, with a `unit` or without; what holds none stays as it is, for the complaint."""
    if not isinstance(value, str):
        return value
    parsed = number(value, mark)
    parsed = _quantity(value, mark, unit) if parsed is None and unit else parsed
    return value if parsed is None else parsed


def _quantity(text: str, mark: str, unit: str) -> float | None:
    """A number with its unit, such as `24 MB`; None where it is none."""
    with suppress(InputError):
        return parse(_with_point(text, mark), unit)
    return None


def _with_point(text: str, mark: str) -> str:
    """A quantity with its number as Python writes it: `12.5 us` for `12,5 us`."""
    written = _LEADING.match(text) if mark == "," else None
    value = number(written[0], mark) if written else None
    return text if written is None or value is None else f"{value!r} {text[written.end() :]}"


def _samples(row: Mapping[str, Any], times: Iterable[str], door: Door, prefix: str, mark: str) -> tuple[float, ...]:
    """Seconds: every sample where the row lists them, else its one time; `times` are the keys that may hold it."""
    given = [key for key in times if row[key] is not None]
    if len(given) > 1:
        each = " and ".join(f"{key} {shown(row[key])}" for key in given)
        door.complain(prefix.rstrip(", "), f"has {each}; give each row one time")
    if row.get("times_us"):
        return samples(row["times_us"], door, f"{prefix}times_us", 1e-6)
    if not given:
        door.complain(prefix.rstrip(", "), f"has no time above zero; give it one of {', '.join(TIMES)}")
        return ()
    key = given[0]
    value, per_second = row[key], 1 / TIMES[key]
    if isinstance(value, str):
        value = _parsed(value, mark, "")
        if isinstance(value, str):  # with its unit, whatever the column is called
            try:
                value, per_second = parse(_with_point(value, mark), "s"), 1.0
            except InputError as error:
                if key == "time":
                    door.complain(f"{prefix}{key}", str(error))
                    return ()
    # a quotient of two whole numbers is the nearest number there is: 100 us is 1e-4 s
    return (door.number(value, f"{prefix}{key}", SHORTEST * per_second, LONGEST * per_second) / per_second,)


# -- JSON ----------------------------------------------------------------------------------------------------------


def _documents(start: str, text: TextIO, door: Door, path: Path) -> Iterable[Observation | None]:
    content = _all(start, text, path)
    try:
        document = json_document(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path}' {not_json(content, error)}; write it again") from None
    if isinstance(document, Mapping):
        door.schema(document.get("schema"), SCHEMA)
        if "items" in document and "sentence" in document:
            raise InputError(f"'{path}' is a ridgeline report, not a profile; give the profile")
        document = document.get("observations", document.get("items", [document]))
    if not isinstance(document, list):
        raise InputError(f"'{path}' holds {shown(document)} where a list of observations belongs; {HOW}")
    return (_document(item, door, f"entry {place}") for place, item in enumerate(document, 1))


def _all(start: str, text: TextIO, path: Path) -> str:
    """The rest of the text, a piece at a time, so that room is made for what there is and not for what is allowed."""
    pieces, size = [start], 0
    while piece := text.read(PIECE):
        size += len(piece)
        refuse_over("document", size, f"'{path}'")
        pieces.append(piece)
    return "".join(pieces)


def _document(item: Any, door: Door, place: str) -> Observation | None:
    if not isinstance(item, Mapping):
        door.complain(place, f"is {shown(item)}; each entry maps names to values; {HOW}")
        return None
    if item.get("samples") is None:
        return _row(item, door, place)
    return read_document({**item, "tool": item.get("tool") or "plain"}, door, place)


def not_json(text: str, error: Exception) -> str:
    """What is wrong with a text that should be JSON: `is not complete JSON (line 1 column 6)`."""
    if isinstance(error, RecursionError):
        return "is not valid JSON: it is nested too deep"
    if isinstance(error, JSONDecodeError):
        where = f"(line {error.lineno} column {error.colno})"
        cut = error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())
        return f"is not complete JSON {where}" if cut else f"is not valid JSON: {error.msg} {where}"
    return f"is not valid JSON: {clean(str(error), MAX_SAID)}"
