"""Calls of torch on a CPU where the usual one does more than the op: its wall time is that of all it does.

On a GPU kernels are timed, whoever launches them; on a CPU a gradient through autograd would count the time of autograd, and
a clone that of its new tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..cuda.operands import Operands, Run

EPSILON, MOMENTUM = 1e-5, 0.1  # torch's own


def _layernorm_backward(operands: Operands, rows: int, cols: int) -> Run:
    aten = operands.torch.ops.aten
    dy, x, gamma, beta = (operands.take(*shape) for shape in ((rows, cols), (rows, cols), (cols,), (cols,)))
    _, mean, scale = aten.native_layer_norm(x, [cols], gamma, beta, EPSILON)
    return partial(aten.native_layer_norm_backward, dy, x, [cols], mean, scale, gamma, beta, [True] * 3)


def _batchnorm_backward(operands: Operands, batch: int, channels: int, pixels: int) -> Run:
    torch, shape = operands.torch, (batch, channels, pixels, 1)
    aten, dy, x = torch.ops.aten, operands.take(*shape), operands.take(*shape)
    gamma, beta, mean, variance = (torch.ones(channels) for _ in range(4))
    _, *saved = aten.native_batch_norm(x, gamma, beta, mean, variance, True, MOMENTUM, EPSILON)
    return partial(aten.native_batch_norm_backward, dy, x, gamma, mean, variance, *saved, True, EPSILON, [True] * 3)


def _attention_backward(
    operands: Operands, batch: int, heads: int, seq_q: int, head_dim: int, seq_kv: int = 0, kv_heads: int = 0,
    causal: int = 0,
) -> Run:  # fmt: skip
    aten = operands.torch.ops.aten
    q = operands.take(batch, heads, seq_q, head_dim)
    k, v = (operands.take(batch, kv_heads or heads, seq_kv or seq_q, head_dim) for _ in range(2))
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, bool(causal))
    call = aten._scaled_dot_product_flash_attention_for_cpu_backward
    return partial(call, operands.take(*out.shape), q, k, v, out, sums, 0.0, bool(causal))


def _copy(operands: Operands, n: int) -> Run:
    return partial(operands.torch.empty_like(operands.take(n)).copy_, operands.take(n))


def _both_gradients(
    operands: Operands, batch: int, c_in: int, c_out: int, h: int, w: int, kernel: int = 3, stride: int = 1,
    padding: int = 0,
) -> Run:  # fmt: skip
    """Of the image and of the weights in one call, as training asks for them."""
    sides = [(side + 2 * padding - kernel) // stride + 1 for side in (h, w)]
    dy, x = operands.take(batch, c_out, *sides), operands.take(batch, c_in, h, w)
    weights = operands.take(c_out, c_in, kernel, kernel)
    window = [stride] * 2, [padding] * 2, [1, 1], False, [0, 0], 1
    return partial(operands.torch.ops.aten.convolution_backward, dy, x, weights, None, *window, [True, True, False])


BUILDERS: dict[str, Callable[..., Any]] = {
    "layernorm_backward": _layernorm_backward,
    "batchnorm_backward": _batchnorm_backward,
    "attention_backward": _attention_backward,
    "copy": _copy,
    "conv2d_dgrad": _both_gradients,
}
# Ops that one call does together: each is given half of its time.
TOGETHER = {"conv2d_dgrad": ("conv2d_dgrad", "conv2d_wgrad")}
