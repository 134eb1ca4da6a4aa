"""The gate of a build: two files of timings, name by name, and whether anything got slower than chance explains.

    slower     median over median above 1 + least, and the rank test puts chance below `chance`
    cannot tell   too few samples for any verdict, or a difference that chance explains

The rank test is that of Mann and Whitney, one-sided: it asks how often two series of the same kernel would fall apart
as far as these do. It is exact for short series without ties, else its normal form with the correction for ties.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.errors import InputError
from ..core.observation import LONGEST, SCHEMA, SHORTEST
from ..core.tabular import parse_json, whole_text
from ..core.version import __version__

LEAST = 0.05  # the least relevant difference
CHANCE = 0.01  # how often noise alone may be called a regression
EXACT = 2500  # products of sample counts up to which the rank test counts every order
RESAMPLED = 2000
SLOWER, FASTER, SAME, UNCLEAR = "slower", "faster", "same", "cannot tell"
# Conditions that make two runs incomparable when they differ; loads and dates differ always.
FIXED = ("device", "cpu", "cpus", "machine", "driver", "governor", "power_limit", "python", "numpy", "torch", "cuda")


# -- reading --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Timed:
    """The samples of one name in seconds, and the conditions they were taken under."""

    samples: tuple[float, ...]
    conditions: Mapping[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return float(np.median(self.samples))


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
    comes again is told apart by its turn.
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
    found: dict[str, Timed] = {}
    for place, entry in enumerate(entries, 1):
        name, timed = _entry(entry, f"'{where}' entry {place}")
        turn, own = 1, name
        while own in found:
            turn += 1
            own = f"{name} ({turn})"
        found[own] = timed
    if not found:
        raise InputError(f"'{where}' holds no timing at all; record some first")
    return found


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
        conditions = entry.get("conditions", {})
        return entry["name"], Timed(
            tuple(float(time) * scale for time in times), conditions if isinstance(conditions, Mapping) else {}
        )
    raise InputError(f"{where} ('{entry['name']}') has no times; give samples (seconds), times_us or time_us")


def document(timings: Mapping[str, Sequence[float]], conditions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A baseline file of samples in seconds by name, for whoever times without ridgeline."""
    rows = [
        {"name": name, "samples": list(samples), "conditions": dict(conditions or {})}
        for name, samples in timings.items()
    ]
    return {"schema": SCHEMA, "ridgeline": __version__, "items": rows}


# -- the statistics -------------------------------------------------------------------------------------------


def orders(first: int, second: int) -> NDArray[np.float64]:
    """How many orders of two series give each value of U, the number of pairs in which the second is the larger."""
    # f(u; m, n) = f(u - n; m - 1, n) + f(u; m, n - 1): the largest value belongs to the first series or to the second
    most = first * second
    row = [np.zeros(most + 1) for _ in range(second + 1)]
    for each in row:
        each[0] = 1.0
    for _ in range(first):
        before, row = row, [np.zeros(most + 1)]
        row[0][0] = 1.0
        for n in range(1, second + 1):
            taken = row[n - 1].copy()
            taken[n:] += before[n][: most + 1 - n]
            row.append(taken)
    return row[second]


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """How likely the second series lies this far above the first, or farther, when both are alike."""
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    m, n = len(one), len(two)
    u = float(np.sum(two[:, None] > one[None, :]) + 0.5 * np.sum(two[:, None] == one[None, :]))
    _, repeats = np.unique(np.concatenate([one, two]), return_counts=True)
    if m * n <= EXACT and repeats.max() == 1:
        counts = orders(m, n)
        return float(counts[round(u) :].sum() / counts.sum())
    ties = float(np.sum(repeats.astype(np.float64) ** 3 - repeats)) / ((m + n) * (m + n - 1))
    variance = m * n / 12 * (m + n + 1 - ties)
    if variance <= 0:
        return 1.0  # all samples are one value
    z = (u - m * n / 2 - 0.5) / math.sqrt(variance)
    return 0.5 * math.erfc(z / math.sqrt(2))


def enough(first: int, second: int, chance: float = CHANCE) -> bool:
    """Whether series of these lengths could convince at all: the most extreme of all their orders is rare enough."""
    return 1 / math.comb(first + second, first) < chance


def medians(samples: Sequence[float]) -> NDArray[np.float64]:
    """Medians of series drawn anew from the samples; the same samples always give the same ones."""
    values = np.asarray(samples, dtype=np.float64)
    drawn = np.random.default_rng(len(values)).integers(0, len(values), (RESAMPLED, len(values)))
    return np.asarray(np.median(values[drawn], axis=1))


def interval(first: Sequence[float], second: Sequence[float], sure: float = 0.95) -> tuple[float, float]:
    """Between what the ratio of the medians lies, second over first, from series drawn anew."""
    # one of the two is turned round: series of one length are drawn alike and would vary together
    ratios = medians(second) / medians(first)[::-1]
    low, high = np.quantile(ratios, [(1 - sure) / 2, (1 + sure) / 2])
    return float(low), float(high)


