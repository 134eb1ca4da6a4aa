"""The self-check of a machine's counters: three kernels of known counts, counted by Nsight Compute.

A bf16 product of side 4096 (2 x 4096^3 flops on the tensor units), a copy of 1 GiB (2 GiB through the memory), and a
chain of multiply-adds (2 flops each, nothing else). `python -m ridgeline.profilers.self_check` runs them, and
`ridgeline profile --self-check` counts that run.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from ..core.errors import InputError
from ..core.files import write_text
from ..core.observation import Observation
from ..machines.folders import folder
from .profile import profile

SIDE = 4096
COPIED = 1 << 30
BLOCKS, THREADS, LINKS = 1056, 256, 4096
CHAIN = """
extern "C" __global__ void chain(float* values, int links) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    float x = values[at], y = values[at + gridDim.x * blockDim.x];
    for (int link = 0; link < links; ++link) x = fmaf(x, y, y);
    values[at] = x;
}
"""
EXPECTED = {
    "product": ("flops", "tensor.bf16", 2.0 * SIDE**3),
    "copy": ("bytes", "hbm", 2.0 * COPIED),
    "chain": ("flops", "vector.fp32", 2.0 * BLOCKS * THREADS * LINKS),
}
# Tiles pad a product; a cache may keep a little of a copy; a chain has nothing that could differ.
ALLOWED = {"product": (1.0, 1.05), "copy": (0.97, 1.03), "chain": (1.0, 1.0001)}


@dataclass(frozen=True)
class CountedKernel:
    """One kernel of the self-check: expected and counted amount."""

    DOCUMENT: ClassVar = ("name", "what", "expected", "counted", "ratio", "holds")

    name: str
    what: str
    expected: float
    counted: float | None
    allowed: tuple[float, float]

    @property
    def ratio(self) -> float | None:
        return None if self.counted is None else self.counted / self.expected

    @property
    def holds(self) -> bool:
        return self.ratio is not None and self.allowed[0] <= self.ratio <= self.allowed[1]


def compare(observations: Sequence[Observation]) -> list[CountedKernel]:
    """Counted against expected amounts of the three kernels."""
    by_name = {item.name: item for item in observations}
    kernels = []
    for name, (side, key, expected) in EXPECTED.items():
        counted = getattr(by_name[name], side).get(key) if name in by_name else None
        kernels.append(CountedKernel(name, f"{side} {key}", expected, counted, ALLOWED[name]))
    return kernels


def self_check(out: Path, tell: Callable[[str], None] = lambda text: None) -> list[CountedKernel]:
    """Count the three kernels with Nsight Compute, to validate the counters of this machine."""
    program = [sys.executable, "-P", "-m", "ridgeline.profilers.self_check"]  # -P: nothing of this folder
    counted = profile(program, "ncu", out, "roofline", tell=tell)
    if counted.step != "counters":
        raise InputError(f"the counters cannot be validated: {counted.notes[0]}")
    kernels = compare(counted.observations)
    gpu = str(counted.observations[0].conditions.get("gpu", ""))
    if gpu and all(kernel.holds for kernel in kernels):
        _stamps().parent.mkdir(parents=True, exist_ok=True)
        stamps = {**passed(), gpu: datetime.now(UTC).isoformat(timespec="seconds")}
        write_text(_stamps(), json.dumps(stamps, indent=1) + "\n")
    return kernels


def _stamps() -> Path:
    return folder("data") / "self-checks.json"


def passed() -> dict[str, str]:
    """GPUs whose counters passed the self-check on this machine, and when."""
    try:
        stamps = json.loads(_stamps().read_text(encoding="utf-8"))
    except (OSError, ValueError, InputError):  # without a home none is known to have passed
        return {}
    return {str(key): str(value) for key, value in stamps.items()} if isinstance(stamps, dict) else {}


def unchecked(observations: Sequence[Observation]) -> list[str]:
    """GPUs whose counters are used without validation on this machine."""
    known = passed()
    gpus = {str(item.conditions.get("gpu", "")) for item in observations if item.tool == "ncu" and item.bytes}
    return sorted(gpu for gpu in gpus if gpu and gpu not in known)


def main() -> None:
    """Run the three kernels, each in a range of its name."""
    import torch

    cupy = import_module("cupy")
    product = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    source = torch.randn(COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    kernel: Any = cupy.RawModule(code=CHAIN, options=("-std=c++17",)).get_function("chain")
    values: Any = cupy.full(2 * BLOCKS * THREADS, 0.5, dtype=cupy.float32)
    runs: dict[str, Callable[[], Any]] = {
        "product": lambda: torch.matmul(product, product),
        # a copy by the driver is no kernel and would not be counted
        "copy": lambda: torch.mul(source, 2.0, out=target),
        "chain": lambda: kernel((BLOCKS,), (THREADS,), (values, LINKS)),
    }
    ranges: Any = torch.cuda.nvtx
    for name, run in runs.items():
        ranges.range_push(name)
        run()
        torch.cuda.synchronize()
        cupy.cuda.Device().synchronize()
        ranges.range_pop()


if __name__ == "__main__":
    main()
