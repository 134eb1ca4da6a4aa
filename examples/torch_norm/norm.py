"""RMSNorm as people first write it in PyTorch, and as one library call. Run it under `ridgeline profile`.

Each version runs inside an NVTX range, so that the profiler's kernels carry the name of the case they belong to.
"""

from __future__ import annotations

import torch

ROWS, COLS = 16384, 4096


def by_hand(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def library(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.rms_norm(x, (COLS,), weight, eps=1e-6)


VERSIONS = {"by_hand": by_hand, "library": library, "compiled": torch.compile(by_hand)}


def main() -> None:
    x = torch.randn(ROWS, COLS, device="cuda", dtype=torch.bfloat16)
    weight = torch.randn(COLS, device="cuda", dtype=torch.bfloat16)
    for version in VERSIONS.values():  # compiles, loads kernels; outside the ranges
        version(x, weight)
    torch.cuda.synchronize()
    for name, version in VERSIONS.items():
        torch.cuda.nvtx.range_push(name)
        version(x, weight)
        torch.cuda.synchronize()
        torch.cuda.nvtx.range_pop()


if __name__ == "__main__":
    main()
