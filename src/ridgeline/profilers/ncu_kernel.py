"""One kernel of a Nsight Compute report: from the metrics as written to its Observation.

How the numbers follow from the metrics is the same for all kernels of a report, so it is worked out once, as a plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import mul
from typing import Any

from ..core.observation import LONGEST, SHORTEST, Observation
from ..core.tabular import MAX_NUMBER, count, number
from ..core.work import Work
from .ncu_metrics import DTYPES, METRICS, ROOFS, Metric, terms

SAME = 0.02  # two ways to the same rate agree within this
SPECIAL = 0.1  # share of the special-function pipe from which its work is worth a word
GPU = "device__attribute_display_name"
PUSHED = "Push/Pop_Range"
STARTED = "Start/Stop_Range"

_NOTHING = Work()
_CYCLES = ("smsp__cycles_elapsed.avg", "sm__cycles_elapsed.avg")


@dataclass(slots=True)
class Kernel:
    """A kernel as written: the cells that say which it is, and the metrics wanted, as text with their units' factors."""

    fields: Mapping[str, str]
    names: tuple[str, ...]
    factors: tuple[float, ...]
    texts: list[str]


# Units --------------------------------------------------------------------------------------------------------------

PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12, "p": 1e15}
SECONDS = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
COUNTED = (
    "byte", "bytes", "hz", "inst", "instruction", "cycle", "cycles", "sector", "request", "warp", "thread", "block", "register",
    "sm", "pass", "cluster", "wavefront", "op", "ops", "flop", "tpc", "wave",
)  # fmt: skip
_TIME = re.compile(r"([numµ]?)(?:s|sec|second|seconds)")
_COUNT = re.compile(rf"([kmgtp]?)(?:{'|'.join(COUNTED)})")


@lru_cache(maxsize=4096)
def factor(unit: str) -> float | None:
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
    timed = _TIME.fullmatch(word)
    if timed:
        return SECONDS[timed[1]]
    counted = _COUNT.fullmatch(word)
    return PREFIXES[counted[1]] if counted else None


# Plans --------------------------------------------------------------------------------------------------------------


def _variants(name: str) -> tuple[str, ...]:
    return (name, f"{name}.per_second", f"{name}.per_cycle_elapsed") if name.endswith(".sum") else (name,)


WANTED = frozenset(
    chain(
        (
            variant
            for metric in METRICS
            for way in metric.ways
            for side in terms(way.formula)
            for _, name in side
            for variant in _variants(name)
        ),
        (name for _, peaks, clocks in ROOFS.values() for name in (*(way.formula for way in peaks), *clocks)),
        _CYCLES,
    )
)

_Term = tuple[float, str, str]  # factor, metric, metric or `time` it is multiplied by


@dataclass(frozen=True, slots=True)
class _Take:
    metric: Metric
    over: tuple[_Term, ...]
    under: tuple[_Term, ...]
    formula: str

    @property
    def only(self) -> str:
        """The metric that is the answer as it stands, where one is."""
        weight, name, scale = self.over[0]
        return name if len(self.over) == 1 and weight == 1 and not scale and not self.under else ""

    def value(self, values: Mapping[str, float]) -> float | None:
        above = _sum(self.over, values)
        if not self.under:
            return above
        below = _sum(self.under, values)
        return above / below if below else None


def _sum(side: tuple[_Term, ...], values: Mapping[str, float]) -> float:
    total = 0.0
    for weight, name, scale in side:
        total += weight * values[name] * values[scale] if scale else weight * values[name]
    return total


@dataclass(frozen=True, slots=True)
class _Plan:
    time: _Take | None
    plain: Mapping[str, tuple[tuple[str, str], ...]]  # kind -> (our name, ncu's metric) for what is taken as it stands
    made: tuple[_Take, ...]
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


def _take(metric: Metric, have: frozenset[str], capability: float) -> _Take | None:
    for way in metric.ways:
        if capability and not way.fits(capability):
            continue  # part of a chip's instructions would pass for all of another's
        sides: list[tuple[_Term, ...]] = []
        texts: list[str] = []
        for side in terms(way.formula):
            found = [(weight, _resolve(name, have)) for weight, name in side]
            if any(hit is None or (metric.name == "time" and hit[1]) for _, hit in found):
                break
            sides.append(tuple((weight, hit[0], hit[1]) for weight, hit in found if hit))
            texts.append(
                " + ".join(hit[2] if weight == 1 else f"{weight:g} x {hit[2]}" for weight, hit in found if hit)
            )
        else:
            return _Take(metric, sides[0], sides[1] if len(sides) > 1 else (), " / ".join(texts))
    return None


