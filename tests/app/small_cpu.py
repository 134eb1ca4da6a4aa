"""A CPU of two cores that exists only here: its ceilings are written down, its kernels take the time they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ridgeline.app.run import Bench, Workload
from ridgeline.core.figure import Figure, Level
from ridgeline.core.machine import Machine
from ridgeline.core.observation import Observation
from ridgeline.core.work import Work
from ridgeline.measure.cpu.suite import Kernel
from ridgeline.measure.protocol import Probe
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


@dataclass(frozen=True)
class TimedKernel(Kernel):
    """A kernel that takes the seconds it is given."""

    seconds: float = 1e-3
    clock: FakeClock = field(default_factory=FakeClock)

    def probe(self) -> Probe:
        def call(loops: int) -> None:
            self.clock.t += loops * self.seconds

        return Probe(self.name, self.work.name, call, self.work, {"how": self.how})


KERNELS: dict[str, Work] = {
    "triad": ops.stream_triad(2**20),
    "dot": ops.dot(2**20, dtype="fp64"),
    "gemm fp32": ops.gemm(256, 256, 256, dtype="fp32"),
}
SECONDS = {"triad": 1.6e-3, "dot": 1.0e-3, "gemm fp32": 0.42e-3}


def _nothing() -> None:
    return


class SmallBench(Bench):
    """What the main job needs of a machine, by a clock that only kernels move."""

    def __init__(self, observations: Sequence[Observation] | None = None, left_out: str = "") -> None:
        self.clock = FakeClock()
        self.observations = ceilings() if observations is None else list(observations)
        self.left_out = left_out

    def detect(self) -> Machine:
        return machine()

    def measure(self, machine: Machine, quick: bool, on_progress: Callable[..., None]) -> list[Observation]:
        on_progress(1, 1, "done")
        return self.observations

    def workload(self, machine: Machine) -> Workload:
        kernels: list[Kernel] = [
            TimedKernel(name, work, _nothing, _nothing, "test", "gemm" in name, SECONDS[name], self.clock)
            for name, work in KERNELS.items()
        ]
        return Workload(kernels, [], self.left_out)
