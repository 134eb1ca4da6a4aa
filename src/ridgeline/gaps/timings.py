"""Timings by name, from files: JSON as ridgeline writes it, or tables with a name and times. One file is one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..core.cached import cached_property
from ..core.errors import MAX_QUOTED, InputError
from ..core.files import user_path
from ..core.intake import Door, at, clean, refuse_over
from ..core.intake.door import shown
from ..core.observation import LONGEST, SCHEMA, SHORTEST
from ..core.statistics import median, quantile
from ..core.tabular import SUFFIXES, Row, decimal_mark, number, parse_json, read_rows, whole_text

FASTEST = 0.1  # the share of a run's samples whose mean is its quiet time
PEEK = 100  # cells of a name that show how numbers are written
HIGH = 0.85  # the quantile of a run's samples that its scatter is measured to
PREEMPTED = "stand_in_busy"  # the condition of a series in which every sample was preempted
LISTS = ("samples", "times_us")  # keys of which a cell may hold several times
# Seconds, by the key that has the times.
TIMES = {
    "samples": 1.0,
    "times_us": 1e-6,
    "time_us": 1e-6,
    "measured_us": 1e-6,
    "time_s": 1.0,
    "time_ms": 1e-3,
    "time_ns": 1e-9,
}
# Conditions that must agree for two runs to be comparable; loads and dates always differ.
FIXED = ("device", "cpu", "cpus", "machine", "driver", "governor", "power_limit", "python", "numpy", "torch", "cuda")


@dataclass(frozen=True)
class Timed:
    """The samples of one name in one run, in seconds, and the conditions they were taken under."""

    samples: tuple[float, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)
    preempted: bool = False  # every sample was, so that none shows the quiet time

    @cached_property
    def median(self) -> float:
        return median(self.samples)

    @cached_property
    def quiet(self) -> float:
        """Mean of the fastest tenth, of few samples the fastest: what others take from a program only adds to its times."""
        fastest = sorted(self.samples)[: max(1, int(len(self.samples) * FASTEST))]
        return sum(fastest) / len(fastest)

    @cached_property
    def scatter(self) -> float:
        """How far the slower samples lie above the quiet time, relative; 0 for a single sample."""
        return max(quantile(self.samples, HIGH) / self.quiet - 1, 0.0)


def load(path: str | Path) -> dict[str, Timed]:
    """The timings of a file: JSON as ridgeline writes it, or a table (.csv .jsonl .parquet) with name and times."""
    place = user_path(path)
    if place.suffix in SUFFIXES and place.suffix != ".json":
        return _grouped(read_rows(place), str(place))
    text = whole_text(place)
    try:
        document = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"'{place}' is not valid JSON: {error}; write it again, or use .csv with name,time_us"
        ) from error
    return read(document, str(place))


def load_runs(paths: Sequence[str | Path]) -> list[dict[str, Timed]]:
    """The runs of several files; of a folder, every file of timings in it."""
    runs: list[dict[str, Timed]] = []
    for path in map(user_path, paths):
        if not path.is_dir():
            runs.append(load(path))
            continue
        files = sorted(file for file in path.iterdir() if file.suffix in SUFFIXES and not file.name.startswith("."))
        if not files:
            raise InputError(f"the folder '{path}' has no files of timings ({', '.join(SUFFIXES)})")
        runs += [load(file) for file in files]
    return runs


def _grouped(rows: Sequence[Row], where: str) -> dict[str, Timed]:
    """Timings of a table: rows of one name are its samples; a cell may hold several, separated by spaces."""
    door = Door(where)
    groups: dict[tuple[str, str], tuple[list[int], list[Any]]] = {}  # numbers of the rows and their cells
    conditions: dict[str, dict[str, Any]] = {}
    for place, row in enumerate(rows, 1):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            door.text(name, at(place, "name"), needed=True)
            continue
        key = _times_key(row)
        if not key:
            door.complain(at(place), f"has no times; give one of {', '.join(TIMES)}")
            continue
        numbers, cells = groups.setdefault((name, key), ([], []))
        numbers.append(place)
        cells.append(row[key])
        if "conditions" in row:
            conditions[name] = _fixed(door, row["conditions"], at(place))
    timings: dict[str, Timed] = {}
    single = [cells for (_, key), (_, cells) in groups.items() if key not in LISTS]
    mark = decimal_mark(cell for cells in single for cell in cells[:PEEK] if isinstance(cell, str))
    for (name, key), (numbers, cells) in groups.items():
        kept, samples = clean(name), _samples(door, key, numbers, cells, mark)
        before = timings[kept].samples if kept in timings else ()
        timings[kept] = Timed((*before, *samples), conditions.get(name, {}))
    return _timings(door, timings)


def _samples(door: Door, key: str, numbers: Sequence[int], cells: Sequence[Any], mark: str) -> list[float]:
    """The samples of one name in seconds: all cells at once where each is one number, else row by row."""
    low, high, parsed = SHORTEST / TIMES[key], LONGEST / TIMES[key], cells
    if set(map(type, cells)) == {str}:
        with suppress(ValueError):
            parsed = list(map(float, cells))
    if set(map(type, parsed)) <= {int, float} and all(low <= time <= high for time in parsed):
        return [time * TIMES[key] for time in parsed]
    samples: list[float] = []
    for place, cell in zip(numbers, cells, strict=True):
        samples += door.numbers(_numbers(cell, key, mark), at(place, key), low, high)
    return [time * TIMES[key] for time in samples]


def _numbers(cell: Any, key: str, mark: str) -> list[Any]:
    """The numbers of a cell; a text may hold several. Commas separate them in a list, and thousands in a single time."""
    if not isinstance(cell, str):
        return cell if isinstance(cell, list) else [cell]
    text = cell.strip("[] ").replace(";", " ")
    if key in LISTS or cell.lstrip().startswith("["):
        text = text.replace(",", " ")
    values = [number(word, mark) for word in text.split()]
    return [cell] if not values or None in values else values


def read(document: Any, where: str = "the document") -> dict[str, Timed]:
    """Timings by name, from a list of entries or a document that holds one under `observations` or `items`.

    An entry has a `name` and its times: `samples` in seconds, `times_us`, or one `time_us` or `measured_us`. A repeated
    name gets a number appended.
    """
    door, entries = Door(where), document
    if isinstance(document, Mapping):
        door.schema(document.get("schema"), SCHEMA)
        entries = next((document[key] for key in ("observations", "items") if key in document), None)
        if entries is None and "name" in document:
            entries = [document]
    if not isinstance(entries, list):
        door.complain("", "holds no list of timings under `observations` or `items`; see `ridgeline gate --help`")
        entries = []
    timings: dict[str, Timed] = {}
    turns: dict[str, int] = {}  # how often a name came, so that the next number is not searched from the start
    for place, entry in enumerate(entries, 1):
        name, times, known = _entry(door, entry, f"entry {place}")
        key = name
        while key in timings:
            turns[name] = turns.get(name, 1) + 1
            key = f"{name} ({turns[name]})"
        timings[key] = Timed(times, known, _was_preempted(entry))
    return _timings(door, timings)


def _timings(door: Door, timings: dict[str, Timed]) -> dict[str, Timed]:
    """The timings of a document that has no complaints."""
    if not timings:
        door.complain("", "holds no timings; give each entry or row a name and its time_us, or samples in seconds")
    door.close()
    for name, timed in timings.items():
        refuse_over("samples", len(timed.samples), f"'{door.where}': '{name[:MAX_QUOTED]}'")
    return timings


def _entry(door: Door, entry: Any, place: str) -> tuple[str, tuple[float, ...], dict[str, Any]]:
    """Name, samples in seconds and fixed conditions of an entry."""
    if not isinstance(entry, Mapping):
        door.complain(place, f"must be a table with a name and its times, found {shown(entry)}")
        return "", (), {}
    name, fixed = (
        door.text(entry.get("name"), f"{place}, name", needed=True),
        _fixed(door, entry.get("conditions"), place),
    )
    key = _times_key(entry)
    if not key:
        door.complain(place, f"has no times; give one of {', '.join(TIMES)}")
        return name, (), fixed
    times, scale = entry[key], TIMES[key]
    listed = times if isinstance(times, list) else [times]
    numbers = door.numbers(listed, f"{place}, {key}", SHORTEST / scale, LONGEST / scale)
    return name, tuple([time * scale for time in numbers]), fixed


def _times_key(entry: Mapping[str, Any]) -> str:
    """The key under which an entry has its times; empty where it has none."""
    for key in TIMES:
        times = entry.get(key)
        if times is None or times == "" or times == []:
            continue
        if key != "samples" or not isinstance(times, int):  # a report counts its samples
            return key
    return ""


def _was_preempted(entry: Any) -> bool:
    conditions = entry.get("conditions") if isinstance(entry, Mapping) else None
    return isinstance(conditions, Mapping) and PREEMPTED in conditions


def _fixed(door: Door, conditions: Any, place: str) -> dict[str, Any]:
    """The conditions that must agree, of all that an entry has."""
    known = conditions if isinstance(conditions, Mapping) else {}
    return {key: door.plain(known[key], f"{place}, conditions.{key}") for key in FIXED if key in known}
