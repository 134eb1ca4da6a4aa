"""Cases of a prediction's columns as plain Python values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.columns import listed as plain_list


def plain(value: Any, index: int) -> Any:
    """One case of a column as a plain Python value; whole floats become ints."""
    if isinstance(value, np.ndarray):
        value = value.item() if value.ndim == 0 else value[index if value.shape[0] > 1 else 0]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def listed(value: Any, count: int) -> list[Any]:
    """The first `count` cases of a column as plain Python values; whole floats become ints."""
    array = np.asarray(value)
    return plain_list(array[:count] if array.ndim and len(array) > 1 else np.broadcast_to(array, (count,)))
