"""One kernel of a Nsight Compute report: from the metrics as written to its Observation."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from operator import mul
from typing import Any

from ...core.observation import LONGEST, SHORTEST, Observation
from ...core.tabular import MAX_NUMBER, count
from ...core.units import percent
from ...core.work import Work
from .formulas import Plan, plan_for
from .metrics import DTYPES

RATE_TOLERANCE = 0.02  # two ways to the same rate agree within this
MIN_SPECIAL_SHARE = 0.1  # share of the special-function pipe from which its work is worth a word
GPU = "device__attribute_display_name"
PUSHED = "Push/Pop_Range"
STARTED = "Start/Stop_Range"

HALF = "vector.fp16"
ADDS = ("op_hadd_pred_on", "op_hmul_pred_on")
MAX_SHARE_OF_MOVES = 0.1  # of the instructions of threads
MAX_MOVES_PER_THREAD = 8.0

_NOTHING = Work()


@dataclass(slots=True)
class Kernel:
    """A kernel as written: the cells that say which it is, and the metrics wanted, as text with their units' factors."""

    fields: Mapping[str, str]
    names: tuple[str, ...]
    factors: tuple[float, ...]
    texts: list[str]


def _values(kernel: Kernel, mark: str) -> tuple[dict[str, float], list[str]]:
    """The metrics as numbers in base units, and those the report has without a value."""
    texts = "\0".join(kernel.texts)  # a row at once: most of the time of a large import goes here
    texts = texts.replace(".", "").replace(",", ".") if mark == "," else texts.replace(",", "")
    try:
        numbers = list(map(float, texts.split("\0")))
        if numbers and math.isfinite(sum(numbers)) and min(numbers) >= 0 and max(numbers) < MAX_NUMBER:
            return dict(zip(kernel.names, map(mul, numbers, kernel.factors), strict=True)), []
    except ValueError:
        pass
    values: dict[str, float] = {}
    valueless: list[str] = []
    for name, scale, text in zip(kernel.names, kernel.factors, kernel.texts, strict=True):
        value = count(text, mark)
        if value is None and " (" in text:
            value = count(text.partition(" (")[0], mark)  # the instances of a metric follow its value
        if value is not None:
            values[name] = value * scale
        elif text.strip():
            valueless.append(name)
    return values, valueless


def observation(kernel: Kernel, mark: str) -> Observation | None:
    """What was measured of a kernel; None where its time was not."""
    values, valueless = _values(kernel, mark)
    fields = kernel.fields
    plan = plan_for(tuple(values), fields.get("CC", ""))
    seconds = plan.time.value(values) if plan.time else None
    if seconds is None or not SHORTEST <= seconds <= LONGEST:
        return None
    values["time"] = seconds
    kinds = _kinds(plan, values)
    flops, moved, counters = kinds["flops"], kinds["bytes"], kinds["counter"]
    for key, field in (("gpu", GPU), ("compute_capability", "CC")):
        if fields.get(field):
            kinds["condition"][key] = fields[field]
    notes: list[str] = []
    less = _without_sparse(flops, plan.defined)
    less |= _without_moves(values, flops, counters, plan.defined)
    defined: Mapping[str, str] = {**plan.defined, **less} if less else plan.defined
    if "l1" in moved and moved["l1"] < _returned(plan, moved, counters):
        del moved["l1"]
        defined = {**plan.without_l1, **less} if less else plan.without_l1
        notes.append("L1 bytes omitted: fewer than the L2 bytes, because asynchronous copies to shared memory bypass the L1 counter")  # fmt: skip
    for name, weight, peaks, clock in plan.roofs:
        if name == "hbm" or flops.get(name):
            counters[f"roof.{name}"] = weight * max(values[peak] for peak in peaks) * values[clock]
    notes += [*_other_rates(plan, values, seconds), *_uncounted(flops, counters)]
    if valueless:
        notes.append(f"no value in the report: {', '.join(valueless)}")
    ranges, signature = _named(fields)
    name = ranges[-1] if ranges else _short(signature)
    return Observation(
        name=name,
        target=name,
        samples=(seconds,),
        work=_NOTHING,
        settings=_launched(fields.get("Grid Size", ""), fields.get("Block Size", "")),
        conditions=kinds["condition"],
        tool="ncu",
        notes=tuple(notes),
        kernel=signature,
        flops=flops,
        bytes=moved,
        counters=counters,
        defined=defined,
        path=ranges,
    )


