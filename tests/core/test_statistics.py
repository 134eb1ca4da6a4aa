"""Statistics of timings: the rank test against every order counted, laws of medians, spreads, errors and intervals."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core import statistics
from ridgeline.core.statistics import (
    Errors,
    bootstrap_medians,
    can_reach,
    median,
    median_deviation,
    outliers,
    quantile,
    rank_orders,
    rank_test,
    ratio_interval,
    spread,
)
from strategies import law

samples = st.lists(st.floats(0.5, 2), min_size=2, max_size=30)


def noisy(middle: float, seed: int) -> list[float]:
    return list(middle * np.exp(0.05 * np.random.default_rng(seed).standard_normal(30)))


# Medians and spreads --------------------------------------------------------------------------------------------------


@law(60)
@given(samples)
def test_the_median_is_numpys_and_half_of_the_samples_lie_on_each_side(series: list[float]) -> None:
    assert median(series) == pytest.approx(float(np.median(series)))
    assert quantile(series, 0.5) == pytest.approx(median(series))
    assert sum(sample <= median(series) * (1 + 1e-12) for sample in series) >= len(series) / 2


@law(60)
@given(samples, st.sampled_from([0.25, 2.0, 8.0]))
def test_the_spread_is_relative_and_the_deviation_is_not(series: list[float], scale: float) -> None:
    scaled = [scale * sample for sample in series]
    assert spread(scaled) == pytest.approx(spread(series))
    assert median_deviation(scaled) == pytest.approx(scale * median_deviation(series))
    assert spread(series) >= 0
    assert outliers(scaled) == outliers(series)


def test_outliers_are_named_by_their_place() -> None:
    assert outliers([1.0, 1.1, 0.9, 50.0, 1.0, 1.05]) == (3,)
    assert outliers([1.0, 1.0, 1.0]) == ()


def test_errors_of_known_times() -> None:
    """Predicted over measured - 1 is +100 %, -50 % and 0."""
    errors = Errors.of([2.0, 1.0, 3.0], [1.0, 2.0, 3.0])
    assert (errors.median, errors.mean, errors.signed) == (0.5, 0.5, 0.0)
    assert errors.p90 == pytest.approx(0.9)  # between 0.5 and 1, 0.8 of the way


# Two series -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), [(1, 1), (2, 3), (3, 2), (4, 4), (1, 5)])
def test_orders_are_counted_as_by_writing_them_all_down(m: int, n: int) -> None:
    counted = [0] * (m * n + 1)
    for places in combinations(range(m + n), n):  # places of the second series in the sorted whole
        counted[sum(place - rank for rank, place in enumerate(places))] += 1
    assert list(rank_orders(m, n)) == counted
    assert sum(counted) == math.comb(m + n, n)


def test_the_most_extreme_order_has_the_chance_of_one_in_all_orders() -> None:
    assert rank_test([1, 2, 3, 4, 5], [6, 7, 8, 9, 10]) == pytest.approx(1 / math.comb(10, 5))
    assert rank_test([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]) == 1
    # one pair swapped: two orders of 252 are at least as extreme
    assert rank_test([1, 2, 3, 4, 6], [5, 7, 8, 9, 10]) == pytest.approx(2 / 252)


def test_the_normal_form_agrees_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = noisy(1.0, 1), noisy(1.02, 2)
    exact = rank_test(one, two)
    monkeypatch.setattr(statistics, "MAX_EXACT_PAIRS", 0)
    assert rank_test(one, two) == pytest.approx(exact, abs=0.005)


def test_ties_are_corrected_for_and_equal_samples_say_nothing() -> None:
    assert rank_test([1.0] * 10, [1.0] * 10) == 1.0
    assert rank_test([1, 1, 2, 2, 1, 1, 2, 2], [3, 3, 4, 4, 3, 3, 4, 4]) < 0.001
    assert 0.3 < rank_test([1, 2, 3, 4], [1, 2, 3, 4]) < 0.7


@law(60)
@given(samples, samples, st.sampled_from([0.25, 2.0, 8.0]))
def test_the_test_knows_no_units_and_both_directions_share_the_whole(
    one: list[float], two: list[float], scale: float
) -> None:
    up, down = rank_test(one, two), rank_test(two, one)
    assert 0 <= up <= 1
    assert up + down >= 1 - 1e-9  # an order counts for both where U lies in the middle
    assert rank_test([scale * value for value in one], [scale * value for value in two]) == up


@law(60)
@given(samples, samples)
def test_the_order_of_the_samples_does_not_matter(one: list[float], two: list[float]) -> None:
    assert rank_test(sorted(one), two[::-1]) == pytest.approx(rank_test(one, two))


@law(60)
@given(samples, samples, st.floats(0.1, 1))
def test_a_second_series_that_is_larger_is_never_more_likely_by_chance(
    one: list[float], two: list[float], more: float
) -> None:
    larger = [sample + more for sample in two]
    if len({*one, *two, *larger}) == len(one) + 2 * len(two):  # ties change the variance, not only the rank
        assert rank_test(one, larger) <= rank_test(one, two) + 1e-12


def test_noise_alone_rarely_convinces() -> None:
    dice = np.random.default_rng(7)
    alarms = sum(rank_test(*dice.normal(1, 0.1, (2, 12))) < 0.01 for _ in range(1000))
    assert alarms <= 25  # 10 expected


def test_five_of_each_are_enough_and_four_are_not() -> None:
    assert can_reach(5, 5, 0.01)  # 1 / 252
    assert not can_reach(4, 4, 0.01)  # 1 / 70
    assert can_reach(4, 4, 0.05)
    assert can_reach(10**6, 10**6, 1e-300)
    assert not can_reach(1, 10**6, 1e-7)
    assert can_reach(1, 100, 0.01)
    assert not can_reach(1, 98, 0.01)


@law(30)
@given(samples)
def test_the_interval_of_a_series_against_itself_holds_one(series: list[float]) -> None:
    low, high = ratio_interval(series, series)
    assert low <= 1 <= high
    assert ratio_interval(series, series) == (low, high)


@law(40)
@given(samples)
def test_resampled_medians_lie_within_the_samples_and_are_the_same_every_time(series: list[float]) -> None:
    medians = bootstrap_medians(series)
    assert min(series) <= medians.min()
    assert medians.max() <= max(series)
    assert (bootstrap_medians(series) == medians).all()


@law(60)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20), st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_ranks_count_every_pair_and_half_of_the_ties(one: list[int], two: list[int]) -> None:
    """The p-value is that of U as counted pair by pair; the normal form, because of ties."""
    pairs = sum((y > x) + (y == x) / 2 for x in one for y in two)
    m, n = len(one), len(two)
    repeats = [([*one, *two]).count(value) for value in {*one, *two}]
    variance = m * n / 12 * (m + n + 1 - sum(r**3 - r for r in repeats) / ((m + n) * (m + n - 1)))
    if max(repeats) > 1 and variance > 0:
        z = (pairs - m * n / 2 - 0.5) / math.sqrt(variance)
        assert rank_test(one, two) == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)))


@pytest.mark.parametrize("count", [31, 40])
def test_medians_drawn_at_once_are_distributed_as_those_of_resampled_series(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    series = sorted(np.random.default_rng(3).normal(1, 0.1, count))
    monkeypatch.setattr(statistics, "RESAMPLES", 20_000)
    monkeypatch.setattr(statistics, "_drawn", statistics._drawn.__wrapped__)
    resampled = bootstrap_medians(series)
    monkeypatch.setattr(statistics, "MAX_DRAWN", 0)
    drawn = bootstrap_medians(series)
    for share in (0.025, 0.2, 0.5, 0.8, 0.975):  # as ranks among the resampled ones: 4 standard deviations of 20 000
        at = np.quantile(resampled, share)
        assert np.mean(drawn < at) - 0.015 <= share <= np.mean(drawn <= at) + 0.015


def test_a_million_samples_need_no_million_pairs() -> None:
    one = np.random.default_rng(1).normal(1, 0.1, 300_000)
    low, high = ratio_interval(one, 1.01 * one)
    assert 1.009 < low < 1.01 < high < 1.011
    assert rank_test(one, 1.01 * one) < 1e-6
    assert rank_test(one, one) == pytest.approx(0.5, abs=0.01)


@law(40)
@given(samples, st.floats(0.1, 10))
def test_the_interval_of_a_ratio_scales_with_the_second_series(series: list[float], factor: float) -> None:
    low, high = ratio_interval(series, series)
    assert ratio_interval(series, [factor * sample for sample in series]) == (
        pytest.approx(factor * low),
        pytest.approx(factor * high),
    )


@pytest.mark.parametrize("freedom", [1, 2, 3, 4.5, 8, 30, 400])
def test_students_t_is_that_of_its_density(freedom: float) -> None:
    """The tail against the density integrated by the trapezoidal rule; with one degree of freedom it is Cauchy's."""
    constant = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    for t in (0.1, 0.7, 2.0, 5.0):
        grid = np.linspace(0.0, t, 20_001)
        inside = float(np.trapezoid(constant * (1 + grid**2 / freedom) ** (-(freedom + 1) / 2), grid))
        assert statistics.student_t_tail(t, freedom) == pytest.approx(0.5 - inside, abs=1e-8)
        assert statistics.student_t_tail(-t, freedom) == pytest.approx(0.5 + inside, abs=1e-8)
    assert statistics.student_t_tail(1.0, 1) == pytest.approx(0.25)


@pytest.mark.parametrize("tail", [0.4, 0.05, 0.01, 1e-5])
@pytest.mark.parametrize("freedom", [1, 4, 50, math.inf])
def test_a_quantile_of_t_has_its_tail(tail: float, freedom: float) -> None:
    assert statistics.student_t_tail(statistics.student_t_quantile(tail, freedom), freedom) == pytest.approx(tail)
