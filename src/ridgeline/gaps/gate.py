"""The regression gate of a build: two files of timings compared by name.

    slower         ratio of medians above 1 + `min_difference`, and a rank-test p-value below `max_p_value`
    inconclusive   too few samples for a verdict, or a difference within the noise

The rank test is the one-sided Mann-Whitney test of `core.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InputError
from ..core.files import user_path
from ..core.observation import LONGEST, SCHEMA, SHORTEST
from ..core.statistics import can_reach, median, rank_test, ratio_interval
from ..core.tabular import SUFFIXES, Row, parse_json, read_rows, whole_text
from ..core.units import counted, percent
from ..core.version import __version__

MIN_DIFFERENCE = 0.05  # relative; smaller changes of the median count as unchanged
MAX_P_VALUE = 0.01  # false-positive rate per name
SLOWER, FASTER, SAME, UNCLEAR = "slower", "faster", "unchanged", "inconclusive"
MAX_NAMED = 3  # regressions named in the first line
NUMBERS = ("time_us", "measured_us", "times_us", "samples")  # columns of tables, which may hold text
# Conditions that must agree for two runs to be comparable; loads and dates always differ.
FIXED = ("device", "cpu", "cpus", "machine", "driver", "governor", "power_limit", "python", "numpy", "torch", "cuda")


@dataclass(frozen=True)
class Timed:
    """The samples of one name in seconds, and the conditions they were taken under."""

    samples: tuple[float, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
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
    timings: dict[str, Timed] = {}
    for place, row in enumerate(rows, 1):
        filled = {key: value for key, value in row.items() if value not in (None, "")}
        cells = {key: _numbers(filled[key]) for key in NUMBERS if key in filled}
        name, timed = _entry({**filled, **cells}, f"'{where}' row {place}")
        before = timings[name].samples if name in timings else ()
        timings[name] = Timed((*before, *timed.samples), timed.conditions)
    if not timings:
        raise InputError(f"'{where}' holds no timings; write columns name and time_us, or name and samples (seconds)")
    return timings


def _numbers(cell: Any) -> Any:
    """The numbers of a cell that is text; anything else as it is."""
    if not isinstance(cell, str):
        return cell
    try:
        return [float(word) for word in cell.strip("[] ").replace(";", " ").replace(",", " ").split()]
    except ValueError:
        return [cell]


def read(document: Any, where: str = "the document") -> dict[str, Timed]:
    """Timings by name, from a list of entries or a document that holds one under `observations` or `items`.

    An entry has a `name` and its times: `samples` in seconds, `times_us`, or one `time_us` or `measured_us`. A repeated
    name gets a number appended.
    """
    entries = document
    if isinstance(document, Mapping):
        schema = document.get("schema", 0)
        if isinstance(schema, bool) or not isinstance(schema, int) or schema > SCHEMA:
            raise InputError(
                f"'{where}' has schema {schema!r}, which is newer than {SCHEMA}; install a newer ridgeline"
            )
        entries = next((document[key] for key in ("observations", "items") if key in document), None)
        if entries is None and "name" in document:
            entries = [document]
    if not isinstance(entries, list):
        raise InputError(
            f"'{where}' holds no list of timings under `observations` or `items`; see `ridgeline gate --help`"
        )
    timings: dict[str, Timed] = {}
    for place, entry in enumerate(entries, 1):
        name, timed = _entry(entry, f"'{where}' entry {place}")
        turn, key = 1, name
        while key in timings:
            turn += 1
            key = f"{name} ({turn})"
        timings[key] = timed
    if not timings:
        raise InputError(f"'{where}' holds no timings; record some first")
    return timings


def _entry(entry: Any, where: str) -> tuple[str, Timed]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get("name"), str) or not entry["name"].strip():
        raise InputError(f"{where} has no name; each entry has a name and its times")
    for key, scale in (("samples", 1.0), ("times_us", 1e-6), ("time_us", 1e-6), ("measured_us", 1e-6)):
        times = entry.get(key)
        if times is None or times == [] or (key == "samples" and isinstance(times, int)):  # a report counts its samples
            continue
        times = times if isinstance(times, list) else [times]
        for time in times:
            number = isinstance(time, int | float) and not isinstance(time, bool)
            if not number or not SHORTEST / scale <= time <= LONGEST / scale:
                raise InputError(
                    f"{where} ('{entry['name']}'): {key} holds {str(time)[:20]}, which is not a time from {SHORTEST:g} to {LONGEST:g} s"
                )
        conditions = entry.get("conditions")
        samples = tuple(float(time) * scale for time in times)
        return entry["name"], Timed(samples, conditions if isinstance(conditions, Mapping) else {})
    raise InputError(f"{where} ('{entry['name']}') has no times; give samples (seconds), times_us or time_us")


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
