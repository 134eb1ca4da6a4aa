"""Tables in csv files: read and written block by block, with as little work per cell as Python allows."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, TextIO

from .columns import ABSENT, Columns, Row, is_integral, refuse_repeated, uncollected
from .errors import InputError
from .intake.door import Door, at
from .intake.limits import refuse_over
from .intake.source import PIECE, no_text, opened, refuse_bomb
from .intake.text import MAX_LENGTH, clean, guarded, unguarded

LINES = 4096  # that are held before they become columns
MAX_SHARED = 65536  # texts of a column that are kept once however many cells have them; a column of more has few such


def read_csv(path: Path) -> Columns:
    """Every cell is text, and one that a row leaves out is None.

    The header shows what separates the cells. Empty lines, comments above the header and headers that come again, as in
    files that were joined, are no rows.
    """
    door = Door(str(path))
    refuse_bomb(path)
    with opened(path, strict=True) as text, uncollected():
        source = _Lines(text, path)
        lines_of_text = iter(source)
        first = next((line for line in lines_of_text if not is_comment(line)), "")
        reader = csv.reader(chain([first], lines_of_text), delimiter=delimiter(first))
        try:
            header = next((line for line in reader if line), [])
            names = [clean(unguarded(name)) for name in header]
            refuse_repeated(names, str(path))
            table = _Growing(names, door)
            while lines := list(islice(reader, LINES)):
                table.add([line for line in lines if line and line != header], source.plain)
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}, cannot be read: {error}") from error
    door.close()
    return Columns(dict(zip(names, table.cells, strict=True)), table.count)


def delimiter(line: str) -> str:
    """What separates the cells of a header: a comma, a semicolon or a tab."""
    return max(",;\t", key=line.count)


def is_comment(line: str) -> bool:
    """Whether a line above the header is none of the table: empty, or a comment."""
    return not line.strip("\ufeff \t\r\n") or line.lstrip("\ufeff \t").startswith("#")


class _Lines:
    """The lines of a text, read in pieces; `plain` as long as no piece had anything that a cell must not have."""

    def __init__(self, text: TextIO, path: Path) -> None:
        self.text, self.path, self.plain = text, path, True

    def __iter__(self) -> Iterator[str]:
        rest = ""
        while piece := self.text.read(PIECE):
            if "\0" in piece:
                raise no_text(self.path)
            self.plain = self.plain and _is_plain(piece)
            rest += piece
            end = rest.rfind("\n") + 1
            yield from io.StringIO(rest[:end], newline="")
            rest = rest[end:]
            refuse_over("line", len(rest), f"a line of '{self.path}'")
        yield from io.StringIO(rest, newline="")


def _is_plain(piece: str) -> bool:
    """Whether no cell of a text needs a change: all is printable, nothing is guarded, no line has too long a cell."""
    step = MAX_LENGTH // 2  # a line of MAX_LENGTH has such a stretch without an end
    return (
        "'" not in piece
        and '"' not in piece
        and piece.replace("\n", "").replace("\r", "").isprintable()
        and all(piece.find("\n", start, start + step) >= 0 for start in range(0, len(piece) - step, step))
    )


class _Growing:
    """Columns that lines are added to."""

    def __init__(self, names: list[str], door: Door) -> None:
        self.cells: list[list[Any]] = [[] for _ in names]
        self.shared: list[dict[Any, Any]] = [{} for _ in names]
        self.count, self.door = 0, door

    def add(self, lines: list[list[str]], plain: bool) -> None:
        """Lines to the ends of their columns; `plain` ones have only texts that are clean."""
        width, first = len(self.cells), self.count + 1
        self.count += len(lines)
        refuse_over("rows", self.count, f"the number of rows of {self.door.where}")
        refuse_over("cells", self.count * width, f"{self.door.where} with rows of {width:,} columns")
        lengths = set(map(len, lines))
        if max(lengths, default=0) > width:
            for row, line in enumerate(lines, first):
                if len(line) > width:
                    self.door.complain(at(row), f"more fields than the header has: {len(line)}, not {width}")
            return
        if lengths != {width}:
            lines = [[*line, *[None] * (width - len(line))] for line in lines]  # type: ignore[list-item]
        for column, shared, texts in zip(self.cells, self.shared, zip(*lines, strict=True), strict=False):
            kept: Sequence[Any] = texts
            if not plain:
                kept = [clean(unguarded(text)) if text else text for text in texts]
            few = len(set(kept[:SAMPLE])) < SAMPLE // 8 and len(shared) < MAX_SHARED
            column.extend(map(shared.setdefault, kept, kept) if few else kept)


def csv_pieces(table: Columns, order: Sequence[str]) -> Iterator[str]:
    """The rows as csv with the columns in this order, in pieces; what a row does not have is an empty field."""
    for block in table.blocks(LINES):
        forms: list[str] = []
        columns: list[Sequence[Any]] = []
        texts: list[list[str]] = []  # columns of texts that follow each other
        for name in order:
            column = block.cells[name] if name in block.cells else [None] * len(block)
            if isinstance(column, list) and set(map(type, column)) == {str}:
                texts.append(column)
                continue
            _add_texts(texts, forms, columns)
            form, field = _field(column)
            forms.append(form)
            columns += [field] if field is not None else []
        _add_texts(texts, forms, columns)
        # one format for a row makes it of its numbers and texts in one step
        form = ",".join(forms)
        rows = zip(*columns, strict=True) if columns else repeat((), len(block))
        lines: Iterable[str] = map(form.__mod__, rows)
        if len(order) == 1:  # an empty line would be no row
            lines = (line or '""' for line in lines)
        yield "\n".join([*lines, ""])


def _add_texts(texts: list[list[str]], forms: list[str], columns: list[Sequence[Any]]) -> None:
    """Columns of texts to the end of those to be formatted, joined where none of their fields needs a change."""
    if not texts:
        return
    lines = list(map(",".join, zip(*texts, strict=True)))
    joined = "\n" + "\n".join(lines)
    ends = joined.count("\n"), joined.count(",")
    if ends == (len(lines), len(lines) * (len(texts) - 1)) and not _has_special(joined):
        forms.append("%s")
        columns.append(lines)
    else:
        forms += ["%s"] * len(texts)
        columns += [_each_once(column) for column in texts]
    texts.clear()


def _has_special(lines: str) -> bool:
    """Whether a field has a sign of csv, or begins with one that a spreadsheet runs."""
    return (
        '"' in lines
        or "\r" in lines
        or any(f"\n{sign}" in lines or f",{sign}" in lines for sign in "=+-@\t" if sign in lines)
    )


SAMPLE = 256  # cells that show whether most cells of a column differ


def _field(column: Any) -> tuple[str, list[Any] | None]:
    """How the fields of a column are formatted, and of what; of nothing where all are the same."""
    if isinstance(column, list):
        return "%s", list(map(_text, column))
    import numpy as np

    counts = is_integral(column).all()
    if len(np.unique(column[:SAMPLE])) > SAMPLE // 2:
        return ("%d", column.astype(np.int64).tolist()) if counts else ("%.10g", column.tolist())
    values, which = np.unique(column, return_inverse=True)
    fields = [_text(int(value) if counts else value) for value in values.tolist()]
    return (fields[0], None) if len(fields) == 1 else ("%s", np.array(fields, dtype=object)[which].tolist())


def _each_once(column: list[Any]) -> list[str]:
    """The fields of a column of texts; one that comes again is made once."""
    fields = {cell: _text(cell) for cell in set(column)}
    return list(map(fields.__getitem__, column))


def _text(cell: Any) -> str:
    if isinstance(cell, str):
        text = guarded(cell)
        return '"' + text.replace('"', '""') + '"' if any(sign in text for sign in ',"\r\n') else text
    if cell is None or cell is ABSENT:
        return ""
    if isinstance(cell, float):
        return f"{cell:.10g}"
    return str(cell) if isinstance(cell, int) else _text(json.dumps(cell))


def csv_text(rows: Sequence[Row], order: Sequence[str]) -> str:
    """The rows as csv with the columns in this order; what a row does not have is an empty field."""
    return "".join([csv_header(order), *csv_pieces(Columns.of_rows(rows), order)])


def csv_header(order: Sequence[str]) -> str:
    return ",".join(map(_text, order)) + "\n"


def write_csv(blocks: Iterable[Columns], order: Sequence[str], draft: Path) -> None:
    with draft.open("w", encoding="utf-8", newline="") as out:
        out.write(csv_header(order))
        for block in blocks:
            out.writelines(csv_pieces(block, order))
