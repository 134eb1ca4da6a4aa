"""Convolutions of real networks as cases to time: forward, gradients of images and of weights, split by family of networks.

    python benchmarks/network_convolutions.py calibration 19000 7101 > calibration.csv
    python benchmarks/network_convolutions.py test 2600 7102 > test.csv
    python benchmarks/network_convolutions.py groups 1400 7103 > groups.csv
    python benchmarks/network_convolutions.py gradients 20000 7201 > gradients.csv
    python benchmarks/network_convolutions.py beyond 600 7301 > beyond.csv
    python benchmarks/network_convolutions.py further 9000 7401 > further.csv
    python benchmarks/network_convolutions.py fresh 1200 7402 > fresh.csv

Every family was on one side only until `popular` (for `further_convolutions.py layers`) drew other shapes of the first test's networks too;
those of `fresh` still are; `groups` are further cases for calibration, of no network: groups of 2 to 64 channels, large
depthwise kernels and patches. `gradients` are further ones too, of the calibration's networks and of `groups`, three in five
with groups of channels and nine in ten a gradient. `beyond` are depthwise kernels of more than 7x7 taps. `further` are cases for calibration of all its networks and
those of `further_networks.py`, two in three with channels off 8, few channels, groups, or transposed; `fresh` are a test of networks on no other
side. A case is a layer of a network at one of its resolutions, with a batch, format, layout and
pass drawn at random; the same arguments give the same table. Test cases that a calibration holds are left out. Only square
kernels are listed: `conv2d` has one side of a kernel, so that 1D, 3D and 1x7 layers are not.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import further_networks
import numpy as np
from judge_h200 import DATA, rows
from networks import Images, Layer, Network, inverted, residual

from ridgeline.measure.cuda.cases import fits
from ridgeline.measure.cuda.kernels import table

Case = dict[str, Any]
BATCHES = (1, 2, 3, 4, 6, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 192, 256)
PASSES = (("conv2d", 0.5), ("conv2d_dgrad", 0.25), ("conv2d_wgrad", 0.25))
GRADIENTS = (("conv2d", 0.1), ("conv2d_dgrad", 0.4), ("conv2d_wgrad", 0.5))
DTYPES = (("bf16", 0.3), ("fp16", 0.22), ("tf32", 0.24), ("fp32", 0.24))
FURTHER = (("conv2d", 0.34), ("conv2d_dgrad", 0.3), ("conv2d_wgrad", 0.36))
POPULAR_PASSES = (("conv2d", 0.42), ("conv2d_dgrad", 0.26), ("conv2d_wgrad", 0.32))
POPULAR_SIDES = (224, 256, 299, 384, 512, 640)
POPULAR_BATCHES = (1, 1, 2, 4, 8, 8, 16, 16, 32, 32, 64, 64, 128, 128, 256)
FEW_CHANNELS, UNCOMMON_SHARE = 16, 0.65
MAX_FLOPS = {"bf16": 4e12, "fp16": 4e12, "tf32": 2e12, "fp32": 3e11}  # some 10 ms each, so that many cases can be timed


def vgg(side: int) -> Images:
    x = Images(side)
    for width, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 2)):
        for _ in range(count):
            x.conv(width)
        x.pool()
    return x


def separable(side: int) -> Images:
    x = Images(side).conv(32, 3, 2)
    for out, stride in ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1), (1024, 2), (1024, 1)):
        x.alone(3, stride).conv(out, 1)
    return x


def densenet(growth: int, first: int, counts: Sequence[int]) -> Network:
    def network(side: int) -> Images:
        x = Images(side).conv(first, 7, 2).pool()
        for count in counts:
            channels = x.channels
            for _ in range(count):
                side = x.side
                x.conv(4 * growth, 1).conv(growth)
                channels += growth
                x.at(side, channels)
            x.conv(channels // 2, 1).pool()
        return x

    return network


def branches(x: Images, *chains: Sequence[tuple[int, int]]) -> None:
    """Chains of (channels, kernel) side by side, then joined."""
    begin, joined = (x.side, x.channels), 0
    for chain in chains:
        x.at(*begin)
        for out, kernel in chain:
            x.conv(out, kernel)
        joined += x.channels
    x.at(begin[0], joined)


def googlenet(side: int) -> Images:
    x = Images(side).conv(64, 7, 2).pool().conv(64, 1).conv(192, 3).pool()
    for row in ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)):
        one, three_in, three, five_in, five, pooled = row
        branches(x, ((one, 1),), ((three_in, 1), (three, 3)), ((five_in, 1), (five, 5)), ((pooled, 1),))
    x.pool()
    for row in ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64), (112, 144, 288, 32, 64, 64)):
        one, three_in, three, five_in, five, pooled = row
        branches(x, ((one, 1),), ((three_in, 1), (three, 3)), ((five_in, 1), (five, 5)), ((pooled, 1),))
    return x


def inception(side: int) -> Images:
    x = Images(side).conv(32, 3, 2, padding=0).conv(32, 3, padding=0).conv(64).pool()
    x.conv(80, 1, padding=0).conv(192, 3, padding=0).pool()
    for pooled in (32, 64, 64):
        branches(x, ((64, 1),), ((48, 1), (64, 5)), ((64, 1), (96, 3), (96, 3)), ((pooled, 1),))
    begin = x.side, x.channels
    x.conv(384, 3, 2, padding=0).at(*begin).conv(64, 1).conv(96).conv(96, 3, 2, padding=0).at(x.side, 768)
    for width in (128, 160, 192):
        side = x.side
        x.conv(width, 1).at(side, 768).conv(192, 1).at(side, 768)
    x.conv(192, 1).conv(320, 3, 2, padding=0).at(x.side, 1280)
    branches(x, ((320, 1),), ((384, 1),), ((448, 1), (384, 3)), ((192, 1),))
    return x.conv(320, 1)


def squeezenet(side: int) -> Images:
    x = Images(side).conv(64, 3, 2, padding=0).pool()
    for squeezed, expanded in ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (64, 256)):
        x.conv(squeezed, 1)
        branches(x, ((expanded, 1),), ((expanded, 3),))
        if squeezed == 32:
            x.pool()
    return x


def shufflenet(widths: Sequence[int]) -> Network:
    def network(side: int) -> Images:
        x = Images(side).conv(24, 3, 2).pool()
        for width in widths:
            half, begin = width // 2, (x.side, x.channels)
            x.alone(3, 2).conv(half, 1).at(*begin).conv(half, 1).alone(3, 2).conv(half, 1)
            x.conv(half, 1).alone().conv(half, 1).at(x.side, width)
        return x.conv(1024, 1)

    return network


def convnext(widths: Sequence[int]) -> Network:
    def network(side: int) -> Images:
        x = Images(side).conv(widths[0], 4, 4, padding=0).alone(7)
        for width in widths[1:]:
            x.conv(width, 2, 2, padding=0).alone(7)
        return x

    return network


def patches(*of: tuple[int, int, int]) -> Network:
    """Embeddings of patches: (channels, kernel, stride)."""

    def network(side: int) -> Images:
        x = Images(side)
        for width, kernel, stride in of:
            x.at(side, 3).conv(width, kernel, stride, padding=0 if kernel == stride else kernel // 2)
        return x

    return network


def segformer(widths: Sequence[int]) -> Network:
    def network(side: int) -> Images:
        x, kernel, stride = Images(side), 7, 4
        for width, reduced in zip(widths, (8, 4, 2, 1), strict=True):
            x.conv(width, kernel, stride)
            begin = x.side
            if reduced > 1:
                x.conv(width, reduced, reduced, padding=0).at(begin, width)
            x.at(begin, 4 * width).alone().at(begin, width)
            kernel, stride = 3, 2
        return x.at(side // 4, 1024).conv(256, 1).conv(150, 1)

    return network


def diffusion(base: int, times: Sequence[int], latent: int, down: int) -> Network:
    """A U-Net of residual blocks; on the way up they also take the channels that were kept on the way down."""

    def network(side: int) -> Images:
        x, kept = Images(max(side // down, 4), latent).conv(base), [base]
        sides = [x.side]
        for place, factor in enumerate(times):
            width = base * factor
            for _ in range(2):
                begin = x.side, x.channels
                x.conv(width).conv(width)
                if begin[1] != width:
                    x.at(*begin).conv(width, 1)
                kept.append(width)
                sides.append(x.side)
            if place < len(times) - 1:
                x.conv(width, 3, 2)
                kept.append(width)
                sides.append(x.side)
        for factor in reversed(times):
            width = base * factor
            for _ in range(3):
                x.at(sides.pop(), x.channels + kept.pop())
                begin = x.side, x.channels
                x.conv(width).conv(width).at(*begin).conv(width, 1)
        return x.conv(latent)

    return network


def autoencoder(latent: int) -> Network:
    """Encoder and decoder of latent diffusion."""

    def network(side: int) -> Images:
        x = Images(side).conv(128)
        for width in (128, 256, 512, 512):
            begin = x.side, x.channels
            x.conv(width).conv(width)
            if begin[1] != width:
                x.at(*begin).conv(width, 1)
            if x.side > side // 8:
                x.at(x.side + 1, width).conv(width, 3, 2, padding=0)
        x.conv(512, 1).conv(2 * latent).at(side // 8, latent).conv(latent, 1).conv(512)
        for width in (512, 512, 256, 128):
            begin = x.side, x.channels
            x.conv(width).conv(width)
            if begin[1] != width:
                x.at(*begin).conv(width, 1)
            if x.side < side:
                x.at(2 * x.side, width).conv(width)
        return x.conv(3)

    return network


def unet(side: int) -> Images:
    x = Images(side)
    for width in (64, 128, 256, 512):
        x.conv(width).conv(width).pool()
    x.conv(1024).conv(1024)
    for width in (512, 256, 128, 64):
        x.transposed(width).at(x.side, 2 * width).conv(width).conv(width)
    return x.conv(21, 1)


def upscaler(side: int) -> Images:
    x = Images(side // 4).conv(64)
    for channels in (64, 96, 128, 160):
        x.at(side // 4, channels).conv(32)
    x.at(side // 4, 192).conv(64).at(side // 2, 64).conv(64).at(side, 64).conv(64).conv(64)
    return x.conv(3)


def super_resolution(side: int) -> Images:
    x = Images(side // 2).conv(64).conv(64).conv(256).at(side // 2, 256).conv(256).conv(1024).at(side, 256)
    return x.conv(3)


def generator(side: int) -> Images:
    x = Images(4, 512)
    for width in (256, 128, 64):
        x.transposed(width, 4, 2, 1)
    x.transposed(3, 4, 2, 1).at(side, 3)
    for width in (64, 128, 256, 512):
        x.conv(width, 4, 2, padding=1)
    return x


def aspp(side: int) -> Images:
    x, at = Images(side), side // 8
    for dilation in (12, 24, 36):
        x.at(at, 2048).conv(256, 3, dilation=dilation)
    x.at(at, 2048).conv(256, 1).at(at, 1280).conv(256, 1).conv(256).conv(21, 1).at(at, 2048).conv(512).conv(21, 1)
    return x.at(1, 2048).conv(256, 1)


def pyramid(side: int) -> Images:
    """Feature pyramid, proposals, and the mask head over regions."""
    x = Images(side)
    for down, width in ((4, 256), (8, 512), (16, 1024), (32, 2048)):
        x.at(side // down, width).conv(256, 1).conv(256).conv(256).conv(3, 1).at(side // down, 256).conv(12, 1)
    return x.at(14, 256).conv(256).transposed(256).conv(91, 1)


def retina(side: int) -> Images:
    x = Images(side)
    for down, width in ((8, 512), (16, 1024), (32, 2048)):
        x.at(side // down, width).conv(256, 1).conv(256).conv(720).at(side // down, 256).conv(36)
    return x.at(side // 32, 2048).conv(256, 3, 2).conv(256, 3, 2).conv(256)


def darknet(side: int) -> Images:
    x = Images(side).conv(32)
    for width in (64, 128, 256, 512, 1024):
        x.conv(width, 3, 2).conv(width // 2, 1).conv(width)
    x.conv(512, 1).conv(1024).conv(255, 1).at(side // 16, 768).conv(256, 1).conv(512).conv(255, 1)
    return x.at(side // 8, 384).conv(128, 1).conv(256).conv(255, 1)


def yolo(width: float, count: int) -> Network:
    def network(side: int) -> Images:
        x = Images(side).conv(int(64 * width), 3, 2)
        sizes = [int(base * width) for base in (128, 256, 512, 512)]
        for out in sizes:
            x.conv(out, 3, 2).conv(out, 1)
            begin = x.side
            x.at(begin, out // 2).conv(out // 2).at(begin, (2 + count) * out // 2).conv(out, 1)
        for out, down in zip(sizes[1:], (8, 16, 32), strict=True):
            x.at(side // down, out).conv(64).conv(64).conv(64, 1).at(side // down, out).conv(sizes[1]).conv(sizes[1])
            x.conv(80, 1)
        return x

    return network


def parallel(width: int) -> Network:
    """Streams of several resolutions, exchanged by strides and 1x1."""

    def network(side: int) -> Images:
        x = Images(side).conv(64, 3, 2).conv(64, 3, 2).conv(64, 1).conv(64).conv(256, 1)
        for place in range(4):
            at, out = side // (4 << place), width << place
            x.at(at, out).conv(out)
            if place < 3:
                x.conv(2 * out, 3, 2).at(at // 2, 2 * out).conv(out, 1)
        return x.at(side // 4, 15 * width).conv(15 * width, 1).conv(19, 1)

    return network


SIDES = (128, 160, 192, 224, 256, 288, 320, 384, 448, 512)
LARGE = (320, 416, 512, 640, 768, 800, 1024)
LATENTS = (256, 512, 512, 768, 1024)
EFFICIENT = (
    *((32, 16, 3, 1, 8), (96, 24, 3, 2, 4), (144, 24, 3, 1, 6), (144, 40, 5, 2, 6), (240, 40, 5, 1, 10)),
    *((240, 80, 3, 2, 10), (480, 80, 3, 1, 20), (480, 112, 5, 1, 20), (672, 112, 5, 1, 28), (672, 192, 5, 2, 28)),
    *((1152, 192, 5, 1, 48), (1152, 320, 3, 1, 48)),
)
EFFICIENT_WIDE = (
    *((48, 24, 3, 1, 12), (144, 32, 3, 2, 6), (192, 32, 3, 1, 8), (192, 56, 5, 2, 8), (336, 56, 5, 1, 14)),
    *((336, 112, 3, 2, 14), (672, 112, 3, 1, 28), (672, 160, 5, 1, 28), (960, 160, 5, 1, 40), (960, 272, 5, 2, 40)),
    *((1632, 272, 5, 1, 68), (1632, 448, 3, 1, 68)),
)
MOBILE_3 = (
    *((16, 16, 3, 1, 0), (64, 24, 3, 2, 0), (72, 24, 3, 1, 0), (72, 40, 5, 2, 24), (120, 40, 5, 1, 32)),
    *((240, 80, 3, 2, 0), (200, 80, 3, 1, 0), (184, 80, 3, 1, 0), (480, 112, 3, 1, 120), (672, 112, 3, 1, 168)),
    *((672, 160, 5, 2, 168), (960, 160, 5, 1, 240)),
)
MOBILE_2 = (
    *((32, 16, 3, 1, 0), (96, 24, 3, 2, 0), (144, 24, 3, 1, 0), (144, 32, 3, 2, 0), (192, 32, 3, 1, 0)),
    *((192, 64, 3, 2, 0), (384, 64, 3, 1, 0), (384, 96, 3, 1, 0), (576, 96, 3, 1, 0), (576, 160, 3, 2, 0)),
    *((960, 160, 3, 1, 0), (960, 320, 3, 1, 0)),
)
EFFICIENT_2 = (
    *((24, 24, 3, 1, 0), (96, 48, 3, 2, 0), (192, 48, 3, 1, 0), (192, 64, 3, 2, 0), (256, 64, 3, 1, 0)),
    *((256, 128, 3, 2, 16), (512, 128, 3, 1, 32), (768, 160, 3, 1, 32), (960, 160, 3, 1, 40), (960, 256, 3, 2, 40)),
    (1536, 256, 3, 1, 64),
)
FOUR, BASIC = (256, 512, 1024, 2048), (64, 128, 256, 512)
# families by name: networks and the sides of their images
CALIBRATION: dict[str, tuple[Sequence[Network], Sequence[int]]] = {
    "resnet": (
        [residual(BASIC, FOUR), residual(BASIC, BASIC, basic=True), residual((128, 256, 512, 1024), FOUR)],
        SIDES,
    ),
    "resnet dilated": ([residual(BASIC, FOUR, dilated=True, stem=(32, 32, 64)), aspp], LARGE),
    "regnet": (
        [
            residual((64, 128, 288, 672), (64, 128, 288, 672), 16, (32,)),
            residual((96, 192, 432, 1008), (96, 192, 432, 1008), 48, (32,)),
            residual((168, 408, 912, 1632), (168, 408, 912, 1632), 24, (32,)),
            residual((224, 448, 896, 2240), (224, 448, 896, 2240), 112, (32,)),
        ],
        SIDES,
    ),
    "vgg": ([vgg], SIDES),
    "googlenet": ([googlenet, squeezenet], SIDES),
    "mobilenet v1, v3": ([separable, inverted(16, MOBILE_3, 960)], SIDES),
    "efficientnet": ([inverted(32, EFFICIENT, 1280), inverted(48, EFFICIENT_WIDE, 1792)], SIDES),
    "vit": ([patches((768, 16, 16), (1024, 14, 14), (768, 32, 32), (1280, 14, 14))], SIDES),
    "diffusion u-net": ([diffusion(320, (1, 2, 4, 4), 4, 8), diffusion(192, (1, 2, 3, 4), 3, 4)], LATENTS),
    "u-net": ([unet, super_resolution], LARGE),
    "darknet": ([darknet, retina], LARGE),
}
TEST: dict[str, tuple[Sequence[Network], Sequence[int]]] = {
    "resnext": ([residual((128, 256, 512, 1024), FOUR, 4), residual((256, 512, 1024, 2048), FOUR, 8)], SIDES),
    "densenet": ([densenet(32, 64, (6, 12, 24, 16)), densenet(48, 96, (6, 12, 36, 24))], SIDES),
    "inception": ([inception], (299, 299, 224, 384)),
    "mobilenet v2": ([inverted(32, MOBILE_2, 1280), shufflenet((116, 232, 464))], SIDES),
    "efficientnet v2": ([inverted(24, EFFICIENT_2, 1280, fused=5)], SIDES),
    "convnext": ([convnext((96, 192, 384, 768)), convnext((128, 256, 512, 1024))], SIDES),
    "segformer, swin": ([segformer((64, 128, 320, 512)), patches((96, 4, 4), (128, 4, 4))], LARGE),
    "sdxl u-net": ([diffusion(320, (1, 2, 4), 4, 8)], LATENTS),
    "autoencoder": ([autoencoder(4), autoencoder(16)], LATENTS),
    "esrgan, dcgan": ([upscaler, generator], (128, 256, 512)),
    "mask r-cnn": ([pyramid], LARGE),
    "yolo v8": ([yolo(0.5, 1), yolo(1.0, 3)], LARGE),
    "hrnet": ([parallel(18), parallel(32), parallel(48)], LARGE),
}


def of_groups(rng: np.random.Generator) -> Layer:
    """A layer of groups of some channels, a depthwise one of a large kernel, or one of patches."""
    kind, side = rng.random(), int(rng.choice((7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112)))
    if kind < 0.6:
        width, groups = int(rng.choice((2, 4, 4, 8, 16, 32, 64))), int(rng.choice((2, 4, 8, 16, 32, 32, 64)))
        stride = int(rng.choice((1, 1, 2)))
        return Layer(width * groups, width * groups, side, 3, stride, 1, groups, 1, "conv2d")
    channels = int(rng.choice((64, 80, 112, 144, 160, 224, 256, 288, 320, 448, 640, 896, 1280)))
    if kind < 0.8:
        kernel = int(rng.choice((7, 7, 9)))
        return Layer(channels, channels, side, kernel, 1, kernel // 2, channels, 1, "conv2d")
    patch = int(rng.choice((2, 2, 4, 8)))
    return Layer(channels, min(2 * channels, 1024), side // patch * patch or patch, patch, patch, 0, 1, 1, "conv2d")


def depthwise(rng: np.random.Generator) -> Layer:
    """A depthwise layer of a small kernel, of widths that the networks of the test do not have."""
    channels = int(
        rng.choice((32, 48, 64, 72, 80, 112, 120, 160, 200, 224, 256, 288, 320, 400, 448, 640, 672, 800, 1024))
    )
    side = int(rng.choice((7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160)))
    kernel, stride = int(rng.choice((3, 3, 5))), int(rng.choice((1, 1, 2)))
    return Layer(channels, channels, side, kernel, stride, kernel // 2, channels, 1, "conv2d")


def beyond(rng: np.random.Generator) -> Layer:
    """A depthwise layer of a kernel that is larger than those that libraries have kernels of their own for."""
    channels = int(rng.choice((32, 64, 96, 128, 192, 256, 384, 512, 640, 768, 1024)))
    side, kernel = int(rng.choice((7, 10, 14, 16, 20, 28, 32, 40, 56))), int(rng.choice((9, 9, 11, 13, 15, 21, 31)))
    return Layer(channels, channels, side, kernel, 1, kernel // 2, channels, 1, "conv2d")


def of_gradients(rng: np.random.Generator) -> Layer:
    """A layer of a network of the calibration, or one with groups of channels."""
    kind = rng.random()
    if kind < 0.3:
        return depthwise(rng)
    if kind < 0.55:
        return of_groups(rng)
    return of_network(rng, CALIBRATION)


def is_uncommon(layer: Layer) -> bool:
    """Whether a layer has channels off 8, few channels, groups, or is transposed: of these kernels there are few timings."""
    few = min(layer.c_in, layer.c_out) <= FEW_CHANNELS
    return bool(layer.c_in % 8 or layer.c_out % 8) or few or layer.groups > 1 or layer.op == "conv_transpose2d"


def of_further(rng: np.random.Generator) -> Layer:
    """A layer of a network of the calibration or of the further ones, mostly an uncommon one."""
    families = CALIBRATION if rng.random() < 0.4 else further_networks.CALIBRATION
    wanted = rng.random() < UNCOMMON_SHARE
    while is_uncommon(layer := of_network(rng, families)) != wanted:
        pass
    return layer


def chosen(rng: np.random.Generator, shares: Sequence[tuple[str, float]]) -> str:
    return str(rng.choice([name for name, _ in shares], p=[share for _, share in shares]))


def of_network(rng: np.random.Generator, families: dict[str, tuple[Sequence[Network], Sequence[int]]]) -> Layer:
    networks, sides = families[str(rng.choice(list(families)))]
    network, side = networks[int(rng.integers(len(networks)))], int(rng.choice(sides))
    layers = list(dict.fromkeys(network(side).layers))
    return layers[int(rng.integers(len(layers)))]


def drawn(rng: np.random.Generator, layer: Layer, passes: Sequence[tuple[str, float]]) -> Case:
    """A layer with a batch, format, layout and pass."""
    op = chosen(rng, passes) if layer.op == "conv2d" and layer.dilation == 1 else layer.op
    case: Case = {
        **{"op": op, "dtype": chosen(rng, DTYPES), "batch": int(rng.choice(BATCHES))},
        **{"c_in": layer.c_in, "c_out": layer.c_out, "h": layer.side, "w": layer.side},
        **{"kernel": layer.kernel, "stride": layer.stride, "padding": layer.padding},
    }
    if layer.groups > 1:
        case["groups"] = layer.groups
    if layer.dilation > 1:
        case["dilation"] = layer.dilation
    layout = "nchw" if op == "conv_transpose2d" else str(rng.choice(("nchw", "nhwc")))
    return case | {"layout": layout}


def popular(rng: np.random.Generator) -> Case:
    """A layer of a network of a calibration or of the first test at a usual resolution and batch; of the fresh networks none."""
    families = (CALIBRATION, TEST, further_networks.CALIBRATION)[int(rng.choice(3, p=(0.45, 0.45, 0.1)))]
    common = {
        name: (networks, [side for side in sides if side in POPULAR_SIDES] or sides)
        for name, (networks, sides) in families.items()
    }
    return drawn(rng, of_network(rng, common), POPULAR_PASSES) | {"batch": int(rng.choice(POPULAR_BATCHES))}


def key(case: Case) -> tuple[Any, ...]:
    names = ("batch", "c_in", "c_out", "h", "w", "kernel", "stride", "padding")
    optional = ("groups", "dilation")
    return (
        *(str(case[name]) for name in ("op", "dtype", "layout")),
        *(int(case[name]) for name in names),
        *(int(case.get(name) or 1) for name in optional),
    )


def timed_before() -> set[tuple[Any, ...]]:
    """Every convolution that a calibration held when the test families were drawn."""
    paths = [path for path in sorted(Path(DATA).glob("h200-*calibration.csv.gz")) if "networks" not in path.name]
    held = [row for path in paths for row in rows(path) if row["op"].startswith("conv") and "padding" in row]
    return {key({"layout": "nchw", **row}) for row in held}


def cases(side: str, count: int, seed: int) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    known = timed_before() if side in ("test", "fresh", "further") else set()
    layers: dict[str, Callable[[np.random.Generator], Layer]] = {
        **{"groups": of_groups, "gradients": of_gradients, "beyond": beyond},
        **{"calibration": lambda rng: of_network(rng, CALIBRATION), "test": lambda rng: of_network(rng, TEST)},
        **{"further": of_further, "fresh": lambda rng: of_network(rng, further_networks.FRESH)},
    }
    passes = {"gradients": GRADIENTS, "further": FURTHER}.get(side, PASSES)
    while count:
        case = drawn(rng, layers[side](rng), passes)
        flops = 2.0 * case["batch"] * case["c_in"] * case["c_out"] * case["kernel"] ** 2 / case.get("groups", 1)
        if case["op"] != "conv_transpose2d":
            flops *= (case["h"] / case["stride"]) ** 2
        if flops > MAX_FLOPS[case["dtype"]] or key(case) in known or not fits(case):
            continue
        known.add(key(case))
        count -= 1
        yield case


def main() -> None:
    side, count, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    print(table(list(cases(side, count, seed))), end="")


if __name__ == "__main__":
    main()
