"""Which kernel a library runs for an op over rows or elements, by their numbers.

The choices are PyTorch's: the block sizes and limits that its sources name, seen again in the names of the kernels timed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from . import columns
from .effects import Array
from .family import Mask, Sizes, element_width, off

MAX_NARROW_ROW = 32.0  # elements up to which rows share a warp
MAX_SHORT_ROW = 2048.0  # elements up to which norms and softmaxes give a row to a warp or a small block
MAX_KEPT_ROW = 9216.0  # elements up to which a block of a softmax keeps a row in registers: 9 for each of 1024 threads
VECTOR_LOAD = 4.0  # elements that a norm loads at once
MAX_SHORT_GRADIENT = 1024.0  # elements up to which the gradient of a softmax does
LOAD_BYTES = 16.0  # bytes that a softmax or a gather loads at once
FEW_PRODUCTS = 16.0  # rows of a matrix up to which long ones are split over the cores
FEW_GATHERED = 16.0  # rows of a table up to which they are taken one after the other
SHORT_COPY = float(1 << 20)  # bytes that the driver copies at once
EVEN_COPY = float(1 << 15)  # multiples of bytes without a ragged end; timings say between 512 and 4 Mi
BLOCK_SUM, SPLIT_SUM = 8192.0, 131072.0  # elements from which a block, and several blocks, sum a row
# elements up to which a warp sorts several rows, one row, and a block one
SHARED_SORT, WARP_SORT, BLOCK_SORT = 32.0, 128.0, 4096.0
FEW_SORTED = 128.0  # rows below which longer ones are sorted all together
# more rows than this (key) of at least so many elements (value) are searched by several blocks each
SPLIT_SEARCH = {0.0: 20000.0, 20.0: 10000.0, 40.0: 8000.0, 80.0: 5000.0, 199.0: 3000.0, 799.0: 800.0, 4000.0: 400.0}
OPTIMIZERS = ("adamw_fused", "adamw_foreach", "sgd")
BLOCK_THREADS = 512.0  # threads of a block in a prefix sum
SCAN_THREADS = (16.0, 512.0)  # fewest and most of them that one row gets
# values of a channel that a block of cuDNN's batch norms keeps on chip: read one by one, and in pairs of 16 bits
KEPT_CHANNEL = {"training": (28672.0, 77824.0), "backward": (14336.0, 43008.0)}
PAIR_BYTES = 4.0
# PyTorch's over channels last: threads of a block, most channels of it, values that a thread takes, and the blocks below
# which the values of a channel are left to one
CHANNEL_BLOCK, BLOCK_CHANNELS, THREAD_VALUES, MIN_BLOCKS = 512.0, 32.0, 16.0, 8.0
MAX_ROWS_SPLIT = 65536.0  # rows from which a norm's gradients of its weights are summed in two steps


def variants(g: Sizes, op: str) -> dict[str, Mask]:
    """`rows` and its variants; every case belongs to one."""
    return BY_OP.get(op, _norms)(g)


def _norms(g: Sizes) -> dict[str, Mask]:
    """Short rows are dealt to warps, long ones to blocks; rows off 4 elements are not loaded in vectors."""
    return _short_and_odd(np.asarray(g["cols"]) <= MAX_SHORT_ROW, off(np.asarray(g["cols"]), VECTOR_LOAD))


def _narrow_apart(variants: Callable[[Sizes], dict[str, Mask]]) -> Callable[[Sizes], dict[str, Mask]]:
    """These variants, and one for rows of which a warp takes several, so that they cost what their elements do."""

    def with_narrow(g: Sizes) -> dict[str, Mask]:
        narrow = np.asarray(g["cols"]) <= MAX_NARROW_ROW
        return {kernels: mask & ~narrow for kernels, mask in variants(g).items()} | {"rows-short-narrow": narrow}

    return with_narrow


def _vectors(g: Sizes) -> dict[str, Mask]:
    """The same, with other limits: rows off 16 bytes are not loaded in vectors, nor kept on chip."""
    cols = np.asarray(g["cols"])
    return _short_and_odd(cols <= MAX_SHORT_ROW, off(cols * element_width(g["x"]), LOAD_BYTES))


def _softmaxes(g: Sizes) -> dict[str, Mask]:
    """Rows of medium length are kept in the registers of a block, whatever they are loaded with."""
    cols, every = np.asarray(g["cols"]), _vectors(g)
    kept = (cols > MAX_SHORT_ROW) & (cols <= MAX_KEPT_ROW)
    return {kernels: mask & ~kept for kernels, mask in every.items()} | {"rows-kept": kept}


def _softmax_gradients(g: Sizes) -> dict[str, Mask]:
    cols = np.asarray(g["cols"])
    return _short_and_odd(cols <= MAX_SHORT_GRADIENT, off(cols * element_width(g["x"]), LOAD_BYTES))


def _short_and_odd(short: Mask, odd: Mask) -> dict[str, Mask]:
    return {"rows": ~short & ~odd, "rows-short": short & ~odd, "rows-odd": ~short & odd, "rows-short-odd": short & odd}


def _gathers(g: Sizes) -> dict[str, Mask]:
    """Rows on 16 bytes are copied in vectors; a few are taken one after the other."""
    few, odd = np.asarray(g["rows"]) <= FEW_GATHERED, off(np.asarray(g["cols"]) * element_width(g["x"]), LOAD_BYTES)
    return {"rows": ~few & ~odd, "rows-odd": ~few & odd, "rows-few": few & (odd | ~odd)}


def _scatters(g: Sizes) -> dict[str, Mask]:
    """Gradients of a table: where it has fewer rows than are added to it, most are added to the same ones."""
    repeated, short = np.asarray(g["per_row"]) < g["cols"], np.asarray(g["cols"]) <= MAX_SHORT_ROW
    return {"rows": ~repeated & ~short, "rows-short": ~repeated & short, "rows-repeated": repeated}


def _matrix_vectors(g: Sizes) -> dict[str, Mask]:
    """Products of a matrix and a vector run as products of matrices where rows and results lie on 16 bytes.

    Few long rows are split over the cores.
    """
    few = (np.asarray(g["rows"]) <= FEW_PRODUCTS) & (np.asarray(g["cols"]) > MAX_SHORT_ROW)
    ragged = off(np.asarray(g["rows"]) * g["y"], LOAD_BYTES)
    # a matrix that is stored narrower is unpacked to the width of the vectors
    every = _vectors({**g, "x": np.maximum(g["x"], g["y"])})
    apart = {f"{kernels}-ragged": every[kernels] & ragged for kernels in ("rows", "rows-short")}
    all_rows = {kernels: mask & ~ragged if f"{kernels}-ragged" in apart else mask for kernels, mask in every.items()}
    return {kernels: mask & ~few for kernels, mask in (all_rows | apart).items()} | {"rows-few": few}


def _sums(g: Sizes) -> dict[str, Mask]:
    """A row is summed by a few threads of a block, by a block, or by several blocks and once more."""
    cols = np.asarray(g["cols"])
    few, several = cols < BLOCK_SUM, cols >= SPLIT_SUM
    return {"rows": ~few & ~several, "rows-short": few, "rows-split": several}


def _sorts(g: Sizes) -> dict[str, Mask]:
    """A row is sorted by a warp, by a block, in passes of its own (many rows), or with all others at once (few rows)."""
    rows, cols = np.asarray(g["rows"]), np.asarray(g["cols"])
    warp, long, few = cols <= WARP_SORT, cols > BLOCK_SORT, rows < FEW_SORTED
    shared = cols <= SHARED_SORT
    return {
        "rows": long & ~few,
        "rows-block": ~warp & ~long,
        "rows-block-warp": warp & ~shared,
        "rows-block-warp-shared": shared,
        "rows-together": long & few & (rows > 1),
        "rows-together-one": long & (rows == 1),
    }


def _searches(g: Sizes) -> dict[str, Mask]:
    """The largest of a row are searched by one block or by several; more than one are sorted then."""
    rows, cols = np.asarray(g["rows"]), np.asarray(g["cols"])
    needed = np.full(np.broadcast_shapes(rows.shape, cols.shape), np.inf)
    for above, elements in SPLIT_SEARCH.items():
        needed = np.where(rows > above, elements, needed)
    split, first = cols >= needed, np.asarray(g["per_row"]) == 1
    return {"rows": ~split & ~first, "rows-first": ~split & first, "rows-split": split}


def scan_threads(rows: Array, cols: Array) -> Array:
    """Threads that a row gets in a prefix sum: more for longer rows, fewer for more of them.

    PyTorch takes half the difference of the logarithms as an unsigned number: very many short rows get a whole block each.
    """
    doubled = np.log2(BLOCK_THREADS) + np.ceil(np.log2(cols)) - np.ceil(np.log2(rows))
    threads: Array = 2.0 ** np.clip(np.floor(doubled / 2), *np.log2(SCAN_THREADS))
    return np.where(doubled < 0, BLOCK_THREADS, threads)


def scan_variants(g: Sizes, op: str) -> dict[str, Mask]:
    """By the threads of a row; a single row is scanned by all cores."""
    single, threads = np.asarray(g["rows"]) == 1, np.asarray(scan_threads(g["rows"], g["cols"]))
    counts = 2.0 ** np.arange(np.log2(SCAN_THREADS[0]), np.log2(SCAN_THREADS[1]) + 1)
    return {f"scan-by{count:.0f}": (threads == count) & ~single for count in counts} | {
        "scan-single": single & (threads > 0)
    }


def _norm_gradients(g: Sizes) -> dict[str, Mask]:
    """As norms; where there are very many rows the gradients of the weights are summed in two steps."""
    tall = np.asarray(g["rows"]) > MAX_ROWS_SPLIT
    return {"rows-tall": tall & np.asarray(g["cols"] == g["cols"])} | {
        kernels: mask & ~tall for kernels, mask in _norms(g).items()
    }


def stream_variants(g: Sizes, op: str) -> dict[str, Mask]:
    """Elementwise kernels are one for all sizes, but for copies, dropout, joins and steps of optimizers."""
    if op == "copy":
        return _copies(g)
    if op == "dropout":
        return _dropouts(g)
    if op in OPTIMIZERS:
        odd = off(np.asarray(g["elements"]), VECTOR_LOAD)  # tensors of which no four elements are loaded at once
        return {"stream": ~odd, "stream-odd": odd}
    if op == "cat":
        return _joins(g)
    return {"stream": np.asarray(True)}


def _copies(g: Sizes) -> dict[str, Mask]:
    """The driver copies up to a mebibyte at once, and the ragged end of a longer piece by itself."""
    size = np.asarray(g["written"])
    short, ragged = size <= SHORT_COPY, off(size, EVEN_COPY)
    return {"stream": ~short & ~ragged, "stream-ragged": ~short & ragged, "stream-short": short}


def _dropouts(g: Sizes) -> dict[str, Mask]:
    """Random numbers are drawn four at a time, and as many elements loaded where their number allows it."""
    single, pair = off(np.asarray(g["elements"]), 2.0), off(np.asarray(g["elements"]), 4.0)
    return {"stream": ~pair, "stream-pair": pair & ~single, "stream-single": single}


def _joins(g: Sizes) -> dict[str, Mask]:
    """Tensors are joined in vectors where the contiguous piece of each lies on 16 bytes."""
    odd = off(np.asarray(g["piece"]), LOAD_BYTES)
    return {"stream": ~odd, "stream-odd": odd}


def _channels(g: Sizes) -> dict[str, Mask]:
    """Batch norms and sums of columns: one kernel for all lengths."""
    return {"rows": np.asarray(g["cols"]) > 0}


def _kept_channels(part: str) -> Callable[[Sizes], dict[str, Mask]]:
    """cuDNN's, channel by channel: a channel that fits is kept on chip, and read in pairs where images of 16 bits allow it."""
    one_by_one, in_pairs = KEPT_CHANNEL[part]

    def variants(g: Sizes) -> dict[str, Mask]:
        cols = np.asarray(g["cols"])
        paired = ~off(np.asarray(g["pixels"]) * element_width(g["x"]), PAIR_BYTES) & (np.asarray(g["x"]) < PAIR_BYTES)
        kept = cols <= np.where(paired, in_pairs, one_by_one)
        return {"rows": ~kept, "rows-kept": kept & ~paired, "rows-kept-paired": kept & paired}

    return variants


