"""Table: rows under titled columns with units, neutral and JSON-able; as plain text, markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.units import show


@dataclass(frozen=True)
class Column:
    key: str
    title: str = ""
    unit: str = ""
    digits: int = 4
    binary: bool = False
    percent: bool = False

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
            shown, unit = (value * 100, "%") if self.percent else (value, unit or self.unit)
            return show(shown, unit, self.digits, self.binary)
        return str(value)


def columns(*given: str | Column) -> tuple[Column, ...]:
    """Columns in order; a bare key needs no more than its name."""
    return tuple(Column(each) if isinstance(each, str) else each for each in given)


def percent(key: str, title: str = "", digits: int = 3) -> Column:
    return Column(key, title, digits=digits, percent=True)


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]
    notes: tuple[str, ...] = ()
    DOCUMENT: ClassVar = ("title", "rows=records", "notes")

    def cells(self) -> list[list[str]]:
        # a row may carry another unit for a column (OP/s beside FLOP/s) under "<key>:unit"
        return [
            [column.cell(row.get(column.key), row.get(f"{column.key}:unit")) for column in self.columns]
            for row in self.rows
        ]

    def numeric(self, index: int) -> bool:
        """Whether a column is set flush right: it holds numbers and nothing else."""
        values = [row.get(self.columns[index].key) for row in self.rows]
        return all(
            value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        """The rows as outsiders read them: plain values under the keys of the columns."""
        return [{column.key: row.get(column.key) for column in self.columns} for row in self.rows]

    def text(self) -> str:
        """Aligned columns without frames, for pipes and files."""
        cells = self.cells()
        heads = [column.head for column in self.columns]
        widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
        right = [self.numeric(index) for index in range(len(heads))]
        lines = [self.title] if self.title else []
        for row in [heads, *cells]:
            line = "  ".join(
                text.rjust(width) if flush else text.ljust(width)
                for text, width, flush in zip(row, widths, right, strict=True)
            )
            lines.append(line.rstrip())
        return "\n".join([*lines, *self.notes])

    def markdown(self) -> str:
        heads = [column.head for column in self.columns]
        marks = ["---:" if self.numeric(index) else "---" for index in range(len(heads))]
        body = [[text.replace("|", "\\|") for text in row] for row in [heads, marks, *self.cells()]]
        lines = [f"## {self.title}", ""] if self.title else []
        lines += ["| " + " | ".join(row) + " |" for row in body]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])]) + "\n"

    def csv(self) -> str:
        """Plain values in base units, one header row."""
        return csv_text([column.key for column in self.columns], (record.values() for record in self.records))


def csv_text(heads: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """A header row, then the rows; what is not known is empty."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([heads, *rows])
    return buffer.getvalue()


def facts_table(title: str, facts: Mapping[str, str], notes: tuple[str, ...] = ()) -> Table:
    """Names and values, one a row."""
    rows = [{"fact": name, "value": text} for name, text in facts.items()]
    return Table(title, columns("fact", "value"), rows, notes)
