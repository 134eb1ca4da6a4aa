"""Kernel families on a CPU: one formula for all of them, from the flops, bytes, elements and rows of a call.

    time  = launch + blend(memory, work)
    memory = bytes / (share of the main bandwidth)                cold caches: operands come from main memory; resident ones
                                                                  from the cache that holds them
    work  = flops / (share of the peak) + elements and rows handled + further passes at the cache level that holds the data

A call too small for all cores runs on one (`grain`, `alone`); a larger one starts the others (`fork`). No share exceeds 1, so no item beats a ceiling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from . import attention, product
from .effects import LAUNCH, OVERLAP, Array, Effect
from .family import ADDEND, Coefficient, Coefficients, Family, Hardware, Mask, Sizes, overlapped
from .key import RESIDENT

CLIFF = 3.0  # steepness of the change from one cache level to the next


@dataclass(frozen=True)
class Amounts:
    """What a call does, from the sizes of its family."""

    moved: Array  # bytes read and written once
    flops: Array = 0.0  # of matrix products
    thinness: Array = 0.0  # sum of the reciprocals of the sides of a product
    vector_flops: Array = 0.0
    special: Array = 0.0  # exp, tanh, sqrt, divisions
    elements: Array = 0.0
    rows: Array = 0.0
    row_bytes: Array = 0.0
    # bytes moved if nothing were stored narrower than it is computed with, where it may be: cores are started for elements
    widened: Array | None = None


def _gemm(g: Sizes) -> Amounts:
    b, m, n, k = g["b"], g["m"], g["n"], g["k"]
    others = b * (m * k * g["a"] + m * n * (g["c"] + g.get(ADDEND, 0.0)))
    moved, widened = (others + b * n * k * width for width in (g["w"], np.maximum(g["w"], g["a"])))
    return Amounts(moved, 2 * b * m * n * k, 1 / m + 1 / n + 1 / k, rows=b, widened=widened)


def _weight_only(g: Sizes) -> Amounts:
    return _gemm({**g, "b": 1.0})


def _stream(g: Sizes) -> Amounts:
    elements = g["elements"]
    return Amounts(g["read"] + g["written"], vector_flops=g["flops"], special=g["special"], elements=elements)


def _rows(g: Sizes) -> Amounts:
    rows, cols = g["rows"], g["cols"]
    written = rows * np.where(np.asarray(g["per_row"]) > 0, g["per_row"], cols) * g["y"]
    row, widened = cols * g["x"], rows * cols * np.maximum(g["x"], g["y"]) * g.get("fresh", 1.0) + written
    moved = rows * row * g.get("fresh", 1.0) + written
    return Amounts(moved, elements=rows * cols, rows=rows, row_bytes=row, widened=widened)


def _transpose(g: Sizes) -> Amounts:
    elements = g["rows"] * g["cols"]
    return Amounts(2 * elements * g["x"], elements=elements, rows=np.minimum(g["rows"], g["cols"]))


def _attention(g: Sizes) -> Amounts:
    heads, q, kv, d = g["batch"] * g["heads"], g["q"], g["kv"], g["d"]
    pairs = heads * q * (kv - g["causal"] * (q - 1) / 2)
    widened = attention.moved({**g, "stored": np.maximum(g["stored"], g["x"])})
    return Amounts(
        attention.moved(g), 4 * pairs * d, 1 / q + 1 / kv + 1 / d, elements=pairs, rows=heads, widened=widened
    )


def _attention_backward(g: Sizes) -> Amounts:
    forward = _attention(g)
    five = 2.5 * forward.flops  # products instead of two
    return replace(forward, moved=attention.moved_back(g), widened=None, flops=five)


def _conv(g: Sizes) -> Amounts:
    images, pixels, groups = g["images"], g["ho"] * g["wo"], g["groups"]
    inner, columns = g["c_in"] / groups * g["kernel"] * g["kernel"], g["c_out"] / groups
    inputs, outputs = images * g["c_in"] * g["h"] * g["w"], images * g["c_out"] * pixels
    moved = (inputs + g["c_out"] * inner) * g["x"] + outputs * g["y"]
    unfolded = images * pixels * groups * inner  # elements that im2col copies
    thinness = 1 / pixels + 1 / columns + 1 / inner
    return Amounts(moved, 2 * outputs * inner, thinness, elements=unfolded, rows=images * groups)


def _moe(g: Sizes) -> Amounts:
    routed = g["tokens"] * g["topk"]
    active = np.minimum(g["experts"], routed)
    moved = 3 * active * g["hidden"] * g["inter"] * g["stored"]
    sides = active / routed + 1 / g["hidden"] + 1 / g["inter"]
    return Amounts(moved, 6 * routed * g["hidden"] * g["inter"], sides, elements=routed * g["hidden"], rows=active)


MEMORY = {
    "memory": Coefficient(0.6, 0.005, 1.0, "share of the main bandwidth that cold operands stream at"),
    "launch": Coefficient(5e-6, 1e-8, 1e-3, "seconds of the shortest call"),
    "blend": Coefficient(2.0, 1.0, 8.0, "how well work and memory overlap: 1 adds them, large takes the longer"),
    "element": Coefficient(2.0, 0.01, 3000.0, "flops at the vector peak that handling one element costs"),
    "row": Coefficient(1e-8, 1e-11, 1e-4, "seconds that handling one row, head or image costs"),
    "alone": Coefficient(1.2, 1.0, 64.0, "slow-down of a call that runs on one core"),
    "grain": Coefficient(2e5, 1e3, 1e8, "bytes below which a call runs on one core"),
    "fork": Coefficient(1e-5, 1e-8, 1e-3, "seconds that starting the other cores costs"),
}
VECTOR = {
    **MEMORY,
    "special": Coefficient(16.0, 0.5, 1000.0, "flops at the vector peak that one special function costs"),
    "passes": Coefficient(0.1, 0.001, 30.0, "further passes over the data, at the cache level that holds them"),
    "again": Coefficient(0.1, 0.001, 30.0, "further passes over each row, at the cache level that holds it"),
}
MATRIX = {
    **MEMORY,
    "compute": Coefficient(0.7, 0.005, 1.0, "share of the peak that large products reach"),
    "thin": Coefficient(10.0, 0.01, 3000.0, "side of a product at which half its rate is lost"),
}

WORK = Effect("work", "arithmetic and handling beyond memory")
PASSES, THIN = Effect("passes", "further passes in cache"), Effect("thin", "thin products", "shape")
ALONE = Effect("alone", "starting cores, or running on one", "shape")


def seconds_per_byte(size: Array, hw: Hardware) -> Array:
    """Of data that are read again: at the innermost level that holds them, changing smoothly between levels."""
    slowness: Array = 1 / hw.bandwidth
    for capacity, bandwidth in reversed(hw.caches):
        inside = 1 / (1 + (size / capacity) ** CLIFF)
        slowness = slowness + inside * (1 / bandwidth - slowness)
    return slowness


def time(amounts: Callable[[Sizes], Amounts], g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    a = amounts(g)
    memory: Array = a.moved / c["memory"] * (seconds_per_byte(g[RESIDENT], hw) if RESIDENT in g else 1 / hw.bandwidth)
    work: Array = 0.0
    if "compute" in c:
        work = a.flops / (c["compute"] * hw.peak)
        if "thin" not in off:
            work = work * (1 + c["thin"] * a.thinness)
    if "work" not in off:
        vector = a.vector_flops + c.get("special", 0.0) * a.special + c["element"] * a.elements
        work = work + vector / hw.vector + c["row"] * a.rows
    if "passes" in c and "passes" not in off:
        work = work + c["passes"] * a.moved * seconds_per_byte(a.moved, hw)
        work = work + c["again"] * a.rows * a.row_bytes * seconds_per_byte(a.row_bytes * hw.cores, hw)
    total = overlapped(memory, work, c, off)
    if "alone" not in off:
        widened = a.moved if a.widened is None else a.widened
        small = 1 / (1 + (widened / c["grain"]) ** 2)
        total = total * (1 + (c["alone"] - 1) * small) + c["fork"] * (1 - small)
    return total if "launch" in off else total + c["launch"]


def variants(g: Sizes, op: str) -> dict[str, Mask]:
    """Products of a few rows or columns stream one operand; larger ones are blocked."""
    few = np.asarray(np.minimum(g["m"], g["n"]) <= product.MAX_FEW_ROWS)
    return {"gemm": ~few, "gemm-few": few}


def with_resident(kernels: str) -> str:
    """The name of the same kernels with resident operands: what was timed in caches serves before what was not."""
    family, _, variant = kernels.partition("-")
    return "-".join(filter(None, (family, RESIDENT, variant)))


VARIANTS: dict[str, Callable[[Sizes, str], dict[str, Mask]]] = {"gemm": variants, "attention": attention.by_queries}


def _family(of_gpu: Family, amounts: Callable[[Sizes], Amounts], matrix: bool) -> Family:
    effects = (THIN, WORK, OVERLAP, ALONE, LAUNCH) if matrix else (WORK, PASSES, OVERLAP, ALONE, LAUNCH)
    rows = MATRIX if matrix else VECTOR
    return Family(of_gpu.name, partial(time, amounts), rows, effects, of_gpu.shape, of_gpu.main)


def families(of_gpu: dict[str, Family]) -> dict[str, Family]:
    """The CPU's family for each of a GPU's, with the same name and shape."""
    vector = {"stream": _stream, "rows": _rows, "scan": _rows, "transpose": _transpose}
    matrix = {
        "gemm": _gemm,
        "weight_only": _weight_only,
        "attention": _attention,
        "decode": _attention,
        "attention_backward": _attention_backward,
        "conv": _conv,
        "moe": _moe,
    }
    return {name: _family(family, (vector | matrix)[name], name in matrix) for name, family in of_gpu.items()}