@lru_cache(maxsize=256)
def _plan(names: tuple[str, ...], cc: str) -> _Plan:
    have = frozenset(names)
    capability = number(cc) or 0.0
    takes = [take for metric in METRICS if (take := _take(metric, have, capability))]
    time = next((take for take in takes if take.metric.name == "time"), None)
    rest = [take for take in takes if take is not time]
    defined = {
        take.metric.name if take.metric.kind == "counter" else f"{take.metric.kind}.{take.metric.name}": take.formula
        for take in rest
        if take.metric.kind in ("flops", "bytes") or (take.metric.kind == "counter" and take.metric.unit == "B")
    }
    roofs = [
        (name, weight, tuple(way.formula for way in peaks if way.formula in have), next(c for c in clocks if c in have))
        for name, (weight, peaks, clocks) in ROOFS.items()
        if any(way.formula in have for way in peaks) and any(clock in have for clock in clocks)
    ]
    counted = [name for name in sorted(have) if name.startswith("sm__ops_path_tensor_src_") and name.endswith(".sum")]
    return _Plan(
        time=time,
        plain={
            kind: tuple((take.metric.name, take.only) for take in rest if take.metric.kind == kind and take.only)
            for kind in ("flops", "bytes", "counter", "condition")
        },
        made=tuple(take for take in rest if not take.only),
        defined=defined,
        without_l1={key: text for key, text in defined.items() if key != "bytes.l1"},
        rates=tuple((name, rate) for name in counted if (rate := f"{name}.per_cycle_elapsed") in have),
        roofs=tuple(roofs),
    )


# Numbers ------------------------------------------------------------------------------------------------------------


def _values(kernel: Kernel, mark: str) -> tuple[dict[str, float], list[str]]:
    """The metrics as numbers in base units, and those the report has without a value."""
    texts = "\0".join(kernel.texts)  # a row at once: most of the time of a large import goes here
    texts = texts.replace(".", "").replace(",", ".") if mark == "," else texts.replace(",", "")
    try:
        found = list(map(float, texts.split("\0")))
        if found and math.isfinite(sum(found)) and min(found) >= 0 and max(found) < MAX_NUMBER:
            return dict(zip(kernel.names, map(mul, found, kernel.factors), strict=True)), []
    except ValueError:
        pass
    values: dict[str, float] = {}
    unsaid: list[str] = []
    for name, scale, text in zip(kernel.names, kernel.factors, kernel.texts, strict=True):
        value = count(text, mark)
        if value is None and " (" in text:
            value = count(text.partition(" (")[0], mark)  # the instances of a metric follow its value
        if value is not None:
            values[name] = value * scale
        elif text.strip():
            unsaid.append(name)
    return values, unsaid


def observation(kernel: Kernel, mark: str) -> Observation | None:
    """What was seen of a kernel; None where its time was not."""
    values, unsaid = _values(kernel, mark)
    fields = kernel.fields
    capability = fields.get("CC", "")
    plan = _plan(tuple(values), capability)
    seconds = plan.time.value(values) if plan.time else None
    if seconds is None or not SHORTEST <= seconds <= LONGEST:
        return None
    values["time"] = seconds
    # `or 0.0`: one zero for all of them, which 100,000 kernels notice
    found: dict[str, dict[str, Any]] = {
        kind: {name: values[metric] or 0.0 for name, metric in pairs} for kind, pairs in plan.plain.items()
    }
    for take in plan.made:
        result = take.value(values)
        if result is not None:
            found[take.metric.kind][take.metric.name] = result or 0.0
    flops, moved, counters, conditions = (found[kind] for kind in ("flops", "bytes", "counter", "condition"))
    if fields.get(GPU):
        conditions["gpu"] = fields[GPU]
    if capability:
        conditions["compute_capability"] = capability
    notes: list[str] = []
    less = _without_sparse(flops, plan.defined)
    defined: Mapping[str, str] = {**plan.defined, **less} if less else plan.defined
    if "l1" in moved and moved["l1"] < _returned(plan, moved, counters):
        del moved["l1"]
        defined = {**plan.without_l1, **less} if less else plan.without_l1
        notes.append("bytes at l1 left out: they are fewer than those at l2; loads that land in shared memory pass L1's counter by, and l2 serves instructions and constants too")  # fmt: skip
    for name, weight, peaks, clock in plan.roofs:
        if name == "hbm" or flops.get(name):
            counters[f"roof.{name}"] = weight * max(values[peak] for peak in peaks) * values[clock]
    notes += _checked(plan, values, seconds)
    special = counters.get("special_busy", 0.0)
    if special >= SPECIAL:
        notes.append(f"uncounted work: special functions and conversions kept their pipe {special:.0%} busy, and no flop count has them")  # fmt: skip
    if flops.get("vector.fp16"):
        notes.append("vector.fp16 takes every half-precision instruction as packed for two numbers; compilers also move constants with them")  # fmt: skip
    if unsaid:
        notes.append(f"without a value in the report: {', '.join(unsaid)}")
    ranges, own = _named(fields)
    name = ranges[-1] if ranges else _short(own)
    return Observation(
        name=name,
        target=name,
        samples=(seconds,),
        work=_NOTHING,
        settings=_launched(fields.get("Grid Size", ""), fields.get("Block Size", "")),
        conditions=conditions,
        tool="ncu",
        notes=tuple(notes),
        kernel=own,
        flops=flops,
        bytes=moved,
        counters=counters,
        defined=defined,
        path=ranges,
    )


