"""Which kernels cuDNN takes for convolutions and gradients of any sizes, on an H200: as many of each kernel that has a formula.

    python benchmarks/any_convolutions.py FOLDER --draw                             anywhere: writes FOLDER/cases.npz
    python benchmarks/any_convolutions.py FOLDER [--seconds 300] [--processes 15]   on the GPU: asks about those

Drawn as people's networks are, most convolutions belong to a few of the kernels that ridgeline tells apart, and those of odd
channels, odd images and gradients of both get a few hundred calls each, in which cuDNN's choice cannot be seen. Here every kernel
gets as many calls as it can have. Writes `drawn-*.npz`, for `fit_convolutions.py --more FOLDER`, where `library_convolutions.py`
has written `timed-*.npz` before.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from library_convolutions import (
    DTYPES,
    MAX_DRAWN_BYTES,
    MAX_KERNELS,
    OF_KERNEL,
    POPULAR_BATCHES,
    POPULAR_SIDES,
    SIZES,
    Cudnn,
    asked,
    merge,
)
from library_kernels import WIDTHS, share
from numpy.typing import NDArray

Table = NDArray[np.int64]

CASES = "cases.npz"
CANDIDATES, AT_ONCE, SEED = 5_000_000, 500_000, 20261123
MOST_OF_KERNEL = 4500  # calls
MAX_FLOPS = 2e13
OP_SHARES, TRANSPOSED = (0.4, 0.25, 0.27, 0.08), 3
BATCHES, SIDES, CHANNELS, FEW = (1, 256), (2, 320), (8, 2048), (1, 16)
STEPS, STEP_SHARES = (1, 2, 4, 8, 16, 64), (0.36, 0.08, 0.1, 0.26, 0.1, 0.1)
KERNELS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 11)
KERNEL_SHARES = (0.24, 0.05, 0.36, 0.05, 0.13, 0.01, 0.12, 0.01, 0.02, 0.01)
STRIDES, STRIDE_SHARES = (1, 2, 3, 0), (0.6, 0.3, 0.03, 0.07)  # 0 is that of patches
GROUPS, GROUP_WIDTHS = (2, 64), (1, 64)
GROUPED, DILATED, OBLONG, POPULAR, FEW_SHARE, UNPADDED = 0.15, 0.04, 0.1, 0.35, 0.1, 0.12


def candidates(random: np.random.Generator, count: int) -> Table:
    """Convolutions with sizes drawn log-uniformly, in multiples that decide which kernels can take them, or popular."""

    def sizes(ends: tuple[int, int], step: NDArray[np.int64] | int = 1) -> Table:
        low, high = np.log(ends)
        return np.maximum(np.rint(np.exp(random.uniform(low, high, count)) / step), 1).astype(np.int64) * step

    def sometimes(chance: float, these: Table, others: Table) -> Table:
        return np.where(random.random(count) < chance, these, others)

    def channels(step: NDArray[np.int64]) -> Table:
        return sometimes(FEW_SHARE, sizes(FEW), sizes(CHANNELS, step))

    op = random.choice(4, count, p=OP_SHARES)
    layout = np.where(op == TRANSPOSED, 0, random.integers(2, size=count))
    batch = sometimes(POPULAR, random.choice(POPULAR_BATCHES, count), sizes(BATCHES))
    h = sometimes(POPULAR, random.choice(POPULAR_SIDES, count), sizes(SIDES))
    w = sometimes(OBLONG, sizes(SIDES), h)
    step = random.choice(STEPS, count, p=STEP_SHARES)
    c_in, c_out = channels(step), channels(sometimes(0.3, random.choice(STEPS, count), step))
    kernel = random.choice(KERNELS, count, p=KERNEL_SHARES)
    stride = random.choice(STRIDES, count, p=STRIDE_SHARES)
    stride = np.where(stride == 0, kernel, stride)
    dilation = np.where((op == 0) & (kernel > 1), sometimes(DILATED, random.integers(2, 5, count), np.ones_like(op)), 1)
    usual = np.where(op == TRANSPOSED, np.maximum(kernel - stride, 0) // 2, dilation * (kernel - 1) // 2)
    padding = np.where(stride == kernel, 0, sometimes(UNPADDED, random.integers(0, kernel), usual))
    groups = sometimes(GROUPED, sizes(GROUPS), np.ones_like(op))
    shared = groups * sizes(GROUP_WIDTHS)
    c_in, c_out = (np.where(groups > 1, shared, each) for each in (c_in, c_out))
    dtype = random.integers(len(DTYPES), size=count)
    table = np.stack([op, dtype, layout, batch, c_in, c_out, h, w, kernel, stride, padding, groups, dilation], axis=1)
    return table[allowed(table)]


def allowed(table: Table) -> NDArray[np.bool_]:
    """Those that are convolutions, that have more than one channel a group, and that cuDNN has room for."""
    op, dtype, _, batch, c_in, c_out, h, w, kernel, stride, padding, groups, dilation = table.T
    taps = dilation * (kernel - 1) + 1
    out = [
        np.where(op == TRANSPOSED, (side - 1) * stride - 2 * padding + taps, (side + 2 * padding - taps) // stride + 1)
        for side in (h, w)
    ]
    real = np.all([each >= 1 for each in out], axis=0) & (taps <= np.minimum(h, w) + 2 * padding)
    read, written = batch * c_in * h * w, batch * c_out * np.prod(out, axis=0)
    room = (read + written) * np.array([WIDTHS[name] for name in DTYPES])[dtype] <= MAX_DRAWN_BYTES
    products = np.where(op == TRANSPOSED, read * c_out, written * c_in) / groups * kernel**2
    small = (2.0 * products <= MAX_FLOPS) & (c_in * c_out // groups * kernel**2 <= 1 << 26)
    return np.asarray(real & room & small & ~((groups == c_in) & (c_in > 1)))


def draw(folder: Path) -> None:
    """Write candidates of which no kernel has more than `MOST_OF_KERNEL`, in any order."""
    from convolution_choices import NAMED, combinations, kernels_of

    from ridgeline.machines import load as machines

    random, machine = np.random.default_rng(SEED), machines.load("h200-sxm")
    counts, parts = dict[str, int](), []
    for _ in range(0, CANDIDATES, AT_ONCE):
        table = candidates(random, AT_ONCE)
        kept = np.zeros(len(table), dtype=bool)
        for of, places in combinations(table):
            for time_, mask in kernels_of(of, table[places, NAMED : NAMED + len(SIZES)], machine):
                key = str(time_.selected.key)
                free = max(MOST_OF_KERNEL - counts.get(key, 0), 0)
                kept[places[mask][:free]] = True
                counts[key] = counts.get(key, 0) + min(int(mask.sum()), free)
        parts.append(table[kept].astype(np.int32))
    every = np.unique(np.concatenate(parts), axis=0)
    random.shuffle(every)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(folder / CASES, columns=np.ascontiguousarray(every.T))
    print(f"{len(every)} convolutions of {len(counts)} kernels")


def work(folder: Path, rank: int, processes: int, seconds: float) -> None:
    cudnn, begin = Cudnn(), time.monotonic()
    mine = np.load(folder / CASES)["columns"].T[rank::processes].tolist()
    found, failed = asked(cudnn, map(tuple, mine), begin + seconds)
    if rank == 0:
        print(f"{len(found)} of {len(mine)} in {time.monotonic() - begin:.0f} s, {failed}", flush=True)
    table = np.array(found, dtype=np.int64).reshape(-1, 3 + len(SIZES) + 2 + len(OF_KERNEL) * MAX_KERNELS)
    np.savez(folder / f"drawn.{rank}.npz", names=np.array(list(cudnn.names)), table=table)


def merged(folder: Path, processes: int) -> None:
    merge(folder, processes, kinds=("drawn",))


if __name__ == "__main__":
    if sys.argv[2:] == ["--draw"]:
        draw(Path(sys.argv[1]))
    else:
        share(__doc__ or "", 300.0, work, merged)
