"""The data behind a chart as .json (the document), .csv and .md (its table)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...core.escaping import markdown_line, markdown_table, sound_json
from ..chart import Picture, document
from ..table import csv_text


def _json(picture: Picture) -> str:
    return sound_json(json.dumps(document(picture), indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def _markdown(picture: Picture) -> str:
    columns, rows = picture.table()
    lines = [f"# {markdown_line(picture.title)}", ""]
    lines += [markdown_line(picture.subtitle), ""] if picture.subtitle else []
    lines += markdown_table(columns, (map(_text, row) for row in rows))
    notes = [*picture.notes, *(note for chart in picture.charts if chart is not picture for note in chart.notes)]
    lines += ["", *(f"- {markdown_line(note)}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


_WRITERS: dict[str, Callable[[Picture], str]] = {
    ".json": _json,
    ".csv": lambda picture: csv_text(*picture.table()),
    ".md": _markdown,
}
SUFFIXES = tuple(_WRITERS)


def render(picture: Picture, path: str | Path, theme: str = "light") -> None:
    """Write the data by suffix; they look the same in every theme."""
    text = _WRITERS[Path(path).suffix.lower()](picture)
    Path(path).write_text(text, encoding="utf-8", newline="")
