"""The regression gate of a build: two files of timings, name by name, and whether anything got slower.

    slower        current over baseline median above 1 + `min_difference`, and a rank-test p-value below `max_p_value`
    cannot tell   too few samples for any verdict, or a difference that noise explains

The rank test is the one-sided Mann-Whitney test of `core.statistics`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InputError
from ..core.observation import LONGEST, SCHEMA, SHORTEST
from ..core.statistics import can_reach, median, rank_test, ratio_interval
from ..core.tabular import parse_json, whole_text
from ..core.version import __version__

MIN_DIFFERENCE = 0.05  # relative; a smaller difference of the medians does not count
MAX_P_VALUE = 0.01  # how often noise alone may be called a regression
SLOWER, FASTER, SAME, UNCLEAR = "slower", "faster", "same", "cannot tell"
# Conditions that make two runs incomparable when they differ; loads and dates always differ.
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
    """The timings of a JSON file that ridgeline wrote."""
    place = Path(path).expanduser()
    text = whole_text(place)
    try:
        document = parse_json(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{place}' is not JSON: {error}; write it again, whole") from error
    return read(document, str(place))


def read(document: Any, where: str = "the document") -> dict[str, Timed]:
    """Timings by name, from a list of entries or a document that holds one under `observations` or `items`.

    An entry has a `name` and its times: `samples` in seconds, `times_us`, or one `time_us` or `measured_us`. A name that
    is repeated gets its turn appended.
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
        raise InputError(f"'{where}' holds no timing at all; record some first")
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
                    f"{where} ('{entry['name']}'): {key} holds {str(time)[:20]}, which is no time from {SHORTEST:g} to {LONGEST:g} s"
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
    p_value: float | None  # of a difference this large in this direction; None where samples are too few
    why: str = ""

    DOCUMENT: ClassVar = (
        "name", "verdict", "baseline_us=baseline.median", "current_us=current.median", "ratio", "low", "high",
        "chance=p_value", "samples", "why",
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
        "schema", "ridgeline", "passed", "least=min_difference", "strict", "items", "new", "vanished", "notes", "sentence",
    )  # fmt: skip

    def _with(self, verdict: str) -> list[Item]:
        return [item for item in self.items if item.verdict == verdict]

    @property
    def passed(self) -> bool:
        """Nothing got slower; where `strict`, nothing is unclear and nothing vanished either."""
        return not self._with(SLOWER) and not (self.strict and (self._with(UNCLEAR) or self.vanished))

    @property
    def sentence(self) -> str:
        counts = {name: len(self._with(name)) for name in (SLOWER, FASTER, SAME, UNCLEAR)}
        parts = [f"{count} {name}" for name, count in counts.items() if count] or ["nothing to compare"]
        parts += [f"{len(names)} {what}" for what, names in (("new", self.new), ("vanished", self.vanished)) if names]
        word = "passed" if self.passed else "failed"
        return f"{word}: {', '.join(parts)}; differences up to {self.min_difference * 100:g} % do not count"


def compare(
    old: Mapping[str, Timed],
    new: Mapping[str, Timed],
    min_difference: float = MIN_DIFFERENCE,
    max_p_value: float = MAX_P_VALUE,
    strict: bool = False,
) -> Verdict:
    """Every name of the baseline (`old`) and of the current timings (`new`), and whether the build may pass."""
    if not 0 <= min_difference < math.inf:
        raise InputError(
            f"the least relevant difference is a share of zero or more, such as 0.05, got {min_difference}"
        )
    if not 0 < max_p_value < 1:
        raise InputError(f"the chance of a false alarm lies between 0 and 1, such as 0.01, got {max_p_value}")
    items = tuple(_item(name, old[name], new[name], min_difference, max_p_value) for name in old if name in new)
    if not items:
        raise InputError(
            f"the two have no name in common: baseline has {_named(old)}, current has {_named(new)}; compare runs of the same kernels"
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
        why = f"{counts[0]} and {counts[1]} samples are too few for any verdict; take {needed} of each"
        verdict = UNCLEAR
    else:
        p_value = rank_test(*((old.samples, new.samples) if ratio >= 1 else (new.samples, old.samples)))
        if max(ratio, 1 / ratio) > 1 + min_difference:
            verdict = SLOWER if ratio > 1 else FASTER
            if p_value >= max_p_value:
                verdict = UNCLEAR
                why = f"the medians are {ratio - 1:+.1%} apart, but noise does that once in {1 / p_value:.3g} times; take more samples"
    return Item(name, old, new, verdict, ratio, *ratio_interval(old.samples, new.samples), p_value, why)


def _changed_conditions(old: Mapping[str, Timed], new: Mapping[str, Timed]) -> tuple[str, ...]:
    """Fixed conditions that differ between the two, each once."""
    notes: dict[str, None] = {}
    for name in (name for name in new if name in old):
        for key in FIXED:
            before, after = old[name].conditions.get(key), new[name].conditions.get(key)
            if before is not None and after is not None and before != after:
                notes[f"not the same conditions: {key} was {before}, is {after}"] = None
    return tuple(notes)
