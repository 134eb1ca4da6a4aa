"""Calls of linear layers with a bias, drawn at random.

    python benchmarks/programs/single_calls.py --list CALLS --biased calibration
    python benchmarks/programs/single_calls.py --list CALLS --biased test             never to be fitted to
    python benchmarks/programs/single_calls.py --list CALLS --biased usual            widths of language and vision models
    python benchmarks/programs/single_calls.py --list CALLS --biased usual-test       the same; never to be fitted to

cuBLASLt chooses their kernels by rules of its own, so that a product without a bias says little of a small one. Sizes are drawn
log-uniformly; the same calls every time. The usual lists serve fp32, bf16 and, with `--record ... --tf32`, tf32.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ridgeline.core.timeline import Call, Tensor

COUNTS = {"calibration": 900, "test": 180, "usual": 7500, "usual-test": 250}
SEEDS = {"calibration": 9410, "test": 9420, "usual": 9430, "usual-test": 9440}
MAX_FLOPS = {"fp32": 3e11, "bf16": 3e12}
LARGEST, STEPS = 16384.0, (1, 2, 8, 8, 64)
USUAL_STEPS, SMALLEST_USUAL, EVEN = (1, 8, 64, 64, 64, 256), 16.0, 0.5  # share of rows that are powers of two


def drawn(chosen: str) -> Iterator[Call]:
    random = np.random.default_rng(SEEDS[chosen])

    def size(low: float, step: int = 1) -> int:
        exact = np.exp(random.uniform(np.log(low), np.log(LARGEST)))
        return max(round(exact / step), 1) * step

    for _ in range(COUNTS[chosen]):
        if chosen.startswith("usual"):
            step = int(random.choice(USUAL_STEPS))
            m = 2 ** int(random.integers(15)) if random.random() < EVEN else size(1)
            n, k = size(SMALLEST_USUAL, step), size(SMALLEST_USUAL, step)
        else:
            step = int(random.choice(STEPS))
            m, n, k = size(1), size(2, step), size(2, step)
        for dtype, most in MAX_FLOPS.items():
            if 2.0 * m * n * k <= most:
                x, weights = Tensor((m, k), dtype, (k, 1)), Tensor((k, n), dtype, (1, k))
                yield Call(
                    "aten::addmm", (Tensor((n,), dtype, (1,)), x, weights, 1, 1), (Tensor((m, n), dtype, (n, 1)),)
                )
