"""The probes of a CPU's ceilings: bandwidth by access mix and working set (C or NumPy), arithmetic peaks, latency.

Bytes are nominal (what the kernel asks for); a note says where a cache also reads the lines it is about to overwrite.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.machine import MAIN, Machine
from ...core.notes import LOWER_BOUND, NOT_MEASURED, Note
from ...core.units import show
from ...core.work import READ, WRITE, Work
from ..protocol import Probe, Timing
from .bench import LINE, WARM_PASSES, Bench, Kernel, NoMemory, Pool, counted
from .levels import MIN_BYTES, sweep, working_set, zones

MIXES = ("read", "write", "write_nt", "copy", "scale", "add", "triad")
STREAMING = ("copy_nt", "triad_nt")  # with stores that bypass the caches; of use at the main memory alone
# arrays read, arrays written, flops per element
NUMPY_MIXES = {"read": (1, 0, 0), "write": (0, 1, 0), "copy": (1, 1, 0)}
NUMPY_MIXES |= {"scale": (1, 1, 1), "add": (2, 1, 1), "triad": (2, 1, 2)}
NUMPY_MIN_BYTES = 1 << 16  # Python's own time per call makes smaller working sets useless
FACTOR = 0.75  # of scale and triad
CHECK_LOOPS = 1000
HOPS = 16  # of one iteration of the pointer chase


def stream_work(op: str, reads: int, writes: int, flops: float, touched: float) -> Work:
    """One pass: nominal bytes of each array, flops per 8-byte element of one array."""
    array = touched / (reads + writes)
    moves = {(MAIN, name, READ): array for name in "abc"[:reads]}
    if writes:
        moves[MAIN, "d", WRITE] = array
    counts = {("vector", "fp64", op): flops * array / 8} if flops else {}
    return Work(counts=counts, moves=moves, name=op, dtype="fp64")


def allocate_note(op: str, reads: int, writes: int) -> tuple[str, ...]:
    if not writes:
        return ()
    if op.endswith("_nt"):
        return ("bytes are nominal; stores pass the caches, so no write-allocate is expected",)
    more = (reads + 2 * writes) / (reads + writes)
    return (
        f"bytes are nominal: write-allocate is not counted; where a cache fills lines before writing, {more:.3g} times as much moves",
    )


def stream(bench: Bench, op: str, pool: Pool, size: int, rank: int = 0) -> Probe:
    """A mix over a working set, with the fastest variant of its level or the one of that rank behind it."""
    inside, nearest, outermost = bench.place(pool, size)
    kernel = bench.ranked(op, nearest, pool)[rank]
    touched = pool.touched(kernel, size)
    all_zones = bench.zones(pool)
    # where memory is short, the largest arrays fit the last cache and say nothing of what is behind it
    cold = outermost and (len(all_zones) == 1 or size >= 2 * all_zones[-2].last)
    settings = {
        "mix": op if op in MIXES else op.removesuffix("_nt"), "bytes": touched, "threads": pool.threads,
        "isa": kernel.isa, "dtype": "fp64", "state": "cold" if cold else "resident", "burst": True,
        "stores": "streaming" if op.endswith("_nt") else "plain",
    }  # fmt: skip
    name = f"{op} {show(touched, 'B', binary=True)}, {counted(pool.threads)}{f', {kernel.isa}' if rank else ''}"
    # between two levels a point speaks of neither, so that no level's best is taken from it
    target = inside.name if inside else f"sweep.{nearest.name}"
    work = stream_work(op, kernel.reads, kernel.writes, kernel.flops, touched)
    notes, warm = allocate_note(op, kernel.reads, kernel.writes), 0 if outermost else WARM_PASSES

    def call(loops: int) -> Timing:
        return pool.run(kernel, size, loops, warm)

    return Probe(name, target, call, work, settings, notes, check=lambda: pool.check(kernel, size))


def streams(bench: Bench) -> list[Probe]:
    probes = []
    for pool in bench.pools:
        middles = [int(zone.middle) // 512 * 512 for zone in bench.zones(pool)]
        for op in MIXES:
            probes += [stream(bench, op, pool, size) for size in _sizes(bench, op, pool, middles)]
        # behind the caches variants are so alike, and samples so scattered, that only the whole run can choose
        for op in (*MIXES, *STREAMING):
            count = len(bench.ranked(op, bench.zones(pool)[-1], pool))
            probes += [stream(bench, op, pool, middles[-1], rank) for rank in range(count)]
    return list({probe.name: probe for probe in probes}.values())


def _sizes(bench: Bench, op: str, pool: Pool, middles: list[int]) -> list[int]:
    """The middle of every level; in a full run, and for the reads of one core, a sweep over all sizes too."""
    factor = math.sqrt(2.0) if op == "read" and not bench.quick else 2.0
    swept = not bench.quick or (op == "read" and pool is bench.pools[0])
    points = sweep(MIN_BYTES, pool.size, factor) if swept else []
    return sorted({*points, *middles, *([] if bench.quick else [pool.size // 512 * 512])})


# -- NumPy instead of C ----------------------------------------------------------------------------------------------


def numpy_streams(machine: Machine, why: str) -> list[Probe]:
    """One core, one typical working set per level."""
    probes = []
    all_zones = zones(machine, 1, working_set(machine, 1, True))
    for zone in all_zones:
        outermost = zone is all_zones[-1]
        # three arrays share a cache; one array alone is meant to be well beyond the last one
        size = int(max(zone.middle, NUMPY_MIN_BYTES)) // (8 if outermost else 24) * 8
        data = np.random.default_rng(3).standard_normal((3, size // 8))
        if zone.last >= NUMPY_MIN_BYTES:
            state = "cold" if outermost else "resident"
            probes += [_numpy_stream(op, zone.name, state, data, why) for op in NUMPY_MIXES]
    return probes


def _numpy_stream(op: str, level: str, state: str, data: Any, why: str) -> Probe:
    a, b, d = data
    reads, writes, flops = NUMPY_MIXES[op]

    def triad() -> Any:
        np.multiply(b, FACTOR, out=d)
        return np.add(d, a, out=d)

    once = {
        "read": a.sum,
        "write": lambda: d.fill(FACTOR),
        "copy": lambda: np.copyto(d, a),
        "scale": lambda: np.multiply(a, FACTOR, out=d),
        "add": lambda: np.add(a, b, out=d),
        "triad": triad,
    }[op]

    def call(loops: int) -> Timing:
        start, ran = time.perf_counter(), time.thread_time()
        for _ in range(loops):
            once()
        wall = time.perf_counter() - start
        return Timing(wall, min(1.0, (time.thread_time() - ran) / wall))

    def check() -> None:
        total = once()
        expected = {"write": FACTOR, "copy": a, "scale": FACTOR * a, "add": a + b, "triad": a + FACTOR * b}
        right = abs(total - math.fsum(a)) < 1e-6 * a.size if op == "read" else np.allclose(d, expected[op])
        if not right:
            raise RidgelineError(f"probe {op} with NumPy: wrong values; its times mean nothing")

    touched = float(a.nbytes * (reads + writes))
    lower = Note(LOWER_BOUND, f"lower bound: NumPy, because the C probes cannot be compiled here: {why}")
    settings = {"mix": op, "bytes": touched, "threads": 1, "isa": "numpy", "dtype": "fp64"}
    settings |= {"state": state, "burst": True}
    return Probe(
        f"{op} {show(touched, 'B', binary=True)}, NumPy", level, call, stream_work(op, reads, writes, flops, touched),
        settings, (lower, *allocate_note(op, reads, writes)), check=check,
    )  # fmt: skip


def arithmetic(bench: Bench) -> list[Probe]:
    probes = []
    for (engine, dtype, isa), group in bench.library.arithmetic().items():
        kernel = bench.fastest(group, bench.pools[0])
        probes += [_arithmetic(engine, dtype, isa, kernel, pool) for pool in bench.pools]
    return probes


def _arithmetic(engine: str, dtype: str, isa: str, kernel: Kernel, pool: Pool) -> Probe:
    counts = {("matrix" if engine == "tensor" else "vector", dtype, "fma"): kernel.flops * pool.threads}
    settings = {"mix": "none", "threads": pool.threads, "isa": isa, "dtype": dtype}
    settings |= {"chains": kernel.chains, "burst": True}
    name, work = f"{isa} {dtype} arithmetic, {counted(pool.threads)}", Work(counts, name=f"{isa} {dtype}", dtype=dtype)

    def call(loops: int) -> Timing:
        return pool.run(kernel, 0, loops, 1)

    check = partial(pool.check, kernel, 0, CHECK_LOOPS)
    return Probe(name, f"{engine}.{dtype}", call, work, settings, check=check)


def latencies(bench: Bench) -> list[Probe]:
    """One core; a working set that there is no memory for is named in the notes of the bench."""
    pool = bench.pools[0]
    middles = [int(zone.middle) for zone in bench.zones(pool)]
    sizes = middles if bench.quick else sorted({*sweep(4 * MIN_BYTES, pool.size, 2.0), *middles})
    probes = []
    for size in sizes:
        try:
            probes.append(_latency(bench, pool, size // LINE * LINE))
        except NoMemory as error:
            text = f"not measured: latency {show(size, 'B', binary=True)} ({error})"
            bench.notes += (Note(NOT_MEASURED, text),)
    return probes


def _latency(bench: Bench, pool: Pool, size: int) -> Probe:
    inside, nearest, outermost = bench.place(pool, size)
    chain = pool.chain(size)
    lap = 0 if outermost else size // LINE
    name = f"latency {show(size, 'B', binary=True)}"

    def call(loops: int) -> Timing:
        hops = -(-loops // HOPS) * HOPS
        seconds, busy = pool.chase(chain, hops, lap)
        return Timing(seconds * loops / hops, busy)

    def check() -> None:
        if not bench.library.raw.rl_chain_whole(chain):
            raise RidgelineError(f"probe {name}: the chase does not visit every line once")

    settings = {"mix": "chase", "bytes": size, "threads": 1, "line": LINE}
    settings |= {"state": "resident" if lap else "cold", "burst": True}
    target = f"latency.{inside.name}" if inside else f"sweep.latency.{nearest.name}"
    notes = ("one call is one hop of a random cycle over all lines, address translation included",)
    return Probe(f"{name}, 1 core", target, call, Work(name="one dependent load"), settings, notes, check=check)
