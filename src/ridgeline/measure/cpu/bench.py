"""The arrays of a CPU measurement, on one core and on all, and the fastest variant of each probe kernel."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from ...core.machine import Machine
from ...core.notes import CONDITIONS, Note
from ...core.units import show
from ..protocol import MIN_BUSY, MIN_CALIBRATION_BUSY
from .levels import Zone, last_cache, working_set, zones
from .pool import PAGE, Kernel, Library, NoMemory, Pool, cores
from .pool import counted as counted  # charts take it from here

# Passes over a cache before it is timed: a shared one takes several to keep what it is given (benchmarks/cache_settling.py),
# five to ten on a Neoverse N1, three to eight on an Emerald Rapids; the first few matter most.
WARM_PASSES = 6
SHORT_SECONDS = 5e-4  # of the first comparison of the variants of a kernel
RANKING_TRIES = 4  # of a sample that is preempted
CANDIDATE_SHARE, MAX_CANDIDATES = 0.9, 4  # variants so near the fastest, and no more of them, are compared again
LEADER_SHARE = 0.93  # variants so near the fastest on the longer comparison are all measured where only that decides
INDISTINGUISHABLE = 1.02  # ratio of two rates that such a comparison cannot separate
ARRAY_FRACTIONS = (1, 2, 4, 8)  # of the arrays wanted, tried in turn where memory is short
TRIAL_BYTES = 1 << 23  # per thread, touched to learn how long touching takes
TOUCH_SECONDS = {True: 2.0, False: 8.0}  # for touching the arrays, quick and full
MIN_MEMORY_RATIO = 2  # of the working set to the last-level cache; below it cache hits are possible and said
LIBRARY_BYTES = {True: 3 << 26, False: 1 << 30}  # that library products need, quick and full


class Bench:
    """`pools` has one core first and all cores last, over the same arrays; a machine with one core has one pool."""

    def __init__(self, library: Library, machine: Machine, quick: bool) -> None:
        self.library, self.machine, self.quick = library, machine, quick
        self.variants: dict[tuple[str, str, int], list[Kernel]] = {}
        cpus = cores()
        everyone = self._arrays(cpus)
        alone = cpus[1] if len(cpus) > 2 else cpus[0]  # CPU 0 serves most interrupts
        size = min(int(working_set(machine, 1, quick)), everyone.size * len(cpus))
        self.pools = [Pool(library, [alone], size, everyone), everyone] if len(cpus) > 1 else [everyone]
        self.notes: tuple[Note, ...] = self._size_notes()

    def _arrays(self, cpus: Sequence[int]) -> Pool:
        """All cores with arrays as large as wanted, as can be touched in time, and as memory allows."""
        wanted = int(working_set(self.machine, len(cpus), self.quick))
        # a busy machine touches slowly: rather wait than time the last-level cache
        beyond_cache = math.ceil(MIN_MEMORY_RATIO * last_cache(self.machine)[2] / len(cpus) / PAGE) * PAGE
        wanted = min(wanted, max(self._touchable(cpus, wanted), beyond_cache)) // PAGE * PAGE
        shortage = ""
        for fraction in ARRAY_FRACTIONS:
            spare = 0 if fraction == ARRAY_FRACTIONS[-1] else LIBRARY_BYTES[self.quick]
            try:
                return self._allocate(cpus, wanted // fraction, spare)
            except NoMemory as error:
                shortage = str(error)  # the error itself would keep the arrays that could be allocated
        raise NoMemory(shortage)

    def _allocate(self, cpus: Sequence[int], size: int, spare: int) -> Pool:
        """In a function of its own, so that the arrays are freed where the spare memory is missing."""
        pool = Pool(self.library, cpus, size)
        require_memory(spare)
        return pool

    def _touchable(self, cpus: Sequence[int], wanted: int) -> int:
        """Bytes per thread that can be touched in time, by the speed of a trial."""
        if wanted <= TRIAL_BYTES:
            return wanted
        start = time.perf_counter()
        try:
            Pool(self.library, cpus, TRIAL_BYTES)
        except NoMemory:
            return wanted
        return int(TRIAL_BYTES * TOUCH_SECONDS[self.quick] / (time.perf_counter() - start))

    def _size_notes(self) -> tuple[Note, ...]:
        """A note where the arrays are not well beyond the last-level cache."""
        name, _, cache = last_cache(self.machine)
        size = self.pools[-1].size * self.pools[-1].threads
        if not cache or size >= MIN_MEMORY_RATIO * cache:
            return ()
        sizes = f"{show(size, 'B', 3, binary=True)}, {size / cache:.2g} x the reported {name} ({show(cache, 'B', 3, binary=True)})"
        return (Note(CONDITIONS, f"memory bandwidth measured over {sizes}: it may include cache hits"),)

    def flush(self) -> None:
        """Read all arrays, so that no cache holds anything else."""
        pool = self.pools[-1]
        pool.run(self.library.streams("read")[-1], pool.size)

    def zones(self, pool: Pool) -> list[Zone]:
        return zones(self.machine, pool.threads, pool.size)

    def place(self, pool: Pool, size: float) -> tuple[Zone | None, Zone, bool]:
        """The zone that holds a working set, if any; the nearest one; and whether that is the outermost."""
        all_zones = self.zones(pool)
        # arrays that are no larger than a cache, for want of memory, stand for the main memory all the same
        inside = next((zone for zone in reversed(all_zones) if zone.holds(size)), None)
        nearest = inside or next((zone for zone in all_zones if size < zone.last), all_zones[-1])
        return inside, nearest, nearest.name == all_zones[-1].name

    def ranked(self, op: str, zone: Zone, pool: Pool) -> list[Kernel]:
        """The fastest variant of an access mix within a level, then those near it; a quick run ranks on all cores alone."""
        pool = self.pools[-1] if self.quick else pool
        key = (op, zone.name, pool.threads)
        if key not in self.variants:
            place = next((each for each in self.zones(pool) if each.name == zone.name), zone)
            # stores that bypass the caches are of use at the main memory alone
            outermost = place.name == self.zones(pool)[-1].name
            streaming = self.library.streams(f"{op}_nt") if outermost and op != "write" else []
            self.variants[key] = self.leaders([*self.library.streams(op), *streaming], pool, int(place.middle))
        return self.variants[key]

    def fastest(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> Kernel:
        return self.leaders(kernels, pool, size)[0]

    def leaders(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> list[Kernel]:
        """The fastest kernel of a group, then those near it: all compared shortly, the candidates again and longer."""
        group = list(kernels)
        if len(group) == 1:
            return group
        cached = 0 < size < self.zones(pool)[-1].first
        short = _rates(pool, group, size, cached, SHORT_SECONDS, 3)
        candidates = sorted(group, key=lambda kernel: -short[kernel])[:MAX_CANDIDATES]
        candidates = [kernel for kernel in candidates if short[kernel] > CANDIDATE_SHARE * short[candidates[0]]]
        if len(candidates) == 1:
            return candidates
        seconds, turns = (4 * SHORT_SECONDS, 3) if self.quick else (10 * SHORT_SECONDS, 5)
        longer = _rates(pool, candidates, size, cached, seconds, turns)
        # noise can hide the difference between two variants: then the one that asks less of the core is taken
        handicap = {kernel: INDISTINGUISHABLE if kernel.isa.endswith("+loads") else 1.0 for kernel in candidates}
        order = sorted(candidates, key=lambda kernel: -longer[kernel] * handicap[kernel])
        return [kernel for kernel in order if longer[kernel] > LEADER_SHARE * longer[order[0]]]


def _rates(
    pool: Pool, kernels: Sequence[Kernel], size: int, cached: bool, min_seconds: float, turns: int
) -> dict[Kernel, float]:
    """The best rate of each kernel, in turns of at least so many seconds: bytes per second, or flops without a size."""

    def seconds(kernel: Kernel, reps: int, warm: int) -> float:
        """Without the time in which the kernel was preempted, if no try goes without."""
        for _ in range(RANKING_TRIES):
            cold = size and not cached
            timing = pool.run_cold(kernel, reps) if cold else pool.run(kernel, size, reps, warm)
            if timing.busy >= MIN_BUSY or timing.seconds < min_seconds:
                break
        return timing.seconds * max(timing.busy, MIN_CALIBRATION_BUSY)

    loops = {kernel: _loops(partial(seconds, kernel), WARM_PASSES * cached, min_seconds) for kernel in kernels}
    covered = size if cached else pool.quantum if size else 0
    amounts = {kernel: float(pool.touched(kernel, covered)) if covered else kernel.flops for kernel in kernels}
    best = dict.fromkeys(kernels, 0.0)
    for _ in range(turns):
        for kernel, reps in loops.items():
            best[kernel] = max(best[kernel], amounts[kernel] * reps / seconds(kernel, reps, 1))
    return best


def _loops(seconds_of: Callable[[int, int], float], warm: int, min_seconds: float) -> int:
    reps, seconds = 1, seconds_of(1, warm)
    while seconds < min_seconds:
        reps = math.ceil(reps * min(8.0, 2 * min_seconds / max(seconds, 1e-6)))
        seconds = seconds_of(reps, 1)
    return reps


def require_memory(size: int) -> None:
    """NoMemory where so much more cannot be allocated."""
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        wanted = show(size, "B", binary=True)
        raise NoMemory(f"no memory for {wanted}; close other programs or raise the limit (ulimit -v)") from None
