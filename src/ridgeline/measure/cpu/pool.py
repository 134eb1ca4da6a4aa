"""The compiled CPU probes as Python sees them: a table of kernels, and pools of pinned threads that run them."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...core.errors import RidgelineError
from ...core.units import show
from ..protocol import Timing
from .build import Built

LINE, PAGE = 64, 4096
QUANTUM = 1 << 18  # bytes per thread of one loop over memory that no cache holds


@dataclass(frozen=True)
class Kernel:
    """One row of the table in the C files."""

    index: int
    kind: str
    op: str
    isa: str
    dtype: str
    engine: str
    reads: int
    writes: int
    chains: int
    flops: float  # stream: per 8-byte element; fma: per loop and thread


class Library:
    """The compiled probes, with Python types."""

    def __init__(self, built: Built) -> None:
        self.built = built
        lib = self.raw = built.library
        number, pointer, floats = ctypes.c_uint64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_double)
        signatures: dict[str, tuple[Any, list[Any]]] = {
            "rl_count": (ctypes.c_int, []),
            "rl_text": (ctypes.c_char_p, [ctypes.c_int, ctypes.c_int]),
            "rl_numbers": (None, [ctypes.c_int, floats]),
            "rl_new": (pointer, [ctypes.c_int, ctypes.POINTER(ctypes.c_int), number]),
            "rl_alone": (pointer, [pointer, ctypes.c_int]),
            "rl_free": (None, [pointer]),
            "rl_pinned": (ctypes.c_int, [pointer]),
            "rl_touched": (number, [ctypes.c_int, number]),
            "rl_run": (ctypes.c_int, [pointer, ctypes.c_int, number, number, number, number, ctypes.c_int, floats]),
            "rl_chain_new": (pointer, [pointer, number, number]),
            "rl_chain_free": (None, [pointer]),
            "rl_chain_whole": (ctypes.c_int, [pointer]),
            "rl_chase": (ctypes.c_int, [pointer, pointer, number, number, floats]),
            "rl_clock": (ctypes.c_int, [pointer, number, floats]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.kernels = [kernel for index in range(lib.rl_count()) if (kernel := self._kernel(index))]

    def _kernel(self, index: int) -> Kernel | None:
        kind, op, isa, dtype, engine = (self.raw.rl_text(index, which).decode() for which in range(5))
        numbers = (ctypes.c_double * 6)()
        self.raw.rl_numbers(index, numbers)
        reads, writes, _, chains = (int(value) for value in numbers[:4])
        flops, runs_here = numbers[4:]
        return Kernel(index, kind, op, isa, dtype, engine, reads, writes, chains, flops) if runs_here else None

    def streams(self, op: str) -> list[Kernel]:
        return [kernel for kernel in self.kernels if kernel.kind == "stream" and kernel.op == op]

    def arithmetic(self) -> dict[tuple[str, str, str], list[Kernel]]:
        """Kernels by (engine, dtype, instruction set); those of a group differ in the number of chains."""
        groups: dict[tuple[str, str, str], list[Kernel]] = {}
        for kernel in self.kernels:
            if kernel.kind == "fma":
                groups.setdefault((kernel.engine, kernel.dtype, kernel.isa), []).append(kernel)
        return groups


class NoMemory(RidgelineError):
    """Arrays of the size asked for cannot be allocated."""


class Pool:
    """Threads pinned to CPUs, each with the memory that it touched first; freed with the object.

    With an `owner` one thread uses the memory of another pool, as far as `size` goes.
    """

    def __init__(self, library: Library, cpus: Sequence[int], size: int, owner: Pool | None = None) -> None:
        self.library, self.cpus, self.size, self.owner = library, tuple(cpus), size, owner
        self.chains: list[int] = []
        self.cursor = 0  # where the next pass over cold memory begins
        self.handle: int | None
        if owner:
            self.handle = library.raw.rl_alone(owner.handle, cpus[0])
        else:
            self.handle = library.raw.rl_new(len(cpus), (ctypes.c_int * len(cpus))(*cpus), size)
        if not self.handle:
            wanted = show(2 * size * len(cpus), "B", binary=True)
            raise NoMemory(
                f"no memory for {wanted} of probe arrays on {counted(len(cpus))}; close other programs or raise the limit (ulimit -v)"
            )

    @property
    def threads(self) -> int:
        return len(self.cpus)

    @property
    def pinned(self) -> bool:
        return bool(self.library.raw.rl_pinned(self.handle) == self.threads)

    def run(
        self, kernel: Kernel, size: int = 0, reps: int = 1, warm: int = 0, check: bool = False, offset: int = 0
    ) -> Timing:
        """`reps` passes over `size` bytes per thread, after `warm` passes that are not timed."""
        out = (ctypes.c_double * 3)()
        code = self.library.raw.rl_run(self.handle, kernel.index, size, reps, warm, offset, int(check), out)
        if code:
            raise RidgelineError(
                f"probe {kernel.op} {kernel.isa}: no threads could be started on {counted(self.threads)}"
            )
        if check and out[2]:
            raise RidgelineError(
                f"probe {kernel.op} {kernel.isa} {kernel.dtype}: {out[2]:.0f} wrong values; its times mean nothing"
            )
        return Timing(out[0], out[1])

    @property
    def quantum(self) -> int:
        return min(QUANTUM, self.size)

    def run_cold(self, kernel: Kernel, loops: int) -> Timing:
        """One pass over so many quanta that were last touched a turn through the arrays ago, at most all of them.

        Samples stay short however large the arrays are, and no cache holds what they touch.
        """
        size = min(loops * self.quantum, self.size)
        if self.cursor + size > self.size:
            self.cursor = 0
        timing = self.run(kernel, size, 1, 0, offset=self.cursor)
        self.cursor += math.ceil(size * max(kernel.reads, 1) / (kernel.reads + kernel.writes) / PAGE) * PAGE
        covered = self.touched(kernel, size) / self.touched(kernel, self.quantum)
        return Timing(timing.seconds * loops / covered, timing.busy)

    def check(self, kernel: Kernel, size: int, reps: int = 1) -> None:
        """RidgelineError where the kernel computes wrong values."""
        self.run(kernel, size, reps, 0, check=True)

    def touched(self, kernel: Kernel, size: int) -> int:
        """Bytes one pass really covers, all threads together."""
        return int(self.library.raw.rl_touched(kernel.index, size)) * self.threads

    def chain(self, size: int, line: int = LINE) -> int:
        """A pointer chase of so many bytes for the first CPU."""
        chain = self.library.raw.rl_chain_new(self.handle, size, line)
        if not chain:
            raise NoMemory(f"no memory for a pointer chase of {show(size, 'B', binary=True)}")
        self.chains.append(chain)
        return int(chain)

    def chase(self, chain: int, hops: int, warm: int) -> Timing:
        out = (ctypes.c_double * 3)()
        if self.library.raw.rl_chase(self.handle, chain, hops, warm, out):
            raise RidgelineError("probe latency: its thread could not be started")
        return Timing(out[0], out[1])

    def count_cycles(self, loops: int) -> Timing:
        """So many times 64 dependent additions, one cycle each, on all CPUs of the pool at once."""
        out = (ctypes.c_double * 3)()
        if self.library.raw.rl_clock(self.handle, loops, out):
            raise RidgelineError("probe clock: its threads could not be started")
        return Timing(out[0], out[1])

    def __del__(self) -> None:
        for chain in getattr(self, "chains", []):
            self.library.raw.rl_chain_free(chain)
        if getattr(self, "handle", None):
            self.library.raw.rl_free(self.handle)
            self.handle = None


def cores() -> list[int]:
    """One logical CPU of every core this process may use."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return [-1] * (os.cpu_count() or 1)  # threads cannot be pinned
    first_of_core: dict[str, int] = {}
    for cpu in allowed:
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        try:
            siblings = path.read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            siblings = str(cpu)
        first_of_core.setdefault(siblings, cpu)
    return list(first_of_core.values())


def counted(count: int) -> str:
    return f"{count} core{'s' if count != 1 else ''}"
