"""Convolutions: the faster of an implicit GEMM and a Winograd transform, plus layout changes.

direct:   one product of (batch ho wo) x c_out over c_in kernel^2
weights:  of the gradient of the weights, one product of c_out x (c_in kernel^2) over batch ho wo, in parts
winograd: r x r taps with unit stride; (t+r-1)^2 products of (batch tiles) x c_out over c_in, t x t outputs a tile, between
          transforms that move the images (t+r-1)^2 / t^2 times as large; of the gradient of the weights, the same products of
          c_out x c_in over batch tiles
groups:   one product each; several in a tile, all at once, or (`apart`) one after the other with kernels of their own
"""

from __future__ import annotations

import numpy as np

from .effects import CLOCK, FILL, LAUNCH, OVERLAP, TILES, Array, Effect
from .family import Coefficient, Coefficients, Family, Hardware, Mask, Sizes, off, overlapped, under_load
from .product import ALIGNMENT, GEMM, tiled

NOT_FROM_GEMM = ("reuse", "prepare", "row", "most")  # coefficients of products that convolutions do without
VECTOR_CHANNELS = 8.0  # that are loaded at once
BLOCK_CHANNELS = 32.0  # and those that a step of the product takes,
HALF_BLOCK = 16.0  # or half a step
QUAD_CHANNELS = 4.0  # of a group, for which libraries have kernels of their own; rarely for other multiples of it
MAX_FEW_CHANNELS = (
    16.0  # channels for which libraries have kernels of their own; of a group, those of which a tile takes several
)
MAX_NARROW_GROUPS = 64.0  # channels of all groups, up to which they run one after the other or in slower kernels
GROUP_BLOCKS = (
    32.0,
    64.0,
    128.0,
)  # channels of a group that one kernel takes as they are; others are padded or cut out first
MIN_LARGE_KERNEL = 7.0  # side of a kernel from which they do
MAX_NARROW_OUTPUT = 64.0  # channels of the output up to which large kernels always get tensor units
MIN_BROAD_KERNEL = 5.0  # and from which gradients rarely take the transform of 3x3 taps
CHANNELS_LAST = "nhwc"  # the layout that stores a pixel's channels together
# Tiles of which a core works on several at once, and on how many.
SEVERAL_TILES = {(32.0, 32.0): 8.0, (128.0, 32.0): 4.0, (256.0, 64.0): 2.0}
WINOGRAD_TILES = ((3.0, 2.0), (3.0, 4.0))  # taps and outputs a side of a Winograd tile,
SUMMED_TILES = ((5.0, 5.0),)  # and further ones that gradients of weights have

CONV = {
    **{name: row for name, row in GEMM.items() if name not in NOT_FROM_GEMM},
    "compute": Coefficient(0.80, 0.01, 1.0, "share of the peak that a large tile reaches"),
    "thin": Coefficient(5.0, 0.2, 300.0, "channels more that the inner loop costs as much as"),
    "padded": Coefficient(32.0, 8.0, 64.0, "channels that a step of the product takes; fewer are padded", True),
    "tap": Coefficient(8.0, 2.0, 300.0, "flops at the vector peak that one tap of a channel by itself costs"),
    "output": Coefficient(50.0, 0.5, 3000.0, "and those that its output costs"),
    "winograd": Coefficient(0.8, 0.2, 1.0, "speed of the products of a transform over that of direct ones", True),
    "transform": Coefficient(1.0, 0.1, 10.0, "passes over the transformed images and weights", True),
    "apart": Coefficient(8e-6, 1e-7, 2e-4, "seconds of a group, where groups run one after the other", True),
    "layout": Coefficient(1.0, 0.02, 8.0, "passes over the images to change their layout", True),
}


def layout(op: str) -> str:
    """The layout of an op; gradients (`dgrad_nhwc`) have that of their convolution."""
    return op.removeprefix("dgrad_").removeprefix("wgrad_")


