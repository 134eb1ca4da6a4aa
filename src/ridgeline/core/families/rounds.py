"""Units of work dealt to cores in rounds: part-filled rounds, and long units split so that they fill the cores.

Both never fall when there are more units: a split fills whole rounds, whatever its number of parts.
"""

from __future__ import annotations

import numpy as np

from .effects import Array

NO_ROOM = 1e-30  # pieces where there is room for none: no time is as long as theirs


def waves(units: Array, cores: float, lost: float) -> Array:
    """Rounds that units of the same length take; `lost` is the share of the last, part-filled one that is idle."""
    full = units / cores
    return full * (1 - lost) + np.ceil(full) * lost


def pieces(units: Array, cores: float, rounds: float, at_most: Array) -> Array:
    """Pieces that every unit can be split in so that all fit in so many full rounds; a tiny share of one where none fits.

    A split in one piece never wins over no split, nor does a split in a tiny share of one.
    """
    return np.minimum(np.maximum(np.floor(rounds * cores / units), NO_ROOM), at_most)
