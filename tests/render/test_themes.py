"""Colours of the themes."""

from __future__ import annotations

import pytest

from ridgeline.render.draw import themes


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("name", themes.THEMES)
def test_colours_differ_and_stand_out_from_the_background(name: str) -> None:
    colours = themes.THEMES[name]
    assert len(set(colours.values())) == len(colours)
    assert colours.keys() == themes.THEMES["light"].keys()
    for role in ("ink", "muted", "ridge", *themes.GROUP_COLOURS):
        for ground in ("background", "memory", "compute", "overhead"):
            low, high = sorted((luminance(colours[role]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (
                role,
                ground,
            )  # WCAG AA: names of lines and dots have their colour


def test_a_meaning_has_one_colour_whatever_else_is_on_the_chart() -> None:
    for groups in (["compute-bound", "memory-bound"], ["gemm", "memory-bound", "softmax", "compute-bound"]):
        roles = themes.colour_roles(groups)
        assert (roles["memory-bound"], roles["compute-bound"]) == ("c0", "c1")
        assert len(set(roles.values())) == len(groups)  # free groups keep clear of the fixed colours
    assert themes.colour_roles(["HBM"]) == {"HBM": "c0"}
    assert set(themes.FIXED_COLOURS.values()) <= {*themes.GROUP_COLOURS, "ridge"}


@pytest.mark.parametrize("kinds", [("memory-bound", "compute-bound", "overhead-bound", "latency-bound", "balanced"), ("hbm", "l3", "l2", "l1", "shared"), ("tensor", "vector", "special"), ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "int4")])  # fmt: skip
def test_things_of_one_kind_have_colours_of_their_own(kinds: tuple[str, ...]) -> None:
    assert len({themes.FIXED_COLOURS[name] for name in kinds}) == len(kinds)


def test_the_area_of_a_dot_grows_with_its_share() -> None:
    assert (themes.dot_radius(0.5) / themes.dot_radius(0.125)) ** 2 == pytest.approx(4)
