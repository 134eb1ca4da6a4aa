"""One self-contained HTML file: the answer, charts as inline SVG, tables, and the data behind them.

Nothing is loaded from elsewhere, and the content is complete without JavaScript: `page.js` sorts and filters tables and
joins the dots of charts with the rows of tables, `page.css` lays the page out for screens and paper.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from ....core.escaping import markup, sound_json
from ....core.files import write_text
from ...chart import Picture, Point, document
from ...table import Column, Table
from ..themes import THEMES, palette_of
from .figures import dots, figure, points_tables, themed
from .tables import key_of, table, titled_table

__all__ = [
    "Card",
    "Page",
    "Section",
    "figure",
    "key_of",
    "page_css",
    "points_tables",
    "render",
    "table",
    "text",
    "themed",
    "variables",
    "write",
]

SUFFIXES = (".html",)


@dataclass(frozen=True)
class Card:
    """A headline with its figure, and the lines below it; a label says what kind of card it is."""

    title: str
    value: str
    lines: Sequence[str] = ()
    label: str = ""


@dataclass(frozen=True)
class Section:
    """A heading, a few words, then cards, pictures and tables; whatever is empty is left out. A folded one opens on a click."""

    title: str
    words: str = ""
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    folded: bool = False
    cards: Sequence[Card] = ()


@dataclass(frozen=True)
class Page:
    """The answer in a line or a few, key figures by their label, then the sections; `document` is the data as JSON."""

    title: str
    sections: Sequence[Section]
    document: Any
    answer: Sequence[str] = ()
    figures: Mapping[str, str] = field(default_factory=dict)


def write(path: str | Path, page: Page, theme: str | None = None) -> Path:
    """Write the page; the file appears complete or not at all."""
    return write_text(path, text(page, theme))


def render(picture: Picture, path: str | Path, theme: str = "light") -> None:
    """The page of one picture: its dots as a table, and all data behind it."""
    Path(path).write_text(text(picture_page(picture), theme), encoding="utf-8")


def picture_page(picture: Picture) -> Page:
    heads, rows = picture.table()
    values = [dict(zip(heads, row, strict=True)) for row in rows]
    note = "Values are in base units: flop, B, s."
    data = Table("", [Column(head) for head in heads], values, (note,))
    sections = [
        Section("", "", [picture], points_tables(picture)),
        Section(f"Data behind the chart ({len(rows)} rows)", tables=[data], folded=True),
    ]
    return Page(picture.title, sections, picture)


def text(page: Page, theme: str | None = None) -> str:
    """The complete document. `light`, the default of every renderer, follows the reader here; `dark` stays dark."""
    palette_of(theme or "light")
    pictures = {
        f"s{place}p{index}-": picture
        for place, section in enumerate(page.sections)
        for index, picture in enumerate(section.pictures)
    }
    points = [point for picture in pictures.values() for chart in picture.charts for point in chart.points]
    body = "\n".join(_section(place, section, points) for place, section in enumerate(page.sections))
    cards = {identity: dot for prefix, picture in pictures.items() for identity, dot in dots(picture, prefix).items()}
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    fixed = ' data-theme="dark"' if theme == "dark" else ""
    drawn = any(picture.title == page.title for picture in pictures.values())
    titled = ' class="titled"' if drawn and not page.answer else ""  # the chart says it
    return f"""<!DOCTYPE html>
<html lang="en"{fixed}>
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{markup(page.title)}</title>
<style>{variables()}{style}</style>
</head>
<body>
<header{titled}><h1>{markup(page.title)}</h1></header>
<main>
{_answer(page)}{body}
</main>
<footer>Made by ridgeline. The data are in this file, as JSON in the element with id "data".</footer>
{_json("dots", cards)}
{_json("data", page.document)}
<script>{script}</script>
</body>
</html>
"""


def variables() -> str:
    """Colours as CSS variables: light, or dark where the reader's system or the button asks for it; paper is light."""
    light, dark = (_colours(name) for name in ("light", "dark"))
    return (
        f":root {{ {light} }} :root[data-theme=dark] {{ {dark} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme=light]) {{ {dark} }} }}\n"
        f"@media print {{ :root:root:root {{ {light} }} }}\n"
    )


def page_css() -> str:
    """The layout of a page, for screens and paper."""
    return _asset("page.css")


def _colours(theme: str) -> str:
    return f"color-scheme: {theme}; " + " ".join(f"--rl-{role}: {value};" for role, value in THEMES[theme].items())


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _answer(page: Page) -> str:
    lines = "".join(f"<p>{markup(line).replace(' %', '&nbsp;%')}</p>" for line in page.answer if line)
    figures = "".join(
        f"<div><dt>{markup(label)}</dt><dd>{markup(value)}</dd></div>" for label, value in page.figures.items()
    )
    answer = f'<div class="answer">{lines}</div>\n' if lines else ""
    return answer + (f'<dl class="figures">{figures}</dl>\n' if figures else "")


def _section(place: int, section: Section, points: Sequence[Point]) -> str:
    lines = [markup(line) for line in section.words.split("\n")]
    kind = ' class="lines"' if len(lines) > 1 else ""  # such as a command
    parts = [f"<p{kind}>{'<br>'.join(lines)}</p>"] if section.words else []
    parts += [f'<ol class="cards">{"".join(map(_card, section.cards))}</ol>'] if section.cards else []
    parts += [figure(picture, f"s{place}p{index}-") for index, picture in enumerate(section.pictures)]
    parts += [titled_table(shown, points) for shown in section.tables]
    if section.folded:
        return "\n".join([f"<details><summary>{markup(section.title)}</summary>", *parts, "</details>"])
    title = [f"<h2>{markup(section.title)}</h2>"] if section.title else []
    return "\n".join(["<section>", *title, *parts, "</section>"])


def _card(card: Card) -> str:
    label = f' <span class="label">{markup(card.label)}</span>' if card.label else ""
    lines = "".join(f"<p>{markup(line).replace(' %', '&nbsp;%')}</p>" for line in card.lines)
    return f"<li><h3>{markup(card.title)}{label}</h3><b>{markup(card.value)}</b>{lines}</li>"


def _json(identity: str, value: Any) -> str:
    """Data as JSON in a script element; `</` cannot close it from inside."""
    words = json.dumps(document(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    words = sound_json(words).replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'<script type="application/json" id="{identity}">{words}</script>'
