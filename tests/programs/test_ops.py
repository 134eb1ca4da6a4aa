"""Every op counted a second way.

A row is an op, its sizes, and a plain loop that does the op and keeps a tally: each multiply, add, exp as it
happens; each address it loads or stores. Addresses are sets, so what comes out is the compulsory traffic;
loops that fetch again (tiles, passes, no reuse) count every fetch. The widths stand in the row as bytes.
Where PyTorch counts flops, its counter is asked as well.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest
from layer_loops import layer_rows
from tally import Num, Row, Tally, each, visible
from training_loops import training_rows

from ridgeline.core.errors import InputError, UnknownName, letters
from ridgeline.core.work import Work
from ridgeline.programs import ops
from ridgeline.programs.ops import OPS, find
from ridgeline.programs.ops.aliases import ALIASES, SIZES

# Bytes per element of block formats, from a block written out: elements, then the scale, then the zero point.
INT4_G128 = (128 * 0.5 + 2) / 128
INT4_G128Z = (128 * 0.5 + 2 + 0.5) / 128
MXFP4 = (32 * 0.5 + 1) / 32
NVFP4 = (16 * 0.5 + 1) / 16


# -- level 1, STREAM, elementwise ---------------------------------------------------------------------------------


def copying(source: str, target: str) -> Callable[..., None]:
    def loop(t: Tally, n: int, write_allocate: bool = False, **_: Any) -> None:
        for i in range(n):
            t.load(source, i)
            if write_allocate:
                t.load(target, i)  # the line is fetched before it is written
            t.store(target, i)

    return loop


def streaming(reads: tuple[str, ...], target: str, *each: str) -> Callable[..., None]:
    def loop(t: Tally, n: int, write_allocate: bool = False, **_: Any) -> None:
        for i in range(n):
            for tensor in reads:
                t.load(tensor, i)
            t.do(*each)
            if write_allocate:
                t.load(target, i)
            t.store(target, i)

    return loop


def reducing(reads: tuple[str, ...], each: tuple[str, ...], last: tuple[str, ...] = ()) -> Callable[..., None]:
    """A sum: the first term starts it, so n terms take n - 1 additions (C-29, exact)."""

    def loop(t: Tally, n: int, **_: Any) -> None:
        for i in range(n):
            for tensor in reads:
                t.load(tensor, i)
            t.do(*each)
            if i > 0:
                t.do("add")
        t.do(*last)
        t.store("s", 0)

    return loop


def stated(engine: str) -> Callable[..., None]:
    def loop(t: Tally, bytes: int, flops: int = 0, **_: Any) -> None:
        for place in range(bytes):
            t.load("data", place)
        for _ in range(flops):
            t.flops[engine] += 1

    return loop


FORMULAS: dict[str, Callable[[Num], float]] = {
    "relu": lambda x: x.max(0.0),
    "gelu": lambda x: x * 0.5 * (1.0 + (0.7978845608 * (x + 0.044715 * (x * x * x))).tanh()),
    "gelu_erf": lambda x: x * 0.5 * (1.0 + (x * 0.7071067811865476).erf()),
    "silu": lambda x: x * (1.0 / (1.0 + (-x).exp())),  # x times the sigmoid: negate, exp, add, divide, multiply
    "sigmoid": lambda x: 1.0 / (1.0 + (-x).exp()),
    "tanh": lambda x: x.tanh(),
    "exp": lambda x: x.exp(),
}
NOMINAL = {
    "gelu": 12,
    "gelu_erf": 12,
    "silu": 4,
    "sigmoid": 3,
    "rmsnorm": 5,
    "batchnorm": 8,
}  # where texts differ from a count (C-07)


def elementwise(name: str) -> Callable[..., None]:
    def loop(t: Tally, n: int, profile: str = "nominal", **_: Any) -> None:
        for i in range(n):
            t.load("x", i)
            FORMULAS[name](Num(0.1 * i - 0.3, t))
            t.store("y", i)
        if profile == "nominal" and name in NOMINAL:
            t.flops["vector"] = NOMINAL[name] * n

    return loop


# -- levels 2 and 3 -----------------------------------------------------------------------------------------------


def gemv(t: Tally, m: int, n: int, beta: bool = False, **_: Any) -> None:
    for i in range(m):
        if beta:
            t.load("y", i)
        for j in range(n):
            t.load("A", i, j)
            t.load("x", j)
            t.do("mul", "add")
        t.store("y", i)


def symv(t: Tally, n: int, beta: bool = False, **_: Any) -> None:
    for i, j in product(range(n), repeat=2):
        t.load("A", max(i, j), min(i, j))  # the other triangle is the same memory
        t.load("x", j)
        t.do("mul", "add")
    for i in range(n):
        if beta:
            t.load("y", i)
        t.store("y", i)


def trmv(t: Tally, n: int, **_: Any) -> None:
    for i in range(n):
        for j in range(i + 1):
            t.load("A", i, j)
            t.load("x", j)
            t.do("mul", *(["add"] if j else []))
        t.store("x", i)


def ger(t: Tally, m: int, n: int, **_: Any) -> None:
    for i, j in product(range(m), range(n)):
        t.load("x", i)
        t.load("y", j)
        t.load("A", i, j)
        t.do("mul", "add")
        t.store("A", i, j)


def tiles(size: int, tile: int) -> list[range]:
    return [range(start, min(start + tile, size)) for start in range(0, size, tile)]


def tiled(t: Tally, m: int, n: int, k: int, tile: int, level: str) -> None:
    """C tile by tile; for each the rows of A and the columns of B it needs stream past once."""
    for rows, columns in product(tiles(m, tile), tiles(n, tile)):
        for _ in range(k):
            t.fetch("A", len(rows), level)
            t.fetch("B", len(columns), level)


def gemm(t: Tally, m: int, n: int, k: int, batch: int = 1, beta: bool = False, traffic: str = "compulsory",
         tile: int | None = None, tile_level: str = "l2", **_: Any) -> None:  # fmt: skip
    for b in range(batch):
        for i, j in product(range(m), range(n)):
            if beta:
                t.load("C", b, i, j)
            for p in range(k):
                t.fma()
                if traffic == "compulsory":
                    t.load("A", b, i, p)
                    t.load("B", b, p, j)
                elif traffic == "no_reuse":
                    t.fetch("A")
                    t.fetch("B")
            t.store("C", b, i, j)
            if traffic == "compulsory" and tile is not None:
                t.fetch("C", level=tile_level)
        if traffic == "tiled":
            tiled(t, m, n, k, tile or 128, "main")
        elif tile is not None:
            tiled(t, m, n, k, tile, tile_level)


def linear(t: Tally, batch: int, in_features: int, out_features: int, bias: bool = False, **_: Any) -> None:
    for b, o in product(range(batch), range(out_features)):
        for i in range(in_features):
            t.load("x", b, i)
            t.load("W", o, i)
            t.fma()
        if bias:
            t.load("bias", o)
            t.do("add")
        t.store("y", b, o)


def symm(t: Tally, m: int, n: int, beta: bool = False, **_: Any) -> None:
    for i, j in product(range(m), range(n)):
        if beta:
            t.load("C", i, j)
        for p in range(m):
            t.load("A", max(i, p), min(i, p))
            t.load("B", p, j)
            t.fma()
        t.store("C", i, j)


def syrk(t: Tally, n: int, k: int, beta: bool = False, **_: Any) -> None:
    for i in range(n):
        for j in range(i + 1):  # one triangle with its diagonal
            if beta:
                t.load("C", i, j)
            for p in range(k):
                t.load("A", i, p)
                t.load("A", j, p)
                t.fma()
            t.store("C", i, j)


def trmm(t: Tally, m: int, n: int, **_: Any) -> None:
    for i, j in product(range(m), range(n)):
        for p in range(i + 1):
            t.load("A", i, p)
            t.load("B", p, j)
            t.flops["matrix"] += 1 if p == 0 else 2  # the first product starts the sum
        t.store("B", i, j)


# -- rows and columns ---------------------------------------------------------------------------------------------


def softmax_row(t: Tally, cols: int) -> list[Num]:
    x = [Num(0.1 * j, t) for j in range(cols)]
    most, sum_ = Num(-math.inf, t), Num(0.0, t)
    for value in x:
        most = most.max(value)
    e = [(value - most).exp() for value in x]
    for value in e:
        sum_ = sum_ + value
    t.aside("div")  # the divisor is one per row: its reciprocal is taken once and multiplied
    inverse = 1 / float(sum_)
    return [value * inverse for value in e]


def layernorm_row(t: Tally, cols: int) -> list[Num]:
    x, mean, variance = [Num(0.1 * j, t) for j in range(cols)], Num(0.0, t), Num(0.0, t)
    for value in x:
        mean = mean + value
    mean = Num(float(mean) / cols, t)  # one division per row stays out of the count per element
    for value in x:
        away = value - mean
        variance = variance + away * away
    t.aside("sqrt")  # 1 / sqrt(var / cols + eps): one special result per row
    scale = 1 / math.sqrt(float(variance) / cols + 1e-5)
    return [(value - mean) * scale * 1.0 + 0.0 for value in x]


def rmsnorm_row(t: Tally, cols: int) -> list[Num]:
    x, square = [Num(0.1 * j, t) for j in range(cols)], Num(0.0, t)
    for value in x:
        square = square + value * value
    t.aside("sqrt")
    scale = 1 / math.sqrt(float(square) / cols + 1e-5)
    return [value * scale * 1.0 for value in x]


def batchnorm_row(t: Tally, cols: int) -> list[Num]:
    """Stored statistics: subtract, scale, gamma, beta; 1 / sqrt(var) is one per column, made beforehand."""
    return [(Num(0.1 * j, t) - 0.5) * 2.0 * 1.0 + 0.0 for j in range(cols)]


def by_row(name: str, row: Callable[[Tally, int], list[Num]], affine: tuple[str, ...] = ()) -> Callable[..., None]:
    def loop(t: Tally, rows: int, cols: int, passes: int = 1, profile: str = "nominal", **_: Any) -> None:
        for i in range(rows):
            row(t, cols)
            for _pass in range(passes):
                t.fetch("x", cols)  # a row that does not stay on chip is read again
            for j in range(cols):
                for tensor in affine:
                    t.load(tensor, j)  # per-column vectors once, whatever the number of rows (C-19)
                t.store("y", i, j)
        if profile == "nominal" and name in NOMINAL:
            t.flops["vector"] = NOMINAL[name] * rows * cols

    return loop


def sum_rows(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i, j in product(range(rows), range(cols)):
        t.load("x", i, j)
        t.do(*(["add"] if j else []))
        t.store("s", i)


def transpose(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i, j in product(range(rows), range(cols)):
        t.load("x", i, j)
        t.store("y", j, i)


def cross_entropy(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        for j in range(cols):
            t.load("x", i, j)
            t.do("max", "sub", "exp", "add")
        t.load("target", i)
        t.do("log", "add", "sub")  # log of the sum, plus the maximum, minus the target's logit
        t.store("loss", i)


# -- convolution, attention, layers -------------------------------------------------------------------------------


def conv2d(t: Tally, batch: int, c_in: int, c_out: int, h: int, w: int, kernel: int = 3, stride: int = 1,
           padding: int | None = None, groups: int = 1, dilation: int = 1, variant: str = "direct", **_: Any) -> None:  # fmt: skip
    pad = dilation * (kernel - 1) // 2 if padding is None else padding
    tops = range(-pad, h + pad - dilation * (kernel - 1), stride)  # where the kernel's first row can lie
    lefts = range(-pad, w + pad - dilation * (kernel - 1), stride)
    per_group = c_in // groups
    for b, (y, top), (x, left), co in product(range(batch), enumerate(tops), enumerate(lefts), range(c_out)):
        group = co // (c_out // groups)
        for ci, ky, kx in product(range(per_group), range(kernel), range(kernel)):
            row, column = top + ky * dilation, left + kx * dilation
            t.load("weights", co, ci, ky, kx)
            if 0 <= row < h and 0 <= column < w:
                t.load("x", b, group * per_group + ci, row, column)
            t.fma()  # padding multiplies zeros, as every library and counter has it
        t.store("y", b, co, y, x)
    if variant == "im2col":
        # the matrix itself: a row per output position, a column per channel and tap
        matrix = [
            [(ci, ky, kx) for ci, ky, kx in product(range(c_in), range(kernel), range(kernel))]
            for _ in product(range(batch), tops, lefts)
        ]
        cells = sum(len(row) for row in matrix)
        t.fetch("unfolded", cells, way="write")
        t.fetch("unfolded", cells)


def attention(t: Tally, batch: int, heads: int, seq_q: int, head_dim: int, seq_kv: int | None = None,
              kv_heads: int | None = None, causal: bool = False, window: int | None = None, variant: str = "flash",
              score_passes: int = 4, tile: int | None = None, **_: Any) -> None:  # fmt: skip
    keys = seq_q if seq_kv is None else seq_kv
    shared = heads // (kv_heads or heads)
    for b, h, i in product(range(batch), range(heads), range(seq_q)):
        for d in range(head_dim):
            t.load("Q", b, h, i, d)
            t.store("O", b, h, i, d)
        for j in range(keys):
            if not visible(i, j, seq_q, keys, causal, window):
                continue
            for d in range(head_dim):
                t.load("K", b, h // shared, j, d)
                t.load("V", b, h // shared, j, d)
                t.fma()  # q . k
                t.fma()  # p v
            t.do("max", "sub", "exp", "add")
            t.do("scale")  # by the reciprocal of the sum of its row, which is taken once per row
    if variant == "standard":
        for step in range(score_passes):  # scores written, read by the softmax, written by it, read by P V, ...
            t.fetch("scores", batch * heads * seq_q * keys, way="read" if step % 2 else "write")
    if tile is not None:
        for _b, _h, rows in product(range(batch), range(heads), tiles(seq_q, tile)):
            for tensor, length in (("Q", len(rows)), ("K", keys), ("V", keys), ("O", len(rows))):
                t.fetch(tensor, length * head_dim, "l2")


def embedding(t: Tally, rows: int, vocab: int, cols: int, **_: Any) -> None:
    for i in range(rows):
        t.load("index", i)
        for j in range(cols):
            t.load("table", i % vocab, j)  # as many different rows as there can be
            t.store("y", i, j)


def moe(t: Tally, tokens: int, experts: int, topk: int, hidden: int, inter: int, fused: bool = True, **_: Any) -> None:
    for token in range(tokens):
        for i in range(hidden):
            t.load("x", token, i)
            t.store("y", token, i)
            for e in range(experts):
                t.load("router", i, e)
                t.fma()
        chosen = [(token * topk + slot) % experts for slot in range(topk)]  # in turn: as even as can be
        assert len(set(chosen)) == topk
        for slot, expert in enumerate(chosen):
            for matrix, i, j in product(("gate", "up", "down"), range(hidden), range(inter)):
                t.load("weights", expert, ("gate", "up", "down").index(matrix), i, j)
                t.fma()
            for j in range(inter):
                t.do("exp", "add", "div", "mul")  # silu, nominally 4
                t.do("mul")  # times the other half
                if not fused:
                    for tensor, halves in (("gate_up", 2), ("activated", 1)):
                        for half in range(halves):
                            t.store(tensor, token, slot, half, j)
                            t.load(tensor, token, slot, half, j)
            for i in range(hidden):
                t.do("mul", "add")  # weighted into the token's output
                if not fused:
                    t.store("expert_out", token, slot, i)
                    t.load("expert_out", token, slot, i)


# -- the table ----------------------------------------------------------------------------------------------------


def rows() -> list[Row]:
    found: list[Row] = []

    def row(op: str, loop: Callable[..., None], widths: dict[str, float], launches: int = 1, **values: Any) -> None:
        found.append(Row(op, values, loop, widths, launches))

    # level 1
    row("copy", copying("x", "y"), each(2, "x y"), n=7)
    row("scal", streaming(("x",), "x", "mul"), each(2, "x"), n=7)
    row("axpy", streaming(("x", "y"), "y", "mul", "add"), each(4, "x y"), n=7, dtype="fp32")
    row("dot", reducing(("x", "y"), ("mul",)), each(4, "x y s"), n=7, dtype="fp32")
    row("dot", reducing(("x", "y"), ("mul",)), each(8, "x y s"), n=1, dtype="fp64")
    row("nrm2", reducing(("x",), ("mul",), ("sqrt",)), each(2, "x s"), n=7)
    row("asum", reducing(("x",), ()), each(2, "x s"), n=7)
    row("sum", reducing(("x",), ()), each(4, "x s"), n=7, dtype="fp32")
    row("sum", reducing(("x",), ()), each(4, "x s"), n=1, dtype="fp32")
    # STREAM, fp64 by default; with write-allocate the target's lines come in first (C-09)
    for allocate in (False, True):
        row("stream_copy", copying("a", "c"), each(8, "a c"), n=5, write_allocate=allocate)
        row("stream_scale", streaming(("c",), "b", "mul"), each(8, "b c"), n=5, write_allocate=allocate)
        row("stream_add", streaming(("a", "b"), "c", "add"), each(8, "a b c"), n=5, write_allocate=allocate)
        row("stream_triad", streaming(("b", "c"), "a", "mul", "add"), each(8, "a b c"), n=5, write_allocate=allocate)
    # elementwise
    row("add", streaming(("a", "b"), "y", "add"), each(2, "a b y"), n=5)
    row("mul", streaming(("a", "b"), "y", "mul"), {"a": 1, "b": 1, "y": 2}, n=5, dtype="fp8", out_dtype="bf16")
    row("residual", streaming(("x", "branch"), "y", "add"), each(2, "x branch y"), n=5)
    row("dropout", streaming(("x",), "y", "compare", "mul"), each(2, "x y"), n=5)
    row("cast", copying("x", "y"), {"x": 4, "y": 2}, n=5)
    row("cast", copying("x", "y"), {"x": 2, "y": MXFP4}, n=64, dtype="bf16", out_dtype="mxfp4")
    for name in FORMULAS:
        for profile in ("nominal", "counted"):
            row(name, elementwise(name), each(2, "x y"), n=5, profile=profile)
    # level 2
    row("gemv", gemv, each(2, "A x y"), m=3, n=5)
    row("gemv", gemv, {"A": INT4_G128, "x": 2, "y": 2}, m=3, n=128, weights="int4_g128", beta=True)
    row("symv", symv, each(4, "A x y"), n=5, dtype="fp32")
    row("symv", symv, each(4, "A x y"), n=5, dtype="fp32", beta=True)
    row("trmv", trmv, each(4, "A x"), n=5, dtype="fp32")
    row("ger", ger, each(4, "A x y"), m=3, n=5, dtype="fp32")
    # level 3; a product of fp8 is stored as bf16, of int8 as int32
    row("gemm", gemm, each(2, "A B C"), m=3, n=4, k=5)
    row("gemm", gemm, each(4, "A B C"), m=3, n=4, k=5, dtype="tf32", beta=True)
    row("gemm", gemm, {"A": 1, "B": 1, "C": 2}, m=3, n=4, k=5, dtype="fp8")
    row("gemm", gemm, {"A": 1, "B": 1, "C": 4}, m=3, n=4, k=5, dtype="int8", beta=True)
    row("gemm", gemm, {"A": 1, "B": 1, "C": 1}, m=3, n=4, k=5, dtype="int8", out_dtype="int8")
    row("gemm", gemm, {"A": 2, "B": INT4_G128, "C": 2}, m=3, n=4, k=128, weights="int4_g128")
    row("gemm", gemm, {"A": 2, "B": INT4_G128Z, "C": 4}, m=3, n=4, k=128, weights="int4_g128z", out_dtype="fp32")
    row("gemm", gemm, {"A": 1, "B": MXFP4, "C": 2}, m=3, n=4, k=64, dtype="fp8", weights="mxfp4")
    row("gemm", gemm, {"A": NVFP4, "B": NVFP4, "C": 2}, m=3, n=4, k=64, dtype="nvfp4")
    row("gemm", gemm, each(2, "A B C"), m=3, n=4, k=5, traffic="no_reuse")
    row("gemm", gemm, each(4, "A B C"), m=7, n=10, k=5, traffic="tiled", tile=4, dtype="fp32", beta=True)
    row("gemm", gemm, each(2, "A B C"), m=130, n=3, k=2, traffic="tiled")  # 128 unless told otherwise
    row("gemm", gemm, {"A": 2, "B": 1, "C": 2}, m=7, n=10, k=5, tile=4, weights="fp8")
    row("gemm", gemm, each(2, "A B C"), m=7, n=10, k=5, tile=3, tile_level="l1")
    row("bmm", gemm, each(2, "A B C"), batch=3, m=3, n=4, k=5, beta=True)
    row("bmm", gemm, {"A": 1, "B": 1, "C": 2}, batch=2, m=7, n=5, k=3, dtype="e5m2", tile=2)
    row("bmm", gemm, each(2, "A B C"), batch=2, m=7, n=5, k=3, traffic="tiled", tile=2)
    row("bmm", gemm, each(2, "A B C"), batch=2, m=3, n=2, k=3, traffic="no_reuse")
    row("linear", linear, each(2, "x W y"), batch=3, in_features=5, out_features=4)
    row("linear", linear, {"x": 2, "W": INT4_G128, "y": 2, "bias": 2}, batch=2, in_features=128, out_features=3,
        weights="int4_g128", bias=True)  # fmt: skip
    row(
        "linear",
        linear,
        {"x": 1, "W": 1, "y": 4, "bias": 4},
        batch=2,
        in_features=4,
        out_features=3,
        dtype="int8",
        bias=True,
    )
    row(
        "linear",
        linear,
        {"x": 2, "W": NVFP4, "y": 4},
        batch=2,
        in_features=32,
        out_features=3,
        weights="nvfp4",
        out_dtype="fp32",
    )
    row("symm", symm, each(4, "A B C"), m=4, n=3, dtype="fp32")
    row("symm", symm, each(4, "A B C"), m=4, n=3, dtype="fp32", beta=True)
    row("syrk", syrk, each(4, "A C"), n=4, k=3, dtype="fp32")
    row("syrk", syrk, each(4, "A C"), n=4, k=3, dtype="fp32", beta=True)
    row("trmm", trmm, each(4, "A B"), m=4, n=3, dtype="fp32")
    # rows and columns
    for profile in ("nominal", "counted"):
        row("softmax", by_row("softmax", softmax_row), each(2, "x y"), rows=3, cols=5, profile=profile)
        row("layernorm", by_row("layernorm", layernorm_row, ("gamma", "beta")), each(2, "x y gamma beta"), rows=3, cols=5,
            profile=profile)  # fmt: skip
        row(
            "rmsnorm", by_row("rmsnorm", rmsnorm_row, ("gamma",)), each(2, "x y gamma"), rows=3, cols=5, profile=profile
        )
        row("batchnorm", by_row("batchnorm", batchnorm_row, ("mean", "var", "gamma", "beta")),
            each(2, "x y mean var gamma beta"), rows=3, cols=5, profile=profile)  # fmt: skip
    row(
        "softmax",
        by_row("softmax", softmax_row),
        {"x": 4, "y": 2},
        rows=3,
        cols=5,
        passes=3,
        dtype="fp32",
        out_dtype="bf16",
    )
    row(
        "layernorm",
        by_row("layernorm", layernorm_row, ("gamma", "beta")),
        each(2, "x y gamma beta"),
        rows=2,
        cols=6,
        passes=2,
    )
    row("sum_rows", sum_rows, {"x": 2, "s": 4}, rows=3, cols=5, out_dtype="fp32")
    row("sum_rows", sum_rows, each(2, "x s"), rows=3, cols=1)
    row("transpose", transpose, each(4, "x y"), rows=3, cols=5, dtype="fp32")
    row("cross_entropy", cross_entropy, {"x": 2, "target": 8, "loss": 4}, rows=3, cols=5)
    # convolution
    image = {"batch": 2, "c_in": 4, "c_out": 6, "h": 7, "w": 5}
    row("conv2d", conv2d, each(2, "x weights y"), **image)
    row("conv2d", conv2d, each(2, "x weights y"), **image, stride=2, padding=1)
    row("conv2d", conv2d, each(2, "x weights y"), **image, dilation=2)
    row("conv2d", conv2d, each(2, "x weights y"), **image, groups=2, padding=0)
    row("conv2d", conv2d, each(2, "x weights y"), **image | {"c_out": 8}, groups=4, kernel=2, padding=1)
    row("conv2d", conv2d, each(2, "x weights y"), **image, kernel=4)  # an even kernel: the output loses a row
    row("conv2d", conv2d, {"x": 1, "weights": 1, "y": 2}, **image, dtype="fp8", kernel=1)
    row("conv2d", conv2d, {"x": 1, "weights": 1, "y": 4}, **image, dtype="int8", padding=3)
    row("conv2d", conv2d, each(2, "x weights y unfolded"), 2, **image, variant="im2col")
    row("conv2d", conv2d, each(2, "x weights y unfolded"), 2, **image, variant="im2col", groups=2, stride=2)
    # attention
    plain = {"batch": 2, "heads": 4, "seq_q": 5, "head_dim": 3}
    qkvo = each(2, "Q K V O scores")
    row("attention", attention, qkvo, **plain)
    row("attention", attention, qkvo, **plain, seq_kv=3)  # cross attention over fewer keys
    row("attention", attention, qkvo, **plain, causal=True)
    row("attention", attention, qkvo, **plain, causal=True, seq_kv=9, kv_heads=2)
    row("attention", attention, qkvo, **plain | {"seq_q": 1}, causal=True, seq_kv=9, kv_heads=1)  # a decode step
    row("attention", attention, qkvo, **plain, causal=True, window=2)
    row("attention", attention, qkvo, **plain, causal=True, window=3, seq_kv=9, kv_heads=2)
    row("attention", attention, qkvo, **plain, causal=True, window=100, seq_kv=9)
    row("attention", attention, qkvo | {"K": 1, "V": 1}, **plain, causal=True, seq_kv=9, kv="fp8")
    row("attention", attention, qkvo, **plain, tile=2)
    row("attention", attention, qkvo | {"K": 1, "V": 1}, **plain, tile=2, kv_heads=2, seq_kv=6, kv="fp8")
    for passes in (1, 2, 3, 4, 6):
        row("attention", attention, qkvo, 3, **plain, seq_kv=6, variant="standard", score_passes=passes)
    row("attention", attention, qkvo, 3, **plain, causal=True, variant="standard")
    # layers
    row("embedding", embedding, {"table": 2, "index": 8, "y": 2}, rows=5, vocab=9, cols=3)
    row("embedding", embedding, {"table": 4, "index": 8, "y": 4}, rows=9, vocab=5, cols=3, dtype="fp32")
    expert = each(2, "x y router weights gate_up activated expert_out")
    row("moe", moe, expert, tokens=2, experts=8, topk=2, hidden=3, inter=4)  # fewer visits than experts
    row("moe", moe, expert, tokens=9, experts=4, topk=2, hidden=3, inter=4)  # every expert visited
    row("moe", moe, expert, 5, tokens=9, experts=4, topk=2, hidden=3, inter=4, fused=False)
    row("moe", moe, expert | {"weights": MXFP4}, tokens=3, experts=3, topk=3, hidden=4, inter=8, weights="mxfp4")
    # counts that the caller states: flops of either engine, bytes of one width
    row("custom", stated("vector"), each(1, "data"), bytes=10, flops=6)
    row("custom", stated("matrix"), each(1, "data"), bytes=10, flops=6, engine="matrix", dtype="bf16")
    row("custom", stated("vector"), each(1, "data"), bytes=3)
    return found + training_rows() + layer_rows()


ROWS = rows()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_counted_a_second_way(row: Row) -> None:
    tally = Tally(row.widths)
    row.loop(tally, **row.values)
    work = OPS[row.op](**row.values)
    engines: Counter[str] = Counter()
    for (engine, _), count in work.by_engine().items():
        engines[engine] += count
    assert engines == tally.flops
    assert work.special == tally.special
    assert outer(work.moves) == pytest.approx(outer(tally.moves()))
    assert inner(work.moves) == pytest.approx(inner(tally.moves()))
    assert work.waits == {"launch": row.launches}


def outer(moves: Any) -> dict[tuple[str, str], float]:
    """Main-memory bytes by tensor and direction."""
    return {(tensor, way): value for (level, tensor, way), value in moves.items() if level == "main" and value}


def inner(moves: Any) -> dict[tuple[str, str], float]:
    """Bytes at the levels nearer the core, by tensor (both directions together)."""
    found: Counter[tuple[str, str]] = Counter()
    for (level, tensor, _), value in moves.items():
        if level != "main":
            found[level, tensor] += value
    return dict(found)


def test_no_op_is_without_a_second_count() -> None:
    assert {row.op for row in ROWS} | set(COLLECTIVES) == set(OPS)


def test_the_comparison_notices_a_wrong_count() -> None:
    """A home-made assertion has a test in which it fails: one element, one flop, one direction off."""
    for values, widths in (({"n": 8}, each(2, "x y")), ({"n": 7}, each(4, "x y")), ({"n": 7}, {"x": 2, "y": 4})):
        with pytest.raises(AssertionError):
            test_counted_a_second_way(Row("axpy", {"n": 7}, wrapped(values), widths))


def wrapped(values: dict[str, Any]) -> Callable[..., None]:
    return lambda t, **_: streaming(("x", "y"), "y", "mul", "add")(t, **values)


# -- collectives: every rank, step by step ------------------------------------------------------------------------


@dataclass
class Ring:
    """Ranks in a ring with a buffer of N parts each; counts what each sends, adds, loads and stores, in elements."""

    ranks: int
    part: int
    sent: Counter[int] = field(default_factory=Counter)
    added: Counter[int] = field(default_factory=Counter)
    loaded: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    stored: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    hops: int = 0

    def reduce_scatter(self) -> None:
        """At step s rank r passes on the sum so far of part r - s; what it was given is added on the fly."""
        n = self.ranks
        start = [[10 * rank + part for part in range(n)] for rank in range(n)]
        moving = {rank: (rank, start[rank][rank]) for rank in range(n)}
        for rank in range(n):
            self.loaded[rank].add(rank)
        for _ in range(n - 1):
            self.hops += 1
            arrived = {}
            for rank, (part, value) in moving.items():
                self.sent[rank] += self.part
                to = (rank + 1) % n
                self.loaded[to].add(part)
                self.added[to] += self.part
                arrived[to] = (part, value + start[to][part])
            moving = arrived
        for rank, (part, value) in moving.items():
            assert value == sum(start[other][part] for other in range(n))  # it is the sum
            self.stored[rank].add(part)

    def all_gather(self, first: Callable[[int], int], load: bool = True) -> None:
        """Each rank passes on the part that came last; what comes is stored and passed on without another load."""
        n = self.ranks
        held = {rank: {first(rank)} for rank in range(n)}
        moving = {rank: first(rank) for rank in range(n)}
        for rank in range(n):
            if load:
                self.loaded[rank].add(first(rank))
            self.stored[rank].add(first(rank))
        for _ in range(n - 1):
            self.hops += 1
            arrived = {(rank + 1) % n: part for rank, part in moving.items()}
            for rank in moving:
                self.sent[rank] += self.part
            for rank, part in arrived.items():
                held[rank].add(part)
                self.stored[rank].add(part)
            moving = arrived
        assert all(parts == set(range(n)) for parts in held.values())


def ring_all_reduce(ranks: int, part: int) -> Ring:
    ring = Ring(ranks, part)
    ring.reduce_scatter()
    ring.all_gather(lambda rank: (rank + 1) % ranks, load=False)  # the finished part leaves from registers
    return ring


def ring_all_gather(ranks: int, part: int) -> Ring:
    ring = Ring(ranks, part)
    ring.all_gather(lambda rank: rank)
    return ring


def ring_reduce_scatter(ranks: int, part: int) -> Ring:
    ring = Ring(ranks, part)
    ring.reduce_scatter()
    return ring


def pairs_all_to_all(ranks: int, part: int) -> Ring:
    """Step s: every rank sends the part meant for the rank s further on; its own part is only copied."""
    run = Ring(ranks, part)
    for rank in range(ranks):
        run.loaded[rank].add(rank)
        run.stored[rank].add(rank)
    for step in range(1, ranks):
        run.hops += 1
        for rank in range(ranks):
            run.loaded[rank].add((rank + step) % ranks)
            run.stored[(rank + step) % ranks].add(rank)
            run.sent[rank] += part
    return run


COLLECTIVES: dict[str, Callable[[int, int], Ring]] = {
    "all_reduce": ring_all_reduce,
    "all_gather": ring_all_gather,
    "reduce_scatter": ring_reduce_scatter,
    "all_to_all": pairs_all_to_all,
    "broadcast": lambda ranks, part: Ring(ranks, part),
    "p2p": lambda ranks, part: Ring(ranks, part),
}


@pytest.mark.parametrize("name", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all"])
@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize(("dtype", "width"), [("bf16", 2), ("fp32", 4)])
def test_collective_step_by_step(name: str, ranks: int, dtype: str, width: int) -> None:
    part = 6
    ring = COLLECTIVES[name](ranks, part)
    work = OPS[name](bytes=ranks * part * width, ranks=ranks, dtype=dtype)
    assert len(set(ring.sent.values())) == 1  # every rank sends the same
    assert work.moves["link", "buffer", "write"] == pytest.approx(ring.sent[0] * width)
    assert work.flops == pytest.approx(ring.added[0])
    assert work.moves["main", "buffer", "read"] == pytest.approx(len(ring.loaded[0]) * part * width)
    assert work.moves["main", "buffer", "write"] == pytest.approx(len(ring.stored[0]) * part * width)
    assert work.waits == {"launch": 1, "hop": ring.hops}


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_broadcast_pipelined_in_pieces(ranks: int) -> None:
    """The first piece reaches the last rank after N - 1 hops; every link has carried every piece once."""
    pieces = 12
    have = [set(range(pieces))] + [set() for _ in range(ranks - 1)]
    links: Counter[int] = Counter()
    reached = None
    step = 0
    while not all(len(held) == pieces for held in have):
        step += 1
        before = [set(held) for held in have]
        for rank in range(ranks - 1):
            waiting = before[rank] - before[rank + 1]
            if waiting:
                have[rank + 1].add(min(waiting))
                links[rank] += 1
        if reached is None and have[-1]:
            reached = step
    work = ops.broadcast(bytes=pieces * 16, ranks=ranks)
    assert set(links.values()) == {pieces}
    assert work.moves["link", "buffer", "write"] == max(links.values()) * 16
    assert work.waits["hop"] == reached == ranks - 1
    assert work.flops == 0


def test_p2p_sends_once() -> None:
    work = ops.p2p(bytes=100)
    assert (work.moves["link", "buffer", "write"], work.waits["hop"], work.flops) == (100, 1, 0)


@pytest.mark.parametrize("name", COLLECTIVES)
def test_one_rank_is_no_collective(name: str) -> None:
    with pytest.raises(InputError, match="2 ranks"):
        OPS[name](bytes=8, ranks=1)


# -- PyTorch's own counter ----------------------------------------------------------------------------------------

torch = pytest.importorskip("torch")


def counted(function: Callable[[], Any]) -> int:
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        function()
    return counter.get_total_flops()


def tensor(*shape: int) -> Any:
    return torch.empty(*shape, device="meta")


@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (64, 1, 128), (4096, 14336, 4096)])
def test_products_as_torch_counts_them(m: int, n: int, k: int) -> None:
    assert ops.gemm(m, n, k).flops == counted(lambda: tensor(m, k) @ tensor(k, n))
    assert ops.bmm(6, m, n, k).flops == counted(lambda: torch.bmm(tensor(6, m, k), tensor(6, k, n)))
    with_bias = ops.linear(m, k, n, bias=True)
    addmm = counted(lambda: torch.nn.functional.linear(tensor(m, k), tensor(n, k), tensor(n)))
    assert with_bias.by_engine()["matrix", "bf16"] == addmm  # torch leaves the bias out; ours stands apart
    assert with_bias.by_engine()["vector", "bf16"] == m * n


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"stride": 2},
        {"stride": 3, "padding": 0},
        {"padding": 4},
        {"dilation": 2, "padding": 2},
        {"groups": 4},
        {"groups": 8, "kernel": 5, "padding": 2},
        {"kernel": 1, "padding": 0, "stride": 2},
        {"kernel": 4, "padding": 1, "stride": 4, "dilation": 3},
        {"kernel": 2},
        {"kernel": 7, "dilation": 2},
    ],
)
def test_convolutions_as_torch_counts_them(case: dict[str, int]) -> None:
    batch, c_in, c_out, h, w = 3, 8, 16, 29, 31
    kernel, groups, dilation = case.get("kernel", 3), case.get("groups", 1), case.get("dilation", 1)
    padding = case.get("padding", dilation * (kernel - 1) // 2)
    made: list[Any] = []
    flops = counted(
        lambda: made.append(
            torch.nn.functional.conv2d(
                tensor(batch, c_in, h, w),
                tensor(c_out, c_in // groups, kernel, kernel),
                stride=case.get("stride", 1),
                padding=padding,
                groups=groups,
                dilation=dilation,
            )
        )
    )
    work = ops.conv2d(batch, c_in, c_out, h, w, **case)
    assert work.moves["main", "y", "write"] == made[0].numel() * 2
    assert work.flops == flops
    unfolded = torch.nn.functional.unfold(
        torch.zeros(1, c_in, h, w), kernel, dilation=dilation, padding=padding, stride=case.get("stride", 1)
    )
    im2col = ops.conv2d(batch, c_in, c_out, h, w, **case, variant="im2col")
    assert im2col.moves["main", "unfolded", "write"] == batch * unfolded.numel() * 2


@pytest.mark.parametrize(("seq_q", "seq_kv", "kv_heads"), [(7, 7, 8), (1, 33, 2), (5, 3, 1)])
def test_attention_as_torch_counts_its_two_products(seq_q: int, seq_kv: int, kv_heads: int) -> None:
    batch, heads, d = 2, 8, 16
    q = tensor(batch * heads, seq_q, d)
    k = tensor(batch * heads, seq_kv, d)  # K and V repeated for the heads that share them
    flops = counted(lambda: torch.bmm(torch.bmm(q, k.transpose(1, 2)), k))
    for variant in ("flash", "standard"):
        work = ops.attention(batch, heads, seq_q, d, seq_kv=seq_kv, kv_heads=kv_heads, variant=variant)
        assert work.by_engine()["matrix", "bf16"] == flops


def test_formulas_compute_what_they_are_named_after() -> None:
    x = torch.arange(-3.0, 3.0, 0.25, dtype=torch.float64)
    named = torch.nn.functional
    right = {
        "relu": torch.relu(x), "gelu": named.gelu(x, approximate="tanh"), "silu": named.silu(x),
        "gelu_erf": named.gelu(x),
        "sigmoid": torch.sigmoid(x), "tanh": torch.tanh(x), "exp": torch.exp(x),
    }  # fmt: skip
    for name, formula in FORMULAS.items():
        ours = [float(formula(Num(value, Tally({})))) for value in x.tolist()]
        np.testing.assert_allclose(ours, right[name].numpy(), rtol=1e-9, atol=1e-12)
    row = torch.arange(7, dtype=torch.float64) * 0.1
    np.testing.assert_allclose(softmax_row(Tally({}), 7), torch.softmax(row, 0).numpy())
    np.testing.assert_allclose(layernorm_row(Tally({}), 7), named.layer_norm(row, (7,)).numpy(), atol=1e-12)
    np.testing.assert_allclose(rmsnorm_row(Tally({}), 7), named.rms_norm(row, (7,), eps=1e-5).numpy())


# -- numbers that are safe to pin (seed-errata, section 6) --------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "intensity"),
    [
        (ops.axpy(10**8, dtype="fp32"), 1 / 6),
        (ops.gemm(128, 128, 128, dtype="fp32"), 21.333),
        (ops.gemm(4096, 4096, 4096, dtype="fp32"), 682.667),
        (ops.gemm(4096, 4096, 4096, dtype="fp16"), 1365.333),
        (ops.gemm(8192, 8192, 8192), 2730.667),
        (ops.gemm(8192, 28672, 8192), 3584.0),
        (ops.gemm(4096, 4096, 128), 120.471),
        (ops.gemm(1, 28672, 8192), 0.99984),
        (ops.gemm(1024, 1024, 1024, dtype="fp32"), 170.667),
        (ops.linear(1, 4096, 4096), 0.99951),
        (ops.linear(32, 4096, 4096), 31.508),
        (ops.linear(256, 4096, 4096), 227.556),
        (ops.linear(512, 4096, 4096), 409.6),
        (ops.linear(1024, 4096, 4096), 682.667),
        (ops.conv2d(1, 64, 64, 56, 56, dtype="fp16"), 263.78),
        (ops.conv2d(32, 64, 64, 56, 56, dtype="fp16"), 287.18),
        (ops.conv2d(1, 512, 512, 7, 7, dtype="fp16"), 47.98),
        (ops.conv2d(32, 512, 512, 7, 7, dtype="fp16"), 933.03),
        (ops.attention(1, 96, 2048, 128, variant="standard", score_passes=2), 114.89),
        (ops.attention(1, 96, 2048, 128, variant="standard"), 60.82),
        (ops.attention(1, 96, 2048, 128), 1034.0),
        (ops.attention(1, 96, 8192, 128), 4136.0),
        (ops.gemm(4096, 4096, 4096, dtype="fp32", traffic="tiled", tile=64), 15.88),
        (ops.gemm(4096, 4096, 4096, dtype="fp32", traffic="tiled", tile=128), 31.51),
        (ops.gemm(4096, 4096, 4096, dtype="fp32", traffic="tiled", tile=256), 62.06),
        (ops.gemm(4096, 4096, 4096, dtype="fp32", traffic="no_reuse"), 0.25),  # tends to 1/d (E-22)
        (ops.relu(10**6), 0.25), (ops.relu(10**6, dtype="fp32"), 0.125),  # E-48
        (ops.add(10**6), 1 / 6), (ops.add(10**6, dtype="fp32"), 1 / 12),
        (ops.gelu(10**6), 3.0), (ops.silu(10**6), 1.0), (ops.dropout(10**6), 0.5), (ops.residual(10**6), 1 / 6),
        (ops.softmax(4096, 4096), 1.25), (ops.softmax(4096, 4096, dtype="fp32"), 0.625),  # E-49
        (ops.layernorm(10**6, 4096), 2.0), (ops.rmsnorm(10**6, 4096), 1.25), (ops.batchnorm(10**6, 4096), 2.0),  # E-47
        (ops.gemv(1024, 1024, dtype="fp32"), 0.499), (ops.symv(10**4, dtype="fp32"), 1.0),  # S0-62
        (ops.trmv(10**4, dtype="fp32"), 0.5), (ops.ger(10**4, 10**4, dtype="fp32"), 0.25),  # E-41
        (ops.symm(3000, 3000, dtype="fp32"), 600.0), (ops.syrk(3000, 3000, dtype="fp32"), 500.0),  # n/5, n/6
        (ops.trmm(3000, 3000, dtype="fp32"), 300.0),  # n/10: B is overwritten
        (ops.gemm(2400, 2400, 2400, dtype="fp32", beta=True), 300.0),  # n/8
        (ops.symm(2800, 2800, dtype="fp32", beta=True), 400.0),  # n/7
        (ops.syrk(2400, 2400, dtype="fp32", beta=True), 300.0),  # n/8
        (ops.nrm2(10**7, dtype="fp32"), 0.5), (ops.asum(10**7, dtype="fp32"), 0.25), (ops.dot(10**7, dtype="fp32"), 0.25),
        (ops.scal(10**7, dtype="fp32"), 0.125), (ops.copy(10**7), 0.0),
    ],
    ids=lambda value: value.name if isinstance(value, Work) else f"{value:g}",
)  # fmt: skip
def test_pinned_intensities(work: Work, intensity: float) -> None:
    assert work.intensity() == pytest.approx(intensity, rel=1e-3)


def test_int4_weights_leave_the_flops_and_quarter_the_bytes() -> None:
    """AI 4 from bytes alone, 3.88 with an fp16 scale per 128 (E-51)."""
    plain, packed = ops.linear(1, 8192, 28672), ops.linear(1, 8192, 28672, weights="int4")
    scaled = ops.linear(1, 8192, 28672, weights="int4_g128")
    assert plain.flops == packed.flops == scaled.flops
    assert plain.moves["main", "W", "read"] / packed.moves["main", "W", "read"] == 4
    assert plain.moves["main", "W", "read"] / scaled.moves["main", "W", "read"] == pytest.approx(3.88, abs=0.005)
    assert packed.intensity() == pytest.approx(4.0, rel=2e-3)


def test_causal_halves_flops_and_no_bytes() -> None:
    full, half = ops.attention(4, 32, 4096, 128), ops.attention(4, 32, 4096, 128, causal=True)
    assert half.flops / full.flops == pytest.approx(0.5, rel=1e-3)
    assert half.bytes == full.bytes


def test_flash_has_no_square_term() -> None:
    """Twice the sequence, twice the bytes (S0-71)."""
    assert ops.attention(1, 1, 8192, 64).bytes == 2 * ops.attention(1, 1, 4096, 64).bytes


# -- what an op refuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ops.gemm(m=1, n=2), "needs k"),
        (lambda: ops.gemm(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11), "takes 10 values"),
        (lambda: ops.gemm(1, 2, 0), "k must be a whole number of at least 1, got 0"),
        (lambda: ops.gemm(1, 2, -3), "at least 1"),
        (lambda: ops.gemm(1, 2.5, 3), "n must be a whole number"),
        (lambda: ops.gemm(1, float("nan"), 3), "got nan"),
        (lambda: ops.gemm(1, float("inf"), 3), r"2\^53"),
        (lambda: ops.gemm(1, 2**54, 3), r"2\^53"),
        (lambda: ops.gemm(1, "many", 3), "whole number"),
        (lambda: ops.gemm(1, [], 3), "empty"),
        (lambda: ops.gemm(1, [4, 0, 5], 3), r"n\[1\]"),
        (lambda: ops.gemm([1, 2], [1, 2, 3], 3), "do not fit together"),
        (lambda: ops.gemm(1, 2, 3, beta="maybe"), "yes or no"),
        (lambda: ops.gemm(1, 2, 3, beta=2), "yes or no"),
        (lambda: ops.gemm(1, 2, 3, traffic="some"), "compulsory"),
        (lambda: ops.conv2d(1, 1, 1, 2, 2, padding=0), "does not fit"),
        (lambda: ops.conv2d(1, 3, 4, 8, 8, groups=2), "groups must divide"),
        (lambda: ops.conv2d(1, 1, 1, 8, 8, padding=-1), "at least 0"),
        (lambda: ops.attention(1, 6, 4, 4, kv_heads=4), "kv_heads must divide"),
        (lambda: ops.attention(1, 1, 8, 4, seq_kv=4, causal=True), "seq_kv of at least seq_q"),
        (lambda: ops.attention(1, 1, 8, 4, window=2), "causal=yes"),
        (lambda: ops.moe(1, 2, 3, 4, 4), "topk must not exceed"),
    ],
)
def test_refusals(call: Callable[[], Work], words: str) -> None:
    with pytest.raises(InputError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "near"),
    [
        (lambda: ops.find("gem"), "gemm"),
        (lambda: ops.gemm(1, 2, kk=3), "k"),
        (lambda: ops.gemm(1, 2, 3, dtype="bf61"), "bf16"),
        (lambda: ops.gemm(1, 2, 3, traffic="tile"), "tiled"),
        (lambda: ops.linear(1, in_feature=2, out_features=3), "in_features"),
    ],
)
def test_unknown_names_list_near_ones(call: Callable[[], Any], near: str) -> None:
    with pytest.raises(UnknownName, match=f"did you mean .*{near}"):
        call()


def test_yes_and_no_as_typed() -> None:
    for yes, no in (("yes", "no"), ("TRUE", "false"), ("1", "0"), ("on", "off"), (True, False), (1, 0)):
        assert ops.gemm(2, 2, 2, beta=yes).bytes == 32
        assert ops.gemm(2, 2, 2, beta=no).bytes == 24


@pytest.mark.parametrize("name", sorted(OPS))
def test_every_op_says_what_it_is(name: str) -> None:
    op = OPS[name]
    assert op.doc
    assert op.name == name
    assert not op.grows or op.params[op.grows].kind == "Size"
    assert all(param.kind in ("Size", "Count", "Flag", "Format", "Choice") for param in op.params.values())
    assert "dtype" in op.params


# -- corners that were wrong once --------------------------------------------------------------------------------


def test_beta_crosses_the_inner_level_too() -> None:
    work = ops.gemm(64, 64, 8, beta=True, tile=64)
    assert work.bytes_at("l2") >= work.bytes


def test_scores_cross_the_inner_level_too() -> None:
    work = ops.attention(1, 1, 64, 4, variant="standard", tile=64)
    assert work.bytes_at("l2") >= work.bytes


def test_inner_writes_are_writes() -> None:
    assert ("l2", "C", "write") in ops.gemm(8, 8, 8, tile=4).moves
    assert ("l2", "O", "write") in ops.attention(1, 1, 8, 4, tile=4).moves


def test_causal_tiles_do_not_read_masked_keys() -> None:
    """Tile by tile of 2 queries: keys up to the tile's last query, 2 + 4 + 6 + 8 rows of K."""
    work = ops.attention(1, 1, 8, 1, causal=True, tile=2)
    assert work.moves["l2", "K", "read"] == (2 + 4 + 6 + 8) * 2


