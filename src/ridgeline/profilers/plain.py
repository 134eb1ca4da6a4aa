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
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..core.errors import InputError
from ..core.observation import SCHEMA, Observation, from_document
from ..core.tabular import MAX_NUMBER, cells, decimal_mark, header, json_document, number, opened, refuse_repeated
from ..core.units import parse
from ..core.work import Work

HOW = "a CSV with columns name,time_us,flops,bytes (or flops.tensor.bf16, bytes.hbm), or JSON with these keys"
TIMES = {"time": 1.0, "time_s": 1.0, "time_ms": 1e-3, "time_us": 1e-6, "time_ns": 1e-9}
PEEK = 1000  # rows that show how numbers are written
SECONDS = "a time without a unit was read as seconds; give it one (12.5 us), or call the column time_us"
UNNAMED = {"flops": "all", "bytes": "main"}  # the engine or level of a number that names none
FIELDS = ("name", "kernel", "tool", "version", "notes", "path", "conditions", "settings", "counters", "defined", "times_us")  # fmt: skip
_NOTHING = Work()
_KEYS = re.compile(rf'"(?:{"|".join(TIMES)}|times_us|samples|observations|items)"\s*:')


def recognises(head: str, path: Path) -> bool:
    """JSON with times or samples in it, or a header with a name and a time."""
    start = head.lstrip("\ufeff \t\r\n")
    if start[:1] in "[{":
        return bool(_KEYS.search(start)) or start[:1] == "["
    names, _ = header(next(iter(start.splitlines()), "").lower())
    return "name" in names and any(name in TIMES for name in names)


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        start = text.read(1).lstrip("\ufeff")
        while start.isspace():
            start = text.read(1)
        if start in ("[", "{"):
            return _documents(start + text.read(), path)
        return list(_table(start + next(text, ""), text, path))


def _table(first_line: str, lines: Iterable[str], path: Path) -> Iterator[Observation]:
    names, sign = header(first_line.lower())
    refuse_repeated(names, f"'{path}'")
    if "name" not in names or not any(name in TIMES for name in names):
        raise InputError(f"'{path}' has the columns {', '.join(names)[:200]!r}; a plain table needs a name and one of {', '.join(TIMES)}")  # fmt: skip
    rows = ((place, cells(line, sign)) for place, line in enumerate(lines, 2) if line.strip(f"{sign} \r\n"))
    first_rows = list(islice(rows, PEEK))
    counted = [place for place, name in enumerate(names) if name in TIMES or name.partition(".")[0] in UNNAMED]
    # a time may carry its unit; the number before it shows the decimal mark as well
    mark = decimal_mark(row[place].strip().partition(" ")[0] for _, row in first_rows for place in counted if place < len(row))  # fmt: skip
    for line, row in chain(first_rows, rows):
        if len(row) > len(names):
            raise InputError(f"'{path}' line {line} has {len(row)} cells where the header has {len(names)}; quote cells that hold a '{sign}'")  # fmt: skip
        filled = {name: cell.strip() for name, cell in zip(names, row, strict=False) if cell.strip()}
        yield _row(filled, f"'{path}' line {line}", mark)


def _row(row: Mapping[str, Any], where: str, mark: str = ".") -> Observation:
    """One row of a table or of JSON; columns that are not ours become settings."""
    counts: dict[str, dict[str, float]] = {"flops": {}, "bytes": {}}
    settings: dict[str, Any] = {}
    for key, value in row.items():
        kind, _, part = key.partition(".")
        if kind in UNNAMED and isinstance(value, Mapping):
            counts[kind].update({str(name): _count(f"{kind}.{name}", item, where) for name, item in value.items()})
        elif kind in UNNAMED:
            if not _absent(value):
                counts[kind][part or UNNAMED[kind]] = _count(key, value, where, mark)
        elif key not in FIELDS and key not in TIMES:
            settings[key] = value
    name = row.get("name")
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"{where} has no name; give each row a name and a time")
    notes = _texts(row, "notes", where)
    if "time" in row and (not isinstance(row["time"], str) or number(row["time"], mark) is not None):
        notes = (*notes, SECONDS)
    return Observation(
        name=name,
        target=name,
        samples=_samples(row, f"{where} ('{name}')", where, mark),
        work=_NOTHING,
        settings={**_mapping(row, "settings", where), **settings},
        conditions=_mapping(row, "conditions", where),
        tool=str(row.get("tool") or "plain"),
        version=str(row.get("version", "")),
        notes=notes,
        kernel=str(row.get("kernel", "")),
        flops=counts["flops"],
        bytes=counts["bytes"],
        counters={str(key): _count(str(key), value, where) for key, value in _mapping(row, "counters", where).items()},
        defined={str(key): str(value) for key, value in _mapping(row, "defined", where).items()},
        path=_texts(row, "path", where),
    )


