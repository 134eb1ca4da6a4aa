"""Convolutions: 2 flops for every output, input channel of its group and tap; images and weights read once.

One dimension counts as an image of height 1. Three dimensions, and kernels, strides or paddings that differ by side, have
their exact flops and bytes, and the kernel of the 2-D convolution with as many taps and outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.machine import MAIN
from ...core.timeline import Tensor
from ...core.work import READ, WRITE, Array, Kernel, Work
from ..ops.convolutions import output_size, touched
from .arguments import Arguments, Missing, elements
from .building import after, streamed, with_moves
from .counted import Counted, Rule
from .formats import known, matrix_format

PLACES = {  # of input, weight, bias, stride, padding, dilation, transposed, output padding, groups; None where there is none
    "convolution": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "_convolution": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "convolution_overrideable": (0, 1, 2, 3, 4, 5, 6, 7, 8),
    "cudnn_convolution": (0, 1, None, 3, 2, 4, None, None, 5),
    "cudnn_convolution_transpose": (0, 1, None, 4, 2, 5, True, 3, 6),
    "cudnn_convolution_relu": (0, 1, 2, 3, 4, 5, None, None, 6),
    "cudnn_convolution_add_relu": (0, 1, 4, 5, 6, 7, None, None, 8),
    "miopen_convolution": (0, 1, 2, 4, 3, 5, None, None, 6),
    "miopen_depthwise_convolution": (0, 1, 2, 4, 3, 5, None, None, 6),
    "mkldnn_convolution": (0, 1, 2, 4, 3, 5, None, None, 6),
    "_convolution_pointwise": (0, 1, 2, 4, 3, 5, None, None, 6),
    "conv1d": (0, 1, 2, 3, 4, 5, None, None, 6),
    "conv2d": (0, 1, 2, 3, 4, 5, None, None, 6),
    "conv3d": (0, 1, 2, 3, 4, 5, None, None, 6),
    "conv_transpose1d": (0, 1, 2, 3, 4, 7, True, 5, 6),
    "conv_transpose2d": (0, 1, 2, 3, 4, 7, True, 5, 6),
    "conv_transpose3d": (0, 1, 2, 3, 4, 7, True, 5, 6),
    "_slow_conv2d_forward": (0, 1, 3, 4, 5, None, None, None, None),
    "slow_conv3d_forward": (0, 1, 3, 4, 5, None, None, None, None),
    "thnn_conv2d": (0, 1, 3, 4, 5, None, None, None, None),
    "slow_conv_dilated2d": (0, 1, 3, 4, 5, 6, None, None, None),
    "slow_conv_dilated3d": (0, 1, 3, 4, 5, 6, None, None, None),
    "slow_conv_transpose2d": (0, 1, 3, 4, 5, 7, True, 6, None),
    "slow_conv_transpose3d": (0, 1, 3, 4, 5, 7, True, 6, None),
    "conv_depthwise3d": (0, 1, 3, 4, 5, 6, None, None, "input"),
    "_conv_depthwise2d": (0, 1, 3, 4, 5, 6, None, None, "input"),
}  # fmt: skip


@dataclass(frozen=True)
class Convolution:
    """Sizes of a convolution; of a transposed one, those of the convolution that it is the gradient of."""

    batch: int
    c_in: int
    c_out: int
    image: tuple[int, ...]
    output: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    dtype: str
    last: bool  # channels last

    @property
    def taps(self) -> float:
        return self.c_in / self.groups * prod(self.kernel)

    @property
    def flops(self) -> float:
        """2 batch c_out outputs (c_in/groups) taps."""
        return 2.0 * self.batch * self.c_out * prod(self.output) * self.taps

    @property
    def weights(self) -> float:
        return self.c_out * self.taps

    @property
    def pixels_read(self) -> float:
        """Pixels of the images that some output needs: a stride beyond the kernel leaves some out."""
        sides = zip(self.image, self.kernel, self.stride, self.padding, self.dilation, self.output, strict=True)
        return prod(float(touched(*map(float, side))) for side in sides)


def _expanded(values: tuple[int, ...], count: int) -> tuple[int, ...]:
    return values * count if len(values) == 1 else values


def _geometry(
    images: Tensor, weights: Tensor, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
    groups: int, dtype: str, output: tuple[int, ...] | None = None,
) -> Convolution:  # fmt: skip
    """The sizes of weights[c_out, c_in/groups, kernel...] over images[batch, c_in, sides...]."""
    sides = len(weights.shape) - 2
    if sides not in (1, 2, 3) or len(images.shape) not in (sides + 1, sides + 2):
        raise Missing(f"shapes {images.shape} and {weights.shape} are no convolution")
    shape = images.shape if len(images.shape) == sides + 2 else (1, *images.shape)
    image, kernel = shape[2:], weights.shape[2:]
    stride, padding, dilation = (_expanded(values, sides) for values in (stride, padding, dilation))
    if any(len(values) != sides for values in (stride, padding, dilation)) or min(stride + dilation) < 1 or groups < 1:
        raise Missing(f"stride {stride}, padding {padding} and dilation {dilation} do not fit {sides} dimensions")
    if shape[1] != weights.shape[1] * groups:
        raise Missing(f"shapes {images.shape} and {weights.shape} are no convolution of {groups} groups")
    if output is None:
        axes = zip(image, kernel, stride, padding, dilation, strict=True)
        output = tuple(int(output_size(*map(float, axis))) for axis in axes)
    if min(output, default=0) < 1:
        raise Missing(f"shapes {images.shape} and {weights.shape} have no output")
    return Convolution(
        shape[0], shape[1], weights.shape[0], image, output, kernel, stride, padding, dilation, groups, dtype,
        channels_last(images),
    )  # fmt: skip


def channels_last(tensor: Tensor) -> bool:
    """Whether a pixel's channels lie together."""
    return bool(len(tensor.strides) > 2 and tensor.strides[1] == 1 and tensor.shape[1] > 1)