def _kinds(plan: Plan, values: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """By kind (flops, bytes, counter, condition) our numbers by name."""
    # `or 0.0`: one zero for all of them, which 100,000 kernels notice
    kinds: dict[str, dict[str, Any]] = {
        kind: {name: values[metric] or 0.0 for name, metric in pairs} for kind, pairs in plan.plain.items()
    }
    for formula in plan.computed:
        result = formula.value(values)
        if result is not None:
            kinds[formula.metric.kind][formula.metric.name] = result or 0.0
    return kinds


def _uncounted(flops: Mapping[str, float], counters: Mapping[str, float]) -> list[str]:
    """Work that the flop counts leave out or overstate."""
    notes = []
    special = counters.get("special_busy", 0.0)
    if special >= MIN_SPECIAL_SHARE:
        notes.append(f"not in any FLOP count: special functions and conversions, pipe at {percent(special)} utilization")  # fmt: skip
    if flops.get("vector.fp16"):
        notes.append("vector.fp16 counts every half-precision instruction as packed (two numbers)")  # fmt: skip
    return notes


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


@lru_cache(maxsize=64)  # the kernels of a report have the same metrics
def _additions(names: tuple[str, ...]) -> tuple[str, ...]:
    """The metrics that count additions and products of halves."""
    return tuple(name for name in names if name.partition(".")[0].endswith(ADDS))


def _without_moves(
    values: Mapping[str, float], flops: dict[str, float], counters: Mapping[str, float], defined: Mapping[str, str]
) -> dict[str, str]:
    """Take compiler moves off the fp16 count; the definition this changes.

    Compilers load constants with HFMA2 (a product with zero). A kernel that computes in fp16 also adds or multiplies, or
    spends more than a tenth of its instructions on HFMA2; without a count of instructions, more than a few per thread.
    """
    counted = flops.get(HALF, 0.0)
    if counted <= 0:
        return {}
    sums = [values[name] for name in _additions(tuple(values))]
    if not sums or any(sums):
        return {}
    moves, instructions, threads = counted / 4, counters.get("thread_instructions"), counters.get("threads")
    limit = MAX_SHARE_OF_MOVES * instructions if instructions else MAX_MOVES_PER_THREAD * threads if threads else 0.0
    if moves > limit:
        return {}
    flops[HALF] = 0.0
    return {f"flops.{HALF}": f"{defined[f'flops.{HALF}']}, taken as 0: only HFMA2 and few of them, which are compiler moves"}  # fmt: skip


def _returned(plan: Plan, moved: Mapping[str, float], counters: Mapping[str, float]) -> float:
    """What L1's bytes must reach: both directions where its count has both, else what came from L2."""
    if plan.defined["bytes.l1"].startswith("l1tex__t_bytes"):
        return moved.get("l2", 0.0)
    return counters.get("l2_to_sm", moved.get("l2", 0.0))


def _other_rates(plan: Plan, values: Mapping[str, float], seconds: float) -> list[str]:
    """Where the report gives a rate of its own (per cycle x clock), operations over time must agree with it."""
    clock = values.get("sm__cycles_elapsed.avg.per_second", 0.0)
    notes = []
    for name, rate in plan.rates:
        reported = values[rate] * clock
        if reported > 0 and abs(values[name] / seconds / reported - 1) > RATE_TOLERANCE:
            notes.append(f"{name} over time is {values[name] / seconds:.4g} flop/s, the rate in the report {reported:.4g}; the replay passes differ")  # fmt: skip
    return notes


_QUOTED = re.compile(r'"([^"]*)"')
_RENAMED = re.compile(r"([^(<]+)/([^/].*)")


@lru_cache(maxsize=4096)
def _ranges(text: str) -> tuple[str, ...]:
    """Range names of a cell such as `475 "<default domain>:forward:none:none:none:none:none:none"`, outermost first."""
    names = (item.partition(":")[2].rsplit(":", 6)[0] for item in _QUOTED.findall(text))
    return tuple(name for name in names if name and name != "none")


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
