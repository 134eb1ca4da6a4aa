"""Coordinates that follow from sizes: alignment in powers of two, the pixels of all images, and tables that use them."""

import numpy as np
import pytest

from ridgeline.core.families import Key, formula, nearby
from ridgeline.core.families.coordinates import MAX_STEP, alignment, coordinate

LAYER = {
    **{"images": 16.0, "c_in": 96.0, "c_out": 20.0, "h": 28.0, "w": 28.0, "ho": 14.0, "wo": 14.0},
    **{"kernel": 3.0, "stride": 2.0, "groups": 1.0},
}


@pytest.mark.parametrize(("size", "power"), [(1, 1), (20, 4), (96, 32), (128, 128), (4096, MAX_STEP), (255, 1)])
def test_a_step_is_the_largest_power_of_two_that_divides(size: float, power: float) -> None:
    assert alignment(float(size)) == power


def test_coordinates_follow_from_the_sizes() -> None:
    assert coordinate(LAYER, "all_pixels") == 16 * 14 * 14
    assert coordinate(LAYER, "c_in_step") == 32
    assert coordinate(LAYER, "c_out_step") == 4
    assert coordinate(LAYER, "pixel_step") == 16
    assert coordinate(LAYER, "c_in") == 96


def test_layers_without_groups_are_told_apart_by_pixels_and_alignment() -> None:
    conv = formula(Key("conv", "bf16"))
    assert "all_pixels" in conv.near_by(LAYER)
    assert conv.near_by({**LAYER, "groups": 4.0}) == conv.shape


def test_layers_that_spread_their_input_are_told_apart_by_how_far() -> None:
    conv = formula(Key("conv", "bf16"))
    assert set(conv.near_by({**LAYER, "spread": 2.0})) ^ set(conv.near_by(LAYER)) == {"spread", "stride"}


def solved(ratio: float) -> nearby.Nearby:
    """A table with one timing, of LAYER, that took `ratio` times what the formula says."""
    shape = formula(Key("conv", "bf16")).near_by(LAYER)
    sizes = nearby.rows(shape, LAYER, 1)
    return nearby.solved(shape, sizes, np.log([ratio]), np.full(len(shape), 0.5), 0.0)


def test_a_table_of_nine_coordinates_corrects_the_case_it_holds() -> None:
    table = nearby.read(solved(1.5).text())
    assert len(table.names) == nearby.MAX_COORDINATES
    assert np.exp(table.correction(LAYER)) == pytest.approx(1.5, rel=0.05)


def test_other_alignment_is_another_place() -> None:
    table = solved(1.5)
    assert table.correction({**LAYER, "c_out": 21.0}) < 0.2 * table.correction(LAYER)


def test_the_lowest_correction_of_larger_sizes_keeps_the_alignment() -> None:
    """A faster timing at better alignment does not lower the end of an interval here."""
    shape = formula(Key("conv", "bf16")).near_by(LAYER)
    both = {name: np.array([size, size]) for name, size in LAYER.items()} | {"c_out": np.array([20.0, 24.0])}
    table = nearby.solved(shape, nearby.rows(shape, both, 2), np.log([1.5, 0.6]), np.full(len(shape), 0.2), 0.0)
    assert table.correction({**LAYER, "c_out": 24.0}) < -0.2
    assert table.lowest(LAYER) > -0.1
