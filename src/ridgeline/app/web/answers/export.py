"""What is shown, as a file: the pictures of `render.draw`, the table as CSV, the data as JSON, or one page with all of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from ....core.errors import InputError
from ....core.escaping import sound_json
from ....render.chart import Picture, document
from ....render.draw import files
from ....render.draw.html import Page, Section
from ....render.draw.html import text as page_text
from ....render.table import Table

TYPES = {
    "png": "image/png", "svg": "image/svg+xml", "csv": "text/csv; charset=utf-8", "json": "application/json",
    "html": "text/html; charset=utf-8",
}  # fmt: skip
DRAWN = ("png", "svg")
_drawing = Lock()  # matplotlib draws in one thread at a time


@dataclass(frozen=True)
class Sheet:
    """What a view shows: its title, the lines of the answer, pictures, tables, and the data behind them."""

    title: str
    answer: Sequence[str]
    pictures: Sequence[Picture]
    tables: Sequence[Table]
    document: Any


def exported(sheet: Sheet, form: str, theme: str = "light") -> bytes:
    """The content of a file: of the first picture (png, svg), the first table (csv), the data (json) or all of it (html)."""
    if form in DRAWN:
        if not sheet.pictures:
            raise InputError("there is no chart to save; csv, json and html have the table")
        return _drawn(sheet.pictures[0], form, theme)
    if form == "csv":
        if not sheet.tables:
            raise InputError("there is no table to save; add an op first")
        return sheet.tables[0].csv().encode()
    if form == "json":
        return (sound_json(json.dumps(document(sheet.document), indent=1, allow_nan=False)) + "\n").encode()
    section = Section("", "", sheet.pictures, sheet.tables)
    with _drawing:
        return page_text(Page(sheet.title, [section], sheet.document, sheet.answer), theme).encode()


def _drawn(picture: Picture, form: str, theme: str) -> bytes:
    """As `--out` writes it; the file exists only while it is read."""
    with _drawing, TemporaryDirectory(prefix="ridgeline-") as folder:
        return files.save(picture, Path(folder) / f"chart.{form}", theme).read_bytes()