def variants(g: Sizes, op: str) -> dict[str, Mask]:
    """Which kernels a convolution gets: groups, 1x1 (a plain product, or with a stride), large kernels, few or odd channels.

    A 1x1 convolution over images that are stored channel by channel has rows of pixels, and needs them on 16 bytes.
    The gradient of images that a stride went over (`spread`), or a transposed convolution, writes pixels that no tap, or fewer than
    others, adds to.
    Gradients of 3x3 kernels with unit stride have transforms that those of broader ones and of strides (`stepped`) lack.
    """
    c_in, c_out, kernel = (np.asarray(g[name]) for name in ("c_in", "c_out", "kernel"))
    groups, pixels = np.asarray(g["groups"]), np.asarray(g["ho"]) * g["wo"]
    grouped, large = groups > 1, kernel >= MIN_LARGE_KERNEL
    wide = c_out > MAX_NARROW_OUTPUT
    point = ~grouped & (kernel == 1) & (np.asarray(g["stride"]) == 1)
    odd = off(c_in, VECTOR_CHANNELS) | off(c_out, VECTOR_CHANNELS)
    one = pixels == 1
    odd_point = odd if layout(op) == CHANNELS_LAST else np.where(one, odd, _odd_rows(c_in, c_out, op))
    loose = (layout(op) != CHANNELS_LAST) & (pixels > 1) & off(pixels * g["x"], ALIGNMENT)
    loose_channels = off(c_in, BLOCK_CHANNELS) | off(c_out, BLOCK_CHANNELS)
    spread = ~grouped & (np.asarray(g.get("spread", 1.0)) > 1)
    point = point & ~spread
    skip, few = ~grouped & ~point & ~spread & (kernel == 1), c_in <= MAX_FEW_CHANNELS
    rest = ~grouped & ~point & ~skip & ~spread
    to_few = c_out <= MAX_FEW_CHANNELS
    halved, usual = off(c_in, HALF_BLOCK), rest & ~odd & ~few & ~large
    by_channels = {
        "conv": usual & ~loose_channels,
        "conv-loose": usual & loose_channels & ~halved,
        "conv-loose-halved": usual & loose_channels & halved,
    }
    if layout(op) != op:
        stepped, broad = np.asarray(g["stride"]) > 1, kernel >= MIN_BROAD_KERNEL
        kinds = {"": ~stepped & ~broad, "-broad": ~stepped & broad, "-stepped": stepped}
        by_channels = {f"{name}{kind}": mask & of for name, mask in by_channels.items() for kind, of in kinds.items()}
    return {
        **by_channels,
        **_of_groups(g, op, grouped, c_in / groups, c_out / groups),
        "conv-point": point & ~loose & ~odd_point & ~one,
        "conv-point-one": point & ~odd_point & one,
        "conv-point-one-odd": point & odd_point & one,
        "conv-point-odd": point & odd_point & ~one,
        "conv-point-odd-pixels": point & loose & ~odd_point & ~one,
        "conv-spread": spread & (kernel > 1) & ~to_few,
        "conv-spread-patch": spread & (kernel == 1) & ~to_few,
        "conv-spread-few": spread & (kernel >= 1) & to_few,
        "conv-spread-point": spread & (kernel < 1),
        "conv-skip": skip & ~few & ~odd,
        "conv-skip-odd": skip & ~few & odd,
        "conv-skip-few": skip & few,
        "conv-few": rest & few & ~odd & ~large,
        "conv-few-large": rest & few & ~odd & large,
        "conv-few-odd": rest & few & odd & ~large,
        "conv-few-odd-large": rest & few & odd & large,
        "conv-large": rest & ~few & ~odd & large & ~wide,
        "conv-large-wide": rest & ~few & ~odd & large & wide,
        "conv-odd": rest & ~few & odd & ~large,
        "conv-odd-large": rest & ~few & odd & large & ~wide,
        "conv-odd-large-wide": rest & ~few & odd & large & wide,
    }


