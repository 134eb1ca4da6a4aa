"""Residence: the cache that holds the data of a call, for calls that find there what they left.

A function called in a loop does, and so do the operators of a step that is repeated, where all that it writes fits into
the last-level cache.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..core.machine import MAIN, Machine
from ..core.work import WRITE, Work, total
from .coefficients import timed_in_cache


def holding(machine: Machine, footprint: float, ceilings: str | None = None) -> str | None:
    """The innermost level with twice the capacity of a call's data, None for the main memory."""
    for level in machine.levels[:-1]:
        if level.total and level.total >= 2 * footprint and level.bandwidth.value(ceilings) is not None:
            return level.name
    return None


def stays_in_cache(machine: Machine, calls: Iterable[tuple[Work, float]]) -> bool:
    """Whether a CPU's cache holds what a step of these works, each so many times, writes; kernels must have been timed so.

    Nearly every tensor of a step is written once in it, so that the bytes written are its working set.
    """
    if not timed_in_cache(machine):
        return False
    written = total(work.bytes_at(MAIN, WRITE) * count for work, count in calls)
    return bool(written <= machine.largest_cache)
