"""Pooling over images by the largest value of a window, and its gradient.

PyTorch's kernels keep the 64-bit place of every maximum for the backward pass, also where there will be none.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.errors import InputError
from ...core.work import Array, Kernel, Work, work
from .convolutions import output_size, touched
from .registry import Count, Format, Size, op

PLACE = "fp64"  # as wide as the 64-bit place of a maximum
PLACE_BYTES = 8.0


def pool_kernel(name: str, layout: str, read: Array, written: Array, elements: Array, dtype: str) -> Kernel:
    """The kernel of a pool or of its gradient; channels last has kernels of its own."""
    sizes = {"read": read, "written": written, "flops": 0.0, "special": 0.0, "elements": elements, "launches": 1.0}
    return Kernel("stream", sizes, name if layout == "nchw" else f"{name}_{layout}", label(dtype))


def _sides(h: Array, w: Array, kernel: Array, stride: Array, padding: Array | None) -> tuple[Array, Array, Array]:
    """Outputs along both sides, and the pixels of an image that some window holds; half the window is padding unless given."""
    pad = np.floor(kernel / 2) if padding is None else padding
    if np.any(2 * pad > kernel):
        raise InputError("padding of a pool must be at most half its kernel: a window would hold no pixel")
    if np.any((h + 2 * pad < kernel) | (w + 2 * pad < kernel)):
        raise InputError("kernel of a pool is larger than the padded image; use a smaller kernel or a larger padding")
    ho, wo = (output_size(side, kernel, stride, pad, 1) for side in (h, w))
    return ho, wo, touched(h, kernel, stride, pad, 1, ho) * touched(w, kernel, stride, pad, 1, wo)


@op("stream", "elementwise", grows="batch")
def max_pool2d(
    batch: Size,
    channels: Size,
    h: Size,
    w: Size,
    kernel: Size = 3,
    stride: Size = 2,
    padding: Count | None = None,
    dtype: Format = "bf16",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """y = the largest value of each window. kernel^2 - 1 flops per output (comparisons).

    Every pixel in a window read once, y and a 64-bit place per output written.
    """
    ho, wo, pixels = _sides(h, w, kernel, stride, padding)
    outputs, each, taps = batch * channels * ho * wo, dtype_row(dtype).bytes, kernel * kernel
    read = batch * channels * pixels
    return work(
        vector={"compare": ((taps - 1) * outputs, "(kernel^2 - 1) batch channels Ho Wo")},
        read={"x": (read, dtype, "batch channels pixels in a window")},
        write={"y": (outputs, dtype, "batch channels Ho Wo"), "places": (outputs, PLACE, "batch channels Ho Wo")},
        dtype=dtype,
        kernels=(pool_kernel("max_pool", layout, read * each, outputs * (each + PLACE_BYTES), taps * outputs, dtype),),
    )


@op("stream", "elementwise", grows="batch")
def max_pool2d_backward(
    batch: Size,
    channels: Size,
    h: Size,
    w: Size,
    kernel: Size = 3,
    stride: Size = 2,
    padding: Count | None = None,
    dtype: Format = "bf16",
    layout: Literal["nchw", "nhwc"] = "nchw",
) -> Work:
    """dx = dy added at the place of each maximum. 1 flop per output; dy and the 64-bit places read, dx of h x w written."""
    ho, wo, _ = _sides(h, w, kernel, stride, padding)
    outputs, each, image = batch * channels * ho * wo, dtype_row(dtype).bytes, batch * channels * h * w
    return work(
        vector={"add": (outputs, "batch channels Ho Wo")},
        read={"dy": (outputs, dtype, "batch channels Ho Wo"), "places": (outputs, PLACE, "batch channels Ho Wo")},
        write={"dx": (image, dtype, "batch channels h w")},
        dtype=dtype,
        kernels=(pool_kernel("max_pool_backward", layout, outputs * (each + PLACE_BYTES), image * each, image, dtype),),
    )
