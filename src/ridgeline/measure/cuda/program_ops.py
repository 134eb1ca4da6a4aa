"""Shapes of kernels that programs run around their products: pools, batch norms in inference, column sums, joins, vocabularies."""

from __future__ import annotations

from collections.abc import Callable

from .draw import MAX_ELEMENTS, VOCABULARIES, WIDTHS, Case, Draw

STAGES = ((64, 112), (64, 56), (128, 56), (128, 28), (256, 28), (256, 14), (512, 14), (512, 7), (1024, 14), (2048, 7))
MORE_VOCABULARIES = (*VOCABULARIES, 30522, 30528, 32001, 49152, 50265, 50272, 50304, 64000, 128000, 152064, 256000)


def _stage(draw: Draw) -> tuple[int, int]:
    """Channels and side of the images of a layer: the more channels, the smaller the images."""
    return (draw.size(8, 2048), draw.size(4, 128)) if draw.smooth else draw.choice(STAGES)


def _draw_pool(draw: Draw, index: int) -> Case:
    channels, side = _stage(draw)
    kernel, stride = draw.choice(((3, 2), (3, 2), (2, 2), (3, 1), (5, 1)))
    op = ("max_pool2d", "max_pool2d_backward")[index % 2]
    case: Case = {"op": op, "dtype": ("bf16", "fp32", "fp16", "fp32")[index // 2 % 4], "batch": draw.mixed(1, 256)}
    case |= {"channels": channels, "h": max(side, kernel), "w": max(side, kernel), "kernel": kernel, "stride": stride}
    return case | {"padding": kernel // 2 if kernel > 2 else 0, "layout": ("nchw", "nhwc")[index // 8 % 2]}


def _draw_inference_norm(draw: Draw, index: int) -> Case:
    channels, side = _stage(draw)
    dtype = ("fp32", "bf16", "fp16", "fp16")[index % 4]
    case: Case = {"op": "batchnorm_inference", "dtype": dtype, "batch": draw.mixed(1, 256), "channels": channels}
    case |= {"pixels": side * side, "layout": ("nchw", "nhwc")[index // 8 % 2]}
    return case | ({"parameters": "same"} if index // 4 % 2 and dtype != "fp32" else {})


def _rows(draw: Draw, highest: int, count: int = 1 << 18) -> tuple[int, int]:
    cols = draw.size(2, highest) if draw.smooth or draw.chance(0.4) else draw.choice(WIDTHS)
    return draw.mixed(2, max(min(count, MAX_ELEMENTS // 2 // cols), 2)), cols


def _draw_column_sum(draw: Draw, index: int) -> Case:
    rows, cols = _rows(draw, 1 << 17)
    return {"op": "sum_columns", "dtype": ("bf16", "fp32", "bf16", "fp16")[index % 4], "rows": rows, "cols": cols}


def _draw_log_softmax(draw: Draw, index: int) -> Case:
    cols = draw.size(16, 1 << 18) if draw.smooth else draw.choice((*MORE_VOCABULARIES, 10, 100, 1000))
    rows = draw.mixed(1, max(min(1 << 17, MAX_ELEMENTS // 2 // cols), 2))
    return {"op": "log_softmax_backward", "dtype": ("bf16", "fp32")[index % 2], "rows": rows, "cols": cols}


def _draw_expanded(draw: Draw, index: int) -> Case:
    rows, cols = _rows(draw, 1 << 16)
    return {"op": "scale_expanded", "dtype": ("bf16", "fp32")[index % 2], "rows": rows, "cols": cols}


def _draw_stack(draw: Draw, index: int) -> Case:
    inner = draw.size(8, 256) if draw.smooth else draw.choice((64, 64, 80, 96, 128))
    case: Case = {"op": "stack_permuted", "dtype": ("bf16", "fp32")[index % 2], "batch": draw.mixed(1, 64)}
    case |= {"rows": draw.mixed(2, 4096), "cols": draw.mixed(2, 64), "inner": inner}
    return case | {"parts": draw.choice((2, 3, 3))}


def _draw_exact_gelu(draw: Draw, index: int) -> Case:
    op = ("gelu_erf", "gelu_erf_backward")[index % 2]
    return {"op": op, "dtype": draw.choice(("bf16", "fp32", "fp16")), "n": draw.size(1 << 10, MAX_ELEMENTS / 2)}


def _draw_vocabulary(draw: Draw, index: int) -> Case:
    """The last layer of language models: n is a vocabulary, often odd; and its gradients, where it is m or k."""
    vocabulary = draw.size(10000, 262144) if draw.smooth else draw.choice(MORE_VOCABULARIES)
    sizes = [draw.mixed(1, 8192), vocabulary, draw.choice(WIDTHS[:10])]
    turn = (0, 0, 1, 2)[index % 4]
    m, n, k = sizes[turn:] + sizes[:turn]
    dtype = ("bf16", "fp16", "bf16", "tf32", "bf16", "fp32")[index // 4 % 6]
    return {"op": "gemm", "dtype": dtype, "m": m, "n": n, "k": k}


# family, cases in a full calibration, and how one is drawn
PROGRAM_OPS: tuple[tuple[str, int, Callable[[Draw, int], Case]], ...] = (
    ("pools", 1000, _draw_pool),
    ("inference norm", 900, _draw_inference_norm),
    ("column sums", 480, _draw_column_sum),
    ("log softmax backward", 320, _draw_log_softmax),
    ("expanded", 200, _draw_expanded),
    ("stacks", 300, _draw_stack),
    ("exact gelu", 240, _draw_exact_gelu),
    ("vocabularies", 600, _draw_vocabulary),
)
