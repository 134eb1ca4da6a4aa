"""How PyTorch reduces results whose elements lie a row apart: threads of a block, and the parts that blocks add up.

Four results, or two, are loaded at once where their number allows it, by as many times fewer threads. A result of few elements is
summed by one thread; a longer one by the threads of a column of a block, and a very long one by several blocks, which meet in
memory. The limits are those of PyTorch's reduction kernel; the blocks of 480 timed sums are split as this says in all but one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .effects import Array
from .family import Mask

BLOCK_THREADS, WARP = 512.0, 32.0
CORE_THREADS = 2048.0  # that a core holds at once
MIN_VALUES, MAX_VALUES = 16.0, 256.0  # that one thread should take, of a result that several share
LOADS = (4.0, 2.0)  # results loaded at once
PARTS = tuple(4.0**fourfold for fourfold in range(1, 6))  # of a result, where it is not known how many a library makes


def _power(size: Array) -> Array:
    """The largest power of two up to a size."""
    power: Array = 2.0 ** np.floor(np.log2(np.maximum(size, 1.0)))
    return power


def _block(results: Array, length: Array) -> tuple[Array, Array, Array]:
    """Groups of results loaded at once; threads of a block along them, and along their elements."""
    size = np.asarray(results, dtype=np.float64)
    loads = np.where(size % LOADS[0] == 0, LOADS[0], np.where(size % LOADS[1] == 0, LOADS[1], 1.0))
    groups, threads = size / loads, BLOCK_THREADS / loads
    height = np.minimum(_power(length), threads / np.minimum(_power(groups), WARP))
    return groups, np.minimum(_power(groups), threads / height), height


def shared_from(results: Array, length: Array) -> tuple[Array, Array]:
    """Elements of a result from which the threads of a block share it, and from which several blocks do."""
    height = _block(results, np.maximum(length, BLOCK_THREADS))[2]
    return np.minimum(MIN_VALUES * height, MAX_VALUES), MAX_VALUES * height


def wider_blocks(results: Array) -> list[Array]:
    """Results, aligned as these are, from which a block has half as many threads along the elements, a quarter, and so on."""
    groups, _, _ = _block(results, BLOCK_THREADS)
    loads = np.asarray(results) / groups
    return [loads * np.minimum(_power(groups) * 2.0**doublings, WARP) for doublings in range(1, int(np.log2(WARP)) + 1)]


def plan(results: Array, length: Array, cores: float) -> tuple[Array, Array]:
    """Elements that a thread adds one after the other, and the parts of a result that blocks add up."""
    groups, width, height = _block(results, length)
    together: Mask = np.asarray(length) >= np.minimum(MIN_VALUES * height, MAX_VALUES)
    each = np.where(together, length / height, length)
    blocks = np.ceil(groups / np.where(together, width, width * height))
    room = cores * np.floor(CORE_THREADS / (width * height))
    split = together & (each >= MAX_VALUES) & (blocks <= room)
    wanted = np.maximum(np.minimum(np.ceil(room / blocks), np.ceil(each / MIN_VALUES)), np.ceil(each / MAX_VALUES))
    parts = np.where(split, wanted, 1.0)
    return each / parts, parts


def shortest(results: Array, length: Array, time: Callable[[Array, Array], Array]) -> Array:
    """The least seconds by `time(elements of a thread, parts of a result)` over the same `PARTS` for every length.

    For machines and formats that no plan was timed on: PyTorch's plan changes its whole parts and threads in powers of two, so a longer sum
    may take less time than a shorter one. The least of times that each grow with the length grows with it too.
    """
    shared, split = shared_from(results, length)
    each = np.where(np.asarray(length) >= shared, length / np.minimum(split / MAX_VALUES, length), length)
    least = time(each, np.ones_like(each))
    if np.any(parted := each >= MAX_VALUES):
        for parts in PARTS:
            least = np.where(parted, np.minimum(least, time(each / parts, parts)), least)
    return least
