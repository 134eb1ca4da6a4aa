"""What a kernel costs before it does anything: on the device, from a graph, from the host, through the framework."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import RidgelineError
from ...core.work import Work
from ..protocol import REAL, Clock, Probe, repeat
from .device import Device, Library

QUEUED_LAUNCHES = 256  # behind the spin; a stream holds some 1024 before the host has to wait
SPIN_CYCLES = 8_000_000  # some 4 ms: the host needs about 1 ms to queue so many launches
GRAPH_NODES = 512
EMPTY = Work(waits={"launch": 1.0}, name="nothing")


def launches(device: Device, clock: Clock = REAL) -> list[Probe]:
    def nothing() -> None:
        device.launch("nothing", 1, 1)

    graphs: dict[int, Callable[[], None]] = {}  # by the number of their nodes

    def record(nodes: int) -> None:
        graphs[nodes] = device.record([nothing] * nodes)

    def queued(loops: int) -> float:
        rounds = -(-loops // QUEUED_LAUNCHES)
        batch = repeat(nothing, QUEUED_LAUNCHES)
        # held back until the queue is full, so that the host's pace is not in the time
        seconds = sum(device.elapsed(batch, spin=SPIN_CYCLES) for _ in range(rounds))
        return seconds * loops / (rounds * QUEUED_LAUNCHES)

    def in_graph(loops: int) -> float:
        rounds = -(-loops // GRAPH_NODES)
        return device.elapsed(repeat(graphs[GRAPH_NODES], rounds)) * loops / (rounds * GRAPH_NODES)

    def synchronous(loops: int) -> float:
        start = clock.now()
        for _ in range(loops):
            nothing()
            device.synchronize()
        return clock.now() - start

    def probe(name: str, variant: str, call: Callable[[int], float], timing: str, **more: Any) -> Probe:
        settings: dict[str, Any] = {"variant": variant, "timing": timing, "burst": True, "kernel": "empty, one thread"}
        return Probe(name, "launch", call, EMPTY, settings, **more)

    return [
        probe("launch queued", "queued", queued,
              f"events around {QUEUED_LAUNCHES} launches queued behind a spinning kernel", min_seconds=3e-4),
        probe("launch in a graph", "graph", in_graph,
              f"events around replays of a graph of {GRAPH_NODES} empty kernels", prepare=lambda: record(GRAPH_NODES)),
        probe("launch from the host", "host", lambda loops: device.elapsed(repeat(nothing, loops)),
              "events around launches the host makes one after the other (CuPy)"),
        probe("launch of a graph of one", "graph launch", lambda loops: device.elapsed(repeat(graphs[1], loops)),
              "events around replays of a graph of one empty kernel", prepare=lambda: record(1)),
        probe("launch and wait", "synchronous", synchronous, "host clock around launch and synchronize"),
    ]  # fmt: skip


def dispatches(library: Library) -> list[Probe]:
    """An operation of the framework on a tensor so small that only its dispatch counts."""
    torch = library.torch
    x, y = (torch.randn(32, device=library.device) for _ in range(2))
    out = torch.empty_like(x)

    def call(loops: int) -> float:
        return library.elapsed(repeat(lambda: torch.add(x, y, out=out), loops))

    def check() -> None:
        if not torch.equal(out, x + y):
            raise RidgelineError("probe launch through the dispatcher: wrong sum; do not use it")

    settings: dict[str, Any] = {"variant": "dispatcher", "framework": f"torch {torch.__version__}", "burst": True}
    settings |= {"kernel": "torch.add of 32 fp32", "timing": "events around operations dispatched one after the other"}
    return [Probe("launch through the dispatcher", "launch", call, EMPTY, settings, check=check)]
