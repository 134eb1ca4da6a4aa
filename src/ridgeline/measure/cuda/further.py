"""Shapes of kernels beyond the default forward paths: named backends, quantized weights, backward passes, optimizers, selection."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .draw import (
    HEAD_DIMS,
    LAYERS,
    MAX_ELEMENTS,
    PROJECTIONS,
    VOCABULARIES,
    WIDTHS,
    Case,
    Draw,
    attention_case,
    head_counts,
)

WEIGHTS = ("int4_g128z", "int4_g32z", "int4_g64z", "int4_g128z")  # with a zero point, as torch packs them
TRITON_WEIGHTS = ("int4_g128", "int8_g128", "int4_g64", "int4_g128")
STEMS = ((3, 64, 224, 7, 2), (3, 32, 224, 3, 2), (3, 96, 224, 4, 4), (3, 768, 224, 16, 16), (1, 64, 128, 7, 2))
LOSS_WIDTHS = (*VOCABULARIES, 1000, 10000, 262144)
ACTIVATIONS = ("relu_backward", "gelu_backward", "silu_backward", "sigmoid_backward", "tanh_backward")
ROW_GRADIENTS = ("softmax_backward", "layernorm_backward", "rmsnorm_backward")


def _projection(draw: Draw, step: int) -> tuple[int, int]:
    """Columns and depth of a layer, in multiples of a step."""
    if draw.smooth:
        return draw.size(512, 32768, step), draw.size(512, 32768, step)
    n, k = draw.choice(PROJECTIONS)
    return max(n // step, 1) * step, max(k // step, 1) * step


def _batch(draw: Draw) -> int:
    """Rows of a decoding step: mostly few."""
    return draw.size(1, 512) if draw.smooth else int(draw.choice((1, 2, 4, 8, 16, 24, 32, 64, 128, 256)))


def _draw_int4(draw: Draw, index: int) -> Case:
    n, k = _projection(draw, 1024)
    sizes = {"batch": _batch(draw), "in_features": k, "out_features": n}
    return {"op": "linear", "dtype": "bf16", **sizes, "weights": WEIGHTS[index % len(WEIGHTS)]}


def _draw_triton_linear(draw: Draw, index: int) -> Case:
    case = _draw_int4(draw, index)
    return case | {"weights": TRITON_WEIGHTS[index % len(TRITON_WEIGHTS)], "backend": "triton"}


def _draw_rowwise(draw: Draw, index: int) -> Case:
    n, k = _projection(draw, 16)
    m = draw.mixed(1, 16384)
    return {"op": "gemm", "dtype": "fp8_e4m3", "m": m, "n": n, "k": k, "backend": "rowwise"}


def _draw_prefill(draw: Draw, index: int, backend: str) -> Case:
    """Prefill of a backend, short sequences as often as long ones."""
    seq = draw.size(16, 32768) if draw.smooth or draw.chance(0.5) else int(2 ** draw.rng.integers(6, 15))
    heads = head_counts(draw)
    if backend == "efficient":  # has no shared heads
        heads = heads[0], heads[0]
    case = attention_case(draw, index, draw.mixed(1, 64), heads, seq, seq) | {"causal": bool(index // 2 % 2)}
    if backend == "triton":
        case |= {"head_dim": draw.choice((64, 128, 128, 256))}
    return case | ({"backend": backend} if backend else {})


def _draw_decode(draw: Draw, index: int, backend: str) -> Case:
    heads = head_counts(draw)
    if backend == "efficient":
        heads = heads[0], heads[0]
    case = attention_case(draw, index, draw.mixed(1, 256), heads, 1, draw.mixed(64, 65536))
    return case | ({"backend": backend} if backend else {})


def _draw_attention_backward(draw: Draw, index: int) -> Case:
    heads, seq = head_counts(draw), draw.mixed(64, 16384)
    return {
        **{"op": "attention_backward", "dtype": ("bf16", "fp16")[index % 2], "batch": draw.mixed(1, 32)},
        **{"heads": heads[0], "kv_heads": heads[1], "seq_q": seq, "seq_kv": seq},
        **{"head_dim": draw.choice(HEAD_DIMS[:4]), "causal": bool(index // 2 % 2)},
    }


def _draw_activation(draw: Draw, index: int) -> Case:
    dtype = draw.choice(("bf16", "bf16", "fp32", "fp16"))
    return {"op": ACTIVATIONS[index % len(ACTIVATIONS)], "dtype": dtype, "n": draw.size(1 << 10, MAX_ELEMENTS / 2)}


def _rows(draw: Draw, widths: tuple[int, ...], highest: int) -> tuple[int, int]:
    cols = draw.size(16, highest) if draw.smooth or draw.chance(0.4) else draw.choice(widths)
    return draw.mixed(1, max(min(1 << 18, MAX_ELEMENTS // 2 // cols), 2)), cols


def _draw_row_gradient(draw: Draw, index: int) -> Case:
    rows, cols = _rows(draw, WIDTHS, 1 << 16)
    dtype = draw.choice(("bf16", "bf16", "fp32"))
    return {"op": ROW_GRADIENTS[index % len(ROW_GRADIENTS)], "dtype": dtype, "rows": rows, "cols": cols}


def _draw_loss(draw: Draw, index: int) -> Case:
    rows, cols = _rows(draw, LOSS_WIDTHS, 1 << 18)
    op = ("cross_entropy", "cross_entropy_backward")[index % 2]
    return {"op": op, "dtype": draw.choice(("bf16", "fp32")), "rows": rows, "cols": cols}


def _draw_embedding_backward(draw: Draw, index: int) -> Case:
    vocab = draw.size(1000, 262144) if draw.smooth else draw.choice(VOCABULARIES)
    cols = draw.choice(WIDTHS[:8])
    dtype = ("bf16", "fp32")[index % 2]
    return {"op": "embedding_backward", "dtype": dtype, "rows": draw.mixed(1, 1 << 16), "vocab": vocab, "cols": cols}


def _draw_optimizer(draw: Draw, index: int) -> Case:
    n = draw.size(1 << 12, MAX_ELEMENTS / 2)
    if index % 5 == 4:
        return {"op": "sgd", "dtype": "fp32", "n": n, "momentum": bool(draw.chance(0.5))}
    dtype = draw.choice(("fp32", "fp32", "bf16"))
    return {"op": "adamw", "dtype": dtype, "n": n, "variant": ("fused", "foreach")[index % 2]}


def _draw_selection(draw: Draw, index: int) -> Case:
    op = ("topk", "sort", "topk", "cumsum")[index % 4]
    rows, cols = _rows(draw, (*VOCABULARIES, 64, 128, 256, 1024, 4096), 1 << 18)
    rows = max(min(rows, (1 << 26) // cols), 1)
    case: Case = {"op": op, "dtype": draw.choice(("bf16", "fp32")), "rows": rows, "cols": cols}
    return case | ({"k": min(cols, draw.choice((1, 2, 4, 8, 20, 50, 64)))} if op == "topk" else {})


def _draw_stem(draw: Draw, index: int) -> Case:
    """First layers of networks: few channels, large images, many images."""
    c_in, c_out, side, kernel, stride = draw.choice(STEMS)
    if draw.smooth:
        c_out, side = draw.size(16, 256, 8), draw.size(64, 512)
    case: Case = {"op": "conv2d", "dtype": ("bf16", "fp16", "fp32", "tf32")[index % 4], "batch": draw.mixed(1, 256)}
    case |= {"c_in": c_in, "c_out": c_out, "h": side, "w": side, "kernel": kernel, "stride": stride}
    case |= {"padding": 0 if kernel == stride else (kernel - 1) // 2}
    return case | {"layout": "nhwc" if index % 3 == 2 else "nchw"}


def _draw_depthwise(draw: Draw, index: int) -> Case:
    channels = draw.size(16, 1536, 8)
    case: Case = {"op": "conv2d", "dtype": ("bf16", "fp16", "fp32")[index % 3], "batch": draw.mixed(1, 128)}
    side = draw.choice((7, 14, 28, 56, 112)) if not draw.smooth else draw.size(7, 128)
    kernel = draw.choice((3, 3, 5, 7))
    case |= {"c_in": channels, "c_out": channels, "groups": channels, "h": side, "w": side, "kernel": kernel}
    case |= {"stride": draw.choice((1, 1, 2)), "padding": (kernel - 1) // 2}
    return case | {"layout": "nhwc" if index % 2 else "nchw"}


def _draw_grouped(draw: Draw, index: int) -> Case:
    """Channels in groups of several each, as in ResNeXt and RegNet; layouts and dtypes in every combination."""
    groups, width = draw.size(2, 64), draw.size(4, 128, 4)
    channels = groups * min(width, max(2048 // groups, 1))
    side, kernel = draw.size(7, 112), draw.choice((3, 3, 3, 5))
    case: Case = {"op": "conv2d", "dtype": ("bf16", "fp16", "fp32", "tf32")[index % 4], "batch": draw.mixed(1, 256)}
    case |= {"c_in": channels, "c_out": channels, "groups": groups, "h": side, "w": side, "kernel": kernel}
    case |= {"stride": draw.choice((1, 1, 2)), "padding": (kernel - 1) // 2}
    return case | {"layout": "nhwc" if index // 4 % 2 else "nchw"}


def _draw_pixel(draw: Draw, index: int) -> Case:
    """1x1 convolutions of one pixel per image, as squeeze-and-excitation blocks have them after pooling."""
    case: Case = {"op": "conv2d", "dtype": ("bf16", "fp16", "fp32", "tf32")[index % 4], "batch": draw.mixed(1, 512)}
    case |= {"c_in": draw.size(8, 4096, 8), "c_out": draw.size(8, 4096, 8), "h": 1, "w": 1, "kernel": 1, "stride": 1}
    return case | {"padding": 0, "layout": "nhwc" if index // 4 % 2 else "nchw"}


def _draw_transposed(draw: Draw, index: int) -> Case:
    c_in, c_out, side, *_ = draw.choice(LAYERS)
    c_in, c_out = max(c_in, 16), draw.choice((c_out, c_out // 2 or 8, 8))
    kernel, stride, padding = draw.choice(((2, 2, 0), (4, 2, 1), (3, 1, 1), (4, 4, 0)))
    case: Case = {"op": "conv_transpose2d", "dtype": ("bf16", "fp16", "fp32", "tf32")[index % 4]}
    case |= {"batch": draw.mixed(1, 32), "c_in": c_in, "c_out": c_out, "h": min(side, 128), "w": min(side, 128)}
    return case | {"kernel": kernel, "stride": stride, "padding": padding}


def _draw_few_rows(draw: Draw, index: int) -> Case:
    """Sums of a few long rows, and vectors times matrices: shapes with little to spread over the cores."""
    dtype = ("bf16", "fp32")[index // 2 % 2]
    if index % 2:
        return {"op": "gemv", "dtype": "bf16", "m": draw.mixed(64, 65536), "n": draw.mixed(64, 65536)}
    return {"op": "sum_rows", "dtype": dtype, "rows": draw.mixed(1, 64), "cols": draw.mixed(1 << 10, 1 << 22)}


def _draw_long_stream(draw: Draw, index: int) -> Case:
    """Copies and fills that the copy engine or a kernel may do, dropout and gelu, from a megabyte on."""
    op = ("copy", "fill", "dropout", "gelu")[index % 4]
    return {"op": op, "dtype": draw.choice(("bf16", "fp32")), "n": draw.size(1 << 14, MAX_ELEMENTS)}


def _draw_batch_norm(draw: Draw, index: int) -> Case:
    """Layers of networks: the more channels, the smaller the images."""
    channels, side = draw.choice(
        ((64, 112), (64, 56), (128, 28), (256, 56), (256, 14), (512, 28), (512, 7), (1024, 14), (2048, 7))
    )
    if draw.smooth:
        channels, side = draw.size(8, 2048, 8), draw.size(4, 128)
    op = ("batchnorm_training", "batchnorm_backward")[index % 2]
    case: Case = {"op": op, "dtype": ("fp32", "bf16", "fp32", "fp16")[index // 2 % 4], "batch": draw.mixed(2, 256)}
    return case | {"channels": channels, "pixels": side * side, "layout": ("nchw", "nhwc")[index // 8 % 3 == 2]}


def _draw_conv_gradient(draw: Draw, index: int) -> Case:
    c_in, c_out, side, kernel, stride = draw.choice(LAYERS)
    if draw.smooth:
        c_in, c_out, side = draw.size(16, 1024, 8), draw.size(16, 1024, 8), draw.size(7, 112)
        kernel, stride = draw.choice((1, 3, 3, 5)), draw.choice((1, 1, 2))
    op = ("conv2d_dgrad", "conv2d_wgrad")[index % 2]
    case: Case = {"op": op, "dtype": ("tf32", "bf16", "fp16", "fp32")[index // 2 % 4], "batch": draw.mixed(1, 256)}
    case |= {"c_in": c_in, "c_out": c_out, "h": side, "w": side, "kernel": kernel, "stride": stride}
    return case | {"padding": 0 if kernel == stride else (kernel - 1) // 2, "layout": ("nchw", "nhwc")[index // 8 % 2]}


def _draw_unvectorised(draw: Draw, index: int) -> Case:
    """Heads moved, rows added, formats mixed, tensors joined."""
    op = ("permute", "add_row", "add_mixed", "concatenate")[index % 4]
    dtype = ("bf16", "fp32")[index // 4 % 2]
    if op == "permute":
        inner = draw.choice((32, 64, 64, 128, 128, 256)) if not draw.smooth else draw.size(2, 512)
        return {
            "op": op,
            "dtype": dtype,
            "batch": draw.mixed(1, 128),
            "rows": draw.mixed(2, 4096),
            "cols": draw.mixed(2, 64),
            "inner": inner,
        }
    if op == "add_mixed":
        return {
            "op": op,
            "dtype": "fp32",
            "other": ("bf16", "fp16")[index // 8 % 2],
            "n": draw.size(1 << 10, MAX_ELEMENTS / 2),
        }
    rows, cols = _rows(draw, WIDTHS, 1 << 14)
    case: Case = {"op": op, "dtype": dtype, "rows": rows, "cols": cols}
    return case | ({"parts": draw.choice((2, 2, 3, 4))} if op == "concatenate" else {})


# family, cases in a full calibration, and how one is drawn
FURTHER: tuple[tuple[str, int, Callable[[Draw, int], Case]], ...] = (
    ("int4 linear", 360, _draw_int4),
    ("triton linear", 240, _draw_triton_linear),
    ("fp8 rowwise", 200, _draw_rowwise),
    *((f"prefill {name}", 320, partial(_draw_prefill, backend=name)) for name in ("flash2", "cudnn", "efficient")),
    ("prefill triton", 120, partial(_draw_prefill, backend="triton")),
    *((f"decode {name}", 200, partial(_draw_decode, backend=name)) for name in ("flash2", "cudnn", "efficient")),
    ("short prefill", 240, partial(_draw_prefill, backend="")),
    ("decode more", 200, partial(_draw_decode, backend="")),
    ("attention backward", 320, _draw_attention_backward),
    ("activation backward", 300, _draw_activation),
    ("row backward", 420, _draw_row_gradient),
    ("losses", 320, _draw_loss),
    ("embedding backward", 160, _draw_embedding_backward),
    ("optimizers", 300, _draw_optimizer),
    ("selection", 400, _draw_selection),
    ("stems", 240, _draw_stem),
    ("depthwise", 200, _draw_depthwise),
    ("transposed", 200, _draw_transposed),
    ("few rows", 240, _draw_few_rows),
    ("long streams", 320, _draw_long_stream),
    ("batch norm", 900, _draw_batch_norm),
    ("convolution backward", 1600, _draw_conv_gradient),
    ("unvectorised", 900, _draw_unvectorised),
    ("grouped", 320, _draw_grouped),
    ("single pixels", 160, _draw_pixel),
)
