"""Calls of small tensors, drawn at random: what small networks, heads and single images launch most of.

    python benchmarks/programs/single_calls.py --list CALLS --small calibration
    python benchmarks/programs/single_calls.py --list CALLS --small test             never to be fitted to

The calls of `call_shapes.py` are of large tensors, so that the time of a short kernel would rest on what is left of long ones. Numbers
of elements are drawn log-uniformly from a hundred to four million; the same calls every time.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from call_shapes import BF16, FP32, LAYOUTS, full, indices, listed
from torch.nn import functional

from ridgeline.core.timeline import Call

COUNTS = {"calibration": 26, "test": 8}  # of each kind, format and layout
SEEDS = {"calibration": 9310, "test": 9320}
MIN_ELEMENTS, MAX_ELEMENTS = 100.0, 4e6


class Small:
    """Draws shapes of small tensors."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def size(self, low: float, high: float) -> int:
        return round(np.exp(self.random.uniform(np.log(low), np.log(max(high, low)))))

    def images(self) -> tuple[int, int, int]:
        """Images, channels and the side of one."""
        elements = self.size(MIN_ELEMENTS, MAX_ELEMENTS)
        side = self.size(2, min(128.0, max(2.0, elements**0.5)))
        channels = self.size(1, min(1024.0, max(1.0, elements / side**2)))
        if channels > 4:
            channels = 4 * (channels // 4)
        return max(1, elements // (side**2 * channels)), channels, side

    def rows(self) -> tuple[int, int]:
        elements = self.size(MIN_ELEMENTS, MAX_ELEMENTS)
        width = self.size(2, min(8192.0, elements / 2))
        return max(1, elements // width), width


def _of_images(draw: Small, dtype: torch.dtype, layout: torch.memory_format) -> Iterator[Call]:
    def image(scale: int = 1) -> torch.Tensor:
        images, channels, side = draw.images()
        return full(images, channels, max(side, scale), max(side, scale), dtype=dtype, layout=layout)

    x = image()
    groups = next(count for count in (32, 8, 4, 2, 1) if x.shape[1] % count == 0)
    weights = full(x.shape[1], dtype=dtype), full(x.shape[1], dtype=dtype)
    yield from listed(lambda x, w, b: functional.group_norm(x, groups, w, b), x, *weights)
    for mode in ("nearest", "bilinear"):
        x = image()
        size = max(1, int(x.shape[-1] * float(draw.random.choice([0.5, 1.5, 2.0, 2.0, 4.0]))))
        yield from listed(lambda x, mode=mode, size=size: functional.interpolate(x, (size, size), mode=mode), x)
    yield from listed(lambda x: functional.avg_pool2d(x, 2), image(2))
    yield from listed(lambda x: functional.pad(x, (1, 1, 1, 1)), image())
    yield from listed(lambda x: x.mean((2, 3)), image())
    yield from listed(lambda x: torch.roll(x, (1, 1), (2, 3)), image(), backward=False)
    yield from listed(lambda x: x.softmax(1), image())
    x = image()
    yield from listed(lambda x, f: x * f, x, full(x.shape[0], x.shape[1], 1, 1, dtype=dtype))
    yield from listed(lambda x: functional.max_pool2d(x, 2), image(2))
    yield from listed(lambda x: x.sum((0, 2, 3)), image(), backward=False, keep=("sum",))


def _of_rows(draw: Small, dtype: torch.dtype) -> Iterator[Call]:
    rows, width = draw.rows()
    yield from listed(lambda x, y: functional.nll_loss(x, y), full(rows, width, dtype=dtype), indices(rows))
    x = full(*draw.rows(), dtype=dtype)
    yield from listed(functional.mse_loss, x, x)
    yield from listed(lambda x: x.sum(0), full(*draw.rows(), dtype=dtype), backward=False, keep=("sum",))
    yield from listed(lambda x: x.mean(-1), full(*draw.rows(), dtype=dtype))
    taken, width = draw.rows()
    table, index, values = full(draw.size(2, 1e5), width, dtype=dtype), indices(taken), full(taken, width, dtype=dtype)
    yield from listed(lambda x, i: x[i], table, index)
    yield from listed(lambda x, i, v: x.index_add(0, i, v), table, index, values, backward=False)
    wide = index[:, None].expand(taken, width)
    yield from listed(lambda x, i, v: x.scatter_add(0, i, v), table, wide, values, backward=False)
    rows, width = draw.rows()
    places = torch.empty(rows, draw.size(1, width), device="meta", dtype=torch.int64)
    yield from listed(lambda x, i: x.gather(-1, i), full(rows, width, dtype=dtype), places)
    x = full(*draw.rows(), dtype=dtype)
    yield from listed(lambda x, f: x * f, x, full(x.shape[1], dtype=dtype))
    x = full(*draw.rows(), dtype=dtype)
    yield from listed(lambda x, f: x * f, x, full(x.shape[0], 1, dtype=dtype))
    yield from listed(lambda x: torch.cat((x, x), -1), full(*draw.rows(), dtype=dtype))
    yield from listed(functional.gelu, full(*draw.rows(), dtype=dtype))
    x = full(*draw.rows(), dtype=dtype)
    weights = full(x.shape[1], dtype=dtype), full(x.shape[1], dtype=dtype)
    yield from listed(lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b), x, *weights)
    yield from listed(lambda x: x.softmax(-1), full(*draw.rows(), dtype=dtype))
    yield from listed(lambda x: x.t().contiguous(), full(*draw.rows(), dtype=dtype), backward=False)


def drawn(chosen: str) -> Iterator[Call]:
    draw, known = Small(SEEDS[chosen]), set[Call]()
    for _ in range(COUNTS[chosen]):
        for dtype in (FP32, BF16):
            calls = [call for layout in LAYOUTS for call in _of_images(draw, dtype, layout)]
            for call in [*calls, *_of_rows(draw, dtype)]:
                if call not in known:
                    known.add(call)
                    yield call