def test_skipped_pixels_are_not_read() -> None:
    assert ops.conv2d(1, 1, 1, 8, 8, kernel=1, stride=2).moves["main", "x", "read"] == 4 * 4 * 2


@pytest.mark.parametrize(
    ("again", "once"),
    [
        (ops.gemm(256, 256, 256, traffic="no_reuse"), ops.gemm(256, 256, 256)),
        (ops.gemm(256, 256, 256, traffic="tiled", tile=64), ops.gemm(256, 256, 256)),
        (ops.softmax(4, 4, passes=3), ops.softmax(4, 4)),
        (ops.attention(1, 1, 64, 4, variant="standard", score_passes=6),
         ops.attention(1, 1, 64, 4, variant="standard", score_passes=2)),
    ],
)  # fmt: skip
def test_reading_again_takes_no_more_room(again: Work, once: Work) -> None:
    assert again.footprint == once.footprint


def test_tables_are_resident_whole() -> None:
    assert ops.embedding(1, 1000, 8).footprint >= 1000 * 8 * 2
    assert ops.moe(1, 64, 2, 8, 8).footprint >= 64 * 3 * 8 * 8 * 2


@pytest.mark.parametrize(
    ("work", "tensor", "width"),
    [
        (ops.gemv(4, 4, dtype="int8"), "y", 4),
        (ops.symm(4, 4, dtype="fp8"), "C", 2),
        (ops.syrk(4, 4, dtype="fp8"), "C", 10 / 16 * 2),
        (ops.attention(1, 1, 4, 4, dtype="fp8"), "O", 2),
        (ops.moe(4, 2, 1, 4, 4, dtype="fp8"), "y", 2),
    ],
    ids=lambda value: value.name if isinstance(value, Work) else str(value),
)
def test_products_of_narrow_formats_are_stored_wide_everywhere(work: Work, tensor: str, width: float) -> None:
    assert work.moves["main", tensor, "write"] == (4 if work.name == "gemv" else 16) * width