ALLOW_TF32 = {"_convolution": 12, "cudnn_convolution": 8, "cudnn_convolution_transpose": 9}  # places of the flag


def _format(arguments: Arguments, tensor: Tensor) -> str:
    """The format of the products; the call itself says whether tf32 is allowed where its schema does."""
    row, place = known(tensor), ALLOW_TF32.get(arguments.base)
    allowed = arguments.settings.conv_tf32
    if place is not None:
        allowed = arguments.flag(place, "allow_tf32", allowed)
    if row.name == "fp32" and allowed and arguments.settings.device == "cuda":
        return "tf32"
    name = matrix_format(row)
    if name is None:
        raise Missing(f"convolutions of {row.name} are not counted")
    return name


def _stride(sizes: Convolution) -> float:
    """Of a square image."""
    return float(prod(sizes.stride) ** (1 / len(sizes.stride)))


def _kernel(sizes: Convolution, op: str, *, swapped: bool = False, **way: Array) -> tuple[Kernel, ...]:
    """The kernel of the 2-D convolution with as many taps, pixels and outputs; `swapped` for the gradient of the images."""
    image, output = (sizes.output, sizes.image) if swapped else (sizes.image, sizes.output)
    c_in, c_out = (sizes.c_out, sizes.c_in) if swapped else (sizes.c_in, sizes.c_out)
    kernel = prod(sizes.kernel) ** 0.5
    stride = _stride(sizes)
    values: dict[str, Array] = {
        "images": sizes.batch, "c_in": c_in, "c_out": c_out,
        "h": float(prod(image[:-1])), "w": float(image[-1]), "ho": float(prod(output[:-1])), "wo": float(output[-1]),
        "kernel": kernel / stride if swapped else kernel, "stride": 1.0 if swapped else stride,
        "groups": sizes.groups, "dilation": float(max(sizes.dilation)),
        "x": dtype_row(sizes.dtype).bytes, "y": dtype_row(sizes.dtype).bytes, **way,
    }  # fmt: skip
    spread = swapped and prod(sizes.stride) > 1  # as the transposed convolution, where gradients were not timed
    like = f"transposed_{_layout(sizes)}" if spread else _layout(sizes)
    return (Kernel("conv", values, op, label(sizes.dtype), like),)


def _work(
    sizes: Convolution, name: str, read: dict[str, float], write: dict[str, float], kernels: tuple[Kernel, ...]
) -> Work:
    """A pass of a convolution: the same flops whichever of its three tensors is computed."""
    each = dtype_row(sizes.dtype).bytes
    images, outputs = sizes.batch * sizes.c_in * prod(sizes.image), sizes.batch * sizes.c_out * prod(sizes.output)
    shape = {"batch": sizes.batch, "c_in": sizes.c_in, "c_out": sizes.c_out}
    shape |= {"h": sizes.image[0], "w": sizes.image[-1], "kernel": max(sizes.kernel), "stride": max(sizes.stride)}
    if sizes.groups > 1:
        shape["groups"] = sizes.groups
    return Work(
        counts={("matrix", sizes.dtype, "multiply-add"): sizes.flops},
        moves={(MAIN, tensor, READ): count * each for tensor, count in read.items()}
        | {(MAIN, tensor, WRITE): count * each for tensor, count in write.items()},
        waits={"launch": 1.0},
        sizes={"x": images * each, "y": outputs * each} if "x" in read else {},
        name=name,
        family="conv",
        dtype=sizes.dtype,
        shape=shape,
        formulas={("matrix", sizes.dtype, "multiply-add"): "2 batch c_out outputs (c_in/groups) taps"},
        kernels=kernels,
    )


