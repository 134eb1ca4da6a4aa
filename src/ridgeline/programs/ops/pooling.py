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
# PyTorch's kernels over channels last: threads of a block, places along a side and channels that a thread takes at most
BLOCK_THREADS, WARP, SIDE_PLACES, THREAD_CHANNELS = 1024.0, 32.0, 2.0, 4.0
SECTOR = 32.0  # bytes that a cache fetches at once
PLANE_THREADS = 256.0  # of a block of the gradient, channel by channel: every plane has blocks of its own
# what a pixel of it costs before it looks at a window, and an idle thread, in windows; of timings on an H200
PIXEL_WINDOWS, IDLE_WINDOWS = 20.0, 4.0


def _power(size: Array) -> Array:
    """The largest power of two up to a size."""
    power: Array = 2.0 ** np.floor(np.log2(size))
    return power


def thread_steps(
    images: Array, channels: Array, h: Array, w: Array, each: Array, fresh: Array, size: float
) -> dict[str, Array]:
    """Steps of a thread over channels last (its places x its channels x steps of `each` place), those of them that find their `size`
    bytes in no cache (`fresh` of each place), and the blocks of all.

    A block has threads along the channels, then along the width, then the height, as many as powers of two fit. Channels that
    share a sector of the cache come with the first of them.
    """
    across = np.minimum(_power(channels), WARP)
    along = np.minimum(_power(w), BLOCK_THREADS / across)
    down = np.minimum(_power(h), BLOCK_THREADS / across / along)
    across = np.minimum(_power(channels), BLOCK_THREADS / along / down)
    slices = np.ceil(channels / (across * THREAD_CHANNELS))
    taken = np.ceil(channels / (across * slices))
    places = np.minimum(np.ceil(w / along), SIDE_PLACES) * np.minimum(np.ceil(h / down), SIDE_PLACES)
    blocks = images * slices * np.ceil(w / (along * SIDE_PLACES)) * np.ceil(h / (down * SIDE_PLACES))
    sectors = taken * np.minimum(across * size / SECTOR, 1.0)
    return {
        "steps": places * taken * each,
        "fetched": places * sectors * fresh,
        "blocks": blocks,
        "lanes": across,
        "side": w,
    }


def _kernel(
    name: str, layout: str, read: Array, written: Array, elements: Array, dtype: str, threads: dict[str, Array]
) -> Kernel:
    """Channels last has kernels of its own, whose threads take several steps."""
    sizes = {"read": read, "written": written, "flops": 0.0, "special": 0.0, "elements": elements, "launches": 1.0}
    if layout == "nchw":
        return Kernel("stream", sizes, name, label(dtype), "stream_copy")
    return Kernel("stream", sizes | threads, f"{name}_{layout}", label(dtype), "stream_copy")


def pool_kernel(
    planes: Array, channels: Array, outputs: tuple[Array, Array], taps: Array, dtype: str, layout: str, read: Array
) -> Kernel:
    """The kernel of a pool: so many planes of so many channels, of which so many bytes are read."""
    count = planes * outputs[0] * outputs[1]
    written = count * (dtype_row(dtype).bytes + PLACE_BYTES)
    each = dtype_row(dtype).bytes
    fresh = np.minimum(read / (each * count), taps)  # pixels of an image over its outputs
    threads = thread_steps(planes / channels, channels, *outputs, taps, fresh, each)
    return _kernel("max_pool", layout, read, written, taps * count, dtype, threads)


def gradient_kernel(
    planes: Array, channels: Array, sides: tuple[Array, Array], outputs: Array, windows: Array, dtype: str, layout: str
) -> Kernel:
    """The kernel of the gradient: every pixel looks at the windows that it may be the largest of."""
    h, w = sides
    each = dtype_row(dtype).bytes
    idle = np.ceil(h * w / PLANE_THREADS) * PLANE_THREADS - h * w if layout == "nchw" else 0.0
    handled = (h * w * (PIXEL_WINDOWS + windows) + idle * IDLE_WINDOWS) / PIXEL_WINDOWS
    read, written = planes * outputs * (each + PLACE_BYTES), planes * h * w * each
    looked = np.ceil(np.sqrt(windows)) ** 2
    fresh = np.minimum(outputs / (h * w), looked)
    threads = thread_steps(planes / channels, channels, h, w, looked, fresh, PLACE_BYTES)
    return _kernel("max_pool_backward", layout, read, written, planes * handled, dtype, threads)


def windows_of(kernel: Array, stride: Array) -> Array:
    """Windows that a pixel lies in on average."""
    windows: Array = (kernel / stride) ** 2
    return windows


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
    planes, taps = batch * channels, kernel * kernel
    outputs, read = planes * ho * wo, planes * pixels
    return work(
        vector={"compare": ((taps - 1) * outputs, "(kernel^2 - 1) batch channels ho wo")},
        read={"x": (read, dtype, "batch channels rows_read columns_read")},
        write={"y": (outputs, dtype, "batch channels ho wo"), "places": (outputs, PLACE, "batch channels ho wo")},
        dtype=dtype,
        kernels=(pool_kernel(planes, channels, (ho, wo), taps, dtype, layout, read * dtype_row(dtype).bytes),),
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
    planes, windows = batch * channels, windows_of(kernel, stride)
    outputs = planes * ho * wo
    return work(
        vector={"add": (outputs, "batch channels ho wo")},
        read={"dy": (outputs, dtype, "batch channels ho wo"), "places": (outputs, PLACE, "batch channels ho wo")},
        write={"dx": (planes * h * w, dtype, "batch channels h w")},
        dtype=dtype,
        kernels=(gradient_kernel(planes, channels, (h, w), ho * wo, windows, dtype, layout),),
    )
