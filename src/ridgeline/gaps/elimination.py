"""Figures by elimination: a unit is busy, and what was counted on it is little. What remains has no counter of its own.

L1 and shared memory: loads, stores, local memory and what L2 delivers are counted, atomics of shared memory are not. The
SM: its pipes and L1 are counted, the constant cache is not.
"""

from __future__ import annotations

from collections.abc import Mapping

from .access import Known
from .kernel_families import SECTOR

ATOMIC_SECTORS = 32.0  # at most, of an atomic request of a warp
PIPES = (
    "issue",
    "fma_busy",
    "alu_busy",
    "fp64_busy",
    "special_busy",
    "lsu_busy",
    "tensor_busy",
    "copy_busy",
    "l1_busy",
)
ISSUE_PER_SPECIAL = (
    8.0  # warp instructions an SM issues at its peak, 4 a cycle, per one of special functions, 1 in 2 cycles
)
ALU_PER_SPECIAL = 4.0  # the same for the pipe of comparisons, selections, logic and integer additions, 2 a cycle
_REQUESTS = ("load_requests", "sectors_per_load", "store_requests", "sectors_per_store")
_OF_L1 = ("l1_busy", "cycles", "sms", "shared_wavefronts", "l2_to_sm", *_REQUESTS)
SOURCES: dict[str, tuple[str, ...]] = {
    "l1_uncounted": (*_OF_L1, "local_sectors", "atomics"),
    "sm_uncounted": ("compute_busy", *PIPES),
    "shared_busy": ("shared_wavefronts", "cycles", "sms"),
    "global_access": ("load_requests", "store_requests", "lsu_busy", "cycles", "sms"),
    "queue_share": ("stall.mio_throttle", "stall.short_scoreboard"),
    "instructions_per_function": ("issue", "special_busy"),
    "alu_per_function": ("alu_busy", "special_busy"),
}


def eliminated(counters: Mapping[str, float], stalls: Mapping[str, float]) -> Known:
    """`stalls` are warps by reason, without those that are not stalled."""
    issue, special, total = counters.get("issue"), counters.get("special_busy"), sum(stalls.values())
    alu = counters.get("alu_busy")
    queued = sum(stalls.get(name, 0.0) for name in ("mio_throttle", "short_scoreboard"))
    return {
        "l1_uncounted": _l1(counters),
        "sm_uncounted": _sm(counters),
        "shared_busy": _shared(counters),
        "global_access": _global(counters),
        "queue_share": queued / total if total else None,
        "instructions_per_function": ISSUE_PER_SPECIAL * issue / special if issue is not None and special else None,
        "alu_per_function": ALU_PER_SPECIAL * alu / special if alu is not None and special else None,
    }


def _l1(counters: Mapping[str, float]) -> float | None:
    """The share of time in which L1 and shared memory do what was not counted, at one wavefront or sector a cycle."""
    if not all(name in counters for name in _OF_L1):
        return None
    loads, per_load, stores, per_store = (counters[name] for name in _REQUESTS)
    sectors = loads * per_load + stores * per_store + counters.get("local_sectors", 0.0)
    sectors += ATOMIC_SECTORS * counters.get("atomics", 0.0) + counters["l2_to_sm"] / SECTOR
    cycles = counters["cycles"] * counters["sms"]
    active = counters.get("sm_active", 1.0)
    return counters["l1_busy"] * active - (counters["shared_wavefronts"] + sectors) / cycles if cycles else None


def _shared(counters: Mapping[str, float]) -> float | None:
    """The share of time in which shared memory serves loads and stores, at one wavefront a cycle."""
    wavefronts, cycles, sms = (counters.get(name) for name in ("shared_wavefronts", "cycles", "sms"))
    return wavefronts / (cycles * sms) if wavefronts is not None and cycles and sms else None


def _global(counters: Mapping[str, float]) -> float | None:
    """The part of the load-store pipe that loads and stores of global memory take; accesses of shared memory and shuffles take the rest."""
    names = ("load_requests", "store_requests", "lsu_busy", "cycles", "sms")
    loads, stores, busy, cycles, sms = (counters.get(name) for name in names)
    if loads is None or stores is None or not busy or not cycles or not sms:
        return None
    return (loads + stores) / (busy * counters.get("sm_active", 1.0) * cycles * sms)


def _sm(counters: Mapping[str, float]) -> float | None:
    """The utilization of the busiest part of the SMs, less that of the busiest one that has a counter."""
    if not all(name in counters for name in ("compute_busy", "issue", "lsu_busy", "l1_busy", "special_busy")):
        return None
    busiest = max(counters.get(name, 0.0) for name in PIPES)
    return counters["compute_busy"] - busiest * counters.get("sm_active", 1.0)