def _layout(sizes: Convolution) -> str:
    return "nhwc" if sizes.last else "nchw"


def forward(sizes: Convolution) -> Work:
    outputs = float(sizes.batch * sizes.c_out * prod(sizes.output))
    pixels = sizes.batch * sizes.c_in * sizes.pixels_read
    name = "conv2d" if len(sizes.kernel) == 2 else f"conv{len(sizes.kernel)}d"
    kernels = _kernel(sizes, _layout(sizes))
    return _work(sizes, name, {"x": pixels, "weights": sizes.weights}, {"y": outputs}, kernels)


def image_gradient(sizes: Convolution, *, layer: bool = False) -> Work:
    """dx from dy and the weights: the same flops, dy and the weights read, dx written.

    As a `layer` of its own it is a transposed convolution.
    """
    outputs = float(sizes.batch * sizes.c_out * prod(sizes.output))
    pixels = float(sizes.batch * sizes.c_in * prod(sizes.image))
    name, kind = ("conv_transpose2d", "transposed") if layer else ("conv_dgrad", "dgrad")
    kernels = _kernel(sizes, f"{kind}_{_layout(sizes)}", swapped=True, spread=_stride(sizes))
    return _work(sizes, name, {"dy": outputs, "weights": sizes.weights}, {"dx": pixels}, kernels)


def weight_gradient(sizes: Convolution) -> Work:
    """dW from x and dy: the same flops, both read, dW written."""
    outputs = float(sizes.batch * sizes.c_out * prod(sizes.output))
    pixels = sizes.batch * sizes.c_in * sizes.pixels_read
    kernels = _kernel(sizes, f"wgrad_{_layout(sizes)}", summed=1.0)
    return _work(sizes, "conv_wgrad", {"x": pixels, "dy": outputs}, {"dW": sizes.weights}, kernels)


def _sizes_of(arguments: Arguments, places: tuple[object, ...]) -> tuple[Convolution, bool]:
    """The sizes, and whether the convolution is transposed."""
    x_at, w_at, _, stride_at, padding_at, dilation_at, transposed_at, extra_at, groups_at = places
    images, weights = arguments.tensor(_place(x_at)), arguments.tensor(_place(w_at), "weight")
    sides = max(len(weights.shape) - 2, 1)
    stride = arguments.integers(_place(stride_at), "stride", (1,))
    dilation = (1,) if dilation_at is None else arguments.integers(_place(dilation_at), "dilation", (1,))
    padding = _padding(arguments, _place(padding_at), weights, _expanded(dilation, sides))
    groups = 1
    if groups_at == "input":
        groups = images.shape[-sides - 1] if len(images.shape) > sides else 1
    elif groups_at is not None:
        groups = arguments.integer(_place(groups_at), "groups", 1)
    dtype = _format(arguments, images)
    transposed = transposed_at is True or (
        transposed_at is not None and arguments.flag(_place(transposed_at), "transposed")
    )
    if not transposed:
        return _geometry(images, weights, stride, padding, dilation, groups, dtype), False
    extra = _expanded(arguments.integers(_place(extra_at), "output padding", (0,)), sides)
    return _transposed(images, weights, stride, padding, dilation, extra, groups, dtype), True


def _transposed(
    images: Tensor, weights: Tensor, stride: tuple[int, ...], padding: tuple[int, ...], dilation: tuple[int, ...],
    extra: tuple[int, ...], groups: int, dtype: str,
) -> Convolution:  # fmt: skip
    """The convolution whose image gradient this is: its outputs are these images, its images these outputs.

    An output side is (side - 1) stride - 2 padding + dilation (kernel - 1) + output padding + 1.
    """
    sides = len(weights.shape) - 2
    stride, padding, dilation = (_expanded(values, sides) for values in (stride, padding, dilation))
    shape = images.shape if len(images.shape) == sides + 2 else (1, *images.shape)
    rows = (shape[2:], weights.shape[2:], stride, padding, dilation, extra)
    if sides < 1 or any(len(values) != sides for values in rows):
        raise Missing(f"shapes {images.shape} and {weights.shape} are no transposed convolution")
    produced = tuple(
        (side - 1) * step - 2 * pad + spread * (taps - 1) + more + 1
        for side, taps, step, pad, spread, more in zip(*rows, strict=True)
    )
    result = Tensor((shape[0], weights.shape[1] * groups, *produced), images.dtype)
    sizes = _geometry(result, weights, stride, padding, dilation, groups, dtype, shape[2:])
    return replace(sizes, last=channels_last(images))


