"""Writes a chart, or the data behind it, to a file; the suffix says how, and a file is whole or not there at all.

Owners of suffixes are found by listing this folder: any module with SUFFIXES and render. The data formats .json,
.csv and .md are written here.
"""

from __future__ import annotations

import csv
import io
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from ...core.errors import InputError
from ...core.files import write_whole
from ..chart import Picture, document

SUFFIXES = (".json", ".csv", ".md")


@cache
def owners() -> dict[str, ModuleType]:
    """Suffix to module; the first in alphabetical order owns a suffix that two claim."""
    found: dict[str, ModuleType] = {}
    for name in sorted(module.name for module in iter_modules([str(Path(__file__).parent)])):
        module = import_module(f".{name}", __package__)
        if hasattr(module, "render"):
            for suffix in getattr(module, "SUFFIXES", ()):
                found.setdefault(suffix, module)
    return found


def render(picture: Picture, path: str | Path, theme: str = "light") -> None:
    """The data of a picture by suffix; a theme means nothing here."""
    suffix = Path(path).suffix.lower()
    columns, rows = picture.table()
    if suffix == ".json":
        words = json.dumps(document(picture), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    elif suffix == ".csv":
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows([["" if value is None else value for value in row] for row in rows])
        words = stream.getvalue()
    else:
        words = markdown(picture, columns, rows)
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(words)


def markdown(picture: Picture, columns: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        if value is None:
            return ""
        words = f"{value:.6g}" if isinstance(value, float) else str(value)
        return words.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")

    lines = [f"# {picture.title}", "", *([picture.subtitle, ""] if picture.subtitle else [])]
    lines += ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(cell(value) for value in row) + " |" for row in rows]
    notes = [*picture.notes, *(note for chart in picture.charts if chart is not picture for note in chart.notes)]
    lines += ["", *(f"- {note}" for note in notes)] if notes else []
    return "\n".join(lines) + "\n"


def save(picture: Picture, path: str | Path, theme: str = "light") -> Path:
    """Write the picture in the format of the suffix. The file appears when it is complete; an old one stays until then."""
    asked = Path(path).expanduser()
    suffix = asked.suffix.lower()
    known = owners()
    if suffix not in known:
        raise InputError(
            f"cannot draw to '{asked}': {f'{suffix!r} is not a format known here' if suffix else 'it has no suffix'}; use one of {', '.join(sorted(known))}"
        )
    return write_whole(asked, lambda draft: known[suffix].render(picture, draft, theme))
