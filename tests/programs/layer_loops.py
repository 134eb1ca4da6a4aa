"""Plain loops of batch norm, convolution gradients and elementwise ops without vector loads, each with a tally of what it does."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from tally import Row, Tally, each


def batchnorm_training(t: Tally, batch: int, channels: int, pixels: int, **_: Any) -> None:
    for c in range(channels):
        for tensor in ("gamma", "beta", "running_mean", "running_var"):
            t.load(tensor, c)
        for b, p in product(range(batch), range(pixels)):
            t.load("x", b, c, p)
            t.do("add", "sub", "mul", "add")  # sums of x and of squared deviations
            t.do("sub", "mul")  # normalise
            t.do("mul", "add")  # affine
            t.store("y", b, c, p)
        t.aside("sqrt")  # 1 / sqrt(var + eps)
        for tensor in ("mean", "rstd", "running_mean", "running_var"):
            t.store(tensor, c)


def batchnorm_backward(t: Tally, batch: int, channels: int, pixels: int, **_: Any) -> None:
    for c in range(channels):
        for tensor in ("gamma", "mean", "rstd"):
            t.load(tensor, c)
        for b, p in product(range(batch), range(pixels)):
            t.load("dy", b, c, p)
            t.load("x", b, c, p)
            t.do("sub", "mul")  # xhat
            t.do("add", "mul", "add")  # sums of dy and of dy xhat
            t.do("sub", "mul", "sub", "mul", "mul")  # (dy - a - xhat b) gamma / sigma
            t.store("dx", b, c, p)
        t.store("dgamma", c)
        t.store("dbeta", c)


def batchnorm_inference(t: Tally, batch: int, channels: int, pixels: int, **_: Any) -> None:
    for c in range(channels):
        for tensor in ("gamma", "beta", "running_mean", "running_var"):
            t.load(tensor, c)
        t.aside("sqrt")
        for b, p in product(range(batch), range(pixels)):
            t.load("x", b, c, p)
            t.do("sub", "mul", "mul", "add")
            t.store("y", b, c, p)


def _windows(h: int, w: int, kernel: int, stride: int, padding: int) -> Any:
    """Every output of a pool with the pixels of its window that lie in the image."""
    ho, wo = ((side + 2 * padding - kernel) // stride + 1 for side in (h, w))
    for y, x in product(range(ho), range(wo)):
        window = product(
            range(y * stride - padding, y * stride - padding + kernel),
            range(x * stride - padding, x * stride - padding + kernel),
        )
        yield (y, x), [(row, column) for row, column in window if 0 <= row < h and 0 <= column < w]


def max_pool2d(t: Tally, batch: int, channels: int, h: int, w: int, kernel: int = 3, stride: int = 2, padding: int = 1, **_: Any) -> None:  # fmt: skip
    for b, c in product(range(batch), range(channels)):
        for output, window in _windows(h, w, kernel, stride, padding):
            for pixel in window:
                t.load("x", b, c, *pixel)
            t.do(*["max"] * (kernel * kernel - 1))  # padding is compared too
            t.store("y", b, c, *output)
            t.store("places", b, c, *output)


def max_pool2d_backward(t: Tally, batch: int, channels: int, h: int, w: int, kernel: int = 3, stride: int = 2, padding: int = 1, **_: Any) -> None:  # fmt: skip
    for b, c in product(range(batch), range(channels)):
        for output, _window in _windows(h, w, kernel, stride, padding):
            t.load("dy", b, c, *output)
            t.load("places", b, c, *output)
            t.do("add")
        for y, x in product(range(h), range(w)):
            t.store("dx", b, c, y, x)


def sum_columns(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for j in range(cols):
        for i in range(rows):
            t.load("x", i, j)
            t.do(*(["add"] if i else []))
        t.store("s", j)


def _taps(batch: int, c_in: int, c_out: int, h: int, w: int, kernel: int, stride: int, groups: int) -> Any:
    """Every output, input channel of its group and tap of a convolution, with the pixel that it meets."""
    pad = (kernel - 1) // 2
    ho, wo = ((side + 2 * pad - kernel) // stride + 1 for side in (h, w))
    inner = c_in // groups
    for b, co, y, x in product(range(batch), range(c_out), range(ho), range(wo)):
        for ci, ky, kx in product(range(inner), range(kernel), range(kernel)):
            channel = co // (c_out // groups) * inner + ci
            yield (b, co, y, x), (co, ci, ky, kx), (b, channel, y * stride + ky - pad, x * stride + kx - pad)


def conv2d_dgrad(t: Tally, batch: int, c_in: int, c_out: int, h: int, w: int, kernel: int = 3, stride: int = 1, groups: int = 1, **_: Any) -> None:  # fmt: skip
    for output, weight, _pixel in _taps(batch, c_in, c_out, h, w, kernel, stride, groups):
        t.load("dy", *output)
        t.load("weights", *weight)
        t.fma()
    for b, c, y, x in product(range(batch), range(c_in), range(h), range(w)):
        t.store("dx", b, c, y, x)


def conv2d_wgrad(t: Tally, batch: int, c_in: int, c_out: int, h: int, w: int, kernel: int = 3, stride: int = 1, groups: int = 1, **_: Any) -> None:  # fmt: skip
    for output, weight, (b, channel, y, x) in _taps(batch, c_in, c_out, h, w, kernel, stride, groups):
        t.load("dy", *output)
        if 0 <= y < h and 0 <= x < w:
            t.load("x", b, channel, y, x)
        t.fma()
        t.store("dW", *weight)


def permute(t: Tally, batch: int, rows: int, cols: int, inner: int, **_: Any) -> None:
    for b, r, c, i in product(range(batch), range(rows), range(cols), range(inner)):
        t.load("x", b, r, c, i)
        t.store("y", b, c, r, i)


def add_row(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i, j in product(range(rows), range(cols)):
        t.load("x", i, j)
        t.load("b", j)
        t.do("add")
        t.store("y", i, j)


def scale_expanded(t: Tally, rows: int, cols: int, **_: Any) -> None:
    for i, j in product(range(rows), range(cols)):
        t.load("x", i)
        t.do("mul")
        t.store("y", i, j)


def stack_permuted(t: Tally, batch: int, rows: int, cols: int, inner: int, parts: int = 3, **_: Any) -> None:
    for part, b, r, c, i in product(range(parts), range(batch), range(rows), range(cols), range(inner)):
        t.load("x", part, b, c, r, i)
        t.store("y", b, r, part, c, i)


def add_mixed(t: Tally, n: int, **_: Any) -> None:
    for i in range(n):
        t.load("a", i)
        t.load("b", i)
        t.do("add")
        t.store("y", i)


def concatenate(t: Tally, rows: int, cols: int, parts: int = 2, **_: Any) -> None:
    for part, i, j in product(range(parts), range(rows), range(cols)):
        t.load("x", part, i, j)
        t.store("y", i, part * cols + j)


def layer_rows() -> list[Row]:
    rows: list[Row] = []

    def row(op: str, loop: Callable[..., None], widths: dict[str, float], **values: Any) -> None:
        rows.append(Row(op, values, loop, widths, 1))

    vectors = each(4, "gamma beta mean rstd running_mean running_var dgamma dbeta")
    for layout in ("nchw", "nhwc"):
        row("batchnorm_training", batchnorm_training, each(2, "x y") | vectors, batch=2, channels=3, pixels=5, layout=layout)  # fmt: skip
    row("batchnorm_backward", batchnorm_backward, each(4, "x dy dx") | vectors, batch=2, channels=3, pixels=5, dtype="fp32")  # fmt: skip
    row(
        "batchnorm_inference",
        batchnorm_inference,
        each(2, "x y") | vectors,
        batch=2,
        channels=3,
        pixels=5,
        layout="nhwc",
    )
    halves = each(2, "x y gamma beta running_mean running_var")
    row(
        "batchnorm_inference",
        batchnorm_inference,
        halves,
        batch=2,
        channels=3,
        pixels=5,
        dtype="fp16",
        parameters="same",
    )
    for sizes in ({}, {"kernel": 2, "padding": 0}, {"kernel": 2, "stride": 3, "padding": 1}):
        image = {"batch": 2, "channels": 3, "h": 6, "w": 5, "layout": "nhwc", **sizes}
        row("max_pool2d", max_pool2d, each(2, "x y") | {"places": 8}, **image)
        row("max_pool2d_backward", max_pool2d_backward, each(2, "dy dx") | {"places": 8}, **image)
    for sizes in ({}, {"kernel": 1, "stride": 2}, {"stride": 2, "groups": 2}):
        image = {"batch": 2, "c_in": 4, "c_out": 6, "h": 5, "w": 4, **sizes}
        row("conv2d_dgrad", conv2d_dgrad, each(2, "dy weights dx"), **image)
        row("conv2d_wgrad", conv2d_wgrad, each(2, "dy x dW"), **image)
    row("permute", permute, each(2, "x y"), batch=2, rows=3, cols=4, inner=5)
    row("add_row", add_row, each(2, "x b y"), rows=3, cols=5)
    row("scale_expanded", scale_expanded, each(2, "x y"), rows=3, cols=5)
    row("stack_permuted", stack_permuted, each(4, "x y"), batch=2, rows=3, cols=4, inner=5, dtype="fp32")
    row("sum_columns", sum_columns, {"x": 2, "s": 4}, rows=3, cols=5, out_dtype="fp32")
    row("add_mixed", add_mixed, {"a": 4, "b": 2, "y": 4}, n=5)
    row("concatenate", concatenate, each(2, "x y"), rows=3, cols=5, parts=3)
    return rows
