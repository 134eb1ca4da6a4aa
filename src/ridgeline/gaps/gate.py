"""The regression gate of a build: runs of a baseline compared with runs of the current code, name by name.

A run is a file. What others take from a program only adds to its times, so a run is summarised by its **quiet time**, the
mean of the fastest tenth of its samples. Runs of the same code differ too (memory layout, clocks, neighbours), so runs,
not samples, are what is compared:

    d = mean(log quiet time, current runs) - mean(log quiet time, baseline runs)
    s^2 = (PRIOR_RUNS s0^2 + squares of the runs' deviations) / (PRIOR_RUNS + B + C - 2)
    t = d / (s sqrt(1/B + 1/C)),  with PRIOR_RUNS + B + C - 2 degrees of freedom

for B baseline and C current runs. s0 is the variation that a name is expected to have before its own is seen: the median
of that of all names, a third of the scatter within its runs, or MIN_VARIATION, whichever is most. With one run on each side nothing shows it, and s = s0 is an assumption, which the
answer says; the samples must then differ in a rank test too.

    slower         d above log(1 + min_difference), and significant over all names together: Holm's method keeps the
                   probability of any false alarm below `max_p_value`
    inconclusive   d is that large and not significant, or the slower side is noisy: its scatter is above MAX_SCATTER and
                   not exceeded by d several times over

`benchmarks/gate_alarms.py` measures both error rates on real timings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ..core.errors import InputError
from ..core.observation import SCHEMA
from ..core.statistics import can_reach, median, rank_test, student_t_quantile, student_t_tail
from ..core.units import counted, percent
from ..core.version import __version__
from .timings import FIXED, Timed, load, load_runs, read

__all__ = ["FASTER", "SAME", "SLOWER", "UNCLEAR", "Item", "Timed", "Verdict", "compare", "load", "load_runs", "read"]

MIN_DIFFERENCE = 0.05  # relative; smaller changes count as unchanged
MAX_P_VALUE = 0.01  # probability of any false alarm of one gate, over all its names
MIN_VARIATION = (
    0.015  # of quiet times between runs, standard deviation: small kernels on a shared machine have 0.5 to 3 %
)
ASSUMED_VARIATION = 0.02  # with one run on each side
SCATTER_SHARE = 0.3  # run-to-run variation that scatter within the runs lets expect
PRIOR_RUNS = 4  # degrees of freedom that the expected variation counts for
MIN_NAMES = 3  # whose variation is pooled
MAX_SCATTER = 0.15  # above it a run is noisy
NOISE_FACTOR = 3.0  # times the scatter of a noisy run that a change must exceed
POWER = 0.9  # probability with which the detectable change is found
MAX_RUNS = 1000  # that a message asks for
SLOWER, FASTER, SAME, UNCLEAR = "slower", "faster", "unchanged", "inconclusive"
MAX_LOGARITHM = 200.0  # of a ratio
MAX_NAMED = 3  # regressions named in the first line
Runs = Sequence[Mapping[str, Timed]]


@dataclass(frozen=True)
class Item:
    """One name in both. `ratio` is current over baseline quiet time: above 1 is slower."""

    name: str
    baseline: tuple[Timed, ...]  # one per run
    current: tuple[Timed, ...]
    verdict: str
    ratio: float
    low: float  # 95 % confidence interval of the ratio
    high: float
    p_value: float | None  # one-sided, over all names (Holm); None where too little was measured
    variation: float  # standard deviation between runs, relative
    detectable: float | None  # relative slowdown that this many runs find with 90 % probability
    why: str = ""

    DOCUMENT: ClassVar = (
        "name", "verdict", "baseline_us=baseline_time", "current_us=current_time", "ratio", "low", "high", "chance=p_value", "p_value",
        "variation", "detectable", "median_ratio", "runs", "samples", "why",
    )  # fmt: skip

    @property
    def baseline_time(self) -> float:
        return _centre(self.baseline)

    @property
    def current_time(self) -> float:
        return _centre(self.current)

    @property
    def median_ratio(self) -> float:
        sums = [sum(math.log(run.median) for run in runs) / len(runs) for runs in (self.baseline, self.current)]
        return math.exp(sums[1] - sums[0])

    @property
    def runs(self) -> tuple[int, int]:
        return len(self.baseline), len(self.current)

    @property
    def samples(self) -> tuple[int, int]:
        return sum(len(run.samples) for run in self.baseline), sum(len(run.samples) for run in self.current)


def _ratio(logarithm: float) -> float:
    """Its exponential, which stays finite whatever somebody's timings are."""
    return math.exp(max(-MAX_LOGARITHM, min(logarithm, MAX_LOGARITHM)))


