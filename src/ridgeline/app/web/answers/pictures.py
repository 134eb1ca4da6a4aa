"""Charts and tables as the page gets them: their documents, with what only Python knows of how they are drawn."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from ....render.chart import LOG, Axis, Picture, document
from ....render.draw.html.figures import facts
from ....render.draw.labels import tick_text, ticks
from ....render.draw.themes import THEMES, ChartStyle, colour_roles, entries_of
from ....render.table import Table

BESIDE = 1.0  # ticks to each side of the range, as a share of those in it


def pictured(picture: Picture) -> dict[str, Any]:
    """The document of a picture; `colours` names the palette role of every group, and each point has its facts as texts."""
    made: dict[str, Any] = {**document(picture), "colours": colour_roles(picture.groups())}
    documents = made.get("charts", [made])
    # colours by their role: the page has the values of both themes
    style = ChartStyle({role: role for role in THEMES["light"]}, picture.groups(), lambda size, weight, text: 0.0)
    for chart, shown in zip(picture.charts, documents, strict=True):
        for name, axis in (("x", chart.x), ("y", chart.y)):
            shown[name]["ticks"] = axis_ticks(axis)
        shown["legend"] = [
            {"text": entry.text, "colour": entry.colour, "marker": entry.marker, "dash": entry.dash, "size": entry.size}
            for entry in entries_of(chart, style)
        ]
        for point, item in zip(chart.points, shown["points"], strict=True):
            item["facts"] = [list(pair) for pair in facts(point.details)]
    return made


@lru_cache(maxsize=256)
def axis_ticks(axis: Axis) -> list[list[Any]]:
    """Values and texts, also of what lies to the sides of the range: the page can be moved there."""
    inside = [value for value, _ in ticks(axis)]
    if len(inside) < 2:
        return [[value, tick_text(value, axis.unit)] for value in inside]
    first, last = inside[0], inside[-1]
    count = math.ceil(len(inside) * BESIDE)
    if axis.scale == LOG:
        step = inside[1] / inside[0]
        more = (
            [first / step**index for index in range(count, 0, -1)],
            [last * step**index for index in range(1, count + 1)],
        )
    else:
        step = inside[1] - inside[0]
        low = [first - step * index for index in range(count, 0, -1)]
        more = (
            [value for value in low if value >= 0 or first < 0],
            [last + step * index for index in range(1, count + 1)],
        )
    return [[value, tick_text(value, axis.unit)] for value in (*more[0], *inside, *more[1])]


def tabled(table: Table) -> dict[str, Any]:
    """A table as people read it: heads, cells, which columns are numbers, notes."""
    return {
        "title": table.title,
        "heads": table.heads,
        "cells": table.cells(),
        "numeric": [table.numeric(index) for index in range(len(table.columns))],
        "notes": list(table.notes),
    }
