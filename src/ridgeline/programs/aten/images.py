"""Images: pooling, interpolation, padding, unfolding; each pixel of the input read once, of the result written once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.timeline import Tensor
from ...core.work import Work
from ..ops.pooling import gradient_kernel, pool_kernel, windows_of
from .arguments import Arguments, Missing, elements
from .building import BLOCK, streamed
from .convolution import channels_last
from .counted import Rule
from .formats import REAL, known
from .memory import copied, result, rows_first

MAX_ADDED = 8.0  # gradients that are added to one pixel at once without waiting for each other
ADAPTIVE_BLOCKS = 4.0  # blocks of an adaptive pool, of 256 threads, that make up one of BLOCK
MIN_CHANNELS = {"bilinear": 16, "nearest": 4}  # from which images with channels last have a kernel of their own
TAPS = {
    "nearest": 0.0,
    "linear": 3.0,
    "bilinear": 11.0,
    "trilinear": 23.0,
    "bicubic": 39.0,
}  # flops per interpolated pixel


def _expanded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return values * count if len(values) == 1 else values


def _sides(arguments: Arguments) -> int:
    """Dimensions of the images, which the operator's name says."""
    return next((count for count in (1, 2, 3) if f"{count}d" in arguments.base), 2)


def _pooled(arguments: Arguments, x: Tensor) -> tuple[tuple[int, ...], int]:
    """The shape of a pooled image and the taps of its window.

    A side is floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, rounded up where ceil_mode asks for it, as
    long as the last window starts inside the padded image.
    """
    sides = _sides(arguments)
    kernel = _expanded(arguments.integers(1, "kernel_size"), sides)
    stride = _expanded(arguments.integers(2, "stride", ()) or kernel, sides)
    padding = _expanded(arguments.integers(3, "padding", (0,)), sides)
    largest = "max" in arguments.base
    dilation = _expanded(arguments.integers(4, "dilation", (1,)), sides) if largest else (1,) * sides
    up = arguments.flag(5 if largest else 4, "ceil_mode", False)
    if len(x.shape) < sides or any(len(values) != sides for values in (kernel, stride, padding, dilation)):
        raise Missing(f"a window of {kernel} does not fit {x.shape}")
    if min(stride) < 1:
        raise Missing(f"argument 2 (stride) is {stride}")
    shape = []
    for size, taps, step, pad, spread in zip(x.shape[-sides:], kernel, stride, padding, dilation, strict=True):
        room = size + 2 * pad - spread * (taps - 1) - 1
        count = (-(-room // step) if up else room // step) + 1
        if up and (count - 1) * step >= size + pad:
            count -= 1
        shape.append(count)
    return (*x.shape[:-sides], *shape), _taps(kernel, x)


def _taps(kernel: tuple[int, ...], x: Tensor) -> int:
    """Pixels of a window: one larger than the image, which ceil_mode allows, ends with it."""
    return prod(min(taps, size) for taps, size in zip(kernel, x.shape[-len(kernel) :], strict=True))


def _pool(arguments: Arguments) -> Work:
    """max_pool2d_with_indices(x, kernel, ...), avg_pool2d: taps - 1 flops per result; of a maximum the 64-bit places too."""
    x = arguments.tensor(0)
    if arguments.outputs:
        out = arguments.outputs[0]
        taps = _taps(_expanded(arguments.integers(1, "kernel_size"), _sides(arguments)), x)
    else:
        shape, taps = _pooled(arguments, x)
        out = result(arguments, shape, x.dtype)
    write: dict[str, Tensor | tuple[float, str]] = {"y": out}
    if arguments.base.endswith("_with_indices"):
        write["places"] = (float(elements(out)), "int64")
    work = streamed(
        arguments.base, {"x": x}, write, known(x), max(taps - 1.0, 1.0) * elements(out), op=_by_layout(arguments.base, x),
        further={"piece": float(taps)},
    )  # fmt: skip
    if "places" not in write or not _timed_image(x) or not elements(out):
        return work
    form, layout = known(x).copied, "nhwc" if channels_last(x) else "nchw"
    read = float(elements(x)) * known(x).bytes
    planes, sides = float(x.shape[0] * x.shape[1]), (float(out.shape[2]), float(out.shape[3]))
    kernel = pool_kernel(planes, float(x.shape[1]), sides, float(taps), form, layout, read)
    return replace(work, kernels=(kernel,))


def _timed_image(x: Tensor) -> bool:
    """Whether these are images as they are timed: batches of channels of two sides, of real numbers."""
    return len(x.shape) == 4 and known(x).kind == REAL and min(x.shape) > 0


def _adaptive(arguments: Arguments) -> Work:
    """adaptive_avg_pool2d(x, size): each pixel added once, one division per result."""
    x = arguments.tensor(0)
    sides = _sides(arguments)
    sizes = arguments.integers(1, "output_size") if not arguments.outputs else ()
    out = result(arguments, (*x.shape[: len(x.shape) - sides], *_expanded(sizes, sides)), x.dtype)
    write: dict[str, Tensor | tuple[float, str]] = {"y": out}
    if "max" in arguments.base:
        write["places"] = (float(elements(out)), "int64")
    family = "reduce" if elements(out) < elements(x) else "stream"
    return streamed(
        arguments.base.strip("_"), {"x": x}, write, known(x), float(elements(x)), family=family,
        further=_windows(out, x),
    )  # fmt: skip


def _windows(out: Tensor, x: Tensor) -> dict[str, float]:
    """A block takes an image of one channel, each of its threads a window, pixel after pixel."""
    planes = prod(x.shape[:2])
    return {"steps": elements(x) / max(elements(out), 1), "blocks": planes / ADAPTIVE_BLOCKS}


def _pool_backward(arguments: Arguments) -> Work:
    """The gradient of a pool: dy (of a maximum its places too) read, dx written, one addition per tap or place.

    max_pool2d_with_indices_backward(dy, x, kernel, stride, padding, dilation, ceil_mode, indices).
    """
    dy, x = arguments.tensor(0), arguments.tensor(1)
    reads: dict[str, Tensor | tuple[float, str]] = {"dy": dy}
    adds = float(elements(x))
    if "max" in arguments.base:
        indices = next(
            (item for item in arguments.tensors[2:] if item.shape == dy.shape and item.dtype == "int64"), None
        )
        reads["places"] = indices or (float(elements(dy)), "int64")
        adds = float(elements(dy))
    name, taps = arguments.base.strip("_"), elements(x) / max(elements(dy), 1)
    further = _windows(dy, x) if "adaptive" in name else {"piece": taps}
    work = streamed(
        name, reads, {"dx": Tensor(x.shape, dy.dtype)}, known(dy), adds, op=_by_layout(name, x), further=further
    )
    if arguments.base != "max_pool2d_with_indices_backward" or not _timed_image(x) or not elements(dy):
        return work
    kernel = _expanded(arguments.integers(2, "kernel_size"), 2)
    stride = _expanded(arguments.integers(3, "stride", ()) or kernel, 2)
    windows = prod(windows_of(size, step) for size, step in zip(kernel, stride, strict=True)) ** 0.5
    planes, sides = float(x.shape[0] * x.shape[1]), (float(x.shape[2]), float(x.shape[3]))
    outputs, layout = elements(dy) / planes, "nhwc" if channels_last(x) else "nchw"
    gradient = gradient_kernel(planes, float(x.shape[1]), sides, outputs, windows, known(dy).copied, layout)
    return replace(work, kernels=(gradient,))


def _by_layout(name: str, x: Tensor) -> str:
    """The kernel of an operator on images: those with channels last have kernels of their own."""
    return f"{name}_nhwc" if _channels_together(name, x) else name


def _channels_together(name: str, x: Tensor) -> bool:
    """Whether the kernel takes the channels of a pixel together."""
    least = next((count for method, count in MIN_CHANNELS.items() if method in name), 1)
    return channels_last(x) and x.shape[1] >= least


def _loops(name: str, out: Tensor, x: Tensor) -> dict[str, float]:
    """How much larger the image gets; where a thread blends a pixel of all images and channels, one after the other, its steps and
    the blocks of such threads."""
    scale = {"piece": elements(out) / max(elements(x), 1)}
    if len(out.shape) < 3 or "nearest2d" in name or "nearest_exact2d" in name or _channels_together(name, x):
        return scale
    if "nearest" in name:  # of series and volumes: a place of one channel in all of them
        return {**scale, "steps": float(out.shape[0]), "blocks": prod(out.shape[1:]) / BLOCK}
    return {**scale, "steps": float(out.shape[0] * out.shape[1]), "blocks": prod(out.shape[2:]) / BLOCK}


def _method(base: str) -> float:
    return next((flops for name, flops in reversed(TAPS.items()) if name in base), 11.0)


def _upsample(arguments: Arguments) -> Work:
    """upsample_bilinear2d(x, size, ...): x read once, the result written; bilinear 3 per blend of two, three blends, 2 weights."""
    x = arguments.tensor(0)
    sides = _sides(arguments)
    sizes = arguments.integers(1, "output_size") if not arguments.outputs else ()
    out = result(arguments, (*x.shape[: len(x.shape) - sides], *sizes), x.dtype)
    if len(out.shape) != len(x.shape):
        raise Missing("argument 1 (output_size) was not recorded")
    name = arguments.base.strip("_")
    flops = _method(name) * elements(out)
    work = streamed(name, {"x": x}, {"y": out}, known(x), flops, op=_by_layout(name, x), further=_loops(name, out, x))
    return _in_order(work, name, x, out)


def _in_order(work: Work, name: str, x: Tensor, out: Tensor) -> Work:
    """Nearest pixels of few channels that lie together are brought into the order of channels and back: two kernels more, and no
    more work than the operator has."""
    if "nearest" not in name or not channels_last(x) or _channels_together(name, x):
        return work
    before, behind = copied("contiguous", x, rows_first(x)), copied("copy", rows_first(out), out)
    return replace(work, kernels=(*before.kernels, *work.kernels, *behind.kernels))


def _upsample_backward(arguments: Arguments) -> Work:
    """upsample_bilinear2d_backward(dy, output size, input size, ...): dy read, dx written."""
    dy = arguments.tensor(0)
    out = result(arguments, arguments.integers(2, "input_size", ()) or None, dy.dtype)
    name, scale = arguments.base.strip("_"), elements(dy) / max(elements(out), 1)
    together = _channels_together(name, dy)
    waiting = 1.0 if "nearest" in name or together else max(scale / MAX_ADDED, 1.0)
    further = {"piece": scale}
    if "nearest" in name and not together and len(out.shape) > 2:
        # a thread adds what belongs to a pixel of all images, one after the other
        further |= {"steps": out.shape[0] * max(scale, 1.0), "blocks": prod(out.shape[1:]) / BLOCK}
    elif len(out.shape) in (3, 5):
        further = _loops(name, dy, out)
    work = streamed(
        name, {"dy": dy}, {"dx": out}, known(dy), max(_method(name), 1.0) * elements(dy), op=_by_layout(name, dy),
        count=waiting * elements(dy), further=further,
    )  # fmt: skip
    return _in_order(work, name, dy, out)


def _pad(arguments: Arguments) -> Work:
    """constant_pad_nd(x, pads): x read, the larger result written; pads come in pairs from the last dimension."""
    x = arguments.tensor(0)
    pads = arguments.integers(1, "pad")
    if len(pads) % 2 or len(pads) > 2 * len(x.shape):
        raise Missing(f"pads {pads} do not fit {x.shape}")
    shape = list(x.shape)
    for pair in range(len(pads) // 2):
        shape[len(shape) - 1 - pair] += pads[2 * pair] + pads[2 * pair + 1]
    out = result(arguments, tuple(shape), x.dtype)
    taken: tuple[float, str] = (float(min(elements(x), elements(out))), x.dtype)
    return streamed(arguments.base, {"x": taken}, {"y": out}, known(x), count=float(elements(out)))


def _pad_backward(arguments: Arguments) -> Work:
    """The gradient of a padding: dy read and added up into dx."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    return streamed(arguments.base, {"dy": dy}, {"dx": Tensor(x.shape, dy.dtype)}, known(dy), float(elements(dy)))


def _unfold(arguments: Arguments) -> Work:
    """im2col(x, kernel, dilation, padding, stride): x read once, every tap of every output written."""
    x = arguments.tensor(0)
    if arguments.outputs:
        out = arguments.outputs[0]
    else:
        kernel, dilation, padding, stride = (
            _expanded(arguments.integers(place, what), 2)
            for place, what in ((1, "kernel_size"), (2, "dilation"), (3, "padding"), (4, "stride"))
        )
        rows = zip(x.shape[-2:], kernel, dilation, padding, stride, strict=True)
        outputs = prod((size + 2 * pad - spread * (taps - 1) - 1) // step + 1 for size, taps, spread, pad, step in rows)
        out = Tensor((*x.shape[:-3], x.shape[-3] * prod(kernel), outputs), x.dtype)
    on_gpu = arguments.settings.device == "cuda"
    images = float(prod(x.shape[:-3])) if on_gpu else 1.0  # a GPU runs a kernel for each
    return streamed("im2col", {"x": x}, {"y": out}, known(x), count=float(elements(out)), launches=images)


def _fold(arguments: Arguments) -> Work:
    """col2im(columns, size, kernel, ...): the columns read and added up into images."""
    x, kernel = arguments.tensor(0), _expanded(arguments.integers(2, "kernel_size"), 2)
    size = arguments.integers(1, "output_size")
    channels = x.shape[-2] // max(prod(kernel), 1)
    out = result(arguments, (*x.shape[:-2], channels, *size), x.dtype)
    return streamed("col2im", {"x": x}, {"y": out}, known(x), float(elements(x)))


def _grid_sample(arguments: Arguments) -> Work:
    """grid_sampler_2d(x, grid, ...): 4 pixels blended per point of the grid and channel, 11 flops each."""
    x, grid = arguments.tensor(0), arguments.tensor(1)
    points = elements(grid) // max(grid.shape[-1] if grid.shape else 1, 1)
    size = float(points * (x.shape[1] if len(x.shape) > 1 else 1))
    return streamed(
        "grid_sample", {"x": x, "grid": grid}, {"y": (size, x.dtype)}, known(x), 11.0 * size,
        further=_channel_after_channel(x, points),
    )  # fmt: skip


def _channel_after_channel(x: Tensor, points: float) -> dict[str, float]:
    """A thread takes a point of the grid, and its channels one after the other."""
    return {"steps": float(x.shape[1] if len(x.shape) > 1 else 1), "blocks": points / BLOCK}


def _grid_sample_backward(arguments: Arguments) -> Work:
    """grid_sampler_2d_backward(dy, x, grid, ...): dy spread over 4 pixels, 8 flops, and the gradient of the grid from 4, 14 flops.

    dx is read and written by additions; zeros in it are written by another operator that it calls.
    """
    dy, x, grid = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    reads = {"dy": dy, "x": x, "grid": grid}
    points = elements(grid) / max(grid.shape[-1] if grid.shape else 1, 1)
    return streamed(
        "grid_sample_backward", reads, {"dx": x, "dgrid": grid}, known(x), 22.0 * elements(dy),
        further=_channel_after_channel(x, points),
    )  # fmt: skip


POOLS = ("max_pool{}d_with_indices", "avg_pool{}d", "max_pool{}d", "mkldnn_max_pool{}d", "quantized_max_pool{}d")
ADAPTIVE = ("adaptive_avg_pool{}d", "_adaptive_avg_pool{}d", "adaptive_max_pool{}d", "mkldnn_adaptive_avg_pool{}d")
BACKWARDS = (
    "max_pool{}d_with_indices_backward", "avg_pool{}d_backward", "_adaptive_avg_pool{}d_backward",
    "adaptive_max_pool{}d_backward", "mkldnn_max_pool{}d_backward",
)  # fmt: skip
PADS = ("reflection_pad{}d", "replication_pad{}d")
UPSAMPLES = (
    "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
    "upsample_trilinear3d", "upsample_bicubic2d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa",
)  # fmt: skip


def _each(names: tuple[str, ...], rule: Rule, suffix: str = "") -> dict[str, Rule]:
    return {name.format(sides) + suffix: rule for name in names for sides in (1, 2, 3)}


RULES: dict[str, Rule] = {
    **_each(POOLS, _pool), **_each(ADAPTIVE, _adaptive), **_each(BACKWARDS, _pool_backward),
    **_each(PADS, _pad), **_each(PADS, _pad_backward, "_backward"), "constant_pad_nd": _pad,
    **dict.fromkeys(UPSAMPLES, _upsample), **{f"{name}_backward": _upsample_backward for name in UPSAMPLES},
    "im2col": _unfold, "col2im": _fold, "grid_sampler_2d": _grid_sample, "cudnn_grid_sampler": _grid_sample,
    "grid_sampler_2d_backward": _grid_sample_backward,
}  # fmt: skip
