"""The ledger: predictions sealed before the run and settled after it, in one file that only grows.

    hash(n) = SHA-256 of record n's fields, among them hash(n - 1) and the hash of its content;
    the number n itself is its place in the chain

What the chain finds: any field of any record that was changed, a record removed, put in, replaced or moved, and,
because the head counts along, records cut off at the end. What it cannot find alone: a ledger written anew from the
start with every hash recomputed, an older copy of the whole file, and a computer whose clock was set wrong on
purpose. Against the first two stands the head's hash, committed where others see it (it is on top of the markdown
view): `verify(expect=...)` asks whether that record is still in the chain. Against the third stands whoever dates
that commit.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...core.errors import InputError, unknown
from ...core.files import folder
from . import page, report, store
from .intake import checked, edits, measured, predicted, steps
from .record import GENESIS, SHORT, Record, Sealed, Settled, sealed
from .report import share, summary
from .spelling import canonical, shown, text_hash
from .store import Broken
from .verify import ALTERED, Finding, chain, judge, layout, meaning

__all__ = [
    "ALTERED",
    "GENESIS",
    "Broken",
    "Finding",
    "Ledger",
    "Record",
    "Sealed",
    "Settled",
    "chain",
    "open_ledger",
    "share",
    "summary",
    "text_hash",
]

LEAST = 4  # the fewest hex digits that may stand for a seal


def now() -> datetime:
    return datetime.now(UTC)


def open_ledger(path: str | Path | None = None, clock: Callable[[], datetime] = now) -> Ledger:
    """The ledger in a file, or the user's own; the file is made with the first seal."""
    if path is None:
        return Ledger(folder("data") / "ledger.sqlite", clock, own=True)
    return Ledger(Path(os.path.expanduser(path)), clock)


