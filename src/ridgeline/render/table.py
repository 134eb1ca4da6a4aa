"""Table: rows under titled columns with units, neutral and JSON-able; as plain text, markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

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
            return (
                show(value * 100, "%", self.digits)
                if self.percent
                else show(value, unit or self.unit, self.digits, self.binary)
            )
        return str(value)


@dataclass(frozen=True)
class Table:
    title: str
    columns: Sequence[Column]
    rows: Sequence[dict[str, Any]]
    notes: tuple[str, ...] = field(default=())

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

    def document(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "rows": [{column.key: row.get(column.key) for column in self.columns} for row in self.rows],
            "notes": list(self.notes),
        }

    def text(self) -> str:
        """Aligned columns without frames, for pipes and files."""
        cells = self.cells()
        heads = [column.head for column in self.columns]
        widths = [
            max(len(head), *(len(row[index]) for row in cells), 0) if cells else len(head)
            for index, head in enumerate(heads)
        ]
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
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow([column.key for column in self.columns])
        writer.writerows(
            [["" if row.get(column.key) is None else row[column.key] for column in self.columns] for row in self.rows]
        )
        return buffer.getvalue()
