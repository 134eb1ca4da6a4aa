"""Rows of the tables that profilers write: numbered, limited in number, and none lost without a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..core.intake import Door, refuse_over
from ..core.observation import Observation
from ..core.tabular import cells
from ..core.units import counted


def numbered(lines: Iterable[str], path: Path, start: int = 1) -> Iterator[tuple[int, str]]:
    """Lines with their numbers."""
    for number, line in enumerate(lines, start):
        refuse_over("rows", number, f"'{path}', line {number:,},")
        yield number, line


def by_column(
    lines: Iterable[tuple[int, str]], names: Sequence[str], sign: str, door: Door
) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a table by column, cells stripped. A row that is cut off lacks its last columns; one with more cells
    than columns is complained of, because each of its cells may be that of another column."""
    for number, line in lines:
        row = [cell.strip() for cell in cells(line, sign)]
        if any(row[len(names) :]):
            text = f"has {len(row)} cells where the header has {len(names)}; quote cells that hold a '{sign}'"
            door.complain(f"line {number}", text)
        elif any(row):
            yield number, dict(zip(names, row, strict=False))


def with_note_of_omitted(items: list[Observation], omitted: Sequence[int], why: str) -> list[Observation]:
    """The first observation says which rows were not used, and why."""
    if items and omitted:
        note = f"{counted(len(omitted), 'row')} omitted, {why} (line {omitted[0]}{' and others' if len(omitted) > 1 else ''})"
        items[0] = replace(items[0], notes=(*items[0].notes, note))
    return items
