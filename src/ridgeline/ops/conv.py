"""Convolution over images."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..dtypes import result
from ..errors import InputError
from ..work import Array, Work, work
from .registry import Count, Format, Size, op


def output_size(size: Array, kernel: Array, stride: Array, padding: Array, dilation: Array) -> Array:
    """floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1."""
    return np.floor((size + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1


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
) -> Work:
    """y[batch,c_out,ho,wo] = sum over c_in/groups and kernel^2 of x times weights: 2 batch c_out ho wo (c_in/groups) kernel^2 flops.

    ho = floor((h + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, wo likewise; padding defaults to `same` for
    odd kernels, dilation (kernel - 1) / 2. `direct` (implicit GEMM) reads image and weights once and writes the
    output once; `im2col` also writes and reads the unfolded matrix, batch ho wo c_in kernel^2 elements.
    """
    pad = np.floor(dilation * (kernel - 1) / 2) if padding is None else padding
    ho, wo = output_size(h, kernel, stride, pad, dilation), output_size(w, kernel, stride, pad, dilation)
    if np.any(np.asarray(ho) < 1) or np.any(np.asarray(wo) < 1):
        raise InputError(
            "conv2d: the kernel does not fit the padded image, so there is no output; use a larger h, w or padding"
        )
    if np.any(np.asarray(c_in % groups) != 0) or np.any(np.asarray(c_out % groups) != 0):
        raise InputError("conv2d: groups must divide c_in and c_out")
    taps = c_in / groups * kernel * kernel
    outputs = batch * c_out * ho * wo
    unfolded = (batch * ho * wo * c_in * kernel * kernel, dtype, "batch ho wo c_in kernel^2")
    column = {"unfolded": unfolded} if variant == "im2col" else {}
    return work(
        matrix={"multiply-add": (2 * outputs * taps, "2 batch c_out ho wo (c_in/groups) kernel^2")},
        read={
            "x": (batch * c_in * h * w, dtype, "batch c_in h w"),
            "weights": (c_out * taps, dtype, "c_out (c_in/groups) kernel^2"),
            **column,
        },
        write={"y": (outputs, out_dtype or result(dtype).name, "batch c_out ho wo"), **column},
        dtype=dtype,
        notes=(f"{variant}; output {_size(ho)} x {_size(wo)}",),
        waits={"launch": 2.0 if column else 1.0},
    )


def _size(value: Array) -> str:
    return f"{float(value):g}" if np.ndim(value) == 0 else "varies"
