"""Cases of narrow embedding tables, their gradients and norms of single images, to time in addition to every family's calibration.

    python benchmarks/narrow_rows.py calibration > cases.csv
    python benchmarks/narrow_rows.py test > cases.csv            never to be fitted to

Recommenders look up rows of 4 to 512 columns in tables of up to millions of rows, and instance norms are batch norms of one
image with the channels of all of them. Sizes are drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

import sys

import numpy as np

from ridgeline.measure.cuda.draw import Case, Draw
from ridgeline.measure.cuda.kernels import table

MAX_TABLE = 1 << 28  # elements
MAX_IMAGES = 1 << 26
COUNTS = {"calibration": (600, 300, 300), "test": (200, 100, 100)}  # gradients, look-ups, norms
SEEDS = {"calibration": 8110, "test": 8120}
WIDTHS = (8, 16, 32, 64, 128, 256)


def _looked_up(draw: Draw, op: str, index: int) -> Case:
    cols = draw.choice(WIDTHS) if index % 2 else draw.size(4, 512)
    vocab = draw.size(100, min(4e6, MAX_TABLE / cols))
    rows = draw.size(1, min(1 << 20, MAX_TABLE / cols))
    return {"op": op, "dtype": ("fp32", "fp32", "bf16")[index % 3], "rows": rows, "vocab": vocab, "cols": cols}


def _normed(draw: Draw, index: int) -> Case:
    channels, side = draw.size(64, 32768, 8), draw.size(2, 256)
    while channels * side**2 > MAX_IMAGES:
        channels, side = draw.size(64, 32768, 8), draw.size(2, 256)
    case: Case = {
        "op": ("batchnorm_training", "batchnorm_backward")[index % 2],
        "dtype": ("fp32", "bf16")[index // 2 % 2],
    }
    return case | {"batch": 1, "channels": channels, "pixels": side * side, "layout": "nchw"}


def main() -> None:
    chosen = sys.argv[1]
    gradients, lookups, norms = COUNTS[chosen]
    draw = Draw(np.random.default_rng(SEEDS[chosen]), smooth=True)
    cases = [_looked_up(draw, "embedding_backward", index) for index in range(gradients)]
    cases += [_looked_up(draw, "embedding", index) for index in range(lookups)]
    cases += [_normed(draw, index) for index in range(norms)]
    print(table(cases), end="")


if __name__ == "__main__":
    main()
