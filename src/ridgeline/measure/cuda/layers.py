"""Layers of programs beyond products and norms, through PyTorch: pools, batch norm in inference, column sums, exact gelu."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.errors import InputError
from .operands import FORMATS, Operands, Run


def _images(operands: Operands, layout: str, batch: int, channels: int, h: int, w: int) -> Any:
    """Random images as they lie in memory in a layout."""
    if layout == "nhwc":
        return operands.take(batch, h, w, channels).permute(0, 3, 1, 2)
    return operands.take(batch, channels, h, w)


def _max_pool(
    operands: Operands,
    batch: int,
    channels: int,
    h: int,
    w: int,
    kernel: int = 3,
    stride: int = 2,
    padding: int | None = None,
    layout: str = "nchw",
    *,
    backward: bool = False,
) -> Run:
    aten, x = operands.torch.ops.aten, _images(operands, layout, batch, channels, h, w)
    window = [kernel] * 2, [stride] * 2, [kernel // 2 if padding is None else padding] * 2, [1, 1], False
    pooled = partial(aten.max_pool2d_with_indices, x, *window)
    if not backward:
        return pooled
    y, places = pooled()
    dy = _images(operands, layout, *y.shape)
    return partial(aten.max_pool2d_with_indices_backward, dy, x, *window, places)


def _batchnorm_inference(
    operands: Operands, batch: int, channels: int, pixels: int, parameters: str = "fp32", layout: str = "nchw"
) -> Run:
    """Images of one row of pixels; parameters in fp32 as mixed precision keeps them, or in the format of the images."""
    torch = operands.torch
    kept = getattr(torch, FORMATS["fp32" if parameters == "fp32" else operands.dtype])
    gamma, beta, mean, variance = (torch.ones(channels, dtype=kept, device=operands.device) for _ in range(4))
    x = _images(operands, layout, batch, channels, pixels, 1)
    return partial(torch.nn.functional.batch_norm, x, mean, variance, gamma, beta, False)


def _sum_columns(operands: Operands, rows: int, cols: int) -> Run:
    return partial(operands.torch.sum, operands.take(rows, cols), 0)


def _log_softmax_backward(operands: Operands, rows: int, cols: int) -> Run:
    dy, y = operands.take(rows, cols), operands.take(rows, cols)
    return partial(operands.torch.ops.aten._log_softmax_backward_data, dy, y, -1, dy.dtype)


def _scale_expanded(operands: Operands, rows: int, cols: int) -> Run:
    return partial(operands.torch.mul, operands.take(rows, 1).expand(rows, cols), 3)


def _stack_permuted(operands: Operands, batch: int, rows: int, cols: int, inner: int, parts: int = 3) -> Run:
    tensors = [operands.take(batch, cols, rows, inner).transpose(1, 2) for _ in range(parts)]
    if tensors[0].is_contiguous():
        raise InputError("stack_permuted with one row or column has nothing to permute, so that it is not timed")
    return partial(operands.torch.stack, tensors, 2)


def _gelu_erf(operands: Operands, n: int) -> Run:
    return partial(operands.torch.nn.functional.gelu, operands.take(n))


def _gelu_erf_backward(operands: Operands, n: int) -> Run:
    return partial(operands.torch.ops.aten.gelu_backward, operands.take(n), operands.take(n))


BUILDERS: dict[str, Callable[..., Run]] = {
    "max_pool2d": _max_pool,
    "max_pool2d_backward": partial(_max_pool, backward=True),
    "batchnorm_inference": _batchnorm_inference,
    "sum_columns": _sum_columns,
    "log_softmax_backward": _log_softmax_backward,
    "scale_expanded": _scale_expanded,
    "stack_permuted": _stack_permuted,
    "gelu_erf": _gelu_erf,
    "gelu_erf_backward": _gelu_erf_backward,
}
