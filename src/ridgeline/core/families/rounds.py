"""Units of work dealt to cores in rounds: part-filled rounds, and long units split so that they fill the cores.

Both never fall when there are more units: a split fills whole rounds, whatever its number of parts.
"""

from __future__ import annotations

import numpy as np

from .effects import Array


def waves(units: Array, cores: float, lost: float) -> Array:
    """Rounds that units of the same length take; `lost` is the share of the last, part-filled one that is idle."""
    full = units / cores
    return full * (1 - lost) + np.ceil(full) * lost


def parts(units: Array, cores: float, rounds: float, at_most: Array) -> Array:
    """Parts that every unit can be split in so that all fit in so many full rounds; 1 where there is room for no more."""
    return np.minimum(np.maximum(np.floor(rounds * cores / units), 1.0), at_most)
