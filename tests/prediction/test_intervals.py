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
    low, high = intervals.ends(RATIO)[:2]
    end = math.hypot(0.128, 0.02)
    assert np.log([low, high]) == pytest.approx([-end, end], abs=0.003)
    inside = float(np.mean((low <= RATIO) & (high >= RATIO)))
    assert intervals.INSIDE <= inside < intervals.INSIDE + 0.015


def test_a_low_end_that_larger_sizes_bring_makes_the_quantiles_narrower() -> None:
    """With everything below inside anyway, the tails are as wide as they may be."""
    low, high = intervals.ends(RATIO, np.full(len(RATIO), -5.0))[:2]
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
    assert np.log(intervals.ends(np.ones(50))[:2]) == pytest.approx([-end, end])


def test_widths_that_are_seconds_are_told_from_those_that_are_shares() -> None:
    """Times that another run changes by 0.2 us and by 3 %: the interval holds 80 % of short ones and of long ones."""
    random = np.random.default_rng(3)
    predicted = np.exp(random.uniform(np.log(1.5e-6), np.log(1e-3), 4000))
    ratio = np.exp(
        0.03 / 1.28 * random.standard_normal(4000) + 0.2e-6 / 1.28 * random.standard_normal(4000) / predicted
    )
    low, high, jitter = intervals.ends(ratio, 0.0, predicted)
    assert 0.1e-6 < jitter < 0.5e-6
    assert high == pytest.approx(math.exp(math.hypot(0.03, intervals.RUN_TO_RUN)), abs=0.01)
    for part in (predicted < 3e-6, predicted > 100e-6):
        under, over = (np.hypot(np.log(end), jitter / predicted) for end in (low, high))
        assert np.mean((np.log(ratio) >= -under)[part] & (np.log(ratio) <= over)[part]) == pytest.approx(0.85, abs=0.06)
    assert intervals.ends(ratio, 0.0)[2] == 0
    assert intervals.ends(ratio[:40], 0.0, predicted[:40])[2] == 0


def test_ends_without_jitter_are_the_quantiles() -> None:
    predicted = np.full(len(RATIO), 1e-3)
    assert intervals.ends(RATIO, 0.0, predicted)[:2] == pytest.approx(intervals.ends(RATIO)[:2], abs=2e-4)