def _place(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else -1


def _padding(arguments: Arguments, place: int, weights: Tensor, dilation: tuple[int, ...]) -> tuple[int, ...]:
    """Padding in numbers; `same` pads by what keeps the size for odd kernels, `valid` by nothing."""
    value = arguments.at(place)
    if value == "valid":
        return (0,)
    if value == "same":
        return tuple(step * (taps - 1) // 2 for step, taps in zip(dilation, weights.shape[2:], strict=True))
    return arguments.integers(place, "padding", (0,))


def _convolution(arguments: Arguments) -> Work:
    places = PLACES[arguments.base]
    sizes, transposed = _sizes_of(arguments, places)
    work = image_gradient(sizes, layer=True) if transposed else forward(sizes)
    bias = None if places[2] is None else arguments.optional(_place(places[2]))
    return work if bias is None else with_moves(work, read={"bias": bias})


def _backward(arguments: Arguments) -> Work | Counted:
    """convolution_backward(dy, x, W, bias sizes, stride, padding, dilation, transposed, output padding, groups, mask).

    The mask asks for dx (2 flops per multiply-add of the forward pass), dW (the same) and the sum of dy over all but the
    channels. A call inside sums dy for the bias, so that is counted only where there are no calls inside.
    """
    shift = 1 if arguments.base == "convolution_backward_overrideable" else 0  # which has no bias sizes
    dy, x, weights = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    at = [place - shift for place in range(4, 11)]
    dtype = _format(arguments, dy)
    stride = arguments.integers(at[0], "stride")
    padding, dilation = arguments.integers(at[1], "padding"), arguments.integers(at[2], "dilation")
    transposed, groups = arguments.flag(at[3], "transposed"), arguments.integer(at[5], "groups")
    mask = arguments.flags(at[6], 3)
    if transposed:
        sizes = _geometry(dy, weights, stride, padding, dilation, groups, dtype, x.shape[2:])
    else:
        sizes = _geometry(x, weights, stride, padding, dilation, groups, dtype, dy.shape[2:])
    sizes = replace(sizes, last=channels_last(x) or channels_last(dy))
    return _gradients(arguments, sizes, dy, mask, transposed)


def _slow_backward(arguments: Arguments) -> Work | Counted:
    """_slow_conv2d_backward(dy, x, W, kernel, stride, padding, mask), which the CPU runs where oneDNN does not."""
    dy, x, weights = arguments.tensor(0), arguments.tensor(1), arguments.tensor(2)
    stride, padding = arguments.integers(4, "stride"), arguments.integers(5, "padding")
    sizes = _geometry(x, weights, stride, padding, (1, 1), 1, _format(arguments, dy), dy.shape[2:])
    return _gradients(arguments, sizes, dy, arguments.flags(6, 3), False)


def _gradients(
    arguments: Arguments, sizes: Convolution, dy: Tensor, mask: Sequence[bool], transposed: bool
) -> Work | Counted:
    """The gradients that the mask asks for: of the image, the weights and the bias."""
    parts = []
    if mask[0]:
        parts.append(forward(sizes) if transposed else image_gradient(sizes))
    if mask[1]:
        parts.append(weight_gradient(sizes))
    if mask[2] and (arguments.settings.leaf or not parts):
        bias = Tensor((dy.shape[1] if len(dy.shape) > 1 else 1,), dy.dtype)
        adds = float(elements(dy) - elements(bias))
        parts.append(streamed("bias_grad", {"dy": dy}, {"dbias": bias}, known(dy), adds, family="reduce"))
    if not parts:
        raise Missing("its output mask asks for no gradient")
    return after("conv_backward", *parts) if len(parts) > 1 else parts[0]


RULES: dict[str, Rule] = {
    **dict.fromkeys(PLACES, _convolution),
    "convolution_backward": _backward,
    "convolution_backward_overrideable": _backward,
    "_slow_conv2d_backward": _slow_backward,
}
