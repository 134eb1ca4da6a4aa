"""Memory probes of a GPU: streams over HBM and L2, passes over L1 and shared memory, pointer chases, copies to the host.

The bytes of a probe are nominal and stand under `main`, the boundary its target names. GPU stores allocate no line
first, so a store counts once. Cold: slices of a pool far larger than the L2 take turns. Resident: one set again and
again inside one kernel. Read answers are exact sums modulo 2^32, judged by a plain kernel per MiB and that one by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.machine import MAIN
from ...core.work import LINK, READ, WRITE, Work
from ..protocol import Probe
from .device import L1_SHAPES, MIB, SHARED_SHAPES, Device, u32, u64

VECTOR = 16  # bytes of one access
SPAN = 256  # vectors in the table a write repeats; divides every block size
SUMS = 1 << 14  # places the warps' sums are spread over
SCALAR = 3.0  # of a = b + s c
POOL, TARGETS, CHAIN = 8192 * MIB, 4096 * MIB, 512 * MIB  # at most; less on a small GPU
NO_ALLOCATE = "nominal bytes; GPU stores allocate no line first"
MASK = (1 << 32) - 1
FINALISTS, REMATCHES = 6, 7  # variants ranked again, in turn, because a short sample cannot tell neighbours apart

# arrays read, arrays written, flops per fp32 element
MIXES = {"read": (1, 0, 0), "write": (0, 1, 0), "copy": (1, 1, 0), "triad": (2, 1, 2)}
PATHS = ("cached", "streamed", "level-2 only", "streamed, 256 B fetches")


@dataclass(frozen=True)
class Variant:
    """How a stream is laid on the device; blocks per SM of 0 give every tile a block of its own."""

    threads: int
    unroll: int
    blocks: int
    path: int

    def grid(self, tiles: int, sms: int) -> int:
        return int(min(tiles, sms * self.blocks)) if self.blocks else tiles

    def settings(self) -> dict[str, Any]:
        blocks = self.blocks or "one per tile"
        return {
            "vector_bytes": VECTOR,
            "block": self.threads,
            "unroll": self.unroll,
            "blocks_per_sm": blocks,
            "path": PATHS[self.path],
        }


def stream_work(mix: str, size: int) -> Work:
    """One pass over arrays of `size` bytes each."""
    reads, writes, flops = MIXES[mix]
    moves: dict[tuple[str, str, str], Any] = {(MAIN, f"in{i}", READ): float(size) for i in range(reads)}
    moves |= {(MAIN, f"out{i}", WRITE): float(size) for i in range(writes)}
    counts: dict[tuple[str, str, str], Any] = {("vector", "fp32", mix): flops * size / 4} if flops else {}
    return Work(counts=counts, moves=moves, waits={"launch": 1.0}, name=mix, dtype="fp32")


@dataclass
class Loop:
    """Works recorded once as a graph and replayed; seconds are of as many works as were asked for."""

    device: Device
    works: Sequence[Callable[[], None]]
    before: Callable[[], None] | None = None
    replay: Callable[[], None] = field(init=False)

    def __post_init__(self) -> None:
        self.replay = self.device.record(self.works)

    def __call__(self, loops: int) -> float:
        rounds = -(-loops // len(self.works))

        def work() -> None:
            for _ in range(rounds):
                self.replay()

        return self.device.elapsed(work, self.before) * loops / (rounds * len(self.works))


class Memory:
    """The buffers the memory probes share, filled with normal data, and the launches over them."""

    def __init__(self, device: Device, main: str = "hbm") -> None:
        self.device, self.main = device, main
        room = device.free() // 2
        self.pool = min(POOL, room // 2 // MIB * MIB)
        self.targets = self.pool // 2
        if self.pool < 8 * MIB:
            raise RidgelineError(
                f"{device.name} has {device.free() / MIB:.0f} MiB free, too little to measure its memory"
            )
        self.source, self.target = device.allocate(self.pool), device.allocate(self.targets)
        self.sums, self.table = device.allocate(SUMS * 4), device.allocate(SPAN * VECTOR)
        self.scratch = device.allocate(self.pool // MIB * 4)
        self.fill(self.source, self.pool, 1)
        self.fill(self.target, self.targets, 2)
        self.fill(self.table, SPAN * VECTOR, 3)
        self.known = self.checksums(self.source, self.pool)
        for place in {0, self.pool // MIB // 2, self.pool // MIB - 1}:
            words = device.download(self.source + place * MIB, np.uint32, MIB // 4)
            self.expect("checksum", int(self.known[place]), int(words.sum(dtype=np.uint64)) & MASK)

    # -- setting up and judging ---------------------------------------------------------------------------

    def expect(self, name: str, asked: int, found: int) -> None:
        if asked != found:
            raise RidgelineError(f"probe {name}: wrong answer, {found:#x} where {asked:#x} should be; do not use it")

    def fill(self, at: int, size: int, seed: int) -> None:
        self.device.launch("fill_normal", 8 * self.device.sms, 256, u64(at), u64(size // 8), u64(seed))
        self.device.synchronize()

    def checksums(self, at: int, size: int) -> NDArray[np.uint32]:
        """Sum of the words of each MiB."""
        count = size // MIB
        self.device.launch("checksums", count, 256, u64(at), u64(self.scratch))
        return self.device.download(self.scratch, np.uint32, count)

    def known_sum(self, at: int, size: int) -> int:
        first = (at - self.source) // MIB
        return int(self.known[first : first + size // MIB].sum(dtype=np.uint64)) & MASK

    def total(self) -> int:
        return int(self.device.download(self.sums, np.uint32, SUMS).sum(dtype=np.uint64)) & MASK

    def clear(self) -> None:
        self.device.synchronize()
        self.device.upload(self.sums, np.zeros(SUMS, np.uint32))

    # -- launches -----------------------------------------------------------------------------------------

    def slots(self, base: int, room: int, size: int) -> list[int]:
        return [base + place * size for place in range(max(1, room // size))]

    def stream(
        self, mix: str, variant: Variant, size: int, slot: int, passes: int = 1, sms: int = 0
    ) -> Callable[[], None]:
        """A launch over arrays of `size` bytes, the slot-th of their regions, counted round."""
        tiles = size // (variant.threads * variant.unroll * VECTOR)
        grid = variant.grid(tiles, sms or self.device.sms)
        kernel = f"{mix}<{variant.unroll}, {variant.path}>"
        into = self.slots(self.target, self.targets, size)
        target = u64(into[slot % len(into)])
        if mix == "triad":  # its two inputs come from the two halves of the pool
            halves = [self.slots(self.source + half * self.pool // 2, self.pool // 2, size) for half in (0, 1)]
            left, right = (u64(half[slot % len(half)]) for half in halves)
            arguments: tuple[Any, ...] = (target, left, right, np.float32(SCALAR), u64(tiles))
        else:
            out_of = self.slots(self.source, self.pool, size)
            source = u64(out_of[slot % len(out_of)])
            arguments = {
                "read": (source, u64(tiles), u32(passes), u64(self.sums), u32(SUMS - 1)),
                "write": (target, u64(tiles), u64(self.table), u32(SPAN)),
                "copy": (target, source, u64(tiles)),
            }[mix]
        return lambda: self.device.launch(kernel, grid, variant.threads, *arguments)

    def judge(self, mix: str, name: str, size: int, slots: int, launches: Sequence[Callable[[], None]]) -> None:
        """Run each launch once more on spoiled targets and compare the sum, or the last target, with what it should be."""
        out_of = self.slots(self.source, self.pool, size)
        into = self.slots(self.target, self.targets, size)
        self.clear()
        if mix != "read":
            self.fill(self.target, self.targets, 4)
        for launch in launches:
            launch()
        self.device.synchronize()
        if mix == "read":
            asked = sum(self.known_sum(out_of[slot % len(out_of)], size) for slot in range(slots)) & MASK
            self.expect(name, asked, self.total())
            return
        last = slots - 1
        at = into[last % len(into)]
        found = self.checksums(at, size)
        if mix == "write":
            words = self.device.download(self.table, np.uint32, SPAN * 4)
            asked = int(words.sum(dtype=np.uint64)) * (MIB // (SPAN * VECTOR)) & MASK
            self.expect(name, 0, int(np.count_nonzero(found != np.uint32(asked))))
        elif mix == "copy":
            first = (out_of[last % len(out_of)] - self.source) // MIB
            self.expect(name, 0, int(np.count_nonzero(found != self.known[first : first + size // MIB])))
        else:
            halves = [self.slots(self.source + half * self.pool // 2, self.pool // 2, size) for half in (0, 1)]
            for place in {0, size // MIB // 2, size // MIB - 1}:
                b, c = (
                    self.device.download(half[last % len(half)] + place * MIB, np.float32, MIB // 4) for half in halves
                )
                a = self.device.download(at + place * MIB, np.float32, MIB // 4)
                wrong = ~np.isclose(a, b + np.float32(SCALAR) * c, rtol=1e-5, atol=1e-6)
                self.expect(name, 0, int(np.count_nonzero(wrong)))

    # -- keeping the best variant -------------------------------------------------------------------------

    def best(self, mix: str, size: int, candidates: Iterable[Variant], passes: int = 1) -> tuple[Variant, int]:
        """The variant with the shortest time, and how many were tried: all on a short sample, the first few again."""

        def run(variant: Variant) -> float:
            launches = [self.stream(mix, variant, size, slot, passes) for slot in range(4)]

            def work() -> None:
                for launch in launches:
                    launch()

            return self.device.elapsed(work)

        fitting = [each for each in candidates if size % (each.threads * each.unroll * VECTOR) == 0]
        first = {variant: min(run(variant) for _ in range(3)) for variant in fitting}
        finalists = sorted(fitting, key=lambda variant: first[variant])[:FINALISTS]
        again: dict[Variant, list[float]] = {variant: [] for variant in finalists}
        for _ in range(REMATCHES):
            for variant in finalists:
                again[variant].append(run(variant))
        return min(finalists, key=lambda variant: float(np.median(again[variant]))), len(fitting)


def variants(mix: str, quick: bool) -> list[Variant]:
    paths = {"read": (0, 1, 3), "write": (0, 1), "copy": (0, 1), "triad": (0, 1, 3)}[mix]
    if quick:
        return [
            Variant(threads, unroll, blocks, path)
            for path in paths[:2]
            for threads, unroll, blocks in ((256, 4, 0), (512, 2, 0), (512, 4, 4), (1024, 4, 2), (256, 8, 8))
        ]
    return [
        Variant(threads, unroll, blocks, path)
        for path in paths
        for threads in (256, 512, 1024)
        for unroll in (1, 2, 4, 8)
        for blocks in (0, 1024 // threads, 2048 // threads, 8192 // threads)
    ]


def resident_variants(quick: bool) -> list[Variant]:
    """Tiles of at most 32 KiB, so that a small set still gives every SM some."""
    shapes = ((512, 4), (1024, 2)) if quick else ((256, 4), (256, 8), (512, 2), (512, 4), (1024, 1), (1024, 2))
    return [Variant(threads, unroll, most // threads, 2) for threads, unroll in shapes for most in (1024, 2048)]


def sizes(largest: int, smallest: int, factor: int) -> list[int]:
    found = [largest]
    while found[-1] // factor >= smallest:
        found.append(found[-1] // factor // MIB * MIB)
    return found[::-1]


def streams(memory: Memory, quick: bool) -> list[Probe]:
    """HBM by access mix over sizes, cold; the read sweep and the L2 mixes, resident."""
    device = memory.device
    probes = []
    largest = min(memory.targets // 2, 2048 * MIB)
    chosen: dict[str, tuple[Variant, int]] = {}
    for mix in MIXES:
        chosen[mix] = memory.best(mix, max(largest // 2, MIB), variants(mix, quick))
        for size in sizes(largest, 8 * MIB if largest > 8 * MIB else MIB, 16 if quick else 4):
            probes.append(_cold(memory, mix, size, *chosen[mix]))
    probes += _resident(memory, chosen, quick)
    return [*probes, *_l1(memory, device)]


def _cold(memory: Memory, mix: str, size: int, variant: Variant, tried: int) -> Probe:
    reads, writes, _ = MIXES[mix]
    count = min(128, max(4, memory.targets // size))
    launches = [memory.stream(mix, variant, size, slot) for slot in range(count)]
    name = f"{memory.main} {mix} {size * (reads + writes) // MIB} MiB cold"
    settings = {
        "mix": mix,
        "bytes": size * (reads + writes),
        "state": "cold",
        "burst": True,
        "dtype": "fp32",
        "variants_tried": tried,
        "timing": f"events around replays of a graph of {count} launches on rotating slices",
        **variant.settings(),
    }
    loop = Loop(memory.device, launches)
    return Probe(
        name, memory.main, loop, stream_work(mix, size), settings, (NO_ALLOCATE,) if writes else (),
        check=lambda: memory.judge(mix, name, size, count, launches),
    )  # fmt: skip


def resident_sizes(l2: int, sms: int, quick: bool) -> list[int]:
    """Sets from far inside the L2 to four times its size, the same number of tiles for every SM."""
    unit = sms * 16384
    parts = (1 / 8, 1 / 4) if quick else (1 / 30, 1 / 15, 1 / 8, 1 / 4, 0.4, 0.5, 0.65, 0.8, 0.95, 1.1, 1.5, 2.0, 4.0)
    counts = (max(1, round(l2 * part / unit)) for part in parts)
    return sorted({unit * (count if count < 4 else count // 4 * 4) for count in counts})


def _resident(memory: Memory, chosen: dict[str, tuple[Variant, int]], quick: bool) -> list[Probe]:
    device, l2 = memory.device, memory.device.l2
    spread = [size for size in resident_sizes(l2, device.sms, quick) if size <= memory.pool]
    inside = min(spread, key=lambda size: abs(size - l2 // 6))
    variant, tried = memory.best("read", inside, resident_variants(quick), passes=64)
    probes = []
    for size in spread:
        passes = max(2, 1024 * MIB // size)
        launch = memory.stream("read", variant, size, 0, passes)
        target = "l2" if size <= l2 else memory.main
        name = f"{target} read {size / MIB:.3g} MiB resident"
        notes = () if target == "l2" else ("part of the set stays in L2: not a ceiling of the memory behind it",)

        def check(
            name: str = name, size: int = size, passes: int = passes, launch: Callable[[], None] = launch
        ) -> None:
            memory.clear()
            launch()
            words = device.download(memory.source, np.uint32, size // 4)
            memory.expect(name, int(words.sum(dtype=np.uint64)) * passes & MASK, memory.total())

        settings = {"mix": "read", "bytes": size, "state": "resident", "burst": True, "dtype": "fp32", "passes": passes}
        settings |= {"variants_tried": tried, "timing": "events around launches that pass over one set many times"}
        settings |= variant.settings()
        call = _repeated(device, launch, passes, launch)
        probes.append(Probe(name, target, call, stream_work("read", size), settings, notes, check=check))
    for mix in () if quick else ("write", "copy", "triad"):
        reads, writes, _ = MIXES[mix]
        size = max(MIB, l2 // 6 // (reads + writes) // MIB * MIB)
        launches = [memory.stream(mix, chosen[mix][0], size, 0)] * 64
        name = f"l2 {mix} {size * (reads + writes) // MIB} MiB resident"
        settings = {"mix": mix, "bytes": size * (reads + writes), "state": "resident", "burst": True, "dtype": "fp32"}
        settings |= {"timing": "events around replays of a graph of 64 launches on one set"}
        caution = (NO_ALLOCATE, "one launch per pass over the set, so the launch floor is in it: a lower bound")

        def judge(mix: str = mix, name: str = name, size: int = size, launch: Callable[[], None] = launches[0]) -> None:
            memory.judge(mix, name, size, 1, [launch])

        probes.append(
            Probe(name, "l2", Loop(device, launches), stream_work(mix, size), settings | chosen[mix][0].settings(),
                  caution, check=judge)
        )  # fmt: skip
    return probes


def _repeated(
    device: Device, launch: Callable[[], None], passes: int, before: Callable[[], None] | None
) -> Callable[[int], float]:
    """A kernel that makes `passes` calls' work at once, called as often as the loops need."""

    def call(loops: int) -> float:
        rounds = -(-loops // passes)

        def work() -> None:
            for _ in range(rounds):
                launch()

        return device.elapsed(work, before) * loops / (rounds * passes)

    return call


def _l1(memory: Memory, device: Device) -> list[Probe]:
    """Passes over windows in the L1 of every SM, by ordinary loads and from shared memory; the best shape is kept."""
    probes = []
    for path, kernel, shapes, window in (
        ("l1", "read_l1", L1_SHAPES, 65536),
        ("shared", "read_shared", SHARED_SHAPES, 32768),
    ):
        ranked = []
        for place, (threads, unroll) in enumerate(shapes):
            for per_sm in (1, 2):
                grid = device.sms * per_sm
                if grid * window > memory.pool or threads * per_sm > 2048:
                    continue
                passes = 4096 * (window // (threads * unroll * VECTOR))
                shared = window if path == "shared" else 0
                arguments = (u64(memory.source), u32(window), u32(passes), u64(memory.sums), u32(SUMS - 1))

                def launch(
                    name: str = f"{kernel}<{threads}, {unroll}>",
                    grid: int = grid,
                    threads: int = threads,
                    arguments: tuple[Any, ...] = arguments,
                    shared: int = shared,
                ) -> None:
                    device.launch(name, grid, threads, *arguments, shared=shared)

                device.elapsed(launch)
                seconds = min(device.elapsed(launch) for _ in range(2)) / grid
                ranked.append((seconds, place, per_sm, threads, unroll, launch))
        _, _, per_sm, threads, unroll, launch = min(ranked, key=lambda row: row[:3])
        size = device.sms * per_sm * window
        name = f"{path} read {window * per_sm // 1024} KiB per SM"

        def check(name: str = name, size: int = size, launch: Callable[[], None] = launch) -> None:
            memory.clear()
            launch()
            words = device.download(memory.source, np.uint32, size // 4)
            memory.expect(name, int(words.sum(dtype=np.uint64)) * 4096 & MASK, memory.total())

        settings = {"mix": "read", "bytes": size, "state": "resident", "burst": True, "dtype": "fp32", "path": path}
        settings |= {"vector_bytes": VECTOR, "block": threads, "unroll": unroll, "blocks_per_sm": per_sm}
        settings |= {
            "variants_tried": len(ranked),
            "timing": "events around launches that pass over one set many times",
        }
        probes.append(
            Probe(name, "l1", _repeated(device, launch, 4096, None), stream_work("read", size), settings, check=check)
        )
    return probes


# -- latency ---------------------------------------------------------------------------------------------------


class Chase:
    """One thread that follows a random cycle; it goes on where it stopped, so cold lines stay cold."""

    def __init__(self, memory: Memory, level: str, size: int, path: int, stride: int, warm: bool) -> None:
        device = memory.device
        self.device, self.level, self.stride, self.nodes, self.path = device, level, stride, size // stride, path
        self.base, self.state = (device.allocate(size) if path >= 0 else 0), device.allocate(16)
        self.order = np.random.default_rng(7).permutation(self.nodes).astype(np.uint32)
        following = np.empty_like(self.order)
        following[self.order] = np.roll(self.order, -1)
        self.next = device.allocate(following.nbytes)
        device.upload(self.next, following)
        if path >= 0:
            device.launch("link", 8 * device.sms, 256, u64(self.base), u64(stride), u64(self.next), u64(self.nodes))
        device.synchronize()
        device.upload(self.state, np.array([self.address(0), 0], np.uint64))
        self.steps = 0
        self.settings: dict[str, Any] = {}
        # a few launches by others empty the caches between two samples: a resident set is touched before the clock starts
        tiles = size // (256 * VECTOR)
        touch = (u64(self.base), u64(tiles), u32(1), u64(memory.sums), u32(SUMS - 1))
        self.before = (lambda: device.launch("read<1, 2>", min(tiles, device.sms * 4), 256, *touch)) if warm else None

    def address(self, step: int) -> int:
        return self.base + int(self.order[step % self.nodes]) * self.stride

    def __call__(self, loops: int) -> float:
        steps = -(-loops // 32) * 32
        if self.path >= 0:

            def work() -> None:
                self.device.launch(f"chase<{self.path}>", 1, 1, u64(self.state), u64(steps))
        else:

            def work() -> None:
                self.device.launch("chase_shared", 1, 1, u64(self.state), u64(steps), u64(self.next), u32(self.nodes))

        seconds = self.device.elapsed(work, self.before)
        self.steps += steps
        self.settings["cycles"] = float(self.device.download(self.state, np.uint64, 2)[1]) / steps
        return seconds * loops / steps

    def check(self) -> None:
        at = int(self.device.download(self.state, np.uint64, 2)[0])
        if at != self.address(self.steps):
            raise RidgelineError(f"probe latency {self.level}: the chase ended at a wrong place; do not use it")


def latencies(memory: Memory, quick: bool) -> list[Probe]:
    l2 = memory.device.l2
    beyond = max(4 * l2 // MIB * MIB, min(CHAIN, memory.pool // 4))
    rows = (
        ("l1", "l1", Chase(memory, "l1", 16384, 0, 128, False), 16384, "resident"),
        ("l1", "shared", Chase(memory, "shared", 4096, -1, 1, False), 16384, "resident"),
        ("l2", "l2", Chase(memory, "l2", max(MIB, l2 // 8 // MIB * MIB), 2, 128, True), max(MIB, l2 // 8 // MIB * MIB), "resident"),
        (memory.main, memory.main, Chase(memory, memory.main, beyond, 2, 128, False), beyond, "cold"),
    )  # fmt: skip
    probes = []
    for level, path, chase, size, state in rows:
        chase.settings |= {"bytes": size, "state": state, "path": path, "threads": 1, "burst": True}
        chase.settings |= {"timing": "events around one thread that follows a random cycle of addresses"}
        notes = ("includes address translation over this set",) if state == "cold" else ()
        probes.append(
            Probe(f"latency {path}", f"latency.{level}", chase, Work(), chase.settings, notes, check=chase.check)
        )
    return probes


# -- the way to the host ---------------------------------------------------------------------------------------


def host_copies(memory: Memory, quick: bool) -> list[Probe]:
    """Copies between pinned host memory and the device, each way."""
    device = memory.device
    probes = []
    largest = min(256 * MIB, memory.targets)
    host = device.pinned(largest)
    block = np.random.default_rng(11).standard_normal(min(largest, 16 * MIB) // 4).astype(np.float32).view(np.uint8)
    host[:] = np.resize(block, largest)
    at = int(host.ctypes.data)
    for size in [largest] if quick or largest < 16 * MIB else [largest // 256, largest // 16, largest]:
        for way in ("host to device", "device to host"):
            inward = way == "host to device"
            target, source = (memory.target, at) if inward else (at, memory.source)

            def work(target: int = target, source: int = source, size: int = size) -> None:
                device.copy(target, source, size)

            def call(loops: int, work: Callable[[], None] = work) -> float:
                def all_of_them() -> None:
                    for _ in range(loops):
                        work()

                return device.elapsed(all_of_them)

            def check(inward: bool = inward, size: int = size, way: str = way, work: Callable[[], None] = work) -> None:
                if inward:
                    host[:] = np.resize(block, largest)
                work()
                device.synchronize()
                there = device.download(memory.target if inward else memory.source, np.uint8, size)
                if not np.array_equal(there, host[:size]):
                    raise RidgelineError(f"probe {way}: the copy differs from its source; do not use it")

            settings = {"mix": "copy", "bytes": size, "way": way, "memory": "pinned", "burst": True}
            settings |= {"timing": "events around queued copies"}
            moves: dict[tuple[str, str, str], Any] = {(LINK, "buffer", READ if inward else WRITE): float(size)}
            name = f"{way} {size // MIB or size / MIB:g} MiB"
            probes.append(Probe(name, "pcie", call, Work(moves=moves, name="copy"), settings, check=check))
    return probes
