"""What the C probes of a CPU share: the compiled library, thread pools with their arrays, the fastest variants."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from ...core.machine import Machine
from ...core.notes import NOT_MEASURED, Note
from ...core.units import show
from .levels import Zone, working_set, zones
from .pool import Kernel, Library, NoMemory, Pool, cores

# Passes over a cache before it is timed: a shared one takes several to keep what it is given (benchmarks/cache_settling.py),
# five to ten on a Neoverse N1, three to eight on an Emerald Rapids; the first few matter most.
WARM_PASSES = 6
SHORT_SECONDS = 5e-4  # of the first comparison of the variants of a kernel
CANDIDATE_SHARE, MAX_CANDIDATES = 0.9, 4  # variants so near the fastest, and no more of them, are compared again
LEADER_SHARE = 0.93  # variants so near the fastest on the longer comparison are all measured where only that decides
INDISTINGUISHABLE = 1.02  # ratio of two rates that such a comparison cannot separate
ARRAY_FRACTIONS = (1, 2, 4)  # of the arrays wanted, tried in turn where memory is short; the last fills a cache
LIBRARY_BYTES = {
    True: 3 << 26,
    False: 1 << 30,
}  # that library products need, quick and full: a BLAS without them ends us


class Bench:
    """`pools` has one core first and all cores last; a machine with one core has one pool."""

    def __init__(self, library: Library, machine: Machine, quick: bool) -> None:
        self.library, self.machine, self.quick = library, machine, quick
        self.pools, self.notes = self._pools()
        self.variants: dict[tuple[str, str, int], list[Kernel]] = {}

    def _pools(self) -> tuple[list[Pool], tuple[Note, ...]]:
        """One core and all of them, with arrays as large as wanted or, where memory is short, a half or a quarter of it."""
        cpus = cores()
        alone = cpus[1] if len(cpus) > 2 else cpus[0]  # CPU 0 serves most interrupts
        groups = [[alone], cpus] if len(cpus) > 1 else [[alone]]
        shortage = ""
        for fraction in ARRAY_FRACTIONS:
            wanted = [int(working_set(self.machine, len(group), self.quick) / fraction) for group in groups]
            spare = 0 if fraction == ARRAY_FRACTIONS[-1] else wanted[0] + LIBRARY_BYTES[self.quick]
            try:
                pools = self._allocate(groups, wanted, spare)
            except NoMemory as error:
                shortage = str(error)  # the error itself would keep the arrays that could be allocated
            else:
                return pools, () if fraction == 1 else (_short_note(wanted[0], self.zones(pools[0])),)
        raise NoMemory(shortage)

    def _allocate(self, groups: Sequence[Sequence[int]], wanted: Sequence[int], spare: int) -> list[Pool]:
        pools = [Pool(self.library, group, size) for group, size in zip(groups, wanted, strict=True)]
        require_memory(spare)
        return pools

    def zones(self, pool: Pool) -> list[Zone]:
        return zones(self.machine, pool.threads, pool.size)

    def place(self, pool: Pool, size: float) -> tuple[Zone | None, Zone, bool]:
        """The zone that holds a working set, if any; the nearest one; and whether that is the outermost."""
        all_zones = self.zones(pool)
        inside = next((zone for zone in all_zones if zone.holds(size)), None)
        nearest = inside or next((zone for zone in all_zones if size < zone.last), all_zones[-1])
        return inside, nearest, nearest.name == all_zones[-1].name

    def ranked(self, op: str, zone: Zone, pool: Pool) -> list[Kernel]:
        """The fastest instruction set for an access mix within a level, then those that come near it."""
        key = (op, zone.name, pool.threads)
        if key not in self.variants:
            self.variants[key] = self.leaders(self.library.streams(op), pool, int(zone.middle))
        return self.variants[key]

    def fastest(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> Kernel:
        return self.leaders(kernels, pool, size)[0]

    def leaders(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> list[Kernel]:
        """The fastest kernel of a group, then those near it: all compared shortly, the candidates again and longer."""
        group = list(kernels)
        if len(group) == 1:
            return group
        cached = size < self.zones(pool)[-1].first
        short = _rates(pool, group, size, cached, SHORT_SECONDS, 3)
        candidates = sorted(group, key=lambda kernel: -short[kernel])[:MAX_CANDIDATES]
        candidates = [kernel for kernel in candidates if short[kernel] > CANDIDATE_SHARE * short[candidates[0]]]
        if len(candidates) == 1:
            return candidates
        seconds, turns = (4 * SHORT_SECONDS, 3) if self.quick else (10 * SHORT_SECONDS, 5)
        longer = _rates(pool, candidates, size, cached, seconds, turns)
        # on a disturbed machine variants look alike that are not: then the one that asks least of the core is taken
        handicap = {kernel: INDISTINGUISHABLE if kernel.isa.endswith("+loads") else 1.0 for kernel in candidates}
        order = sorted(candidates, key=lambda kernel: -longer[kernel] * handicap[kernel])
        return [kernel for kernel in order if longer[kernel] > LEADER_SHARE * longer[order[0]]]


def _rates(
    pool: Pool, kernels: Sequence[Kernel], size: int, cached: bool, min_seconds: float, turns: int
) -> dict[Kernel, float]:
    """The best rate of each kernel, in turns of at least so many seconds: bytes per second, or flops without a size."""
    loops = {kernel: _loops(pool, kernel, size, cached, min_seconds) for kernel in kernels}
    best = dict.fromkeys(kernels, 0.0)
    for _ in range(turns):
        for kernel, reps in loops.items():
            amount = float(pool.touched(kernel, size)) if size else kernel.flops
            best[kernel] = max(best[kernel], amount * reps / pool.run(kernel, size, reps, int(cached)).seconds)
    return best


def _loops(pool: Pool, kernel: Kernel, size: int, cached: bool, min_seconds: float) -> int:
    reps, seconds = 1, pool.run(kernel, size, 1, WARM_PASSES * cached).seconds
    while seconds < min_seconds:
        reps = math.ceil(reps * min(8.0, 2 * min_seconds / max(seconds, 1e-6)))
        seconds = pool.run(kernel, size, reps, 1).seconds
    return reps


def require_memory(size: int) -> None:
    """NoMemory where so much cannot be allocated beside what is there."""
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        wanted = show(size, "B", binary=True)
        raise NoMemory(f"no memory for {wanted}; close other programs or raise the limit (ulimit -v)") from None


def _short_note(size: int, served: Sequence[Zone]) -> Note:
    """What smaller arrays than planned mean."""
    text = f"not measured: working sets above {show(size, 'B', binary=True)} on one core, for which there is no memory"
    if len(served) > 1 and size < 2 * served[-2].last:
        text += f"; such sets fit {served[-2].name}, so nothing is said of {served[-1].name}"
    return Note(NOT_MEASURED, text)
