"""Shapes of library kernels to time on a CPU: from single elements to beyond the last cache, as programs call them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

import numpy as np

from ...programs.ops import find
from ..cuda.draw import HEAD_DIMS, LAYERS, Draw
from .library import Case, NumPy

STREAMS = ("add", "mul", "relu", "gelu", "exp", "copy", "cast")
REDUCTIONS = ("sum", "dot")
ROWS = ("softmax", "layernorm", "rmsnorm", "sum_rows")
# What training adds.
TRAINED_STREAMS = ("gelu_erf", "gelu_erf_backward", "relu_backward")
ROW_GRADIENTS = ("layernorm_backward", "sum_columns")
CONVOLUTIONS = ("conv2d", "conv2d_dgrad")  # the latter with the gradient of the weights
BATCH_NORMS = ("batchnorm_training", "batchnorm_backward")
POOLS = ("max_pool2d", "max_pool2d_backward")
# What a full calibration adds: ops whose kernels are not built like those above, so that nothing else tells how long they take.
FURTHER_STREAMS = ("dropout", "silu", "tanh", "silu_backward", "fill")
FURTHER_ROWS = ("cross_entropy", "cross_entropy_backward", "softmax_backward", "cumsum", "sort", "add_row")
# Timings per op and dtype, quick and full.
COUNTS = {True: 10, False: 32}
PRODUCT_COUNTS = {True: 14, False: 96}
FEW_COUNTS = {True: 10, False: 16}


@dataclass(frozen=True)
class Limits:
    """Bytes that a case may move, flops it may do, and how small it may be."""

    moved: float
    flops: float
    elements: int = 1 << 10  # of a vector or matrix at least


def _products(draw: Draw, index: int, most: Limits) -> Case:
    """Squares, thin and odd products in turn."""
    side = (most.flops / 2) ** (1 / 3)
    if index % 3 == 0:
        size = draw.size(16, side, 8)
        return {"m": size, "n": size, "k": size}
    if index % 3 == 1:
        return {"m": draw.size(9, 128), "n": draw.size(64, 3 * side, 8), "k": draw.size(64, 3 * side, 8)}
    return {name: draw.size(16, 2 * side) for name in "mnk"}


def _few_rows(draw: Draw, index: int, most: Limits) -> Case:
    side = most.moved**0.5 / 2
    return {"m": draw.size(1, 8), "n": draw.size(32, side), "k": draw.size(32, side)}


def _matrix(draw: Draw, index: int, most: Limits, names: tuple[str, str] = ("rows", "cols")) -> Case:
    elements = draw.size(max(most.elements, 16), most.moved / 8)
    cols = draw.size(16, min(elements, 1 << 16), 8 if index % 4 else 1)
    return {names[0]: max(elements // cols, 1), names[1]: cols}


def _vector(draw: Draw, index: int, most: Limits) -> Case:
    return {"n": draw.size(most.elements, most.moved / 8)}


def _embedding(draw: Draw, index: int, most: Limits) -> Case:
    cols = draw.size(64, 4096, 8)
    vocab = draw.size(1000, max(most.moved / 8 / cols, 1001))
    return {"rows": draw.size(1, max(most.moved / 16 / cols, 2)), "vocab": vocab, "cols": cols}


def _attention(draw: Draw, index: int, most: Limits) -> Case:
    heads, width = draw.choice((4, 8, 12, 16)), draw.choice(HEAD_DIMS[:4])
    seq = draw.size(16, max((most.flops / (4 * heads * width)) ** 0.5, 17))
    case = {"batch": draw.size(1, 8), "heads": heads, "kv_heads": heads, "seq_q": seq, "seq_kv": seq}
    return {**case, "head_dim": width, "causal": bool(index % 2)}


def _decode(draw: Draw, index: int, most: Limits) -> Case:
    heads, width = draw.choice((8, 16, 32)), draw.choice(HEAD_DIMS[:4])
    keys = draw.size(16, max(most.moved / (8 * heads * width), 17))
    case = {"batch": draw.size(1, 16), "heads": heads, "kv_heads": heads, "seq_q": 1, "seq_kv": keys}
    return {**case, "head_dim": width, "causal": False}


def _image(draw: Draw) -> tuple[int, int]:
    """Channels and side of images, larger ones with fewer channels, as the layers of small networks have them."""
    channels = draw.size(4, 512, 4)
    return channels, draw.size(4, max(512 // channels, 1) ** 0.5 * 16)


def _conv(draw: Draw, index: int, most: Limits) -> Case:
    """Layers of well-known networks; where cases may be as small as can be, every other one is of a small network."""
    if index % 2 or most.elements > 1:
        c_in, c_out, side, kernel, stride = draw.choice(LAYERS)
    else:
        (c_in, side), c_out = _image(draw), draw.size(8, 256, 8)
        kernel, stride = draw.choice(((1, 1), (3, 1), (3, 1), (3, 2), (5, 1)))
    case = {"batch": draw.size(1, 8), "c_in": c_in, "c_out": c_out, "h": side, "w": side, "kernel": kernel}
    return {**case, "stride": stride, "padding": 0 if kernel == stride else (kernel - 1) // 2}


def _topk(draw: Draw, index: int, most: Limits) -> Case:
    case = _matrix(draw, index, most)
    return {**case, "k": draw.size(1, min(case["cols"], 64))}


def _optimizer(draw: Draw, index: int, most: Limits) -> Case:
    return {"n": draw.size(most.elements, most.moved / 28)}


def _permute(draw: Draw, index: int, most: Limits) -> Case:
    """Heads of attention, before tokens and after them."""
    inner, batch = draw.choice(HEAD_DIMS[:4]), draw.size(1, 8)
    elements = max(most.moved / 8 / inner / batch, 8)
    return {
        "batch": batch,
        "rows": draw.size(2, max(elements / 2, 3)),
        "cols": draw.choice((2, 4, 8, 12)),
        "inner": inner,
    }


def _parts(draw: Draw, index: int, most: Limits) -> Case:
    return {**_matrix(draw, index, Limits(most.moved / 2, most.flops, most.elements)), "parts": 2}


def _batch_norm(draw: Draw, index: int, most: Limits) -> Case:
    channels, side = _image(draw)
    return {"batch": draw.size(1, 32), "channels": channels, "pixels": side * side}


def _pool(draw: Draw, index: int, most: Limits) -> Case:
    channels, side = _image(draw)
    kernel, stride = draw.choice(((3, 2), (2, 2), (3, 1)))
    case = {"batch": draw.size(1, 16), "channels": channels, "h": side, "w": side, "kernel": kernel, "stride": stride}
    return {**case, "padding": kernel // 2 if kernel > 2 else 0}


DRAWS: dict[str, Callable[[Draw, int, Limits], Case]] = {
    **dict.fromkeys((*STREAMS, *REDUCTIONS, *TRAINED_STREAMS, *FURTHER_STREAMS), _vector),
    **dict.fromkeys((*ROWS, *ROW_GRADIENTS, *FURTHER_ROWS, "transpose"), _matrix),
    "gemv": partial(_matrix, names=("m", "n")),
    "gemm": _products,
    "gemm few": _few_rows,
    "embedding": _embedding,
    **dict.fromkeys(("attention", "attention_backward"), _attention),
    "decode": _decode,
    **dict.fromkeys(CONVOLUTIONS, _conv),
    **dict.fromkeys(BATCH_NORMS, _batch_norm),
    **dict.fromkeys(POOLS, _pool),
    "topk": _topk,
    "adamw": _optimizer,
    "permute": _permute,
    "concatenate": _parts,
    "embedding_backward": _embedding,
}
PRODUCTS = ("gemm", *CONVOLUTIONS, "attention")
OPS = {"gemm few": "gemm", "decode": "attention"}  # draws that are of another op
TRAINING = ("attention_backward", *CONVOLUTIONS[1:], *BATCH_NORMS, *POOLS, *TRAINED_STREAMS, *ROW_GRADIENTS)
FURTHER = (*FURTHER_STREAMS, *FURTHER_ROWS, "topk", "adamw", "permute", "concatenate", "embedding_backward")
# Those of both that take several times as long as any other op would suggest.
UNLIKE = ("dropout", "max_pool2d", "cross_entropy", "cross_entropy_backward", "attention_backward")
NOT_NUMPY = ("attention", "decode", "conv2d", *TRAINING, *FURTHER)
CAST_TO = {"fp32": "bf16", "bf16": "fp32", "fp64": "fp32"}
NUMPY_CAST_TO = {"fp32": "fp64", "fp64": "fp32"}
DRAWS_PER_CASE = 50


def cases(
    library: str, dtypes: Sequence[str], most: Limits, quick: bool, resident: bool = False, seed: int = 1
) -> list[Case]:
    """Cases of every op and dtype within the limits, one of each in turn: whatever part is timed covers all of them.

    A quick run has what only training runs with `resident` operands alone, and nothing further, but for what is like nothing else.
    """
    rng = np.random.default_rng(seed)
    groups: list[list[Case]] = []
    for name, draw_sizes in DRAWS.items():
        if library == NumPy.name and name in NOT_NUMPY:
            continue
        if quick and name not in UNLIKE and (name in FURTHER or (name in TRAINING and not resident)):
            continue
        few = name in FURTHER or (name in TRAINING and not resident)
        count = (FEW_COUNTS if few else PRODUCT_COUNTS if name in PRODUCTS else COUNTS)[quick]
        groups += [_drawn(name, dtype, draw_sizes, count, most, rng, library) for dtype in dtypes]
    return [case for turn in zip_longest(*groups) for case in turn if case is not None]


def _drawn(
    name: str, dtype: str, draw_sizes: Callable[[Draw, int, Limits], Case], count: int, most: Limits,
    rng: np.random.Generator, library: str,
) -> list[Case]:  # fmt: skip
    accepted: list[Case] = []
    for _ in range(DRAWS_PER_CASE * count):
        if len(accepted) == count:
            break
        case = {"op": OPS.get(name, name), "dtype": dtype, **draw_sizes(Draw(rng, True), len(accepted), most)}
        if name == "cast":
            case["out_dtype"] = (NUMPY_CAST_TO if library == NumPy.name else CAST_TO)[dtype]
        work = find(case["op"])(**{key: value for key, value in case.items() if key != "op"})
        if case not in accepted and work.footprint <= most.moved and work.flops <= most.flops:
            accepted.append(case)
    return accepted
