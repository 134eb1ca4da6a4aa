"""Latencies of a GPU: a random cycle of addresses in each level of the memory, and what a kernel launch costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.work import Work
from ...machines.calibrate import HOST, HOST_CALLS
from ..protocol import REAL, Clock, Probe, repeat
from .device import MIB, Device, Library, u32, u64
from .host_calls import CALLS, HostCalls
from .memory import SUM_SLOTS, VECTOR_BYTES, Memory

MAX_CHAIN_BYTES = 512 * MIB  # less on a small GPU
SHARED = -1  # the path of a chase in shared memory; others are the load paths of the kernels
QUEUED_LAUNCHES = 256  # behind the spin; a stream holds some 1024 before the host has to wait
SPIN_CYCLES = 8_000_000  # some 4 ms: the host needs about 1 ms to queue so many launches
GRAPH_NODES = 512
EMPTY = Work(waits={"launch": 1.0}, name="nothing")


class Chase:
    """One thread that follows a random cycle; it goes on where it stopped, so cold lines stay cold."""

    def __init__(self, memory: Memory, level: str, size: int, path: int, stride: int, warm: bool) -> None:
        device = memory.device
        self.device, self.level, self.stride, self.nodes, self.path = device, level, stride, size // stride, path
        self.base, self.state = (device.allocate(size) if path != SHARED else 0), device.allocate(16)
        self.order = np.random.default_rng(7).permutation(self.nodes).astype(np.uint32)
        following = np.empty_like(self.order)
        following[self.order] = np.roll(self.order, -1)
        self.next = device.allocate(following.nbytes)
        device.upload(self.next, following)
        if path != SHARED:
            device.launch("link", 8 * device.sms, 256, u64(self.base), u64(stride), u64(self.next), u64(self.nodes))
        device.synchronize()
        device.upload(self.state, np.array([self.address(0), 0], np.uint64))
        self.steps = 0
        self.settings: dict[str, Any] = {}
        # a few launches by others empty the caches between two samples: a resident set is touched before the clock starts
        tiles = size // (256 * VECTOR_BYTES)
        touch = (u64(self.base), u64(tiles), u32(1), u64(memory.sums), u32(SUM_SLOTS - 1))
        self.before = (lambda: device.launch("read<1, 2>", min(tiles, device.sms * 4), 256, *touch)) if warm else None

    def address(self, step: int) -> int:
        return self.base + int(self.order[step % self.nodes]) * self.stride

    def __call__(self, loops: int) -> float:
        steps = -(-loops // 32) * 32

        def work() -> None:
            if self.path == SHARED:
                self.device.launch("chase_shared", 1, 1, u64(self.state), u64(steps), u64(self.next), u32(self.nodes))
            else:
                self.device.launch(f"chase<{self.path}>", 1, 1, u64(self.state), u64(steps))

        seconds = self.device.elapsed(work, self.before)
        self.steps += steps
        self.settings["cycles"] = float(self.device.download(self.state, np.uint64, 2)[1]) / steps
        return seconds * loops / steps

    def check(self) -> None:
        at = int(self.device.download(self.state, np.uint64, 2)[0])
        if at != self.address(self.steps):
            raise RidgelineError(f"probe latency {self.level}: the chase ended at a wrong place; do not use it")


def latencies(memory: Memory) -> list[Probe]:
    l2 = memory.device.l2
    inside, beyond = max(MIB, l2 // 8 // MIB * MIB), max(4 * l2 // MIB * MIB, min(MAX_CHAIN_BYTES, memory.pool // 4))
    rows = (
        ("l1", "l1", Chase(memory, "l1", 16384, 0, 128, False), 16384, "resident"),
        ("l1", "shared", Chase(memory, "shared", 4096, SHARED, 1, False), 16384, "resident"),
        ("l2", "l2", Chase(memory, "l2", inside, 2, 128, True), inside, "resident"),
        (memory.main, memory.main, Chase(memory, memory.main, beyond, 2, 128, False), beyond, "cold"),
    )
    probes = []
    for level, path, chase, size, state in rows:
        chase.settings |= {"bytes": size, "state": state, "path": path, "threads": 1, "burst": True}
        chase.settings |= {"timing": "events around one thread that follows a random cycle of addresses"}
        notes = ("includes address translation over this set",) if state == "cold" else ()
        probes.append(
            Probe(f"latency {path}", f"latency.{level}", chase, Work(), chase.settings, notes, check=chase.check)
        )
    return probes


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


def host_probes(library: Library, clock: Clock) -> list[Probe]:
    """What calls of a program cost on this host: those of a block of modules, and those of a backward pass."""
    calls = HostCalls(library.torch, library.device, clock)

    def probe(name: str, timing: str, seconds: Callable[[], float], count: int) -> Probe:
        def call(loops: int) -> float:
            rounds = -(-loops // count)
            return sum(seconds() for _ in range(rounds)) * loops / rounds

        settings: dict[str, Any] = {"framework": f"torch {library.torch.__version__}", "burst": True, "timing": timing}
        return Probe(name, HOST, call, EMPTY, settings)

    return [
        probe(HOST_CALLS["eager_call"], "host clock around transformer blocks of tiny tensors, per launching call",
              calls.block_call, calls.block_calls),
        probe(HOST_CALLS["backward_call"], "host clock around a backward pass of tiny products, per product",
              calls.backward_call, CALLS),
    ]  # fmt: skip
