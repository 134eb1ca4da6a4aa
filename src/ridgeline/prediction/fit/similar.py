"""The correction by similar timings: reach of each size and noise by maximum likelihood, weights of the timed cases.

The logarithm of measured over the formula's time is taken as a Gaussian process of variance `scale`^2 whose correlation
is 1 / (1 + d^2), plus noise. A timing unlike those around it (another kernel ran) gets more noise, so that it moves its
neighbours less. Leave-one-out errors follow from the same matrix: those of case i are w_i / (inverse matrix)_ii. They
say which timings are unlike others; errors and intervals come from folds, because a timing has a say in that too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.families import nearby
from ...core.families.family import Sizes
from .least_squares import folds, require

Vector = NDArray[np.float64]
MAX_SAMPLE = 450  # timings that decide reach and noise; all of them get a weight
START_REACH, START_NOISE = 2.0, 0.05  # octaves; of the logarithm of a time
REACHES = (0.15, 100.0)  # octaves
SCALES, NOISES = (0.005, 3.0), (0.015, 3.0)  # of the logarithm of a time
STEPS = (25, 10, 10)  # of the search: at first, and after the noise of unlike timings has been raised
TYPICAL = 2.0  # times the spread of leave-one-out errors beyond which a timing is unlike those around it
UNLIKE_POWER = 1.5  # of its distance, by which its noise grows
FOLDS, FOLDS_OF_MANY, MANY = 10, 5, 1000  # of cases that are predicted by the others; of so many cases or more
MAD = 0.6745  # median absolute deviation of a normal distribution of width 1


@dataclass(frozen=True)
class Process:
    """What a search finds: logarithms of the reaches, the scale and the noise; the noise of each timing over it."""

    logs: Vector
    shares: Vector

    @property
    def reach(self) -> Vector:
        return np.exp(self.logs[:-2])

    @property
    def noise(self) -> Vector:
        """Variance of the noise of each timing over that of the process."""
        noise: Vector = np.exp(2 * (self.logs[-1] - self.logs[-2])) * self.shares
        return noise


def search(shape: Sequence[str], sizes: Sizes, ratio: Vector) -> Process:
    """The process of cases that took `ratio` times what the formula says."""
    coordinates, errors = _of_cases(shape, sizes, ratio)
    sample = np.random.default_rng(len(ratio)).permutation(len(ratio))[:MAX_SAMPLE]
    process = Process(_search(coordinates[:, sample], errors[sample]), np.ones(len(ratio)))
    return _with_shares(process, coordinates, errors)


def table(shape: Sequence[str], sizes: Sizes, ratio: Vector, process: Process) -> nearby.Nearby:
    """The table that corrects the formula by these cases."""
    rows = nearby.rows(shape, sizes, len(ratio))
    return nearby.solved(shape, rows, np.log(ratio), process.reach, process.noise)


def held_out(shape: Sequence[str], sizes: Sizes, ratio: Vector, process: Process) -> Vector:
    """Measured over predicted times of each case, predicted by the formula and the cases of the other folds.

    Which timings are unlike those around them is decided without the fold as well; each case is predicted at its cell.
    """
    coordinates, errors = _of_cases(shape, sizes, ratio)
    number = FOLDS_OF_MANY if len(ratio) >= MANY else FOLDS
    (fold,) = folds([len(ratio)], number)
    correction = np.zeros(len(ratio))
    for part in range(number):
        kept = fold != part
        others, known = coordinates[:, kept], errors[kept]
        inside = _with_shares(replace(process, shares=np.ones(len(known))), others, known)
        matrix = nearby.likeness(others, others, inside.reach) + np.diag(inside.noise)
        alike = nearby.likeness(nearby.cell_centers(coordinates[:, ~kept]), others, inside.reach)
        correction[~kept] = alike @ np.linalg.solve(matrix, known)
    limit = nearby.MAX_LOG_ERROR
    return np.asarray(ratio / np.exp(np.clip(correction, -limit, limit)))


def _of_cases(shape: Sequence[str], sizes: Sizes, ratio: Vector) -> tuple[Vector, Vector]:
    """Coordinates in octaves and errors as far as a correction reaches."""
    rows = nearby.rows(shape, sizes, len(ratio))
    return np.asarray(nearby.octaves(rows)), np.clip(np.log(ratio), -nearby.MAX_LOG_ERROR, nearby.MAX_LOG_ERROR)


def _left_out(coordinates: Vector, errors: Vector, process: Process) -> Vector:
    """What the correction by all other timings leaves of each error."""
    matrix = nearby.likeness(coordinates, coordinates, process.reach) + np.diag(process.noise)
    inverse = np.linalg.inv(matrix)
    rest: Vector = (inverse @ errors) / np.diag(inverse)
    return rest


def _with_shares(process: Process, coordinates: Vector, errors: Vector) -> Process:
    """The process with more noise for timings unlike those around them."""
    for _ in STEPS[1:]:
        process = replace(process, shares=_shares(_left_out(coordinates, errors, process)))
    return process


def _shares(rest: Vector) -> Vector:
    """The noise of each timing over the usual one: more for those that the others do not foretell."""
    typical = TYPICAL * max(float(np.median(np.abs(rest))) / MAD, 1e-6)
    shares: Vector = np.maximum(np.abs(rest) / typical, 1.0) ** UNLIKE_POWER
    return shares


def _search(coordinates: Vector, errors: Vector) -> Vector:
    """Reach, scale and noise of the largest likelihood, in rounds that raise the noise of unlike timings."""
    require()
    from scipy.optimize import minimize

    squares = [(row[:, None] - row) ** 2 for row in coordinates]
    bounds = [np.log(REACHES)] * len(squares) + [np.log(SCALES), np.log(NOISES)]
    spread = float(np.clip(np.std(errors), *SCALES))
    logs = np.log([*[START_REACH] * len(squares), spread, START_NOISE])
    shares = np.ones(len(errors))
    for steps in STEPS:
        given = (squares, errors, shares)
        result = minimize(
            _likelihood, logs, given, method="L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": steps}
        )
        logs = np.asarray(result.x)
        shares = _shares(_left_out(coordinates, errors, Process(logs, shares)))
    return logs


def _likelihood(logs: Vector, squares: Sequence[Vector], errors: Vector, shares: Vector) -> tuple[float, Vector]:
    """Minus the logarithm of the likelihood, and its gradient; reaches are held to their start by one unit of it."""
    from scipy.linalg import cho_factor, cho_solve

    reach, scale, noise = np.exp(2 * logs[:-2]), np.exp(2 * logs[-2]), np.exp(2 * logs[-1])
    distance = 1 + sum(square / octave for square, octave in zip(squares, reach, strict=True))
    alike = 1 / distance
    factor = cho_factor(scale * alike + np.diag(noise * shares), lower=True)
    weights, inverse = cho_solve(factor, errors), cho_solve(factor, np.eye(len(errors)))
    held = logs[:-2] - np.log(START_REACH)
    value = 0.5 * errors @ weights + np.log(np.diag(factor[0])).sum() + 0.5 * held @ held
    slope = 0.5 * (inverse - np.outer(weights, weights))
    by_distance = 2 * scale * slope * alike * alike
    gradient = [np.sum(by_distance * square) / octave for square, octave in zip(squares, reach, strict=True)]
    of_scale, of_noise = 2 * scale * np.sum(slope * alike), 2 * noise * np.diag(slope) @ shares
    return float(value), np.array([*(np.array(gradient) + held), of_scale, of_noise])
