"""Batch norm of images: with the statistics of a training step, its backward pass, and with stored ones in inference.

The channels are the rows of these kernels: the images' pixels of one channel are reduced, then read again and normalised.
A channel that fits on chip is read once, which is what the bytes count.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from ...core.dtypes import dtype as dtype_row
from ...core.work import Array, Kernel, Work, work
from .kernels import row_kernel
from .registry import Format, Size, op

NATIVE = "_native"  # PyTorch's own kernels, where cuDNN has the others


def _kernel(
    name: str, layout: str, batch: Array, channels: Array, pixels: Array, dtype: str, fresh: float, like: str
) -> tuple[Kernel, ...]:
    """Channels last is reduced by other kernels, and bf16, which cuDNN leaves to PyTorch, by kernels of its own.

    The pixels of one image are what lies in memory in one piece.
    """
    library = NATIVE if dtype_row(dtype).name == "bf16" else ""
    op_name = name + library + ("" if layout == "nchw" else f"_{layout}")
    (kernel,) = row_kernel(op_name, channels, batch * pixels, dtype, dtype, fresh=fresh)
    return (replace(kernel, sizes={**kernel.sizes, "pixels": pixels}, like=like),)


@op("rows", "norm")
def batchnorm_training(
    batch: Size, channels: Size, pixels: Size, dtype: Format = "bf16", layout: Literal["nchw", "nhwc"] = "nchw"
) -> Work:
    """y = (x - mean) / sqrt(var + eps) gamma + beta over each channel of batch x pixels values. 8 flops per element.

    Mean and variance 4, normalise 2, affine 2. x read, y written; of each channel gamma and beta read in fp32, mean and
    1/sigma kept for the backward pass, the running mean and variance updated.
    """
    n = batch * channels * pixels
    vector = (channels, "fp32", "channels")
    return work(
        vector={"batch norm": (8 * n, "8 batch channels pixels")},
        special=channels,
        read={
            "x": (n, dtype, "batch channels pixels"),
            **dict.fromkeys(("gamma", "beta", "running_mean", "running_var"), vector),
        },
        write={
            "y": (n, dtype, "batch channels pixels"),
            **dict.fromkeys(("mean", "rstd", "running_mean", "running_var"), vector),
        },
        dtype=dtype,
        kernels=_kernel("batchnorm_training", layout, batch, channels, pixels, dtype, 1.0, "layernorm"),
    )


@op("rows", "norm")
def batchnorm_inference(
    batch: Size,
    channels: Size,
    pixels: Size,
    dtype: Format = "bf16",
    parameters: Literal["fp32", "same"] = "fp32",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """y = (x - mean) / sqrt(var + eps) gamma + beta with stored statistics of each channel. 4 flops per element.

    Normalise 2, affine 2; a root per channel. x and four vectors of parameters (fp32, or the format of the images) read, y written.
    """
    n = batch * channels * pixels
    vector = (channels, "fp32" if parameters == "fp32" else dtype, "channels")
    # cuDNN takes no bf16 images, and no parameters narrower than fp32
    narrow = parameters == "same" and dtype_row(dtype).bits < dtype_row("fp32").bits
    by_torch = dtype_row(dtype).name == "bf16" or narrow
    return work(
        vector={"batch norm": (4 * n, "4 batch channels pixels")},
        special=channels,
        read={
            "x": (n, dtype, "batch channels pixels"),
            **dict.fromkeys(("gamma", "beta", "running_mean", "running_var"), vector),
        },
        write={"y": (n, dtype, "batch channels pixels")},
        dtype=dtype,
        kernels=inference_kernel(batch, channels, pixels, dtype, layout, NATIVE if by_torch else ""),
    )


def inference_kernel(
    batch: Array, channels: Array, pixels: Array, dtype: str, layout: str, library: str
) -> tuple[Kernel, ...]:
    """A plane of an image is a row of the kernel; channels last, the channels of a pixel are, or by cuDNN an entire image."""
    rows, cols = (batch * channels, pixels) if layout == "nchw" else (batch * pixels, channels)
    if layout == "nhwc" and not library:
        rows, cols = batch, channels * pixels
    name = "batchnorm_inference" + library + ("" if layout == "nchw" else f"_{layout}")
    (kernel,) = row_kernel(name, rows, cols, dtype, dtype)
    return (replace(kernel, like="batchnorm"),)


@op("rows", "norm")
def batchnorm_backward(
    batch: Size, channels: Size, pixels: Size, dtype: Format = "bf16", layout: Literal["nchw", "nhwc"] = "nchw"
) -> Work:
    """dx = gamma/sigma (dy - mean dy - xhat mean(dy xhat)); dgamma = sum dy xhat, dbeta = sum dy. 10 flops per element.

    xhat 2, the two sums 3, dx 5. dy and x read, dx written; per channel gamma, mean and 1/sigma read, dgamma and dbeta written.
    """
    n = batch * channels * pixels
    vector = (channels, "fp32", "channels")
    return work(
        vector={"batch norm backward": (10 * n, "10 batch channels pixels")},
        read={
            **dict.fromkeys(("dy", "x"), (n, dtype, "batch channels pixels")),
            **dict.fromkeys(("gamma", "mean", "rstd"), vector),
        },
        write={"dx": (n, dtype, "batch channels pixels"), **dict.fromkeys(("dgamma", "dbeta"), vector)},
        dtype=dtype,
        kernels=_kernel("batchnorm_backward", layout, batch, channels, pixels, dtype, 2.0, "layernorm_backward"),
    )
