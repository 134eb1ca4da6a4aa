"""Coefficients from a handful of timings per kernel, with NumPy alone.

With few timings most coefficients stay at their start; leave-one-out errors, with Student's t for their number and the
scatter of the samples, give the interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...core.families import Coefficient, Family, Key, formula, keys
from ...core.fitted import Fitted
from ...core.machine import Machine
from ...core.statistics import Errors, median, spread
from ...core.work import Work
from ..coefficients import kernels
from ..hardware import hardware
from .families import rounded
from .groups import Group
from .least_squares import Vector

MIN_SIZES = 2  # of a kernel, below which it is not fitted
MIN_WIDTH = 0.08  # of the logarithm of an interval's end: runs a minute apart on a virtual machine differ by this much
PRIOR_WEIGHT = 0.02  # of a coefficient's start, per factor of e, against one timing
STEPS = 40
DAMPING = 1e-3
CONVERGED = 1e-4  # relative change of the coefficients
T_90 = (3.08, 1.89, 1.64, 1.53, 1.48, 1.44, 1.41, 1.40, 1.38, 1.37)  # Student's t, P90, by degrees of freedom from 1
NORMAL_90 = 1.28
# Coefficients that a handful of timings can decide, each from where it starts; others take values without effect.
STARTS = {"memory": 0.8, "compute": 0.8, "launch": 2e-6, "thin": 1.0}
NEUTRAL = {
    "blend": 8.0,
    "element": 0.01,
    "row": 1e-11,
    "alone": 1.0,
    "fork": 1e-8,
    "special": 0.5,
    "passes": 0.001,
    "again": 0.001,
}


def fit_small(
    timings: Iterable[tuple[Work, Sequence[float]]], machine: Machine, source: str = "timed just before"
) -> dict[Key, Fitted]:
    """Coefficients of every kernel from calls of a few sizes: the work of each call and its samples in seconds.

    For `dataclasses.replace(machine, fitted=...)`. Works of several kernels, and kernels timed at a single size, are
    left out.
    """
    groups: dict[Key, list[Group]] = {}
    noise: dict[Key, list[float]] = {}
    for work, samples in timings:
        of_work = kernels(work)
        if len(of_work) != 1:
            continue
        kernel = of_work[0]
        key = next(keys(kernel.family, kernel.sizes, kernel.dtype, kernel.op, machine.kind))[0]
        known = hardware(machine, key.dtypes[0])
        if known is None:
            continue
        sizes = {name: np.atleast_1d(np.asarray(size, dtype=np.float64)) for name, size in kernel.sizes.items()}
        timed = Group(formula(key, machine.kind), known, sizes, np.array([median(samples)]))
        groups.setdefault(key, []).append(timed)
        noise.setdefault(key, []).append(spread(samples))
    joined = {key: _joined(parts) for key, parts in groups.items() if len(parts) >= MIN_SIZES}
    return {key: _fit(timed, median(noise[key]), source) for key, timed in joined.items()}


def _joined(parts: Sequence[Group]) -> Group:
    first, *others = parts
    for other in others:
        first = first.joined(other)
    return first


def _fit(timed: Group, noise: float, source: str) -> Fitted:
    """Coefficients of one kernel, with the leave-one-out error; `noise` is the spread of the samples of one size."""
    coefficients = _coefficients(timed)
    count = len(timed)
    logs = np.empty(count)
    for place in range(count):
        kept = np.arange(count) != place
        predicted = timed.part(~kept).formula_times(_coefficients(timed.part(kept)))
        logs[place] = math.log(float(timed.times[place] / predicted[0]))
    errors = Errors.of(np.exp(-logs), np.ones(count))
    student = T_90[count - 2] if count - 2 < len(T_90) else NORMAL_90
    width = student * math.sqrt(float(np.mean(logs**2)) * (1 + 1 / count))
    width = max(math.hypot(width, noise), MIN_WIDTH)
    return Fitted(
        coefficients={name: rounded(value) for name, value in coefficients.items()},
        error=rounded(max(errors.median, 1e-4)),
        p90=rounded(max(errors.p90, 1e-4)),
        low=rounded(math.exp(-width)),
        high=rounded(math.exp(width)),
        cases=count,
        source=source,
        ranges={
            name: (rounded(values.min()), rounded(values.max()))
            for name, values in timed.sizes.items()
            if values.min() > 0 and values.max() > values.min()
        },
    )


def _coefficients(timed: Group) -> dict[str, float]:
    family = timed.family
    neutral = {name: value for name, value in NEUTRAL.items() if name in family.coefficients}
    start = {name: value for name, value in STARTS.items() if name in family.coefficients}
    return {**neutral, **_solve(timed, neutral, start, family)}


def _solve(timed: Group, fixed: Mapping[str, float], start: Mapping[str, float], family: Family) -> dict[str, float]:
    """Damped Gauss-Newton over the logarithms of the coefficients, each held to its start and within its bounds."""
    rows: dict[str, Coefficient] = {name: family.coefficients[name] for name in start}
    low, high = (np.log([getattr(row, end) for row in rows.values()]) for end in ("low", "high"))
    center = np.log(list(start.values()))
    measured = np.log(timed.times)

    def residuals(logs: Vector) -> Vector:
        given = {**fixed, **dict(zip(start, np.exp(logs).tolist(), strict=True))}
        return np.concatenate([np.log(timed.formula_times(given)) - measured, PRIOR_WEIGHT * (logs - center)])

    logs, step = np.clip(center, low, high), 1e-5
    best, damping = residuals(logs), DAMPING
    for _ in range(STEPS):
        jacobian = np.stack([(residuals(logs + step * axis) - best) / step for axis in np.eye(len(logs))], axis=1)
        normal = jacobian.T @ jacobian
        move = np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-12), -jacobian.T @ best)
        trial = np.clip(logs + move, low, high)
        if np.max(np.abs(trial - logs)) < CONVERGED:
            break
        new = residuals(trial)
        if new @ new < best @ best:
            logs, best, damping = trial, new, max(damping / 3, 1e-9)
        else:
            damping = min(damping * 10, 1e6)
    return dict(zip(start, np.exp(logs).tolist(), strict=True))
