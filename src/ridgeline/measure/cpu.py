"""What this CPU gives: bandwidth by level and access mix, arithmetic peaks, latency, library GEMM; one core and all.

The probes are the C kernels of `kernels/`, with pinned threads that time themselves; without a compiler NumPy stands in
and every number is called a lower bound. Bytes are nominal (what the kernel asks for); whether a cache also reads the
lines it is about to overwrite stands in the notes.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..errors import RidgelineError
from ..machine import MAIN, Figure, Machine
from ..observation import Observation
from ..units import show
from ..work import READ, WRITE, Work
from .build import BuildError, Built, build
from .conditions import Watch, cpu_conditions, second_load
from .protocol import REAL, Call, Clock, Probe, Progress, Run, Series, Timing, interleave, observation, sustain

MIXES = ("read", "write", "write_nt", "copy", "scale", "add", "triad")
STREAMING = ("copy_nt", "triad_nt")  # with stores that pass the caches; of use at the main memory alone
SMALLEST = 1024
MOST = {True: 1 << 31, False: 1 << 32}  # bytes of the largest working set, quick and full
LINE = 64
GEMM_SIZES = {True: (512, 1024), False: (256, 512, 1024, 2048, 4096)}
LONGEST = {True: 0.25, False: 2.0}  # seconds one matrix product may take, quick and full
LOWER = "lower bound: NumPy, because the C probes cannot be compiled here"


# -- the C library ----------------------------------------------------------------------------------------------


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
    width: int
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
        told = (ctypes.c_double * 6)()
        self.raw.rl_numbers(index, told)
        reads, writes, width, chains = (int(value) for value in told[:4])
        row = Kernel(index, kind, op, isa, dtype, engine, reads, writes, width, chains, told[4])
        return row if told[5] else None

    def streams(self, op: str) -> list[Kernel]:
        return [kernel for kernel in self.kernels if kernel.kind == "stream" and kernel.op == op]

    def arithmetic(self) -> dict[tuple[str, str, str], list[Kernel]]:
        """Kernels by (engine, dtype, instruction set); those of a group differ in the number of chains."""
        found: dict[tuple[str, str, str], list[Kernel]] = {}
        for kernel in self.kernels:
            if kernel.kind == "fma":
                found.setdefault((kernel.engine, kernel.dtype, kernel.isa), []).append(kernel)
        return found


class Pool:
    """Threads pinned to CPUs, each with memory of its own that it touched first; freed with the object."""

    def __init__(self, library: Library, cpus: Sequence[int], size: int) -> None:
        self.library, self.cpus, self.size = library, tuple(cpus), size
        self.handle = library.raw.rl_new(len(cpus), (ctypes.c_int * len(cpus))(*cpus), size)
        self.chains: list[int] = []
        if not self.handle:
            wanted = show(2 * size * len(cpus), "B", binary=True)
            raise RidgelineError(f"no memory for {wanted} of probe arrays on {len(cpus)} threads; close other programs")

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
            raise RidgelineError(f"probe {kernel.op} {kernel.isa}: {self.threads} threads could not be started")
        if check and out[2]:
            raise RidgelineError(
                f"probe {kernel.op} {kernel.isa} {kernel.dtype}: {out[2]:.0f} wrong values; its times mean nothing"
            )
        return Timing(out[0], out[1])

    def touched(self, kernel: Kernel, size: int) -> int:
        """Bytes one pass really covers, all threads together."""
        return int(self.library.raw.rl_touched(kernel.index, size)) * self.threads

    def chain(self, size: int, line: int = LINE) -> int:
        """A pointer chase of so many bytes for the first CPU."""
        made = self.library.raw.rl_chain_new(self.handle, size, line)
        if not made:
            raise RidgelineError(f"no memory for a pointer chase of {show(size, 'B', binary=True)}")
        self.chains.append(made)
        return int(made)

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


# -- where things run and how large they are ---------------------------------------------------------------------


def cores() -> list[int]:
    """One logical CPU of every core this process may use."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return [-1] * (os.cpu_count() or 1)  # no pinning here
    seen: set[str] = set()
    found = []
    for cpu in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            siblings = str(cpu)
        if siblings not in seen:
            seen.add(siblings)
            found.append(cpu)
    return found