def _without_sparse(flops: dict[str, float], defined: Mapping[str, str]) -> dict[str, str]:
    """Take the 2:4-sparse operations off the parent counts, which hold both kinds; the definitions this changes."""
    changed = {}
    for dtype in DTYPES:
        engine = f"tensor.{dtype}"
        sparse = flops.get(f"tensor-sparse.{dtype}", 0.0)
        if sparse > 0 and engine in flops and "_sparsity_off" not in defined[f"flops.{engine}"]:
            flops[engine] = max(flops[engine] - sparse, 0.0)
            changed[f"flops.{engine}"] = f"{defined[f'flops.{engine}']} less the 2:4-sparse operations"
    return changed


def _returned(plan: _Plan, moved: Mapping[str, float], counters: Mapping[str, float]) -> float:
    """What L1's bytes must reach: both directions where its count has both, else what came from L2."""
    if plan.defined["bytes.l1"].startswith("l1tex__t_bytes"):
        return moved.get("l2", 0.0)
    return counters.get("l2_to_sm", moved.get("l2", 0.0))


def _checked(plan: _Plan, values: Mapping[str, float], seconds: float) -> list[str]:
    """Where the report gives a rate of its own (per cycle x clock), operations over time must agree with it."""
    clock = values.get("sm__cycles_elapsed.avg.per_second", 0.0)
    notes = []
    for name, rate in plan.rates:
        own = values[rate] * clock
        if own > 0 and abs(values[name] / seconds / own - 1) > SAME:
            notes.append(f"{name} over time is {values[name] / seconds:.4g} flop/s, the report's own rate is {own:.4g}; its passes ran differently")  # fmt: skip
    return notes


# Names --------------------------------------------------------------------------------------------------------------

_QUOTED = re.compile(r'"([^"]*)"')
_RENAMED = re.compile(r"([^(<]+)/([^/].*)")


@lru_cache(maxsize=4096)
def _ranges(text: str) -> tuple[str, ...]:
    """Range names of a cell such as `475 "<default domain>:forward:none:none:none:none:none:none"`, outermost first."""
    found = []
    for item in _QUOTED.findall(text):
        name = item.partition(":")[2].rsplit(":", 6)[0]
        if name and name != "none":
            found.append(name)
    return tuple(found)


def _named(fields: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """The ranges a kernel ran under, and its own name without them."""
    kernel = fields.get("Kernel Name", "").strip()
    ranges: tuple[str, ...] = ()
    for wanted in (STARTED, PUSHED):
        for column, text in fields.items():
            if wanted in column:
                ranges += _ranges(text)
    if ranges:
        for prefix in ("/".join(ranges), ranges[-1]):
            if kernel.startswith(prefix + "/"):
                return ranges, kernel[len(prefix) + 1 :]
        return ranges, kernel
    renamed = _RENAMED.fullmatch(kernel)
    return (tuple(renamed[1].split("/")), renamed[2]) if renamed else ((), kernel)


@lru_cache(maxsize=4096)
def _short(kernel: str) -> str:
    """A kernel's name without return type, template and arguments."""
    plain = re.sub(r"<unnamed>|\(anonymous namespace\)", "unnamed", kernel).removeprefix("void ")
    return re.split(r"[<(]", plain, maxsplit=1)[0].strip() or kernel or "kernel"


@lru_cache(maxsize=4096)
def _launched(grid: str, block: str) -> Mapping[str, list[int]]:
    sizes = {"grid": grid, "block": block}
    return {name: [int(part) for part in re.findall(r"\d{1,18}", text)] for name, text in sizes.items() if text.strip()}
