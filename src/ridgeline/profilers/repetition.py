"""Steps of a program from what it did over and over: the period of a sequence of launches, and which steps are warm-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

MIN_REPEATS = 3
MIN_COVERED = 0.5  # share of the time or of the places that the repeated part must have
MAX_TRIMS = 10  # lengths of such an end that are tried: 0, 1, 2, 4 and so on
WARMUP_RATIO = 1.5  # of the median of the others, from which a leading step is warm-up
MAX_PLACES = 200_000  # at the end of a sequence that are looked at
MAX_TRIMMED = 0.01  # share of the time after the last repetition: a last reading of a result


class Period(NamedTuple):
    """`repeats` repetitions of `length` places each, the first beginning at `begin`."""

    begin: int
    length: int
    repeats: int

    @property
    def end(self) -> int:
        return self.begin + self.length * self.repeats


def period(tokens: Sequence[int], times: np.ndarray) -> Period | None:
    """The shortest period of the end of a sequence, whose places took `times`; None where nothing repeats.

    A prefix may be anything: setting up, warming up. What follows the last repetition is part of another or has at most
    1 % of the time, so that the layers of a model that ran once are not taken for steps: its last operators follow them.
    """
    total = float(times.sum())
    if total <= 0:
        return None
    skipped = max(0, len(tokens) - MAX_PLACES)
    tokens = tokens[skipped:]
    from_end = np.concatenate([[0.0], np.cumsum(times[: skipped - 1 if skipped else None : -1])])
    for trimmed in (0, *(2**power for power in range(MAX_TRIMS))):
        if trimmed >= len(tokens) or from_end[trimmed] > MAX_TRIMMED * total:
            break
        end = len(tokens) - trimmed
        repeated = _repeated_end(tokens[:end])
        lengths = np.flatnonzero(repeated >= (MIN_REPEATS - 1) * np.arange(end))
        same = (
            int(repeated[1]) + 1 if end > 1 else 1
        )  # places at the end with the same token: a loop has more than these
        covered = repeated[lengths] + lengths
        time = from_end[trimmed + covered] - from_end[trimmed]
        enough = (time >= MIN_COVERED * total) | (covered >= MIN_COVERED * len(tokens))
        lengths = lengths[enough & (lengths > same)]
        if len(lengths):
            length = int(lengths[0])
            count = (int(repeated[length]) + length) // length
            return Period(skipped + end - count * length, length, count)
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


def warmup_steps(lengths: np.ndarray, work: np.ndarray) -> int:
    """How many steps at the beginning, a third of all at most, come before two in a row that are like those after them.

    A step unlike the others takes more than 1.5 times their median (compilation, autotuning), or has its device work for
    more than 1.5 times as long or as short (the prefill before a loop that decodes).
    """
    warmup = alike = 0
    for place in range(len(lengths) // 3):
        usual, usual_work = np.median(lengths[place + 1 :]), np.median(work[place + 1 :])
        ratio = work[place] / usual_work if usual_work > 0 else 1.0
        unlike = lengths[place] > WARMUP_RATIO * usual or not 1 / WARMUP_RATIO <= ratio <= WARMUP_RATIO
        warmup, alike = (place + 1, 0) if unlike else (warmup, alike + 1)
        if alike == 2:
            break
    return warmup
