"""The interval of steps in sequence: errors of one kernel go together however often it runs, those of different ones are independent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np

from ..core.work import Array, Step, total
from .expected import Expected


def summed_end(parts: Iterable[tuple[Step, Expected]], end: str) -> Array:
    """Seconds from the expected time of all steps to an end of its interval; widths of different kernels add as squares."""
    widths: dict[Hashable, Array] = {}
    for step, expected in parts:
        width = (getattr(expected, end) - expected.time) * step.count
        key = _kernel(step)
        widths[key] = widths[key] + width if key in widths else width
    alone = [*widths.values()]
    if len(alone) == 1:
        return alone[0]
    squares = np.sqrt(total(width**2 for width in alone))
    return squares if end == "high" else -squares


def _kernel(step: Step) -> Hashable:
    """Equal for steps that run the same kernels on the same sizes."""
    work = step.work
    sizes = tuple(work.shape.items())
    if not work.kernels or any(np.ndim(size) for _, size in sizes):
        return id(work)
    return work.name, work.dtype, step.backend, sizes
