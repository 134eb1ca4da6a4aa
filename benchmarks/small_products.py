"""Cases of matrix products with few columns or a short inner dimension, to time in addition to every family's calibration.

    python benchmarks/small_products.py calibration > cases.csv
    python benchmarks/small_products.py test > cases.csv            never to be fitted to

Heads of classifiers, small networks and low-rank updates: products whose sides are below 64, which other tables have hardly any of.
Sizes are drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

import sys

import numpy as np

from ridgeline.measure.cuda.draw import Case, Draw
from ridgeline.measure.cuda.kernels import table

COUNTS = {"calibration": 380, "test": 110}  # of each format
SEEDS = {"calibration": 8310, "test": 8320}
FORMATS = ("bf16", "fp16", "fp32", "tf32")
FEW, SMALL = 64, 512


def _small(draw: Draw) -> tuple[int, int, int]:
    """All sides small."""
    step = draw.choice((1, 2, 8, 16))
    return draw.size(1, 2048), draw.size(1, SMALL, step), draw.size(1, SMALL, step)


def _low_rank(draw: Draw) -> tuple[int, int, int]:
    """From a wide side to a narrow one, or back."""
    narrow, wide = draw.size(1, FEW, draw.choice((1, 4, 8))), draw.size(256, 16384, draw.choice((1, 8, 64)))
    sides = (narrow, wide) if draw.chance(0.5) else (wide, narrow)
    return draw.size(1, 16384), *sides


def main() -> None:
    chosen = sys.argv[1]
    draw, cases = Draw(np.random.default_rng(SEEDS[chosen]), smooth=True), list[Case]()
    for index in range(COUNTS[chosen]):
        for dtype in FORMATS:
            m, n, k = _low_rank(draw) if index % 5 < 2 else _small(draw)
            cases.append({"op": "gemm", "dtype": dtype, "m": m, "n": n, "k": k})
    print(table(cases), end="")


if __name__ == "__main__":
    main()
