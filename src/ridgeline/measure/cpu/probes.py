"""What this CPU gives: bandwidth by level and access mix, arithmetic peaks, latency, library GEMM; one core and all.

The probes are the C kernels of `kernels/`, with pinned threads that time themselves; without a compiler NumPy stands in
and every number is called a lower bound. Bytes are nominal (what the kernel asks for); whether a cache also reads the
lines it is about to overwrite stands in the notes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.figure import Figure
from ...core.machine import MAIN, Machine
from ...core.notes import LOWER_BOUND, Note
from ...core.observation import Observation
from ...core.units import show
from ...core.version import __version__
from ...core.work import READ, WRITE, Work
from ..conditions import Watch, cpu_conditions, second_load
from ..protocol import REAL, STOPPED, Clock, Probe, Progress, Run, Series, Timing, interleave, observation, sustain
from .build import BuildError, Built, build
from .gemm import LONGEST, numpy_gemms, torch_gemms, within
from .levels import SMALLEST, Zone, noted, sizes, sweep, zones
from .pool import LINE, Kernel, Library, NoMemory, Pool, cores, counted

MIXES = ("read", "write", "write_nt", "copy", "scale", "add", "triad")
STREAMING = ("copy_nt", "triad_nt")  # with stores that pass the caches; of use at the main memory alone
# Passes over a cache before it is timed: a shared one takes several to keep what it is given (benchmarks/cache_settling.py),
# five to ten on a Neoverse N1, three to eight on an Emerald Rapids; the first few matter most.
SETTLE = 6
LOOK = 5e-4  # seconds of a short look at one variant of a kernel
NEAR, LEADERS = 0.9, 4  # variants so near the fastest, and no more of them, are looked at again
CLOSE = 0.93  # variants so near the fastest on a longer look are all measured, where only that tells
ALIKE = 1.02  # variants that differ by less cannot be told apart in such a look
SMALLER = (1, 2, 4)  # parts of the arrays wanted that are tried in turn where memory is short; the last fills a cache
SPARE = {True: 3 << 26, False: 1 << 30}  # bytes that library products need, quick and full: a BLAS without them ends us
LOWER = "lower bound: NumPy, because the C probes cannot be compiled here"


# -- the probes ---------------------------------------------------------------------------------------------------


def stream_work(op: str, reads: int, writes: int, flops: float, touched: float) -> Work:
    """One pass: nominal bytes of each array, flops per 8-byte element of one array."""
    each = touched / (reads + writes)
    moves = {(MAIN, name, READ): each for name in "abc"[:reads]}
    if writes:
        moves[MAIN, "d", WRITE] = each
    counts = {("vector", "fp64", op): flops * each / 8} if flops else {}
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


class Bench:
    """The library, its thread pools and what a machine's probes need to know."""

    def __init__(self, library: Library, machine: Machine, quick: bool) -> None:
        self.library, self.machine, self.quick = library, machine, quick
        self.pools, self.notes = self._pools()
        self.best: dict[tuple[str, str, int], list[Kernel]] = {}

    def _pools(self) -> tuple[list[Pool], tuple[str, ...]]:
        """One core and all of them, with arrays as large as wanted or, where memory is short, a half or a quarter of it."""
        cpus = cores()
        alone = cpus[1] if len(cpus) > 2 else cpus[0]  # CPU 0 serves most interrupts
        groups = [[alone], cpus] if len(cpus) > 1 else [[alone]]
        short = ""
        for part in SMALLER:
            wanted = [int(sizes(self.machine, len(group), self.quick) / part) for group in groups]
            try:
                pools = self._filled(groups, wanted, 0 if part == SMALLER[-1] else wanted[0] + SPARE[self.quick])
            except NoMemory as error:
                short = str(error)  # the error itself would keep the arrays that could be had
            else:
                return pools, () if part == 1 else (_short(wanted[0], self.zones(pools[0])),)
        raise NoMemory(short)

    def _filled(self, groups: Sequence[Sequence[int]], wanted: Sequence[int], beside: int) -> list[Pool]:
        pools = [Pool(self.library, group, size) for group, size in zip(groups, wanted, strict=True)]
        _room(beside)
        return pools

    def zones(self, pool: Pool) -> list[Zone]:
        return zones(self.machine, pool.threads, pool.size)

    def fastest(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> Kernel:
        return self.leaders(kernels, pool, size)[0]

    def leaders(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> list[Kernel]:
        """The fastest kernel of a group, then those that come near it on a longer look, in turns, after a short one at all."""
        group = list(kernels)
        if len(group) == 1:
            return group
        cached = size < self.zones(pool)[-1].first
        amounts = {kernel: float(pool.touched(kernel, size)) if size else kernel.flops for kernel in group}

        def loops(kernel: Kernel, least: float) -> int:
            reps, seconds = 1, pool.run(kernel, size, 1, SETTLE * cached).seconds
            while seconds < least:
                reps = math.ceil(reps * min(8.0, 2 * least / max(seconds, 1e-6)))
                seconds = pool.run(kernel, size, reps, 1).seconds
            return reps

        def rates(chosen: Sequence[Kernel], least: float, turns: int) -> dict[Kernel, float]:
            counts = {kernel: loops(kernel, least) for kernel in chosen}
            found = dict.fromkeys(chosen, 0.0)
            for _ in range(turns):
                for kernel, reps in counts.items():
                    rate = amounts[kernel] * reps / pool.run(kernel, size, reps, int(cached)).seconds
                    found[kernel] = max(found[kernel], rate)
            return found

        short = rates(group, LOOK, 3)
        near = sorted(group, key=lambda kernel: -short[kernel])[:LEADERS]
        near = [kernel for kernel in near if short[kernel] > NEAR * short[near[0]]]
        if len(near) == 1:
            return near
        longer = rates(near, (4 if self.quick else 10) * LOOK, 3 if self.quick else 5)
        # on a disturbed machine variants look alike that are not: then the one that asks least of the core is taken
        weighed = {kernel: rate * (ALIKE if kernel.isa.endswith("+loads") else 1) for kernel, rate in longer.items()}
        order = sorted(near, key=lambda kernel: -weighed[kernel])
        return [kernel for kernel in order if longer[kernel] > CLOSE * longer[order[0]]]

    def ranked(self, op: str, zone: Zone, pool: Pool) -> list[Kernel]:
        """The fastest instruction set for an access mix within a level, then those that come near it."""
        key = (op, zone.name, pool.threads)
        if key not in self.best:
            self.best[key] = self.leaders(self.library.streams(op), pool, int(zone.middle))
        return self.best[key]

    def stream(self, op: str, pool: Pool, size: int, place: int = 0) -> Probe:
        """A mix over a working set, with the fastest variant of its level or the one at that place behind it."""
        all_zones = self.zones(pool)
        inside = next((zone for zone in all_zones if zone.holds(size)), None)
        near = inside or next((zone for zone in all_zones if size < zone.last), all_zones[-1])
        kernel = self.ranked(op, near, pool)[place]
        touched = pool.touched(kernel, size)
        outer = near.name == all_zones[-1].name
        # where memory is short, the largest arrays fit the last cache and say nothing of what is behind it
        cold = outer and (len(all_zones) == 1 or size >= 2 * all_zones[-2].last)
        warm = 0 if outer else SETTLE
        mix = op if op in MIXES else op.removesuffix("_nt")
        settings = {
            "mix": mix, "bytes": touched, "threads": pool.threads, "isa": kernel.isa, "dtype": "fp64",
            "state": "cold" if cold else "resident", "burst": True, "stores": "streaming" if op.endswith("_nt") else "plain",
        }  # fmt: skip
        return Probe(
            f"{op} {show(touched, 'B', binary=True)}, {counted(pool.threads)}{f', {kernel.isa}' if place else ''}",
            # between two levels a point speaks of neither, so that no level's best is taken from it
            inside.name if inside else f"sweep.{near.name}",
            lambda loops: pool.run(kernel, size, loops, warm),
            stream_work(op, kernel.reads, kernel.writes, kernel.flops, touched),
            settings,
            allocate_note(op, kernel.reads, kernel.writes),
            check=lambda: _checked(pool, kernel, size),
        )

    def streams(self) -> list[Probe]:
        found = []
        for pool in self.pools:
            middles = [int(zone.middle) // 512 * 512 for zone in self.zones(pool)]
            for op in MIXES:
                factor = (2.0 if self.quick else math.sqrt(2.0)) if op == "read" else 2.0
                whole = not self.quick or (op == "read" and pool is self.pools[0])
                points = sweep(SMALLEST, pool.size, factor) if whole else []
                for size in sorted({*points, *middles, *([] if self.quick else [pool.size // 512 * 512])}):
                    found.append(self.stream(op, pool, size))
            # behind the caches variants are so alike, and samples so scattered, that a look cannot choose for the whole run
            for op in (*MIXES, *STREAMING):
                many = len(self.ranked(op, self.zones(pool)[-1], pool))
                found += [self.stream(op, pool, middles[-1], place) for place in range(many)]
        return list({probe.name: probe for probe in found}.values())

    def arithmetic(self) -> list[Probe]:
        found = []
        for (engine, dtype, isa), group in self.library.arithmetic().items():
            kernel = self.fastest(group, self.pools[0])
            for pool in self.pools:
                found.append(self._arithmetic(engine, dtype, isa, kernel, pool))
        return found

    def _arithmetic(self, engine: str, dtype: str, isa: str, kernel: Kernel, pool: Pool) -> Probe:
        counts = {("matrix" if engine == "tensor" else "vector", dtype, "fma"): kernel.flops * pool.threads}
        settings = {
            "mix": "none",
            "threads": pool.threads,
            "isa": isa,
            "dtype": dtype,
            "chains": kernel.chains,
            "burst": True,
        }
        return Probe(
            f"{isa} {dtype} arithmetic, {counted(pool.threads)}",
            f"{engine}.{dtype}",
            lambda loops: pool.run(kernel, 0, loops, 1),
            Work(counts=counts, name=f"{isa} {dtype}", dtype=dtype),
            settings,
            check=lambda: _checked(pool, kernel, 0, 1000),
        )

    def latencies(self) -> list[Probe]:
        pool = self.pools[0]
        middles = [int(zone.middle) for zone in self.zones(pool)]
        points = middles if self.quick else sorted({*sweep(4 * SMALLEST, pool.size, 2.0), *middles})
        found = []
        for size in points:
            try:
                found.append(self._latency(pool, size // LINE * LINE))
            except NoMemory as error:
                self.notes += (f"not measured: latency {show(size, 'B', binary=True)} ({error})",)
        return found

    def _latency(self, pool: Pool, size: int) -> Probe:
        all_zones = self.zones(pool)
        inside = next((zone for zone in all_zones if zone.holds(size)), None)
        near = inside or next((zone for zone in all_zones if size < zone.last), all_zones[-1])
        chain = pool.chain(size)
        lap = 0 if near.name == all_zones[-1].name else size // LINE

        def call(loops: int) -> Timing:
            hops = -(-loops // 16) * 16
            seconds, busy = pool.chase(chain, hops, lap)
            return Timing(seconds * loops / hops, busy)

        def check() -> None:
            if not self.library.raw.rl_chain_whole(chain):
                raise RidgelineError(
                    f"probe latency {show(size, 'B', binary=True)}: the chase does not visit every line once"
                )

        return Probe(
            f"latency {show(size, 'B', binary=True)}, 1 core",
            f"latency.{inside.name}" if inside else f"sweep.latency.{near.name}",
            call,
            Work(name="one dependent load"),
            {
                "mix": "chase",
                "bytes": size,
                "threads": 1,
                "line": LINE,
                "state": "resident" if lap else "cold",
                "burst": True,
            },
            ("one call is one hop of a random cycle over all lines, address translation included",),
            check=check,
        )


def _room(size: int) -> None:
    """NoMemory where so much cannot be had beside what is there."""
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        wanted = show(size, "B", binary=True)
        raise NoMemory(f"no memory for {wanted}; close other programs or raise the limit (ulimit -v)") from None


def _short(size: int, served: Sequence[Zone]) -> str:
    """What smaller arrays than planned mean."""
    told = f"not measured: working sets above {show(size, 'B', binary=True)} on one core, for which there is no memory"
    if len(served) > 1 and size < 2 * served[-2].last:
        told += f"; such sets fit {served[-2].name}, so nothing is said of {served[-1].name}"
    return told


def _checked(pool: Pool, kernel: Kernel, size: int, reps: int = 1) -> None:
    pool.run(kernel, size, reps, 0, check=True)


# -- NumPy instead of C ----------------------------------------------------------------------------------------------


def numpy_streams(machine: Machine, why: str) -> list[Probe]:
    """One core, one typical working set per level; Python's own time per call makes small ones useless."""
    largest = sizes(machine, 1, True)
    found = []
    all_zones = zones(machine, 1, largest)
    for zone in all_zones:
        outer = zone is all_zones[-1]
        # three arrays share a cache; one array alone is meant to be well beyond the last one
        size = int(max(zone.middle, 1 << 16)) // (8 if outer else 24) * 8
        data = np.random.default_rng(3).standard_normal((3, size // 8))
        found += [
            _numpy_stream(op, zone.name, "cold" if outer else "resident", data, why)
            for op in ("read", "write", "copy", "scale", "add", "triad")
            if zone.last >= 1 << 16
        ]
    return found


def _without_c(machine: Machine, ready: Sequence[Probe]) -> str:
    """What the C probes would have measured besides."""
    seen = {probe.target for probe in ready}
    levels = [level.name for level in machine.levels if level.name not in seen]
    return f"not measured (no C probes): {'; '.join([*levels, 'latencies', 'arithmetic peaks other than of the library products', 'memory and caches on all cores'])}"


def _numpy_stream(op: str, level: str, state: str, data: Any, why: str) -> Probe:
    a, b, d = data
    reads, writes, flops = {
        "read": (1, 0, 0),
        "write": (0, 1, 0),
        "copy": (1, 1, 0),
        "scale": (1, 1, 1),
        "add": (2, 1, 1),
        "triad": (2, 1, 2),
    }[op]

    def once() -> Any:
        if op == "read":
            return a.sum()
        if op == "write":
            return d.fill(0.75)
        if op == "copy":
            return np.copyto(d, a)
        if op == "scale":
            return np.multiply(a, 0.75, out=d)
        if op == "add":
            return np.add(a, b, out=d)
        np.multiply(b, 0.75, out=d)
        return np.add(d, a, out=d)

    def call(loops: int) -> Timing:
        start, ran = time.perf_counter(), time.thread_time()
        for _ in range(loops):
            once()
        wall = time.perf_counter() - start
        return Timing(wall, min(1.0, (time.thread_time() - ran) / wall))

    def check() -> None:
        told = once()
        want = {"write": 0.75, "copy": a, "scale": 0.75 * a, "add": a + b, "triad": a + 0.75 * b, "read": 0.0}[op]
        right = abs(told - math.fsum(a)) < 1e-6 * a.size if op == "read" else np.allclose(d, want)
        if not right:
            raise RidgelineError(f"probe {op} with NumPy: wrong values; its times mean nothing")

    touched = float(a.nbytes * (reads + writes))
    return Probe(
        f"{op} {show(touched, 'B', binary=True)}, NumPy",
        level,
        call,
        stream_work(op, reads, writes, flops, touched),
        {
            "mix": op,
            "bytes": touched,
            "threads": 1,
            "isa": "numpy",
            "dtype": "fp64",
            "state": state,
            "burst": True,
        },
        (Note(LOWER_BOUND, f"{LOWER}: {why}"), *allocate_note(op, reads, writes)),
        check=check,
    )


# -- all of it -------------------------------------------------------------------------------------------------------


def local() -> Machine:
    from ...machines.detect.local import here

    return here("cpu")


def probes(machine: Machine | None = None, quick: bool = False) -> list[Probe]:
    """All probes of the C library for this machine, instruction sets ranked; NumPy's where there is no compiler."""
    machine = machine or local()
    try:
        library = Library(build())
    except BuildError as error:
        return numpy_streams(machine, str(error))
    bench = Bench(library, machine, quick)
    return [*bench.streams(), *bench.arithmetic(), *bench.latencies()]


def measure(
    machine: Machine | None = None, quick: bool = False, clock: Clock = REAL, on_progress: Progress | None = None
) -> list[Observation]:
    """Everything above, measured. Ctrl-C ends it and what was measured is returned, flagged in its notes."""
    machine = machine or local()
    watch = Watch()
    built: Built | None = None
    bench: Bench | None = None
    remarks: tuple[str, ...] = ()
    rounds, least, warm = (5, 0.004, 0.008) if quick else (7, 0.015, 0.03)

    def tell(part: int, done: int, total: int, label: str) -> None:
        if on_progress:
            # the three parts take about 6, 3 and 1 tenths of the time
            ends = ((0.0, 0.6), (0.6, 0.9), (0.9, 1.0))[part]
            on_progress(round(1000 * (ends[0] + (ends[1] - ends[0]) * done / max(total, 1))), 1000, label)

    tell(0, 0, 1, "compiling the probes")
    try:
        built = build()
        bench = Bench(Library(built), machine, quick)
        tell(0, 0, 1, "ranking instruction sets")
        ready = [*bench.streams(), *bench.arithmetic(), *bench.latencies()]
        remarks = (*built.notes, *bench.notes)
    except BuildError as error:
        ready = numpy_streams(machine, str(error))
        remarks = (_without_c(machine, ready),)
    speed = [bench.pools[0].clock()] if bench else []
    extra = {"threads_pinned_to": list(bench.pools[-1].cpus)} if bench and bench.pools[0].pinned else {}
    conditions = cpu_conditions(
        machine.title or machine.name, bench.pools[0].pinned if bench else False,
        built.compiler if built else "", " ".join(built.flags) if built else "", extra,
    )  # fmt: skip

    runs: list[Run] = [
        interleave(
            ready,
            rounds,
            clock,
            partial(tell, 0),
            least=least,
            warm=warm,
            most=2 * rounds,
            budget=10.0 if quick else 150.0,
        )
    ]
    held: list[tuple[Series, list[float]]] = []
    left: list[str] = []
    ended = runs[0].why == STOPPED
    if not ended:
        try:
            products: list[Probe] = []
            try:
                products, left = _products(machine, quick, bench, clock)
            except NoMemory as error:
                remarks = (*remarks, f"not measured: matrix products by libraries ({error})")
            runs.append(
                interleave(
                    products, 3, clock, partial(tell, 1), least=least, warm=0.0, most=5, budget=5.0 if quick else 75.0
                )
            )
            ended = runs[1].why == STOPPED
            if not ended and not quick:
                for place, probe in enumerate(chosen := _to_sustain(ready, runs[0])):
                    tell(2, place, len(chosen), f"sustained {probe.name}")
                    held.append(sustain(probe, clock))
        except KeyboardInterrupt:
            ended = True
    if bench:
        speed.append(bench.pools[0].clock())
        conditions["clock_measured"] = [round(value) for value in speed]
    conditions |= watch.conditions()
    found = [observation(row, conditions, __version__, ended) for run in runs for row in run.series]
    for row, run_in in held:
        told = observation(row, {**conditions, "run_in_samples": run_in}, __version__, ended)
        found.append(replace(told, name=f"sustained {told.name}", settings={**told.settings, "burst": False}))
    if not found:
        raise RidgelineError(f"{STOPPED} before anything was measured; nothing was written")
    missing = [name for run in runs for name in run.missing] + left
    found = [_finished(each, machine, remarks) for each in found]
    found = noted(found, machine)
    if missing or ended:
        why = STOPPED if ended else "the time for it was used up or one call takes too long"
        found[0] = replace(
            found[0], notes=(*found[0].notes, f"not measured ({why}): {'; '.join(missing) or 'later parts'}")
        )
    if not ended:
        tell(2, 1, 1, "done")
    return found


def stopped(observations: Iterable[Observation]) -> bool:
    """Whether Ctrl-C ended the measurement these come from."""
    return any(note.startswith(f"not measured ({STOPPED}") for item in observations for note in item.notes)


def _products(machine: Machine, quick: bool, bench: Bench | None, clock: Clock) -> tuple[list[Probe], list[str]]:
    counts = sorted({pool.threads for pool in bench.pools}) if bench else [len(cores())]
    _room(SPARE[quick])
    products = numpy_gemms(machine, quick, counts)
    if not quick:
        products += torch_gemms(machine, quick, counts)
    return within(products, LONGEST[quick], clock)


def _to_sustain(ready: Sequence[Probe], run: Run) -> list[Probe]:
    """All cores, the fastest kernel of each vector peak, and the triad at the main memory."""
    rates: dict[str, tuple[float, Probe]] = {}
    most = max((probe.settings["threads"] for probe in ready), default=1)
    for row in run.series:
        probe = row.probe
        peak = probe.target in ("vector.fp64", "vector.fp32", "tensor.bf16")
        outer = probe.settings.get("mix") == "triad" and probe.settings.get("state") == "cold"
        if probe.settings["threads"] != most or not (peak or outer):
            continue
        amount = float(np.asarray(probe.work.flops if peak else probe.work.bytes))
        rate = amount / min(row.samples)
        if rate > rates.get(probe.target, (0.0, probe))[0]:
            rates[probe.target] = (rate, probe)
    return [probe for _, probe in rates.values()]


ABOVE = 1.02  # timers and clocks differ by less than this


def _finished(told: Observation, machine: Machine, remarks: tuple[str, ...]) -> Observation:
    """With what concerns all of the run, and a finding where a ceiling of the machine was passed."""
    notes = [*told.notes, *remarks]
    if second := second_load(told.conditions):
        notes.append(f"a second load: {second}")
    threads = told.settings.get("threads", 1)
    share = min(1.0, threads / (machine.units.get("core") or threads))
    limit: Figure | None
    if told.target in machine.peaks:
        limit = machine.peaks[told.target]
        value, rate, unit = limit.value("stated") or limit.value("derived"), told.best_rate, "flop/s"
    else:
        level = next((level for level in machine.levels if level.name == told.target), None)
        limit = level.bandwidth if level else None
        value, rate, unit = (
            (limit.value("stated") or limit.value("derived") if limit else None),
            told.best_bandwidth,
            "B/s",
        )
        share = share if level and level.scope == "core" else 1.0
    if limit and value and rate > ABOVE * value * share:
        notes.append(
            f"finding: {show(rate, unit)} is above the {show(value * share, unit)} of {limit.source or limit.derivation}; "
            "the clock, the count or that figure is not what it seems"
        )
    return replace(told, notes=tuple(notes))
