"""The three-number baseline: time = max(flops / (a peak), bytes / (b bandwidth)) + t0, fitted by groups of cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...core.families import Coefficient
from .least_squares import Vector, halves, solve

THREE_NUMBERS = {
    "compute": Coefficient(0.7, 0.01, 2.0, "share of the peak"),
    "memory": Coefficient(0.8, 0.01, 2.0, "share of the bandwidth"),
    "start": Coefficient(3e-6, 1e-8, 1e-2, "seconds added"),
}


def three_number_times(groups: Sequence[str], compute: Vector, memory: Vector, measured: Vector) -> Vector:
    """Predicted seconds of every case; each half of a group is predicted by numbers fitted to the other half.

    `compute` and `memory` are the seconds at the peak and at the bandwidth.
    """
    predicted = np.empty_like(measured)
    names = np.asarray(groups)

    def formula(numbers: Mapping[str, float], cases: NDArray[np.int64]) -> Vector:
        return np.maximum(compute[cases] / numbers["compute"], memory[cases] / numbers["memory"]) + numbers["start"]

    for name in dict.fromkeys(groups):
        members = np.flatnonzero(names == name)
        (half,) = halves([len(members)])
        for side in (False, True):
            train, held_out = members[half == side], members[half != side]
            if len(held_out) == 0:
                continue
            cases = train if len(train) else held_out
            numbers = solve(lambda c, cases=cases: formula(c, cases), measured[cases], THREE_NUMBERS)  # type: ignore[misc]
            predicted[held_out] = formula(numbers, held_out)
    return predicted
