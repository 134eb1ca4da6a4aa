"""Convolution over images."""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Literal

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label, result
from ...core.errors import InputError
from ...core.work import Array, Kernel, Work, work
from .registry import Count, Format, Size, op


def output_size(size: Array, kernel: Array, stride: Array, padding: Array, dilation: Array) -> Array:
    """floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1."""
    return np.floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1


MAX_COUNTED = 1 << 20  # taps of one axis that are counted one by one


@lru_cache(maxsize=4096)
def _touched(size: int, kernel: int, stride: int, padding: int, dilation: int, outputs: int) -> int:
    """Places of one axis that some output reads.

    Output i and tap j read place i stride + j dilation - padding. Two pairs meet when they differ by multiples of
    (dilation, -stride) over their greatest common divisor, so outputs x kernel - (outputs - dilation')+ (kernel -
    stride')+ places are distinct; those that fall on the padding do not count, which is looked at where it is cheap.
    """
    if outputs * kernel <= MAX_COUNTED:
        places = np.unique(np.arange(outputs)[:, None] * stride - padding + np.arange(kernel) * dilation)
        return int(np.count_nonzero((places >= 0) & (places < size)))
    common = gcd(stride, dilation)
    shared = max(0, outputs - dilation // common) * max(0, kernel - stride // common)
    return min(size, outputs * kernel - shared)


def touched(size: Array, kernel: Array, stride: Array, padding: Array, dilation: Array, outputs: Array) -> Array:
    """How many places of an axis are read at all: strides beyond the kernel and ragged ends leave some out."""
    columns = np.broadcast_arrays(size, kernel, stride, padding, dilation, outputs)
    if columns[0].ndim == 0:
        return float(_touched(*(int(column) for column in columns)))
    cases, places = np.unique(np.stack([column.ravel() for column in columns]), axis=1, return_inverse=True)
    counts = np.array([_touched(*(int(value) for value in case)) for case in cases.T], dtype=np.float64)
    return counts[places].reshape(columns[0].shape)


@op("conv", "conv", grows="batch")
def conv2d(
    batch: Size,
    c_in: Size,
    c_out: Size,
    h: Size,
    w: Size,
    kernel: Size = 3,
    stride: Size = 1,
    padding: Count | None = None,
    groups: Size = 1,
    dilation: Size = 1,
    dtype: Format = "bf16",
    out_dtype: Format | None = None,
    variant: Literal["direct", "im2col"] = "direct",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """y[batch,c_out,ho,wo] = sum over c_in/groups and kernel^2 of x times weights: 2 batch c_out ho wo (c_in/groups) kernel^2 flops.

    ho = floor((h + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, wo likewise; padding defaults to `same` for
    odd kernels, dilation (kernel - 1) / 2. `direct` (implicit GEMM) reads weights and every pixel some output needs once
    (a stride beyond the kernel leaves pixels out) and writes the output once; `layout` is how images lie in memory (channels
    first or last) and changes expected times alone; `im2col` also writes and reads the unfolded matrix, batch ho wo c_in kernel^2 elements.
    """
    pad = np.floor(dilation * (kernel - 1) / 2) if padding is None else padding
    ho, wo = output_size(h, kernel, stride, pad, dilation), output_size(w, kernel, stride, pad, dilation)
    _check(c_in, c_out, groups, ho, wo)
    out = out_dtype or result(dtype).name
    rows = touched(h, kernel, stride, pad, dilation, ho)
    columns = touched(w, kernel, stride, pad, dilation, wo)
    taps = c_in / groups * kernel * kernel
    outputs = batch * c_out * ho * wo
    matrix = (batch * ho * wo * c_in * kernel * kernel, dtype, "batch ho wo c_in kernel^2")
    unfolded = {"unfolded": matrix} if variant == "im2col" else {}
    sizes = {"images": batch, "c_in": c_in, "c_out": c_out, "h": h, "w": w, "ho": ho, "wo": wo, "kernel": kernel}
    sizes |= {"stride": stride, "groups": groups, "dilation": dilation}
    sizes |= {"x": dtype_row(dtype).bytes, "y": dtype_row(out).bytes}
    return work(
        matrix={"multiply-add": (2 * outputs * taps, "2 batch c_out ho wo (c_in/groups) kernel^2")},
        read={
            "x": (batch * c_in * rows * columns, dtype, "batch c_in rows_read columns_read"),
            "weights": (c_out * taps, dtype, "c_out (c_in/groups) kernel^2"),
            **unfolded,
        },
        write={"y": (outputs, out, "batch c_out ho wo"), **unfolded},
        sizes={"x": (batch * c_in * h * w, dtype)},
        dtype=dtype,
        notes=(f"{variant}; output {_size(ho)} x {_size(wo)}",),
        waits={"launch": 2.0 if unfolded else 1.0},
        kernels=() if unfolded else (Kernel("conv", sizes, layout, label(dtype)),),
    )


@op("conv", "conv", grows="batch")
def conv_transpose2d(
    batch: Size,
    c_in: Size,
    c_out: Size,
    h: Size,
    w: Size,
    kernel: Size = 2,
    stride: Size = 2,
    padding: Count = 0,
    groups: Size = 1,
    dilation: Size = 1,
    dtype: Format = "bf16",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """The gradient of conv2d as a layer (deconvolution): every input pixel adds to kernel^2 outputs of c_out/groups channels.

    2 batch c_in h w (c_out/groups) kernel^2 flops; ho = (h - 1) stride - 2 padding + dilation (kernel - 1) + 1, wo
    likewise. x and weights read once, y written once.
    """
    ho = (h - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
    wo = (w - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1
    _check(c_in, c_out, groups, ho, wo)
    out = result(dtype).name
    taps = c_out / groups * kernel * kernel
    # as a convolution over the pixels of y, each of which sees kernel / stride taps a side
    sizes = {"images": batch, "c_in": c_in, "c_out": c_out, "h": h, "w": w, "ho": ho, "wo": wo}
    sizes |= {"kernel": kernel / stride, "stride": 1.0, "groups": groups, "dilation": dilation, "spread": stride}
    sizes |= {"x": dtype_row(dtype).bytes, "y": dtype_row(out).bytes}
    return work(
        matrix={"multiply-add": (2 * batch * c_in * h * w * taps, "2 batch c_in h w (c_out/groups) kernel^2")},
        read={
            "x": (batch * c_in * h * w, dtype, "batch c_in h w"),
            "weights": (c_in * taps, dtype, "c_in (c_out/groups) kernel^2"),
        },
        write={"y": (batch * c_out * ho * wo, out, "batch c_out ho wo")},
        dtype=dtype,
        notes=(f"output {_size(ho)} x {_size(wo)}",),
        kernels=(Kernel("conv", sizes, f"transposed_{layout}", label(dtype)),),
    )


@op("conv", "conv", grows="batch")
def conv2d_dgrad(
    batch: Size,
    c_in: Size,
    c_out: Size,
    h: Size,
    w: Size,
    kernel: Size = 3,
    stride: Size = 1,
    padding: Count | None = None,
    groups: Size = 1,
    dtype: Format = "bf16",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """dx of conv2d with these sizes, from dy and the weights: as many flops as the forward pass.

    dy[batch,c_out,ho,wo] and the weights read once, dx[batch,c_in,h,w] written once.
    """
    ho, wo, flops = _passes(batch, c_in, c_out, h, w, kernel, stride, padding, groups)
    return work(
        matrix={"multiply-add": (flops, "2 batch c_out ho wo (c_in/groups) kernel^2")},
        read={
            "dy": (batch * c_out * ho * wo, dtype, "batch c_out ho wo"),
            "weights": (c_out * c_in / groups * kernel * kernel, dtype, "c_out (c_in/groups) kernel^2"),
        },
        write={"dx": (batch * c_in * h * w, dtype, "batch c_in h w")},
        dtype=dtype,
        # over the pixels of dx, each of which sees kernel / stride taps a side
        kernels=gradient_kernel(
            f"dgrad_{layout}", batch, c_out, c_in, (ho, wo), (h, w), kernel / stride, 1.0, groups, dtype, spread=stride
        ),
    )


@op("conv", "conv", grows="batch")
def conv2d_wgrad(
    batch: Size,
    c_in: Size,
    c_out: Size,
    h: Size,
    w: Size,
    kernel: Size = 3,
    stride: Size = 1,
    padding: Count | None = None,
    groups: Size = 1,
    dtype: Format = "bf16",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """dW of conv2d with these sizes, from x and dy: as many flops as the forward pass.

    dy and every pixel of x that some output needs read once, dW[c_out,c_in/groups,kernel,kernel] written once.
    """
    ho, wo, flops = _passes(batch, c_in, c_out, h, w, kernel, stride, padding, groups)
    pad = np.floor((kernel - 1) / 2) if padding is None else padding
    pixels = touched(h, kernel, stride, pad, 1.0, ho) * touched(w, kernel, stride, pad, 1.0, wo)
    return work(
        matrix={"multiply-add": (flops, "2 batch c_out ho wo (c_in/groups) kernel^2")},
        read={
            "x": (batch * c_in * pixels, dtype, "batch c_in rows_read columns_read"),
            "dy": (batch * c_out * ho * wo, dtype, "batch c_out ho wo"),
        },
        write={"dW": (c_out * c_in / groups * kernel * kernel, dtype, "c_out (c_in/groups) kernel^2")},
        sizes={"x": (batch * c_in * h * w, dtype)},
        dtype=dtype,
        kernels=gradient_kernel(
            f"wgrad_{layout}", batch, c_in, c_out, (h, w), (ho, wo), kernel, stride, groups, dtype, summed=1.0
        ),
    )


def gradient_kernel(
    op_name: str, images: Array, c_in: Array, c_out: Array, image: tuple[Array, Array], output: tuple[Array, Array],
    kernel: Array, stride: Array, groups: Array, dtype: str, **way: Array,
) -> tuple[Kernel, ...]:  # fmt: skip
    """A pass of a backward convolution by the sizes of the forward convolution that it resembles.

    `spread` is the stride that the gradient of the images spreads dy by; `summed` is 1 for the gradient of the weights,
    which is summed over all outputs.
    """
    sizes = {
        "images": images,
        "c_in": c_in,
        "c_out": c_out,
        "h": image[0],
        "w": image[1],
        "ho": output[0],
        "wo": output[1],
    }
    sizes |= {"kernel": kernel, "stride": stride, "groups": groups, "dilation": 1.0, **way}
    width = dtype_row(dtype).bytes
    return (Kernel("conv", {**sizes, "x": width, "y": width}, op_name, label(dtype)),)


def _passes(
    batch: Array, c_in: Array, c_out: Array, h: Array, w: Array, kernel: Array, stride: Array, padding: Array | None,
    groups: Array,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Outputs a side and the flops of any of the three passes of a convolution."""
    pad = np.floor((kernel - 1) / 2) if padding is None else padding
    ho, wo = output_size(h, kernel, stride, pad, 1.0), output_size(w, kernel, stride, pad, 1.0)
    _check(c_in, c_out, groups, ho, wo)
    return ho, wo, 2 * batch * c_out * ho * wo * (c_in / groups) * kernel * kernel


def _check(c_in: Array, c_out: Array, groups: Array, ho: Array, wo: Array) -> None:
    if np.any(np.asarray(ho) < 1) or np.any(np.asarray(wo) < 1):
        raise InputError(
            "conv2d: the kernel does not fit the padded image, so there is no output; use a larger h, w or padding"
        )
    if np.any(np.asarray(c_in % groups) != 0) or np.any(np.asarray(c_out % groups) != 0):
        raise InputError("conv2d: groups must divide c_in and c_out")


def _size(value: Array) -> str:
    return f"{float(value):g}" if np.ndim(value) == 0 else "varies"
