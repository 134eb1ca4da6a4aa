"""Bandwidth probes of a GPU: streams over its main memory and L2, passes over L1 and shared memory, copies to the host.

The bytes of a probe are nominal and counted under `main`, the boundary its target names. Cold: slices of a pool far
larger than the L2 take turns. Resident: one set again and again inside one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.work import LINK, READ, WRITE, Work
from ..protocol import Probe, repeat
from .device import L1_SHAPES, MIB, SHARED_SHAPES, Device, u32, u64
from .memory import (
    MASK,
    MIXES,
    SUM_SLOTS,
    VECTOR_BYTES,
    Memory,
    Variant,
    resident_variants,
    stream_work,
    variants,
    word_sum,
)

NO_ALLOCATE = "nominal bytes; GPU stores allocate no line first"
MANY_PASSES = "events around launches that pass over one set many times"
L1_PASSES = 4096  # over the window of each block in one launch
IN, OUT = "host to device", "device to host"


@dataclass
class Loop:
    """Works recorded once as a graph and replayed; seconds are of as many works as were asked for."""

    device: Device
    works: Sequence[Callable[[], None]]
    replay: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self.replay = self.device.record(self.works)

    def __call__(self, loops: int) -> float:
        rounds = -(-loops // len(self.works))
        return self.device.elapsed(repeat(self.replay, rounds)) * loops / (rounds * len(self.works))


def streams(memory: Memory, quick: bool) -> list[Probe]:
    """Main memory by access mix over sizes, cold; the read sweep and the L2 mixes, resident; L1 and shared memory."""
    probes = []
    largest = min(memory.targets // 2, 2048 * MIB)
    chosen: dict[str, tuple[Variant, int]] = {}
    for mix in MIXES:
        chosen[mix] = memory.best(mix, max(largest // 2, MIB), variants(mix, quick))
        for size in cold_sizes(largest, 8 * MIB if largest > 8 * MIB else MIB, 16 if quick else 4):
            probes.append(_cold(memory, mix, size, *chosen[mix]))
    probes += _resident_reads(memory, quick)
    if not quick:
        probes += [_resident_mix(memory, mix, chosen[mix][0]) for mix in ("write", "copy", "triad")]
    return [
        *probes,
        _near(memory, "l1", "read_l1", L1_SHAPES, 65536),
        _near(memory, "shared", "read_shared", SHARED_SHAPES, 32768),
    ]


def cold_sizes(largest: int, smallest: int, factor: int) -> list[int]:
    sizes = [largest]
    while sizes[-1] // factor >= smallest:
        sizes.append(sizes[-1] // factor // MIB * MIB)
    return sizes[::-1]


def _cold(memory: Memory, mix: str, size: int, variant: Variant, tried: int) -> Probe:
    reads, writes, _ = MIXES[mix]
    count = min(128, max(4, memory.targets // size))
    launches = [memory.stream(mix, variant, size, slot) for slot in range(count)]
    name = f"{memory.main} {mix} {size * (reads + writes) // MIB} MiB cold"
    settings = {"mix": mix, "bytes": size * (reads + writes), "state": "cold", "burst": True, "dtype": "fp32"}
    timing = f"events around replays of a graph of {count} launches on rotating slices"
    settings |= {"variants_tried": tried, "timing": timing, **variant.settings()}
    return Probe(
        name, memory.main, Loop(memory.device, launches), stream_work(mix, size), settings,
        (NO_ALLOCATE,) if writes else (), check=lambda: memory.check(mix, name, size, count, launches),
    )  # fmt: skip


def resident_sizes(l2: int, sms: int, quick: bool) -> list[int]:
    """Sets from far inside the L2 to four times its size, the same number of tiles for every SM."""
    unit = sms * 16384
    parts = (1 / 8, 1 / 4) if quick else (1 / 30, 1 / 15, 1 / 8, 1 / 4, 0.4, 0.5, 0.65, 0.8, 0.95, 1.1, 1.5, 2.0, 4.0)
    counts = (max(1, round(l2 * part / unit)) for part in parts)
    return sorted({unit * (count if count < 4 else count // 4 * 4) for count in counts})


def _resident_reads(memory: Memory, quick: bool) -> list[Probe]:
    l2 = memory.device.l2
    sizes = [size for size in resident_sizes(l2, memory.device.sms, quick) if size <= memory.pool]
    inside = min(sizes, key=lambda size: abs(size - l2 // 6))
    variant, tried = memory.best("read", inside, resident_variants(quick), passes=64)
    return [_resident_read(memory, size, variant, tried) for size in sizes]


def _resident_read(memory: Memory, size: int, variant: Variant, tried: int) -> Probe:
    passes = max(2, 1024 * MIB // size)
    launch = memory.stream("read", variant, size, 0, passes)
    target = "l2" if size <= memory.device.l2 else memory.main
    name = f"{target} read {size / MIB:.3g} MiB resident"
    notes = () if target == "l2" else ("part of the set stays in L2: not a ceiling of the memory behind it",)
    settings = {"mix": "read", "bytes": size, "state": "resident", "burst": True, "dtype": "fp32", "passes": passes}
    settings |= {"variants_tried": tried, "timing": MANY_PASSES, **variant.settings()}
    call = _repeated(memory.device, launch, passes, launch)
    check = _read_check(memory, name, size, passes, launch)
    return Probe(name, target, call, stream_work("read", size), settings, notes, check=check)


def _resident_mix(memory: Memory, mix: str, variant: Variant) -> Probe:
    reads, writes, _ = MIXES[mix]
    size = max(MIB, memory.device.l2 // 6 // (reads + writes) // MIB * MIB)
    launch = memory.stream(mix, variant, size, 0)
    name = f"l2 {mix} {size * (reads + writes) // MIB} MiB resident"
    settings = {"mix": mix, "bytes": size * (reads + writes), "state": "resident", "burst": True, "dtype": "fp32"}
    settings |= {"timing": "events around replays of a graph of 64 launches on one set", **variant.settings()}
    return Probe(
        name, "l2", Loop(memory.device, [launch] * 64), stream_work(mix, size), settings,
        (NO_ALLOCATE, "one launch per pass over the set, so the launch floor is in it: a lower bound"),
        check=lambda: memory.check(mix, name, size, 1, [launch]),
    )  # fmt: skip


def _read_check(memory: Memory, name: str, size: int, passes: int, launch: Callable[[], None]) -> Callable[[], None]:
    """Compares the sum that one launch makes with so many times the sum of the set."""

    def check() -> None:
        memory.clear()
        launch()
        words = memory.device.download(memory.source, np.uint32, size // 4)
        memory.expect(name, word_sum(words) * passes & MASK, memory.total())

    return check


def _repeated(
    device: Device, launch: Callable[[], None], passes: int, before: Callable[[], None] | None
) -> Callable[[int], float]:
    """A kernel that makes `passes` calls' work at once, called as often as the loops need."""

    def call(loops: int) -> float:
        rounds = -(-loops // passes)
        return device.elapsed(repeat(launch, rounds), before) * loops / (rounds * passes)

    return call


def _near(memory: Memory, path: str, kernel: str, shapes: Sequence[tuple[int, int]], window: int) -> Probe:
    """Passes over windows in the L1 of every SM, by ordinary loads or from shared memory; the best shape is kept."""
    device = memory.device
    ranked: list[tuple[float, int, int, int, int, Callable[[], None]]] = []
    for place, (threads, unroll) in enumerate(shapes):
        for per_sm in (1, 2):
            grid = device.sms * per_sm
            if grid * window > memory.pool or threads * per_sm > 2048:
                continue
            launch = _near_launch(memory, path, kernel, grid, threads, unroll, window)
            device.elapsed(launch)
            seconds = min(device.elapsed(launch) for _ in range(2)) / grid
            ranked.append((seconds, place, per_sm, threads, unroll, launch))
    _, _, per_sm, threads, unroll, launch = min(ranked, key=lambda row: row[:3])
    size = device.sms * per_sm * window
    name = f"{path} read {window * per_sm // 1024} KiB per SM"
    settings = {"mix": "read", "bytes": size, "state": "resident", "burst": True, "dtype": "fp32", "path": path}
    settings |= {"vector_bytes": VECTOR_BYTES, "block": threads, "unroll": unroll, "blocks_per_sm": per_sm}
    settings |= {"variants_tried": len(ranked), "timing": MANY_PASSES}
    check = _read_check(memory, name, size, L1_PASSES, launch)
    call = _repeated(device, launch, L1_PASSES, None)
    return Probe(name, "l1", call, stream_work("read", size), settings, check=check)


def _near_launch(
    memory: Memory, path: str, kernel: str, grid: int, threads: int, unroll: int, window: int
) -> Callable[[], None]:
    passes = L1_PASSES * (window // (threads * unroll * VECTOR_BYTES))
    shared = window if path == "shared" else 0
    arguments: tuple[Any, ...] = (
        u64(memory.source), u32(window), u32(passes), u64(memory.sums), u32(SUM_SLOTS - 1),
    )  # fmt: skip
    return lambda: memory.device.launch(f"{kernel}<{threads}, {unroll}>", grid, threads, *arguments, shared=shared)


def host_copies(memory: Memory, quick: bool) -> list[Probe]:
    largest = min(256 * MIB, memory.targets)
    host = memory.device.pinned(largest)
    block = np.random.default_rng(11).standard_normal(min(largest, 16 * MIB) // 4).astype(np.float32).view(np.uint8)
    host[:] = np.resize(block, largest)
    sizes = [largest] if quick or largest < 16 * MIB else [largest // 256, largest // 16, largest]
    return [_copy(memory, host, block, size, way) for size in sizes for way in (IN, OUT)]


def _copy(memory: Memory, host: NDArray[np.uint8], block: NDArray[np.uint8], size: int, way: str) -> Probe:
    device, at = memory.device, int(host.ctypes.data)
    target, source = (memory.target, at) if way == IN else (at, memory.source)

    def copy() -> None:
        device.copy(target, source, size)

    def check() -> None:
        if way == IN:
            host[:] = np.resize(block, len(host))
        copy()
        device.synchronize()
        on_device = device.download(memory.target if way == IN else memory.source, np.uint8, size)
        if not np.array_equal(on_device, host[:size]):
            raise RidgelineError(f"probe {way}: the copy differs from its source; do not use it")

    settings = {"mix": "copy", "bytes": size, "way": way, "memory": "pinned", "burst": True}
    settings |= {"timing": "events around queued copies"}
    moves: dict[tuple[str, str, str], Any] = {(LINK, "buffer", READ if way == IN else WRITE): float(size)}
    name = f"{way} {size // MIB or size / MIB:g} MiB"
    return Probe(
        name, "pcie", lambda loops: device.elapsed(repeat(copy, loops)), Work(moves=moves, name="copy"), settings,
        check=check,
    )  # fmt: skip
