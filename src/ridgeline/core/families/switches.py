"""Sizes at which libraries change kernels: up to such a size a case has a variant of its own, the next size has another.

A case could always be padded to the next size, so by the formulas alone it never takes longer than that one does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from . import columns, row_kernels, weight_tiles
from .attention import NARROW_HEAD, USUAL_HEAD, WINDOW
from .convolution import (
    BLOCK_CHANNELS,
    GROUP_BLOCKS,
    MAX_FEW_CHANNELS,
    MAX_NARROW_OUTPUT,
    MIN_LARGE_KERNEL,
    VECTOR_CHANNELS,
)
from .effects import Array
from .family import Mask, Sizes, element_width, off
from .product import MAX_FEW_ROWS

WITH_ELEMENTS = ("read", "written", "elements", "flops", "special")  # sizes of a stream, which grow together
ALIGNED_COLUMNS = 16.0  # of a product, at which rows of the narrowest elements lie on 16 bytes
HEAD_STEP = 8.0  # multiples that head sizes come in


@dataclass(frozen=True)
class Switch:
    """Up to `at` of a size there is another variant than above it; `step` is the alignment that variants depend on."""

    size: str
    at: float
    step: float = 1.0
    width: str = ""  # the size that holds the bytes of an element, where `step` is in bytes
    only: Callable[[Sizes], Array | Mask | bool] | None = None  # the cases that have this switch, where not all do

    def above(self, size: Array, width: Array = 1.0) -> Array:
        """The smallest size beyond the switch that is aligned as well."""
        step = self.step / width
        aligned: Array = np.ones_like(size)
        while np.any(larger := (2 * aligned <= step) & (np.asarray(size) % (2 * aligned) == 0)):
            aligned = np.where(larger, 2 * aligned, aligned)
        return (np.floor(self.at / aligned) + 1) * aligned

    def next(self, sizes: Sizes) -> tuple[Sizes, Mask]:
        size = np.asarray(sizes[self.size], dtype=np.float64)
        below = size <= self.at
        if self.only is not None:
            below = below & np.asarray(self.only(sizes))
        above = self.above(size, element_width(sizes[self.width]) if self.width else 1.0)
        return {**sizes, self.size: np.where(below, above, size)}, below


CHANNELS = (Switch("c_in", MAX_FEW_CHANNELS, VECTOR_CHANNELS), Switch("c_in", MAX_FEW_CHANNELS, BLOCK_CHANNELS))
OUTPUTS = tuple(
    Switch("c_out", MAX_NARROW_OUTPUT, step, only=lambda sizes: sizes["kernel"] >= MIN_LARGE_KERNEL)
    for step in (VECTOR_CHANNELS, BLOCK_CHANNELS)
)
SPREAD_OUTPUTS = tuple(
    Switch("c_out", MAX_FEW_CHANNELS, step, only=lambda sizes: np.asarray(sizes.get("spread", 1.0)) > 1)
    for step in (VECTOR_CHANNELS, BLOCK_CHANNELS)
)
HEADS = (Switch("d", NARROW_HEAD, HEAD_STEP), Switch("d", USUAL_HEAD, HEAD_STEP))
NORMS = (Switch("cols", row_kernels.MAX_SHORT_ROW, row_kernels.VECTOR_LOAD),)
SOFTMAXES = tuple(
    Switch("cols", at, row_kernels.LOAD_BYTES, "x")
    for at in (row_kernels.MAX_NARROW_ROW, row_kernels.MAX_SHORT_ROW, row_kernels.MAX_KEPT_ROW)
)
GRADIENTS = tuple(
    Switch("cols", at, row_kernels.LOAD_BYTES, "x")
    for at in (row_kernels.MAX_NARROW_ROW, row_kernels.MAX_SHORT_GRADIENT)
)
MATRIX_VECTORS = (
    *(
        Switch("cols", at, row_kernels.LOAD_BYTES, "y")
        for at in (row_kernels.MAX_NARROW_ROW, row_kernels.MAX_SHORT_ROW)
    ),
    Switch("rows", row_kernels.FEW_PRODUCTS, only=lambda sizes: sizes["cols"] > row_kernels.MAX_SHORT_ROW),
)
SEARCHES = tuple(
    switch
    for above, elements in row_kernels.SPLIT_SEARCH.items()
    for switch in (
        Switch("rows", above),
        Switch("cols", elements - 1, only=lambda sizes, above=above: sizes["rows"] > above),  # type: ignore[misc]
    )
)
BY_OP: dict[str, tuple[Switch, ...]] = {
    **dict.fromkeys(("softmax", "cross_entropy"), SOFTMAXES),
    "gemv": MATRIX_VECTORS,
    "batchnorm": (Switch("cols", row_kernels.MAX_NARROW_ROW, row_kernels.VECTOR_LOAD), *NORMS),
    **dict.fromkeys(("softmax_backward", "log_softmax_backward", "cross_entropy_backward"), GRADIENTS),
    **dict.fromkeys(("layernorm_backward", "rmsnorm_backward"), (*NORMS, Switch("rows", row_kernels.MAX_ROWS_SPLIT))),
    "embedding_backward": (),  # below
    **dict.fromkeys(row_kernels.COLUMN_SUMS, ()),  # below
    "sum_around": (),
    **dict.fromkeys(("embedding", "index"), (Switch("rows", row_kernels.FEW_GATHERED),)),
    "sum_rows": tuple(
        Switch("cols", at) for at in (row_kernels.MAX_NARROW_ROW, row_kernels.BLOCK_SUM - 1, row_kernels.SPLIT_SUM - 1)
    ),
    "sort": (
        *(Switch("cols", at) for at in (row_kernels.SHARED_SORT, row_kernels.WARP_SORT, row_kernels.BLOCK_SORT)),
        *(Switch("rows", at) for at in (1.0, row_kernels.FEW_SORTED - 1)),
    ),
    "topk": (*SEARCHES, Switch("per_row", 1.0)),
}
SWITCHES: dict[str, tuple[Switch, ...]] = {
    "attention": (Switch("q", 1.0), *HEADS),
    "attention_backward": HEADS,
    "conv": (*CHANNELS, *OUTPUTS, *SPREAD_OUTPUTS, Switch("kernel", 1.0), Switch("kernel", MIN_LARGE_KERNEL - 1)),
    "scan": (Switch("rows", 1.0),),
}


def next_sizes(family: str, op: str, sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """The sizes beyond each switch of a kernel, and for which cases they are: those on the other side of it."""
    switches = SWITCHES.get(family, ())
    if family == "rows":
        switches = BY_OP.get(op, NORMS)
    nearer: dict[tuple[str, float], Mask] = {}  # cases that have had a nearer switch of the same size
    for switch in sorted(switches, key=lambda switch: switch.at):
        larger, below = switch.next(sizes)
        before = nearer.get((switch.size, switch.step), np.asarray(False))
        nearer[switch.size, switch.step] = before | below
        if np.any(cases := below & ~before):
            yield larger, cases
    if family == "gemm":
        yield from _more_rows(sizes)
    if family == "conv":
        yield from _larger_groups(sizes)
    if family == "stream" and op == "copy":
        yield from _longer_copies(sizes)
    if op in row_kernels.COLUMN_SUMS:
        yield from _longer_columns(sizes)
    if op in row_kernels.SPLIT_CHANNELS:
        yield from _longer_channels(sizes)
    if op == "embedding_backward":
        yield from _other_scatters(sizes)


def _more_rows(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """The smaller of rows and columns decides: one, a few, or more; both are raised where both are few."""
    m, n = np.asarray(sizes["m"], dtype=np.float64), np.asarray(sizes["n"], dtype=np.float64)
    for at in (1.0, MAX_FEW_ROWS):
        if np.any(few := np.minimum(m, n) <= at):
            columns = np.where(n <= at, Switch("n", at, ALIGNED_COLUMNS).above(n), n)
            yield {**sizes, "m": np.where(m <= at, at + 1, m), "n": columns}, few


def unmasked(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """A kernel that skips nothing of the mask does more than one that does."""
    causal = np.asarray(sizes["causal"], dtype=np.float64)
    if np.any(masked := (causal > 0) & (np.asarray(sizes["q"]) > 1)):
        yield {**sizes, "causal": np.where(masked, 0.0, causal)}, masked


def windows(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """Masks with a window have a kernel of their own, which longer windows leave and more keys lead to; of sizes that have one."""
    if WINDOW not in sizes:
        return
    window, keys = (np.asarray(sizes[name], dtype=np.float64) for name in (WINDOW, "kv"))
    masked = (np.asarray(sizes["causal"]) > 0) & (np.asarray(sizes["q"]) > 1)
    for larger, name, size in (
        (masked & (window < keys - 1), WINDOW, keys),
        (masked & (window >= keys), "kv", window + 1),
    ):
        if np.any(larger):
            yield {**sizes, name: np.where(larger, size, sizes[name])}, larger


def further(family: str, sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """The sizes beyond those of a kernel that timings of another one show as well, where that one stands in for it."""
    yield from windows(sizes)
    if family == "weight_only":
        yield from _other_splits(sizes)


def _other_splits(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """Products with narrow weights are split along k in as many parts as take the same number of steps each: beyond a k there are
    some that are split more often, and some less."""
    k, step = np.asarray(sizes["k"], dtype=np.float64), weight_tiles.step_of(sizes["w"])
    most = weight_tiles.SPLITS[-1]
    for parts in (1, *weight_tiles.SPLITS):
        every = parts * step  # an odd number of these makes so many parts, an even one more
        above = np.ceil(k / every) * every
        above = above if parts == most else np.where(above % (2 * every) == 0, above + every, above)
        if np.any(larger := above > k):
            yield {**sizes, "k": above}, larger


def _larger_groups(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """Groups whose channels are padded or cut out have those above them that a kernel takes as they are."""
    c_in, c_out, groups = (np.asarray(sizes[name], dtype=np.float64) for name in ("c_in", "c_out", "groups"))
    width = np.maximum(c_in, c_out) / groups
    for block in GROUP_BLOCKS:
        if np.any(below := (groups > 1) & (groups < c_in) & (width < block)):
            channels = groups * block
            yield {**sizes, "c_in": np.where(below, channels, c_in), "c_out": np.where(below, channels, c_out)}, below


def _longer_copies(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """A short copy has the longer ones above it, a ragged one the next that is even, an even one the next that is ragged."""
    size = np.asarray(sizes["written"], dtype=np.float64)
    short, ragged = size <= row_kernels.SHORT_COPY, off(size, row_kernels.EVEN_COPY)
    least, unit = np.maximum(size, row_kernels.SHORT_COPY), row_kernels.EVEN_COPY
    even = np.where(short, (np.floor(least / unit) + 1) * unit, np.ceil(least / unit) * unit)
    for above, cases in ((even, short | ragged), (least + 1, short | ~ragged)):
        if np.any(cases):
            factor = np.where(cases, above / size, 1.0)
            grown = {name: sizes[name] * factor for name in WITH_ELEMENTS}
            yield {**sizes, **grown, "written": np.where(cases, above, size)}, cases


def _longer_columns(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """A column that one thread sums has the one above it that a block does, and that one what several blocks do; these begin earlier
    with more results."""
    results, length = (np.asarray(sizes[name], dtype=np.float64) for name in ("rows", "cols"))
    for more in (results, *columns.wider_blocks(results)):
        for at in (0.0, *columns.shared_from(more, length)):
            if np.any(larger := (length < at) if np.any(at) else more > results):
                yield (
                    {
                        **sizes,
                        "rows": np.where(larger, np.maximum(more, results), results),
                        "cols": np.where(larger, np.maximum(length, at), length),
                    },
                    larger,
                )


def _longer_channels(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """A channel that one block normalizes has the one above it that several blocks do."""
    length, at = np.asarray(sizes["cols"], dtype=np.float64), np.asarray(row_kernels.split_from(sizes["rows"]))
    if np.any(short := length < at):
        yield {**sizes, "cols": np.where(short, at, length)}, short


def _other_scatters(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """Rows that are added to a larger table have more above them, those added to a smaller one a larger table."""
    rows, cols, per_row = (np.asarray(sizes[name], dtype=np.float64) for name in ("rows", "cols", "per_row"))
    repeated, table = per_row < cols, rows * per_row / cols
    if np.any(short := cols <= row_kernels.MAX_SHORT_ROW):
        long = np.where(short, row_kernels.MAX_SHORT_ROW + 1, cols)
        yield {**sizes, "cols": long, "per_row": per_row * long / cols}, short
    if np.any(~repeated):
        more = np.where(repeated, rows, np.rint(table) + 1)
        yield {**sizes, "rows": more, "per_row": table * cols / more}, ~repeated
    if np.any(repeated):
        yield {**sizes, "per_row": np.where(repeated, cols, per_row)}, repeated


def next_scans(sizes: Sizes) -> Iterator[tuple[Sizes, Mask]]:
    """Beyond the next powers of two a row of a prefix sum may get twice the threads; one that is not very short, fewer."""
    rows, cols = (np.asarray(sizes[name], dtype=np.float64) for name in ("rows", "cols"))
    power = 2.0 ** np.ceil(np.log2(cols))
    every = np.ones(np.broadcast_shapes(rows.shape, cols.shape), dtype=bool)
    for further in (1.0, 2.0):
        yield {**sizes, "cols": power * further + 1}, every
    long = np.floor(2.0 ** (np.ceil(np.log2(rows)) - 1) / row_kernels.BLOCK_THREADS) + 1
    if np.any(short := cols < long):
        yield {**sizes, "cols": np.where(short, long, cols)}, short