@dataclass(frozen=True)
class Zone:
    """The working sets per thread that a level serves for certain: well above the level before, well within its own."""

    name: str
    first: float
    last: float

    def holds(self, size: float) -> bool:
        return self.first <= size <= self.last

    @property
    def middle(self) -> float:
        """A typical working set: of the innermost level a third, where the loop's own start no longer shows."""
        third = max(self.first, self.last / 3)
        return third if self.first <= SMALLEST else math.sqrt(self.first * self.last)


def zones(machine: Machine, threads: int, largest: float) -> list[Zone]:
    """The zone of every level, inner to outer, for so many threads at once."""
    found: list[Zone] = []
    edge = 0.0
    for level in machine.levels[:-1]:
        one, total = level.capacity.value(), level.total
        if not one or not total:
            continue
        share = one if threads == 1 else min(one, total / threads)
        if share > edge:
            found.append(Zone(level.name, max(2 * edge, SMALLEST), 0.7 * share))
            edge = share
    name = machine.levels[-1].name if machine.levels else "memory"
    return [*found, Zone(name, min(3 * edge, largest) if edge else largest / 2, largest)]


def sizes(machine: Machine, threads: int, quick: bool) -> float:
    """Bytes per thread of the largest working set: four times the last cache, as far as the memory allows."""
    caches = [level for level in machine.levels[:-1] if level.total]
    last = caches[-1] if caches else None
    whole = 32 * 2.0**20 if last is None else float((last.capacity.value() if threads == 1 else last.total) or 0.0)
    room = _available() / 8  # arrays to read and to write, for one core and for all, and something left for others
    return max(min(4 * whole, MOST[quick], room) / threads, 16 * SMALLEST)


def _available() -> float:
    try:
        rows = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(float(row.split()[1]) * 1024 for row in rows if row.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration, IndexError):
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2


