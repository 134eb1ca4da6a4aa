"""What a run finds in the last-level cache because a run shortly before it wrote or read it there.

A buffer is in the cache as far as it and the bytes that were touched since its last use leave room:

    share found = 2 - (bytes read + bytes touched since) / room, within 0 and 1        room = the usable share of the cache

All of it is found where both fit the room, nothing where they are twice as large: what a run reads first is what the run
before it wrote first, and is replaced first.

A kernel that bandwidth limits takes less by what the main memory need not deliver, one that latency limits by what the
first access takes less. With cold caches nothing is found, which is what the floor of a program states.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.machine import Machine
from ...machines.defaults import defaults
from ..queue import Floats
from .plan import Plan


@dataclass(frozen=True)
class Cache:
    """The last-level cache of a machine: usable bytes, its bandwidth over that of the main memory, and the share of the
    shortest kernel's time that reads from it spare."""

    name: str
    room: float
    speedup: float
    latency: float


def last_level_cache(machine: Machine) -> Cache | None:
    """None where its size is not known, or where the innermost level is the only one."""
    if machine.kind == "cpu" or len(machine.levels) < 2 or machine.levels[-2].name == "l1":
        return None
    level, outer = machine.levels[-2], machine.main.bandwidth.value()
    if level.total is None or outer is None:
        return None
    usual, inner = defaults("cache"), level.bandwidth.value()
    speedup = usual["speedup"] if inner is None else max(inner / outer, 1.0)
    return Cache(level.name, usual["usable"] * level.total, speedup, usual["latency"])


def bytes_in_cache(plan: Plan, cache: Cache | None) -> Floats:
    """Bytes of each run's reads that are still in the cache."""
    hits = np.zeros(len(plan))
    if cache is None:
        return hits
    touched = 0.0  # bytes since the beginning
    last: dict[int, float] = {}  # of each buffer: bytes touched when it was used last
    for run, (reads, writes) in enumerate(zip(plan.reads, plan.writes, strict=True)):
        for buffer, size in reads:
            if buffer in last:
                hits[run] += size * min(max(2 - (touched - last[buffer] + size) / cache.room, 0.0), 1.0)
        used = dict((*reads, *writes))
        touched += sum(used.values())
        last.update(dict.fromkeys(used, touched))
    return hits


def warm_time(
    time: Floats, launch: Floats, memory: Floats, other: Floats, of_reads: float, of_all: float, cache: Cache
) -> Floats:
    """Time of kernels that find a share of their reads (`of_reads`), which is one of all their bytes (`of_all`).

    Where bandwidth limits, the bytes found cost the time of the cache's bandwidth instead: as much of that counts as the
    memory term is of the kernel's time, and no more than brings the memory term down to the next one. Where latency does,
    the first access returns sooner: a share of the launch.
    """
    running = np.maximum(time - launch, 0.0)
    limited = np.divide(memory, running, out=np.zeros_like(time), where=running > 0)
    spared = np.minimum(memory * of_all * (1 - 1 / cache.speedup), np.maximum(memory - other, 0.0))
    return np.asarray(time - spared * np.minimum(limited, 1.0) - launch * of_reads * cache.latency)
