"""Ledger: seal predictions, settle them with measurements, verify the chain, report the accuracy."""

from __future__ import annotations

import json
import platform
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...core.errors import InputError, unknown
from ...core.files import folder, user_path
from . import store
from .record import (
    ID_DIGITS,
    Record,
    Sealed,
    Settled,
    canonical_json,
    checked_measurement,
    checked_predictions,
    text_hash,
)
from .report import FirstMeasurements, accuracy, markdown
from .store import Broken
from .verify import Finding, check_chain, check_contents, check_tables, compared_item

MIN_ID_DIGITS = 4  # of a seal's hash that may name it


def now() -> datetime:
    return datetime.now(UTC)


def open_ledger(path: str | Path | None = None, clock: Callable[[], datetime] = now) -> Ledger:
    """The ledger in a file, or that of the user; the file is created with the first seal."""
    if path is None:
        return Ledger(folder("data") / "ledger.sqlite", clock, make_folder=True)
    return Ledger(user_path(path), clock)


class Ledger:
    """Every call opens the file and closes it again, so a ledger may be shared by processes and kept across a fork."""

    def __init__(self, path: Path, clock: Callable[[], datetime] = now, make_folder: bool = False) -> None:
        self.path, self._store = path, store.Store(path, clock, make_folder)

    def seal(
        self,
        predictions: Iterable[Mapping[str, Any]],
        machine_text: str,
        machine_name: str,
        environment: Mapping[str, Any] | None = None,
        note: str = "",
    ) -> Sealed:
        """Seal predictions (rows with a `name` each) for the machine whose file has this text."""
        content = {
            "predictions": checked_predictions(predictions),
            "machine": {"name": str(machine_name), "hash": text_hash(machine_text)},
            "environment": {**host_environment(), **(environment or {})},
            "note": str(note),
        }
        text = canonical_json(content, "what is to be sealed")
        return Sealed.of(self._store.append("seal", self._check, lambda _connection, _time: text))

    def settle(
        self, seal_id: str, items: Iterable[Mapping[str, Any]], observations_meta: Mapping[str, Any] | None = None
    ) -> Settled:
        """Settle the predictions of a seal with measurements.

        An item has `name`, `measured_us`, and where known `measured_at` (ISO, with its offset from UTC: when the
        measurement began), `bound_observed` and `cause`. It may also say which prediction it was compared with: the
        row as `prediction`, or any of `predicted_us`, `floor_us`, `bound_predicted`; what differs from the sealed row
        was edited after sealing. One kernel that did several predictions at once names them as `steps` and is held
        against their sum. What is no sealed evidence is kept as unsealed, with the reason.
        """
        given = [checked_measurement(item) for item in items]
        if not given:
            raise InputError("nothing to settle: give at least one measured item")
        earlier: list[Record] = []

        def compare(connection: sqlite3.Connection, time: str) -> str:
            seal = _find(connection, seal_id)
            rows = {row["name"]: row for row in seal.parsed["predictions"]}
            later = "WHERE kind = 'settle' AND number > ? ORDER BY number"
            earlier.extend(store.records(connection, later, seal.number))
            kept = [compared_item(rows, item, seal.time, time) for item in given]
            content = {"seal": seal.hash, "items": kept, "observations": dict(observations_meta or {})}
            return canonical_json(content, "what is to be settled")

        record = self._store.append("settle", self._check, compare)
        seal = json.loads(record.content)["seal"]
        counted, marked = FirstMeasurements(), []
        for settlement in (*earlier, record):  # the last is the one to return
            if settlement.parsed["seal"] == seal:
                items = settlement.parsed["items"]
                marked = [{**item, "repeat": counted.is_repeat(seal, item, item["sealed"])} for item in items]
        return Settled(seal[:ID_DIGITS], record.number, record.time, tuple(marked), record.hash)

    def find(self, seal_id: str) -> Sealed:
        """A seal by its id or any beginning of its hash that fits only one."""
        with self._store.read() as connection:
            return Sealed.of(_find(connection, seal_id))

    def head(self) -> tuple[int, str]:
        """How many records there are, and the hash of the last: what to commit elsewhere."""
        with self._store.read() as connection:
            return store.head(connection)

    def export(self) -> list[dict[str, Any]]:
        """Every record with its content as a document (as it stands, where it is none)."""
        with self._store.read() as connection:
            records = store.records(connection, "ORDER BY number")
        return [record.document() for record in records]

    def verify(self, expect: str | None = None) -> list[Finding]:
        """All faults of the ledger; empty when it is intact.

        `expect` is a head's hash committed elsewhere: everything up to that record is then as it
        was when the hash was taken, even if someone recomputed the whole chain.
        """
        if expect is not None and not re.fullmatch("[0-9a-f]{64}", expect):
            raise InputError(f"'{expect}' is not a complete hash; give all 64 hex digits, a part could be forged")
        try:
            records, _, findings = self._snapshot()
        except store.Damaged as error:
            return [Finding(None, "damaged", str(error))]
        if expect is not None and not any(record.hash_matches and record.hash == expect for record in records):
            text = f"no record has the expected hash {expect}: the ledger was rewritten or truncated since"
            findings.append(Finding(None, "expected", text))
        return findings

    def report(self) -> dict[str, Any]:
        """Accuracy of the predictions: sealed evidence, its blind part, and unsealed results, separately."""
        return accuracy(*self._snapshot())

    def markdown(self) -> str:
        """The page to read and commit: every seal with its predictions and measurements."""
        return markdown(*self._snapshot())

    def _snapshot(self) -> tuple[list[Record], tuple[int, str], list[Finding]]:
        """All records and the head at one moment, with their faults."""
        with self._store.read() as connection:
            return _all(connection)

    def _check(self, connection: sqlite3.Connection) -> None:
        """Refuse a broken ledger, so that no new record depends on it."""
        findings = _all(connection)[2]
        if findings:
            more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
            raise Broken(
                f"the ledger '{self.path}' is broken and was not changed: {findings[0].text}{more}; "
                "see all of it with `ridgeline ledger verify`, restore a copy or use another file"
            )


def _all(connection: sqlite3.Connection) -> tuple[list[Record], tuple[int, str], list[Finding]]:
    records, head = store.records(connection, "ORDER BY number"), store.head(connection)
    return records, head, check_tables(connection) + check_chain(records, head) + check_contents(records)


def _find(connection: sqlite3.Connection, seal_id: str) -> Record:
    """The one seal whose hash begins so."""
    begins = seal_id.lower()
    seals = store.records(connection, "WHERE kind = 'seal' AND substr(hash, 1, ?) = ?", len(begins), begins)
    if not seals or len(begins) < MIN_ID_DIGITS:
        ids = connection.execute(f"SELECT CAST(substr(hash, 1, {ID_DIGITS}) AS TEXT) FROM record WHERE kind = 'seal'")
        raise unknown("seal", seal_id, [row[0] for row in ids])
    if len(seals) > 1:
        several = ", ".join(record.hash[: 2 * ID_DIGITS] for record in seals)
        raise InputError(f"'{seal_id}' begins {len(seals)} seals: {several}; give more digits")
    return seals[0]


def host_environment() -> dict[str, str]:
    system = f"{platform.system()} {platform.machine()}"
    return {"platform": system, "python": platform.python_version(), "host": platform.node()}
