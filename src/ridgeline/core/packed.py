"""Packed: a text of an archive that is read when it is asked for.

The catalog's corrections are tens of megabytes of text, of which an answer needs a few lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zipfile import ZipFile


@dataclass(frozen=True, eq=False)
class Packed:
    """`str` gives the text; equal to whatever has the same text."""

    archive: Path
    name: str

    def __str__(self) -> str:
        return _text(self.archive, self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, Packed)) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


@cache
def opened(archive: Path) -> ZipFile:
    """With all its bytes, so that processes that were forked do not share a place in a file."""
    from zipfile import ZipFile

    return ZipFile(BytesIO(archive.read_bytes()))


@cache
def _text(archive: Path, name: str) -> str:
    return opened(archive).read(name).decode()
