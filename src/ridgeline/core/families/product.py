"""Matrix products: tiles in waves over the cores, fed by memory, with split K for thin shapes.

    time = launch + blend(compute, memory, L2)
    compute = waves x (2 tm tn (k/s + fill)) / (share of peak of one core at that tile)

Of a short list of tiles, with and without split k, the fastest is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .effects import CLOCK, FILL, LAUNCH, OVERLAP, TILES, Array, Effect
from .family import (
    ADDEND,
    Coefficient,
    Coefficients,
    Family,
    Hardware,
    Mask,
    Sizes,
    element_width,
    off,
    overlapped,
    under_load,
)
from .rounds import pieces, waves

TILE_SIDES = (
    *((256.0, 128.0), (128.0, 256.0), (192.0, 128.0), (128.0, 192.0), (128.0, 128.0), (256.0, 64.0), (64.0, 256.0)),
    *((128.0, 64.0), (64.0, 128.0), (64.0, 64.0), (64.0, 32.0), (32.0, 32.0)),
)
# Tiles of which a core works on several at once, and on how many.
SEVERAL_TILES = {
    **{(32.0, 32.0): 8.0, (32.0, 64.0): 4.0, (128.0, 32.0): 4.0, (64.0, 64.0): 4.0},
    **{(128.0, 64.0): 2.0, (128.0, 128.0): 2.0, (64.0, 256.0): 2.0, (256.0, 64.0): 2.0},
}
Tiles = Mapping[tuple[float, float], float]
UNQUANTISED_WIDTH = 2.0  # bytes of an element of A before it is quantised
ALIGNMENT = 16.0  # bytes that rows should start on, for loads of full width
# The size that says whether a product has a bias, and the op of such products, which have kernels of their own where they were timed.
BIAS, BIASED, ADDED = "bias", "biased", "added"
LINE, SECTOR = 128.0, 32.0  # bytes of a cache line, and of the part of it that memory moves at once
MAX_TILE_WIDTH = 2.0  # bytes of elements whose tiles are moved by a unit of their own
VECTOR_LOAD = 4.0  # wider elements that are loaded at once
WORD = 4.0  # and without which they are loaded element by element
MAX_FEW_ROWS = 8.0  # rows or columns up to which a product may be done as several products with a vector
MIN_SPLIT_K = 256.0  # a split never gets fewer steps of k
PART_WIDTH = 4.0  # bytes of an element of a part of a split k

GEMM = {
    "compute": Coefficient(0.80, 0.2, 1.0, "share of the peak that a large tile reaches"),
    "memory": Coefficient(0.85, 0.2, 1.0, "share of the main bandwidth that operands stream at"),
    "launch": Coefficient(2.5e-6, 5e-7, 8e-5, "seconds of the shortest kernel"),
    "tile": Coefficient(12.0, 0.5, 200.0, "tile side at which a core reaches half its share"),
    "fill": Coefficient(120.0, 4.0, 3000.0, "steps of k that filling and draining a tile's pipeline costs"),
    "blend": Coefficient(3.0, 1.0, 8.0, "how well compute and memory overlap: 1 adds them, large takes the longer"),
    "reuse": Coefficient(3.0, 0.5, 20.0, "L2 bandwidth over main bandwidth, for tiles read again"),
    "waves": Coefficient(0.8, 0.1, 1.0, "share of the last, part-filled wave that is lost"),
    "split": Coefficient(2.0e-6, 1e-7, 1e-3, "seconds that adding up a split k costs"),
    "sustained": Coefficient(1.0, 0.3, 1.0, "clock under lasting load over the clock of short kernels"),
    "settle": Coefficient(1e-3, 1e-5, 0.1, "seconds of load after which half the clock loss shows"),
    "prepare": Coefficient(1.0, 0.01, 60.0, "passes over A before the product, to quantise it from two bytes", True),
    "row": Coefficient(1e-10, 1e-11, 2e-8, "seconds per row of A to quantise it", True),
    "smallest": Coefficient(32.0, 32.0, 128.0, "side of the smallest tile the library takes"),
    "several": Coefficient(256.0, 32.0, 256.0, "longest side of a tile, where a core has several tiles at once", True),
    "parts": Coefficient(0.5, 0.01, 4.0, "passes over the parts of a split k, in fp32, to write and add them up", True),
    "most": Coefficient(2.0, 1.0, 64.0, "parts that k is split in at most", True),
}


def gemm(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    b, m, n, k = g["b"], g["m"], g["n"], g["k"]
    rate = c["compute"] * hw.peak
    moved = b * (m * k * g["a"] + n * k * g["w"] + m * n * (g["c"] + g.get(ADDEND, 0.0)))
    memory: Array = moved / (c["memory"] * hw.bandwidth)
    if c["prepare"] and "prepare" not in off:
        memory = memory + b * m * (k * (c["prepare"] * (UNQUANTISED_WIDTH + g["a"]) / hw.bandwidth) + c["row"])
    compute = 2 * b * m * n * k / rate if "quantization" in off else tiled(g, hw, c, off, rate)
    time = overlapped(under_load(compute, hw, c, off), memory, c, off)
    return time if "launch" in off else time + c["launch"]


def variants(g: Sizes, op: str) -> dict[str, Mask]:
    """Which kernels a product gets: rows on 16 bytes, on 4 (`loose`), on less (`odd`); a few rows or columns (`few`).

    Elements of one or two bytes are moved tile by tile; where rows are off a cache line (`ragged`), tiles share lines,
    and where they are off its sectors (`straddling`), every row of a tile takes one more.
    Wider ones are loaded four at a time, where rows are multiples of that. Off 16 bytes, few rows have variants of their
    own: a single one (`one`; wider elements have it on 16 bytes too), on 4 bytes (`loose`), on less.
    Where only the columns are off 16 bytes, as those of a vocabulary often are, rows of k may lie on cache lines (`lined`).
    """
    # weights that are unpacked need the alignment of A
    k, n = np.asarray(g["k"]) * element_width(g["a"]), np.asarray(g["n"]) * g["c"]
    loose = off(k, ALIGNMENT) | off(n, ALIGNMENT)
    odd = off(k, WORD) | off(n, WORD)
    rows = np.minimum(g["m"], g["n"])
    few, single = rows <= MAX_FEW_ROWS, rows == 1
    wide = np.asarray(g["w"]) > MAX_TILE_WIDTH
    alone, even = single & wide, np.where(wide, VECTOR_LOAD * np.asarray(g["w"]), LINE)
    ragged, straddling = off(k, even) | off(n, even), off(k, SECTOR) & ~wide
    lined = ~off(k, LINE)
    return {
        "gemm": ~loose & ~few & ~ragged,
        "gemm-ragged": ~loose & ~few & ragged & ~straddling,
        "gemm-ragged-straddling": ~loose & ~few & ragged & straddling,
        "gemm-loose": loose & ~odd & ~few & ~lined,
        "gemm-loose-lined": loose & ~odd & ~few & lined,
        "gemm-odd": odd & ~few & ~lined,
        "gemm-odd-lined": odd & ~few & lined,
        "gemm-few": few & ~loose & ~alone,
        "gemm-few-one": few & ~loose & alone,
        "gemm-few-odd-one": single & loose,
        "gemm-few-odd-loose": few & ~single & loose & ~odd & ~lined,
        "gemm-few-odd-loose-lined": few & ~single & loose & ~odd & lined,
        "gemm-few-odd": few & ~single & odd & ~lined,
        "gemm-few-odd-lined": few & ~single & odd & lined,
    }


def addends(g: Sizes) -> dict[str, Mask]:
    """A product with a bias has kernels of its own; one that is added to the old result reads that too."""
    if BIAS not in g and ADDEND not in g:
        return {"": np.asarray(True)}
    biased, added = (np.asarray(g.get(name, 0.0)) > 0 for name in (BIAS, ADDEND))
    return {BIASED: biased, ADDED: added & ~biased, "": ~biased & ~added}


def tiled(
    g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str], rate: float, several: Tiles = SEVERAL_TILES
) -> Array:
    """Seconds of the fastest tile, with or without split k."""
    b, m, n, k = g["b"], g["m"], g["n"], g["k"]
    cores, fill = hw.cores, 0.0 if "fill" in off else c["fill"]
    steps = k + fill
    again_each = k * g["w"] / (c["reuse"] * hw.bandwidth)  # seconds per row or column of a tile that is read again
    most = np.maximum(k / MIN_SPLIT_K, 1.0)  # parts that k can be split in
    if c.get("most"):
        most = np.minimum(most, c["most"])
    # a split of k fills the cores once, or twice where it is known what its parts cost
    part, rounds = 2 * PART_WIDTH * c.get("parts", 0.0) / hw.bandwidth, (1.0, 2.0) if c.get("parts") else (1.0,)
    all_parts: Array = b * m * n * most * part if part else 0.0
    if c["several"]:
        taken = {tile: together for tile, together in several.items() if max(tile) <= c["several"]}
    else:
        taken = {tile: 1.0 for tile in TILE_SIDES if min(tile) >= c["smallest"]}
    rows = {side: np.ceil(m / side) * b for side in {tm for tm, _ in taken}}
    columns = {side: np.ceil(n / side) for side in {tn for _, tn in taken}}
    best: Array = np.inf
    for (tm, tn), together in taken.items():
        side = tm * tn / (tm + tn)
        each = 2 * tm * tn / (rate / cores * side / (side + c["tile"]))
        tiles = rows[tm] * columns[tn]
        time = waves(tiles, cores * together, c["waves"]) * steps * each * together
        for round_ in rounds:
            # the parts of full rounds, not of so many pieces: fewer pieces of more tiles are no fewer bytes
            adding = c["split"] + np.minimum(all_parts, round_ * cores * tm * tn * part) if part else c["split"]
            time = np.minimum(time, (k / pieces(tiles, cores, round_, most) + fill) * (each * round_) + adding)
        best = np.minimum(best, np.maximum(time, tiles * (again_each * (tm + tn))))
    return best


def by_vectors(g: Sizes, hw: Hardware, c: Coefficients) -> Array:
    """Seconds of up to eight rows or columns as products with a vector each, on the vector units; infinite for more.

    A tile of the matrix units is filled with 32 rows at least: where these units are hardly faster than the vector units, that takes longer.
    """
    rows, moved = (
        np.minimum(g["m"], g["n"]),
        g["m"] * g["k"] * g["a"] + g["n"] * g["k"] * g["w"] + g["m"] * g["n"] * (g["c"] + g.get(ADDEND, 0.0)),
    )
    seconds = np.maximum(
        g["b"] * moved / (c["memory"] * hw.bandwidth), 2 * g["b"] * g["m"] * g["n"] * g["k"] / hw.vector
    )
    return np.where(rows <= MAX_FEW_ROWS, seconds + c["launch"], np.inf)


PREPARE = Effect("prepare", "quantizing A")
PRODUCT = Family("gemm", gemm, GEMM, (TILES, FILL, CLOCK, OVERLAP, PREPARE, LAUNCH), ("b", "m", "n", "k"))
