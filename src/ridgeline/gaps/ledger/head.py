"""The head of a ledger as a file: kept, committed or signed elsewhere, it shows later that nothing before it was cut or rewritten."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...core.errors import InputError
from ...core.files import user_path
from ...core.intake import Door
from ...core.intake.door import shown
from ...core.tabular import json_document, whole_text
from ...core.version import __version__
from .record import Record
from .verify import Finding

SCHEMA = 1
KIND = "ridgeline ledger head"
HASH = re.compile("[0-9a-f]{64}")
MAX_RECORDS = 2**62


@dataclass(frozen=True)
class Head:
    """The last record of a ledger: how many records there are, its hash and its time. `records` 0: only the hash is known."""

    hash: str
    records: int = 0
    time: str = ""
    kind: str = KIND
    schema: int = SCHEMA
    ridgeline: str = __version__

    DOCUMENT: ClassVar = ("kind", "schema", "ridgeline", "records", "hash", "time")

    def check(self, records: Sequence[Record]) -> list[Finding]:
        """A fault where the ledger no longer has the record of this head, at its place and with its time."""
        place = next((record for record in records if record.hash_matches and record.hash == self.hash), None)
        if place is None and self.records > len(records):
            text = (
                f"the expected head counts {self.records} records, the ledger has {len(records)}: its end was cut off"
            )
        elif place is None:
            text = f"no record has the expected hash {self.hash}: the ledger was rewritten or truncated since"
        elif self.records and place.number != self.records:
            text = f"the expected head is record {self.records}, the ledger has its hash as record {place.number}"
        elif self.time and place.time != self.time:
            text = f"the expected head is dated {self.time}, record {place.number} is dated {place.time}"
        else:
            return []
        return [Finding(None, "expected", text)]


def expected_head(text: str | Path) -> Head:
    """The head that is expected: a complete hash, or the file that `ridgeline ledger head --out` wrote."""
    word = str(text)
    if HASH.fullmatch(word):
        return Head(word)
    path = user_path(word)
    if not path.is_file():
        raise InputError(
            f"'{word}' is neither a complete hash (64 hex digits; a part could be forged) nor a file of `ridgeline ledger head`"
        )
    try:
        document = json_document(whole_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"'{path}' is not the head of a ledger: {error}; write one with `ridgeline ledger head`"
        ) from error
    return _checked(document, path)


def _checked(document: Any, path: Path) -> Head:
    door = Door(f"'{path}'")
    table = door.table(document, "the head")
    door.schema(table.get("schema"), SCHEMA)
    if table.get("kind") != KIND:
        door.complain("kind", f"is {shown(table.get('kind'))}; it is '{KIND}'")
    digest = door.text(table.get("hash"), "hash", needed=True)
    if digest and not HASH.fullmatch(digest):
        door.complain("hash", f"is {shown(digest)}; it has 64 hex digits")
    count = door.number(table.get("records"), "records", 1, MAX_RECORDS)
    time = door.text(table.get("time"), "time", needed=True)
    door.close()
    return Head(digest, int(count), time)
