"""Ledger: seal predictions, settle them with measurements, verify the chain, report the accuracy."""

from __future__ import annotations

import platform
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...core.errors import InputError, unknown
from ...core.files import user_path
from ...core.intake import Door, clean, refuse_over
from ...machines.folders import folder
from . import store
from .head import Head, expected_head
from .record import (
    ID_DIGITS,
    Record,
    Sealed,
    Settled,
    checked_measurements,
    checked_predictions,
    printable,
    text_hash,
)
from .report import FirstMeasurements, accuracy, markdown
from .store import Broken
from .verify import Finding, check_chain, check_contents, check_tables, compared_item, layout_findings

MAX_LISTED = 24  # seals that a message names
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
        show: Callable[[Sealed], object] = lambda _sealed: None,
    ) -> Sealed:
        """Seal predictions (rows with a `name` each) for the machine whose file has this text.

        `show` gets the seal before it is committed; what it raises leaves the ledger as it was.
        """
        rows, door = checked_predictions(predictions), Door("what is to be sealed")
        content = {
            "predictions": rows,
            "machine": {"name": door.text(machine_name, "machine", needed=True), "hash": text_hash(machine_text)},
            "environment": door.plain({**host_environment(), **(environment or {})}, "environment"),
            "note": door.text(note, "note"),
        }
        door.close()
        made: list[Sealed] = []

        def shown(record: Record) -> None:
            made.append(Sealed.of(record))
            show(made[0])

        self._store.append("seal", lambda _connection, _time: content, shown)
        return made[0]

    def settle(
        self,
        seal_id: str,
        items: Iterable[Mapping[str, Any]],
        observations_meta: Mapping[str, Any] | None = None,
        show: Callable[[Settled], object] = lambda _settled: None,
    ) -> Settled:
        """Settle the predictions of a seal with measurements.

        An item has `name`, `measured_us`, and where known `measured_at` (ISO, with its offset from UTC: when the
        measurement began), `bound_observed` and `cause`. It may also say which prediction it was compared with: the
        row as `prediction`, or any of `predicted_us`, `floor_us`, `bound_predicted`; what differs from the sealed row
        was edited after sealing. One kernel that did several predictions at once names them as `steps` and is held
        against their sum. What is no sealed evidence is kept as unsealed, with the reason. `show` gets the settlement
        before it is committed; what it raises leaves the ledger as it was.
        """
        given, door = checked_measurements(items), Door("what is to be settled")
        observations = door.plain(observations_meta or {}, "observations")
        door.close()
        earlier: list[Record] = []
        made: list[Settled] = []

        def compare(connection: sqlite3.Connection, time: str) -> dict[str, Any]:
            seal = _find(connection, seal_id)
            _refuse_changed(seal)
            earlier.extend(store.records(connection, f"WHERE {store.OF_SEAL} ORDER BY number", seal.hash))
            for settlement in earlier:
                _refuse_changed(settlement)
            rows = {row["name"]: row for row in seal.parsed["predictions"]}
            kept = [compared_item(rows, item, seal, time) for item in given]
            return {"seal": seal.hash, "items": kept, "observations": observations}

        def shown(record: Record) -> None:
            made.append(_settled(earlier, record))
            show(made[0])

        self._store.append("settle", compare, shown)
        return made[0]

    def find(self, seal_id: str) -> Sealed:
        """A seal by its id or any beginning of its hash that fits only one."""
        with self._store.read() as connection:
            return Sealed.of(_find(connection, seal_id))

    def head(self) -> tuple[int, str]:
        """How many records there are, and the hash of the last: what to commit elsewhere."""
        with self._store.read() as connection:
            count, last = store.head(connection)
        return printable(count), printable(last)

    def anchor(self) -> Head:
        """The head of an intact ledger, to be kept or signed elsewhere; Broken where it is not intact."""
        records, _, findings = self._snapshot()
        faults = [finding for finding in findings if finding.fault]
        if faults:
            raise Broken(f"the ledger '{self.path}' is broken, so its head shows nothing: {faults[0].text}")
        if not records:
            raise InputError(f"'{self.path}' has no records: seal predictions first")
        last = records[-1]
        return Head(last.hash, last.number, last.time)

    def export(self) -> list[dict[str, Any]]:
        """Every record with its content as a document (as it stands, where it is none)."""
        with self._store.read() as connection:
            records = store.records(connection, "ORDER BY number")
        return [record.document() for record in records]

    def verify(self, expect: str | Path | None = None) -> list[Finding]:
        """All faults of the ledger; empty when it is intact.

        `expect` is the hash of a head, or the file of one, that was kept elsewhere: everything up to that record is then
        as it was when the head was taken, even if someone cut the end off or recomputed the whole chain.
        """
        kept = None if expect is None else expected_head(expect)
        try:
            records, _, findings = self._snapshot()
        except store.Foreign as error:
            return layout_findings(error.differences)
        except store.Damaged as error:
            return [Finding(None, "damaged", str(error))]
        return findings if kept is None else findings + kept.check(records)

    def report(self) -> dict[str, Any]:
        """Accuracy of the predictions: sealed evidence, its blind part, and unsealed results, separately."""
        return accuracy(*self._snapshot())

    def markdown(self) -> str:
        """The page to read and commit: every seal with its predictions and measurements."""
        return markdown(*self._snapshot())

    def _snapshot(self) -> tuple[list[Record], tuple[int, str], list[Finding]]:
        """All records and the head at one moment, with their faults. They are held as a whole."""
        if self.path.is_file():
            refuse_over("document", self.path.stat().st_size, f"the ledger '{self.path}'")
        with self._store.read() as connection:
            return _all(connection)


