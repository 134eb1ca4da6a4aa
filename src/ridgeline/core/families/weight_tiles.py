"""Products with narrow weights by ridgeline's Triton kernel (`measure/kernels/quantized.triton`), whose tiles are known.

    time = launch + blend(steps x (latency, programs of a core x throughput), memory) + adding up a split k

A program unpacks a tile of weights in steps along k, multiplies it with up to 128 rows and scales the sums, step by step. Few
programs wait for one step after the other; several on a core hide each other's latency and share its units. Where there are too
few programs for the cores, k is split among up to eight, which add their parts to results that were set to zero before and are
converted after.
"""

from __future__ import annotations

import numpy as np

from .effects import FILL, LAUNCH, OVERLAP, TILES, Array
from .family import ADDEND, Coefficient, Coefficients, Family, Hardware, Mask, Sizes, blend, element_width, overlapped
from .weight_only import BITS, FOLDED_SHAPE, UNPACK, folded_shape

FEW, MANY, TALL = (16, 32, 64), 64, 128  # rows of a tile by the rows there are; from MANY on tiles are TALL and WIDE
NARROW, WIDE = 64, 128  # columns of a tile
MAX_STEP, SCALE_BITS = 128, 16.0  # of k, no more than share a scale; bits of a scale
SPLITS, PROGRAMS = (2, 4, 8), 2  # k is cut into more parts until each core has so many programs
CLOSE = 1e-6  # to an integer: as many weights share a scale, or else a scale and a zero point
PARTIAL_BYTES = 4.0  # of a sum that is added up
OVERLAP_POWER = 4.0  # how sharply the throughput of a core's programs takes over from the latency of one

TILED = {
    "compute": Coefficient(0.5, 0.02, 1.0, "share of the peak that the products of a step reach"),
    "unpack": Coefficient(20.0, 0.5, 200.0, "flops at the vector peak that unpacking one weight costs"),
    "loads": Coefficient(10.0, 0.1, 100.0, "flops at the vector peak that loading one element of the rows costs"),
    "results": Coefficient(15.0, 0.1, 100.0, "flops at the vector peak that scaling and adding one sum of a step costs"),
    "latency": Coefficient(3e-7, 1e-8, 3e-6, "seconds that a step waits for what it loads"),
    "alone": Coefficient(0.7, 0.05, 3.0, "time of a step of a program that is alone on its core, over its share of several"),
    "memory": Coefficient(0.5, 0.1, 1.0, "share of the main bandwidth that weights stream at"),
    "blend": Coefficient(3.0, 1.0, 8.0, "how well compute and memory overlap"),
    "launch": Coefficient(1e-6, 3e-7, 8e-5, "seconds of the shortest call"),
    "fill": Coefficient(6e-7, 1e-8, 2e-5, "seconds that starting and ending a program costs, for every 16 rows of its tile"),
    "split": Coefficient(2.5e-6, 1e-8, 3e-5, "seconds that setting and converting the results of a split k costs"),
    "partial": Coefficient(4e-12, 1e-14, 1e-10, "seconds that adding one partial sum to its result costs"),
}  # fmt: skip


def weight_tiles(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    """Never less than fewer rows or columns take: a choice of tiles that is made for more of them is not there to be faster."""
    few = _time({**g, "m": np.minimum(g["m"], MANY)}, np.asarray(False), hw, c, off)
    many = np.asarray(g["m"]) > MANY
    return np.where(many, np.maximum(few, _time(g, many, hw, c, off)), few) if np.any(many) else few


def step_of(width: Array) -> Array:
    """Weights along k that a step takes, by the bytes of one with its share of a scale, and of a zero point as wide as a weight."""
    stored = element_width(width)
    scales = BITS * (np.asarray(width) - stored)  # bits of a scale for each weight
    with np.errstate(divide="ignore", invalid="ignore"):
        alone, both = SCALE_BITS / scales, (SCALE_BITS + BITS * stored) / scales
        group = np.where(np.abs(alone - np.rint(alone)) < CLOSE, alone, both)
    return np.minimum(np.rint(group), MAX_STEP)


def _time(g: Sizes, many: Mask, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    m, n, k = g["m"], g["n"], g["k"]
    rows = np.where(many, TALL, np.asarray(FEW)[np.minimum(np.searchsorted(FEW, m), len(FEW) - 1)])
    columns = np.where(many, WIDE, NARROW)
    step = step_of(g["w"])
    tiles, results = np.ceil(m / rows) * np.ceil(n / columns), m * n

    unpack = 0.0 if "unpack" in off else c["unpack"] * columns * step
    on_vectors = unpack + c["loads"] * rows * step + c["results"] * rows * columns
    each = (2 * rows * columns * step / (c["compute"] * hw.peak) + on_vectors / hw.vector) * hw.cores
    most = np.ones(np.shape(k / step))  # parts that k can be cut into evenly
    for parts in SPLITS:
        most = np.where((most == parts / 2) & (np.asarray(k) % (parts * step) == 0), parts, most)

    time: Array = np.asarray(0.0)
    for parts in (1, *SPLITS):
        # The kernel takes the fewest parts that give every core its programs. Where fewer tiles took more parts, and took longer
        # with them, more tiles are not taken to be faster.
        reached = (parts <= most) & ((tiles * parts >= PROGRAMS * hw.cores) | (parts == most))
        at_most = np.ceil(2 * PROGRAMS * hw.cores / parts) - 1 if parts > 1 else np.inf
        held, stored = np.minimum(tiles, at_most), np.minimum(results, at_most * rows * columns)
        if "quantization" in off:
            compute: Array = np.minimum(results / (rows * columns), at_most) * k / step / hw.cores * each
        else:
            programs, steps = np.ceil(held * parts / hw.cores), np.ceil(k / (step * parts))
            waiting, busy = steps * (c["latency"] + c["alone"] * each), steps * programs * each
            compute = blend(waiting, busy, OVERLAP_POWER)
            if "fill" not in off:
                compute = compute + c["fill"] * rows / FEW[0] * np.sqrt(programs)
        width = g["c"] if parts == 1 else np.maximum(PARTIAL_BYTES, g["c"])
        memory = (m * k * g["a"] + n * k * g["w"] + results * (width + g.get(ADDEND, 0.0))) / (
            c["memory"] * hw.bandwidth
        )
        split_time = overlapped(compute, memory, c, off)
        if parts > 1 and "fill" not in off:
            passes = stored * (3 * PARTIAL_BYTES + g["c"]) / hw.bandwidth  # set to zero, read, written in the end
            split_time = split_time + c["split"] + passes + stored * parts * c["partial"]
        time = np.where(reached, np.maximum(time, split_time), time)
    return time if "launch" in off else time + c["launch"]


TILED_UNPACKING = Family(
    "weight_only", weight_tiles, TILED, (TILES, FILL, UNPACK, OVERLAP, LAUNCH), ("m", "n", "k"), finer=folded_shape, finer_shapes=(FOLDED_SHAPE,)
)  # fmt: skip