def _split_channels(g: Sizes) -> dict[str, Mask]:
    """PyTorch's over channels last: where there are enough values, several blocks share a channel and meet in memory."""
    single = np.asarray(g["cols"]) < split_from(g["rows"])
    return {"rows": ~single, "rows-single": single}


def split_from(rows: Array) -> Array:
    """The values of a channel from which several blocks share it: those that make more than one block fewer than `MIN_BLOCKS`."""
    channels = np.minimum(2.0 ** np.floor(np.log2(rows)), BLOCK_CHANNELS)
    return np.floor((MIN_BLOCKS - 1) * CHANNEL_BLOCK * THREAD_VALUES / channels) + 1


def _column_sums(g: Sizes) -> dict[str, Mask]:
    """Results so long that several blocks share each and meet in memory, and shorter ones."""
    parted = np.asarray(g["cols"]) >= columns.shared_from(g["rows"], g["cols"])[1]
    return {"rows": ~parted, "rows-parted": parted}


COLUMN_SUMS = ("sum_columns", "sum_between")
SPLIT_CHANNELS = tuple(f"batchnorm_{part}_native_nhwc" for part in KEPT_CHANNEL)
BATCH_NORMS = tuple(
    f"batchnorm_{part}{library}{layout}"
    for part in ("training", "backward", "inference")
    for library in ("", "_native")
    for layout in ("", "_nhwc")
)
BY_OP: dict[str, Callable[[Sizes], dict[str, Mask]]] = {
    **dict.fromkeys(("softmax", "cross_entropy"), _narrow_apart(_softmaxes)),
    **dict.fromkeys(
        ("softmax_backward", "log_softmax_backward", "cross_entropy_backward"), _narrow_apart(_softmax_gradients)
    ),
    "batchnorm": _narrow_apart(_norms),
    **dict.fromkeys(("layernorm_backward", "rmsnorm_backward"), _norm_gradients),
    **dict.fromkeys((*BATCH_NORMS, "group_moments", "group_gradients", "sum_around"), _channels),
    **{f"batchnorm_{part}": _kept_channels(part) for part in KEPT_CHANNEL},
    **dict.fromkeys(SPLIT_CHANNELS, _split_channels),
    **dict.fromkeys(("embedding", "index"), _gathers),
    "embedding_backward": _scatters,
    "gemv": _narrow_apart(_matrix_vectors),
    "sum_rows": _narrow_apart(_sums),
    **dict.fromkeys(COLUMN_SUMS, _column_sums),
    "sort": _sorts,
    "topk": _searches,
}
