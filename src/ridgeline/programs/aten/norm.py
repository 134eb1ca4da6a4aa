"""Normalisations over rows, and their gradients.

Layer and RMS kernels keep a row on chip, batch norms a channel: read once, written once. Group norms need the
statistics of the data first: one pass to reduce them, one to apply them.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ...core.timeline import Tensor
from ...core.work import Kernel, Work
from .. import ops
from ..ops.channel_norms import NATIVE, inference_kernel
from ..ops.kernels import row_kernel
from ..ops.strided import STRIDED
from .arguments import Arguments, Missing, elements
from .building import after, named, row_format, rows_and_columns, streamed, with_moves
from .convolution import channels_last
from .counted import Rule
from .elementwise import dense, order
from .formats import known
from .memory import copied, rows_first

INFERENCE = {"native_batch_norm": NATIVE, "cudnn_batch_norm": ""}  # operators of inference, and whose kernels they run
LAYER_NORM_BACKWARD, RMS_NORM_BACKWARD = 13.0, 9.0  # flops per element, as ops.layernorm_backward derives them


def _normalized(arguments: Arguments, tensor: Tensor, place: int = 1) -> tuple[int, int]:
    """Rows and columns of a norm over the last dimensions, whose shape is given."""
    shape = arguments.integers(place, "normalized_shape")
    if not shape or tensor.shape[len(tensor.shape) - len(shape) :] != shape:
        raise Missing(f"a shape of {tensor.shape} does not end in {shape}")
    return rows_and_columns(tensor, len(shape))


def _layer_norm(arguments: Arguments) -> Work:
    """native_layer_norm(x, shape, weight, bias, eps) -> y and, for the backward pass, mean and 1/sigma of each row."""
    x = arguments.tensor(0)
    rows, cols = _normalized(arguments, x)
    saved: tuple[float, str] = (float(rows), "fp32")
    work = ops.layernorm(rows=rows, cols=cols, dtype=row_format(x))
    parameters = named("gamma beta", arguments.optional(2), arguments.optional(3))
    normalized = with_moves(work, parameters, {"mean": saved, "rstd": saved}, without=("gamma", "beta"))
    return _of_rows(normalized, x)


def _of_rows(work: Work, x: Tensor) -> Work:
    """A norm of rows; torch copies a tensor first whose rows do not lie one after the other."""
    plain = dense(x) and order(x) == order(Tensor(x.shape))
    return work if plain else after(work.name, work, copied("clone", x, rows_first(x)))


def _rms_norm(arguments: Arguments) -> Work:
    """_fused_rms_norm(x, shape, weight, eps) -> y and the 1/rms of each row."""
    x = arguments.tensor(0)
    rows, cols = _normalized(arguments, x)
    work = ops.rmsnorm(rows=rows, cols=cols, dtype=row_format(x))
    return with_moves(work, named("gamma", arguments.optional(2)), {"rstd": (float(rows), "fp32")}, without=("gamma",))


def _layer_norm_backward(arguments: Arguments) -> Work:
    """native_layer_norm_backward(dy, x, shape, mean, rstd, weight, bias, mask of dx, dgamma, dbeta)."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    rows, cols = _normalized(arguments, x, 2)
    mask, weight = arguments.flags(7, 3), arguments.optional(5)
    work = ops.layernorm_backward(rows=rows, cols=cols, dtype=row_format(dy))
    without = [name for name, wanted in zip(("dx", "dgamma", "dbeta"), mask, strict=True) if not wanted]
    return with_moves(work, without=(*without, *(("gamma",) if weight is None else ())))


