"""The law in closed form: attainable rate and ridge, what a run achieved, batch, tiles, energy. Arrays welcome everywhere.

    attainable = min(peak, min over levels of bandwidth_l x intensity_l)
    ridge      = peak / bandwidth

After Williams, Waterman and Patterson (2009). `bound.py` applies it to a piece of work on a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .dtypes import dtype as dtype_row
from .errors import InputError, MissingFigure
from .machine import Machine
from .work import Array


def intensity(flops: Array, moved: Array) -> Array:
    """Flops per byte. Zero flops give 0; no bytes are an error, not infinity."""
    if np.any(np.asarray(moved) <= 0):
        raise InputError("intensity needs a positive number of bytes")
    return flops / moved


def attainable(at: Array, peak: Array, bandwidth: Array) -> Array:
    """min(peak, bandwidth x intensity), in flop/s."""
    return np.minimum(peak, bandwidth * at)


def ridge(peak: Array, bandwidth: Array) -> Array:
    """The intensity at which both roofs meet; also called machine balance."""
    return peak / bandwidth


def roof(
    peak: float, bandwidth: float, first: float = 0.01, last: float = 1000.0, samples: int = 1000
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-spaced intensities and the attainable rate at each: the curve a roofline chart draws."""
    at = np.geomspace(first, last, samples)
    return at, np.asarray(attainable(at, peak, bandwidth))


def label(code: NDArray[np.generic], names: tuple[str, ...]) -> str | NDArray[np.str_]:
    if code.ndim == 0:
        return names[int(code)]
    return np.asarray(names)[code.astype(np.int64)]


def scalar_or_array(values: NDArray[np.float64]) -> Array:
    return float(values) if values.ndim == 0 else values


UNDERUSED = 0.5  # with both shares below it, neither roof explains the time


@dataclass(frozen=True)
class Achieved:
    """A measured kernel against its roofs: shares of 1 (above 1 is a finding about the count or the roof)."""

    intensity: Array
    rate: Array
    peak_share: Array
    bandwidth_share: Array
    roof_share: Array
    verdict: str | NDArray[np.str_]


def achieved(flops: Array, moved: Array, time: Array, peak: float, bandwidth: float) -> Achieved:
    """Where a run landed: x = flops/bytes, y = flops/time, and which of three answers it gives.

    `compute` or `memory` is the roof with the higher utilization; `underused` means that both are below 50 %:
    latency, too little parallelism, overhead, or inefficient use of both.
    """
    at, rate = intensity(flops, moved), flops / time
    peak_share, bandwidth_share = rate / peak, moved / time / bandwidth
    shares = np.asarray(peak_share), np.asarray(bandwidth_share)
    side = np.where(shares[0] >= shares[1], 0, 1)
    verdict = label(np.where(np.maximum(*shares) < UNDERUSED, 2, side), ("compute", "memory", "underused"))
    roof_share = rate / attainable(at, peak, bandwidth) if np.all(np.asarray(flops) > 0) else bandwidth_share
    return Achieved(at, rate, peak_share, bandwidth_share, roof_share, verdict)


# -- batch ------------------------------------------------------------------------------------------------


def batch_intensity(
    batch: Array,
    fan_in: Array,
    fan_out: Array,
    width: float = 2.0,
    weights: float | None = None,
    result: float | None = None,
) -> Array:
    """Intensity of a linear layer against batch, in closed form.

    AI(B) = 2 B W / (w W + B (d in + e out)) with W = in x out, d bytes per activation, w per weight, e per result; for
    w = e = d this is (2/d) B / (1 + B/in + B/out). It grows as 2B/w while B is small and saturates at 2W / (d in + e out).
    """
    size = fan_in * fan_out
    moved = width * fan_in + (width if result is None else result) * fan_out
    return 2 * batch * size / ((width if weights is None else weights) * size + batch * moved)


def saturation(fan_in: Array, fan_out: Array, width: float = 2.0, result: float | None = None) -> Array:
    """AI limit of a linear layer for large batch."""
    return 2 * fan_in * fan_out / (width * fan_in + (width if result is None else result) * fan_out)


def critical_batch(
    at_ridge: Array,
    fan_in: Array,
    fan_out: Array,
    width: float = 2.0,
    weights: float | None = None,
    result: float | None = None,
) -> Array:
    """The smallest whole batch at which a linear layer reaches the ridge; infinite when it never does.

    B* = r w W / (2 W - r (d in + e out)); it exists only if the AI limit is above the ridge.
    """
    size = np.asarray(fan_in * fan_out, dtype=np.float64)
    room = 2 * size - at_ridge * (width * fan_in + (width if result is None else result) * fan_out)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = at_ridge * (width if weights is None else weights) * size / room
    # one part in 1e12 keeps an exact whole answer from being rounded up by floating point
    return scalar_or_array(np.where(room > 0, np.maximum(1.0, np.ceil(exact * (1 - 1e-12))), np.inf))


# -- locality ---------------------------------------------------------------------------------------------


def feeding_level(machine: Machine, total_bytes: float, block_bytes: float | None = None, reuse: float = 1.0) -> str:
    """The level that feeds a kernel after first touch.

    Data used once comes from the main memory whatever its size. With reuse, a block's working set is held
    against one instance of the per-SM (or per-core) levels, everything together against the shared levels.
    """
    if reuse <= 1:
        return machine.main.name
    for level in machine.levels[:-1]:
        capacity = level.capacity.value()
        if capacity is None:
            continue
        private = level.scope in ("sm", "core")
        if private and level.name == "l1" and "shared_per_block" in machine.limits:
            capacity = machine.limits["shared_per_block"].value() or capacity
        needed = (total_bytes if block_bytes is None else block_bytes) if private else total_bytes
        if needed <= capacity * (1 if private else level.instances):
            return level.name
    return machine.main.name


def largest_tile(machine: Machine, dtype: str = "fp32", tiles: int = 3, step: int = 16) -> tuple[int, float]:
    """The largest square tile (a multiple of `step`) of which `tiles` fit one block's shared memory, and that limit."""
    if "shared_per_block" not in machine.limits:
        raise MissingFigure(f"{machine.name} states no shared memory per block, which bounds a tile")
    limit = machine.limits["shared_per_block"].value()
    assert limit is not None
    side = int((limit / (tiles * dtype_row(dtype).bytes)) ** 0.5)
    return side // step * step, limit


# -- energy -----------------------------------------------------------------------------------------------


def energy(
    flops: Array, moved: Array, per_flop: float, per_byte: float, static: float = 0.0, time: Array = 0.0
) -> Array:
    """E = F e_f + B e_b + P0 T, in joule. Energies add, so there is no sharp roof."""
    return flops * per_flop + moved * per_byte + static * time


def energy_balance(per_flop: float, per_byte: float) -> float:
    """The intensity at which arithmetic and data movement cost the same energy: half the ceiling 1/e_f is reached."""
    return per_byte / per_flop
