"""Least squares: the coefficients of a formula from timings, and linear models from measured columns.

A formula is fitted to the logarithm of the time over the logarithms of its coefficients, within their bounds. Residuals
beyond a tenth count linearly (soft L1), so that outliers do not decide; each coefficient is held to its start as by a
few timings (plain squares), so that what the timings say nothing about stays where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.families import Coefficient

Vector = NDArray[np.float64]
SOFT_RESIDUAL = 0.1  # residuals of the logarithm beyond this count linearly
PRIOR_SHARE = 0.02  # weight of a coefficient's start, per factor of e: as many timings as this share of them,
MIN_PRIOR = 4.0  # and at least this many
DIFFERENCE = 1e-4  # relative step of derivatives: formulas have kinks, which smaller steps do not see across
MAX_EVALUATIONS = 200
CONVERGED = 1e-4  # relative change of the sum of squares, or of the coefficients, below which a fit is done


def available() -> bool:
    """Whether SciPy, which fits the coefficients of formulas, is installed."""
    return find_spec("scipy") is not None


def require() -> None:
    if not available():
        raise InputError("fitting coefficients needs SciPy: pip install 'ridgeline[fit]'")


def solve(
    predict: Callable[[dict[str, float]], Vector],
    measured: Vector,
    coefficients: Mapping[str, Coefficient],
    start: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """The coefficients whose predicted times lie nearest the measured ones."""
    require()
    from scipy.optimize import least_squares

    names = list(coefficients)
    low, high = (np.log([getattr(coefficients[name], end) for name in names]) for end in ("low", "high"))
    center = np.log([(start or {}).get(name, coefficients[name].default) for name in names])
    wanted, count = np.log(measured), len(measured)
    weight = np.sqrt(max(PRIOR_SHARE * count, MIN_PRIOR)) * SOFT_RESIDUAL

    def residuals(logs: Vector) -> Vector:
        times = predict(dict(zip(names, np.exp(logs).tolist(), strict=True)))
        return np.concatenate([np.log(times) - wanted, weight * (logs - center)])

    def loss(squares: Vector) -> Vector:
        """Soft L1 for the timings, plain squares for the start: value, first and second derivative."""
        of_timings = 1 + squares[:count]
        rho = np.stack([squares, np.ones_like(squares), np.zeros_like(squares)])
        rho[:, :count] = 2 * (np.sqrt(of_timings) - 1), of_timings**-0.5, -0.5 * of_timings**-1.5
        return rho

    fit = least_squares(
        residuals,
        np.clip(center, low, high),
        bounds=(low, high),
        loss=loss,
        f_scale=SOFT_RESIDUAL,
        diff_step=DIFFERENCE,
        max_nfev=MAX_EVALUATIONS,
        ftol=CONVERGED,
        xtol=CONVERGED,
    )
    return dict(zip(names, np.exp(fit.x).tolist(), strict=True))


def linear(columns: Sequence[Vector], target: Vector, relative: bool = False) -> tuple[list[float], float]:
    """The factor of each column whose sum is nearest the target, and the root mean square of what is left.

    `relative` counts errors relative to the target. Columns are scaled, because they differ by orders of magnitude.
    """
    largest = [float(np.max(column)) for column in columns]
    table = np.column_stack([column / top for column, top in zip(columns, largest, strict=True)])
    wanted = target
    if relative:
        table, wanted = table / target[:, None], np.ones_like(target)
    factors = np.linalg.lstsq(table, wanted, rcond=None)[0]
    error = float(np.sqrt(np.mean((table @ factors - wanted) ** 2)))
    return [float(factor / top) for factor, top in zip(factors, largest, strict=True)], error


def folds(counts: Sequence[int], number: int = 2) -> list[NDArray[np.int64]]:
    """For series of these lengths, which fold each element belongs to; the same lengths give the same folds."""
    generator = np.random.default_rng(counts[0])
    return [generator.permutation(count) % number for count in counts]
