"""One record of a ledger, hashed over all its fields, and what a seal and a settlement look like to the reader."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

from ...core.errors import InputError
from .intake import form
from .spelling import digest, text_hash

SCHEMA = 1
GENESIS = "0" * 64  # what the first record has before it
SHORT = 12  # hex digits of a seal's id


@dataclass(frozen=True)
class Record:
    """One row as it stands in the file; after tampering a field may hold anything."""

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

    def own(self) -> str:
        """The hash over all of it: the content by its hash, the number by the hash of the record before."""
        return digest({name: value for name, value in self.row().items() if name not in ("number", "content")})

    @property
    def linked(self) -> bool:
        return self.typed and self.own() == self.hash

    @property
    def whole(self) -> bool:
        return self.linked and text_hash(self.content) == self.content_hash

    @cached_property
    def said(self) -> dict[str, Any]:
        """The content as a document; empty where it is not of the form its kind has."""
        try:
            content: dict[str, Any] = json.loads(self.content) if self.typed else {}
            form(self.kind, content)
        except (InputError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return {}
        return content


COLUMNS = tuple(field.name for field in fields(Record))


@dataclass(frozen=True)
class Sealed:
    """A seal as it stands in the ledger."""

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

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"predictions": list(self.predictions)}


@dataclass(frozen=True)
class Settled:
    """What was measured for a seal; each item says whether it is sealed evidence, why not, and if it is a repeat."""

    seal: str
    number: int
    time: str
    items: tuple[dict[str, Any], ...]
    hash: str

    def document(self) -> dict[str, Any]:
        return asdict(self) | {"items": list(self.items)}


def sealed(record: Record) -> Sealed:
    content = record.said
    return Sealed(
        id=record.hash[:SHORT],
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
