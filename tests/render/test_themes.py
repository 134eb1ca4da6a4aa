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
    for role in ("ink", "muted", "ridge", *(f"c{index}" for index in range(themes.GROUP_COLOURS))):
        for ground in ("background", "memory", "compute"):
            low, high = sorted((luminance(colours[role]), luminance(colours[ground])))
            assert (high + 0.05) / (low + 0.05) > 3, (role, ground)
