"""Which shapes kernels are timed with: every family covered, none twice, all within the caps."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.measure.cuda import cases as shapes
from ridgeline.measure.cuda import kernels
from ridgeline.measure.cuda.operands import FORMATS
from ridgeline.programs.ops import find


@pytest.fixture(scope="module")
def calibration() -> list[shapes.Case]:
    return shapes.calibration_cases()


@pytest.fixture(scope="module")
def drawn() -> list[shapes.Case]:
    return shapes.random_cases(600, seed=5)


def test_the_calibration_has_as_many_cases_of_each_family_as_planned(calibration: list[shapes.Case]) -> None:
    assert len(calibration) == sum(count for _, count, _ in shapes.PLAN)
    by = Counter(case["op"] for case in calibration if not case.get("backend"))
    assert by["gemm"] == 800 + 300 + 300 + 350 + 350 + 250 + 200 + 600
    assert by["attention"] == 600 + 360 + 40 + 440
    assert sum(by[op] for op in shapes.ROWS) == 2000 + 280
    assert {case["backend"] for case in calibration if case.get("backend")} == {
        *["cudnn", "efficient", "flash2", "rowwise", "triton"]
    }
    assert {case["dtype"] for case in calibration} == set(FORMATS) - {"fp8_e5m2"}
    assert sum(case.get("layout") == "nhwc" for case in calibration) > 50
    assert len(shapes.calibration_cases(quick=True)) < len(calibration) / 6


def test_no_case_comes_twice_and_none_of_the_test_set_was_calibrated(
    calibration: list[shapes.Case], drawn: list[shapes.Case]
) -> None:
    seen = Counter(tuple(sorted(case.items())) for case in calibration + drawn)
    assert max(seen.values()) == 1
    assert len(drawn) == 600


def test_cases_are_the_same_for_the_same_seed_only() -> None:
    first, again, other = (shapes.random_cases(60, seed, only=("stream",)) for seed in (5, 5, 6))
    assert first == again != other


def test_a_part_of_the_cases_covers_every_op(calibration: list[shapes.Case]) -> None:
    """They come shuffled: a run that stops early has seen every family."""
    assert {case["op"] for case in calibration[:2500]} == {case["op"] for case in calibration}


def test_drawn_cases_are_ones_their_ops_accept_within_the_caps(
    calibration: list[shapes.Case], drawn: list[shapes.Case]
) -> None:
    for case in calibration + drawn:
        sizes = {key: value for key, value in case.items() if key not in ("op", "backend")}
        work = find(case["op"])(**sizes)
        assert work.flops <= (3e12 if case["dtype"] in ("fp32", "fp64") else 3e13), case
        assert work.footprint <= 12 * (1 << 30), case
        assert all(type(value) is int for key, value in sizes.items() if key in kernels.SIZES), case
        if case["op"] == "gemm" and case["dtype"] in ("fp8_e4m3", "int8"):
            assert case["n"] % 16 == case["k"] % 16 == 0, case
            assert case["dtype"] == "fp8_e4m3" or case["m"] > 16, case


def test_products_cover_decoding_vocabularies_odd_sizes_and_squares(calibration: list[shapes.Case]) -> None:
    products = [case for case in calibration if case["op"] == "gemm" and case["dtype"] == "bf16"]
    assert sum(case["m"] <= 64 for case in products) > 50
    assert sum(case["m"] == case["n"] == case["k"] for case in products) > 20
    assert sum(case["n"] in shapes.VOCABULARIES for case in products) > 5
    assert sum(case["n"] % 2 == 1 for case in products) > 20
    assert max(case["m"] for case in products) > 12000


@given(st.integers(0, 2**31), st.floats(1, 1e4), st.floats(1, 1e4), st.sampled_from([1, 8, 64]))
def test_a_size_lies_between_its_ends_and_on_its_step(seed: int, low: float, ratio: float, step: int) -> None:
    high = max(low * ratio, step)
    found = shapes.Draw(np.random.default_rng(seed), True).size(low, high, step)
    assert found % step == 0
    assert 1 <= found <= high
    assert found >= min(int(low), int(high) // step * step)
