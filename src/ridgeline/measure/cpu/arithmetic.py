"""Arithmetic peaks of a CPU: multiply-add chains in registers, the fastest for each engine, format and instruction set."""

from __future__ import annotations

from ...core.work import Work
from ..protocol import Probe
from .bench import Bench
from .pool import Kernel, Pool, counted

CHECK_LOOPS = 1000


def arithmetic(bench: Bench) -> list[Probe]:
    probes = []
    for (engine, dtype, isa), group in bench.library.arithmetic().items():
        kernel = bench.fastest(group, bench.pools[0])
        probes += [_arithmetic(engine, dtype, isa, kernel, pool) for pool in bench.pools]
    return probes


def _arithmetic(engine: str, dtype: str, isa: str, kernel: Kernel, pool: Pool) -> Probe:
    counts = {("matrix" if engine == "tensor" else "vector", dtype, "fma"): kernel.flops * pool.threads}
    settings = {
        "mix": "none", "threads": pool.threads, "isa": isa, "dtype": dtype, "chains": kernel.chains, "burst": True,
    }  # fmt: skip
    return Probe(
        f"{isa} {dtype} arithmetic, {counted(pool.threads)}",
        f"{engine}.{dtype}",
        lambda loops: pool.run(kernel, 0, loops, 1),
        Work(counts=counts, name=f"{isa} {dtype}", dtype=dtype),
        settings,
        check=lambda: pool.check(kernel, 0, CHECK_LOOPS),
    )
