"""The legend of a chart: its groups and its reference lines."""

from __future__ import annotations

from dataclasses import dataclass

from ..chart import Chart
from .themes import ChartStyle

MARKER = {"expected": "o", "overhead": "s", "floor": "_", "observed": "D", "target": "o", "ridge": "o", "value": "o"}


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
