"""The regression gate of a build: two files of timings compared by name.

    slower         ratio of medians above 1 + `min_difference`, and a rank-test p-value below `max_p_value`
    inconclusive   too few samples for a verdict, or a difference within the noise

The rank test is the one-sided Mann-Whitney test of `core.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import MAX_QUOTED, InputError
from ..core.files import user_path
from ..core.intake import Door, at, clean, refuse_over
from ..core.intake.door import shown
from ..core.observation import LONGEST, SCHEMA, SHORTEST
from ..core.statistics import can_reach, median, rank_test, ratio_interval
from ..core.tabular import SUFFIXES, Row, parse_json, read_rows, whole_text
from ..core.units import counted, percent
from ..core.version import __version__

MIN_DIFFERENCE = 0.05  # relative; smaller changes of the median count as unchanged
MAX_P_VALUE = 0.01  # false-positive rate per name
SLOWER, FASTER, SAME, UNCLEAR = "slower", "faster", "unchanged", "inconclusive"
MAX_NAMED = 3  # regressions named in the first line
TIMES = {"samples": 1.0, "times_us": 1e-6, "time_us": 1e-6, "measured_us": 1e-6}  # seconds, by the key that has them
# Conditions that must agree for two runs to be comparable; loads and dates always differ.
FIXED = ("device", "cpu", "cpus", "machine", "driver", "governor", "power_limit", "python", "numpy", "torch", "cuda")


@dataclass(frozen=True)
class Timed:
    """The samples of one name in seconds, and the conditions they were taken under."""

    samples: tuple[float, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def median(self) -> float:
        return median(self.samples)


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


def _grouped(rows: Sequence[Row], where: str) -> dict[str, Timed]:
    """Timings of a table: rows of one name are its samples; a cell may hold several, separated by spaces."""
    door = Door(where)
    groups: dict[tuple[str, str], tuple[list[int], list[Any]]] = {}  # numbers of the rows and their cells
    conditions: dict[str, dict[str, Any]] = {}
    for number, row in enumerate(rows, 1):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            door.text(name, at(number, "name"), needed=True)
            continue
        key = _times_key(row)
        if not key:
            door.complain(at(number), f"has no times; give {', '.join(TIMES)}")
            continue
        numbers, cells = groups.setdefault((name, key), ([], []))
        numbers.append(number)
        cells.append(row[key])
        if "conditions" in row:
            conditions[name] = _fixed(door, row["conditions"], at(number))
    timings: dict[str, Timed] = {}
    for (name, key), (numbers, cells) in groups.items():
        kept, samples = clean(name), _samples(door, key, numbers, cells)
        before = timings[kept].samples if kept in timings else ()
        timings[kept] = Timed((*before, *samples), conditions.get(name, {}))
    return _timings(door, timings)


def _samples(door: Door, key: str, numbers: Sequence[int], cells: Sequence[Any]) -> list[float]:
    """The samples of one name in seconds: all cells at once where each is one number, else row by row."""
    low, high, parsed = SHORTEST / TIMES[key], LONGEST / TIMES[key], cells
    if set(map(type, cells)) == {str}:
        with suppress(ValueError):
            parsed = list(map(float, cells))
    if set(map(type, parsed)) <= {int, float} and all(low <= time <= high for time in parsed):
        return [time * TIMES[key] for time in parsed]
    samples: list[float] = []
    for number, cell in zip(numbers, cells, strict=True):
        samples += door.numbers(_numbers(cell), at(number, key), low, high)
    return [time * TIMES[key] for time in samples]


def _numbers(cell: Any) -> list[Any]:
    """The numbers of a cell; a text may hold several."""
    if not isinstance(cell, str):
        return cell if isinstance(cell, list) else [cell]
    try:
        return [float(word) for word in cell.strip("[] ").replace(";", " ").replace(",", " ").split()] or [cell]
    except ValueError:
        return [cell]


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
    for number, entry in enumerate(entries, 1):
        name, times, known = _entry(door, entry, f"entry {number}")
        key = name
        while key in timings:
            turns[name] = turns.get(name, 1) + 1
            key = f"{name} ({turns[name]})"
        timings[key] = Timed(times, known)
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
        door.complain(place, f"has no times; give {', '.join(TIMES)}")
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


def _fixed(door: Door, conditions: Any, place: str) -> dict[str, Any]:
    """The conditions that must agree, of all that an entry has."""
    known = conditions if isinstance(conditions, Mapping) else {}
    return {key: door.plain(known[key], f"{place}, conditions.{key}") for key in FIXED if key in known}


@dataclass(frozen=True)
class Item:
    """One name in both files. `ratio` is current over baseline: above 1 is slower."""

    name: str
    baseline: Timed
    current: Timed
    verdict: str
    ratio: float
    low: float  # 95 % confidence interval of the ratio
    high: float
    p_value: float | None  # one-sided rank test; None with too few samples
    why: str = ""

    DOCUMENT: ClassVar = (
        "name", "verdict", "baseline_us=baseline.median", "current_us=current.median", "ratio", "low", "high",
        "chance=p_value", "p_value", "samples", "why",
    )  # fmt: skip

    @property
    def samples(self) -> tuple[int, int]:
        return len(self.baseline.samples), len(self.current.samples)


@dataclass(frozen=True)
class Verdict:
    items: tuple[Item, ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]
    min_difference: float = MIN_DIFFERENCE
    strict: bool = False
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA
    ridgeline: str = __version__

    DOCUMENT: ClassVar = (
        "schema", "ridgeline", "passed", "least=min_difference", "min_change=min_difference", "strict", "items", "new", "vanished", "notes", "sentence",
    )  # fmt: skip

    def _with(self, verdict: str) -> list[Item]:
        return [item for item in self.items if item.verdict == verdict]

    @property
    def passed(self) -> bool:
        """No regression; where `strict`, nothing inconclusive or missing either."""
        return not self._with(SLOWER) and not (self.strict and (self._with(UNCLEAR) or self.vanished))

    @property
    def sentence(self) -> str:
        """`1 regression: softmax +14 % (p = 0.003); 11 unchanged`."""
        slower = sorted(self._with(SLOWER), key=lambda item: -item.ratio)
        named = [f"{item.name} +{percent(item.ratio - 1)} (p = {item.p_value:.2g})" for item in slower[:MAX_NAMED]]
        more = f", and {len(slower) - MAX_NAMED} more" if len(slower) > MAX_NAMED else ""
        first = f"{counted(len(slower), 'regression')}: {', '.join(named)}{more}" if slower else "no regression"
        counts = {name: len(self._with(name)) for name in (FASTER, SAME, UNCLEAR)}
        counts |= {"new": len(self.new), "missing": len(self.vanished)}
        others = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        strict = " (failed: strict)" if not self.passed and not slower else ""
        return f"{first}; {others}{strict}" if others else first


def compare(
    old: Mapping[str, Timed],
    new: Mapping[str, Timed],
    min_difference: float = MIN_DIFFERENCE,
    max_p_value: float = MAX_P_VALUE,
    strict: bool = False,
) -> Verdict:
    """Every name of the baseline (`old`) and of the current timings (`new`), and whether the build may pass."""
    if not 0 <= min_difference < math.inf:
        raise InputError(f"the minimum change is a fraction of 0 or more, such as 0.05; got {min_difference}")
    if not 0 < max_p_value < 1:
        raise InputError(f"the maximum p-value lies between 0 and 1, such as 0.01; got {max_p_value}")
    items = tuple(_item(name, old[name], new[name], min_difference, max_p_value) for name in old if name in new)
    if not items:
        raise InputError(
            f"no common names: baseline has {_named(old)}, current has {_named(new)}; compare runs of the same kernels"
        )
    added, vanished = tuple(name for name in new if name not in old), tuple(name for name in old if name not in new)
    return Verdict(items, added, vanished, min_difference, strict, _changed_conditions(old, new))


def _named(timings: Mapping[str, Timed]) -> str:
    names = list(timings)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _item(name: str, old: Timed, new: Timed, min_difference: float, max_p_value: float) -> Item:
    ratio, counts = new.median / old.median, (len(old.samples), len(new.samples))
    verdict, p_value, why = SAME, None, ""
    if not can_reach(*counts, max_p_value):
        needed = next(count for count in range(1, 1000) if can_reach(count, count, max_p_value))
        why = f"{counts[0]} and {counts[1]} samples are too few for a verdict; take {needed} of each"
        verdict = UNCLEAR
    else:
        p_value = rank_test(*((old.samples, new.samples) if ratio >= 1 else (new.samples, old.samples)))
        if max(ratio, 1 / ratio) > 1 + min_difference:
            verdict = SLOWER if ratio > 1 else FASTER
            if p_value >= max_p_value:
                verdict = UNCLEAR
                change = f"{'+' if ratio > 1 else ''}{percent(ratio - 1)}"
                why = f"{change} is within the noise (p = {p_value:.2g}); take more samples"
    return Item(name, old, new, verdict, ratio, *ratio_interval(old.samples, new.samples), p_value, why)


def _changed_conditions(old: Mapping[str, Timed], new: Mapping[str, Timed]) -> tuple[str, ...]:
    """Fixed conditions that differ between the two files."""
    notes: dict[str, None] = {}
    for name in (name for name in new if name in old):
        for key in FIXED:
            before, after = old[name].conditions.get(key), new[name].conditions.get(key)
            if before is not None and after is not None and before != after:
                notes[f"conditions differ: {key} was {before}, is {after}"] = None
    return tuple(notes)