def _all(connection: sqlite3.Connection) -> tuple[list[Record], tuple[int, str], list[Finding]]:
    records, head = store.records(connection, "ORDER BY number"), store.head(connection)
    return records, head, check_tables(connection) + check_chain(records, head) + check_contents(records)


def _find(connection: sqlite3.Connection, seal_id: str) -> Record:
    """The one seal whose hash begins so."""
    begins = seal_id.lower()
    seals: list[Record] = []
    if re.fullmatch(f"[0-9a-f]{{{MIN_ID_DIGITS},64}}", begins):
        query = "WHERE kind = 'seal' AND hash >= ? AND hash < ? LIMIT ?"
        seals = store.records(connection, query, begins, begins + "g", MAX_LISTED)  # no hash begins with a "g"
    if not seals:
        query = f"SELECT CAST(substr(hash, 1, {ID_DIGITS}) AS TEXT) FROM record WHERE kind = 'seal' ORDER BY number DESC LIMIT ?"
        raise unknown("seal", clean(seal_id), [clean(str(row[0])) for row in connection.execute(query, (MAX_LISTED,))])
    if len(seals) > 1:
        several = ", ".join(record.hash[: 2 * ID_DIGITS] for record in seals)
        raise InputError(f"'{seal_id}' begins several seals: {several}; give more digits")
    return seals[0]


def _refuse_changed(record: Record) -> None:
    """Raise where a record that a settlement depends on is not as it was written."""
    if not (record.intact and record.parsed):
        raise Broken(
            f"nothing was settled: record {record.number} was changed; see all of it with `ridgeline ledger verify`, "
            "restore a copy or use another file"
        )


def _settled(earlier: Iterable[Record], record: Record) -> Settled:
    """A settlement with its repeats marked, after the earlier ones of the same seal."""
    seal, counted, marked = record.parsed["seal"], FirstMeasurements(), []
    for settlement in (*earlier, record):  # the last is the one to return
        items = settlement.parsed["items"]
        marked = [{**item, "repeat": counted.is_repeat(seal, item, item["sealed"])} for item in items]
    return Settled(seal[:ID_DIGITS], record.number, record.time, tuple(marked), record.hash)


def host_environment() -> dict[str, str]:
    system = f"{platform.system()} {platform.machine()}"
    return {"platform": system, "python": platform.python_version(), "host": platform.node()}
