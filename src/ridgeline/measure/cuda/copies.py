"""Copies between pinned host memory and a GPU, each way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import RidgelineError
from ...core.work import LINK, READ, WRITE, Work
from ..protocol import Probe, repeat
from .device import MIB
from .memory import Memory

IN, OUT = "host to device", "device to host"


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
