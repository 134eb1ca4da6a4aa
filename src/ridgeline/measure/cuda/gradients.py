"""Backward passes, optimizer steps and selections through PyTorch: calls that run a case on prepared operands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...core.errors import InputError
from .operands import Operands, Run

STEP = {"lr": 1e-4, "beta1": 0.9, "beta2": 0.999, "weight_decay": 1e-2, "eps": 1e-8}


def _aten(operands: Operands) -> Any:
    return operands.torch.ops.aten


def _gradient(operands: Operands, out: Any, inputs: tuple[Any, ...]) -> Run:
    """The backward pass of what was computed, again and again."""
    seed = operands.take(*out.shape).to(out.dtype)
    return partial(operands.torch.autograd.grad, out, inputs, seed, retain_graph=True)


def _trained(operands: Operands, *shape: int) -> Any:
    return operands.take(*shape).detach().requires_grad_()


def _own(operands: Operands, n: int) -> Any:
    """Values that a call may change: those of the pool belong to all cases."""
    return operands.take(n).clone()


ACTIVATIONS: dict[str, Callable[[Any, Any, Any], Run]] = {
    "relu_backward": lambda aten, dy, x: partial(aten.threshold_backward, dy, x, 0),
    "gelu_backward": lambda aten, dy, x: partial(aten.gelu_backward, dy, x, approximate="tanh"),
    "silu_backward": lambda aten, dy, x: partial(aten.silu_backward, dy, x),
    "sigmoid_backward": lambda aten, dy, y: partial(aten.sigmoid_backward, dy, y),
    "tanh_backward": lambda aten, dy, y: partial(aten.tanh_backward, dy, y),
}


def _activation(call: Callable[[Any, Any, Any], Run], operands: Operands, n: int) -> Run:
    return call(_aten(operands), operands.take(n), operands.take(n))


def _softmax(operands: Operands, rows: int, cols: int) -> Run:
    dy, y = operands.take(rows, cols), operands.take(rows, cols)
    return partial(_aten(operands)._softmax_backward_data, dy, y, -1, dy.dtype)


def _layernorm(operands: Operands, rows: int, cols: int) -> Run:
    x, gamma, beta = (_trained(operands, *shape) for shape in ((rows, cols), (cols,), (cols,)))
    out = operands.torch.nn.functional.layer_norm(x, (cols,), gamma, beta)
    return _gradient(operands, out, (x, gamma, beta))


def _rmsnorm(operands: Operands, rows: int, cols: int) -> Run:
    x, gamma = _trained(operands, rows, cols), _trained(operands, cols)
    return _gradient(operands, operands.torch.nn.functional.rms_norm(x, (cols,), gamma), (x, gamma))


def _cross_entropy(operands: Operands, rows: int, cols: int) -> Run:
    x, target = _trained(operands, rows, cols), operands.integers(cols, rows)
    loss = operands.torch.nn.functional.cross_entropy(x, target, reduction="none")
    return _gradient(operands, loss, (x,))


def _embedding(operands: Operands, rows: int, vocab: int, cols: int) -> Run:
    dy, index = operands.take(rows, cols), operands.integers(vocab, rows)
    return partial(_aten(operands).embedding_dense_backward, dy, index, vocab, -1, False)


def _attention(
    operands: Operands,
    batch: int,
    heads: int,
    seq_q: int,
    head_dim: int,
    seq_kv: int | None = None,
    kv_heads: int | None = None,
    causal: int = 0,
) -> Run:
    """Of what scaled_dot_product_attention chooses by itself."""
    keys, groups = seq_kv or seq_q, kv_heads or heads
    if causal and keys != seq_q:
        raise InputError("attention_backward with a causal mask and seq_q below seq_kv is not timed")
    q = _trained(operands, batch, heads, seq_q, head_dim)
    k, v = (_trained(operands, batch, groups, keys, head_dim) for _ in range(2))
    attend = operands.torch.nn.functional.scaled_dot_product_attention
    return _gradient(operands, attend(q, k, v, is_causal=bool(causal), enable_gqa=groups != heads), (q, k, v))


def _adamw(operands: Operands, n: int, variant: str = "fused") -> Run:
    torch = operands.torch
    p, g, m, v = (_own(operands, n) for _ in range(4))
    if variant == "foreach":
        parameter = torch.nn.Parameter(p)
        parameter.grad = g
        return torch.optim.AdamW([parameter], lr=STEP["lr"], foreach=True).step  # type: ignore[no-any-return]
    step = torch.ones((), device=operands.device)
    v.abs_()  # a mean of squares
    return partial(torch._fused_adamw_, [p], [g], [m], [v], [], [step], amsgrad=False, maximize=False, **STEP)


def _sgd(operands: Operands, n: int, momentum: int = 0) -> Run:
    torch = operands.torch
    parameter = torch.nn.Parameter(_own(operands, n))
    parameter.grad = operands.take(n)
    optimizer = torch.optim.SGD([parameter], lr=STEP["lr"], momentum=0.9 if momentum else 0.0, fused=True)
    return optimizer.step  # type: ignore[no-any-return]


def _transposed(
    operands: Operands,
    batch: int,
    c_in: int,
    c_out: int,
    h: int,
    w: int,
    kernel: int = 2,
    stride: int = 2,
    padding: int = 0,
    groups: int = 1,
    dilation: int = 1,
    layout: str = "nchw",
) -> Run:
    if layout != "nchw":
        raise InputError("conv_transpose2d is timed with images stored channel by channel")
    x, weights = operands.take(batch, c_in, h, w), operands.take(c_in, c_out // groups, kernel, kernel)
    transposed = operands.torch.nn.functional.conv_transpose2d
    return operands.product(partial(transposed, x, weights, None, stride, padding, 0, groups, dilation))


def _batchnorm_training(
    operands: Operands, batch: int, channels: int, pixels: int, layout: str = "nchw", *, backward: bool = False
) -> Run:
    """Of images of one row of pixels, with weights and statistics in fp32 as mixed precision keeps them."""
    torch = operands.torch
    image = operands.take(batch, channels, pixels, 1)
    if layout == "nhwc":
        image = operands.take(batch, pixels, 1, channels).permute(0, 3, 1, 2)
    gamma, beta, mean, variance = (torch.ones(channels, device=operands.device) for _ in range(4))
    normalised = partial(torch.nn.functional.batch_norm, running_mean=mean, running_var=variance, training=True)
    if not backward:
        return partial(normalised, image, weight=gamma, bias=beta)
    inputs = tuple(value.detach().requires_grad_() for value in (image, gamma, beta))
    out = normalised(inputs[0], weight=inputs[1], bias=inputs[2])
    seed = (
        operands.take(*image.shape)
        if layout == "nchw"
        else operands.take(batch, pixels, 1, channels).permute(0, 3, 1, 2)
    )
    return partial(torch.autograd.grad, out, inputs, seed, retain_graph=True)


def _convolution_gradient(
    operands: Operands,
    batch: int,
    c_in: int,
    c_out: int,
    h: int,
    w: int,
    kernel: int = 3,
    stride: int = 1,
    padding: int | None = None,
    groups: int = 1,
    layout: str = "nchw",
    *,
    mask: tuple[bool, bool, bool],
) -> Run:
    pad = (kernel - 1) // 2 if padding is None else padding
    outputs = [(side + 2 * pad - kernel) // stride + 1 for side in (h, w)]

    def images(channels: int, *sides: int) -> Any:
        if layout == "nhwc":
            return operands.take(batch, *sides, channels).permute(0, 3, 1, 2)
        return operands.take(batch, channels, *sides)

    weights = operands.take(c_out, c_in // groups, kernel, kernel)
    if layout == "nhwc":
        weights = operands.take(c_out, kernel, kernel, c_in // groups).permute(0, 3, 1, 2)
    tensors = images(c_out, *outputs), images(c_in, h, w), weights
    sides = [stride] * 2, [pad] * 2, [1, 1]
    return operands.product(
        partial(_aten(operands).convolution_backward, *tensors, None, *sides, False, [0, 0], groups, list(mask))
    )


def _permute(operands: Operands, batch: int, rows: int, cols: int, inner: int) -> Run:
    moved = operands.take(batch, rows, cols, inner).transpose(1, 2)
    if moved.is_contiguous() or inner == 1:
        raise InputError(
            "permute with one row or column moves nothing, and with inner = 1 it is a transpose: neither is timed"
        )
    return moved.contiguous  # type: ignore[no-any-return]


def _add_mixed(operands: Operands, n: int, other: str = "bf16") -> Run:
    return partial(operands.torch.add, operands.take(n), operands.pool.take(other, n))


def _concatenate(operands: Operands, rows: int, cols: int, parts: int = 2, layout: str = "nchw") -> Run:
    if layout == "nhwc":
        images = [operands.take(1, rows, 1, cols).permute(0, 3, 1, 2) for _ in range(parts)]
        return partial(operands.torch.cat, images, 1)
    return partial(operands.torch.cat, [operands.take(rows, cols) for _ in range(parts)], 1)


BUILDERS: dict[str, Callable[..., Run]] = {
    **{name: partial(_activation, call) for name, call in ACTIVATIONS.items()},
    "softmax_backward": _softmax,
    "layernorm_backward": _layernorm,
    "rmsnorm_backward": _rmsnorm,
    "cross_entropy_backward": _cross_entropy,
    "embedding_backward": _embedding,
    "attention_backward": _attention,
    "adamw": _adamw,
    "sgd": _sgd,
    "conv_transpose2d": _transposed,
    "batchnorm_training": _batchnorm_training,
    "batchnorm_backward": partial(_batchnorm_training, backward=True),
    "conv2d_dgrad": partial(_convolution_gradient, mask=(True, False, False)),
    "conv2d_wgrad": partial(_convolution_gradient, mask=(False, True, False)),
    "permute": _permute,
    "add_row": lambda operands, rows, cols: partial(operands.torch.add, operands.take(rows, cols), operands.take(cols)),
    "add_mixed": _add_mixed,
    "concatenate": _concatenate,
    "fill": lambda operands, n: _own(operands, n).zero_,
    "sort": lambda operands, rows, cols: partial(operands.torch.sort, operands.take(rows, cols), -1),
    "topk": lambda operands, rows, cols, k: partial(operands.torch.topk, operands.take(rows, cols), k, -1),
    "cumsum": lambda operands, rows, cols: partial(operands.torch.cumsum, operands.take(rows, cols), -1),
}