def _of_groups(g: Sizes, op: str, grouped: Mask, inputs: Array, outputs: Array) -> dict[str, Mask]:
    """Variants of groups by their channels of input and output; a channel by itself also by the kernel and its steps.

    Channels by themselves that are stored together have kernels of their own for up to 7x7 taps; more are far slower.
    """
    alone = grouped & (np.asarray(g["groups"]) == g["c_in"])
    taps = np.asarray(g["kernel"]) * g.get("spread", 1.0)
    several, large = grouped & ~alone, taps >= MIN_LARGE_KERNEL
    beyond = (taps > MIN_LARGE_KERNEL) & (layout(op) == CHANNELS_LAST)
    blocks = several & (inputs == outputs) & np.isin(inputs, GROUP_BLOCKS)
    odd = off(inputs, VECTOR_CHANNELS) | off(outputs, VECTOR_CHANNELS)
    broad = np.maximum(inputs, outputs) > MAX_FEW_CHANNELS
    fours = ~off(inputs, QUAD_CHANNELS) & ~off(outputs, QUAD_CHANNELS)
    # of which all together are loaded eight at a time; else the images are copied and padded, and two groups have a slow kernel
    fours &= ~off(inputs * g["groups"], VECTOR_CHANNELS) & ~off(outputs * g["groups"], VECTOR_CHANNELS)
    fours &= inputs * g["groups"] > VECTOR_CHANNELS
    quads = fours & (inputs == QUAD_CHANNELS) & (outputs == QUAD_CHANNELS)
    narrow = inputs * g["groups"] <= MAX_NARROW_GROUPS
    stepped = np.maximum(g["stride"], g.get("spread", 1.0)) > 1
    return {
        "conv-grouped": several & ~odd & ~broad & ~narrow,
        "conv-grouped-narrow": several & ~odd & ~broad & narrow,
        "conv-grouped-broad": several & ~odd & broad & ~blocks,
        "conv-grouped-broad-block": several & ~odd & broad & blocks,
        "conv-grouped-odd": several & odd & ~fours,
        "conv-grouped-odd-fours": several & odd & fours & ~quads,
        "conv-grouped-odd-quads": several & odd & quads,
        "conv-grouped-alone": alone & ~large & ~stepped,
        "conv-grouped-alone-stepped": alone & ~large & stepped,
        "conv-grouped-alone-large": alone & large & ~beyond,
        "conv-grouped-alone-beyond": alone & beyond,
    }


def _odd_rows(c_in: Array, c_out: Array, op: str) -> Mask:
    """Whether a 1x1 convolution over images stored channel by channel has weights with rows off a vector load.

    It is a product whose images have rows of pixels, so that only the rows of the weights are rows of channels: those of
    the input, which the gradient of the images and the transposed convolution write.
    """
    if op.startswith("wgrad_"):
        return off(c_in, VECTOR_CHANNELS) | off(c_out, VECTOR_CHANNELS)
    return off(c_in if layout(op) == op and not op.startswith("transposed_") else c_out, VECTOR_CHANNELS)


def conv(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str]) -> Array:
    c = {**c, "reuse": np.inf}
    images, ho, wo, groups = g["images"], g["ho"], g["wo"], g["groups"]
    channels, columns, taps = g["c_in"] / groups, g["c_out"] / groups, g["kernel"] * g["kernel"]
    rate = c["compute"] * hw.peak
    inputs, outputs = images * g["c_in"] * g["h"] * g["w"] * g["x"], images * g["c_out"] * ho * wo * g["y"]
    memory: Array = (inputs + outputs + g["c_out"] * channels * taps * g["x"]) / (c["memory"] * hw.bandwidth)
    thin = 0.0 if "channels" in off else c["thin"]
    padded = np.ceil(channels / c["padded"]) * c["padded"] if c["padded"] and "channels" not in off else channels
    summed = np.asarray(g.get("summed", 0.0)) > 0
    pixels, inner = images * ho * wo, (padded + thin) * taps
    alone = (np.asarray(groups) > 1) & (np.asarray(groups) == g["c_in"])
    turns = (
        np.where(alone, 1.0, groups) if c["apart"] and "groups" not in off else 1.0
    )  # of which each has the cores to itself
    product = {"b": groups / turns, "m": pixels, "n": columns, "k": inner, "w": g["x"]}
    if np.any(summed):
        sides = {"m": columns, "n": padded * taps, "k": pixels}
        product |= {side: np.where(summed, size, product[side]) for side, size in sides.items()}
    compute: Array = 2 * groups * product["m"] * product["n"] * product["k"] / rate
    if "quantization" not in off:
        compute = turns * tiled(product, hw, c, off, rate, SEVERAL_TILES)
        if np.any(alone):  # a channel by itself is no product of matrices: its outputs are summed tap by tap
            each = (c["tap"] * taps + c["output"]) / hw.vector
            compute = np.where(alone, images * g["c_out"] * ho * wo * each, compute)
    if c["winograd"] and "transform" not in off:
        compute = _transformed(g, hw, c, off, rate * c["winograd"], compute)
    time = overlapped(under_load(compute, hw, c, off), memory, c, off)
    if c["layout"] and "layout" not in off:
        time = time + c["layout"] * (inputs + outputs) / hw.bandwidth
    time = time + c["apart"] * (turns - 1)
    return time if "launch" in off else time + c["launch"]


