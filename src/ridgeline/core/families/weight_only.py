"""Products with weights stored narrower than the arithmetic (int4, int8): they are unpacked on the fly, column by column.

    time = launch + blend(waves x k columns (unpack + rows) over the rate of a core, memory)

A unit of work is a few columns over all of k; each weight is unpacked once and multiplied with every (padded) row.
"""

from __future__ import annotations

import numpy as np

from .effects import FILL, LAUNCH, OVERLAP, TILES, Array, Effect
from .family import ADDEND, Coefficient, Coefficients, Family, Hardware, Sizes, overlapped
from .rounds import pieces, waves

BITS = 8.0  # of a byte
ROUNDS = (1.0, 2.0)  # that a split k fills

WEIGHT_ONLY = {
    "compute": Coefficient(0.1, 0.004, 1.0, "share of the peak that the products of a unit reach"),
    "unpack": Coefficient(4.0, 0.05, 200.0, "flops at the vector peak that unpacking one weight costs"),
    "scale": Coefficient(0.5, 0.01, 20.0, "more of it for a bit of scales per weight"),
    "memory": Coefficient(0.75, 0.1, 1.0, "share of the main bandwidth that weights stream at"),
    "launch": Coefficient(2.5e-6, 5e-7, 8e-5, "seconds of the shortest call"),
    "blend": Coefficient(3.0, 1.0, 8.0, "how well compute and memory overlap"),
    "waves": Coefficient(0.8, 0.02, 1.0, "share of the last, part-filled wave that is lost"),
    "fill": Coefficient(100.0, 1.0, 4000.0, "steps of k that starting and ending a unit costs"),
    "columns": Coefficient(16.0, 8.0, 128.0, "columns of a unit"),
    "rows": Coefficient(16.0, 1.0, 128.0, "rows that are multiplied together, padded"),
    "parts_at_most": Coefficient(1.0, 1.0, 8.0, "units that k is split into at most"),
    "split": Coefficient(1e-6, 1e-8, 3e-5, "seconds that adding up a split k costs"),
}


def weight_only(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    m, n, k = g["m"], g["n"], g["k"]
    tall = np.ceil(m / c["rows"])
    padded = m if "quantization" in off else tall * c["rows"]
    moved = m * k * g["a"] + n * k * g["w"] + m * n * (g["c"] + g.get(ADDEND, 0.0))
    memory: Array = moved / (c["memory"] * hw.bandwidth)
    scales = BITS * g["w"] - np.floor(BITS * g["w"])  # bits of scales and zero points per weight
    unpacked = 0.0 if "unpack" in off else c["unpack"] * (1 + c["scale"] * scales) * tall / hw.vector
    each = (2 * padded / (c["compute"] * hw.peak) + unpacked) * hw.cores  # core seconds of a weight
    if "quantization" in off:
        time: Array = n * k * each / hw.cores
    else:
        units = np.ceil(n / c["columns"])
        fill = 0.0 if "fill" in off else c["fill"]
        step = c["columns"] * each
        time = waves(units, hw.cores, c["waves"]) * (k + fill) * step
        for rounds in ROUNDS:
            each_part = k / pieces(units, hw.cores, rounds, c["parts_at_most"]) + fill
            time = np.minimum(time, rounds * each_part * step + c["split"])
    time = overlapped(time, memory, c, off)
    return time if "launch" in off else time + c["launch"]


UNPACK = Effect("unpack", "unpacking weights")
EFFECTS = (TILES, FILL, UNPACK, OVERLAP, LAUNCH)
FOLDED_SHAPE = ("m", "n", "k", "k_fold")  # k is split in two, four or eight where it is a multiple of so many steps


def folded_shape(g: Sizes) -> tuple[str, ...]:
    return FOLDED_SHAPE


UNPACKING = Family(
    "weight_only", weight_only, WEIGHT_ONLY, EFFECTS, ("m", "n", "k"), finer=folded_shape, finer_shapes=(FOLDED_SHAPE,)
)
