"""Three kernels whose counts are known, for Nsight Compute to count: `python -m ridgeline.profilers.check_kernels`.

A bf16 product of side 4096 (2 x 4096^3 flops on the tensor units), a copy of 1 GiB (2 GiB through the memory), and a
chain of multiply-adds (2 flops each, nothing else). Started by `ridgeline profile --self-check`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

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


def main() -> None:
    import torch

    cupy = import_module("cupy")
    product = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)
    source = torch.randn(COPIED // 4, device="cuda")
    target = torch.empty_like(source)
    kernel: Any = cupy.RawModule(code=CHAIN, options=("-std=c++17",)).get_function("chain")
    values: Any = cupy.full(2 * BLOCKS * THREADS, 0.5, dtype=cupy.float32)
    runs: dict[str, Callable[[], Any]] = {
        "product": lambda: torch.matmul(product, product),
        "copy": lambda: torch.mul(
            source, 2.0, out=target
        ),  # a copy by the driver is no kernel and would not be counted
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
