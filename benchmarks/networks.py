"""Convolutions of a network as images pass through it, with the two shapes that many networks have: residual and inverted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Layer(NamedTuple):
    c_in: int
    c_out: int
    side: int
    kernel: int
    stride: int
    padding: int
    groups: int
    dilation: int
    op: str


class Images:
    """Images on their way through a network; every convolution on the way is listed."""

    def __init__(self, side: int, channels: int = 3) -> None:
        self.side, self.channels = side, channels
        self.layers: list[Layer] = []

    def at(self, side: int, channels: int) -> Images:
        self.side, self.channels = max(side, 1), channels
        return self

    def conv(
        self,
        c_out: int,
        kernel: int = 3,
        stride: int = 1,
        groups: int = 1,
        dilation: int = 1,
        padding: int | None = None,
    ) -> Images:
        pad = dilation * (kernel - 1) // 2 if padding is None else padding
        layer = Layer(self.channels, c_out, self.side, kernel, stride, pad, groups, dilation, "conv2d")
        side = (self.side + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1
        if side >= 1:
            self.layers.append(layer)
        return self.at(side, c_out)

    def alone(self, kernel: int = 3, stride: int = 1) -> Images:
        return self.conv(self.channels, kernel, stride, self.channels)

    def transposed(self, c_out: int, kernel: int = 2, stride: int = 2, padding: int = 0) -> Images:
        layer = Layer(self.channels, c_out, self.side, kernel, stride, padding, 1, 1, "conv_transpose2d")
        self.layers.append(layer)
        return self.at((self.side - 1) * stride - 2 * padding + kernel, c_out)

    def pool(self, stride: int = 2) -> Images:
        return self.at(-(-self.side // stride), self.channels)


Network = Callable[[int], Images]


def residual(
    widths: Sequence[int], outs: Sequence[int], group_width: int = 0, stem: Sequence[int] = (64,), basic: bool = False,
    dilated: bool = False,
) -> Network:  # fmt: skip
    """Stem, then stages of 1x1, 3x3, 1x1 (or 3x3, 3x3) with a shortcut; `group_width` channels a group."""

    def network(side: int) -> Images:
        x = Images(side)
        if len(stem) == 1:
            x.conv(stem[0], 7 if stem[0] == 64 else 3, 2)
        else:
            for place, width in enumerate(stem):
                x.conv(width, 3, 1 if place else 2)
        if stem[-1] >= 64:
            x.pool()
        for stage, (width, out) in enumerate(zip(widths, outs, strict=True)):
            stride = 2 if stage or stem[-1] < 64 else 1
            dilation = 2 ** max(stage - 1, 0) if dilated else 1
            stride = 1 if dilated and stage > 1 else stride
            groups = width // group_width if group_width else 1
            begin = x.side, x.channels
            for block in range(2):
                step = 1 if block else stride
                if basic:
                    x.conv(width, 3, step).conv(out, 3)
                else:
                    x.conv(width, 1).conv(width, 3, step, groups, dilation).conv(out, 1)
            end = x.side, x.channels
            x.at(*begin).conv(out, 1, stride).at(*end)
        return x

    return network


def inverted(stem: int, blocks: Sequence[tuple[int, int, int, int, int]], last: int, fused: int = 0) -> Network:
    """Stem, then blocks of 1x1 expansion, depthwise kernel, 1x1: (expanded, out, kernel, stride, squeezed); the first `fused`
    blocks have one full 3x3 for the first two."""

    def network(side: int) -> Images:
        x = Images(side).conv(stem, 3, 2)
        for place, (expanded, out, kernel, stride, squeezed) in enumerate(blocks):
            if place < fused:
                x.conv(expanded, kernel, stride)
            else:
                if expanded != x.channels:
                    x.conv(expanded, 1)
                x.alone(kernel, stride)
            if squeezed:
                end = x.side
                x.at(1, x.channels).conv(squeezed, 1).conv(expanded, 1).at(end, expanded)
            if expanded != out or place >= fused:
                x.conv(out, 1)
        return x.conv(last, 1)

    return network