def _rms_norm_backward(arguments: Arguments) -> Work:
    """_fused_rms_norm_backward(dy, x, shape, rstd, weight, mask of dx, dgamma)."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    rows, cols = _normalized(arguments, x, 2)
    mask, weight = arguments.flags(5, 2), arguments.optional(4)
    work = ops.rmsnorm_backward(rows=rows, cols=cols, dtype=row_format(dy))
    without = [name for name, wanted in zip(("dx", "dgamma"), mask, strict=True) if not wanted]
    return with_moves(work, without=(*without, *(("gamma",) if weight is None else ())))


def _channels(tensor: Tensor) -> int:
    if len(tensor.shape) < 2:
        raise Missing(f"a shape of {tensor.shape} has no channels")
    return tensor.shape[1]


def _statistics(
    name: str, tensors: dict[str, Tensor | tuple[float, str]], channels: float, lead: Tensor, flops: float
) -> Work:
    """A pass that reduces tensors to two sums per channel or group."""
    sums: tuple[float, str] = (channels, "fp32")
    return streamed(name, tensors, {"mean": sums, "rstd": sums}, known(lead), flops * elements(lead), family="reduce")


def _images(tensor: Tensor) -> dict[str, object]:
    """The sizes by which batch norms are timed, and the layout of the images."""
    batch, channels = tensor.shape[0], _channels(tensor)
    layout = "nhwc" if channels_last(tensor) else "nchw"
    return {"batch": batch, "channels": channels, "pixels": prod(tensor.shape[2:]), "layout": layout}


def _batch_norm(arguments: Arguments) -> Work:
    """Training: mean and variance per channel (4 flops per element), then normalised (4): x read, y written.

    Inference applies stored statistics: 4 flops per element, x read once, y written, four vectors of channels read.
    """
    x = arguments.tensor(0)
    channels = float(_channels(x))
    training = arguments.base not in ("_native_batch_norm_legit_no_training",)
    if arguments.base in ("native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit", "miopen_batch_norm"):
        at = 3 if arguments.base == "_native_batch_norm_legit" and isinstance(arguments.at(3), bool) else 5
        training = arguments.flag(at, "training")
    parameters = named("gamma beta", arguments.optional(1), arguments.optional(2))
    statistics: tuple[float, str] = (channels, "fp32")
    if not training:
        work = streamed(
            "batch_norm", {"x": x, **parameters, "mean": statistics, "rstd": statistics}, {"y": x}, known(x),
            4.0 * elements(x),
        )  # fmt: skip
        library = INFERENCE.get(arguments.base)
        return work if library is None or len(x.shape) < 3 else _timed_inference(work, x, library)
    work = ops.batchnorm_training(**_images(x), dtype=row_format(x))
    running = named("running_mean running_var", arguments.optional(3), arguments.optional(4))
    without = ("gamma", "beta", "running_mean", "running_var")
    return replace(with_moves(work, parameters | running, running, without=without), name="batch_norm")


def _timed_inference(work: Work, x: Tensor, library: str) -> Work:
    """By the kernel of the library that the operator names, over planes, pixels or images."""
    if not all(x.shape):
        return work
    layout = "nhwc" if channels_last(x) else "nchw"
    kernels = inference_kernel(x.shape[0], _channels(x), prod(x.shape[2:]), row_format(x), layout, library)
    return replace(work, kernels=kernels)


def _batch_norm_backward(arguments: Arguments) -> Work:
    """Sums of dy and dy xhat per channel and dx: dy and x read, dx written, 10 flops per element."""
    first, second = arguments.tensor(0), arguments.tensor(1)
    dy, x = (
        (second, first)
        if arguments.base in ("cudnn_batch_norm_backward", "miopen_batch_norm_backward")
        else (first, second)
    )
    work = ops.batchnorm_backward(**_images(x), dtype=row_format(dy))
    return replace(work, name="batch_norm_backward")


def _batch_norm_stats(arguments: Arguments) -> Work:
    """batch_norm_stats(x, eps): mean and 1/sigma per channel, 4 flops per element."""
    x = arguments.tensor(0)
    return _statistics("batch_norm_stats", {"x": x}, float(_channels(x)), x, 4.0)


def _batch_norm_elemt(arguments: Arguments) -> Work:
    """batch_norm_elemt(x, weight, bias, mean, invstd, eps): 4 flops per element."""
    x = arguments.tensor(0)
    parameters = named("gamma beta mean rstd", *(arguments.optional(place) for place in range(1, 5)))
    return streamed("batch_norm_elemt", {"x": x, **parameters}, {"y": x}, known(x), 4.0 * elements(x))


def _batch_norm_reduce(arguments: Arguments) -> Work:
    """batch_norm_backward_reduce(dy, x, ...): two sums per channel, 5 flops per element."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    return _statistics("batch_norm_backward_reduce", {"dy": dy, "x": x}, float(_channels(x)), x, 5.0)


