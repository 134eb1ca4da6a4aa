"""Table: rows under titled columns with units, neutral and JSON-able; as plain text, markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.escaping import markdown_line, markdown_table
from ..core.intake.text import clean, guarded
from ..core.units import percent as percent_text
from ..core.units import rounded_text, show, time_unit


@dataclass(frozen=True)
class Column:
    """One column. Times (unit `s`) share one unit, which the head carries; `factor` makes seconds of the values."""

    key: str
    title: str = ""
    unit: str = ""
    digits: int = 3
    binary: bool = False
    percent: bool = False
    factor: float = 1.0

    @property
    def head(self) -> str:
        return self.title or self.key

    def cell(self, value: Any, unit: str | None = None) -> str:
        """A value as people read it; what is not known is `-`."""
        if value is None:
            return "-"
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, int | float):
            if self.percent:
                return percent_text(value, self.digits)
            return show(value, unit or self.unit, self.digits, self.binary)
        return clean(str(value))


def columns(*given: str | Column) -> tuple[Column, ...]:
    """Columns in order; a bare key needs no more than its name."""
    return tuple(Column(each) if isinstance(each, str) else each for each in given)


def percent(key: str, title: str = "", digits: int = 3) -> Column:
    return Column(key, title, digits=digits, percent=True)


def microseconds(key: str, title: str) -> Column:
    """A time that its rows carry in microseconds, shown in the unit of its column."""
    return Column(key, title, "s", factor=1e-6)


ROW_KEY = ":key"  # under which a row may carry the key of its dot, where its name is not unique or not that of the dot


def dot_key(phase: str, op: str) -> str:
    """What joins a dot with its row where both phases of a model have ops of one name."""
    return f"{phase}: {op}"


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]
    notes: tuple[str, ...] = ()
    headed: bool = True  # whether text shows the heads of the columns
    DOCUMENT: ClassVar = ("title", "rows=records", "notes")

    def cells(self) -> list[list[str]]:
        # a row may carry another unit for a column (OP/s and FLOP/s) under "<key>:unit"
        units = self._time_units()
        return [
            [
                _in_unit(column, row[column.key], *units[column.key])
                if column.key in units and _is_number(row.get(column.key))
                else column.cell(row.get(column.key), row.get(f"{column.key}:unit"))
                for column in self.columns
            ]
            for row in self.rows
        ]

    @property
    def heads(self) -> list[str]:
        """Titles of the columns; those of times end in their unit."""
        units = self._time_units()
        return [
            clean(f"{column.head} {units[column.key][1]}" if column.key in units else column.head)
            for column in self.columns
        ]

    def _time_units(self) -> dict[str, tuple[float, str]]:
        """The unit of every column of times that has a value."""
        units: dict[str, tuple[float, str]] = {}
        for column in self.columns:
            if column.unit != "s":
                continue
            values = [row.get(column.key) for row in self.rows]
            times = [float(value) * column.factor for value in values if value is not None and _is_number(value)]
            if times:
                units[column.key] = time_unit(times)
        return units

    def numeric(self, index: int) -> bool:
        """Whether a column is set flush right: it holds numbers and nothing else."""
        values = [row.get(self.columns[index].key) for row in self.rows]
        return all(value is None or _is_number(value) for value in values)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows as outsiders read them: plain values under the keys of the columns."""
        return [{column.key: row.get(column.key) for column in self.columns} for row in self.rows]

    def text(self) -> str:
        """Aligned columns without frames, for pipes and files."""
        cells, heads = self.cells(), self.heads
        shown = [heads, *cells] if self.headed else cells
        widths = [max(map(width_of, column)) for column in zip(*shown, strict=True)]
        right = [self.numeric(index) for index in range(len(heads))]
        lines = [clean(self.title)] if self.title else []
        for row in shown:
            line = "  ".join(padded(text, width, flush) for text, width, flush in zip(row, widths, right, strict=True))
            lines.append(line.rstrip())
        return "\n".join([*lines, *map(clean, self.notes)])

    def markdown(self) -> str:
        right = [self.numeric(index) for index in range(len(self.columns))]
        lines = [f"## {markdown_line(self.title)}", ""] if self.title else []
        lines += markdown_table(self.heads, self.cells(), right)
        return "\n".join([*lines, *(["", *map(markdown_line, self.notes)] if self.notes else [])]) + "\n"

    def csv(self) -> str:
        """Plain values in base units, one header row."""
        return csv_text([column.key for column in self.columns], (record.values() for record in self.records))


def width_of(text: str) -> int:
    """Columns of a terminal that a text takes: two for a character of Chinese, Japanese or Korean, none for an accent."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def padded(text: str, width: int, right: bool) -> str:
    blanks = " " * (width - width_of(text))
    return blanks + text if right else text + blanks


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_unit(column: Column, value: float, factor: float, unit: str) -> str:
    """A time in the unit of its column, which the head names."""
    return rounded_text(value * column.factor / factor, column.digits) if math.isfinite(value) else show(value)


def csv_text(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A header row, then the rows; what is not known is empty. No text is a formula to a spreadsheet."""
    buffer = io.StringIO()
    safe = ([guarded(clean(cell)) if isinstance(cell, str) else cell for cell in row] for row in (heads, *rows))
    csv.writer(buffer, lineterminator="\n").writerows(safe)
    return buffer.getvalue()


def facts_table(title: str, facts: Mapping[str, str], notes: tuple[str, ...] = ()) -> Table:
    """Names and values, one a row, without heads."""
    rows = [{"fact": name, "value": text} for name, text in facts.items()]
    return Table(title, columns("fact", "value"), rows, notes, headed=False)
