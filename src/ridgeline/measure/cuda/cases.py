"""Which shapes kernels are timed with: a plan that covers every family for fitting, and a random test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...programs.ops import find
from .draw import (
    CASTS,
    EXPERTS,
    HEAD_DIMS,
    HEADS,
    LAYERS,
    MAX_BYTES,
    MAX_ELEMENTS,
    MAX_FLOPS,
    MAX_FLOPS_SLOW,
    ODD_SIZES,
    POOL_BYTES,
    PROJECTIONS,
    REDUCTIONS,
    ROWS,
    SLOW_DTYPES,
    STREAMS,
    VOCABULARIES,
    WIDTHS,
    Case,
    Draw,
    attention_case,
    head_counts,
)
from .further import FURTHER
from .program_ops import PROGRAM_OPS


def _draw_gemm(draw: Draw, index: int, dtype: str) -> Case:
    if draw.smooth:
        step = 64 if draw.chance(0.5) else 1
        m, n, k = draw.size(1, 16384), draw.size(64, 32768, step), draw.size(64, 32768, step)
    else:
        m, n, k = _mixed_product(draw, index)
    if dtype in ("fp8_e4m3", "int8"):
        n, k = -(-n // 16) * 16, -(-k // 16) * 16
    return {"op": "gemm", "dtype": dtype, "m": max(m, 17) if dtype == "int8" else m, "n": n, "k": k}


def _mixed_product(draw: Draw, index: int) -> tuple[int, int, int]:
    """Projections over many rows and in decoding, squares, odd and thin products, vocabularies, multiples of 128."""
    kind = index % 8
    if kind in (0, 1):
        return (draw.mixed(1, 16384), *draw.choice(PROJECTIONS))
    if kind == 2:
        return (int(2 ** draw.rng.integers(0, 7)), *draw.choice(PROJECTIONS))
    if kind == 3:
        side = draw.choice((draw.size(64, 16384, 64), draw.choice(ODD_SIZES)))
        return side, side, side
    if kind == 4:
        return draw.choice(ODD_SIZES), draw.choice(ODD_SIZES), draw.choice(ODD_SIZES)
    if kind == 5:
        sizes = [draw.mixed(256, 16384), draw.mixed(256, 16384), draw.mixed(256, 16384)]
        sizes[int(draw.rng.integers(3))] = draw.size(8, 128, 8)
        return sizes[0], sizes[1], sizes[2]
    if kind == 6 and draw.chance(0.4):
        return draw.mixed(1, 4096), draw.choice(VOCABULARIES), draw.choice(WIDTHS[:10])
    return draw.size(128, 16384, 128), draw.size(128, 16384, 128), draw.size(64, 16384, 64)


def _draw_bmm(draw: Draw, index: int) -> Case:
    dtype = ("bf16", "fp32", "bf16", "fp16", "tf32")[index % 5]
    if not draw.smooth and index % 2:  # the products of attention
        rows, keys, width = draw.mixed(16, 4096), draw.mixed(16, 4096), draw.choice(HEAD_DIMS)
        n, k = (keys, width) if index % 4 == 1 else (width, keys)
        return {"op": "bmm", "dtype": dtype, "batch": draw.mixed(1, 1024), "m": rows, "n": n, "k": k}
    m, n, k = draw.mixed(1, 4096), draw.mixed(16, 4096), draw.mixed(16, 4096)
    return {"op": "bmm", "dtype": dtype, "batch": draw.size(2, 512), "m": m, "n": n, "k": k}


def _draw_gemv(draw: Draw, index: int) -> Case:
    dtype = ("bf16", "fp32", "fp64", "fp16")[index % 4]
    return {"op": "gemv", "dtype": dtype, "m": draw.mixed(16, 131072), "n": draw.mixed(16, 131072)}


def _vector(draw: Draw, index: int) -> int:
    """A length from 2^10 to 2^29: a power of two for every third, unless drawn smoothly."""
    if index % 3 == 0 and not draw.smooth:
        return int(2 ** draw.rng.integers(10, 30))
    return draw.size(1 << 10, MAX_ELEMENTS)


def _draw_stream(draw: Draw, index: int) -> Case:
    op, n = STREAMS[index % len(STREAMS)], _vector(draw, index // len(STREAMS))
    if op == "cast":
        dtype, out = draw.choice(CASTS)
        return {"op": op, "dtype": dtype, "out_dtype": out, "n": n}
    return {"op": op, "dtype": draw.choice(("bf16", "fp32", "fp16", "fp64")), "n": n}


def _draw_reduction(draw: Draw, index: int) -> Case:
    op, dtype = REDUCTIONS[index % len(REDUCTIONS)], draw.choice(("bf16", "fp32", "fp16", "fp64"))
    return {"op": op, "dtype": dtype, "n": _vector(draw, index // len(REDUCTIONS))}


def _draw_rows(draw: Draw, index: int) -> Case:
    op, dtype = ROWS[index % len(ROWS)], draw.choice(("bf16", "fp32", "fp16"))
    rows = draw.mixed(1, 1 << 20)
    usual = WIDTHS + ODD_SIZES + VOCABULARIES
    cols = draw.mixed(16, 1 << 18) if draw.smooth or draw.chance(0.6) else draw.choice(usual)
    return {"op": op, "dtype": dtype, "rows": rows, "cols": cols}


def _draw_transpose(draw: Draw, index: int) -> Case:
    dtype = ("fp32", "bf16")[index % 2]
    rows, cols = draw.mixed(16, 65536), draw.mixed(16, 65536)
    if not draw.smooth and index % 4 < 2:
        cols = rows
    return {"op": "transpose", "dtype": dtype, "rows": rows, "cols": cols}


def _draw_embedding(draw: Draw, index: int) -> Case:
    dtype = ("bf16", "fp32", "fp16")[index % 3]
    vocab = draw.size(1000, 262144) if draw.smooth else draw.choice(VOCABULARIES)
    cols = draw.mixed(64, 16384) if draw.smooth or draw.chance(0.5) else draw.choice(WIDTHS)
    return {"op": "embedding", "dtype": dtype, "rows": draw.mixed(1, 1 << 17), "vocab": vocab, "cols": cols}


def _draw_attention(draw: Draw, index: int) -> Case:
    heads, seq = head_counts(draw), draw.mixed(16, 32768)
    return attention_case(draw, index, draw.mixed(1, 64), heads, seq, seq) | {"causal": bool(index // 2 % 2)}


def _draw_decode(draw: Draw, index: int) -> Case:
    heads = head_counts(draw)
    return attention_case(draw, index, draw.mixed(1, 256), heads, 1, draw.mixed(16, 65536))


def _draw_standard(draw: Draw, index: int) -> Case:
    heads, seq = draw.choice(HEADS), draw.mixed(32, 8192)
    return attention_case(draw, index, draw.mixed(1, 32), (heads, heads), seq, seq) | {"variant": "standard"}


def _draw_conv(draw: Draw, index: int) -> Case:
    dtype = ("bf16", "fp32", "fp16", "tf32")[index % 4]
    if not draw.smooth and draw.chance(0.5):
        c_in, c_out, side, kernel, stride = draw.choice(LAYERS)
    else:
        step = 8 if draw.chance(0.7) else 1
        c_in, c_out = draw.size(3, 1024, step), draw.size(8, 1024, step)
        side, kernel, stride = draw.size(7, 224), draw.choice((1, 3, 3, 5, 7)), draw.choice((1, 1, 2))
    case: Case = {
        **{"op": "conv2d", "dtype": dtype, "batch": draw.mixed(1, 256), "c_in": c_in, "c_out": c_out, "h": side},
        **{"w": side, "kernel": kernel, "stride": stride, "padding": 0 if kernel == stride else (kernel - 1) // 2},
    }
    if draw.chance(0.06):  # depthwise
        case |= {"c_out": c_in, "groups": c_in}
    return case | {"layout": "nhwc" if draw.chance(0.3) else "nchw"}


def _draw_moe(draw: Draw, index: int) -> Case:
    experts, topk, hidden, inter = draw.choice(EXPERTS)
    if draw.smooth:
        hidden, inter = draw.size(1024, 7168, 64), draw.size(512, 8192, 64)
    return {
        **{"op": "moe", "dtype": "bf16", "tokens": draw.mixed(1, 16384), "experts": experts, "topk": topk},
        **{"hidden": hidden, "inter": inter},
    }


GEMMS = {"bf16": 800, "fp16": 300, "fp8_e4m3": 300, "tf32": 350, "fp32": 350, "fp64": 250, "int8": 200}
# family, cases in a full calibration, and how one is drawn
PLAN: tuple[tuple[str, int, Callable[[Draw, int], Case]], ...] = (
    *((f"gemm {dtype}", count, partial(_draw_gemm, dtype=dtype)) for dtype, count in GEMMS.items()),
    ("bmm", 400, _draw_bmm),
    ("gemv", 300, _draw_gemv),
    ("stream", 1400, _draw_stream),
    ("reduce", 480, _draw_reduction),
    ("rows", 2000, _draw_rows),
    ("transpose", 160, _draw_transpose),
    ("embedding", 240, _draw_embedding),
    ("attention", 600, _draw_attention),
    ("decode", 360, _draw_decode),
    ("standard attention", 40, _draw_standard),
    ("conv2d", 1600, _draw_conv),
    ("moe", 80, _draw_moe),
    *FURTHER,
    *PROGRAM_OPS,
)
DRAWS_PER_CASE = 200  # after which a family is left smaller than planned


def fits(case: Case, memory: float = MAX_BYTES) -> bool:
    """Whether a case is neither too long nor too large to be worth timing."""
    sizes = {key: value for key, value in case.items() if key not in ("op", "backend")}
    work = find(case["op"])(**sizes)
    read = {tensor for level, tensor, way in work.moves if way == "read"}
    operands = sum(float(size) for tensor, size in work.tensor_sizes().items() if tensor in read)
    max_flops = MAX_FLOPS_SLOW if case["dtype"] in SLOW_DTYPES else MAX_FLOPS
    elements = case["rows"] * case["cols"] if "cols" in case and not case["op"].startswith("embedding") else 1
    in_memory = work.footprint <= memory and operands <= min(memory, POOL_BYTES)
    return bool(work.flops <= max_flops and in_memory and elements <= MAX_ELEMENTS)


def _key(case: Case) -> tuple[Any, ...]:
    return tuple(sorted(case.items()))


def _collect(
    rng: np.random.Generator, counts: Sequence[int], smooth: float, memory: float, known: set[tuple[Any, ...]]
) -> list[Case]:
    """New cases of each family that fit, shuffled: whatever part of them is timed covers every family.

    `smooth` is the share of sizes drawn log-uniformly.
    """
    cases: list[Case] = []
    for (_, _, draw_case), count in zip(PLAN, counts, strict=True):
        wanted = len(cases) + count
        for _ in range(DRAWS_PER_CASE * count):
            if len(cases) == wanted:
                break
            # the index moves on only with accepted cases, so that rejections do not thin a kind out
            case = draw_case(Draw(rng, bool(rng.random() < smooth)), len(cases) - wanted + count)
            if _key(case) not in known and fits(case, memory):
                known.add(_key(case))
                cases.append(case)
    order = rng.permutation(len(cases))
    return [cases[place] for place in order]


def _shares(only: Sequence[str]) -> list[int]:
    """Cases of each family in a full calibration; none of those left out."""
    return [count if not only or name.startswith(tuple(only)) else 0 for name, count, _ in PLAN]


def calibration_cases(
    quick: bool = False, seed: int = 1, memory: float = MAX_BYTES, only: Sequence[str] = ()
) -> list[Case]:
    """Cases that cover every family (or `only` some) for fitting, some 15000; `quick` keeps an eighth of each."""
    counts = [max(count // 8, 8) if quick and count else count for count in _shares(only)]
    return _collect(np.random.default_rng(seed), counts, 0.5, memory, set())


def random_cases(count: int, seed: int, memory: float = MAX_BYTES, only: Sequence[str] = ()) -> list[Case]:
    """A test set: sizes drawn log-uniformly, families in the proportions of the calibration, none of its cases."""
    shares = _shares(only)
    exact = [count * share / sum(shares) for share in shares]
    counts = [int(value) for value in exact]
    for place in sorted(range(len(exact)), key=lambda at: counts[at] - exact[at])[: count - sum(counts)]:
        counts[place] += 1
    known = {_key(case) for case in calibration_cases(memory=memory, only=only)}
    return _collect(np.random.default_rng([seed, 7]), counts, 1.0, memory, known)