def _batch_norm_backward_elemt(arguments: Arguments) -> Work:
    """batch_norm_backward_elemt(dy, x, mean, invstd, weight, sum_dy, sum_dy_xmu, count): 5 flops per element."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    vectors = named("mean rstd gamma sum_dy sum_dy_xmu", *(arguments.optional(place) for place in range(2, 7)))
    return streamed("batch_norm_backward_elemt", {"dy": dy, "x": x, **vectors}, {"dx": x}, known(x), 5.0 * elements(x))


def _group_norm(arguments: Arguments) -> Work:
    """native_group_norm(x, weight, bias, N, C, HxW, groups, eps): sums per group (4 flops per element), then applied (4)."""
    x = arguments.tensor(0)
    n, groups = arguments.integer(3, "N"), arguments.integer(6, "group")
    rows = float(n * groups)
    parameters = named("gamma beta", arguments.optional(1), arguments.optional(2))
    sums: tuple[float, str] = (rows, "fp32")
    reduced = _group_statistics(x, rows)
    apply = streamed(
        "group_norm",
        {"x": x, **parameters, "mean": sums, "rstd": sums},
        {"y": x},
        known(x),
        4.0 * elements(x),
        like=STRIDED,
    )
    return after("group_norm", reduced, apply)


def _group_statistics(x: Tensor, rows: float) -> Work:
    """Mean and variance of each group: a pass over rows, one per group of an image."""
    cols = elements(x) / rows if rows else 0.0
    work = ops.sum_rows(rows=rows, cols=int(cols), dtype=known(x).arithmetic, out_dtype="fp32")
    counts = {(engine, dtype, "moments"): 4.0 * elements(x) for engine, dtype, _ in work.counts}
    return replace(work, name="group_norm_stats", counts=counts, kernels=_summed(work, "group_moments"))


def _summed(work: Work, op: str) -> tuple[Kernel, ...]:
    """The kernels of sums of rows, under the name of those that sum more than one thing."""
    return tuple(replace(kernel, op=op, like="sum_rows") for kernel in work.kernels)


def _group_norm_backward(arguments: Arguments) -> Work:
    """Sums of dy and dy x per channel of an image (4 flops per element), then dx (5): dy and x read twice, dx written."""
    dy, x = arguments.tensor(0), arguments.tensor(1)
    images, channels = arguments.integer(5, "N"), arguments.integer(6, "C")
    reduced = _statistics("group_norm_backward_reduce", {"dy": dy, "x": x}, float(images * channels), x, 4.0)
    planes, pixels = float(images * channels), elements(x) / max(images * channels, 1)
    form = row_format(x)
    (rows,) = row_kernel("group_gradients", planes, pixels, form, form, per_row=2.0, fresh=2.0)
    reduced = replace(reduced, kernels=(replace(rows, like="sum_rows"),))
    sums: tuple[float, str] = (float(images * channels), "fp32")
    apply = streamed(
        "group_norm_backward",
        {"dy": dy, "x": x, "scale": sums, "shift": sums},
        {"dx": x},
        known(x),
        5.0 * elements(x),
        like=STRIDED,
    )
    return after("group_norm_backward", reduced, apply)


def _weight_norm(arguments: Arguments) -> Work:
    """_weight_norm_interface(v, g, dim): v g / norm(v) over all but one dimension; v read twice, w written; 4 flops each."""
    v, g = arguments.tensor(0), arguments.tensor(1)
    size = elements(v)
    twice: tuple[float, str] = (2.0 * prod(v.shape), v.dtype)
    return streamed("weight_norm", {"v": twice, "g": g}, {"w": v, "norms": g}, known(v), 4.0 * size, count=size)


BATCH_NORMS = (
    "native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm", "_native_batch_norm_legit",
    "_native_batch_norm_legit_no_training", "_native_batch_norm_legit_functional", "_batch_norm_with_update",
)  # fmt: skip
RULES: dict[str, Rule] = {
    "native_layer_norm": _layer_norm, "native_layer_norm_backward": _layer_norm_backward,
    "_fused_rms_norm": _rms_norm, "_fused_rms_norm_backward": _rms_norm_backward,
    **dict.fromkeys(BATCH_NORMS, _batch_norm),
    **dict.fromkeys(
        ("native_batch_norm_backward", "cudnn_batch_norm_backward", "miopen_batch_norm_backward", "batch_norm_backward"),
        _batch_norm_backward,
    ),
    "batch_norm_stats": _batch_norm_stats, "batch_norm_elemt": _batch_norm_elemt,
    "batch_norm_backward_reduce": _batch_norm_reduce, "batch_norm_backward_elemt": _batch_norm_backward_elemt,
    "native_group_norm": _group_norm, "native_group_norm_backward": _group_norm_backward,
    "_weight_norm_interface": _weight_norm,
}  # fmt: skip
