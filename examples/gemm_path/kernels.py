"""One product written again and again: fp32 at 4096 on the vector units, bf16 at 8192 on the tensor units.

python kernels.py                     each once, in a range of its name: for a profiler
python kernels.py --check             each against torch
python kernels.py --time times.csv    each with CUDA events, L2 emptied before
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from bench import Kernel, main
from products import linear, numbers, square

SMALL, LARGE = 4096, 8192


def _fp32(run: str) -> Kernel:
    a, b = numbers(SMALL, SMALL), numbers(SMALL, SMALL)
    c = torch.empty_like(a)
    work: Callable[[], object] = partial(torch.mm, a, b, out=c) if run == "library" else partial(square, run, a, b, c)
    # rounding of the sums is all that may differ
    return Kernel({f"fp32_{run}": work}, lambda: c, lambda: a @ b, error=1e-4)


TILES = {"tiled": ((64, 64, 32), 4, 1), "pipelined": ((128, 256, 64), 8, 4)}


def _bf16(run: str) -> Kernel:
    x, w = (numbers(LARGE, LARGE, dtype=torch.bfloat16) for _ in range(2))
    y = torch.empty_like(x)
    if run == "naive":
        # the right operand lies by rows for the naive kernel: what it multiplies with is w itself
        return Kernel({"bf16_naive": partial(square, "naive_bf16", x, w, y)}, lambda: y, lambda: x @ w, error=1e-2)
    work: Callable[[], object] = (
        partial(torch.mm, x, w.t(), out=y) if run == "library" else partial(linear, x, w, y, *TILES[run])
    )
    return Kernel({f"bf16_{run}": work}, lambda: y, lambda: x @ w.t(), error=1e-2)


KERNELS = {
    **{f"fp32_{run}": partial(_fp32, run) for run in ("naive", "tiled", "blocked", "pipelined", "library")},
    **{f"bf16_{run}": partial(_bf16, run) for run in ("naive", "tiled", "pipelined", "library")},
}

if __name__ == "__main__":
    torch.backends.cuda.matmul.allow_tf32 = False
    main(KERNELS, __doc__)
