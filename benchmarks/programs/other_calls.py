"""Calls of operators that no other list has: convolutions and pools of one and three dimensions, losses, masks, choices, draws, windows.

    python benchmarks/programs/single_calls.py --list CALLS --other calibration
    python benchmarks/programs/single_calls.py --list CALLS --other test             never to be fitted to

Audio, video, volumes, graphs and training loops run them. Numbers of elements are drawn log-uniformly from a thousand to thirty million; the
same calls every time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from call_shapes import BF16, FP32, full, indices, listed
from small_calls import Small
from torch.nn import functional

from ridgeline.core.timeline import Call

COUNTS = {"calibration": 14, "test": 4}  # of each kind and format
SEEDS = {"calibration": 9510, "test": 9520}
MIN_ELEMENTS, MAX_ELEMENTS = 1e3, 3e7
Tensor = torch.Tensor


class Other(Small):
    def elements(self) -> int:
        return self.size(MIN_ELEMENTS, MAX_ELEMENTS)

    def matrix(self, least: int = 2) -> tuple[int, int]:
        elements = self.elements()
        width = self.size(least, min(8192.0, elements / 2))
        return max(1, elements // width), width

    def channels(self, high: int) -> int:
        """Mostly multiples of 8, as layers have them."""
        drawn = self.size(1, high)
        return 8 * max(1, drawn // 8) if drawn > 4 and self.random.random() < 0.8 else drawn

    def series(self, channels: int) -> tuple[int, int, int]:
        """Sequences of so many channels: how many, channels, samples of one."""
        samples = self.size(16, 16384)
        return max(1, min(256, self.elements() // (samples * channels))), channels, samples

    def volume(self, channels: int) -> tuple[int, int, int, int, int]:
        side = self.size(4, 64)
        return max(1, min(64, self.elements() // (side**3 * channels))), channels, *[side] * 3

    def pick(self, *values: int) -> int:
        return int(self.random.choice(values))


def _convolutions(draw: Other, dtype: torch.dtype) -> Iterator[Call]:
    inner, outer = draw.channels(512), draw.channels(512)
    kernel, stride = draw.pick(1, 3, 3, 5, 7, 15), draw.pick(1, 1, 2)
    x, w = full(*draw.series(inner), dtype=dtype), full(outer, inner, kernel, dtype=dtype)
    yield from listed(lambda x, w: functional.conv1d(x, w, None, stride, kernel // 2), x, w)
    width, taps = draw.channels(2048), draw.pick(3, 4, 4, 31)
    x, w = full(*draw.series(width), dtype=dtype), full(width, 1, taps, dtype=dtype)
    yield from listed(lambda x, w: functional.conv1d(x, w, None, 1, taps - 1, 1, width), x, w)
    inner, outer, kernel = draw.channels(128), draw.channels(128), draw.pick(1, 3, 3, 3)
    x, w = full(*draw.volume(inner), dtype=dtype), full(outer, inner, *[kernel] * 3, dtype=dtype)
    yield from listed(lambda x, w: functional.conv3d(x, w, None, 1, kernel // 2), x, w)
    inner, outer, side = draw.channels(256), draw.channels(256), draw.size(8, 64)
    tall, wide = ((1, 7), (7, 1), (1, 3), (3, 1), (3, 5))[draw.pick(0, 1, 2, 3, 4)]
    count = max(1, min(64, draw.elements() // (inner * side**2)))
    x, w = full(count, inner, side, side, dtype=dtype), full(outer, inner, tall, wide, dtype=dtype)
    yield from listed(lambda x, w: functional.conv2d(x, w, None, 1, (tall // 2, wide // 2)), x, w)
    inner, outer = draw.channels(256), draw.channels(256)
    x, w = full(*draw.series(inner), dtype=dtype), full(inner, outer, 4, dtype=dtype)
    yield from listed(lambda x, w: functional.conv_transpose1d(x, w, None, 2, 1), x, w)


def _pools(draw: Other, dtype: torch.dtype) -> Iterator[Call]:
    def image() -> Tensor:
        side, channels = draw.size(4, 128), draw.channels(512)
        return full(max(1, min(128, draw.elements() // (channels * side**2))), channels, side, side, dtype=dtype)

    def volume() -> Tensor:
        return full(*draw.volume(draw.channels(64)), dtype=dtype)

    def series() -> Tensor:
        return full(*draw.series(draw.channels(256)), dtype=dtype)

    yield from listed(lambda x: functional.max_pool3d(x, 2), volume())
    yield from listed(lambda x: functional.avg_pool3d(x, 2), volume())
    yield from listed(lambda x: functional.max_pool1d(x, 2), series(), backward=False)
    yield from listed(lambda x: functional.avg_pool1d(x, 2), series())
    yield from listed(lambda x: functional.adaptive_avg_pool2d(x, 2), image())
    yield from listed(lambda x: functional.adaptive_avg_pool2d(x, 1), image())
    yield from listed(lambda x: functional.adaptive_max_pool2d(x, 2), image())
    yield from listed(lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"), image())
    yield from listed(lambda x: functional.pad(x, (1, 1, 1, 1), mode="replicate"), image())
    yield from listed(lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"), series())
    yield from listed(lambda x: functional.interpolate(x, scale_factor=2, mode="trilinear"), volume())
    yield from listed(lambda x: functional.interpolate(x, scale_factor=2, mode="linear"), series())
    yield from listed(lambda x: functional.interpolate(x, scale_factor=2, mode="nearest"), volume())
    yield from listed(lambda x: functional.adaptive_avg_pool1d(x, 4), series())
    yield from listed(lambda x: functional.adaptive_avg_pool3d(x, 2), volume())
    yield from listed(lambda x: functional.unfold(x, 3, padding=1), image())
    x = image()
    grid = full(x.shape[0], x.shape[2], x.shape[3], 2, dtype=dtype)
    yield from listed(lambda x, g: functional.grid_sample(x, g, align_corners=False), x, grid)


def _norms(draw: Other, dtype: torch.dtype) -> Iterator[Call]:
    """Batch norms of rows, series and volumes, and their gradients; convolutions with a bias."""
    for x in (
        full(*draw.matrix(), dtype=dtype),
        full(*draw.series(draw.channels(512)), dtype=dtype),
        full(*draw.volume(draw.channels(128)), dtype=dtype),
    ):
        if x.numel() > x.shape[1]:  # more than one value of a channel
            weights = full(x.shape[1]), full(x.shape[1])
            yield from listed(lambda x, w, b: functional.batch_norm(x, None, None, w, b, True), x, *weights)
    inner, outer, side = draw.channels(256), draw.channels(256), draw.size(8, 64)
    count = max(1, min(64, draw.elements() // (inner * side**2)))
    x, w = full(count, inner, side, side, dtype=dtype), full(outer, inner, 3, 3, dtype=dtype)
    yield from listed(lambda x, w, b: functional.conv2d(x, w, b, 1, 1), x, w, full(outer, dtype=dtype))
    x = full(*draw.matrix(), dtype=dtype)
    yield from listed(lambda x: functional.normalize(x, dim=-1), x)
    yield from listed(lambda x, y: functional.cosine_similarity(x, y, -1), x, x)


def _losses(draw: Other, dtype: torch.dtype) -> Iterator[Call]:
    for loss in (
        *(functional.l1_loss, functional.smooth_l1_loss, functional.huber_loss, functional.soft_margin_loss),
        *(functional.binary_cross_entropy_with_logits, functional.kl_div),
    ):
        x = full(*draw.matrix(), dtype=dtype)
        yield from listed(lambda x, y, loss=loss: loss(x, y.detach()), x, x)
    for function in (functional.glu, functional.logsigmoid, functional.softplus, functional.elu, functional.mish):
        rows, width = draw.matrix()
        yield from listed(function, full(rows, 2 * width, dtype=dtype))
    for function in (functional.leaky_relu, functional.hardtanh, functional.relu6, functional.celu, torch.sigmoid):
        yield from listed(function, full(draw.elements(), dtype=dtype))
    x = full(*draw.matrix(), dtype=dtype)
    yield from listed(lambda x, w: functional.prelu(x, w), x, full(1, dtype=dtype))
    yield from listed(lambda x: functional.dropout(x, 0.1), full(*draw.matrix(), dtype=dtype))


def _reductions(draw: Other, dtype: torch.dtype) -> Iterator[Call]:
    functions: tuple[Callable[[Tensor], object], ...] = (
        *(lambda x: x.argmax(-1), lambda x: x.max(-1), lambda x: x.amin(-1), lambda x: x.prod(-1), lambda x: x.any(-1)),
        *(lambda x: x.var(-1), lambda x: x.std(0), lambda x: torch.var_mean(x, -1), lambda x: x.logsumexp(-1)),
        *(lambda x: x.norm(), lambda x: x.norm(dim=-1), lambda x: x.argmax(), lambda x: x.max(), lambda x: x.mean()),
        *(lambda x: x.cumprod(-1), lambda x: x.cumsum(0), lambda x: x.cummax(-1), lambda x: x.median(-1)),
        *(lambda x: x.argmax(0), lambda x: x.amax(0), lambda x: x.prod(0), lambda x: x.topk(1, -1)),
        *(lambda x: torch.aminmax(x), lambda x: (x > 0).all(), lambda x: torch.count_nonzero(x)),
    )
    for function in functions:
        yield from listed(function, full(*draw.matrix(), dtype=dtype), backward=False)


def _moves(draw: Other, dtype: torch.dtype) -> Iterator[Call]:
    def x() -> Tensor:
        return full(*draw.matrix(), dtype=dtype)

    forward: tuple[Callable[[Tensor], object], ...] = (
        *(lambda x: x.flip(0), lambda x: x.flip(-1), lambda x: x.repeat(2, 2), lambda x: x.tril(), lambda x: x.triu(1)),
        *(lambda x: torch.stack((x, x)), lambda x: torch.stack((x, x), -1), lambda x: x.masked_fill(x > 0, 0.0)),
        *(lambda x: torch.where(x > 0, x, -x), lambda x: x.clamp(0, 1), lambda x: x.rot90(), lambda x: x.roll(1, -1)),
        *(lambda x: torch.rand_like(x), lambda x: torch.randn_like(x), torch.zeros_like),
        *(lambda x: x.pow(2), lambda x: x.pow(3.5), lambda x: x.sqrt(), lambda x: x.log(), lambda x: x.sin()),
        *(lambda x: x / 3, lambda x: x**-0.5, lambda x: torch.erf(x), lambda x: x.abs(), lambda x: x.round()),
        *(lambda x: x > 0, lambda x: (x > 0) & (x < 1), lambda x: x.isnan(), lambda x: x.sign()),
    )
    for function in forward:
        yield from listed(function, x(), backward=False)
    a = x()
    yield from listed(torch.lerp, a, a, a, backward=False)
    yield from listed(lambda a, b, c: torch.addcmul(a, b, c), a, a, a, backward=False)
    rows, width = draw.matrix()
    count = draw.size(1, 1 << 16)
    table, places = full(rows, width, dtype=dtype), indices(count)
    new = full(count, width, dtype=dtype)
    yield from listed(lambda t, i, v: t.index_copy(0, i, v), table, places, new, backward=False)
    yield from listed(lambda t, i: t.index_fill(0, i, 0.0), table, places, backward=False)
    rows, width = draw.matrix()
    columns = torch.empty(rows, draw.size(1, width), device="meta", dtype=torch.int64)
    values = full(*columns.shape, dtype=dtype)
    yield from listed(lambda x, i, v: x.scatter(1, i, v), full(rows, width, dtype=dtype), columns, values)
    yield from listed(lambda x: x[:, 0], x(), keep=("select_backward",))
    yield from listed(lambda x: x.max(-1).values, x(), keep=("value_selecting_reduction_backward", "scatter"))
    yield from listed(lambda i: functional.one_hot(i, 64), indices(count), backward=False)
    x2 = full(draw.size(16, 4096), draw.pick(2, 3, 64, 128), dtype=dtype)
    if dtype == FP32:
        yield from listed(lambda x: torch.cdist(x, x), x2, backward=False)
        yield from listed(lambda x: torch.fft.rfft(x), full(*draw.matrix(16), dtype=dtype), backward=False)


KINDS = (_convolutions, _pools, _norms, _losses, _reductions, _moves)
MORE = {_reductions: 3}  # of which there are so many more to fit to: their kernels differ by the sides of the matrix


def drawn(chosen: str) -> Iterator[Call]:
    draw = Other(SEEDS[chosen])
    for kind in KINDS:
        for dtype in (FP32, BF16):
            for _ in range(COUNTS[chosen] * (MORE.get(kind, 1) if chosen == "calibration" else 1)):
                yield from kind(draw, dtype)