class Ledger:
    """Every call opens the file and closes it again, so a ledger may be shared by processes and kept across a fork."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = now, own: bool = False) -> None:
        self.path, self._store = path, store.Store(path, clock, own)

    def seal(
        self,
        predictions: Iterable[Mapping[str, Any]],
        machine_text: str,
        machine_name: str,
        environment: Mapping[str, Any] | None = None,
        note: str = "",
    ) -> Sealed:
        """Fix predictions (rows with a `name` each) for the machine whose file has this text."""
        content = {
            "predictions": checked(predictions),
            "machine": {"name": str(machine_name), "hash": text_hash(machine_text)},
            "environment": {**surroundings(), **(environment or {})},
            "note": str(note),
        }
        text = canonical(content, "what is to be sealed")
        return sealed(self._store.append("seal", self._check, lambda _connection, _time: text))

    def settle(
        self, seal_id: str, items: Iterable[Mapping[str, Any]], observations_meta: Mapping[str, Any] | None = None
    ) -> Settled:
        """Put measurements beside a seal's predictions.

        An item has `name`, `measured_us`, and where known `measured_at` (ISO, with its offset from UTC: when the
        measurement began), `bound_observed` and `cause`. It may also say which prediction it was compared with: the
        row as `prediction`, or any of `predicted_us`, `floor_us`, `bound_predicted`; what differs from the sealed row
        was edited after sealing. One kernel that did several predictions at once names them as `steps` and is held
        against their sum. What is no sealed evidence is kept as unsealed, with the reason.
        """
        given = [measured(item) for item in items]
        if not given:
            raise InputError("nothing to settle: give at least one measured item")
        earlier: list[Record] = []

        def compare(connection: sqlite3.Connection, time: str) -> str:
            found = _find(connection, seal_id)
            rows = {row["name"]: row for row in found.said["predictions"]}
            earlier.extend(
                store.records(connection, "WHERE kind = 'settle' AND number > ? ORDER BY number", found.number)
            )
            kept = []
            for item in given:
                row = predicted(rows, item)
                item = {key: value for key, value in item.items() if key != "claims"} | edits(row, item["claims"])
                reason = judge(row, found.time, item, time)
                kept.append({**item, "sealed": not reason, "reason": reason})
            return canonical(
                {"seal": found.hash, "items": kept, "observations": dict(observations_meta or {})},
                "what is to be settled",
            )

        record = self._store.append("settle", self._check, compare)
        content = json.loads(record.content)
        counted = report.Counted()
        for said in (other.said for other in earlier):
            for item in said["items"] if said["seal"] == content["seal"] else ():
                counted.repeat(said["seal"], steps(item), item["sealed"])
        told = [
            {**item, "repeat": counted.repeat(content["seal"], steps(item), item["sealed"])}
            for item in content["items"]
        ]
        return Settled(content["seal"][:SHORT], record.number, record.time, tuple(told), record.hash)

    def find(self, seal_id: str) -> Sealed:
        """A seal by its id or any beginning of its hash that fits only one."""
        with self._store.read() as connection:
            return sealed(_find(connection, seal_id))

    def head(self) -> tuple[int, str]:
        """How many records there are, and the hash of the last: what to commit elsewhere."""
        with self._store.read() as connection:
            return store.head(connection)

    def export(self) -> list[dict[str, Any]]:
        """Every record with its content as a document (as it stands, where it is none)."""
        with self._store.read() as connection:
            records = store.records(connection, "ORDER BY number")
        return [
            {name: shown(value) for name, value in record.row().items()}
            | ({"content": record.said} if record.said else {})
            for record in records
        ]

    def verify(self, expect: str | None = None) -> list[Finding]:
        """Everything wrong with the ledger; nothing when it is as it was written.

        `expect` is a head's hash committed elsewhere: everything up to that record is then as it
        was when the hash was taken, even if someone recomputed the whole chain.
        """
        if expect is not None and not re.fullmatch("[0-9a-f]{64}", expect):
            raise InputError(f"'{expect}' is no hash to expect; give all 64 hex digits, part of them could be forged")
        try:
            records, _, findings = self._snapshot()
        except store.Damaged as error:
            return [Finding(None, "damaged", str(error))]
        if expect is not None and not any(record.linked and record.hash == expect for record in records):
            text = f"no record has the expected hash {expect}: the ledger was written anew or cut back since"
            findings.append(Finding(None, "expected", text))
        return findings

    def report(self) -> dict[str, Any]:
        """How good the predictions were; sealed evidence, the blind part of it and unsealed results apart."""
        return report.document(*self._snapshot())

    def markdown(self) -> str:
        """The page to read and commit: every seal with its predictions, what was measured beside them."""
        return page.markdown(*self._snapshot())

    def _snapshot(self) -> tuple[list[Record], tuple[int, str], list[Finding]]:
        """All records and the head at one moment, with all that is wrong with them."""
        with self._store.read() as connection:
            return _all(connection)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuses a ledger that is not as it was written, so that nothing new rests on it."""
        findings = _all(connection)[2]
        if findings:
            more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
            raise Broken(
                f"the ledger '{self.path}' is broken and takes nothing more: {findings[0].text}{more}; "
                "see all of it with `ridgeline ledger verify`, restore a copy or use another file"
            )


def _all(connection: sqlite3.Connection) -> tuple[list[Record], tuple[int, str], list[Finding]]:
    records, head = store.records(connection, "ORDER BY number"), store.head(connection)
    return records, head, layout(connection) + chain(records, head) + meaning(records)


def _find(connection: sqlite3.Connection, seal_id: str) -> Record:
    """The one seal whose hash begins so."""
    begins = seal_id.lower()
    found = store.records(connection, "WHERE kind = 'seal' AND substr(hash, 1, ?) = ?", len(begins), begins)
    if not found or len(begins) < LEAST:
        ids = connection.execute(f"SELECT CAST(substr(hash, 1, {SHORT}) AS TEXT) FROM record WHERE kind = 'seal'")
        raise unknown("seal", seal_id, [row[0] for row in ids], "`ridgeline ledger show` lists them.")
    if len(found) > 1:
        several = ", ".join(record.hash[: 2 * SHORT] for record in found)
        raise InputError(f"'{seal_id}' begins {len(found)} seals: {several}; give more digits")
    return found[0]


def surroundings() -> dict[str, str]:
    system = f"{platform.system()} {platform.machine()}"
    return {"platform": system, "python": platform.python_version(), "host": platform.node()}