def test_a_size_beyond_exactness_is_refused() -> None:
    with pytest.raises(InputError):
        ops.scal(2**53 + 1)


def test_a_value_given_twice_is_refused() -> None:
    with pytest.raises((InputError, TypeError)):
        ops.gemm(1, 2, 3, m=5)


def test_an_odd_flag_gets_a_message() -> None:
    with pytest.raises(InputError):
        ops.gemm(1, 2, 3, beta=object())


def test_ops_are_attributes_by_their_names() -> None:
    assert all(getattr(ops, name) is op for name, op in OPS.items())
    assert set(OPS) <= set(dir(ops))
    with pytest.raises(AttributeError, match=r"unknown op 'gem': did you mean .*gemm.* dir\(ridgeline\.ops\)"):
        _ = ops.gem


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("matmul", "gemm"), ("mm", "gemm"), ("addmm", "gemm"), ("GEMM", "gemm"), ("sdpa", "attention"),
        ("flash_attention", "attention"), ("scaled_dot_product_attention", "attention"), ("layer_norm", "layernorm"),
        ("LayerNorm", "layernorm"), ("rms_norm", "rmsnorm"), ("batch_norm", "batchnorm"), ("conv", "conv2d"),
        ("rowsum", "sum_rows"), ("all-reduce", "all_reduce"), ("allreduce", "all_reduce"), ("AllGather", "all_gather"),
    ],
)  # fmt: skip
def test_ops_have_their_common_names(alias: str, name: str) -> None:
    assert find(alias) is OPS[name]
    assert getattr(ops, alias) is OPS[name]


def test_every_alias_means_an_op_and_hides_none() -> None:
    assert set(ALIASES.values()) <= set(OPS)
    for alias, name in ALIASES.items():
        assert {find(spelling).name for spelling in (alias, alias.upper(), alias.replace("_", "-"))} == {name}
        assert letters(alias) not in {letters(op) for op in OPS if op != name}
    params = {param for op in OPS.values() for param in op.params}
    assert {name for names in SIZES.values() for name in names} <= params


def test_sizes_have_their_common_names() -> None:
    assert ops.gemm(M=8, N=16, K=32) == ops.gemm(m=8, n=16, k=32)
    assert ops.linear(B=8, **{"in": 64, "out": 128}) == ops.linear(batch=8, in_features=64, out_features=128)
    assert ops.attention(B=1, H=8, seq=64, D=64) == ops.attention(batch=1, heads=8, seq_q=64, head_dim=64)
    assert ops.conv2d(1, 3, 8, H=32, W=32) == ops.conv2d(1, 3, 8, h=32, w=32)  # its own h, no heads
    assert ops.all_reduce("64MiB", 8) == ops.all_reduce(2**26, 8)
    with pytest.raises(InputError, match="m is given twice"):
        ops.gemm(8, 8, 8, M=8)
