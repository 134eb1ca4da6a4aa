"""What a kernel costs before it does anything: on the device, from a graph, from the host, through the framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import RidgelineError
from ...core.work import Work
from ..protocol import REAL, Clock, Probe
from .device import Device, Library

QUEUED = 256  # launches behind the spin; a stream holds some 1024 before the host has to wait
SPIN = 8_000_000  # cycles, some 4 ms: the host needs about 1 ms to queue so many launches
NODES = 512
ONE = Work(waits={"launch": 1.0}, name="nothing")


def launches(device: Device, clock: Clock = REAL) -> list[Probe]:
    def nothing() -> None:
        device.launch("nothing", 1, 1)

    def many(count: int) -> Callable[[], None]:
        def work() -> None:
            for _ in range(count):
                nothing()

        return work

    def queued(loops: int) -> float:
        rounds = -(-loops // QUEUED)
        # held back until the queue is full, so that the host's pace is not in the time
        return sum(device.elapsed(many(QUEUED), spin=SPIN) for _ in range(rounds)) * loops / (rounds * QUEUED)

    def streamed(loops: int) -> float:
        return device.elapsed(many(loops))

    graph: list[Callable[[], None]] = []
    single: list[Callable[[], None]] = []

    def nodes(loops: int) -> float:
        rounds = -(-loops // NODES)

        def work() -> None:
            for _ in range(rounds):
                graph[0]()

        return device.elapsed(work) * loops / (rounds * NODES)

    def replays(loops: int) -> float:
        def work() -> None:
            for _ in range(loops):
                single[0]()

        return device.elapsed(work)

    def waited(loops: int) -> float:
        start = clock.now()
        for _ in range(loops):
            nothing()
            device.synchronize()
        return clock.now() - start

    def row(name: str, variant: str, call: Callable[[int], float], timing: str, prepare: Callable[[], None] | None = None, least: float | None = None) -> Probe:  # fmt: skip
        settings: dict[str, Any] = {"variant": variant, "timing": timing, "burst": True, "kernel": "empty, one thread"}
        return Probe(name, "launch", call, ONE, settings, prepare=prepare, least=least)

    return [
        row("launch queued", "queued", queued, f"events around {QUEUED} launches queued behind a spinning kernel",
            least=3e-4),
        row("launch in a graph", "graph", nodes, f"events around replays of a graph of {NODES} empty kernels",
            lambda: graph.append(device.record([nothing] * NODES))),
        row("launch from the host", "host", streamed, "events around launches the host makes one after the other (CuPy)"),
        row("launch of a graph of one", "graph launch", replays, "events around replays of a graph of one empty kernel",
            lambda: single.append(device.record([nothing]))),
        row("launch and wait", "synchronous", waited, "host clock around launch and synchronize"),
    ]  # fmt: skip


def dispatches(library: Library) -> list[Probe]:
    """An operation of the framework on a tensor so small that only its way there counts."""
    torch = library.torch
    x, y = (torch.randn(32, device=library.device) for _ in range(2))
    out = torch.empty_like(x)

    def call(loops: int) -> float:
        def work() -> None:
            for _ in range(loops):
                torch.add(x, y, out=out)

        return library.elapsed(work)

    def check() -> None:
        if not torch.equal(out, x + y):
            raise RidgelineError("probe launch through the dispatcher: wrong sum; do not use it")

    settings: dict[str, Any] = {"variant": "dispatcher", "framework": f"torch {torch.__version__}", "burst": True}
    settings |= {"kernel": "torch.add of 32 fp32", "timing": "events around operations dispatched one after the other"}
    return [Probe("launch through the dispatcher", "launch", call, ONE, settings, check=check)]
