"""Noise in the samples of a probe: preempted, drifting or in two groups, as when a second program loads the machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.notes import DRIFT, NOISE, Note
from ..core.statistics import median, median_deviation

MIN_SAMPLES = 6  # fewer show neither a drift nor two groups
DRIFT_DEVIATIONS = 3.0  # by which the halves of a series must differ to be called a drift
GROUP_DEVIATIONS = 4.0  # by which two groups of samples must lie apart to be called two
MIN_CHANGE = 0.05  # of the median, for either: less is the resolution of any timer


def noise_note(samples: Sequence[float], preempted: int = 0) -> Note | None:
    """A note where the samples do not look like one undisturbed machine.

    Its kind is NOISE where threads of ours lost the core, and DRIFT where the samples drift from the first to the
    second half or a group of them is clearly slower than the others, beyond what the scatter within explains.
    """
    texts = []
    if preempted:
        times = "once" if preempted == 1 else f"{preempted} times"
        texts.append(f"another program had the core {times} while sampling (those samples are kept apart)")
    unsteady = _drift_or_groups(np.asarray(samples, dtype=np.float64))
    if unsteady:
        texts.append(unsteady)
    return Note(DRIFT if unsteady else NOISE, f"disturbed: {'; '.join(texts)}") if texts else None


def _drift_or_groups(values: NDArray[np.float64]) -> str:
    if len(values) < MIN_SAMPLES:
        return ""
    middle, half = median(values.tolist()), len(values) // 2
    first, second = values[:half], values[-half:]
    change = float(np.median(second) - np.median(first))
    within = max(median_deviation(first), median_deviation(second))
    if abs(change) > max(DRIFT_DEVIATIONS * within, MIN_CHANGE * middle):
        direction = "slower" if change > 0 else "faster"
        return f"samples drift: the second half is {abs(change) / middle:.0%} {direction} than the first"
    if distance := _group_distance(np.sort(values), middle):
        return f"samples fall into two groups {distance:.0%} apart, as when a second program loads the machine"
    return ""


def _group_distance(ordered: NDArray[np.float64], middle: float) -> float:
    """How far apart two groups of at least two samples lie, relative to the median; 0 where there is one group."""
    gaps = np.diff(ordered)
    place = int(np.argmax(gaps[1:-1])) + 2  # at least two samples on each side
    low, high = ordered[:place], ordered[place:]
    distance = float(np.median(high) - np.median(low))
    within = max(median_deviation(low), median_deviation(high), float(np.median(gaps)))
    return distance / middle if distance > max(GROUP_DEVIATIONS * within, MIN_CHANGE * middle) else 0.0
