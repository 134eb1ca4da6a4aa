"""A GPU made of NumPy: computes what the kernels compute; every launch takes a fixed time on its own clock."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MIB = 1 << 20
BASE = 1 << 20  # where the addresses of the fake device begin
OUTPUT = {"read": 3, "multiply_adds": 4, "specials": 3}  # the argument a kernel writes to; the first elsewhere


class FakeGpu:
    """Computes what the device would; every launch takes a fixed time on its own clock."""

    name = "Fake GPU"

    def __init__(self, sms: int = 2, l2: int = 4 * MIB, memory: int = 96 * MIB, launch_time: float = 0.02) -> None:
        self.sms, self.l2 = sms, l2
        self.memory = np.zeros(memory, np.uint8)
        self.used = 0
        self.launch_time = launch_time
        self.launched: list[str] = []
        self.now_ = 0.0
        self.spoil = ""  # a kernel that shall compute wrongly
        self.kind = ""
        self.recording: list[Callable[[], None]] | None = None

    def now(self) -> float:
        return self.now_

    def free(self) -> int:
        return len(self.memory) - self.used

    def allocate(self, size: int) -> int:
        at = self.used
        self.used += -(-size // 256) * 256
        assert self.used <= len(self.memory), "the fake GPU is full"
        return BASE + at

    def pinned(self, size: int) -> NDArray[np.uint8]:
        return np.zeros(size, np.uint8)

    def view(self, at: Any, dtype: Any, count: int) -> NDArray[Any]:
        start = int(at) - BASE
        return self.memory[start : start + count * np.dtype(dtype).itemsize].view(dtype)

    def upload(self, at: int, values: NDArray[Any]) -> None:
        self.view(at, np.uint8, values.nbytes)[:] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)

    def download(self, at: int, dtype: Any, count: int) -> NDArray[Any]:
        return self.view(at, dtype, count).copy()

    def copy(self, target: int, source: int, size: int) -> None:
        def bytes_at(at: int) -> NDArray[np.uint8]:
            if BASE <= at < BASE + len(self.memory):
                return self.view(at, np.uint8, size)
            return np.frombuffer((ctypes.c_uint8 * size).from_address(at), np.uint8)

        bytes_at(target)[:] = bytes_at(source)
        self.now_ += self.launch_time

    def launch(self, kernel: str, grid: int, block: int, *arguments: Any, shared: int = 0) -> None:
        def work() -> None:
            name, _, template = kernel.partition("<")
            self.kind = template[:1]
            numbers = [int(text) for text in re.findall(r"\b\d+\b", template)]
            getattr(self, f"run_{name}")(grid, block, numbers, *arguments)
            self.launched.append(kernel)
            self.now_ += self.launch_time
            if name == self.spoil:
                self.view(arguments[OUTPUT.get(name, 0)], np.uint8, 2)[:] ^= 0x55

        if self.recording is None:
            work()
        else:
            self.recording.append(work)

    def record(self, works: Sequence[Callable[[], None]]) -> Callable[[], None]:
        self.recording = recorded = []
        for work in works:
            work()
        self.recording = None

        def replay() -> None:
            for each in recorded:
                each()

        return replay

    def elapsed(self, work: Callable[[], None], before: Callable[[], None] | None = None, spin: int = 0) -> float:
        if before is not None:
            before()
        start = self.now_
        work()
        return max(self.now_ - start, 1e-6)

    def synchronize(self) -> None:
        self.now_ += 1e-6

    # -- kernels ------------------------------------------------------------------------------------------

    def run_fill_normal(self, grid: int, block: int, _: list[int], target: Any, pairs: Any, seed: Any) -> None:
        values = np.random.default_rng(int(seed)).standard_normal(min(2 * int(pairs), MIB // 4), np.float32)
        self.view(target, np.float32, 2 * int(pairs))[:] = np.resize(values, 2 * int(pairs))

    def run_checksums(self, grid: int, block: int, _: list[int], source: Any, sums: Any) -> None:
        words = self.view(source, np.uint32, grid * MIB // 4).reshape(grid, -1)
        self.view(sums, np.uint32, grid)[:] = words.sum(axis=1, dtype=np.uint32)

    def run_read(self, grid: int, block: int, numbers: list[int], source: Any, tiles: Any, passes: Any, sums: Any, mask: Any) -> None:  # fmt: skip
        words = self.view(source, np.uint32, int(tiles) * block * numbers[0] * 4)
        self.view(sums, np.uint32, 1)[:] += np.uint32(int(words.sum(dtype=np.uint64)) * int(passes) & 0xFFFFFFFF)

    def run_write(
        self, grid: int, block: int, numbers: list[int], target: Any, tiles: Any, table: Any, span: Any
    ) -> None:
        words = self.view(target, np.uint32, int(tiles) * block * numbers[0] * 4)
        words[:] = np.resize(self.view(table, np.uint32, int(span) * 4), len(words))

    def run_copy(self, grid: int, block: int, numbers: list[int], target: Any, source: Any, tiles: Any) -> None:
        count = int(tiles) * block * numbers[0] * 4
        self.view(target, np.uint32, count)[:] = self.view(source, np.uint32, count)

    def run_triad(self, grid: int, block: int, numbers: list[int], a: Any, b: Any, c: Any, s: Any, tiles: Any) -> None:
        count = int(tiles) * block * numbers[0] * 4
        left, right = self.view(b, np.float32, count), self.view(c, np.float32, count)
        self.view(a, np.float32, count)[:] = left + s * right

    def run_read_l1(self, grid: int, block: int, numbers: list[int], source: Any, window: Any, passes: Any, sums: Any, mask: Any) -> None:  # fmt: skip
        words = self.view(source, np.uint32, grid * int(window) // 4)
        rounds = int(passes) * numbers[0] * numbers[1] * 16 // int(window)
        self.view(sums, np.uint32, 1)[:] += np.uint32(int(words.sum(dtype=np.uint64)) * rounds & 0xFFFFFFFF)

    run_read_shared = run_read_l1

    def run_link(self, grid: int, block: int, _: list[int], base: Any, stride: Any, following: Any, nodes: Any) -> None:
        at = self.view(base, np.uint64, int(nodes) * int(stride) // 8).reshape(int(nodes), -1)
        at[:, 0] = int(base) + self.view(following, np.uint32, int(nodes)).astype(np.uint64) * int(stride)

    def run_chase(self, grid: int, block: int, _: list[int], state: Any, steps: Any) -> None:
        held = self.view(state, np.uint64, 2)
        at = int(held[0])
        for _step in range(int(steps)):
            at = int(self.view(at, np.uint64, 1)[0])
        held[:] = at, int(steps) * 30

    def run_chase_shared(self, grid: int, block: int, _: list[int], state: Any, steps: Any, following: Any, nodes: Any) -> None:  # fmt: skip
        held, ahead = self.view(state, np.uint64, 2), self.view(following, np.uint32, int(nodes))
        at = int(held[0])
        for _step in range(int(steps)):
            at = int(ahead[at])
        held[:] = at, int(steps) * 20

    def run_multiply_adds(self, grid: int, block: int, numbers: list[int], seeds: Any, span: Any, factor: Any, steps: Any, out: Any, cycles: Any) -> None:  # fmt: skip
        kind = {"d": np.float64, "f": np.float32, "u": np.float16}[self.kind]
        lanes, chains, span = (2 if self.kind == "u" else 1), numbers[-1], int(span)
        values = self.view(seeds, kind, span * lanes).reshape(span, lanes).astype(np.float64)
        a = float(self.view(factor, kind, 1)[0])
        thread = np.arange(min(64, grid * block))
        x = values[(thread[:, None] * chains + np.arange(chains)) % span]
        b = values[(thread + span // 2) % span][:, None, :]
        for _step in range(int(steps)):
            x = (x * a + b).astype(kind).astype(np.float64)
        total = x[:, 0]
        for j in range(1, chains):
            total = (total + x[:, j]).astype(kind).astype(np.float64)
        self.view(out, kind, total.size)[:] = total.reshape(-1)
        self.view(cycles, np.uint64, 2 * grid).reshape(-1, 2)[:] = int(steps) * 10, int(steps) * 5

    def run_specials(self, grid: int, block: int, numbers: list[int], seeds: Any, span: Any, steps: Any, out: Any, cycles: Any) -> None:  # fmt: skip
        self.view(out, np.float32, 64)[:] = (0.6411857445, 1.0)[numbers[0]]
        self.view(cycles, np.uint64, 2 * grid).reshape(-1, 2)[:] = int(steps) * 10, int(steps) * 5

    def run_nothing(self, grid: int, block: int, _: list[int]) -> None:
        pass

    def run_spin(self, grid: int, block: int, _: list[int], cycles: Any) -> None:
        pass