def sweep(first: float, last: float, factor: float) -> list[int]:
    count = math.floor(math.log(last / first) / math.log(factor) + 1e-9) + 1
    return [int(first * factor**step) // 512 * 512 for step in range(count)]


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
        cpus = cores()
        alone = cpus[1] if len(cpus) > 2 else cpus[0]  # CPU 0 serves most interrupts
        self.pools = [Pool(library, [alone], int(sizes(machine, 1, quick)))]
        if len(cpus) > 1:
            self.pools.append(Pool(library, cpus, int(sizes(machine, len(cpus), quick))))
        self.best: dict[tuple[str, str, int], Kernel] = {}

    def zones(self, pool: Pool) -> list[Zone]:
        return zones(self.machine, pool.threads, pool.size)

    def fastest(self, kernels: Iterable[Kernel], pool: Pool, size: int = 0) -> Kernel:
        """The kernel of a group that is fastest on a few short samples; the others do not appear."""
        group = list(kernels)
        if len(group) == 1:
            return group[0]

        def rate(kernel: Kernel) -> float:
            amount = float(pool.touched(kernel, size)) if size else kernel.flops
            reps, seconds = 1, pool.run(kernel, size, 1, 1).seconds
            while seconds < 5e-4:
                reps = math.ceil(reps * min(8.0, 1e-3 / max(seconds, 1e-6)))
                seconds = pool.run(kernel, size, reps, 1).seconds
            return amount * reps / min(seconds, *(pool.run(kernel, size, reps, 1).seconds for _ in range(3)))

        return max(group, key=rate)

    def ranked(self, op: str, zone: Zone, pool: Pool) -> Kernel:
        """The fastest instruction set for an access mix within a level."""
        key = (op, zone.name, pool.threads)
        if key not in self.best:
            self.best[key] = self.fastest(self.library.streams(op), pool, int(zone.middle))
        return self.best[key]

    def stream(self, op: str, pool: Pool, size: int) -> Probe:
        all_zones = self.zones(pool)
        inside = next((zone for zone in all_zones if zone.holds(size)), None)
        near = inside or next((zone for zone in all_zones if size < zone.last), all_zones[-1])
        kernel = self.ranked(op, near, pool)
        touched = pool.touched(kernel, size)
        outer = near.name == all_zones[-1].name
        warm = 0 if outer else 1
        mix = op if op in MIXES else op.removesuffix("_nt")
        settings = {
            "mix": mix, "bytes": touched, "threads": pool.threads, "isa": kernel.isa, "dtype": "fp64",
            "state": "cold" if outer else "resident", "burst": True, "stores": "streaming" if op.endswith("_nt") else "plain",
        }  # fmt: skip
        return Probe(
            f"{op} {show(touched, 'B', binary=True)}, {_threads(pool.threads)}",
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
            found += [self.stream(op, pool, middles[-1]) for op in STREAMING]
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
            f"{isa} {dtype} arithmetic, {_threads(pool.threads)}",
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
        return [self._latency(pool, size // LINE * LINE) for size in points]

    def _latency(self, pool: Pool, size: int) -> Probe:
        all_zones = self.zones(pool)
        inside = next((zone for zone in all_zones if zone.holds(size)), None)
        near = inside or next((zone for zone in all_zones if size < zone.last), all_zones[-1])
        chain: list[int] = []
        lap = 0 if near.name == all_zones[-1].name else size // LINE

        def prepare() -> None:
            chain.append(pool.chain(size))

        def call(loops: int) -> Timing:
            hops = -(-loops // 16) * 16
            seconds, busy = pool.chase(chain[0], hops, lap)
            return Timing(seconds * loops / hops, busy)

        def check() -> None:
            if not self.library.raw.rl_chain_whole(chain[0]):
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
            prepare,
            check,
        )


def _checked(pool: Pool, kernel: Kernel, size: int, reps: int = 1) -> None:
    pool.run(kernel, size, reps, 0, check=True)


def _threads(count: int) -> str:
    return f"{count} core{'s' if count != 1 else ''}"


# -- library matrix products ----------------------------------------------------------------------------------------


def blas() -> tuple[str, Callable[[int], None] | None]:
    """Which BLAS NumPy calls, and how its threads are set (None: they cannot be)."""
    try:
        told = np.__config__.CONFIG["Build Dependencies"]["blas"]
        name = f"NumPy {np.__version__}, {told.get('name', 'BLAS')} {told.get('version', '')}".strip()
    except (AttributeError, KeyError, TypeError):
        name = f"NumPy {np.__version__}"
    try:
        paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    except (OSError, ValueError):
        return name, None
    setters = (
        "openblas_set_num_threads",
        "openblas_set_num_threads64_",
        "MKL_Set_Num_Threads",
        "bli_thread_set_num_threads",
    )
    for path in sorted(
        path for path in paths if any(word in Path(path).name.lower() for word in ("blas", "mkl_rt", "blis"))
    ):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for setter in (*setters, *(f"scipy_{setter}" for setter in setters)):
            if hasattr(library, setter):
                return name, getattr(library, setter)
    return name, None


def numpy_gemms(machine: Machine, quick: bool, counts: Sequence[int]) -> list[Probe]:
    name, setter = blas()
    known = [count for count in counts if setter or count == max(counts)]
    found = []
    generator = np.random.default_rng(1)
    for dtype, kind in (("fp64", np.float64), ("fp32", np.float32)):
        for size in GEMM_SIZES[quick]:
            a, b = (generator.standard_normal((size, size)).astype(kind) for _ in range(2))
            out = np.empty_like(a)
            for threads in known:
                multiply = partial(_with_threads, setter, threads, partial(np.matmul, a, b, out=out))
                check = partial(
                    _gemm_checked, f"gemm numpy {dtype} {size}", a, b, out, {"fp64": 1e-9, "fp32": 1e-2}[dtype]
                )
                found.append(_gemm(machine, "numpy", name, dtype, size, threads, multiply, check))
    return found


def torch_gemms(machine: Machine, quick: bool, counts: Sequence[int]) -> list[Probe]:
    """The same through torch, where it is installed; its bf16 and fp16 products use matrix units where there are any."""
    try:
        import torch
    except ImportError:
        return []
    found = []
    able = machine.dtypes() or ["fp32"]  # a format the CPU lacks would be emulated, and that is no ceiling
    for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        if dtype not in able:
            continue
        for size in GEMM_SIZES[quick]:
            a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(1)).to(kind) for _ in range(2))
            out = torch.empty_like(a)
            for threads in counts:
                multiply = partial(_with_threads, torch.set_num_threads, threads, partial(torch.mm, a, b, out=out))
                # a product rounded to the format of its result, held against one made in fp32
                check = partial(_torch_checked, f"gemm torch {dtype} {size}", a, b, out)
                found.append(
                    _gemm(machine, "torch", f"torch {torch.__version__}", dtype, size, threads, multiply, check)
                )
    return found


def _with_threads(
    setter: Callable[[int], None] | None, threads: int, multiply: Callable[[], Any], loops: int
) -> Timing | None:
    if setter:
        setter(threads)
    start, ran = time.perf_counter(), time.thread_time()
    for _ in range(loops):
        multiply()
    wall = time.perf_counter() - start
    # what the library's own threads got cannot be seen from here; a single one is ours
    return Timing(wall, min(1.0, (time.thread_time() - ran) / wall)) if threads == 1 and setter else None


def _gemm_checked(name: str, a: Any, b: Any, out: Any, tolerance: float) -> None:
    vector = np.random.default_rng(2).standard_normal(a.shape[1])
    want = a.astype(np.float64) @ (b.astype(np.float64) @ vector)
    if not np.allclose(out.astype(np.float64) @ vector, want, rtol=0, atol=tolerance * float(np.abs(want).max())):
        raise RidgelineError(f"probe {name}: the product is wrong; its times mean nothing")


def _torch_checked(name: str, a: Any, b: Any, out: Any) -> None:
    rows = slice(0, None, max(1, a.shape[0] // 8))
    want = a[rows].float() @ b.float()
    if float((out[rows].float() - want).abs().max()) > 0.02 * float(want.abs().max()):
        raise RidgelineError(f"probe {name}: the product is wrong; its times mean nothing")


def _gemm(
    machine: Machine, library: str, version: str, dtype: str, size: int, threads: int, call: Call, check: Callable[[], None]
) -> Probe:  # fmt: skip
    tensor = f"tensor.{dtype}" in machine.peaks
    width = {"fp64": 8.0, "fp32": 4.0}.get(dtype, 2.0)
    moves = {(MAIN, name, way): width * size * size for name, way in (("a", READ), ("b", READ), ("c", WRITE))}
    return Probe(
        f"gemm {library} {dtype} {size}, {_threads(threads)}",
        f"{'tensor' if tensor else 'vector'}.{dtype}",
        call,
        Work(counts={("matrix", dtype, "gemm"): 2.0 * size**3}, moves=moves, name="gemm", dtype=dtype),
        {
            "mix": "gemm",
            "kind": "gemm",
            "size": size,
            "threads": threads,
            "dtype": dtype,
            "library": version,
            "burst": True,
        },
        (f"{version}; its threads are not pinned",),
        check=check,
    )


def within(probes: Sequence[Probe], longest: float, clock: Clock) -> tuple[list[Probe], list[str]]:
    """Those that take no longer than `longest` for one product, judged by the size before; and the names of the rest."""
    kept: list[Probe] = []
    left: list[str] = []
    rates: dict[tuple[Any, ...], float] = {}
    for probe in probes:
        key = tuple(probe.settings[name] for name in ("library", "dtype", "threads"))
        size = probe.settings["size"]
        if key in rates and size**3 / rates[key] > longest:
            left.append(probe.name)
            continue
        kept.append(probe)
        if key not in rates:
            probe.call(1)  # the first call also starts the library's threads
        start = clock.now()
        probe.call(1)
        rates[key] = size**3 / max(clock.now() - start, 1e-9)
    return kept, left


# -- NumPy instead of C ----------------------------------------------------------------------------------------------


def numpy_streams(machine: Machine, why: str) -> list[Probe]:
    """One core, one typical working set per level; Python's own time per call makes small ones useless."""
    largest = sizes(machine, 1, True)
    found = []
    for zone in zones(machine, 1, largest):
        size = int(max(zone.middle, 1 << 16)) // 24 * 8
        data = np.random.default_rng(3).standard_normal((3, size // 8))
        found += [
            _numpy_stream(op, zone.name, data, why)
            for op in ("read", "write", "copy", "scale", "add", "triad")
            if zone.last >= 1 << 16
        ]
    return found


def _numpy_stream(op: str, level: str, data: Any, why: str) -> Probe:
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

    def call(loops: int) -> None:
        for _ in range(loops):
            once()

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
            "state": "resident",
            "burst": True,
        },
        (f"{LOWER}: {why}", *allocate_note(op, reads, writes)),
        check=check,
    )


# -- all of it -------------------------------------------------------------------------------------------------------


def local() -> Machine:
    from ..machines.detect import here

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
        remarks = built.notes
    except BuildError as error:
        ready = numpy_streams(machine, str(error))
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
    stopped = runs[0].why == STOPPED
    if not stopped:
        try:
            products, left = _products(machine, quick, bench, clock)
            runs.append(
                interleave(
                    products, 3, clock, partial(tell, 1), least=least, warm=0.0, most=5, budget=5.0 if quick else 75.0
                )
            )
            stopped = runs[1].why == STOPPED
            if not stopped and not quick:
                for place, probe in enumerate(chosen := _to_sustain(ready, runs[0])):
                    tell(2, place, len(chosen), f"sustained {probe.name}")
                    held.append(sustain(probe, clock))
        except KeyboardInterrupt:
            stopped = True
    if bench:
        speed.append(bench.pools[0].clock())
        conditions["clock_measured"] = [round(value) for value in speed]
    conditions |= watch.conditions()
    found = [observation(row, conditions, __version__, stopped) for run in runs for row in run.series]
    for row, run_in in held:
        told = observation(row, {**conditions, "run_in_samples": run_in}, __version__, stopped)
        found.append(replace(told, name=f"sustained {told.name}", settings={**told.settings, "burst": False}))
    if not found:
        raise RidgelineError("stopped before anything was measured")
    missing = [name for run in runs for name in run.missing] + left
    found = [_finished(each, machine, remarks) for each in found]
    found = noted(found, machine)
    if missing or stopped:
        why = STOPPED if stopped else "the time for it was used up or one call takes too long"
        found[0] = replace(
            found[0], notes=(*found[0].notes, f"not measured ({why}): {', '.join(missing) or 'later parts'}")
        )
    if not stopped:
        tell(2, 1, 1, "done")
    return found


STOPPED = "stopped by Ctrl-C"


def _products(machine: Machine, quick: bool, bench: Bench | None, clock: Clock) -> tuple[list[Probe], list[str]]:
    counts = sorted({pool.threads for pool in bench.pools}) if bench else [len(cores())]
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


# -- levels from the sweep ---------------------------------------------------------------------------------------------

PRICE = 0.12  # what one more stretch must explain, in units of the logarithm of bandwidth
FLAT = 1.15  # a stretch whose bandwidths differ by more is a slope between two levels
APART = 1.12  # neighbouring plateaus that differ by less are one
AGREES = 1.7  # a found capacity within this factor of the reported one agrees with it


@dataclass(frozen=True)
class Plateau:
    """A stretch of working sets served at one bandwidth. `capacity` is where it ends; None for the outermost."""

    bandwidth: float
    first: float
    last: float
    capacity: float | None
    level: str = ""
    note: str = ""


def levels(observations: Iterable[Observation], machine: Machine | None = None) -> list[Plateau]:
    """The levels that the one-core read sweep shows, inner to outer; with a machine named and held against its caches."""
    points = sorted(
        (float(each.settings["bytes"]), each.best_bandwidth)
        for each in observations
        if each.settings.get("mix") == "read" and each.settings.get("threads") == 1 and each.settings.get("burst", True)
    )
    if len(points) < 4:
        return []
    at = np.array([size for size, _ in points])
    # more data never comes faster: a small set that does is held up by the loop's own start, not by the cache
    rates = np.maximum.accumulate(np.array([rate for _, rate in points])[::-1])[::-1]
    found: list[Plateau] = []
    for first, last in _segments(np.log(rates)):
        rate = float(np.median(rates[first:last]))
        if at[last - 1] < 1.9 * at[first] or rates[first] > FLAT * rates[last - 1]:
            continue
        if found and found[-1].bandwidth < APART * rate:
            found[-1] = replace(found[-1], last=float(at[last - 1]))
        else:
            found.append(Plateau(rate, float(at[first]), float(at[last - 1]), None))
    if machine:
        found = _named(found, machine)
    ends = [at[at > plateau.last][0] if np.any(at > plateau.last) else None for plateau in found]
    found = [
        replace(row, capacity=math.sqrt(row.last * end) if end else None) for row, end in zip(found, ends, strict=True)
    ]
    return [_against(row, machine) for row in found] if machine else found


def _segments(values: Any) -> list[tuple[int, int]]:
    """Stretches that are nearly constant: the split with the least scatter plus a price for each stretch."""
    count = len(values)
    cost = [0.0] + [math.inf] * count
    start = [0] * (count + 1)
    for end in range(1, count + 1):
        for begin in range(end):
            part = values[begin:end]
            price = cost[begin] + float(np.abs(part - np.median(part)).sum()) + PRICE
            if price < cost[end]:
                cost[end], start[end] = price, begin
    found: list[tuple[int, int]] = []
    end = count
    while end > 0:
        found.append((start[end], end))
        end = start[end]
    return found[::-1]


def _named(found: list[Plateau], machine: Machine) -> list[Plateau]:
    """Each plateau after the cache that its middle fits into; two of one cache are one, as fast as its faster part."""
    caches = [(level.name, float(size)) for level in machine.levels[:-1] if (size := level.capacity.value())]
    outer = machine.levels[-1].name if machine.levels else "memory"
    named: list[Plateau] = []
    for plateau in found:
        middle = math.sqrt(plateau.first * plateau.last)
        name = next((name for name, size in caches if middle <= size), outer)
        if plateau is found[-1] and caches and plateau.last >= 2 * caches[-1][1]:
            name = outer  # what serves twice the last cache is not that cache, wherever it begins
        if named and named[-1].level == name:
            named[-1] = replace(named[-1], last=plateau.last)
        else:
            named.append(replace(plateau, level=name))
    return named


def _against(plateau: Plateau, machine: Machine) -> Plateau:
    size = next((level.capacity.value() for level in machine.levels[:-1] if level.name == plateau.level), None)
    if not size or not plateau.capacity or 1 / AGREES <= plateau.capacity / size <= AGREES:
        return plateau
    seen, told = (show(value, "B", binary=True) for value in (plateau.capacity, size))
    return replace(plateau, note=f"by the read sweep {plateau.level} ends at about {seen}, the system reports {told}")


def noted(observations: list[Observation], machine: Machine) -> list[Observation]:
    """The read sweep's observations with what its plateaus say against the reported caches."""
    found = levels(observations, machine)
    seen = {plateau.level for plateau in found}
    told = [plateau.note for plateau in found if plateau.note]
    if found:
        told += [
            f"{level.name} ({show(level.capacity.value(), 'B', binary=True)} reported) shows no plateau of its own in the read sweep"
            for level in machine.levels[:-1]
            if level.capacity.value() and level.name not in seen
        ]
    if not told:
        return observations
    return [
        replace(each, notes=(*each.notes, *told))
        if each.settings.get("mix") == "read" and each.settings.get("threads") == 1
        else each
        for each in observations
    ]
