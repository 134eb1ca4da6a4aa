"""Bandwidth through NumPy on all cores, where no C compiler is at hand: lower bounds of the ceilings."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.machine import Machine
from ...core.notes import LOWER_BOUND, Note
from ...core.units import show
from ..protocol import Probe, Timing
from .ceilings import allocate_note, stream_work
from .levels import working_set, zones
from .pool import cores, counted

# arrays read, arrays written, flops per element
MIXES = {
    "read": (1, 0, 0),
    "copy": (1, 1, 0),
    "triad": (2, 1, 2),
    "write": (0, 1, 0),
    "scale": (1, 1, 1),
    "add": (2, 1, 1),
}
MIN_BYTES = 1 << 16  # per thread; Python's own time per call makes smaller working sets useless
FACTOR = 0.75  # of scale and triad


def streams(machine: Machine, why: str) -> list[Probe]:
    """The main memory first, then the caches that are large enough; one working set each."""
    threads = len(cores())
    pool = ThreadPoolExecutor(threads)
    every = zones(machine, threads, working_set(machine, threads, True))
    probes = []
    for zone in reversed(every):
        outermost = zone is every[-1]
        # three arrays share a cache; one array alone is well beyond the last one
        size = int(max(zone.last if outermost else zone.middle, MIN_BYTES)) // (8 if outermost else 24) * 8
        if zone.last >= MIN_BYTES:
            data = [np.random.default_rng(seed).standard_normal((3, size // 8)) for seed in range(threads)]
            state = "cold" if outermost else "resident"
            probes += [_stream(op, zone.name, state, data, why, pool) for op in MIXES]
    return probes


def _once(op: str, a: Any, b: Any, d: Any) -> Any:
    if op == "read":
        return a.sum()
    if op == "write":
        return d.fill(FACTOR)
    if op == "copy":
        return np.copyto(d, a)
    if op == "add":
        return np.add(a, b, out=d)
    np.multiply(a if op == "scale" else b, FACTOR, out=d)
    return np.add(d, a, out=d) if op == "triad" else d


def _stream(op: str, level: str, state: str, data: Sequence[Any], why: str, pool: ThreadPoolExecutor) -> Probe:
    reads, writes, flops = MIXES[op]
    threads = len(data)

    def part(arrays: Any, loops: int) -> tuple[float, float, float]:
        start, ran = time.perf_counter(), time.thread_time()
        for _ in range(loops):
            _once(op, *arrays)
        end = time.perf_counter()
        return start, end, (time.thread_time() - ran) / (end - start)

    def call(loops: int) -> Timing:
        parts = list(pool.map(part, data, [loops] * threads))
        seconds = max(end for _, end, _ in parts) - min(start for start, _, _ in parts)
        return Timing(seconds, min(1.0, *(busy for _, _, busy in parts)))

    def check() -> None:
        for a, b, d in data:
            total = _once(op, a, b, d)
            expected = {"write": FACTOR, "copy": a, "scale": FACTOR * a, "add": a + b, "triad": a + FACTOR * b}
            right = abs(total - math.fsum(a)) < 1e-6 * a.size if op == "read" else np.allclose(d, expected[op])
            if not right:
                raise RidgelineError(f"probe {op} with NumPy: wrong values; its times mean nothing")

    touched = float(threads * data[0][0].nbytes * (reads + writes))
    lower = Note(LOWER_BOUND, f"lower bound: measured with NumPy, because the C probes cannot be compiled: {why}")
    settings = {"mix": op, "bytes": touched, "threads": threads, "isa": "numpy", "dtype": "fp64"}
    settings |= {"state": state, "burst": True}
    return Probe(
        f"{op} {show(touched, 'B', binary=True)}, {counted(threads)}, NumPy", level, call,
        stream_work(op, reads, writes, flops, touched), settings, (lower, *allocate_note(op, reads, writes)), check=check,
    )  # fmt: skip
