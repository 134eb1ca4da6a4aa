"""Trees over the sizes of products: what they say, how they are written, which texts are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgeline.core.families import nearby, tree
from ridgeline.machines import coefficients

TEXT = "tree m k tiles_64x64\n0 -1 1 -1 2 -1 -1\n64.5 128 10\n10 -20 30 -700\n2 -5\n"


def sizes(**given: Any) -> dict[str, Any]:
    return {"b": 1.0, "m": 64.0, "n": 64.0, "k": 64.0, **given}


def test_each_case_goes_to_its_leaf():
    m, k = np.array([3.0, 64.0, 65.0, 65.0, 6400.0]), np.array([1.0, 500.0, 128.0, 129.0, 129.0])
    found = nearby.read(TEXT).correction(sizes(m=m, k=k))
    assert found == pytest.approx([0.01, 0.01, -0.02, 0.03, -0.7])


def test_a_single_case_has_a_number_and_cases_keep_their_shape():
    made = nearby.read(TEXT)
    assert made.correction(sizes()) == 0.01
    assert np.shape(made.correction(sizes(m=np.ones((2, 1)), k=np.ones(3)))) == (2, 3)


def test_a_leaf_reaches_down_to_what_larger_sizes_take():
    made = nearby.read(TEXT)
    assert made.lowest(sizes(m=65.0, k=129.0)) == -0.005
    assert made.lowest(sizes(m=65.0)) == made.correction(sizes(m=65.0)) == -0.02


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> list[Any]:
    """A nested tree: a value, or a name, a threshold and two sides."""
    if depth == 0 or draw(st.booleans()):
        return [draw(st.integers(-700, 700))]
    sides = [draw(trees(depth=depth - 1)) for _ in range(2)]  # type: ignore[call-arg]
    return [draw(st.integers(0, 3)), float(draw(st.integers(0, 300))), *sides]


def written(nested: list[Any]) -> str:
    names, thresholds, values = [], [], []

    def put(node: list[Any]) -> None:
        if len(node) == 1:
            names.append(-1)
            values.append(node[0])
            return
        names.append(node[0])
        thresholds.append(node[1])
        put(node[2])
        put(node[3])

    put(nested)
    lines = (["tree", "b", "m", "n", "k"], names, thresholds, values, [])
    return "\n".join(" ".join(map(str, line)) for line in lines) + "\n"


def followed(node: list[Any], case: list[float]) -> float:
    """The value of a case, by going down one node after the other."""
    while len(node) > 1:
        node = node[3] if case[node[0]] > node[1] else node[2]
    return float(node[0]) / 1000


@given(trees(), st.lists(st.lists(st.integers(1, 300), min_size=4, max_size=4), min_size=1, max_size=20))
def test_all_cases_at_once_say_what_one_after_the_other_does(nested, cases):
    made = tree.read(written(nested))
    columns = {
        name: np.array(column, dtype=float) for name, column in zip("bmnk", zip(*cases, strict=True), strict=True)
    }
    expected = [followed(nested, case) for case in cases]
    assert made.correction(columns) == pytest.approx(expected)
    again = tree.read(made.text())
    assert again.text() == made.text()
    assert again.correction(columns) == pytest.approx(expected)


def test_cases_that_begin_further_down_end_where_those_from_the_root_do(monkeypatch):
    """One product begins at the node that all of its cell of sizes lead to, several at the root."""
    random = np.random.default_rng(3)
    cases = {name: np.ceil(np.exp2(random.uniform(0, 17, 5000))) for name in "mnk"} | {"b": np.ones(5000)}
    cases["k"][::2] = np.ceil(cases["k"][::2] / 64) * 64
    rows = [
        str(row.nearby) for row in coefficients.of_machine("h200-sxm").values() if str(row.nearby).startswith(tree.HEAD)
    ]
    assert len(rows) > 50
    for text in rows[:6]:
        made = tree.read(text)
        reached = made.leaves(cases, (5000,))
        assert len(np.unique(reached)) > 5
        assert np.all(made.coordinates[reached] == tree.LEAF)
        monkeypatch.setattr(made, "_starts", lambda sizes: np.zeros(len(sizes["m"]), dtype=np.int64))
        assert np.array_equal(made.leaves(cases, (5000,)), reached)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("tree m\n0 -1 -1\n5", "must have names"),
        ("tree \n-1\n\n1\n\n", "coordinates of products"),
        ("tree c_out_step\n-1\n\n1\n\n", "coordinates of products"),
        ("tree m\n1 -1 -1\n5\n1 2\n\n", "coordinates from 0 to 0"),
        ("tree m\n0 -1\n5\n1\n\n", "two sides"),
        ("tree m\n-1 -1\n\n1 2\n\n", "one tree"),
        ("tree m\n0 -1 -1\n5 6\n1 2\n\n", "a threshold for every node"),
        ("tree m\n0 -1 -1\nnan\n1 2\n\n", "a threshold for every node"),
        ("tree m\n0 -1 -1\n5\n1 701\n\n", "at most 700"),
        ("tree m\n0 -1 -1\n5\n1 2\n2 -5\n", "a leaf and a value"),
        ("tree m\n0 -1 -1\n5\n1 2\n1\n", "a leaf and a value"),
        ("tree m\n0 x -1\n5\n1 2\n\n", "invalid literal"),
    ],
)
def test_what_is_no_tree_is_refused(text, says):
    with pytest.raises(ValueError, match=says):
        nearby.read(text)
