"""The buffers that the memory probes of a GPU share: filled with normal data, streamed over, compared with the answer.

Read answers are exact sums modulo 2^32: those of a stream are compared with the checksums of a plain kernel per MiB,
and these with NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.machine import MAIN
from ...core.statistics import median
from ...core.work import READ, WRITE, Work
from ..protocol import in_turn
from .device import MIB, Device, u32, u64

VECTOR_BYTES = 16  # of one access
TABLE_VECTORS = 256  # in the table a write repeats; divides every block size
SUM_SLOTS = 1 << 14  # places the warps' sums are spread over
SCALAR = 3.0  # of a = b + s c
MAX_POOL_BYTES = 8192 * MIB  # less on a small GPU
MIN_POOL_BYTES = 8 * MIB
MASK = (1 << 32) - 1
FINALISTS, REMATCHES = 6, 7  # variants ranked again, in turn, because a short sample cannot separate neighbours

# arrays read, arrays written, flops per fp32 element
MIXES = {"read": (1, 0, 0), "write": (0, 1, 0), "copy": (1, 1, 0), "triad": (2, 1, 2)}
PATHS = ("cached", "streamed", "level-2 only", "streamed, 256 B fetches")


@dataclass(frozen=True)
class Variant:
    """How a stream is laid on the device; blocks per SM of 0 give every tile its own block."""

    threads: int
    unroll: int
    blocks: int
    path: int

    @property
    def tile_bytes(self) -> int:
        return self.threads * self.unroll * VECTOR_BYTES

    def grid(self, tiles: int, sms: int) -> int:
        return int(min(tiles, sms * self.blocks)) if self.blocks else tiles

    def settings(self) -> dict[str, Any]:
        shape = {"vector_bytes": VECTOR_BYTES, "block": self.threads, "unroll": self.unroll}
        return {**shape, "blocks_per_sm": self.blocks or "one per tile", "path": PATHS[self.path]}


def stream_work(mix: str, size: int) -> Work:
    """One pass over arrays of `size` bytes each. GPU stores allocate no line first, so a store counts once."""
    reads, writes, flops = MIXES[mix]
    moves: dict[tuple[str, str, str], Any] = {(MAIN, f"in{i}", READ): float(size) for i in range(reads)}
    moves |= {(MAIN, f"out{i}", WRITE): float(size) for i in range(writes)}
    counts: dict[tuple[str, str, str], Any] = {("vector", "fp32", mix): flops * size / 4} if flops else {}
    return Work(counts=counts, moves=moves, waits={"launch": 1.0}, name=mix, dtype="fp32")


def word_sum(words: NDArray[np.uint32]) -> int:
    return int(words.sum(dtype=np.uint64))


class Memory:
    """Source pool, targets, sums and table; the launches over them."""

    def __init__(self, device: Device, main: str = "hbm") -> None:
        self.device, self.main = device, main
        self.pool = min(MAX_POOL_BYTES, device.free() // 2 // 2 // MIB * MIB)
        self.targets = self.pool // 2
        if self.pool < MIN_POOL_BYTES:
            raise RidgelineError(
                f"{device.name} has {device.free() / MIB:.0f} MiB free, too little to measure its memory"
            )
        self.source, self.target = device.allocate(self.pool), device.allocate(self.targets)
        self.sums, self.table = device.allocate(SUM_SLOTS * 4), device.allocate(TABLE_VECTORS * VECTOR_BYTES)
        self.scratch = device.allocate(self.pool // MIB * 4)
        self.fill(self.source, self.pool, 1)
        self.fill(self.target, self.targets, 2)
        self.fill(self.table, TABLE_VECTORS * VECTOR_BYTES, 3)
        self.known = self.checksums(self.source, self.pool)
        for place in {0, self.pool // MIB // 2, self.pool // MIB - 1}:
            words = device.download(self.source + place * MIB, np.uint32, MIB // 4)
            self.expect("checksum", int(self.known[place]), word_sum(words) & MASK)

    def expect(self, name: str, expected: int, actual: int) -> None:
        if expected != actual:
            raise RidgelineError(
                f"probe {name}: wrong answer, {actual:#x} where {expected:#x} should be; do not use it"
            )

    def fill(self, at: int, size: int, seed: int) -> None:
        self.device.launch("fill_normal", 8 * self.device.sms, 256, u64(at), u64(size // 8), u64(seed))
        self.device.synchronize()

    def checksums(self, at: int, size: int) -> NDArray[np.uint32]:
        """Sum of the words of each MiB."""
        count = size // MIB
        self.device.launch("checksums", count, 256, u64(at), u64(self.scratch))
        return self.device.download(self.scratch, np.uint32, count)

    def known_sums(self, at: int, size: int) -> NDArray[np.uint32]:
        """Checksums of a part of the source pool."""
        first = (at - self.source) // MIB
        return self.known[first : first + size // MIB]

    def total(self) -> int:
        return word_sum(self.device.download(self.sums, np.uint32, SUM_SLOTS)) & MASK

    def clear(self) -> None:
        self.device.synchronize()
        self.device.upload(self.sums, np.zeros(SUM_SLOTS, np.uint32))

    def arrays(self, mix: str, size: int, slot: int) -> tuple[int, list[int]]:
        """Addresses of the target and of the inputs of a stream, the slot-th of their regions, counted round."""

        def at(base: int, region: int) -> int:
            return base + slot % max(1, region // size) * size

        half = self.pool // 2
        regions = [(self.source, half), (self.source + half, half)] if mix == "triad" else [(self.source, self.pool)]
        return at(self.target, self.targets), [at(*region) for region in regions]

    def stream(self, mix: str, variant: Variant, size: int, slot: int, passes: int = 1) -> Callable[[], None]:
        """A launch over arrays of `size` bytes."""
        tiles = size // variant.tile_bytes
        grid = variant.grid(tiles, self.device.sms)
        target, sources = self.arrays(mix, size, slot)
        arguments: tuple[Any, ...] = {
            "read": (u64(sources[0]), u64(tiles), u32(passes), u64(self.sums), u32(SUM_SLOTS - 1)),
            "write": (u64(target), u64(tiles), u64(self.table), u32(TABLE_VECTORS)),
            "copy": (u64(target), u64(sources[0]), u64(tiles)),
            "triad": (u64(target), *map(u64, sources), np.float32(SCALAR), u64(tiles)),
        }[mix]
        kernel = f"{mix}<{variant.unroll}, {variant.path}>"
        return lambda: self.device.launch(kernel, grid, variant.threads, *arguments)

    def check(self, mix: str, name: str, size: int, slot_count: int, launches: Sequence[Callable[[], None]]) -> None:
        """Run each launch once more on overwritten targets and compare the sum, or the last target, with the answer."""
        self.clear()
        if mix != "read":
            self.fill(self.target, self.targets, 4)
        in_turn(launches)()
        self.device.synchronize()
        if mix == "read":
            sums = (word_sum(self.known_sums(self.arrays(mix, size, slot)[1][0], size)) for slot in range(slot_count))
            self.expect(name, sum(sums) & MASK, self.total())
            return
        target, sources = self.arrays(mix, size, slot_count - 1)
        if mix == "triad":
            self._check_triad(name, size, target, sources)
            return
        written = self.checksums(target, size)
        if mix == "write":
            words = self.device.download(self.table, np.uint32, TABLE_VECTORS * 4)
            expected = np.uint32(word_sum(words) * (MIB // (TABLE_VECTORS * VECTOR_BYTES)) & MASK)
            self.expect(name, 0, int(np.count_nonzero(written != expected)))
        else:
            self.expect(name, 0, int(np.count_nonzero(written != self.known_sums(sources[0], size))))

    def _check_triad(self, name: str, size: int, target: int, sources: Sequence[int]) -> None:
        for place in {0, size // MIB // 2, size // MIB - 1}:
            a, b, c = (self.device.download(at + place * MIB, np.float32, MIB // 4) for at in (target, *sources))
            wrong = ~np.isclose(a, b + np.float32(SCALAR) * c, rtol=1e-5, atol=1e-6)
            self.expect(name, 0, int(np.count_nonzero(wrong)))

    def best(self, mix: str, size: int, candidates: Iterable[Variant], passes: int = 1) -> tuple[Variant, int]:
        """The variant with the shortest time, and how many were tried: all on a short sample, the first few again."""

        def seconds(variant: Variant) -> float:
            return self.device.elapsed(in_turn([self.stream(mix, variant, size, slot, passes) for slot in range(4)]))

        fitting = [variant for variant in candidates if size % variant.tile_bytes == 0]
        first = {variant: min(seconds(variant) for _ in range(3)) for variant in fitting}
        finalists = sorted(fitting, key=lambda variant: first[variant])[:FINALISTS]
        rematches: dict[Variant, list[float]] = {variant: [] for variant in finalists}
        for _ in range(REMATCHES):
            for variant in finalists:
                rematches[variant].append(seconds(variant))
        return min(finalists, key=lambda variant: median(rematches[variant])), len(fitting)


def variants(mix: str, quick: bool) -> list[Variant]:
    paths = {"read": (0, 1, 3), "write": (0, 1), "copy": (0, 1), "triad": (0, 1, 3)}[mix]
    if quick:
        shapes = ((256, 4, 0), (512, 2, 0), (512, 4, 4), (1024, 4, 2), (256, 8, 8))
        return [Variant(*shape, path) for path in paths[:2] for shape in shapes]
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
    return [Variant(threads, unroll, resident // threads, 2) for threads, unroll in shapes for resident in (1024, 2048)]
