"""Further networks for `network_convolutions.py`: families to calibrate with, and others to test with that no fit has seen.

A family is on one side only. Channels, kernels and strides are those of the published networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from networks import Images, inverted, residual

Network = Callable[[int], Images]
SIDES = (128, 160, 176, 192, 208, 224, 240, 256, 288, 299, 320, 384)
LARGE = (256, 300, 320, 384, 416, 480, 512, 640, 768)


# -- to calibrate with ----------------------------------------------------------------------------------------


def xception(side: int) -> Images:
    x = Images(side).conv(32, 3, 2, padding=0).conv(64, 3, padding=0)
    for width in (128, 256, 728):
        begin = x.side, x.channels
        x.alone().conv(width, 1).alone().conv(width, 1).pool().at(*begin).conv(width, 1, 2)
    return x.alone().conv(728, 1).alone().conv(1024, 1).alone().conv(1536, 1).alone().conv(2048, 1)


def translated(width: int) -> Network:
    """Images into images: a residual generator with transposed layers, and the patches that judge it."""

    def network(side: int) -> Images:
        x = Images(side).conv(width, 7).conv(2 * width, 3, 2).conv(4 * width, 3, 2).conv(4 * width)
        x.transposed(2 * width, 3, 2, 1).transposed(width, 3, 2, 1).at(side, width).conv(3, 7)
        x.at(side, 3)
        for out, stride in ((width, 2), (2 * width, 2), (4 * width, 2), (8 * width, 1), (1, 1)):
            x.conv(out, 4, stride, padding=1)
        return x

    return network


def mirrored(width: int) -> Network:
    """4x4 strides down to one pixel and transposed ones up again, with the channels of the way down joined in."""

    def network(side: int) -> Images:
        x, outs = Images(side), [width * factor for factor in (1, 2, 4, 8, 8, 8)]
        for out in outs:
            x.conv(out, 4, 2, padding=1)
        for out in reversed(outs[:-1]):
            x.transposed(out, 4, 2, 1).at(x.side, 2 * out)
        return x.transposed(3, 4, 2, 1)

    return network


def boxes(side: int) -> Images:
    """A backbone of 3x3 layers, then heads of 3x3 layers with 4 and 21 or 91 numbers a box on every scale."""
    x = Images(side)
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3)):
        for _ in range(count):
            x.conv(width)
        x.pool()
    begin = x.side
    x.at(begin, 512).conv(1024, 3, dilation=6).conv(1024, 1)
    for down, channels, count in ((1, 512, 4), (2, 1024, 6), (4, 512, 6), (8, 256, 6), (16, 256, 4)):
        at = max(begin // down, 1)
        x.at(at, channels).conv(4 * count).at(at, channels).conv(21 * count).at(at, channels).conv(91 * count)
    return x.at(max(begin // 2, 1), 1024).conv(256, 1).conv(512, 3, 2).conv(128, 1).conv(256, 3, 2)


def shuffled(groups: int, widths: Sequence[int]) -> Network:
    """1x1 layers in groups around depthwise ones."""

    def network(side: int) -> Images:
        x = Images(side).conv(24, 3, 2).pool()
        for width in widths:
            quarter = width // 4 // groups * groups
            x.at(x.side, width).conv(quarter, 1, groups=groups).alone(3, 2).conv(width, 1, groups=groups)
            x.conv(quarter, 1, groups=groups).alone().conv(width, 1, groups=groups)
        return x

    return network


def noise(base: int, times: Sequence[int], classes: int) -> Network:
    """A U-Net over pixels; on the way up its blocks also take what was kept on the way down."""

    def network(side: int) -> Images:
        x = Images(side // 4).conv(base)
        for factor in times:
            x.conv(base * factor).conv(base * factor).conv(base * factor, 1).conv(base * factor, 3, 2)
        for factor in reversed(times):
            x.at(2 * x.side, 2 * base * factor).conv(base * factor).at(x.side, 2 * base * factor).conv(base * factor, 1)
        return x.conv(classes)

    return network


def mixed(side: int) -> Images:
    """Depthwise stems of transformers and hybrids: embeddings by 3x3 strides, 1x1 expansions of odd widths."""
    x = Images(side).conv(40, 3, 2)
    for width, expanded in ((40, 100), (76, 228), (114, 456), (190, 570)):
        x.conv(width, 3, 2).conv(expanded, 1).alone(5).conv(width, 1)
    return x.conv(1000, 1)


MNAS = (
    *((32, 16, 3, 1, 0), (48, 24, 3, 2, 0), (72, 24, 3, 1, 0), (72, 40, 5, 2, 0), (120, 40, 5, 1, 0)),
    *((240, 80, 5, 2, 0), (480, 80, 5, 1, 0), (480, 96, 3, 1, 0), (576, 192, 5, 2, 0), (1152, 320, 3, 1, 0)),
)
NARROW = (
    *((12, 12, 3, 1, 0), (36, 20, 3, 2, 0), (100, 20, 3, 1, 4), (60, 28, 5, 2, 12), (140, 28, 5, 1, 20)),
    *((180, 68, 3, 2, 0), (372, 68, 3, 1, 36), (500, 132, 5, 2, 44)),
)
CALIBRATION: dict[str, tuple[Sequence[Network], Sequence[int]]] = {
    "xception": ([xception], SIDES),
    "image translation": ([translated(64), translated(48), mirrored(64), mirrored(32)], (128, 256, 256, 320, 512)),
    "ssd": ([boxes], LARGE),
    "shufflenet v1": ([shuffled(3, (240, 480, 960)), shuffled(8, (384, 768, 1536)), shuffled(4, (272, 544))], SIDES),
    "ddpm": ([noise(128, (1, 2, 2, 2), 3), noise(96, (1, 2, 3, 5), 6), noise(160, (1, 2, 4), 4)], LARGE),
    "hybrids": ([mixed], SIDES),
    "mnasnet": ([inverted(32, MNAS, 1280), inverted(12, NARROW, 620)], SIDES),
    "resnext of wide groups": ([residual((256, 512, 1024, 2048), (256, 512, 1024, 2048), 32)], SIDES),
}


# -- to test with ---------------------------------------------------------------------------------------------


def repeated(widths: Sequence[int]) -> Network:
    """Plain 3x3 layers with 1x1 ones next to them."""

    def network(side: int) -> Images:
        x = Images(side)
        for width in widths:
            begin = x.side, x.channels
            x.conv(width, 3, 2).at(*begin).conv(width, 1, 2).conv(width).conv(width, 1)
        return x

    return network


def ghosts(side: int) -> Images:
    """1x1 layers for half of the channels, cheap depthwise ones for the other half."""
    x = Images(side).conv(16, 3, 2)
    for expanded, out, kernel, stride in (
        *((16, 16, 3, 1), (48, 24, 3, 2), (72, 24, 3, 1), (72, 40, 5, 2), (120, 40, 5, 1)),
        *((240, 80, 3, 2), (184, 80, 3, 1), (480, 112, 3, 1), (672, 160, 5, 2), (960, 160, 5, 1)),
    ):
        x.conv(expanded // 2, 1).alone().at(x.side, expanded)
        if stride > 1:
            x.alone(kernel, stride)
        x.conv(out // 2, 1).alone().at(x.side, out)
    return x.conv(960, 1)


def searched(width: int) -> Network:
    """Cells of separable 3x3, 5x5 and 7x7 layers."""

    def network(side: int) -> Images:
        x = Images(side).conv(32, 3, 2, padding=0)
        for factor in (1, 2, 4):
            out = width * factor
            x.conv(out, 1)
            for kernel in (3, 5, 7):
                x.alone(kernel).conv(out, 1)
            x.alone(5, 2).conv(out, 1).at(x.side, 6 * out)
        return x

    return network


def pooled_scene(side: int) -> Images:
    """Scene parsing: a dilated backbone, pooled pyramids, and a decoder that takes early layers again."""
    x, at = Images(side).conv(64, 3, 2).conv(64).conv(128), side // 8
    for pooled in (1, 2, 3, 6):
        x.at(pooled, 2048).conv(512, 1)
    x.at(at, 4096).conv(512).conv(150, 1).at(side // 4, 256).conv(48, 1).at(side // 4, 304).conv(256).conv(256)
    return x.conv(19, 1).at(at, 1024).conv(256, 3, dilation=2).at(at, 2048).conv(512, 3, dilation=4)


def two_way(width: int) -> Network:
    """A pyramid of depthwise separable layers, up and down, with heads of 9 boxes of 90 classes."""

    def network(side: int) -> Images:
        x = Images(side)
        for down, channels in ((8, 40), (16, 112), (32, 320)):
            x.at(side // down, channels).conv(width, 1).alone().conv(width, 1).alone().conv(810, 1)
            x.at(side // down, width).conv(36, 1)
        return x

    return network


def styles(side: int) -> Images:
    """A generator that doubles its images by transposed 3x3 layers, and a discriminator of blurred strides."""
    x = Images(4, 512)
    for width in (512, 512, 256, 128, 64):
        x.conv(width).conv(3, 1).at(x.side, width).transposed(width, 3, 2, 1).at(x.side + 1, width)
    x.at(side, 3).conv(32, 1)
    for width in (64, 128, 256, 512):
        begin = x.side, x.channels
        x.conv(x.channels).conv(width, 3, 2, padding=0).at(*begin).conv(width, 1, 2)
    return x


def enlarged(width: int, scale: int) -> Network:
    """Super-resolution: residual layers of one width, then pixels shuffled out of channels."""

    def network(side: int) -> Images:
        x = Images(side // scale).conv(width).conv(width).conv(width * scale * scale)
        return x.at(side, width).conv(3, 9).at(side // scale, width).conv(3 * scale * scale)

    return network


def hourglass(side: int) -> Images:
    """Poses: residual blocks of 256 channels over ever smaller images, joints as heat maps; a head of transposed layers."""
    x = Images(side).conv(64, 7, 2).conv(128, 1)
    for down in (4, 8, 16, 32, 64):
        x.at(max(side // down, 1), 256).conv(128, 1).conv(128).conv(256, 1)
    x.at(side // 4, 256).conv(17, 1).at(side // 4, 17).conv(256, 1).at(side // 32, 2048)
    return x.transposed(256, 4, 2, 1).transposed(256, 4, 2, 1).transposed(256, 4, 2, 1).conv(17, 1)


def cross_stage(width: float) -> Network:
    """Detection: half of the channels through bottlenecks, then joined; heads of 3 boxes of 85 numbers."""

    def network(side: int) -> Images:
        x, first = Images(side), int(64 * width)
        x.conv(first, 6, 2, padding=2)
        for factor in (2, 4, 8, 16):
            out = first * factor
            x.conv(out, 3, 2).conv(out // 2, 1).conv(out // 2, 1).conv(out // 2).at(x.side, out).conv(out, 1)
        for down, factor in ((8, 4), (16, 8), (32, 16)):
            x.at(side // down, first * factor).conv(255, 1)
        return x

    return network


def masked_patches(side: int) -> Images:
    """Stems and positions of vision transformers: patches, overlapping embeddings, depthwise positions."""
    x = Images(side)
    for width, patch in ((192, 16), (384, 16), (384, 8), (1408, 14)):
        x.at(side, 3).conv(width, patch, patch, padding=0)
    for width, down in ((64, 4), (128, 8), (320, 16), (512, 32)):
        x.at(side // down, width).alone().conv(4 * width, 1).alone().conv(width, 1).alone(5)
    return x.at(side // 4, 64).conv(128, 2, 2, padding=0).conv(320, 2, 2, padding=0)


FRESH: dict[str, tuple[Sequence[Network], Sequence[int]]] = {
    "repvgg": ([repeated((48, 48, 96, 192, 1280)), repeated((64, 160, 320, 640, 2560))], SIDES),
    "ghostnet": ([ghosts], SIDES),
    "nasnet": ([searched(44), searched(168)], (224, 224, 331)),
    "pspnet, deeplab v3+": ([pooled_scene], (473, 512, 513, 640, 768)),
    "efficientdet": ([two_way(64), two_way(88), two_way(160)], (512, 640, 768)),
    "stylegan": ([styles], (128, 256, 512)),
    "edsr": ([enlarged(64, 2), enlarged(64, 4), enlarged(256, 3)], (192, 288, 384, 480)),
    "hourglass, simple baselines": ([hourglass], (192, 256, 256, 384)),
    "yolo v5": ([cross_stage(0.5), cross_stage(0.75), cross_stage(1.0)], (320, 416, 512, 640)),
    "transformers": ([masked_patches], (224, 224, 336, 384, 448)),
    "resnest, wide resnet": (
        [
            residual((64, 128, 256, 512), (256, 512, 1024, 2048), 32, (32, 32, 64)),
            residual((160, 320, 640), (160, 320, 640), basic=True, stem=(16,)),
            residual((192, 384, 768, 1536), (256, 512, 1024, 2048), 12),
        ],
        (32, 64, 192, 224, 256, 320),
    ),
}
