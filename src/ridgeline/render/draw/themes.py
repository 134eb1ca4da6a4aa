"""Colours of the light and the dark theme, the colour and id of each item of a chart, and its legend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...core.errors import unknown
from ..chart import Chart, Mark, Point

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

MARKER = {"expected": "o", "overhead": "s", "floor": "_", "observed": "D", "target": "o", "ridge": "o", "value": "o"}
TITLE_SIZE, HEAD_SIZE, BODY_SIZE, SMALL_SIZE = 14.0, 11.0, 9.5, 9.0  # points

Measure = Callable[[float, str, str], float]  # size and weight of a text, and the text -> its width in points


def palette_of(name: str) -> dict[str, str]:
    if name not in THEMES:
        raise unknown("theme", name, THEMES)
    return THEMES[name]


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
        """The id of an element of this chart."""
        return f"{self.prefix}c{self.number}-{kind}" + (f"-{index}" if index != "" else "")

    def group_colour(self, group: str, otherwise: str = "ink") -> str:
        role = f"c{self.groups.index(group) % GROUP_COLOURS}" if group in self.groups else otherwise
        return self.palette[role]

    def point_colour(self, point: Point) -> str:
        return self.group_colour(point.group, "ridge" if point.role == "ridge" else "c0")

    def mark_colour(self, mark: Mark) -> str:
        return self.group_colour(mark.group, "ridge" if mark.role == "ridge" else "muted")


@dataclass(frozen=True)
class Entry:
    """A text beside a marker, a line or both."""

    text: str
    colour: str
    marker: str = ""
    dash: str = ""


def entries_of(chart: Chart, style: ChartStyle) -> list[Entry]:
    entries = [entry for group in chart.groups() if (entry := _group_entry(chart, group, style)) is not None]
    if chart.kind == "scale" and len([entry for entry in entries if entry.marker]) == 1:
        entries = []  # the points of the only group are named on the scale
    for mark in chart.marks:
        if mark.label:
            ridge = mark.role == "ridge"
            marker = "o" if ridge and mark.axis == "x" else ""
            entries.append(Entry(mark.label, style.mark_colour(mark), marker, "--" if ridge else ":"))
    return entries


def _group_entry(chart: Chart, group: str, style: ChartStyle) -> Entry | None:
    colour = style.group_colour(group)
    roles = {point.role for point in chart.points if point.group == group}
    point_roles = roles - {"floor", "ridge"}
    if point_roles:
        return Entry(group, colour, MARKER.get(point_roles.pop(), "o") if len(point_roles) == 1 else "o")
    if any(line.group == group and line.role in ("series", "bandwidth", "peak") for line in chart.lines):
        if any(mark.group == group and mark.label for mark in chart.marks):
            return None  # the entry of the mark names the group
        return Entry(group, colour, dash="-")
    if any(bar.group == group for bar in chart.bars):
        return Entry(group, colour, "s")
    return Entry(group, colour, "o") if "ridge" in roles else None
