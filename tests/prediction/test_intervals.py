"""Ends of the 80 % interval: they hold the share that is promised, no more where the low end is lower anyway."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from ridgeline.prediction.fit import intervals

RATIO = np.array([math.exp(NormalDist(0, 0.1).inv_cdf((place + 0.5) / 2000)) for place in range(2000)])


def test_the_ends_are_quantiles_of_what_was_held_out() -> None:
    """Of a normal distribution of width 0.1, 80 % lie within 1.28 widths; another run adds 0.02 in quadrature."""
    low, high = intervals.ends(RATIO)
    end = math.hypot(0.128, 0.02)
    assert np.log([low, high]) == pytest.approx([-end, end], abs=0.003)
    inside = float(np.mean((low <= RATIO) & (high >= RATIO)))
    assert intervals.INSIDE <= inside < intervals.INSIDE + 0.015


def test_a_low_end_that_larger_sizes_bring_makes_the_quantiles_narrower() -> None:
    """With everything below inside anyway, the tails are as wide as they may be."""
    low, high = intervals.ends(RATIO, np.full(len(RATIO), -5.0))
    tails = np.log(np.quantile(RATIO, [intervals.MAX_TAIL, 1 - intervals.MAX_TAIL]))
    assert np.abs(np.log([low, high])) == pytest.approx(np.hypot(tails, intervals.RUN_TO_RUN))
    some = intervals.ends(RATIO, np.where(np.arange(len(RATIO)) % 4 == 0, -5.0, 0.0))
    assert high < some[1] < intervals.ends(RATIO)[1]


def test_few_timings_give_a_wider_interval_and_biased_ones_hold_the_time_itself() -> None:
    few = RATIO[50::100]
    assert intervals.ends(few)[1] >= np.quantile(few, 0.91)
    assert intervals.ends(RATIO * 2)[0] == pytest.approx(math.exp(-intervals.RUN_TO_RUN))
    assert intervals.ends(RATIO / 2)[1] == pytest.approx(math.exp(intervals.RUN_TO_RUN))


def test_no_interval_is_narrower_than_two_runs_differ() -> None:
    end = intervals.RUN_TO_RUN
    assert np.log(intervals.ends(np.ones(50))) == pytest.approx([-end, end])
