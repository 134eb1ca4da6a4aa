"""Rows of the tables that profilers write: numbered, limited in number, and none lost without a word."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ..core.intake import Door, limit
from ..core.intake.limits import over
from ..core.observation import Observation
from ..core.tabular import cells
from ..core.units import counted

Rows = Iterator[tuple[int, dict[str, str]]]  # the number of the line, and its cells by column


def numbered(lines: Iterable[str], path: Path, start: int = 1) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers."""
    most = limit("rows")
    for number, line in enumerate(lines, start):
        if number > most:
            raise over("rows", f"'{path}', line {number:,},")
        if not line.isspace():
            yield number, line


def by_column(lines: Iterable[tuple[int, str]], names: Sequence[str], sign: str, door: Door) -> Rows:
    """The rows of a table by column, cells stripped. A row that is cut off lacks its last columns; one with more cells
    than columns is complained of, because each of its cells may be that of another column."""
    for number, line in lines:
        row = [cell.strip() for cell in cells(line, sign)]
        if any(row[len(names) :]):
            text = f"has {len(row)} cells where the header has {len(names)}; quote cells that hold a '{sign}'"
            door.complain(f"line {number}", text)
        elif any(row):
            yield number, dict(zip(names, row, strict=False))


T = TypeVar("T")


def held(items: Iterable[T], path: Path) -> Iterator[T]:
    """Kernels as they are read, no more of them than are accepted."""
    most = limit("kernels")
    for number, item in enumerate(items, 1):
        if number > most:
            raise over("kernels", f"'{path}', kernel {number:,},")
        yield item


@dataclass
class Omitted:
    """The rows of a table that were not used; the first observation says so."""

    why: str
    first: int = 0
    count: int = 0

    def add(self, line: int) -> None:
        self.first = min(self.first or line, line)
        self.count += 1

    def noted(self, items: list[Observation]) -> list[Observation]:
        if items and self.count:
            others = " and others" if self.count > 1 else ""
            note = f"{counted(self.count, 'row')} omitted, {self.why} (line {self.first}{others})"
            items[0] = replace(items[0], notes=(*items[0].notes, note))
        return items


def timed(items: Iterable[tuple[int, Observation | None]], omitted: Omitted) -> Iterator[Observation]:
    """The observations that rows gave; rows that gave none are omitted."""
    for line, item in items:
        if item is None:
            omitted.add(line)
        else:
            yield item
