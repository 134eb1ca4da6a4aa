"""Calls that are timed one at a time: kernels that programs have and earlier timings lacked, over sizes, formats and layouts.

Each kind is a function on tensors of the meta device; what is listed are the operators that it calls, those of its backward pass too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

import ridgeline as rl
from ridgeline.core.timeline import Call, Tensor

FP32, BF16, FP16 = torch.float32, torch.bfloat16, torch.float16
FORMATS = (FP32, BF16, FP16)
NAMES = {FP32: "fp32", BF16: "bf16", FP16: "fp16"}
LAYOUTS = (torch.contiguous_format, torch.channels_last)
LEFT_OUT = ("fill_", "zero_", "zeros_like", "ones_like", "new_zeros", "detach")  # of tracing a gradient


def full(*shape: int, dtype: torch.dtype = FP32, layout: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    made = torch.empty(*shape, device="meta", dtype=dtype)
    return made.to(memory_format=layout) if len(shape) == 4 else made


def indices(count: int) -> torch.Tensor:
    return torch.empty(count, device="meta", dtype=torch.int64)


def listed(
    function: Callable[..., Any], *tensors: torch.Tensor, backward: bool = True, keep: tuple[str, ...] = ()
) -> Iterator[Call]:
    """The operators of a function of tensors and, where it has one, of its gradient."""

    def step(*given: torch.Tensor) -> Any:
        if not backward:
            with torch.no_grad():
                return function(*given)
        leaves = [item.detach().requires_grad_(item.is_floating_point()) for item in given]
        out = function(*leaves)
        return torch.autograd.grad(
            out, [item for item in leaves if item.requires_grad], torch.empty_like(out), allow_unused=True
        )

    for op in rl.trace(step, *tensors).ops:
        base = op.site.call.name.partition("::")[2]
        if op.kind == "work" and base not in LEFT_OUT and (not keep or base in keep):
            yield op.site.call


def group_norms() -> Iterator[Call]:
    shapes = (
        *((2, 64, 64, 8), (4, 128, 32, 32), (1, 512, 64, 32), (4, 512, 32, 32), (4, 512, 64, 32), (4, 256, 128, 32)),
        *(
            (4, 128, 256, 32),
            (16, 320, 64, 32),
            (16, 640, 32, 32),
            (16, 1280, 16, 32),
            (64, 96, 28, 1),
            (8, 64, 112, 16),
        ),
        *((32, 256, 14, 32), (2, 1280, 8, 32)),
    )
    for dtype in FORMATS:
        for layout in LAYOUTS:
            for images, channels, side, groups in shapes:
                x = full(images, channels, side, side, dtype=dtype, layout=layout)
                weights = full(channels, dtype=dtype), full(channels, dtype=dtype)
                yield from listed(lambda x, w, b, groups=groups: functional.group_norm(x, groups, w, b), x, *weights)


def resized() -> Iterator[Call]:
    shapes = (
        *(
            (4, 512, 32, 2.0),
            (4, 256, 128, 2.0),
            (8, 64, 32, 2.0),
            (8, 768, 16, 4.0),
            (8, 150, 64, 4.0),
            (2, 21, 33, 8.0),
        ),
        *(
            (16, 128, 28, 2.0),
            (32, 256, 14, 2.0),
            (8, 768, 8, 8.0),
            (4, 3, 512, 0.5),
            (16, 64, 112, 0.5),
            (8, 32, 97, 1.5),
        ),
        *((1, 256, 64, 4.0), (16, 3, 256, 0.875)),
    )
    for dtype in FORMATS:
        for layout in LAYOUTS:
            for mode in ("nearest", "bilinear"):
                for images, channels, side, scale in shapes:
                    x = full(images, channels, side, side, dtype=dtype, layout=layout)
                    size = int(side * scale)
                    yield from listed(
                        lambda x, mode=mode, size=size: functional.interpolate(x, (size, size), mode=mode), x
                    )
    for images, channels, side, scale in shapes[::2]:
        x, size = full(images, channels, side, side), int(side * scale)
        yield from listed(lambda x, size=size: functional.interpolate(x, (size, size), mode="bicubic"), x)


TABLES = (
    *((40000, 400000, 128), (10000, 100000, 64), (200000, 1000000, 32), (2000, 50000, 256), (100000, 100000, 512)),
    *(
        (500, 20000, 128),
        (1000000, 200000, 64),
        (30000, 300000, 16),
        (4096, 8192, 1024),
        (64, 16384, 96),
        (50000, 16384, 768),
    ),
)


def rows_of_tables() -> Iterator[Call]:
    for dtype in (FP32, BF16):
        for rows, taken, width in TABLES:
            table, index, values = full(rows, width, dtype=dtype), indices(taken), full(taken, width, dtype=dtype)
            yield from listed(lambda x, i: x[i], table, index)
            yield from listed(lambda x, i: x.index_select(0, i), table, index)
            yield from listed(lambda x, i, v: x.index_add(0, i, v), table, index, values, backward=False)
            wide = index[:, None].expand(taken, width)
            yield from listed(lambda x, i, v: x.scatter_add(0, i, v), table, wide, values, backward=False)
            yield from listed(lambda x, i: x.gather(0, i), table, wide, backward=False)


def gathers() -> Iterator[Call]:
    """Elements along the last dimension, by indices of their own or repeated ones."""
    shapes = (
        (192, 256, 512, 256),
        (64, 128, 1024, 128),
        (1, 8192, 32000, 1),
        (1, 65536, 64, 8),
        (16, 1024, 1024, 512),
        (1, 4096, 128, 128),
    )
    for dtype in FORMATS:
        for batch, rows, width, taken in shapes:
            x, places = (
                full(batch, rows, width, dtype=dtype),
                torch.empty(batch, rows, taken, device="meta", dtype=torch.int64),
            )
            yield from listed(lambda x, i: x.gather(-1, i), x, places)
            if batch > 1:
                repeated = torch.empty(1, rows, taken, device="meta", dtype=torch.int64).expand(batch, -1, -1)
                yield from listed(lambda x, i: x.gather(-1, i), x, repeated)


def grouped_convolutions() -> Iterator[Call]:
    shapes = (  # images, groups, channels of a group, side, kernel, stride
        *(
            (64, 2, 64, 56, 3, 1),
            (64, 3, 64, 56, 3, 2),
            (64, 8, 64, 28, 3, 2),
            (64, 8, 64, 14, 3, 1),
            (64, 17, 64, 14, 3, 2),
        ),
        *(
            (32, 32, 4, 56, 3, 1),
            (32, 32, 8, 28, 3, 1),
            (32, 32, 16, 14, 3, 1),
            (32, 32, 32, 14, 3, 1),
            (64, 14, 16, 28, 3, 1),
        ),
        *(
            (16, 16, 24, 28, 3, 1),
            (16, 8, 40, 28, 3, 1),
            (16, 6, 48, 28, 3, 2),
            (64, 7, 112, 14, 3, 1),
            (64, 4, 128, 14, 3, 1),
        ),
        *(
            (8, 4, 32, 64, 5, 1),
            (8, 16, 2, 56, 3, 1),
            (8, 64, 2, 28, 3, 1),
            (128, 8, 32, 7, 3, 1),
            (16, 2, 96, 27, 5, 1),
        ),
        *(
            (32, 4, 16, 56, 1, 1),
            (32, 3, 80, 28, 1, 1),
            (8, 2, 256, 14, 3, 1),
            (4, 8, 64, 56, 3, 1),
            (128, 16, 64, 14, 3, 1),
        ),
        *(
            (256, 12, 24, 14, 3, 1),
            (2, 32, 32, 28, 3, 1),
            (16, 32, 4, 28, 3, 2),
            (16, 64, 16, 14, 3, 2),
            (8, 12, 64, 32, 7, 1),
        ),
        *((1, 8, 64, 56, 3, 1), (16, 48, 8, 14, 3, 1), (16, 4, 8, 112, 3, 2), (32, 10, 72, 14, 3, 1)),
    )
    for dtype in FORMATS:
        for layout in LAYOUTS:
            for images, groups, channels, side, kernel, stride in shapes:
                x = full(images, groups * channels, side, side, dtype=dtype, layout=layout)
                weights = full(groups * channels, channels, kernel, kernel, dtype=dtype, layout=layout)
                run = lambda x, w, g=groups, k=kernel, s=stride: functional.conv2d(x, w, None, s, k // 2, 1, g)  # noqa: E731
                yield from listed(run, x, weights, backward=dtype != FP16)


def rows_of_signals() -> Iterator[Call]:
    """Convolutions over one dimension: plain, dilated, with groups."""
    shapes = (  # sequences, channels in, out, length, kernel, stride, dilation, groups
        *(
            (16, 80, 384, 3000, 3, 1, 1, 1),
            (16, 384, 384, 3000, 3, 2, 1, 1),
            (16, 512, 512, 1599, 3, 2, 1, 1),
            (16, 1, 512, 80000, 10, 5, 1, 1),
        ),
        *(
            (32, 64, 64, 4096, 3, 1, 1, 1),
            (32, 64, 64, 4096, 3, 1, 4, 1),
            (32, 128, 128, 1024, 5, 1, 16, 1),
            (8, 256, 256, 2048, 7, 1, 2, 1),
        ),
        *(
            (16, 768, 768, 249, 128, 1, 1, 16),
            (64, 256, 256, 512, 31, 1, 1, 256),
            (16, 512, 512, 1024, 15, 1, 1, 512),
            (32, 128, 128, 1000, 3, 1, 1, 4),
        ),
        *((8, 1024, 1024, 512, 1, 1, 1, 1), (4, 4096, 4096, 1024, 4, 1, 1, 4096), (64, 32, 64, 8000, 9, 4, 1, 1)),
    )
    for dtype in FORMATS:
        for count, c_in, c_out, length, kernel, stride, dilation, groups in shapes:
            x, weights = full(count, c_in, length, dtype=dtype), full(c_out, c_in // groups, kernel, dtype=dtype)
            pad = dilation * (kernel - 1) // 2
            run = lambda x, w, s=stride, p=pad, d=dilation, g=groups: functional.conv1d(x, w, None, s, p, d, g)  # noqa: E731
            yield from listed(run, x, weights, backward=groups < 16 or groups > 16)


def dilated_convolutions() -> Iterator[Call]:
    for dtype in (FP32, BF16):
        for layout in LAYOUTS:
            for images, c_in, c_out, side, dilation in (
                (8, 256, 256, 32, 2),
                (8, 512, 512, 32, 4),
                (4, 2048, 256, 33, 6),
                (4, 2048, 256, 33, 18),
                (16, 64, 64, 64, 2),
            ):
                x = full(images, c_in, side, side, dtype=dtype, layout=layout)
                weights = full(c_out, c_in, 3, 3, dtype=dtype, layout=layout)
                yield from listed(lambda x, w, d=dilation: functional.conv2d(x, w, None, 1, d, d), x, weights)


IMAGES = ((64, 256, 56), (64, 512, 28), (64, 1088, 7), (8, 128, 128), (128, 96, 14), (32, 24, 112), (16, 960, 14))


def pointwise_images() -> Iterator[Call]:
    """A factor or an addend for each channel, of each image or of all; means over pixels; activations."""
    for dtype in FORMATS:
        for layout in LAYOUTS:
            for images, channels, side in IMAGES:
                x = full(images, channels, side, side, dtype=dtype, layout=layout)
                factor, shift = full(images, channels, 1, 1, dtype=dtype), full(1, channels, 1, 1, dtype=dtype)
                yield from listed(lambda x, f: x * f, x, factor)
                yield from listed(lambda x, s: x + s, x, shift, backward=False)
                yield from listed(lambda x: x.mean((2, 3), keepdim=True), x)
                yield from listed(lambda x: functional.adaptive_avg_pool2d(x, 1), x)
                yield from listed(functional.hardswish, x)
                yield from listed(functional.silu, x)
                yield from listed(lambda x: functional.avg_pool2d(x, 2), x)
                yield from listed(lambda x: functional.pad(x, (1, 2, 1, 2)), x)
                yield from listed(lambda x: x.sum((0, 2, 3)), x, backward=False, keep=("sum",))


def strided() -> Iterator[Call]:
    """Tensors in another order: heads moved, parts of rows, columns repeated, formats mixed."""
    for dtype in FORMATS:
        for batch, tokens, heads, width in (
            (8, 512, 12, 64),
            (16, 197, 12, 64),
            (4, 2048, 16, 128),
            (48, 197, 6, 64),
            (2, 4096, 32, 80),
        ):
            x = full(batch, tokens, heads, width, dtype=dtype)
            yield from listed(lambda x: x.transpose(1, 2).contiguous(), x)
            yield from listed(lambda x: x.permute(0, 2, 3, 1).contiguous(), x)
            yield from listed(lambda x: x[..., : x.shape[-1] // 2] * 2.0, x, backward=False)
            yield from listed(lambda x: torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), -1), x)
            cosine = full(1, tokens, 1, width, dtype=dtype)
            yield from listed(lambda x, c: x.transpose(1, 2) * c.transpose(1, 2), x, cosine, backward=False)
            flat = full(batch, tokens, heads * width, dtype=dtype)
            yield from listed(lambda x: x.transpose(1, 2) + 1.0, flat, backward=False)
            yield from listed(
                lambda x, y: x.transpose(1, 2).contiguous() + y.transpose(1, 2), flat, flat, backward=False
            )
            yield from listed(lambda x, c: x * c, flat, full(batch, tokens, 1, dtype=dtype), backward=False)
            yield from listed(
                lambda x, c: x * (1 + c), flat, full(batch, 1, heads * width, dtype=dtype), backward=False
            )
            if dtype != FP32:
                yield from listed(lambda x: x.float(), flat, backward=False)
                yield from listed(lambda x: x.transpose(1, 2).float(), flat, backward=False)
                yield from listed(lambda x, y: x + y, flat, full(batch, tokens, heads * width), backward=False)


def sums() -> Iterator[Call]:
    for dtype in FORMATS:
        for rows in (1024, 8192, 65536, 400000, 1000000):
            for width in (16, 64, 128, 512, 1024, 3072):
                if rows * width <= 4e8:
                    yield from listed(lambda x: x.sum(0), full(rows, width, dtype=dtype), backward=False, keep=("sum",))
        for batch, tokens, width in ((64, 196, 768), (256, 49, 1024), (16, 1024, 256), (1024, 16, 64)):
            yield from listed(lambda x: x.mean(1), full(batch, tokens, width, dtype=dtype))


def over_channels() -> Iterator[Call]:
    """Softmax, its logarithm and losses over the channels of each pixel."""
    for dtype in (FP32, BF16):
        for images, classes, side in (
            (8, 150, 256),
            (8, 21, 128),
            (4, 19, 512),
            (16, 2, 256),
            (8, 150, 64),
            (2, 1000, 32),
            (64, 10, 56),
        ):
            x = full(images, classes, side, side, dtype=dtype)
            yield from listed(lambda x: x.softmax(1), x)
            yield from listed(lambda x: x.log_softmax(1), x)
            y = torch.empty(images, side, side, device="meta", dtype=torch.int64)
            yield from listed(lambda x, y: functional.nll_loss(x, y), x, y)
        for rows, width in ((16384, 768), (4096, 4096), (65536, 64)):
            yield from listed(lambda x: x.softmax(0), full(rows, width, dtype=dtype))


def weight_norms() -> Iterator[Call]:
    for dtype in FORMATS:
        for shape, dim in (
            ((768, 48, 128), 2),
            ((512, 512, 3), 0),
            ((256, 256, 7), 0),
            ((1024, 4096), 0),
            ((64, 64, 3), 0),
        ):
            gains = full(*(size if place == dim else 1 for place, size in enumerate(shape)), dtype=dtype)
            yield from listed(lambda v, g, d=dim: torch._weight_norm(v, g, d), full(*shape, dtype=dtype), gains)


def biased_attention() -> Iterator[Call]:
    shapes = (
        (48, 12, 197, 197, 64),
        (16, 12, 512, 512, 64),
        (8, 16, 1024, 1024, 64),
        (64, 6, 196, 196, 32),
        (4, 8, 2048, 2048, 128),
        (2, 32, 1, 1024, 128),
        (16, 8, 256, 77, 40),
    )
    for dtype in FORMATS:
        for batch, heads, queries, keys, width in shapes:
            q, k, v = (full(batch, heads, length, width, dtype=dtype) for length in (queries, keys, keys))
            for outer in ((1, heads), (batch, 1), (batch, heads)):
                bias = full(*outer, queries, keys, dtype=dtype)
                yield from listed(
                    lambda q, k, v, b: functional.scaled_dot_product_attention(
                        q, k, v, b.expand(q.shape[0], q.shape[1], -1, -1)
                    ),
                    *(q, k, v, bias),
                    backward=False,
                )
                given = (
                    *(Tensor(item.shape, NAMES[dtype], item.stride()) for item in (q, k, v, bias)),
                    0.0,
                    False,
                    None,
                    False,
                )
                yield Call("aten::scaled_dot_product_attention", given, (given[0],))  # the kernel that PyTorch chooses


def summed_rows() -> Iterator[Call]:
    """The gradient of rows that were taken from a table, as autograd calls it."""
    for dtype in FORMATS:
        for rows, taken, width in (
            *TABLES,
            (40000, 400000, 8),
            (196, 40000, 12),
            (2048, 2048, 64),
            (16384, 65536, 256),
        ):
            table, values = (Tensor((count, width), NAMES[dtype], (width, 1)) for count in (rows, taken))
            given = (table, (Tensor((taken,), "int64", (1,)),), values, True, True)
            yield Call("aten::_index_put_impl_", given, (table,))


def depthwise_convolutions() -> Iterator[Call]:
    shapes = (  # images, channels, side, kernel, stride
        *(
            (64, 32, 112, 3, 1),
            (64, 96, 112, 3, 2),
            (64, 144, 56, 3, 1),
            (64, 192, 28, 3, 1),
            (64, 384, 14, 3, 1),
            (64, 960, 7, 3, 1),
        ),
        *(
            (128, 72, 56, 5, 2),
            (128, 120, 28, 5, 1),
            (128, 672, 14, 5, 2),
            (32, 96, 56, 7, 1),
            (32, 192, 28, 7, 1),
            (32, 384, 14, 7, 1),
        ),
        *(
            (32, 768, 7, 7, 1),
            (8, 64, 64, 3, 1),
            (8, 1280, 8, 3, 1),
            (16, 240, 28, 3, 2),
            (256, 576, 14, 3, 1),
            (4, 48, 97, 5, 1),
        ),
    )
    for dtype in FORMATS:
        for layout in LAYOUTS:
            for images, channels, side, kernel, stride in shapes:
                x = full(images, channels, side, side, dtype=dtype, layout=layout)
                weights = full(channels, 1, kernel, kernel, dtype=dtype)
                run = lambda x, w, k=kernel, s=stride, g=channels: functional.conv2d(x, w, None, s, k // 2, 1, g)  # noqa: E731
                yield from listed(run, x, weights)


def tall_norms() -> Iterator[Call]:
    for dtype in FORMATS:
        for rows, width in (
            (131072, 64),
            (100352, 96),
            (401408, 128),
            (65600, 256),
            (70000, 512),
            (262144, 32),
            (160000, 192),
            (200704, 128),
            (524288, 64),
            (98304, 768),
        ):
            weights = full(width, dtype=dtype), full(width, dtype=dtype)
            yield from listed(
                lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), full(rows, width, dtype=dtype), *weights
            )


def losses() -> Iterator[Call]:
    for dtype in (FP32, BF16):
        for rows, classes in (
            (32, 1000),
            (4096, 32000),
            (8192, 50257),
            (40000, 40),
            (2048, 151936),
            (512, 10),
            (16384, 8192),
        ):
            yield from listed(lambda x, y: functional.nll_loss(x, y), full(rows, classes, dtype=dtype), indices(rows))
            values = full(rows, classes, dtype=dtype)
            yield from listed(functional.mse_loss, values, values)


def moved() -> Iterator[Call]:
    """Rolled windows, padded tokens, sums that broadcasts leave, means over parts."""
    for dtype in FORMATS:
        for batch, side, width in (
            (32, 56, 96),
            (32, 28, 192),
            (64, 14, 384),
            (8, 56, 128),
            (4, 112, 64),
            (16, 32, 256),
        ):
            x = full(batch, side, side, width, dtype=dtype)
            yield from listed(lambda x: torch.roll(x, (-3, -3), (1, 2)), x, backward=False)
            yield from listed(lambda x: torch.roll(x, -3, 1), x, backward=False)
            yield from listed(lambda x: functional.pad(x, (0, 0, 0, 3, 0, 3)), x)
            yield from listed(lambda x: x.permute(0, 3, 1, 2).contiguous(), x, backward=False)
            yield from listed(lambda x: x.mean((1, 2)), x)
            yield from listed(lambda x: x.norm(p=2, dim=(1, 2), keepdim=True), x, backward=False)
            yield from listed(lambda x: x.amax((1, 2)), x, backward=False)
            yield from listed(lambda x: x.cumsum(1), x, backward=False)
            yield from listed(lambda x, f: x * f, x, full(batch, 1, 1, width, dtype=dtype))
            yield from listed(lambda x, f: x * f, x, full(width, dtype=dtype))
            yield from listed(functional.gelu, x)
            yield from listed(functional.hardsigmoid, x)


def with_bias(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, bias.detach().expand(q.shape[0], -1, -1, -1))


def attention() -> Iterator[Call]:
    """In fp32, which only one library kernel does; with a gradient, and with a bias that has none."""
    shapes = (
        *(
            (32, 8, 2048, 32, 32),
            (32, 8, 32, 2048, 32),
            (16, 12, 197, 197, 64),
            (8, 12, 512, 512, 64),
            (4, 16, 1024, 1024, 64),
        ),
        *(
            (2, 8, 2048, 2048, 128),
            (64, 4, 64, 64, 32),
            (256, 8, 40, 40, 24),
            (8, 8, 256, 256, 16),
            (4, 8, 4096, 77, 40),
        ),
    )
    for dtype in FORMATS:
        for batch, heads, queries, keys, width in shapes:
            q, k, v = (full(batch, heads, length, width, dtype=dtype) for length in (queries, keys, keys))
            if dtype == FP32:
                yield from listed(functional.scaled_dot_product_attention, q, k, v)
            bias = full(1, heads, queries, keys, dtype=dtype)
            if keys % 8 == 0:
                yield from listed(with_bias, q, k, v, bias, keep=ATTENTION)


def further_calls() -> Iterator[Call]:
    """More of the kinds that had fewer than twelve calls, of other sizes: pools, losses, tall norms, tables, fp32 attention."""
    for dtype in FORMATS:
        for images, channels, side, window in FURTHER_IMAGES:
            for layout in LAYOUTS:
                x = full(images, channels, side, side, dtype=dtype, layout=layout)
                yield from listed(lambda x, window=window: functional.avg_pool2d(x, window), x)
        for rows, width in FURTHER_ROWS:
            x, weight, bias = full(rows, width, dtype=dtype), full(width, dtype=dtype), full(width, dtype=dtype)
            yield from listed(lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), x, weight, bias)
    for dtype in (FP32, BF16):
        for rows, classes in FURTHER_CLASSES:
            values = full(rows, classes, dtype=dtype)
            yield from listed(lambda x, y: functional.nll_loss(x, y), values, indices(rows))
            yield from listed(functional.mse_loss, values, values)
        for images, classes, side in FURTHER_MAPS:
            labels = torch.empty(images, side, side, device="meta", dtype=torch.int64)
            yield from listed(
                lambda x, y: functional.nll_loss(x, y), full(images, classes, side, side, dtype=dtype), labels
            )
        for rows, taken, width in FURTHER_TABLES:
            table, index, values = full(rows, width, dtype=dtype), indices(taken), full(taken, width, dtype=dtype)
            yield from listed(lambda x, i, v: x.index_add(0, i, v), table, index, values, backward=False)
    for images, channels, side, _ in FURTHER_IMAGES:
        x, size = full(images, channels, side, side), 2 * side
        yield from listed(lambda x, size=size: functional.interpolate(x, (size, size), mode="bicubic"), x)
    for batch, heads, queries, keys, width in FURTHER_HEADS:
        q, k, v = (full(batch, heads, length, width) for length in (queries, keys, keys))
        yield from listed(functional.scaled_dot_product_attention, q, k, v)


FURTHER_IMAGES = (
    *((32, 64, 112, 2), (16, 192, 28, 2), (128, 512, 14, 2), (4, 32, 256, 4), (256, 1280, 7, 7), (8, 3, 512, 2)),
    *((64, 128, 56, 2), (2, 256, 64, 2), (48, 384, 24, 3), (1, 64, 200, 2), (12, 768, 16, 2), (96, 48, 40, 4)),
)
FURTHER_ROWS = (
    *(
        (81920, 160),
        (250000, 48),
        (120000, 384),
        (66000, 1024),
        (400000, 64),
        (300000, 256),
        (90000, 640),
        (180000, 96),
    ),
    *((150528, 128), (1000000, 32), (75000, 320), (230400, 192)),
)
FURTHER_CLASSES = (
    *((64, 1000), (128, 10), (1024, 50257), (2048, 32000), (16384, 1000), (65536, 100), (4096, 128256), (300, 2)),
    *((8192, 30522), (100000, 21), (512, 65536), (32768, 256)),
)
FURTHER_MAPS = (
    *((8, 21, 128), (4, 150, 128), (16, 2, 256), (2, 19, 512), (8, 19, 256), (1, 1000, 64), (32, 10, 64), (4, 21, 320)),
    *((16, 59, 96), (2, 150, 256), (64, 4, 48), (8, 33, 160)),
)
FURTHER_TABLES = (
    *((20000, 200000, 64), (5000, 250000, 128), (300000, 600000, 16), (1000, 4000, 512), (80000, 40000, 256)),
    *((2500, 10000, 32), (150000, 1500000, 64), (60000, 60000, 768), (200, 100000, 96), (12000, 48000, 300)),
)
FURTHER_HEADS = (
    *(
        (16, 8, 1024, 1024, 64),
        (8, 16, 384, 384, 64),
        (32, 12, 128, 128, 64),
        (4, 8, 1500, 1500, 64),
        (2, 32, 512, 512, 128),
    ),
    *((64, 6, 197, 197, 64), (128, 8, 49, 49, 32), (8, 8, 64, 4096, 32), (8, 8, 4096, 64, 32), (16, 4, 1000, 100, 48)),
    *((1, 8, 4096, 4096, 40), (512, 4, 16, 16, 32), (6, 10, 1024, 77, 64), (24, 3, 300, 900, 96)),
)

ATTENTION = tuple(
    f"_scaled_dot_product_{name}_attention{part}"
    for name in ("efficient", "cudnn", "flash")
    for part in ("", "_backward")
)

KINDS: tuple[Callable[[], Iterator[Call]], ...] = (
    *(group_norms, resized, rows_of_tables, gathers, grouped_convolutions, rows_of_signals, dilated_convolutions),
    *(pointwise_images, strided, sums, over_channels, weight_norms, biased_attention),
    *(summed_rows, depthwise_convolutions, tall_norms, losses, moved, attention, further_calls),
)


def drawn() -> Iterator[Call]:
    """Every call once."""
    known: set[Call] = set()
    for kind in KINDS:
        for call in kind():
            if call not in known:
                known.add(call)
                yield call
