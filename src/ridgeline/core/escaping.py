"""Text in the media that ridgeline writes, where it stays text whatever it says: one function for each medium.

Terminals get what `clean` leaves; csv has `intake.text.guarded`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from .intake.text import BAD, clean

_SURROGATES = re.compile("[\ud800-\udfff]")
# In JSON text: a backslash itself and pairs are kept, a half of a pair is not.
_JSON_SURROGATES = re.compile(r"(\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\ud[89a-f][0-9a-f]{2}")
# What begins an element, a link's address, its definition, or a character by its number.
_MARKDOWN = (
    (re.compile(r"&(?=#?\w)"), "&amp;"),
    (re.compile(r"<(?=[A-Za-z/!?])"), "&lt;"),
    (re.compile(r"\](?=[(:\[])"), "]\\\\"),
)
_CELL = re.compile(r"[\\|`*]")
_BLOCK = re.compile(r"\s*(?:[#>]|[-=~_*`]{3})")  # a heading, a quotation, a rule, a block of code


def markup(text: str) -> str:
    """For HTML and SVG, in elements and in attributes."""
    return escape(clean(text))


def encodable(text: str) -> str:
    """Without halves of surrogate pairs, which no encoding has."""
    return text if text.isascii() else _SURROGATES.sub(BAD, text)


def sound_json(text: str) -> str:
    """JSON without halves of surrogate pairs, written or escaped: other readers than Python refuse them."""
    if "\\ud" in text:
        text = _JSON_SURROGATES.sub(lambda match: match[1] or "\\ufffd", text)
    return encodable(text)


def markdown_line(text: str) -> str:
    """A paragraph of markdown: no elements, links and headings of the text's own; code in backquotes stays."""
    line = _inline(text).lstrip()
    return f"\\{line}" if _BLOCK.match(line) else line


def markdown_cell(text: str) -> str:
    """A cell of a markdown table, which is text only."""
    return _inline(_CELL.sub(r"\\\g<0>", clean(text)))


def _inline(text: str) -> str:
    text = clean(text)
    for pattern, form in _MARKDOWN:
        text = pattern.sub(form, text)
    return text


def markdown_table(heads: Sequence[str], rows: Iterable[Iterable[str]], flush_right: Iterable[bool] = ()) -> list[str]:
    """The lines of a markdown table."""
    marks = ["---:" if right else "---" for right in flush_right] or ["---"] * len(heads)
    escaped = [[markdown_cell(text) for text in row] for row in [heads, *rows]]
    return ["| " + " | ".join(row) + " |" for row in [escaped[0], marks, *escaped[1:]]]
