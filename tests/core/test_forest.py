"""Trees over the sizes of convolutions: what they say, how they are written, which texts are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.families import forest, nearby
from ridgeline.core.families.coordinates import as_product, coordinate
from ridgeline.machines import coefficients
from ridgeline.programs.ops import OPS

TEXT = "forest c_in m taps\n0 -1 1 -1 -1\n64 1000\n10 -20 30\n2 -1 -1\n2\n100 200\n0 -1 -1\n64\n0 -50\n"


def sizes(**given: Any) -> dict[str, Any]:
    (kernel,) = OPS["conv2d"](**{"batch": 1.0, "c_in": 64.0, "c_out": 64.0, "h": 8.0, "w": 8.0, **given}).kernels
    return dict(kernel.sizes)


def test_the_values_of_all_trees_are_added():
    made = nearby.read(TEXT)
    found = made.correction(sizes(c_in=np.array([64.0, 65.0, 65.0]), h=np.array([8.0, 8.0, 200.0])))
    assert found == pytest.approx([0.01 + 0.2, -0.02 + 0.2, 0.03 + 0.2])
    assert made.correction(sizes(kernel=1.0)) == pytest.approx(0.01 + 0.1)


def test_the_last_tree_says_how_far_down_the_interval_reaches():
    made = nearby.read(TEXT)
    assert made.lowest(sizes()) == made.correction(sizes())
    assert made.lowest(sizes(c_in=65.0)) == pytest.approx(made.correction(sizes(c_in=65.0)) - 0.05)


def test_cases_keep_their_shape():
    made = nearby.read(TEXT)
    assert isinstance(made.correction(sizes()), float)
    assert np.shape(made.correction(sizes(c_in=np.ones((2, 1)), batch=np.ones(3)))) == (2, 3)


def test_what_is_written_is_read_again():
    made = forest.read(TEXT.strip())
    assert forest.read(made.text()).text() == made.text() == TEXT.strip()


def test_trees_without_a_node_are_written_too():
    text = "forest c_in\n-1\n\n10\n-1\n\n-5"
    made = nearby.read(text)
    assert made.text() == text
    assert made.correction(sizes()) == pytest.approx(0.01)
    assert made.lowest(sizes()) == pytest.approx(0.005)


CASES = st.fixed_dictionaries(
    {
        **{name: st.integers(1, 300) for name in ("batch", "c_in", "c_out")},
        **{name: st.integers(8, 200) for name in "hw"},
        **{"kernel": st.sampled_from([1, 2, 3, 5]), "stride": st.sampled_from([1, 2]), "padding": st.integers(0, 2)},
    }
)


@given(CASES, st.sampled_from(["conv2d", "conv2d_wgrad"]))
def test_the_product_of_a_convolution_has_as_many_flops(given, op):
    made = OPS[op](**{name: float(value) for name, value in given.items()})
    product = as_product(made.kernels[0].sizes)
    assert 2 * np.prod(list(product.values())) == pytest.approx(made.flops)


@given(CASES)
def test_the_border_is_the_padding_of_both_ends(given):
    """By the sizes of the forward convolution, which its two gradients are called with as well; what a stride leaves out counts less."""
    case = {name: float(value) for name, value in given.items()}
    left_out = (case["h"] + 2 * case["padding"] - case["kernel"]) % case["stride"]
    for op in ("conv2d", "conv2d_wgrad", "conv2d_dgrad"):
        (kernel,) = OPS[op](**case).kernels
        if op == "conv2d_dgrad" and case["stride"] == 1:
            continue  # which is a convolution over the gradient: its own border, not that of the forward one
        found = coordinate({**kernel.sizes, **as_product(kernel.sizes)}, "border")
        assert found == pytest.approx(2 * case["padding"] - left_out)


def test_the_h200_has_trees_for_its_convolutions():
    rows = {
        key: row for key, row in coefficients.of_machine("h200-sxm").items() if str(row.nearby).startswith(forest.HEAD)
    }
    assert len(rows) > 200
    assert {key.family for key in rows} == {"conv"}
    for row in list(rows.values())[:5]:
        made = forest.read(str(row.nearby))
        assert np.all(np.abs(made.correction(sizes(c_in=np.arange(1.0, 500)))) <= forest.MAX_VALUE)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("forest c_in\n-1\n\n1", "must have names"),
        ("forest c_in\n-1\n\n1\n-1", "must have names"),
        ("forest \n-1\n\n1\n-1\n\n0", "coordinates of convolutions"),
        ("forest rows\n-1\n\n1\n-1\n\n0", "coordinates of convolutions"),
        ("forest c_in\n1 -1 -1\n5\n1 2\n-1\n\n0", "coordinates from 0 to 0"),
        ("forest c_in\n0 -1\n5\n1\n-1\n\n0", "two sides"),
        ("forest c_in\n0 -1 -1\n5\n1\n-1\n\n0", "a value for every leaf"),
        ("forest c_in\n-1\n\n1600\n-1\n\n0", "at most 1500"),
        ("forest c_in\n-1\n\n1\n-1\n\n5", "no value above 0"),
    ],
)
def test_other_texts_are_refused(text, says):
    with pytest.raises(ValueError, match=says):
        nearby.read(text)
