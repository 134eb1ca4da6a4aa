"""The C probes of a CPU's ceilings by value: bandwidth by access mix and working set, FMA peaks, latency, clock.

Bytes are nominal (what the kernel asks for); a note says where a cache also reads the lines it is about to overwrite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from ...core.errors import RidgelineError
from ...core.machine import MAIN
from ...core.notes import NOT_MEASURED, Note
from ...core.units import show
from ...core.work import READ, WRITE, Work
from ...machines.calibrate import CLOCK
from ..protocol import Probe, Timing
from ..schedule import Group
from .bench import WARM_PASSES, Bench
from .levels import MIN_BYTES, sweep
from .pool import LINE, Kernel, NoMemory, Pool, counted

COMMON = ("read", "copy", "triad")
OTHERS = ("write", "write_nt", "scale", "add")
MIXES = (*COMMON, *OTHERS)
CHECK_BYTES = 1 << 20  # per thread, over which a stream is checked
MAX_CHAIN = 1 << 28  # bytes of the longest pointer chase
MAX_COLD_CHAIN = 1 << 26  # bytes of one behind the caches
ADDS = 64  # of one call of the clock probe
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
    """A mix over a working set, with the fastest variant of its level or the one of that rank behind it.

    A set as large as the arrays is passed over in pieces, each of them cold; a smaller one is passed over again and again.
    """
    inside, nearest, outermost = bench.place(pool, size)
    kernel = bench.ranked(op, nearest, pool)[rank]
    pieces = size >= pool.size // 512 * 512
    touched = pool.touched(kernel, size)
    settings = {
        "mix": op, "bytes": touched, "threads": pool.threads, "isa": kernel.isa, "dtype": "fp64",
        "state": "cold" if outermost else "resident", "burst": True,
        "stores": "streaming" if kernel.op.endswith("_nt") else "plain",
    }  # fmt: skip
    name = f"{kernel.op} {show(touched, 'B', binary=True)}, {counted(pool.threads)}{f', {kernel.isa}' if rank else ''}"
    # between two levels a point speaks of neither, so that no level's best is taken from it
    target = inside.name if inside else f"sweep.{nearest.name}"
    covered = pool.touched(kernel, pool.quantum) if pieces else touched
    work = stream_work(kernel.op, kernel.reads, kernel.writes, kernel.flops, covered)
    notes, warm = allocate_note(kernel.op, kernel.reads, kernel.writes), 0 if outermost else WARM_PASSES

    def call(loops: int) -> Timing:
        return pool.run_cold(kernel, loops) if pieces else pool.run(kernel, size, loops, warm)

    return Probe(name, target, call, work, settings, notes, check=partial(pool.check, kernel, min(size, CHECK_BYTES)))


def _unique(probes: Iterable[Probe]) -> list[Probe]:
    return list({probe.name: probe for probe in probes}.values())


def memory_streams(bench: Bench, pool: Pool, ops: Sequence[str], ranks: slice) -> list[Probe]:
    """Mixes at the main memory, with the variants of these ranks: there variants are much alike and samples scatter."""
    zone, size = bench.zones(pool)[-1], pool.size // 512 * 512
    return [
        stream(bench, op, pool, size, rank)
        for op in ops
        for rank in range(len(bench.ranked(op, zone, pool)))[ranks]
    ]  # fmt: skip


def cache_streams(bench: Bench, pool: Pool, ops: Sequence[str]) -> list[Probe]:
    """Mixes at the middle of every cache."""
    return [stream(bench, op, pool, int(zone.middle) // 512 * 512) for zone in bench.zones(pool)[:-1] for op in ops]


def swept_streams(bench: Bench, pool: Pool, ops: Sequence[str]) -> list[Probe]:
    """Mixes over all working sets; reads in finer steps in a full run, which finds the plateaus."""
    probes = []
    for op in ops:
        factor = math.sqrt(2.0) if op == "read" and not bench.quick else 2.0
        sizes = {*sweep(MIN_BYTES, pool.size, factor), pool.size // 512 * 512}
        probes += [stream(bench, op, pool, size) for size in sorted(sizes)]
    return probes


def groups(bench: Bench) -> list[Group]:
    """What is measured, the most valuable first: all cores before one, the common mixes before the others."""
    one, everyone = bench.pools[0], bench.pools[-1]
    several = everyone is not one
    first, most = slice(0, 2), slice(2, None)

    def group(name: str, *makers: Callable[[], Iterable[Probe]], required: bool = False) -> Group:
        return Group(name, lambda: _unique(probe for make in makers for probe in make()), required)

    required = [
        group("memory bandwidth", lambda: memory_streams(bench, everyone, COMMON, first), required=True),
        group("FMA peaks", lambda: peaks(bench, everyone), required=True),
        group("cache bandwidth", lambda: cache_streams(bench, everyone, COMMON), required=True),
        group("latency", lambda: latencies(bench), required=True),
        group("core clock", lambda: [clock(everyone)], required=True),
    ]
    alone = [
        group("single-core bandwidth", lambda: memory_streams(bench, one, COMMON, slice(0, 1)), lambda: cache_streams(bench, one, COMMON)),
        group("single-core FMA peaks", lambda: peaks(bench, one)),
    ]  # fmt: skip
    variants = [
        group("read sweep", lambda: swept_streams(bench, one, ["read"])),
        group("other access mixes", lambda: memory_streams(bench, everyone, OTHERS, first), lambda: cache_streams(bench, everyone, OTHERS)),
        group("other instruction sets", lambda: other_units(bench, everyone)),
        group("memory variants", lambda: memory_streams(bench, everyone, MIXES, most)),
    ]  # fmt: skip
    sweeps = [
        group("latency sweep", lambda: latency_sweep(bench)),
        group("all-core sweeps", lambda: swept_streams(bench, everyone, MIXES)),
        group("single-core sweeps", lambda: swept_streams(bench, one, MIXES)),
        group("single-core instruction sets", lambda: other_units(bench, one)),
    ]
    return [
        *required,
        *(alone if several else []),
        *variants,
        *([] if bench.quick else sweeps if several else sweeps[:2]),
    ]


def peaks(bench: Bench, pool: Pool) -> list[Probe]:
    """The fastest kernel of every engine and format, whatever its instruction set."""
    return [_arithmetic(kernel, pool) for kernel in _fastest_units(bench).values()]


def _fastest_units(bench: Bench) -> dict[str, Kernel]:
    """By peak; ranked once, on all cores."""
    by_peak: dict[str, list[Kernel]] = {}
    for (engine, dtype, _), kernels in bench.library.arithmetic().items():
        by_peak.setdefault(f"{engine}.{dtype}", []).extend(kernels)
    for peak, kernels in by_peak.items():
        if (key := (peak, "", 0)) not in bench.variants:
            bench.variants[key] = bench.leaders(kernels, bench.pools[-1])
    return {peak: bench.variants[peak, "", 0][0] for peak in by_peak}


def other_units(bench: Bench, pool: Pool) -> list[Probe]:
    """The fastest kernel of every other instruction set."""
    fastest = {(kernel.engine, kernel.dtype, kernel.isa) for kernel in _fastest_units(bench).values()}
    arithmetic = bench.library.arithmetic().items()
    return [_arithmetic(bench.fastest(kernels, pool), pool) for key, kernels in arithmetic if key not in fastest]


def _arithmetic(kernel: Kernel, pool: Pool) -> Probe:
    engine, dtype, isa = kernel.engine, kernel.dtype, kernel.isa
    counts = {("matrix" if engine == "tensor" else "vector", dtype, "fma"): kernel.flops * pool.threads}
    settings = {"mix": "none", "threads": pool.threads, "isa": isa, "dtype": dtype}
    settings |= {"chains": kernel.chains, "burst": True}
    name, work = f"{isa} {dtype} arithmetic, {counted(pool.threads)}", Work(counts, name=f"{isa} {dtype}", dtype=dtype)
    check = partial(pool.check, kernel, 0, CHECK_LOOPS)
    return Probe(name, f"{engine}.{dtype}", lambda loops: pool.run(kernel, 0, loops, 1), work, settings, check=check)


def clock(pool: Pool) -> Probe:
    """The clock that all cores hold together: one call is a chain of 64 dependent integer additions, one cycle each."""
    settings = {"mix": "none", "threads": pool.threads, "cycles": ADDS, "burst": True}
    return Probe(f"core clock, {counted(pool.threads)}", CLOCK, pool.count_cycles, Work(name="64 additions"), settings)


def latencies(bench: Bench) -> list[Probe]:
    """The latency of every level, on one core."""
    return _latencies(bench, [int(zone.middle) for zone in bench.zones(bench.pools[0])])


def latency_sweep(bench: Bench) -> list[Probe]:
    pool = bench.pools[0]
    last = min(bench.zones(pool)[-1].first, MAX_CHAIN)
    return _latencies(bench, sweep(4 * MIN_BYTES, max(last, 8 * MIN_BYTES), 2.0))


def _latencies(bench: Bench, sizes: Sequence[int]) -> list[Probe]:
    """A chain that there is no memory for is named in the notes of the bench."""
    probes = []
    for size in sizes:
        try:
            probes.append(_latency(bench, bench.pools[0], size // LINE * LINE))
        except NoMemory as error:
            text = f"not measured: latency {show(size, 'B', binary=True)} ({error})"
            bench.notes += (Note(NOT_MEASURED, text),)
    return probes


def _latency(bench: Bench, pool: Pool, size: int) -> Probe:
    """A random pointer chase; one behind the caches is short, and reading all arrays before each sample makes it cold."""
    inside, nearest, cold = bench.place(pool, size)
    chain = pool.chain(min(size, MAX_COLD_CHAIN) if cold else size)
    lap = 0 if cold else size // LINE
    name = f"latency {show(size, 'B', binary=True)}"

    def call(loops: int) -> Timing:
        if cold:
            bench.flush()
        hops = -(-loops // HOPS) * HOPS
        seconds, busy = pool.chase(chain, hops, lap)
        return Timing(seconds * loops / hops, busy)

    def check() -> None:
        if not bench.library.raw.rl_chain_whole(chain):
            raise RidgelineError(f"probe {name}: the chase does not visit every line once")

    settings = {"mix": "chase", "bytes": size, "threads": 1, "line": LINE}
    settings |= {"state": "cold" if cold else "resident", "burst": True}
    target = f"latency.{inside.name}" if inside else f"sweep.latency.{nearest.name}"
    notes = ("one call is one hop of a random cycle over all lines, address translation included",)
    return Probe(f"{name}, 1 core", target, call, Work(name="one dependent load"), settings, notes, check=check)