def _samples(row: Mapping[str, Any], named: str, where: str, mark: str) -> tuple[float, ...]:
    """Seconds: every sample where the row lists them, else its one time."""
    seconds = {key: _time(key, row[key], where, mark) for key in row if key in TIMES}
    if len(seconds) > 1:
        raise InputError(f"{where} has {' and '.join(f'{key} {row[key]}' for key in seconds)}; give each row one time")
    times = row.get("times_us")
    listed = isinstance(times, list) and times
    samples = [_time("time_us", item, where, mark) for item in times] if listed else list(seconds.values())  # type: ignore[union-attr]
    if not samples or not all(sample > 0 for sample in samples):
        raise InputError(f"{named} has no time above zero; give it one of {', '.join(TIMES)}")
    return tuple(samples)


def _time(key: str, value: Any, where: str, mark: str) -> float:
    if key == "time" and isinstance(value, str) and number(value, mark) is None:
        text = value.replace(".", "").replace(",", ".") if mark == "," else value
        try:
            return parse(text, "s")
        except InputError as error:
            raise InputError(f"{where}: {error}") from error
    return _count(key, value, where, mark) * TIMES[key]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(key: str, value: Any, where: str, mark: str = ".") -> float:
    parsed = number(value, mark) if isinstance(value, str) else value
    if parsed is None or not _is_number(parsed) or not 0 <= parsed < MAX_NUMBER:
        raise InputError(f"{where}: {key} is {value!r}; a number of zero or more belongs there, or nothing")
    return float(parsed)


def _absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.lower() in ("n/a", "nan", "none", "-", "no data"))


def _mapping(row: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    value = row.get(key, {})
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: {key} is {str(value)[:60]!r}; it maps names to values")
    return value


def _texts(row: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    value = row.get(key, [])
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise InputError(f"{where}: {key} is {str(value)[:60]!r}; it is a list of texts")
    return tuple(str(item) for item in value)


def _documents(text: str, path: Path) -> list[Observation]:
    try:
        document = json_document(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path}' is not valid JSON: {error}; write it again") from None
    if isinstance(document, Mapping):
        schema = document.get("schema", 0)
        if isinstance(schema, bool) or not isinstance(schema, int) or schema > SCHEMA:
            raise InputError(f"'{path}' has schema {schema!r}, which is newer than {SCHEMA}; install a newer ridgeline")
        if "items" in document and "sentence" in document:
            raise InputError(f"'{path}' is a ridgeline report, not a profile; give the profile")
        document = document.get("observations", document.get("items", [document]))
    if not isinstance(document, list):
        raise InputError(f"'{path}' holds {type(document).__name__} where a list of observations belongs; {HOW}")
    return [_document(item, f"'{path}' entry {place}") for place, item in enumerate(document, 1)]


def _document(item: Any, where: str) -> Observation:
    if not isinstance(item, Mapping):
        raise InputError(f"{where} is {str(item)[:60]!r}; each entry maps names to values; {HOW}")
    samples = item.get("samples")
    if samples is None:
        return _row(item, where)
    if not isinstance(samples, list) or not all(_is_number(sample) for sample in samples):
        raise InputError(f"{where}: samples is {str(samples)[:60]!r}; it is a list of times in seconds")
    item = {"target": item.get("name"), **item, "tool": item.get("tool") or "plain"}
    for part in ("flops", "bytes", "observed_flops", "observed_bytes", "counters"):
        for key, value in _mapping(item, part, where).items():
            _count(f"{part}.{key}", value, where)
    try:
        return from_document(item)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = f"{type(error).__name__}: {error}"
        raise InputError(f"{where} is not a ridgeline observation ({why})") from error
