"""A table as columns: lists of cells by name, all of one length, tidied when they come in."""

from __future__ import annotations

import gc
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import chain
from typing import Any, Final

from .errors import InputError
from .intake.door import MAX_NUMBER, Door, at
from .intake.limits import refuse_over
from .intake.text import clean
from .units import MAX_EXACT

Row = dict[str, Any]  # the values of a row of a table, by column
BLOCK = 1 << 16  # rows that are worked on at a time


class _Absent:
    """A cell that a row does not have, as a row of JSON may leave out a column."""

    def __repr__(self) -> str:
        return ""


ABSENT: Final = _Absent()


class Columns:
    """Cells by column, in lists or, where they are computed, in arrays. `first` is how many rows come before."""

    def __init__(self, cells: dict[str, Any], count: int, first: int = 0) -> None:
        self.cells, self.count, self.first = cells, count, first

    @classmethod
    def of_rows(cls, rows: Iterable[Mapping[str, Any]]) -> Columns:
        listed = list(rows)
        return cls({name: [row.get(name, ABSENT) for row in listed] for name in columns(listed)}, len(listed))

    def __len__(self) -> int:
        return self.count

    def part(self, start: int, stop: int) -> Columns:
        stop = min(stop, self.count)
        return Columns({name: column[start:stop] for name, column in self.cells.items()}, stop - start, start)

    def blocks(self, size: int = BLOCK) -> Iterator[Columns]:
        for start in range(0, self.count, size):
            yield self.part(start, start + size)

    def rows(self) -> list[Row]:
        names = list(self.cells)
        if not names:
            return [{} for _ in range(self.count)]
        lists = list(map(listed, self.cells.values()))
        rows = [dict(zip(names, cells, strict=True)) for cells in zip(*lists, strict=True)]
        if any(ABSENT in column for column in lists):
            return [{name: cell for name, cell in row.items() if cell is not ABSENT} for row in rows]
        return rows


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the collector of cycles: cells are in none, and it goes through all of them again and again."""
    active = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if active:
            gc.enable()


def listed(column: Any) -> list[Any]:
    """The cells of a column as plain Python values; of an array whole floats become integers."""
    if isinstance(column, list):
        return column
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f":
        integral = is_integral(column)
        if integral.all():
            values = column.astype("int64").tolist()
        else:
            for place in integral.nonzero()[0].tolist():
                values[place] = int(values[place])
    return values


def is_integral(column: Any) -> Any:
    """Which floats of an array are whole numbers that float64 tells apart."""
    import numpy as np

    return (np.floor(column) == column) & (np.abs(column) < MAX_EXACT)


def columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every column of the rows, in the order they first come."""
    return list(dict.fromkeys(chain.from_iterable(rows)))


def refuse_repeated(names: Sequence[str], where: str) -> None:
    """Refuses a header in which a column comes twice: one of the two would be lost."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        column = f"the column {repeated[0]}" if repeated[0] else "a column without a name"
        raise InputError(f"{where} has {column} more than once; keep one, or give them names of their own")


def of_documents(rows: Sequence[Mapping[str, Any]], where: str) -> Columns:
    """The rows of a document as columns, tidied."""
    names = columns(rows)
    refuse_over("cells", len(names) * len(rows), f"{where} with {len(rows):,} rows of {len(names):,} columns")
    door = Door(where)
    tidy: dict[str, list[Any]] = {}
    for name in names:
        tidy[clean(name)] = tidied([row.get(name, ABSENT) for row in rows], name, door)
    if len(tidy) < len(names):
        door.complain("", "two columns have the same name but for unprintable characters; rename one")
    door.close()
    return Columns(tidy, len(rows))


def tidied(cells: list[Any], name: str, door: Door) -> list[Any]:
    """The cells of a column as they may be kept: texts clean, numbers finite (NaN is nothing), tables not too deep."""
    kinds = set(map(type, cells))
    if kinds <= {str, type(None), _Absent}:
        texts = {cell: clean(cell) if isinstance(cell, str) else cell for cell in set(cells)}
        return list(map(texts.__getitem__, cells))
    if kinds <= {int, bool, type(None), _Absent}:
        return cells
    return [_tidied(cell, row, name, door) for row, cell in enumerate(cells, 1)]


def _tidied(cell: Any, row: int, name: str, door: Door) -> Any:
    if cell is ABSENT:
        return cell
    if isinstance(cell, Decimal):
        cell = float(cell) if abs(cell.adjusted()) < 300 else math.inf
    if isinstance(cell, float):
        if cell != cell:
            return None
        if not abs(cell) < MAX_NUMBER:
            door.complain(at(row, name), f"is {cell}; numbers are finite and below {MAX_NUMBER:g}")
        return cell
    if isinstance(cell, str):
        return clean(cell)
    if isinstance(cell, int):  # of any size: whoever reads it has a range
        return cell
    if hasattr(cell, "isoformat") or type(cell).__name__ in ("timedelta", "UUID"):
        return str(cell)
    return door.plain(cell, at(row, name))
