"""The period of a sequence: steps of a loop, and nothing that only looks like them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.profilers.repetition import Period, _repeated_end, period


def even(tokens: list[int]) -> np.ndarray:
    return np.ones(len(tokens))


def test_a_loop_after_setting_up() -> None:
    tokens = [9, 8, 7, *[1, 2, 3] * 4]
    assert period(tokens, even(tokens)) == Period(begin=3, length=3, repeats=4)


def test_a_last_reading_of_a_result_is_no_step() -> None:
    tokens = [*[1, 2, 3] * 4, 5]
    assert period(tokens, np.array([1.0] * 12 + [0.01])) == Period(begin=0, length=3, repeats=4)


def test_layers_of_a_model_that_ran_once_are_no_steps() -> None:
    """The last operators of a model follow its layers."""
    tokens = [0, *[1, 2, 3] * 24, 4, 5]
    assert period(tokens, even(tokens)) is None


def test_layers_within_steps_are_part_of_them() -> None:
    tokens = [0, *[1, 2] * 5, 4] * 3
    assert period(tokens, even(tokens)) == Period(begin=0, length=12, repeats=3)


@pytest.mark.parametrize("tokens", [[], [1], [1, 2, 1, 2], [7] * 50], ids=["empty", "single", "twice", "same kernel"])
def test_no_period(tokens: list[int]) -> None:
    assert period(tokens, even(tokens)) is None


@given(st.lists(st.integers(0, 2), max_size=40))
def test_the_repeated_end_counted_place_by_place(tokens: list[int]) -> None:
    counted = [0]
    for shift in range(1, len(tokens)):
        same = 0
        while shift + same < len(tokens) and tokens[-1 - same] == tokens[-1 - same - shift]:
            same += 1
        counted.append(same)
    assert _repeated_end(tokens).tolist() == counted[: len(tokens)]
