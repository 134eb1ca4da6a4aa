"""Steps of a program from what it did over and over: the period of a sequence of launches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MIN_REPEATS = 3
MIN_COVERED = 0.5  # share of the time that the repeated part must have
MAX_TRIMMED = 0.01  # share of the time after the last repetition: a last reading of a result


class Period(NamedTuple):
    """`repeats` repetitions of `length` places each, the first beginning at `begin`."""

    begin: int
    length: int
    repeats: int


def period(tokens: Sequence[int], times: np.ndarray) -> Period | None:
    """The shortest period of the end of a sequence, whose places took `times`; None where nothing repeats.

    A prefix may be anything: setting up, warming up. What follows the last repetition is part of another or has at most
    1 % of the time, so that the layers of a model that ran once are not taken for steps: its last operators follow them.
    """
    total = float(times.sum())
    if total <= 0:
        return None
    from_end = np.concatenate([[0.0], np.cumsum(times[::-1])])
    trimmed = 0
    while trimmed < len(tokens) and from_end[trimmed] <= MAX_TRIMMED * total:
        end = len(tokens) - trimmed
        repeated = _repeated_end(tokens[:end])
        for length in np.flatnonzero(repeated >= (MIN_REPEATS - 1) * np.arange(end)):
            covered = int(repeated[length]) + int(length)
            if length and from_end[trimmed + covered] - from_end[trimmed] >= MIN_COVERED * total:
                count = covered // int(length)
                return Period(end - count * int(length), int(length), count)
        trimmed = max(1, 2 * trimmed)
    return None


def _repeated_end(tokens: Sequence[int]) -> np.ndarray:
    """For each shift, how many places at the end equal those the shift before (Gusfield's Z values of the reverse)."""
    reverse = list(tokens[::-1])
    size = len(reverse)
    values = [0] * size
    left = right = 0
    for place in range(1, size):
        value = min(right - place, values[place - left]) if place < right else 0
        while place + value < size and reverse[value] == reverse[place + value]:
            value += 1
        values[place] = value
        if place + value > right:
            left, right = place, place + value
    return np.asarray(values, np.int64)