def _centre(runs: Sequence[Timed]) -> float:
    """Geometric mean of the quiet times."""
    return math.exp(sum(math.log(run.quiet) for run in runs) / len(runs))


@dataclass(frozen=True)
class Verdict:
    items: tuple[Item, ...]
    new: tuple[str, ...]
    vanished: tuple[str, ...]
    min_difference: float = MIN_DIFFERENCE
    strict: bool = False
    notes: tuple[str, ...] = ()
    max_p_value: float = MAX_P_VALUE
    runs: tuple[int, int] = (1, 1)
    schema: int = SCHEMA
    ridgeline: str = __version__

    DOCUMENT: ClassVar = (
        "schema", "ridgeline", "passed", "least=min_difference", "min_change=min_difference", "strict", "max_p_value", "runs", "items", "new", "vanished", "notes", "sentence",
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
        counts = {name: len(self._with(name)) for name in (FASTER, SAME, UNCLEAR)}
        none = "no regression" if counts[FASTER] or counts[SAME] else "no verdict"  # nothing could be judged
        first = f"{counted(len(slower), 'regression')}: {', '.join(named)}{more}" if slower else none
        counts |= {"new": len(self.new), "missing": len(self.vanished)}
        others = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
        strict = " (failed: strict)" if not self.passed and not slower else ""
        return f"{first}; {others}{strict}" if others else first


def compare(
    old: Mapping[str, Timed] | Runs,
    new: Mapping[str, Timed] | Runs,
    min_difference: float = MIN_DIFFERENCE,
    max_p_value: float = MAX_P_VALUE,
    strict: bool = False,
) -> Verdict:
    """Every name of the baseline (`old`: a run or several) and of the current code (`new`), and whether the build may pass."""
    if not 0 <= min_difference < math.inf:
        raise InputError(f"the minimum change is a fraction of 0 or more, such as 0.05; got {min_difference}")
    if not 0 < max_p_value < 1:
        raise InputError(f"the maximum p-value lies between 0 and 1, such as 0.01; got {max_p_value}")
    before, after = _by_name(old), _by_name(new)
    names = [name for name in before if name in after]
    if not names:
        raise InputError(
            f"no common names: baseline has {_named(before)}, current has {_named(after)}; compare runs of the same kernels"
        )
    typical = _typical_variation([(before[name], after[name]) for name in names])
    changes = [Change.of(name, before[name], after[name], typical) for name in names]
    adjusted = _holm([change.p_value for change in changes])
    limits = min_difference, max_p_value, len(names)
    items = tuple(change.judged(p, *limits) for change, p in zip(changes, adjusted, strict=True))
    added, vanished = tuple(name for name in after if name not in before), tuple(name for name in before if name not in after)  # fmt: skip
    counts = max(map(len, before.values())), max(map(len, after.values()))
    notes = (*_changed_conditions(before, after), *_noisy_runs(changes), *_assumption(counts, items))
    return Verdict(items, added, vanished, min_difference, strict, notes, max_p_value, counts)


def _by_name(runs: Mapping[str, Timed] | Runs) -> dict[str, list[Timed]]:
    listed = [runs] if isinstance(runs, Mapping) else runs
    names: dict[str, list[Timed]] = {}
    for run in listed:
        for name, timed in run.items():
            names.setdefault(name, []).append(timed)
    return names


def _named(timings: Mapping[str, Any]) -> str:
    names = list(timings)
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm's adjusted p-values, in the given order; None stays None and does not count."""
    order = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    highest = 0.0
    for rank, (p, place) in enumerate(order):
        highest = max(highest, min(1.0, p * (len(order) - rank)))
        adjusted[place] = highest
    return adjusted


@dataclass(frozen=True)
class Change:
    """The change of one name: relative difference of log quiet times, its standard error and degrees of freedom."""

    name: str
    baseline: tuple[Timed, ...]  # the runs that are used: where some are quiet, noisy ones are left out
    current: tuple[Timed, ...]
    left_out: tuple[int, int]  # noisy runs of each side
    difference: float
    variation: float  # between runs
    freedom: float
    ranks: float | None  # p-value of the rank test, where each side is a single run

    @classmethod
    def of(cls, name: str, old: Sequence[Timed], new: Sequence[Timed], typical: float = 0.0) -> Change:
        before, after = _quiet_runs(old), _quiet_runs(new)
        squares = _squares(before) + _squares(after)
        degrees = len(before) + len(after) - 2
        scatter = sum(min(run.scatter, 1.0) for run in (*before, *after)) / (degrees + 2)
        expected = max(MIN_VARIATION if degrees else ASSUMED_VARIATION, SCATTER_SHARE * scatter, typical)
        variation = math.sqrt((PRIOR_RUNS * expected**2 + squares) / (PRIOR_RUNS + degrees))
        difference, ranks = math.log(_centre(after) / _centre(before)), None
        if not degrees:
            sides = (before[0].samples, after[0].samples)
            ranks = rank_test(*(sides if difference >= 0 else sides[::-1]))
        left_out = len(old) - len(before), len(new) - len(after)
        freedom = PRIOR_RUNS + degrees if degrees else math.inf
        return cls(name, before, after, left_out, difference, variation, freedom, ranks)

    @property
    def error(self) -> float:
        """Standard error of the difference."""
        return self.variation * math.sqrt(1 / len(self.baseline) + 1 / len(self.current))

    @property
    def p_value(self) -> float:
        return student_t_tail(abs(self.difference) / self.error, self.freedom)

    def judged(self, p_value: float | None, min_difference: float, max_p_value: float, names: int) -> Item:
        """The item of this change; `p_value` is that over all names."""
        reach = student_t_quantile(0.025, self.freedom) * self.error
        ratio, low, high = (_ratio(self.difference + shift) for shift in (0.0, -reach, reach))
        tails = max_p_value / names, 1 - POWER
        detectable = _ratio(sum(student_t_quantile(tail, self.freedom) for tail in tails) * self.error) - 1
        verdict, why = self._verdict(p_value, min_difference, max_p_value, names)
        few = self._too_few(max_p_value)
        item = Item(
            self.name, self.baseline, self.current, verdict, ratio, low, high, None if few else p_value, self.variation,
            max(detectable, min_difference), why,
        )  # fmt: skip
        return replace(item, detectable=None) if few else item

    def _verdict(self, p_value: float | None, min_difference: float, max_p_value: float, names: int) -> tuple[str, str]:
        few = self._too_few(max_p_value)
        if few:
            return UNCLEAR, few
        if max(self.difference, -self.difference) <= math.log1p(min_difference):
            return SAME, ""
        change = f"{'+' if self.difference > 0 else ''}{percent(math.expm1(self.difference))}"
        slower_side = self.current if self.difference > 0 else self.baseline
        scatter = min(run.scatter for run in slower_side)
        if all(run.preempted for run in slower_side):
            return UNCLEAR, f"{change}, but every sample was preempted; measure again on a quieter machine"
        if scatter > MAX_SCATTER and abs(self.difference) < NOISE_FACTOR * scatter:
            return (
                UNCLEAR,
                f"{change}, but the samples scatter by {percent(scatter)}; measure again on a quieter machine",
            )
        if p_value is None or p_value >= max_p_value:
            runs = self._runs_needed(max_p_value / names)
            return UNCLEAR, f"{change} is within the run-to-run variation (p = {p_value:.2g}); take {runs} of each"
        if self.ranks is not None and self.ranks >= max_p_value:
            return UNCLEAR, f"{change} is within the noise (p = {self.ranks:.2g}); take more samples"
        return (SLOWER if self.difference > 0 else FASTER), ""

    def _too_few(self, max_p_value: float) -> str:
        """Why single runs have too few samples for a verdict; empty where they have enough."""
        counts = len(self.baseline[0].samples), len(self.current[0].samples)
        if self.ranks is None or can_reach(*counts, max_p_value):
            return ""
        needed = next(count for count in range(1, 1000) if can_reach(count, count, max_p_value))
        return f"{counts[0]} and {counts[1]} samples are too few for a verdict; take {needed} of each, or several runs"

    def _runs_needed(self, tail: float) -> str:
        """The runs of each side with which a change of this size would be significant, in words."""
        for runs in range(2, MAX_RUNS):
            reach = student_t_quantile(tail, PRIOR_RUNS + 2 * runs - 2) * self.variation * math.sqrt(2 / runs)
            if reach < abs(self.difference):
                return counted(runs, "run")
        return f"more than {MAX_RUNS} runs"


def _quiet_runs(runs: Sequence[Timed]) -> tuple[Timed, ...]:
    """The runs that are not noisy; all of them where every run is."""
    quiet = tuple(run for run in runs if run.scatter <= MAX_SCATTER and not run.preempted)
    return quiet or tuple(runs)


def _squares(runs: Sequence[Timed]) -> float:
    """Squared deviations of the log quiet times from their mean, summed."""
    centre = math.log(_centre(runs))
    return sum((math.log(run.quiet) - centre) ** 2 for run in runs)


def _typical_variation(pairs: Sequence[tuple[Sequence[Timed], Sequence[Timed]]]) -> float:
    """The run-to-run variation of the median name; 0 where fewer than three names have several runs.

    The median of a variance estimated with k degrees of freedom is about (1 - 2 / 9k)^3 of the variance.
    """
    variances = []
    for sides in pairs:
        quiet = [_quiet_runs(side) for side in sides]
        degrees = sum(map(len, quiet)) - 2
        if degrees:
            variances.append(sum(map(_squares, quiet)) / degrees / (1 - 2 / (9 * degrees)) ** 3)
    return math.sqrt(median(variances)) if len(variances) >= MIN_NAMES else 0.0


def _noisy_runs(changes: Sequence[Change]) -> tuple[str, ...]:
    """How many runs were left out because quieter ones of the same name exist."""
    count, names = sum(sum(change.left_out) for change in changes), [change.name for change in changes if any(change.left_out)]  # fmt: skip
    return (f"{counted(count, 'noisy run')} left out: {_named(dict.fromkeys(names))}",) if count else ()


def _assumption(runs: tuple[int, int], items: Sequence[Item]) -> tuple[str, ...]:
    """What a single run on each side leaves open."""
    if runs != (1, 1):
        return ()
    found_from = [item.detectable for item in items if item.detectable is not None]
    reach = f", so slowdowns of {percent(max(found_from))} are found" if found_from else ""
    text = f"1 run of each: run-to-run variation of {percent(ASSUMED_VARIATION)} or more is assumed{reach}"
    return (f"{text}; 5 baseline and 3 current runs measure it",)


def _changed_conditions(old: Mapping[str, Sequence[Timed]], new: Mapping[str, Sequence[Timed]]) -> tuple[str, ...]:
    """Fixed conditions that differ between baseline and current runs."""
    notes: dict[str, None] = {}
    for name in (name for name in new if name in old):
        for key in FIXED:
            before, after = ({str(run.conditions[key]) for run in runs if run.conditions.get(key) is not None} for runs in (old[name], new[name]))  # fmt: skip
            if before and after and before != after:
                notes[f"conditions differ: {key} was {', '.join(sorted(before))}, is {', '.join(sorted(after))}"] = None
    return tuple(notes)
