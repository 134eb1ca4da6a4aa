"""Calls of linear layers with a bias, drawn at random.

    python benchmarks/programs/single_calls.py --list CALLS --biased calibration
    python benchmarks/programs/single_calls.py --list CALLS --biased test             never to be fitted to

cuBLASLt chooses their kernels by rules of its own, so that a product without a bias says little of a small one. Sizes are drawn
log-uniformly; the same calls every time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ridgeline.core.timeline import Call, Tensor

COUNTS = {"calibration": 900, "test": 180}
SEEDS = {"calibration": 9410, "test": 9420}
MAX_FLOPS = {"fp32": 3e11, "bf16": 3e12}
LARGEST, STEPS = 16384.0, (1, 2, 8, 8, 64)


def drawn(chosen: str) -> Iterator[Call]:
    random = np.random.default_rng(SEEDS[chosen])

    def size(low: float, step: int = 1) -> int:
        exact = np.exp(random.uniform(np.log(low), np.log(LARGEST)))
        return max(round(exact / step), 1) * step

    for _ in range(COUNTS[chosen]):
        step = int(random.choice(STEPS))
        m, n, k = size(1), size(2, step), size(2, step)
        for dtype, most in MAX_FLOPS.items():
            if 2.0 * m * n * k <= most:
                x, weights = Tensor((m, k), dtype, (k, 1)), Tensor((k, n), dtype, (1, k))
                yield Call(
                    "aten::addmm", (Tensor((n,), dtype, (1,)), x, weights, 1, 1), (Tensor((m, n), dtype, (n, 1)),)
                )
