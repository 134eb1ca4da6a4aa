"""The report: one offline HTML file with charts, tables and the raw data inside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...core.files import write_text
from ..chart import Picture
from ..table import Table
from . import html


@dataclass(frozen=True)
class Section:
    """A heading, a few words, then pictures and tables; whatever is empty is left out."""

    title: str
    words: str = ""
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


def _table(table: Table) -> str:
    title = f"<h3>{escape(table.title)}</h3>" if table.title else ""
    notes = "".join(f"<p class='note'>{escape(note)}</p>" for note in table.notes)
    return title + html.table([column.head for column in table.columns], table.cells()) + notes


def page(title: str, sections: Sequence[Section], data: Any, theme: str | None = None) -> str:
    parts = [f"<h1>{escape(title)}</h1>"]
    for number, section in enumerate(sections):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        if section.words:
            parts.append(f"<p>{escape(section.words)}</p>")
        parts += [html.figure(picture, f"s{number}p{index}-") for index, picture in enumerate(section.pictures)]
        parts += [_table(table) for table in section.tables]
    parts.append(html.data(data))
    parts.append(
        "<footer>Made by ridgeline. The raw data are in this file, as JSON in the element with id data.</footer>"
    )
    return html.page(title, "\n".join(parts), theme)


def write(path: Path, title: str, sections: Sequence[Section], data: Any, theme: str | None = None) -> Path:
    return write_text(path, page(title, sections, data, theme))
