"""Colours of the light and the dark theme, the colour and id of each item of a chart, and its legend."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...core.cached import cached_property
from ...core.errors import unknown
from ...core.units import percent
from ..chart import Chart, Mark, Point

# After Okabe and Ito's set, darkened or lightened until text in each colour has 4.5 to 1 against every ground; each colour is used once in a theme.
THEMES: dict[str, dict[str, str]] = {
    "light": {
        "background": "#ffffff", "ink": "#1a1f27", "muted": "#59616d", "grid": "#e3e6ea", "frame": "#9aa1ab",
        "memory": "#e8f1f8", "compute": "#fdf1e3", "overhead": "#f1eef4", "ridge": "#5f1a96",
        "c0": "#0068bd", "c1": "#b74b00", "c2": "#007a52", "c3": "#bd3096", "c4": "#5f4a00", "c5": "#15406b", "c6": "#656a6e",
    },
    "dark": {
        "background": "#14181f", "ink": "#e8ebf0", "muted": "#a3acb9", "grid": "#2a313b", "frame": "#5d6774",
        "memory": "#182736", "compute": "#2c241b", "overhead": "#26222e", "ridge": "#c79be8",
        "c0": "#5cb8f2", "c1": "#ff9150", "c2": "#3fcfa2", "c3": "#e593c6", "c4": "#f0c14b", "c5": "#9fd3ff", "c6": "#b4bac4",
    },
}  # fmt: skip
GROUP_COLOURS = tuple(f"c{index}" for index in range(7))
FREE_COLOURS = ("c2", "c3", "c5", "c4", "c6", "c1", "c0")  # blue and orange last: they mean memory and compute
# What a group means decides its colour on every chart: blue is memory, orange is compute, grey is overhead.
FIXED_COLOURS = {
    "memory-bound": "c0", "compute-bound": "c1", "overhead-bound": "c6", "latency-bound": "c3", "balanced": "ridge", "link-bound": "c2",
    **dict.fromkeys(("hbm", "ddr", "gddr", "lpddr", "dram", "memory"), "c0"),
    **dict.fromkeys(("l3", "cmem", "sram"), "c4"), "l2": "c2", **dict.fromkeys(("l1", "sbuf", "vmem"), "c5"),
    "shared": "c3", "registers": "c6", "nvlink": "c2", "pcie": "c4", "nic": "c3",
    **dict.fromkeys(("tensor", "matrix", "peak"), "c1"), "vector": "c4", "special": "c3", "tensor-sparse": "c3",
    "fp64": "c6", "fp32": "c4", "tf32": "c2", "bf16": "c1", "fp16": "ridge", **dict.fromkeys(("fp8", "mxfp8"), "c3"),
    "mxfp6": "c2", **dict.fromkeys(("mxfp4", "nvfp4"), "ridge"), "int8": "c5", "int4": "c0",
    "predicted": "c6", "measured": "c2", "stated": "c6",
    "floor": "c6", "loss": "c3", "unexplained": "c4",
    "parameter": "c0", "input": "c5", "activation": "c2", "gradient": "c3", "state": "c4", "temporary": "c6", "capacity": "ridge",
    "device-bound": "c1", "host-bound": "c6",
}  # fmt: skip

MARKER = {"expected": "o", "overhead": "s", "floor": "_", "observed": "D", "target": "o", "ridge": "o", "value": "o"}
TITLE_SIZE, HEAD_SIZE, BODY_SIZE, SMALL_SIZE = 14.0, 11.0, 9.5, 9.0  # points
MIN_DOT_RADIUS, MAX_DOT_RADIUS = 3.2, 17.0  # of a dot whose area is its share of the time, at 0 and at 100 %
KEY_SHARES = (0.5, 0.1, 0.02)

Measure = Callable[[float, str, str], float]  # size and weight of a text, and the text -> its width in points


def palette_of(name: str) -> dict[str, str]:
    if name not in THEMES:
        raise unknown("theme", name, THEMES)
    return THEMES[name]


def colour_roles(groups: Sequence[str]) -> dict[str, str]:
    """The palette role of every group: fixed where its name has a meaning, else the free colours in order of appearance."""
    fixed = {group: FIXED_COLOURS[group.lower()] for group in groups if group.lower() in FIXED_COLOURS}
    free = [role for role in FREE_COLOURS if role not in fixed.values()] or list(FREE_COLOURS)
    others = [group for group in groups if group not in fixed]
    return fixed | {group: free[index % len(free)] for index, group in enumerate(others)}


def dot_radius(share: float) -> float:
    """The area of a dot is its share of the time."""
    return max(MIN_DOT_RADIUS, MAX_DOT_RADIUS * math.sqrt(min(share, 1.0)))


@dataclass(frozen=True)
class ChartStyle:
    """Colours, ids and text widths for chart `number` of a picture; `groups` are those of all its charts."""

    palette: dict[str, str]
    groups: list[str]
    measure: Measure
    number: int = 0
    prefix: str = ""
    alone: bool = True  # whether the picture is this chart and nothing else

    @cached_property
    def roles(self) -> dict[str, str]:
        return colour_roles(self.groups)

    def gid(self, kind: str, index: int | str = "") -> str:
        """The id of an element of this chart."""
        return f"{self.prefix}c{self.number}-{kind}" + (f"-{index}" if index != "" else "")

    def group_colour(self, group: str, otherwise: str = "ink") -> str:
        return self.palette[self.roles.get(group, otherwise)]

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
    size: float = 7.0


def entries_of(chart: Chart, style: ChartStyle) -> list[Entry]:
    entries = [entry for group in chart.groups() if (entry := _group_entry(chart, group, style)) is not None]
    if chart.kind == "scale" and len([entry for entry in entries if entry.marker]) == 1:
        entries = []  # the points of the only group are named on the scale
    for mark in chart.marks:
        if mark.label and mark.role != "ridge":
            entries.append(Entry(mark.label, style.mark_colour(mark), dash=":"))
    if chart.look == "pyramid":
        return []  # every step has its name inside
    if any(point.share is not None for point in chart.points):
        entries += [
            Entry(f"{percent(share)} of the time", style.palette["muted"], "o", size=2 * dot_radius(share))
            for share in KEY_SHARES
        ]
    return entries


def _group_entry(chart: Chart, group: str, style: ChartStyle) -> Entry | None:
    """None for a group whose lines are named where they are drawn."""
    colour = style.group_colour(group)
    points = [
        point for point in chart.points if point.group == group and point.role not in ("floor", "ridge", "sample")
    ]
    roles = {point.role for point in points}
    if points:
        if chart.kind in NAMED_POINTS and all(point.label for point in points):
            return None
        dots = len(roles) > 1 or any(point.share is not None for point in points)
        return Entry(group, colour, "o" if dots else MARKER.get(roles.pop(), "o"))
    lines = [line for line in chart.lines if line.group == group and line.role in ("series", "bandwidth", "peak")]
    if lines and not any(line.label for line in lines):
        return Entry(group, colour, dash="-")
    if any(line.group == group and line.role == "area" for line in chart.lines):
        return Entry(group, colour, "s")
    return Entry(group, colour, "s") if any(bar.group == group for bar in chart.bars) else None


NAMED_POINTS = ("levels", "precisions", "anatomy", "compare")  # charts whose points carry the name of their group
