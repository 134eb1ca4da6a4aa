"""Mixture of experts: two grouped products over the experts that got tokens, with routing around them.

    time = launch + routing + blend(padded products, weights and tokens moved)

Every expert's tokens are padded to full tiles of rows; with few tokens the weights of the experts that were hit are
all that matters.
"""

from __future__ import annotations

import numpy as np

from .effects import CLOCK, FILL, LAUNCH, OVERLAP, TILES, Array, Effect
from .family import Coefficient, Coefficients, Family, Hardware, Sizes, overlapped, under_load
from .rounds import waves

TILE_ROWS = (16.0, 32.0, 64.0, 128.0)  # rows of a tile
TILE_COLUMNS = 128.0  # columns of a tile

MOE = {
    "compute": Coefficient(0.65, 0.05, 1.0, "share of the peak that a full tile reaches"),
    "memory": Coefficient(0.75, 0.1, 1.0, "share of the main bandwidth that weights stream at"),
    "launch": Coefficient(2e-5, 2e-6, 2e-4, "seconds of the shortest call, all its kernels"),
    "tile": Coefficient(25.0, 0.5, 400.0, "rows of a tile at which a core reaches half its share"),
    "fill": Coefficient(150.0, 2.0, 4000.0, "steps of the inner size that filling and draining a tile costs"),
    "waves": Coefficient(0.5, 0.02, 1.0, "share of the last, part-filled wave that is lost"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well compute and memory overlap"),
    "tokens": Coefficient(
        3.0, 0.05, 60.0, "passes over the routed tokens between the products (gather, gate, combine)"
    ),
    "token": Coefficient(1e-10, 1e-12, 1e-8, "seconds per routed token (sorting, indices)"),
    "expert": Coefficient(2e-8, 1e-10, 1e-6, "seconds per expert that got tokens"),
    "reuse": Coefficient(3.0, 0.3, 20.0, "L2 bandwidth over main bandwidth, for weights read again"),
    "sustained": Coefficient(0.95, 0.3, 1.0, "clock under lasting load over the clock of short kernels"),
    "settle": Coefficient(1e-3, 1e-5, 0.1, "seconds of load after which half the clock loss shows"),
}


def moe(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    routed, experts, hidden, inter = g["tokens"] * g["topk"], g["experts"], g["hidden"], g["inter"]
    active = g.get("active", np.minimum(experts, routed))
    rate = c["compute"] * hw.peak
    memory: Array = 3 * active * hidden * inter * g["stored"] / (c["memory"] * hw.bandwidth)
    if "quantization" in off:
        compute: Array = 6 * routed * hidden * inter / rate
    else:
        compute = np.inf
        fill = 0.0 if "fill" in off else c["fill"]
        for tall in TILE_ROWS:
            core = rate / hw.cores * tall / (tall + c["tile"])
            # half a tile of rows is padded for every expert; counting each one's tiles would saw as experts are added
            rows = np.maximum(active, routed / tall + active / 2)
            total: Array = 0.0
            for columns, inner in ((2 * inter, hidden), (hidden, inter)):
                units = rows * np.ceil(columns / TILE_COLUMNS)
                again = units * (tall + TILE_COLUMNS) * inner * g["stored"] / (c["reuse"] * hw.bandwidth)
                total = total + np.maximum(
                    waves(units, hw.cores, c["waves"]) * 2 * tall * TILE_COLUMNS * (inner + fill) / core, again
                )
            compute = np.minimum(compute, total)
    time = overlapped(under_load(compute, hw, c, off), memory, c, off)
    if "tokens" not in off:
        moved = routed * (hidden * 2 + inter * 3) * 2  # activations are two bytes wide
        time = time + c["tokens"] * moved / (10 * hw.bandwidth) + c["token"] * routed
    if "experts" not in off:
        time = time + c["expert"] * active
    return time if "launch" in off else time + c["launch"]


TOKENS, PER_EXPERT = Effect("tokens", "moving tokens"), Effect("experts", "per expert")
EFFECTS = (TILES, FILL, CLOCK, OVERLAP, TOKENS, PER_EXPERT, LAUNCH)
EXPERTS = Family("moe", moe, MOE, EFFECTS, ("tokens", "experts", "topk", "hidden", "inter"))