# -- the verdict ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Item:
    """One name in both files. `ratio` is current over baseline: above 1 is slower."""

    name: str
    baseline: Timed
    current: Timed
    verdict: str
    ratio: float
    low: float
    high: float
    chance: float | None  # of a difference this large in this direction by noise alone; None where samples are too few
    why: str = ""

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "verdict": self.verdict,
            "baseline_us": self.baseline.median * 1e6,
            "current_us": self.current.median * 1e6,
            "ratio": self.ratio,
            "low": self.low,
            "high": self.high,
            "chance": self.chance,
            "samples": [len(self.baseline.samples), len(self.current.samples)],
            "why": self.why,
        }


@dataclass(frozen=True)
class Verdict:
    items: tuple[Item, ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]
    least: float = LEAST
    strict: bool = False
    notes: tuple[str, ...] = ()

    def _with(self, verdict: str) -> list[Item]:
        return [item for item in self.items if item.verdict == verdict]

    @property
    def passed(self) -> bool:
        """Nothing got slower; where `strict`, nothing is unclear and nothing vanished either."""
        return not self._with(SLOWER) and not (self.strict and (self._with(UNCLEAR) or self.vanished))

    @property
    def exit_code(self) -> int:
        return 0 if self.passed else 1

    @property
    def sentence(self) -> str:
        counts = {name: len(self._with(name)) for name in (SLOWER, FASTER, SAME, UNCLEAR)}
        told = [f"{count} {name}" for name, count in counts.items() if count] or ["nothing to compare"]
        told += [f"{len(names)} {what}" for what, names in (("new", self.new), ("vanished", self.vanished)) if names]
        word = "passed" if self.passed else "failed"
        return f"{word}: {', '.join(told)}; differences up to {self.least * 100:g} % do not count"

    def document(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "ridgeline": __version__,
            "passed": self.passed,
            "least": self.least,
            "strict": self.strict,
            "items": [item.document() for item in self.items],
            "new": list(self.new),
            "vanished": list(self.vanished),
            "notes": list(self.notes),
            "sentence": self.sentence,
        }


def compare(baseline: Any, current: Any, least: float = LEAST, chance: float = CHANCE, strict: bool = False) -> Verdict:
    """Every name of two documents (or of what `load` made of them), and whether the build may pass."""
    if not 0 <= least < math.inf:
        raise InputError(f"the least relevant difference is a share of zero or more, such as 0.05, got {least}")
    if not 0 < chance < 1:
        raise InputError(f"the chance of a false alarm lies between 0 and 1, such as 0.01, got {chance}")
    old, now = _timings(baseline, "baseline"), _timings(current, "current")
    items = tuple(_item(name, old[name], now[name], least, chance) for name in old if name in now)
    notes = _changed(old, now)
    if not items:
        raise InputError(
            f"the two have no name in common: baseline has {_named(old)}, current has {_named(now)}; compare runs of the same kernels"
        )
    return Verdict(
        items,
        tuple(name for name in now if name not in old),
        tuple(name for name in old if name not in now),
        least,
        strict,
        notes,
    )


def _timings(given: Any, where: str) -> dict[str, Timed]:
    if isinstance(given, Mapping) and given and all(isinstance(value, Timed) for value in given.values()):
        return dict(given)
    return read(given, where)


def _named(timings: Mapping[str, Timed]) -> str:
    names = list(timings)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _item(name: str, old: Timed, now: Timed, least: float, chance: float) -> Item:
    ratio = now.median / old.median
    low, high = interval(old.samples, now.samples)
    if not enough(len(old.samples), len(now.samples), chance):
        why = f"{len(old.samples)} and {len(now.samples)} samples are too few for any verdict; take {_needed(chance)} of each"
        return Item(name, old, now, UNCLEAR, ratio, low, high, None, why)
    by_chance = rank_test(old.samples, now.samples) if ratio >= 1 else rank_test(now.samples, old.samples)
    relevant = max(ratio, 1 / ratio) > 1 + least
    if not relevant:
        return Item(name, old, now, SAME, ratio, low, high, by_chance)
    if by_chance < chance:
        return Item(name, old, now, SLOWER if ratio > 1 else FASTER, ratio, low, high, by_chance)
    why = f"the medians are {ratio - 1:+.1%} apart, but noise does that once in {1 / by_chance:.3g} times; take more samples"
    return Item(name, old, now, UNCLEAR, ratio, low, high, by_chance, why)


def _needed(chance: float) -> int:
    return next(count for count in range(1, 1000) if enough(count, count, chance))


def _changed(old: Mapping[str, Timed], now: Mapping[str, Timed]) -> tuple[str, ...]:
    """Fixed conditions that differ between the two, each once."""
    found: dict[str, None] = {}
    for name, timed in now.items():
        if name in old:
            for key in FIXED:
                one, two = old[name].conditions.get(key), timed.conditions.get(key)
                if one is not None and two is not None and one != two:
                    found[f"not the same conditions: {key} was {one}, is {two}"] = None
    return tuple(found)
