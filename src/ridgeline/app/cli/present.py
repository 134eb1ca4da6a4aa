"""The one presenter: what a command answers, on the terminal, as JSON on standard output, or in a file by its suffix."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.errors import InputError
from .echo import echo

if TYPE_CHECKING:
    from ...core.machine import Machine
    from ...render.chart import Picture
    from ...render.table import Table

DATA_SUFFIXES = (".json", ".csv", ".md", ".txt")
MAX_ROWS = 64  # of a long table on the terminal; files and --json get all
MIN_WORD_WIDTH = 12  # characters a column of words keeps however narrow the terminal is


@dataclass(frozen=True)
class Output:
    """Where an answer goes, as the options say."""

    as_json: bool = False
    out: Path | None = None
    theme: str = "light"

    @property
    def complete(self) -> bool:
        """Whether every row is wanted, and not the first ones on a terminal."""
        return self.as_json or self.out is not None


@dataclass(frozen=True)
class Result:
    """What a command answers, in every form it has. A form is made only where it is asked for."""

    tables: Callable[[], Sequence[Table]] | None = None  # on the terminal, and in .csv, .md and .txt
    document: Any = (
        None  # --json and .json: a result, or a function that makes its document; else that of the first table
    )
    terminal: Callable[[], Iterable[Table | str]] | None = None  # where the terminal shows more than the tables
    picture: Callable[[], Picture] | None = None
    writers: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)  # of suffixes it writes differently
    answer: Callable[[], Sequence[str]] | None = None  # lines that the terminal, .md, .txt and .html show first

    def write(self, out: Path, theme: str = "light") -> None:
        """Write the form that the suffix names; the file appears complete or not at all."""
        from ...core.files import write_text
        from ...render.draw import files

        if out.suffix in self.writers:
            self.writers[out.suffix](out)
        elif out.suffix in self._data_suffixes:
            write_text(out, self._text(out.suffix))
        elif out.suffix == ".html" and self.tables is not None:
            self._write_page(out, theme)
        elif self.picture is not None:
            files.save(self.picture(), out, theme)
        else:
            page = (".html",) if self.tables is not None else ()
            check_suffix(out, list(dict.fromkeys((*self.writers, *self._data_suffixes, *page))))
        echo(f"wrote {out}", err=True)

    def _write_page(self, out: Path, theme: str) -> None:
        """The page that every result has: the answer, the picture where there is one, the tables, the data."""
        from ...render.draw.html import Page, Section, write

        picture, tables = None, self._tables()
        with suppress(InputError):  # nothing of it has a place on a chart: the tables are the page
            picture = self.picture() if self.picture is not None else None
        titles = [part.title for part in (picture, *tables) if part is not None and part.title]
        title = titles[0] if titles else out.stem
        tables = [replace(table, title="") if table.title == title else table for table in tables]
        section = Section("", "", [picture] if picture else [], tables)
        write(out, Page(title, [section], self._document(), self._answer()), theme)

    def show(self, as_json: bool = False) -> None:
        """Print it: one JSON document, or tables and texts with an empty line between them."""
        if as_json:
            echo(json_text(self._document()))
            return
        lines = self._answer()
        if lines:
            echo("\n".join(lines))
        for place, part in enumerate(self.terminal() if self.terminal else self._tables()):
            if place or lines:
                echo()
            if isinstance(part, str):
                echo(part)
            else:
                print_table(part)

    @property
    def _data_suffixes(self) -> tuple[str, ...]:
        if self.tables is not None:
            return DATA_SUFFIXES
        return (".json",) if self.picture is None else ()  # a picture writes the data behind it

    def _document(self) -> Any:
        from ...core.documents import to_document

        value = self.document() if callable(self.document) else self.document
        if value is None:
            value = self._tables()[0]
        return to_document(value) if is_dataclass(value) else value

    def _answer(self) -> Sequence[str]:
        return () if self.answer is None else self.answer()

    def _tables(self) -> Sequence[Table]:
        return () if self.tables is None else self.tables()

    def _text(self, suffix: str) -> str:
        if suffix == ".json":
            return json_text(self._document()) + "\n"
        from ...core.escaping import markdown_line

        tables, answer = self._tables(), list(self._answer())
        if suffix == ".csv":
            return "\n".join(table.csv() for table in tables)
        if suffix == ".txt":
            return "\n\n".join(["\n".join(answer)] * bool(answer) + [table.text() for table in tables]) + "\n"
        return "\n".join([markdown_line(line) + "\n" for line in answer] + [table.markdown() for table in tables])


def present(result: Result, output: Output) -> None:
    """Put an answer where it was asked to go: a file, standard output as JSON, or else the terminal."""
    if output.out is not None:
        result.write(output.out, output.theme)
    if output.as_json or output.out is None:
        result.show(output.as_json)


def present_table(table: Table, output: Output, document: Any = None) -> None:
    """An answer that is one table and, unless that is its own, a document."""
    present(Result(lambda: [table], document), output)


def named_chart(name: str, machine: Machine, **options: Any) -> Callable[[], Picture]:
    """The picture form of a result: a chart of `render.charts` by its name."""

    def picture() -> Picture:
        from ...render.charts import find

        return find(name)(machine, **options)

    return picture


def check_suffix(out: Path, suffixes: Sequence[str], what: str = "this is") -> None:
    """Refuse an unsupported suffix before work is done for it."""
    if out.suffix not in suffixes:
        raise InputError(f"{out}: {what} written to {', '.join(suffixes)}, not to '{out.suffix}'")


def json_text(document: Any) -> str:
    """One JSON document."""
    from ...core.escaping import sound_json

    return sound_json(_json_text(document))


def _json_text(document: Any) -> str:
    """A long list, or the long `rows` of one, has a row per line: written and read many times as fast."""
    if isinstance(document, dict) and isinstance(document.get("rows"), list) and len(document["rows"]) > MAX_ROWS:
        rest = {key: value for key, value in document.items() if key != "rows"}
        return json.dumps(_finite(rest), indent=1)[:-2] + f',\n "rows": {_json_text(document["rows"])}\n}}'
    if not isinstance(document, list) or len(document) <= MAX_ROWS:
        return json.dumps(_finite(document), indent=1)
    encode = json.JSONEncoder(allow_nan=False).encode

    def line(row: Any) -> str:
        try:
            return encode(row)
        except ValueError:
            return encode(_finite(row))

    return "[\n" + ",\n".join(map(line, document)) + "\n]"


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN; both become null."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and (value != value or abs(value) == float("inf")) else value


def terminal_size() -> dict[str, Any]:
    """Width, colours and alphabet of the terminal; 80 columns and no colours where there is no terminal."""
    width = min(120, shutil.get_terminal_size((80, 24)).columns)
    return {"width": width, "colour": sys.stdout.isatty(), "ascii": not _shows_blocks()}


def _shows_blocks() -> bool:
    """Whether the encoding of standard output has the characters that charts are drawn with."""
    try:
        "█│⠿".encode(sys.stdout.encoding or "ascii")
    except (LookupError, UnicodeEncodeError):
        return False
    return True


def print_table(table: Table) -> None:
    """A table on standard output: framed by rich on a terminal, plain text anywhere else.

    On a terminal, columns without a value are left out and numbers are never folded: half a number is a wrong one.
    A terminal too narrow even so gets the plain text.
    """
    if not sys.stdout.isatty():
        echo(table.text())
        return
    from rich.console import Console
    from rich.table import Table as Frame
    from rich.text import Text

    filled = [column for column in table.columns if any(row.get(column.key) is not None for row in table.rows)]
    table = replace(table, columns=filled) if filled else table
    cells, heads = table.cells(), table.heads
    console = Console()
    frame = Frame(title=Text(table.title), title_justify="left", header_style="bold", show_header=table.headed)
    needed = 1
    for index, head in enumerate(heads):
        number = table.numeric(index)
        widest = max([*map(len, head.split()), *(len(row[index]) for row in cells)], default=1)
        width = widest if number else min(widest, MIN_WORD_WIDTH)
        needed += width + 3  # a rule and a space on each side
        frame.add_column(Text(head), justify="right" if number else "left", overflow="fold", min_width=width)
    if needed > console.width:
        echo(table.text())
        return
    for row in cells:
        frame.add_row(*(Text(cell) for cell in row))
    with console.capture() as captured:
        console.print(frame)
        for note in table.notes:
            console.print(Text(note))
    echo(captured.get().rstrip("\n"))
