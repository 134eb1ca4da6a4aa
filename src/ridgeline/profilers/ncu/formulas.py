"""How the numbers of a kernel follow from the metrics that a report has: units, and one plan for all kernels alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from ...core.tabular import number
from .metrics import METRICS, ROOFS, Metric, metrics_of, terms

PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
SECONDS = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
COUNTED = (
    "byte", "bytes", "hz", "inst", "instruction", "cycle", "cycles", "sector", "request", "warp", "thread", "block", "register",
    "sm", "pass", "cluster", "wavefront", "op", "ops", "flop", "tpc", "wave",
)  # fmt: skip
_TIME = re.compile(r"([numµ]?)(?:s|sec|second|seconds)")
_COUNT = re.compile(rf"([kmgtp]?)(?:{'|'.join(COUNTED)})")


@lru_cache(maxsize=4096)
def unit_factor(unit: str) -> float | None:
    """What a unit of ncu is in base units (`Kbyte` 1000, `us` 1e-6, `cycle/nsecond` 1e9, `%` 0.01); None if not known."""
    unit = unit.strip()
    if unit.startswith("%"):
        return 0.01
    top, *below = (_part(word) for word in unit.split("/")) if unit else (1.0,)
    if top is None or None in below:
        return None
    for part in below:
        top /= part or 1.0
    return top


def _part(word: str) -> float | None:
    word = word.strip().lower()
    if word in ("", "1"):
        return 1.0
    if timed := _TIME.fullmatch(word):
        return SECONDS[timed[1]]
    counted = _COUNT.fullmatch(word)
    return PREFIXES[counted[1]] if counted else None


_CYCLES = ("smsp__cycles_elapsed.avg", "sm__cycles_elapsed.avg")


def _variants(name: str) -> tuple[str, ...]:
    return (name, f"{name}.per_second", f"{name}.per_cycle_elapsed") if name.endswith(".sum") else (name,)


_COUNTS = [name for metric in METRICS for way in metric.ways for name in metrics_of(way.formula)]
_ROOFS = [name for _, peaks, clocks in ROOFS.values() for name in (*(way.formula for way in peaks), *clocks)]
WANTED = frozenset([*(variant for name in _COUNTS for variant in _variants(name)), *_ROOFS, *_CYCLES])

_Term = tuple[float, str, str]  # factor, metric, metric or `time` it is multiplied by


@dataclass(frozen=True, slots=True)
class Formula:
    """A metric of ours by the metrics a report has."""

    metric: Metric
    dividend: tuple[_Term, ...]
    divisor: tuple[_Term, ...]
    definition: str

    @property
    def only(self) -> str:
        """The metric that is the answer as it stands, where one is."""
        weight, name, scale = self.dividend[0]
        return name if len(self.dividend) == 1 and weight == 1 and not scale and not self.divisor else ""

    def value(self, values: Mapping[str, float]) -> float | None:
        dividend = _sum(self.dividend, values)
        if not self.divisor:
            return dividend
        divisor = _sum(self.divisor, values)
        return dividend / divisor if divisor else None


def _sum(side: tuple[_Term, ...], values: Mapping[str, float]) -> float:
    return sum(weight * values[name] * (values[scale] if scale else 1.0) for weight, name, scale in side)


@dataclass(frozen=True, slots=True)
class Plan:
    """What to take from every kernel whose report has the same metrics."""

    time: Formula | None
    plain: Mapping[str, tuple[tuple[str, str], ...]]  # kind -> (our name, ncu's metric) for what is taken as it stands
    computed: tuple[Formula, ...]
    defined: Mapping[str, str]
    without_l1: Mapping[str, str]
    rates: tuple[tuple[str, str], ...]  # counts with the report's own rate beside them
    roofs: tuple[tuple[str, float, tuple[str, ...], str], ...]  # engine, factor, peaks, clock


def _resolve(name: str, have: frozenset[str]) -> tuple[str, str, str] | None:
    """The metric to read, what to multiply it by, and both as a definition."""
    if name in have:
        return name, "", name
    if not name.endswith(".sum"):
        return None
    rate = f"{name}.per_second"
    if rate in have:
        return rate, "time", f"{rate} x time"
    rate = f"{name}.per_cycle_elapsed"
    cycles = next((clock for clock in _CYCLES if clock in have), None)
    return (rate, cycles, f"{rate} x {cycles}") if rate in have and cycles else None


def _formula(metric: Metric, have: frozenset[str], capability: float) -> Formula | None:
    """The first way to a metric that the report has all terms of."""
    for way in metric.ways:
        if capability and not way.fits(capability):
            continue  # part of a chip's instructions would pass for all of another's
        sides: list[tuple[_Term, ...]] = []
        texts: list[str] = []
        for side in terms(way.formula):
            reads = [(weight, _resolve(name, have)) for weight, name in side]
            if any(read is None or (metric.name == "time" and read[1]) for _, read in reads):
                break
            sides.append(tuple((weight, read[0], read[1]) for weight, read in reads if read))
            factors = [(f"{weight:g} x " if weight != 1 else "", read[2]) for weight, read in reads if read]
            texts.append(" + ".join(factor + text for factor, text in factors))
        else:
            return Formula(metric, sides[0], sides[1] if len(sides) > 1 else (), " / ".join(texts))
    return None


@lru_cache(maxsize=256)
def plan_for(names: tuple[str, ...], cc: str) -> Plan:
    have = frozenset(names)
    capability = number(cc) or 0.0
    formulas = [formula for metric in METRICS if (formula := _formula(metric, have, capability))]
    time = next((formula for formula in formulas if formula.metric.name == "time"), None)
    others = [formula for formula in formulas if formula is not time]
    defined = {
        metric.name if metric.kind == "counter" else f"{metric.kind}.{metric.name}": formula.definition
        for metric, formula in ((formula.metric, formula) for formula in others)
        if metric.kind in ("flops", "bytes") or (metric.kind == "counter" and metric.unit == "B")
    }
    roofs = [
        (name, weight, tuple(way.formula for way in peaks if way.formula in have), next(c for c in clocks if c in have))
        for name, (weight, peaks, clocks) in ROOFS.items()
        if any(way.formula in have for way in peaks) and any(clock in have for clock in clocks)
    ]
    counted = [name for name in sorted(have) if name.startswith("sm__ops_path_tensor_src_") and name.endswith(".sum")]
    return Plan(
        time=time,
        plain={
            kind: tuple((item.metric.name, item.only) for item in others if item.metric.kind == kind and item.only)
            for kind in ("flops", "bytes", "counter", "condition")
        },
        computed=tuple(formula for formula in others if not formula.only),
        defined=defined,
        without_l1={key: text for key, text in defined.items() if key != "bytes.l1"},
        rates=tuple((name, rate) for name in counted if (rate := f"{name}.per_cycle_elapsed") in have),
        roofs=tuple(roofs),
    )
