"""Colours of the light and the dark theme, and the colour and id of each item of a chart."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import unknown
from ..chart import Mark, Point

# Okabe and Ito's set, darkened or lightened where the background asks for contrast; each colour is used once in a theme.
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "background": "#ffffff", "ink": "#1a1f27", "muted": "#59616d", "grid": "#e3e6ea", "frame": "#9aa1ab",
        "memory": "#e8f1f8", "compute": "#fdf1e3", "overhead": "#f1eef4", "ridge": "#7a3e9d",
        "c0": "#0072b2", "c1": "#d55e00", "c2": "#007d5a", "c3": "#b0478a", "c4": "#b07800", "c5": "#2f8fd0", "c6": "#6b6f76",
    },
    "dark": {
        "background": "#14181f", "ink": "#e8ebf0", "muted": "#a3acb9", "grid": "#2a313b", "frame": "#5d6774",
        "memory": "#182736", "compute": "#2c241b", "overhead": "#26222e", "ridge": "#c79be8",
        "c0": "#5cb8f2", "c1": "#ff9150", "c2": "#3fcfa2", "c3": "#e593c6", "c4": "#f0c14b", "c5": "#9fd3ff", "c6": "#b4bac4",
    },
}  # fmt: skip
GROUP_COLOURS = 7  # c0 .. c6

TITLE_SIZE, HEAD_SIZE, BODY_SIZE, SMALL_SIZE = 14.0, 11.0, 9.5, 9.0  # points

Measure = Callable[[str, float, str], float]  # a text, its size and its weight -> its width in points


def theme(name: str) -> dict[str, str]:
    if name not in THEMES:
        raise unknown("theme", name, THEMES)
    return THEMES[name]


def gid_of(number: int, kind: str, index: int | str = "") -> str:
    """The id of an element of chart `number` of a picture."""
    return f"c{number}-{kind}" + (f"-{index}" if index != "" else "")


@dataclass(frozen=True)
class ChartStyle:
    """Colours, ids and text widths for chart `number` of a picture; `groups` are those of all its charts."""

    palette: dict[str, str]
    groups: list[str]
    measure: Measure
    number: int = 0
    prefix: str = ""
    alone: bool = True  # whether the picture is this chart and nothing else

    def gid(self, kind: str, index: int | str = "") -> str:
        return self.prefix + gid_of(self.number, kind, index)

    def group_colour(self, group: str, otherwise: str = "ink") -> str:
        role = f"c{self.groups.index(group) % GROUP_COLOURS}" if group in self.groups else otherwise
        return self.palette[role]

    def point_colour(self, point: Point) -> str:
        return self.group_colour(point.group, "ridge" if point.role == "ridge" else "c0")

    def mark_colour(self, mark: Mark) -> str:
        return self.group_colour(mark.group, "ridge" if mark.role == "ridge" else "muted")