def _transformed(g: Sizes, hw: Hardware, c: Coefficients, off: frozenset[str], rate: float, direct: Array) -> Array:
    """Seconds of the direct products, or of those of a Winograd transform where they are fewer and take less.

    t x t outputs of r x r taps are (t+r-1)^2 products instead of t^2 r^2: 2.25 and 4 times fewer for 3x3 taps and t = 2
    and 4, 7.7 times fewer for 5x5 taps and t = 5.
    """
    images, ho, wo, channels, columns = g["images"], g["ho"], g["wo"], g["c_in"], g["c_out"]
    plain = (np.asarray(g["stride"]) == 1) & (np.asarray(g["dilation"]) == 1) & (np.asarray(g["groups"]) == 1)
    summed = np.asarray(g.get("summed", 0.0)) > 0
    best = direct
    for taps, outputs in (*WINOGRAD_TILES, *(SUMMED_TILES if np.any(summed) else ())):
        cases = plain & (np.asarray(g["kernel"]) == taps)
        if not np.any(cases):
            continue
        tiles = images * np.ceil(ho / outputs) * np.ceil(wo / outputs)
        side = (outputs + taps - 1) ** 2
        product = {"b": side, "m": tiles, "n": columns, "k": channels, "w": g["x"]}
        if np.any(summed):
            sides = {"m": columns, "n": channels, "k": tiles}
            product |= {name: np.where(summed, size, product[name]) for name, size in sides.items()}
        moved = side * g["x"] * (tiles * (channels + columns) + channels * columns)
        time = tiled(product, hw, c, off, rate, SEVERAL_TILES) + c["transform"] * moved / hw.bandwidth
        best = np.where(cases & (time < best), time, best)
    return best


CHANNELS, TRANSFORM = Effect("channels", "few channels", "shape"), Effect("transform", "fewer multiplications")
LAYOUT, GROUPS = Effect("layout", "layout changes"), Effect("groups", "groups one after the other", "shape")
EFFECTS = (TILES, FILL, CHANNELS, GROUPS, TRANSFORM, CLOCK, OVERLAP, LAYOUT, LAUNCH)
SHAPE = ("images", "c_in", "c_out", "h", "kernel", "stride", "groups")
DENSE_SHAPE = (
    *("images", "all_pixels", "c_in", "c_out", "kernel", "stride"),
    *("c_in_step", "c_out_step", "pixel_step"),
)


def is_dense(g: Sizes) -> bool:
    """Whether no case has groups."""
    return bool(np.all(np.asarray(g["groups"]) == 1))


# what spreads its input by a stride takes none itself
SPREAD_SHAPE = tuple("spread" if name == "stride" else name for name in DENSE_SHAPE)


def finer_shape(g: Sizes) -> tuple[str, ...]:
    """What tells cases without groups apart."""
    if not is_dense(g):
        return ()
    return SPREAD_SHAPE if "spread" in g else DENSE_SHAPE


FINER = (DENSE_SHAPE, SPREAD_SHAPE)
CONVOLUTION = Family("conv", conv, CONV, EFFECTS, SHAPE, finer=finer_shape, finer_shapes=FINER)
