"""Gains of fewer or better placed instructions, in seconds: what the units that remain need is the least time.

Memory, at its achievable share, is one of them; the pipes and the issue slots are the others.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

from .access import WARP
from .elimination import ALU_PER_SPECIAL, ISSUE_PER_SPECIAL
from .gap import Gap
from .regime import COMPUTE, LAUNCH
from .rules import Signs
from .target import longest

FP32_UNIT, FP64_UNIT, SPECIAL_UNIT = "vector.fp32", "vector.fp64", "special.fp32"
PRECISE_STEPS = 5.0  # multiply-adds that refine the special function of a precise division or root; a power has more

Gain = Callable[[Gap, Signs], float | None]


def down_to(gap: Gap, time: float) -> float:
    """From the measured time down to another one, or to the achievable one where that is longer."""
    return gap.measured - max(gap.achievable, time)


def _time_of(gap: Gap, busy: float) -> float:
    """Seconds in which a unit that is so busy today does the same at its achievable share."""
    return gap.measured * min(busy / gap.target.achievable_share, 1.0)


def up(gap: Gap, signs: Signs) -> float:
    """To the achievable share of the limiting unit, at the observed counts."""
    return down_to(gap, longest(gap.work.needs) / gap.target.achievable_share + gap.target.launch)


def overlapped(gap: Gap, signs: Signs) -> float:
    """Loads run beside the compute, which has as many instructions as today."""
    busy = max((share.value for share in gap.shares if share.side == COMPUTE), default=0.0)
    return min(up(gap, signs), down_to(gap, _time_of(gap, busy)))


def wider(gap: Gap, signs: Signs) -> float:
    """Fewer and wider loads; conversions and arithmetic stay."""
    pipes = (FP32_UNIT, FP64_UNIT, SPECIAL_UNIT)
    busy = max((share.value for share in gap.shares if share.name in pipes), default=0.0)
    return min(up(gap, signs), down_to(gap, _time_of(gap, busy)))


def vectorized(gap: Gap, signs: Signs) -> float:
    """Loads, stores and indices take no time; comparisons stay."""
    return down_to(gap, _time_of(gap, _comparing(gap, signs)))


def unsynchronized(gap: Gap, signs: Signs) -> float:
    """Between two ends: all instructions but the waits stay, or only multiply-adds, comparisons and special functions do.

    What is exchanged through shared memory and its addresses go where registers can pass it on, which no counter tells. The
    traffic of L2 stays.
    """
    pipes = (FP32_UNIT, FP64_UNIT, SPECIAL_UNIT, "l2")
    busy = max((share.value for share in gap.shares if share.name in pipes), default=0.0)
    kept = max(busy, _comparing(gap, signs))
    ends = [max(gap.achievable, _time_of(gap, use)) for use in (kept, max(kept, _pipe(gap, "issue")))]
    return down_to(gap, sqrt(prod(ends)))


def _comparing(gap: Gap, signs: Signs) -> float:
    """Utilization of the pipe of comparisons and selections, without integer instructions: it issues at half the rate of an SM."""
    integer = signs.get("integer_share")
    indexing = (
        integer * _pipe(gap, "issue") * ISSUE_PER_SPECIAL / ALU_PER_SPECIAL if isinstance(integer, float) else 0.0
    )
    return max(_pipe(gap, "alu_busy") - indexing, 0.0)


def _pipe(gap: Gap, counter: str) -> float:
    """Utilization of a pipe that is no unit of a roofline, over the whole time."""
    counters = gap.measurement.counters
    return counters.get(counter, 0.0) * counters.get("sm_active", 1.0)


def index(gap: Gap, signs: Signs) -> float:
    """Integer instructions go, but for one per load and store: its address."""
    counters, share = gap.measurement.counters, signs.get("integer_share")
    every, requests = (
        counters.get("thread_instructions"),
        (counters.get("load_requests"), counters.get("store_requests")),
    )
    issue = next((share.value for share in gap.shares if share.name == "issue"), 0.0)
    if not isinstance(share, float) or not every:
        return down_to(gap, 0.0)
    addresses = WARP * sum(count or 0.0 for count in requests) / every
    return down_to(gap, _time_of(gap, issue * min(1 - share + addresses, 1.0)))


def arithmetic(gap: Gap, signs: Signs) -> float:
    """Only arithmetic and memory traffic remain: FLOPs without FMAs and special functions need more than the roofline says.

    The FMA pipe also multiplies integers: at most as many of its slots as there are integer instructions. Shared memory
    serves what it does today.
    """
    shared = signs.get("shared_busy")
    served = down_to(gap, _time_of(gap, shared)) if isinstance(shared, float) else gap.measured
    return min(_computing(gap, signs, 0.0), vectorized(gap, signs), served)


def functions(gap: Gap, signs: Signs) -> float:
    """The same with fast functions: special functions, loads and stores stay, the multiply-adds that refine functions go."""
    return min(_computing(gap, signs, PRECISE_STEPS), down_to(gap, _time_of(gap, _pipe(gap, "lsu_busy"))))


def _computing(gap: Gap, signs: Signs, refining: float) -> float:
    """Only arithmetic and memory traffic remain, without so many multiply-adds per special function."""
    shares = {share.name: share.value for share in gap.shares}
    special, integer = shares.get(SPECIAL_UNIT, 0.0), signs.get("integer_share")
    indexing = integer * shares.get("issue", 0.0) if isinstance(integer, float) else shares.get(FP32_UNIT, 0.0)
    fp32 = shares.get(FP32_UNIT, 0.0) - indexing - refining * special / ISSUE_PER_SPECIAL
    return down_to(gap, _time_of(gap, max(special, shares.get(FP64_UNIT, 0.0), fp32)))


def single(gap: Gap, signs: Signs) -> float | None:
    """The fp64 arithmetic at the peak of fp32; the busiest unit after that is used as well as the busiest is today.

    Of the instructions, those of fp64 stay (at least one for two FLOPs) as fp32 ones, conversions go, and the others, which
    take a 64-bit value in two halves, become half as many. Special functions of fp64 begin with those of fp32 and convert.
    Functions have more other instructions than multiply-adds, and polynomials for 24 bits are half as long as those for 53.
    """
    machine, ceilings = gap.target.machine, gap.target.ceilings
    if not {FP64_UNIT, FP32_UNIT} <= machine.peaks.keys():
        return None
    # caches serve the present kernel and are not its limit
    shares = {share.name: share.value for share in gap.shares if share.name not in (LAUNCH, *gap.counts.inner)}
    double, slower = shares.pop(FP64_UNIT, 0.0), machine.peak(FP32_UNIT, ceilings).value / machine.peak(FP64_UNIT, ceilings).value  # fmt: skip
    before = max(*shares.values(), double, 0.0)
    for unit, kept in _instructions_kept(gap).items():
        shares[unit] = shares.get(unit, 0.0) * kept
    after = max(*shares.values(), shares.get(FP32_UNIT, 0.0) + double / slower)
    return gap.measured * (1 - after / before) if after < before else 0.0


def _instructions_kept(gap: Gap) -> dict[str, float]:
    """The share of instructions, and of those of the special-function pipe, that fp32 in place of fp64 leaves."""
    counters = gap.measurement.counters
    every, conversions = counters.get("thread_instructions"), counters.get("conversions")
    if not every or conversions is None:
        return {}
    double = min(gap.measurement.flops.get(FP64_UNIT, 0.0) / 2 / every, 1.0)
    others = max(1 - double - conversions / every, 0.0)
    double /= 2.0 if double < others else 1.0
    special = counters.get("special_busy", 0.0) * counters.get("issue", 0.0)
    converted = (
        conversions / every * ISSUE_PER_SPECIAL * counters["issue"] / counters["special_busy"] if special else 0.0
    )
    return {"issue": double + others / 2, SPECIAL_UNIT: max(1 - converted, 0.0)}
