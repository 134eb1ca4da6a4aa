"""One self-contained HTML file: the picture as inline SVG that follows the reader's light or dark setting, its table, its data.

Nothing is loaded from elsewhere: no script runs, no font or style is fetched. `write` makes a longer report of sections.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from ...core.files import write_text
from ..chart import Picture, document
from ..table import Table
from . import mpl
from .themes import THEMES, palette_of

SUFFIXES = (".html",)
MAX_UNBROKEN_CELL = 32  # characters; a longer cell is broken into lines

STYLE = """
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 3rem; background: var(--rl-background); color: var(--rl-ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
figure { margin: 0 0 1.5rem; } figure svg { display: block; width: 100%; height: auto; max-width: 76rem; }
details { margin: 1rem 0; } summary { cursor: pointer; font-weight: 600; padding: .3rem 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid var(--rl-grid); text-align: left; white-space: nowrap; }
th { color: var(--rl-muted); font-weight: 600; } td.n { text-align: right; }
td.long { white-space: normal; min-width: 14rem; }
footer { color: var(--rl-muted); font-size: 13px; }
"""


def variables(theme: str | None = None) -> str:
    """Colours as CSS variables: one theme, or light with dark where the reader's system asks for it."""
    if theme is None:
        return f"{variables('light')}\n@media (prefers-color-scheme: dark) {{ {variables('dark')} }}"
    colours = " ".join(f"--rl-{role}: {value};" for role, value in THEMES[theme].items())
    return f":root {{ color-scheme: {theme}; {colours} }}"


def themed(svg: str) -> str:
    """SVG drawn in the light theme with its colours turned into the page's variables."""
    variables = {value: f"var(--rl-{role})" for role, value in palette_of("light").items()}
    body = svg[svg.index("<svg") :]
    return re.sub(r"#[0-9a-f]{6}\b", lambda colour: variables.get(colour[0], colour[0]), body)


def figure(picture: Picture, prefix: str = "") -> str:
    """The picture as a <figure> for a page that carries `variables`."""
    return f'<figure class="ridgeline">\n{themed(mpl.svg(picture, "light", prefix))}</figure>'


def table(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = "\n".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f'<td class="n">{value:.6g}</td>'
    text = str(value)
    return f"<td{' class=long' if len(text) > MAX_UNBROKEN_CELL else ''}>{escape(text)}</td>"


def data(document: Any, identity: str = "data") -> str:
    """A document as JSON in a script element; `</` cannot close it from inside."""
    words = json.dumps(document, allow_nan=False, ensure_ascii=False)
    words = words.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" id="{escape(identity)}">{words}</script>'


def page(title: str, body: str, theme: str | None = None) -> str:
    """A complete document around a body; a theme fixes the colours, None follows the reader."""
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{variables(theme)}{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def render(picture: Picture, path: str | Path, theme: str = "light") -> None:
    """Write the page. `light`, the default of every renderer, follows the reader on a page; `dark` stays dark."""
    palette_of(theme)
    columns, rows = picture.table()
    parts = [
        figure(picture),
        f"<details><summary>The data behind the picture ({len(rows)} rows)</summary>{table(columns, rows)}</details>",
        data(document(picture)),
        "<footer>Drawn by ridgeline. Values are in base units: flop, B, s.</footer>",
    ]
    Path(path).write_text(page(picture.title, "\n".join(parts), "dark" if theme == "dark" else None), encoding="utf-8")


@dataclass(frozen=True)
class Section:
    """A heading, a few words, then pictures and tables; whatever is empty is left out."""

    title: str
    words: str = ""
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


def _titled_table(shown: Table) -> str:
    title = f"<h3>{escape(shown.title)}</h3>" if shown.title else ""
    notes = "".join(f"<p class='note'>{escape(note)}</p>" for note in shown.notes)
    return title + table(shown.heads, shown.cells()) + notes


def write(path: Path, title: str, sections: Sequence[Section], document: Any, theme: str | None = None) -> Path:
    """A report: charts and tables by section, and the raw data."""
    parts = [f"<h1>{escape(title)}</h1>"]
    for number, section in enumerate(sections):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        if section.words:
            parts.append(f"<p>{escape(section.words)}</p>")
        parts += [figure(picture, f"s{number}p{index}-") for index, picture in enumerate(section.pictures)]
        parts += [_titled_table(shown) for shown in section.tables]
    footer = "<footer>Made by ridgeline. The raw data are in this file, as JSON in the element with id data.</footer>"
    return write_text(path, page(title, "\n".join([*parts, data(document), footer]), theme))
