"""Which kernels cuDNN takes for more of the convolutions and gradients that most networks are made of, on an H200.

    python benchmarks/usual_convolutions.py FOLDER [--seconds 590] [--processes 15]

As `library_convolutions.py`, which draws any sizes in any format alike, with most draws where most networks are: square images,
channels in steps of 8, kernels of one to seven, few groups. fp16 gets the kernels of bf16 nearly always and is drawn less.
Writes `drawn-*.npz`, for `fit_convolutions.py --more FOLDER`, where `library_convolutions.py` has written `timed-*.npz` before. Another
number of processes draws others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from library_convolutions import (
    DRAWS,
    GRADIENTS,
    MAX_DRAWN_BYTES,
    MAX_KERNELS,
    OF_KERNEL,
    SIZES,
    Cudnn,
    Row,
    alone,
    asked,
    case_of,
    drawn,
    images_bytes,
    merge,
    popular_layer,
    row_of,
    share,
    sides,
    usual,
)

from ridgeline.measure.cuda.draw import Draw

# op, format and layout, as their places in the tables of `library_convolutions`, and the share of draws
FORWARD = (
    *((0, 0, 1, 0.16), (0, 2, 1, 0.15), (0, 0, 0, 0.09), (0, 2, 0, 0.1), (0, 1, 1, 0.03), (0, 1, 0, 0.03)),
    *((0, 3, 1, 0.03), (0, 3, 0, 0.03)),
)
BACKWARD = tuple(
    (op, dtype, layout, often)
    for op in GRADIENTS
    for dtype, layout, often in ((0, 1, 0.05), (0, 0, 0.04), (2, 1, 0.035), (2, 0, 0.035), (3, 1, 0.015), (3, 0, 0.015))
)
KINDS = (*FORWARD, *BACKWARD)
USUAL, LAYERS, ANY = (
    0.62,
    0.8,
    0.92,
)  # up to which a random number draws one of these; the suite of `ridgeline.measure` beyond
GROUPS_KEPT = 0.4  # share of those with groups
SUITE = ("conv2d", "stems")


def of_any_kind(random: np.random.Generator) -> Row | None:
    kind = random.random()
    if kind < ANY:
        return (usual if kind < USUAL else popular_layer if kind < LAYERS else drawn)(random)
    suite = [draw for name, _, draw in DRAWS if name in SUITE]
    draw = suite[int(random.integers(len(suite)))]
    return row_of(draw(Draw(random, random.random() < 0.7), int(random.integers(64))))


def endless(random: np.random.Generator) -> Iterator[Row]:
    """Convolutions of any kind, in the op, format and layout that are drawn for them."""
    weights = np.array([often for *_, often in KINDS])
    while True:
        row = of_any_kind(random)
        if row is None:
            continue
        op, dtype, layout, _ = KINDS[int(random.choice(len(KINDS), p=weights / weights.sum()))]
        dilation = 1 if op in GRADIENTS else row[-1]
        case = case_of(row := (op, dtype, layout, *row[3:-1], dilation))
        if case["groups"] > 1 and random.random() > GROUPS_KEPT:
            continue
        if min(sides(case)) < 1 or case["kernel"] > min(case["h"], case["w"]) + 2 * case["padding"]:
            continue
        if not alone(row) and images_bytes(row) <= MAX_DRAWN_BYTES:
            yield row


def work(folder: Path, rank: int, processes: int, seconds: float) -> None:
    cudnn, begin = Cudnn(), time.monotonic()
    found, failed = asked(cudnn, endless(np.random.default_rng([rank, processes, 20261120])), begin + seconds)
    if rank == 0:
        print(f"{len(found)} in {time.monotonic() - begin:.0f} s, {failed}", flush=True)
    table = np.array(found, dtype=np.int64).reshape(-1, 3 + len(SIZES) + 2 + len(OF_KERNEL) * MAX_KERNELS)
    np.savez(folder / f"drawn.{rank}.npz", names=np.array(list(cudnn.names)), table=table)


def merged(folder: Path, processes: int) -> None:
    merge(folder, processes, kinds=("drawn",))


if __name__ == "__main__":
    share(__doc__ or "", 590.0, work, merged)
