"""How works combine: counts merged and multiplied, steps in sequence, a tensor left out; and a value or an array as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .errors import InputError
from .units import show

if TYPE_CHECKING:
    from .work import Kernel, Step, Work

Array = float | NDArray[np.float64]
COLLECTIVE = "collective"  # the family of kernels that stand for collectives


def merge(first: Mapping[Any, Array], second: Mapping[Any, Array]) -> dict[Any, Array]:
    merged = dict(first)
    for key, value in second.items():
        merged[key] = merged[key] + value if key in merged else value
    return merged


def scale(counts: Mapping[Any, Array], factor: Array) -> dict[Any, Array]:
    return {key: value * factor for key, value in counts.items()}


def over_bytes(kernels: Iterable[Kernel], factor: Array) -> tuple[Kernel, ...]:
    """Collectives over so many times the bytes, which are all that their formula asks for; other kernels, whose formulas know sizes
    and no bytes, are left out."""
    collectives = (kernel for kernel in kernels if kernel.family == COLLECTIVE)
    return tuple(replace(each, sizes={**each.sizes, "bytes": each.sizes["bytes"] * factor}) for each in collectives)


def checked(factor: Array, what: str, zero: bool = True) -> Array:
    """A factor of work that is finite and not negative."""
    values = np.asarray(factor, dtype=np.float64)
    if np.all(np.isfinite(values) & ((values >= 0) if zero else (values > 0))):
        return factor
    raise InputError(f"{what} takes finite numbers {'of at least' if zero else 'above'} 0, got {value_range(values)}")


def value_range(value: Any, unit: str = "") -> str:
    """A value with its unit, a size as it was given, or the ends of an array."""
    ends = [value] if not np.ndim(value) else [np.min(value), np.max(value)] if np.size(value) else []
    if unit:
        return " to ".join(show(float(end), unit, 3) for end in ends)
    return "..".join(str(end) if isinstance(end, str) else f"{end:.15g}" for end in ends)


def sequence(first: Work, then: Work) -> tuple[Step, ...]:
    """The steps of both, without those of no work; a kernel that goes on is one step, because its errors go together."""
    before, after = (work.steps if work.counts or work.moves or work.waits else () for work in (first, then))
    if before and after and before[-1].work is after[0].work and before[-1].backend == after[0].backend:
        joined = replace(before[-1], count=before[-1].count + after[0].count)
        return (*before[:-1], joined, *after[1:])
    return (*before, *after)


def without(work: Work, tensor: str, way: str) -> Work:
    """Without the reads or the writes of a tensor, in all its parts."""
    parts = tuple(replace(step, work=without(step.work, tensor, way)) for step in work.parts)
    return replace(
        work, moves={key: value for key, value in work.moves.items() if key[1:] != (tensor, way)}, parts=parts
    )
