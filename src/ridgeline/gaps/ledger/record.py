"""One record of a ledger, hashed over all its fields; a seal and a settlement as callers get them."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from ...core.errors import InputError
from .encoding import document_hash, text_hash
from .validation import check_content

SCHEMA = 1
GENESIS = "0" * 64  # what the first record has before it
ID_DIGITS = 12  # hex digits of a seal's id


@dataclass(frozen=True)
class Record:
    """One row of the file as it is; after tampering a field may hold anything."""

    number: int
    schema: int
    kind: str
    time: str
    ridgeline: str
    content: str
    content_hash: str
    previous: str
    hash: str

    def row(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in COLUMNS}

    @property
    def typed(self) -> bool:
        """Whether every field holds a value of its own type."""
        wanted = (int, int, str, str, str, str, str, str, str)
        return all(type(value) is kind for value, kind in zip(self.row().values(), wanted, strict=True))

    def computed_hash(self) -> str:
        """Over all fields: the content by its hash, the number by the hash of the record before."""
        return document_hash({name: value for name, value in self.row().items() if name not in UNHASHED})

    @property
    def hash_matches(self) -> bool:
        return self.typed and self.computed_hash() == self.hash

    @property
    def intact(self) -> bool:
        return self.hash_matches and text_hash(self.content) == self.content_hash

    @cached_property
    def parsed(self) -> dict[str, Any]:
        """The content as a document; empty where it is not of the form its kind has."""
        try:
            content: dict[str, Any] = json.loads(self.content) if self.typed else {}
            check_content(self.kind, content)
        except (InputError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return {}
        return content


COLUMNS = tuple(field.name for field in fields(Record))
UNHASHED = ("number", "content", "hash")


@dataclass(frozen=True)
class Sealed:
    """A seal as the ledger holds it."""

    id: str
    number: int
    time: str
    ridgeline: str
    machine: dict[str, str]  # name, and the hash of its file's text
    environment: dict[str, Any]
    note: str
    predictions: tuple[dict[str, Any], ...]
    content_hash: str
    hash: str


@dataclass(frozen=True)
class Settled:
    """What was measured for a seal; each item says whether it is sealed evidence, why not, and if it is a repeat."""

    seal: str
    number: int
    time: str
    items: tuple[dict[str, Any], ...]
    hash: str


def as_seal(record: Record) -> Sealed:
    content = record.parsed
    return Sealed(
        id=record.hash[:ID_DIGITS],
        number=record.number,
        time=record.time,
        ridgeline=record.ridgeline,
        machine=content.get("machine", {}),
        environment=content.get("environment", {}),
        note=content.get("note", ""),
        predictions=tuple(content.get("predictions", ())),
        content_hash=record.content_hash,
        hash=record.hash,
    )
