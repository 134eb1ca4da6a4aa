"""Charts and tables as the page gets them: their documents, with what only Python knows of how they are drawn."""

from __future__ import annotations

from typing import Any

from ....render.chart import Picture, document
from ....render.draw.html.figures import facts
from ....render.draw.themes import colour_roles
from ....render.table import Table


def pictured(picture: Picture) -> dict[str, Any]:
    """The document of a picture; `colours` names the palette role of every group, and each point has its facts as texts."""
    made: dict[str, Any] = {**document(picture), "colours": colour_roles(picture.groups())}
    documents = made.get("charts", [made])
    for chart, shown in zip(picture.charts, documents, strict=True):
        for point, item in zip(chart.points, shown["points"], strict=True):
            item["facts"] = [list(pair) for pair in facts(point.details)]
    return made


def tabled(table: Table) -> dict[str, Any]:
    """A table as people read it: heads, cells, which columns are numbers, notes."""
    return {
        "title": table.title,
        "heads": table.heads,
        "cells": table.cells(),
        "numeric": [table.numeric(index) for index in range(len(table.columns))],
        "notes": list(table.notes),
    }
