"""Fitting the coefficients of a formula to timings: robust least squares on the logarithm of the time.

Levenberg-Marquardt on log coefficients, residuals weighed down beyond a tenth (soft L1), each coefficient held to where
it starts as by a few measurements, so that what the data do not speak of stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from ..core.families.family import Coefficient

Vector = NDArray[np.float64]
SOFT = 0.1  # residuals beyond this count linearly
HOLD = 0.02  # weight of where a coefficient starts: as many measurements as this share of the data, per factor of e
LEAST = 4.0  # and no fewer than these


def solve(
    predict: Callable[[dict[str, float]], Vector],
    measured: Vector,
    coefficients: Mapping[str, Coefficient],
    start: Mapping[str, float] | None = None,
    rounds: int = 60,
) -> dict[str, float]:
    """The coefficients whose predicted times lie nearest the measured ones."""
    names = list(coefficients)
    low, high = (np.log([getattr(coefficients[name], end) for name in names]) for end in ("low", "high"))
    center = np.log([(start or {}).get(name, coefficients[name].default) for name in names])
    wanted = np.log(measured)
    hold = np.sqrt(max(HOLD * len(measured), LEAST)) * SOFT

    def residuals(at: Vector) -> Vector:
        return np.log(predict(dict(zip(names, np.exp(at), strict=True)))) - wanted

    def cost(off: Vector, at: Vector) -> float:
        return float(np.sum(2 * SOFT**2 * (np.sqrt(1 + (off / SOFT) ** 2) - 1)) + np.sum((hold * (at - center)) ** 2))

    at = np.clip(center, low, high)
    off = residuals(at)
    value, damp = cost(off, at), 1e-2
    for _ in range(rounds):
        slope = np.empty((len(off), len(names)))
        for place in range(len(names)):
            step = 1e-4 if at[place] + 1e-4 < high[place] else -1e-4
            moved = at.copy()
            moved[place] += step
            slope[:, place] = (residuals(moved) - off) / step
        weight = 1 / np.sqrt(1 + (off / SOFT) ** 2)
        normal = slope.T @ (weight[:, None] * slope) + hold**2 * np.eye(len(names))
        pull = slope.T @ (weight * off) + hold**2 * (at - center)
        better = False
        for _ in range(8):
            change = np.linalg.solve(normal + damp * np.diag(np.diag(normal)), -pull)
            tried = np.clip(at + np.clip(change, -1, 1), low, high)
            there = residuals(tried)
            new = cost(there, tried)
            if new < value:
                gain, better = value - new, True
                at, off, value, damp = tried, there, new, max(damp / 5, 1e-9)
                break
            damp *= 4
        if not better or gain < 1e-6 * value:
            break
    return dict(zip(names, np.exp(at).tolist(), strict=True))
