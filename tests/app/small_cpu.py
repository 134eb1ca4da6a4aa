"""A CPU of two cores that exists only here: its ceilings are written down, its kernels take the time they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ridgeline.app.run import Workload
from ridgeline.app.run.cpu import CpuBench
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.measure.cpu.suite import Kernel
from ridgeline.measure.protocol import Clock, Timing
from ridgeline.programs import ops

CORES = 2
CAPACITY = {"l1": 2.0**15, "l2": 2.0**20, "memory": None}
BANDWIDTH = {"l1": 160e9, "l2": 80e9, "memory": 20e9}  # of both cores
LATENCY = {"l1": 1e-9, "l2": 4e-9, "memory": 90e-9}
PEAK = {"vector.fp32": 100e9, "vector.fp64": 50e9}
MIXES = ("read", "copy", "triad")


def machine() -> Machine:
    """As it is detected: sizes, and not a single rate."""
    levels = [
        Level(name, Figure("B/s"), Figure("B", derived=size), instances=CORES if size else 1)
        for name, size in CAPACITY.items()
    ]
    peaks = {name: Figure("flop/s") for name in PEAK}
    return Machine(
        "here", title="a small CPU", vendor="test", kind="cpu", units={"core": CORES}, peaks=peaks, levels=tuple(levels)
    )


def ceilings() -> list[Observation]:
    """What its probes would take."""
    return [*_streams(), *_arithmetic(), *_latencies()]


def _observation(name: str, target: str, seconds: float, work: Work, **settings: Any) -> Observation:
    samples = tuple(seconds * (1 + step / 1000) for step in (0, 2, 1, 3, 1))
    return Observation(name, target, samples, work, settings, {"date": "2026-01-01T00:00:00+00:00"}, version="test")


def _streams() -> Iterator[Observation]:
    for threads in (1, CORES):
        for mix in MIXES if threads == CORES else ("read",):
            for power in range(10, 26):
                each = 2.0**power
                level = next(name for name, size in CAPACITY.items() if size is None or each <= size)
                work = Work(moves={("main", "a", "read"): each * threads}, name=mix, dtype="fp64")
                seconds = each / (BANDWIDTH[level] / CORES)
                settings = {"mix": mix, "bytes": each * threads, "threads": threads, "state": "cold"}
                yield _observation(f"{mix} {each:g} B x {threads}", level, seconds, work, **settings)


def _arithmetic() -> Iterator[Observation]:
    for target, peak in PEAK.items():
        dtype = target.partition(".")[2]
        work = Work(counts={("vector", dtype, "fma"): 1e6}, name="fma", dtype=dtype)
        yield _observation(f"fma {dtype}", target, 1e6 / peak, work, threads=CORES, dtype=dtype)
        for size in (256, 512):
            product = ops.gemm(size, size, size, dtype=dtype)
            settings = {"library": "NumPy", "dtype": dtype, "size": size, "threads": CORES}
            yield _observation(f"gemm {dtype} {size}", target, float(product.flops) / (0.8 * peak), product, **settings)


def _latencies() -> Iterator[Observation]:
    for level, seconds in LATENCY.items():
        yield _observation(f"chase {level}", f"latency.{level}", seconds, Work(), threads=1)


# -- kernels ------------------------------------------------------------------------------------------------------


class FakeClock:
    """Stands still but for what kernels add to it."""

    def __init__(self) -> None:
        self.t = 0.0

    def now(self) -> float:
        return self.t


# Work by size, and the share of the roofline that a kernel reaches at every size.
MAKERS: dict[str, tuple[Callable[[int], Work], int, float]] = {
    "triad": (ops.stream_triad, 2**20, 0.8),
    "dot": (lambda n: ops.dot(n, dtype="fp64"), 2**20, 0.9),
    "gemm fp32": (lambda n: ops.gemm(n, n, n, dtype="fp32"), 256, 0.7),
}
KERNELS = {name: make(size) for name, (make, size, _) in MAKERS.items()}
RATES = {"triad": BANDWIDTH["memory"], "dot": BANDWIDTH["memory"], "gemm fp32": PEAK["vector.fp32"]}


def seconds(name: str, work: Work) -> float:
    amount = work.flops if "gemm" in name else work.bytes
    return float(amount) / RATES[name] / MAKERS[name][2]


SECONDS = {name: seconds(name, work) for name, work in KERNELS.items()}


class SmallBench(CpuBench):
    """What the main job needs of a machine, by a clock that only kernels move.

    `busy` is the share of its time that a kernel gets: below 1 another program runs on the machine, and every sample is
    preempted. `factors` make the sealed size of a kernel slower (or faster) than its other sizes.
    """

    def __init__(
        self,
        observations: Sequence[Observation] | None = None,
        left_out: str = "",
        busy: float = 1.0,
        factors: Mapping[str, float] | None = None,
    ) -> None:
        self.clock: Clock = FakeClock()
        self.place = "2 cores"
        self.observations = ceilings() if observations is None else list(observations)
        self.left_out, self.busy, self.factors = left_out, busy, factors or {}

    def detect(self) -> Machine:
        return machine()

    def measure(self, machine: Machine, quick: bool, on_progress: Callable[..., None]) -> list[Observation]:
        on_progress(1, 1, "done")
        return self.observations

    def workload(self, machine: Machine) -> Workload:
        others = [self.kernel(name, share) for share in (0.6, 1.3, 0.8, 1.15) for name in KERNELS]
        return Workload([self.kernel(name) for name in KERNELS], [], self.left_out, others)

    def kernel(self, name: str, share: float = 1.0) -> Kernel:
        make, size, _ = MAKERS[name]
        work = make(int(size * share))
        took = seconds(name, work) * (self.factors.get(name, 1.0) if share == 1.0 else 1.0)

        def call(loops: int) -> Timing:
            self.clock.t += loops * took / self.busy  # type: ignore[attr-defined]
            return Timing(loops * took / self.busy, self.busy)

        return Kernel(name, work, call, lambda: None, "test", "gemm" in name)
