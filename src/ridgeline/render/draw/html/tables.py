"""Tables as HTML: numbers flush right, each with the value it sorts by; each row with the key of its dot on a chart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from ....core.escaping import markup
from ....core.units import BINARY, DECIMAL, FRACTIONS, SYMBOLS
from ...chart import Point
from ...table import ROW_KEY, Table

MAX_UNBROKEN_CELL = 32  # characters; a longer cell is broken into lines
MAX_PRINTED_CELL = 60  # characters; of a longer cell a printed page has three lines
MAX_FLAT_ROWS = 14  # a longer table scrolls in its own box
MAX_NOTES = 4  # more are folded
UNKNOWN = ("", "-")
# `74.1 ms`, `-5 %`, `1,024`, `3.4x`, `70.2 ms [64-77]`
QUANTITY = re.compile(r"[~<>±]?\s?([-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)\s?([^\s\d\[(]{0,8})(?:\s?[\[(].*[\])])?")
PREFIXES = {**DECIMAL, **BINARY, **FRACTIONS}


def table(heads: Iterable[str], rows: Iterable[Iterable[Any]], keys: Iterable[str] = ()) -> str:
    """Heads and cells; a column is flush right where all its cells are quantities. `keys` are those of the rows."""
    titles = [str(head) for head in heads]
    listed = [list(row) for row in rows]
    numeric = [_numeric([row[index] for row in listed]) for index in range(len(titles))]
    head = "".join(
        f'<th scope="col"{_class("n" if number else "")}>{markup(title).replace(" %", "&nbsp;%")}</th>'
        for title, number in zip(titles, numeric, strict=True)
    )
    body = "\n".join(_row(row, numeric, key or "") for row, key in zip_longest(listed, list(keys)[: len(listed)]))
    box = "scroll tall" if len(listed) > MAX_FLAT_ROWS else "scroll"
    shown = f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"
    return f'<div class="{box}" tabindex="0">{shown}</div>'


def titled_table(shown: Table, points: Sequence[Point] = ()) -> str:
    """A table under its title, with its notes; columns without a value are left out.

    Rows that belong to one of the points carry its key.
    """
    title = f"<h3>{markup(shown.title[:1].upper() + shown.title[1:])}</h3>" if shown.title else ""
    if not shown.rows:
        return title + notes(shown.notes)
    filled = [column for column in shown.columns if any(row.get(column.key) is not None for row in shown.rows)]
    keys, shown = _keys(shown, points), replace(shown, columns=filled or shown.columns)
    return title + table(shown.heads, _cells(shown), keys) + notes(shown.notes)


def notes(texts: Sequence[str]) -> str:
    """Paragraphs; many are folded under their count."""
    body = "".join(f'<p class="note">{markup(text)}</p>' for text in texts)
    folded = f'<details class="notes"><summary>{len(texts)} notes</summary>{body}</details>'
    return folded if len(texts) > MAX_NOTES else body


def key_of(point: Point) -> str:
    return point.key or point.name or point.label


def _keys(shown: Table, points: Sequence[Point]) -> list[str]:
    """The key of each row: the one it carries, its name or, without names, that of the point with its intensity and time."""
    places = {_place(point.x, point.details.get("time_us")): key_of(point) for point in points}
    first = shown.columns[0].key if shown.columns else ""
    keys = []
    for row in shown.rows:
        name = str(row.get(ROW_KEY) or row.get("name") or row.get(first) or "")
        named = ROW_KEY in row or "name" in row
        keys.append(name if named else places.get(_place(row.get("intensity"), row.get("time_us")), name))
    return keys


def _place(intensity: Any, time_us: Any) -> tuple[str, str] | None:
    if isinstance(intensity, int | float) and isinstance(time_us, int | float):
        return f"{intensity:.6g}", f"{time_us:.6g}"
    return None


def _cells(shown: Table) -> list[list[Any]]:
    """Texts with the numbers behind them: a cell is (text, number) where its row has a number."""
    texts = shown.cells()
    values = [[row.get(column.key) for column in shown.columns] for row in shown.rows]
    return [
        [(text, value) if _is_number(value) else text for text, value in zip(cells, numbers, strict=True)]
        for cells, numbers in zip(texts, values, strict=True)
    ]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(cell: Any) -> str:
    if isinstance(cell, tuple):
        return str(cell[0])
    if cell is None:
        return ""
    return f"{cell:.6g}" if _is_number(cell) else str(cell)


def _numeric(cells: Sequence[Any]) -> bool:
    known = [cell for cell in cells if _text(cell) not in UNKNOWN]
    return bool(known) and all(sort_value(cell) is not None for cell in known)


def sort_value(cell: Any) -> float | None:
    """The number of a cell in base units; None for words."""
    if isinstance(cell, tuple):
        return float(cell[1])
    if _is_number(cell):
        return float(cell)
    match = QUANTITY.fullmatch(str(cell).strip())
    return float(match[1].replace(",", "")) * _factor(match[2]) if match else None


def _factor(unit: str) -> float:
    """What the prefix of a unit multiplies by: 1e-3 of `ms`; 1 of `%` and of what is no unit."""
    for symbol in sorted(SYMBOLS, key=len, reverse=True):
        if unit.endswith(symbol):
            return PREFIXES.get(unit.removesuffix(symbol), 1.0)
    return 1.0


def _class(*names: str) -> str:
    used = " ".join(name for name in names if name)
    return f' class="{used}"' if used else ""


def _row(cells: Sequence[Any], numeric: Sequence[bool], key: str) -> str:
    parts = []
    for index, (cell, number) in enumerate(zip(cells, numeric, strict=True)):
        text, value = _text(cell), sort_value(cell) if number else None
        tag = "td" if index else 'th scope="row"'
        look = _class("n" if number else "long" if len(text) > MAX_UNBROKEN_CELL else "")
        sorts = "" if value is None or text in UNKNOWN else f' data-value="{value:.9g}"'
        # what a printed row shows the first lines of
        shown = f"<span>{markup(text)}</span>" if index and len(text) > MAX_PRINTED_CELL else markup(text)
        parts.append(f"<{tag}{look}{sorts}>{shown}</{tag[:2]}>")
    marked = f' data-key="{markup(key)}"' if key else ""
    return f"<tr{marked}>{''.join(parts)}</tr>"
