"""Ticks, positions and texts on an axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.render.chart import Axis
from ridgeline.render.draw.labels import position, ticks, wrap
from strategies import law


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (Axis("x", "FLOP/B", "log", (1 / 16, 1024)), ["1/16", "1/4", "1", "4", "16", "64", "256", "1024"]),
        (Axis("y", "FLOP/s", "log", (1e11, 2e14)), ["100 GFLOP/s", "1 TFLOP/s", "10 TFLOP/s", "100 TFLOP/s"]),
        (Axis("y", "FLOP/s", "linear", (0, 3.2e14)), ["0 FLOP/s", "100 TFLOP/s", "200 TFLOP/s", "300 TFLOP/s"]),
        (Axis("year", "year", "linear", (2016, 2022)), ["2016", "2017", "2018", "2019", "2020", "2021", "2022"]),
        (Axis("share", "%", "linear", (0, 1)), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (Axis("y", "FLOP/s", "log", (1e12, 8e12)), ["1 TFLOP/s", "2 TFLOP/s", "5 TFLOP/s"]),
    ],
)  # fmt: skip
def test_ticks_read_as_people_write_them(axis: Axis, expected: list[str]) -> None:
    assert [label for _, label in ticks(axis)] == expected


@law(100)
@given(st.floats(1e-12, 1e18), st.floats(1.01, 1e9), st.sampled_from(["FLOP/B", "FLOP/s", ""]), st.integers(3, 12))
def test_ticks_lie_in_range_and_are_few(first: float, factor: float, unit: str, most: int) -> None:
    axis = Axis("x", unit, "log", (first, first * factor))
    values = [value for value, _ in ticks(axis, most)]
    assert len(values) <= max(most, 8)
    assert values == sorted(set(values))
    assert all(first * 0.99999 <= value <= first * factor * 1.00001 for value in values)


def test_positions_and_wrapping() -> None:
    axis = Axis("x", "", "log", (1, 100))
    assert [position(axis, value, 0, 10) for value in (1, 10, 100)] == pytest.approx([0, 5, 10])
    assert wrap("a bb ccc toolongaword d", 5, len) == ["a bb", "ccc", "toolongaword", "d"]
