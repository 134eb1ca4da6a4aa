"""Matrix products by the libraries of a CPU, NumPy's BLAS and torch: how large, on how many threads, and checked."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.machine import MAIN, Machine
from ...core.work import READ, WRITE, Work
from ..conditions import waited
from ..protocol import Call, Clock, Probe, Timing, repeat
from .pool import counted

GEMM_SIZES = {True: (512, 1024), False: (256, 512, 1024, 2048, 4096)}
MAX_SECONDS = {True: 0.25, False: 2.0}  # that one matrix product may take, quick and full
NUMPY_TYPES = {"fp64": (np.float64, 1e-9), "fp32": (np.float32, 1e-2)}  # and the relative error allowed
THREAD_SETTERS = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
)


def blas() -> tuple[str, Callable[[int], None] | None]:
    """Which BLAS NumPy calls, and how its threads are set (None: they cannot be)."""
    try:
        built_with = np.__config__.CONFIG["Build Dependencies"]["blas"]
        name = f"NumPy {np.__version__}, {built_with.get('name', 'BLAS')} {built_with.get('version', '')}".strip()
    except (AttributeError, KeyError, TypeError):
        name = f"NumPy {np.__version__}"
    try:
        paths = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line}
    except (OSError, ValueError):
        return name, None
    libraries = [path for path in paths if any(word in Path(path).name.lower() for word in ("blas", "mkl_rt", "blis"))]
    for path in sorted(libraries):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for setter in (*THREAD_SETTERS, *(f"scipy_{setter}" for setter in THREAD_SETTERS)):
            if hasattr(library, setter):
                return name, getattr(library, setter)
    return name, None


def numpy_gemms(machine: Machine, quick: bool, counts: Sequence[int]) -> list[Probe]:
    name, setter = blas()
    settable = [count for count in counts if setter or count == max(counts)]
    probes = []
    generator = np.random.default_rng(1)
    for dtype, (kind, tolerance) in NUMPY_TYPES.items():
        for size in GEMM_SIZES[quick]:
            a, b = (generator.standard_normal((size, size)).astype(kind) for _ in range(2))
            out = np.empty_like(a)
            check = partial(_check_numpy, f"gemm numpy {dtype} {size}", a, b, out, tolerance)
            for threads in settable:
                call = partial(_with_threads, setter, threads, partial(np.matmul, a, b, out=out))
                probes.append(_gemm(machine, "numpy", name, dtype, size, threads, call, check))
    return probes


def torch_gemms(machine: Machine, quick: bool, counts: Sequence[int]) -> list[Probe]:
    """The same through torch, where it is installed; its bf16 and fp16 products use matrix units where there are any."""
    try:
        import torch
    except ImportError:
        return []
    probes = []
    formats = machine.dtypes() or ["fp32"]  # a format the CPU lacks would be emulated, and that is no ceiling
    for dtype, kind in (("fp32", torch.float32), ("bf16", torch.bfloat16), ("fp16", torch.float16)):
        if dtype not in formats:
            continue
        for size in GEMM_SIZES[quick]:
            a, b = (torch.randn(size, size, generator=torch.Generator().manual_seed(1)).to(kind) for _ in range(2))
            out = torch.empty_like(a)
            check = partial(_check_torch, f"gemm torch {dtype} {size}", a, b, out)
            for threads in counts:
                call = partial(_with_threads, torch.set_num_threads, threads, partial(torch.mm, a, b, out=out))
                probes.append(_gemm(machine, "torch", f"torch {torch.__version__}", dtype, size, threads, call, check))
    return probes


def _with_threads(
    setter: Callable[[int], None] | None, threads: int, multiply: Callable[[], Any], loops: int
) -> Timing:
    """The time of so many products on so many threads, and the share of their cores' time that these got."""
    if setter:
        setter(threads)
    if threads == 1 and setter:
        start, ran = time.perf_counter(), time.thread_time()
        repeat(multiply, loops)()
        wall = time.perf_counter() - start
        return Timing(wall, min(1.0, (time.thread_time() - ran) / wall))
    return thread_share(threads, multiply, loops)


def thread_share(threads: int, multiply: Callable[[], Any], loops: int) -> Timing:
    """The time of so many calls of a library with threads of its own, and the share of their cores' time that these got."""
    before = waited()
    start, ran = time.perf_counter(), time.process_time()
    repeat(multiply, loops)()
    wall = time.perf_counter() - start
    busy = (time.process_time() - ran) / (wall * threads)
    after = waited()
    if before is not None and after is not None:
        # a library may leave threads idle, and then only their waiting time shows that they were preempted
        busy = max(busy, 1 - (after - before) / (wall * threads))
    return Timing(wall, min(1.0, busy))


def _check_numpy(name: str, a: Any, b: Any, out: Any, tolerance: float) -> None:
    vector = np.random.default_rng(2).standard_normal(a.shape[1])
    expected = a.astype(np.float64) @ (b.astype(np.float64) @ vector)
    allowed = tolerance * float(np.abs(expected).max())
    if not np.allclose(out.astype(np.float64) @ vector, expected, rtol=0, atol=allowed):
        raise RidgelineError(f"probe {name}: the product is wrong; its times mean nothing")


def _check_torch(name: str, a: Any, b: Any, out: Any) -> None:
    """A product rounded to the format of its result, compared with one made in fp32."""
    rows = slice(0, None, max(1, a.shape[0] // 8))
    expected = a[rows].float() @ b.float()
    if float((out[rows].float() - expected).abs().max()) > 0.02 * float(expected.abs().max()):
        raise RidgelineError(f"probe {name}: the product is wrong; its times mean nothing")


def _gemm(
    machine: Machine, library: str, version: str, dtype: str, size: int, threads: int, call: Call, check: Callable[[], None]
) -> Probe:  # fmt: skip
    tensor = f"tensor.{dtype}" in machine.peaks
    width = {"fp64": 8.0, "fp32": 4.0}.get(dtype, 2.0)
    moves = {(MAIN, name, way): width * size * size for name, way in (("a", READ), ("b", READ), ("c", WRITE))}
    settings = {"mix": "gemm", "kind": "gemm", "size": size, "threads": threads, "dtype": dtype}
    settings |= {"library": version, "burst": True}
    work = Work(counts={("matrix", dtype, "gemm"): 2.0 * size**3}, moves=moves, name="gemm", dtype=dtype)
    name, target = f"gemm {library} {dtype} {size}, {counted(threads)}", f"{'tensor' if tensor else 'vector'}.{dtype}"
    return Probe(name, target, call, work, settings, (f"{version}; its threads are not pinned",), check=check)


def within(probes: Sequence[Probe], max_seconds: float, clock: Clock) -> tuple[list[Probe], list[str]]:
    """Those whose product takes no longer than that, extrapolated from the size before; and the names of the others."""
    kept: list[Probe] = []
    left_out: list[str] = []
    rates: dict[tuple[Any, ...], float] = {}
    for probe in probes:
        key = tuple(probe.settings[name] for name in ("library", "dtype", "threads"))
        size = probe.settings["size"]
        if key in rates and size**3 / rates[key] > max_seconds:
            left_out.append(probe.name)
            continue
        kept.append(probe)
        if key not in rates:
            probe.call(1)  # the first call also starts the library's threads
        start = clock.now()
        probe.call(1)
        rates[key] = size**3 / max(clock.now() - start, 1e-9)
    return kept, left_out
