"""The compiled CPU probes as Python sees them: a table of kernels, pools of pinned threads, the fastest variants."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.machine import Machine
from ...core.notes import NOT_MEASURED, Note
from ...core.units import show
from ..protocol import Timing
from .build import Built
from .levels import Zone, working_set, zones

LINE = 64
# Passes over a cache before it is timed: a shared one takes several to keep what it is given (benchmarks/cache_settling.py),
# five to ten on a Neoverse N1, three to eight on an Emerald Rapids; the first few matter most.
WARM_PASSES = 6
SHORT_SECONDS = 5e-4  # of the first comparison of the variants of a kernel
CANDIDATE_SHARE, MAX_CANDIDATES = 0.9, 4  # variants so near the fastest, and no more of them, are compared again
LEADER_SHARE = 0.93  # variants so near the fastest on the longer comparison are all measured where only that decides
INDISTINGUISHABLE = 1.02  # ratio of two rates that such a comparison cannot separate
ARRAY_FRACTIONS = (1, 2, 4)  # of the arrays wanted, tried in turn where memory is short; the last fills a cache
LIBRARY_BYTES = {True: 3 << 26, False: 1 << 30}  # that library products need, quick and full, or BLAS ends us


@dataclass(frozen=True)
class Kernel:
    """One row of the table in the C files."""

    index: int
    kind: str
    op: str
    isa: str
    dtype: str
    engine: str
    reads: int
    writes: int
    chains: int
    flops: float  # stream: per 8-byte element; fma: per loop and thread


class Library:
    """The compiled probes, with Python types."""

    def __init__(self, built: Built) -> None:
        self.built = built
        lib = self.raw = built.library
        number, pointer, floats = ctypes.c_uint64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "rl_count": (ctypes.c_int, []),
            "rl_text": (ctypes.c_char_p, [ctypes.c_int, ctypes.c_int]),
            "rl_numbers": (None, [ctypes.c_int, floats]),
            "rl_new": (pointer, [ctypes.c_int, ctypes.POINTER(ctypes.c_int), number]),
            "rl_free": (None, [pointer]),
            "rl_pinned": (ctypes.c_int, [pointer]),
            "rl_touched": (number, [ctypes.c_int, number]),
            "rl_run": (ctypes.c_int, [pointer, ctypes.c_int, number, number, number, ctypes.c_int, floats]),
            "rl_chain_new": (pointer, [pointer, number, number]),
            "rl_chain_free": (None, [pointer]),
            "rl_chain_whole": (ctypes.c_int, [pointer]),
            "rl_chase": (ctypes.c_int, [pointer, pointer, number, number, floats]),
            "rl_clock": (ctypes.c_int, [pointer, number, floats]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.kernels = [kernel for index in range(lib.rl_count()) if (kernel := self._kernel(index))]

    def _kernel(self, index: int) -> Kernel | None:
        kind, op, isa, dtype, engine = (self.raw.rl_text(index, which).decode() for which in range(5))
        numbers = (ctypes.c_double * 6)()
        self.raw.rl_numbers(index, numbers)
        reads, writes, _, chains = (int(value) for value in numbers[:4])
        flops, runs_here = numbers[4:]
        return Kernel(index, kind, op, isa, dtype, engine, reads, writes, chains, flops) if runs_here else None

    def streams(self, op: str) -> list[Kernel]:
        return [kernel for kernel in self.kernels if kernel.kind == "stream" and kernel.op == op]

    def arithmetic(self) -> dict[tuple[str, str, str], list[Kernel]]:
        """Kernels by (engine, dtype, instruction set); those of a group differ in the number of chains."""
        groups: dict[tuple[str, str, str], list[Kernel]] = {}
        for kernel in self.kernels:
            if kernel.kind == "fma":
                groups.setdefault((kernel.engine, kernel.dtype, kernel.isa), []).append(kernel)
        return groups


class NoMemory(RidgelineError):
    """Arrays of the size asked for cannot be allocated."""


class Pool:
    """Threads pinned to CPUs, each with the memory that it touched first; freed with the object."""

    def __init__(self, library: Library, cpus: Sequence[int], size: int) -> None:
        self.library, self.cpus, self.size = library, tuple(cpus), size
        self.handle = library.raw.rl_new(len(cpus), (ctypes.c_int * len(cpus))(*cpus), size)
        self.chains: list[int] = []
        if not self.handle:
            wanted = show(2 * size * len(cpus), "B", binary=True)
            raise NoMemory(
                f"no memory for {wanted} of probe arrays on {counted(len(cpus))}; close other programs or raise the limit (ulimit -v)"
            )

    @property
    def threads(self) -> int:
        return len(self.cpus)

    @property
    def pinned(self) -> bool:
        return bool(self.library.raw.rl_pinned(self.handle) == self.threads)

    def run(self, kernel: Kernel, size: int = 0, reps: int = 1, warm: int = 0, check: bool = False) -> Timing:
        """`reps` passes over `size` bytes per thread, after `warm` passes that are not timed."""
        out = (ctypes.c_double * 3)()
        code = self.library.raw.rl_run(self.handle, kernel.index, size, reps, warm, int(check), out)
        if code:
            raise RidgelineError(
                f"probe {kernel.op} {kernel.isa}: no threads could be started on {counted(self.threads)}"
            )
        if check and out[2]:
            raise RidgelineError(
                f"probe {kernel.op} {kernel.isa} {kernel.dtype}: {out[2]:.0f} wrong values; its times mean nothing"
            )
        return Timing(out[0], out[1])

    def check(self, kernel: Kernel, size: int, reps: int = 1) -> None:
        """RidgelineError where the kernel computes wrong values."""
        self.run(kernel, size, reps, 0, check=True)

    def touched(self, kernel: Kernel, size: int) -> int:
        """Bytes one pass really covers, all threads together."""
        return int(self.library.raw.rl_touched(kernel.index, size)) * self.threads

    def chain(self, size: int, line: int = LINE) -> int:
        """A pointer chase of so many bytes for the first CPU."""
        chain = self.library.raw.rl_chain_new(self.handle, size, line)
        if not chain:
            raise NoMemory(f"no memory for a pointer chase of {show(size, 'B', binary=True)}")
        self.chains.append(chain)
        return int(chain)

    def chase(self, chain: int, hops: int, warm: int) -> Timing:
        out = (ctypes.c_double * 3)()
        if self.library.raw.rl_chase(self.handle, chain, hops, warm, out):
            raise RidgelineError("probe latency: its thread could not be started")
        return Timing(out[0], out[1])

    def clock(self, tries: int = 5) -> float:
        """Cycles per second of the first CPU now: a chain of additions, one cycle each, best of a few tries."""
        out, best, count = (ctypes.c_double * 3)(), 0.0, 20_000
        for _ in range(tries):
            if self.library.raw.rl_clock(self.handle, count, out) == 0 and out[0] > 0:
                best = max(best, 64 * count / out[0])
        return best

    def __del__(self) -> None:
        for chain in getattr(self, "chains", []):
            self.library.raw.rl_chain_free(chain)
        if getattr(self, "handle", None):
            self.library.raw.rl_free(self.handle)
            self.handle = None


def cores() -> list[int]:
    """One logical CPU of every core this process may use."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return [-1] * (os.cpu_count() or 1)  # threads cannot be pinned
    first_of_core: dict[str, int] = {}
    for cpu in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            siblings = str(cpu)
        first_of_core.setdefault(siblings, cpu)
    return list(first_of_core.values())


def counted(count: int) -> str:
    return f"{count} core{'s' if count != 1 else ''}"


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
        """In a function of its own, so that the arrays are freed where the spare memory is missing."""
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
