"""The correction by similar timings: likelihood, held-out errors, and what a search finds in made-up errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ridgeline.core.families import nearby
from ridgeline.prediction.fit import similar
from ridgeline.prediction.fit.least_squares import folds

pytest.importorskip("scipy")
SHAPE = ("m", "n")


def made_up(count: int, noise: float, seed: int = 3) -> tuple[dict[str, Any], Any]:
    """Cases whose error is a wave over m, an octave from crest to slope, and does not depend on n."""
    random = np.random.default_rng(seed)
    sizes = {name: np.exp2(random.uniform(4, 12, count)) for name in SHAPE}
    return sizes, np.exp(0.2 * np.sin(np.log2(sizes["m"]) * np.pi / 2) + random.normal(0, noise, count))


def test_the_gradient_is_that_of_the_likelihood() -> None:
    sizes, ratio = made_up(40, 0.03)
    coordinates = np.asarray(nearby.octaves(nearby.rows(SHAPE, sizes, 40)))
    given = [(row[:, None] - row) ** 2 for row in coordinates], np.log(ratio), np.linspace(1.0, 3.0, 40)
    logs, step = np.log([1.5, 3.0, 0.2, 0.05]), 1e-6
    _, gradient = similar._likelihood(logs, *given)
    for place, slope in enumerate(gradient):
        moved = step * np.eye(len(logs))[place]
        above, below = (similar._likelihood(logs + sign * moved, *given)[0] for sign in (1, -1))
        assert slope == pytest.approx((above - below) / (2 * step), rel=1e-4)


def test_leave_one_out_errors_are_those_of_tables_without_the_case() -> None:
    sizes, ratio = made_up(25, 0.05)
    process = similar.Process(np.log([1.5, 3.0, 0.2, 0.05]), np.linspace(1.0, 2.0, 25))
    coordinates = np.asarray(nearby.octaves(nearby.rows(SHAPE, sizes, 25)))
    rest = similar._left_out(coordinates, np.log(ratio), process)
    for place in range(25):
        kept = np.arange(25) != place
        rows = nearby.rows(SHAPE, {name: size[kept] for name, size in sizes.items()}, 24)
        table = nearby.solved(SHAPE, rows, np.log(ratio[kept]), process.reach, process.noise[kept])
        there = nearby.likeness(coordinates[:, [place]], coordinates[:, kept], process.reach) @ table.weights
        assert rest[place] == pytest.approx(np.log(ratio[place]) - there[0], rel=1e-9, abs=1e-12)


def test_held_out_errors_do_not_see_their_fold() -> None:
    """A timing that is changed moves the predictions of other folds alone."""
    sizes, ratio = made_up(60, 0.05)
    process = similar.search(SHAPE, sizes, ratio)
    changed = ratio.copy()
    changed[7] *= 1.5
    before, after = (each / similar.held_out(SHAPE, sizes, each, process) for each in (ratio, changed))
    (fold,) = folds([60], similar.FOLDS)
    same = fold == fold[7]
    assert 1 < same.sum() < 10
    assert after[same] == pytest.approx(before[same])
    assert np.max(np.abs(after[~same] - before[~same])) > 0.005


def test_errors_that_neighbours_share_are_predicted_from_other_folds() -> None:
    sizes, ratio = made_up(300, 0.02)
    rest = np.log(similar.held_out(SHAPE, sizes, ratio, similar.search(SHAPE, sizes, ratio)))
    assert 0.015 < float(np.std(rest)) < 0.05  # of 0.14 before; the noise is 0.02, and cells are a quarter octave wide


def test_errors_over_one_size_give_it_a_short_reach_and_the_other_a_long_one() -> None:
    sizes, ratio = made_up(200, 0.02)
    process = similar.search(SHAPE, sizes, ratio)
    assert process.reach[1] > 3 * process.reach[0]
    table = similar.table(SHAPE, sizes, ratio, process)
    crest = table.correction({"m": 2.0**9, "n": 2.0**7})
    assert crest == pytest.approx(0.2, abs=0.05)


def test_noise_alone_is_not_followed() -> None:
    random = np.random.default_rng(5)
    sizes = {name: np.exp2(random.uniform(4, 12, 150)) for name in SHAPE}
    ratio = np.exp(random.normal(0, 0.1, 150))
    table = similar.table(SHAPE, sizes, ratio, similar.search(SHAPE, sizes, ratio))
    assert float(np.max(np.abs(np.asarray(table.correction(sizes))))) < 0.06


def test_a_timing_unlike_its_neighbours_moves_them_less() -> None:
    sizes, ratio = made_up(200, 0.02)
    odd = ratio.copy()
    odd[7] *= 1.9
    process = similar.search(SHAPE, sizes, odd)
    assert process.shares[7] > 5
    assert float(np.median(process.shares)) == 1.0
    around = {name: size[7] for name, size in sizes.items()}
    moved = [similar.table(SHAPE, sizes, each, process).correction(around) for each in (ratio, odd)]
    assert moved[1] - moved[0] < 0.25 * np.log(1.9)
