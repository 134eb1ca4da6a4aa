"""Cases of every op and format at the edges of what is asked: few long rows, many short ones, small images, rare kernels and formats.

    python benchmarks/edges.py calibration > cases.csv
    python benchmarks/edges.py test > cases.csv            never to be fitted to
    python benchmarks/edges.py formats > cases.csv         usual sizes in formats that other tables have few of
    python benchmarks/edges.py formats-test > cases.csv    never to be fitted to

Other tables draw the sizes that programs have and those around them. These are the ones around those: one row of a million values, a
million rows of three, images of one channel, fp64 and fp16 where others are usual, transposed convolutions of generators.
Sizes are drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from drawn import print_cases

from ridgeline.measure.cuda.draw import Case, Draw

TIMES = {"calibration": 12, "test": 1, "formats": 6, "formats-test": 1}
SEEDS = {"calibration": 8510, "test": 8520, "formats": 8530, "formats-test": 8540}
RARE_FORMATS = ("fp64", "fp16")
FORMATS = ("fp32", "bf16", "fp16", "fp64")
MAX_ELEMENTS, MAX_ELEMENTS_SORTED = 1 << 27, 1 << 24
LAYOUTS = ("nchw", "nhwc")

ROWS = (
    *("softmax", "layernorm", "rmsnorm", "sum_rows", "cross_entropy", "batchnorm", "softmax_backward", "transpose"),
    *("layernorm_backward", "rmsnorm_backward", "cross_entropy_backward", "log_softmax_backward", "sum_columns"),
    *("add_row", "scale_expanded", "cumsum", "sort", "topk", "embedding", "embedding_backward", "concatenate"),
)
VECTORS = (
    *("scal", "nrm2", "asum", "sum", "relu", "gelu", "silu", "sigmoid", "tanh", "exp", "dropout", "axpy", "residual"),
    *("mul", "dot", "relu_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward", "gelu_erf"),
    *("gelu_erf_backward", "fill", "stream_triad", "copy", "add"),
)
IMAGES = ("batchnorm_training", "batchnorm_backward", "batchnorm_inference", "max_pool2d", "max_pool2d_backward")
CONVOLUTIONS = ("conv2d", "conv2d_dgrad", "conv2d_wgrad", "conv_transpose2d")


def _extreme(draw: Draw, elements: int) -> tuple[int, int]:
    """A few long rows, many short ones, or few short ones."""
    kind = int(draw.rng.integers(3))
    if kind == 0:
        rows = draw.size(1, 16)
        return rows, draw.size(4096, min(1 << 24, elements // rows))
    if kind == 1:
        cols = draw.size(1, 48)
        return draw.size(1 << 14, min(1 << 23, elements // cols)), cols
    return draw.size(1, 4096), draw.size(1, 512)


def _usual(draw: Draw, elements: int) -> tuple[int, int]:
    cols = draw.size(32, 1 << 15)
    return draw.size(1, min(1 << 17, elements // cols)), cols


def _rows(draw: Draw, op: str, dtype: str, sides: Callable[[Draw, int], tuple[int, int]] = _extreme) -> Case:
    rows, cols = sides(draw, MAX_ELEMENTS_SORTED if op in ("sort", "topk", "cumsum") else MAX_ELEMENTS)
    case: Case = {"op": op, "dtype": dtype, "rows": rows, "cols": cols}
    if op == "topk":
        case |= {"k": min(draw.size(1, 256), cols)}
    if op == "concatenate":
        case |= {"parts": draw.choice((2, 2, 3, 4, 8)), "layout": draw.choice(LAYOUTS)}
    if op.startswith("embedding"):
        case |= {"rows": draw.size(1, 1 << 18), "cols": draw.size(1, 512), "vocab": draw.size(2, 1 << 20)}
    return case


def _vector(draw: Draw, op: str, dtype: str) -> Case:
    return {"op": op, "dtype": dtype, "n": draw.size(1, MAX_ELEMENTS)}


def _matrix(draw: Draw, op: str, dtype: str) -> Case:
    m, n = _extreme(draw, MAX_ELEMENTS)
    return {"op": op, "dtype": dtype, "m": m, "n": n}


def _images(draw: Draw, op: str, dtype: str) -> Case:
    side = draw.size(2, 256)
    case: Case = {"op": op, "dtype": dtype, "batch": draw.size(1, 128), "channels": draw.size(1, 1024)}
    while case["batch"] * case["channels"] * side * side > MAX_ELEMENTS:
        case["batch"] = -(-case["batch"] // 2)
        case["channels"] = -(-case["channels"] // 2)
    if not op.startswith("max_pool"):
        return case | {"pixels": side * side, "layout": draw.choice(LAYOUTS)}
    kernel, stride = draw.choice(((2, 2), (2, 2), (3, 2), (3, 3), (2, 1), (4, 4)))
    side = max(side, kernel)
    return case | {
        "h": side,
        "w": side,
        "kernel": kernel,
        "stride": stride,
        "padding": 0,
        "layout": draw.choice(LAYOUTS),
    }


def _convolution(draw: Draw, op: str, dtype: str) -> Case:
    step = draw.choice((1, 8, 16))
    case: Case = {"op": op, "dtype": dtype, "batch": draw.size(1, 64)}
    case |= {"c_in": draw.size(1, 512, step), "c_out": draw.size(1, 512, step)}
    if op == "conv_transpose2d":
        kernel, stride, padding = draw.choice(((4, 2, 1), (4, 2, 1), (2, 2, 0), (3, 2, 1), (4, 1, 0), (5, 2, 2)))
        side = draw.size(1, 64)
    else:
        kernel, stride = draw.choice(((2, 2), (4, 2), (4, 4), (7, 2), (8, 4), (11, 4), (5, 2), (3, 3)))
        padding, side = draw.choice((0, kernel // 2)), max(draw.size(8, 128), kernel)
    return case | {"h": side, "w": side, "kernel": kernel, "stride": stride, "padding": padding}


def _moved(draw: Draw, op: str, dtype: str) -> Case:
    inner, cols = draw.size(2, 64), draw.size(2, 64)
    case: Case = {"op": op, "dtype": dtype, "batch": draw.size(1, 64), "rows": draw.size(2, 2048), "cols": cols}
    return case | {"inner": inner} | ({"parts": draw.choice((2, 3))} if op == "stack_permuted" else {})


def _parameters(draw: Draw, op: str, dtype: str) -> Case:
    more = {"variant": draw.choice(("fused", "foreach"))} if op == "adamw" else {"momentum": draw.chance(0.5)}
    return {"op": op, "dtype": dtype, "n": draw.size(1, MAX_ELEMENTS), **more}


# ops, how a case is drawn, and cases of each format
KINDS: tuple[tuple[Sequence[str], Callable[[Draw, str, str], Case], int], ...] = (
    *((ROWS, _rows, 6), (VECTORS, _vector, 2), (("gemv", "ger"), _matrix, 8), (IMAGES, _images, 8)),
    *((CONVOLUTIONS, _convolution, 10), (("permute", "stack_permuted"), _moved, 6), (("adamw", "sgd"), _parameters, 4)),
)


def cases(draw: Draw, times: int) -> list[Case]:
    return [
        drawn(draw, op, dtype)
        for ops, drawn, count in KINDS
        for op in ops
        for dtype in FORMATS
        for _ in range(count * times)
        if not (dtype == "fp64" and drawn is _convolution)
        # gradients of pools in fp16, and pools in fp64 over channels last, lose the device at some sizes in PyTorch 2.11; the
        # first run the same kernels as in bf16, the second were left out of what was timed
        and not (dtype == "fp16" and op == "max_pool2d_backward" and times > 1)
    ]


def in_formats(draw: Draw, times: int) -> list[Case]:
    """Usual sizes, in the formats that usual tables leave out."""
    return [_rows(draw, op, dtype, _usual) for op in ROWS for dtype in RARE_FORMATS for _ in range(6 * times)] + [
        _images(draw, op, RARE_FORMATS[0]) for op in IMAGES[3:] for _ in range(8 * times)
    ]


if __name__ == "__main__":
    print_cases(in_formats if sys.argv[1].startswith("formats") else cases, TIMES, SEEDS)
