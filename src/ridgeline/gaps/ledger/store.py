"""The file of a ledger: SQLite that grows only at its end, every record all there or not at all.

It keeps its rollback journal, not a write-ahead log: at rest it is one file that can be copied, committed and read
where nothing may be written, and network file systems are safe. Every commit is synchronous to the end (EXTRA also
syncs the folder once the journal is gone), so what was appended survives a kill or a power cut. Writers take the lock
before they look at the head, so two at once queue up.

An append looks at the layout of the file, the head and the last record, and costs the same however many records there
are; the whole chain is checked by `verify`. The layout is compared before any table is read: views, triggers and
columns that a ledger does not have never run. Steps and sizes are limited (`--limit steps=`, `document=`, `read=`).

A clock that is behind the last record does not stop a ledger. The record keeps the time that the clock says, and says
under `evidence_after` the latest time of any record before it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ...core.errors import MAX_QUOTED, InputError
from ...core.intake import clean, limit, refuse_over
from ...core.intake.limits import over
from ...core.version import __version__
from .record import COLUMNS, GENESIS, SCHEMA, Record, canonical_json, parse_time, text_hash, time_text

APPLICATION = 0x7269646C  # "ridl" in the file's header tells a ledger from other SQLite files
LAYOUT = 2  # of the file: 1 had no indexes, and gets them with its next record
STEPS_BETWEEN = 100_000  # steps of the database between two looks at their limit
LOCK_TIMEOUT = 30.0  # seconds to wait for another process
MAX_LENGTH = 10**9  # bytes of a text, which SQLite itself goes up to
MAX_LAYOUT = 10**5  # bytes of a text that says how a table is made
MAX_NAME = 60  # characters of a foreign name that are shown
MAX_CLOCK_STEP_BACK = timedelta(seconds=2)  # a clock set back by less takes the time of the last record

TABLES = (
    """CREATE TABLE record (
        number INTEGER PRIMARY KEY, schema INTEGER NOT NULL, kind TEXT NOT NULL, time TEXT NOT NULL,
        ridgeline TEXT NOT NULL, content TEXT NOT NULL, content_hash TEXT NOT NULL, previous TEXT NOT NULL,
        hash TEXT NOT NULL)""",
    "CREATE TABLE head (only_row INTEGER PRIMARY KEY CHECK (only_row = 1), count INTEGER NOT NULL, hash TEXT NOT NULL)",
    f"INSERT INTO head VALUES (1, 0, '{GENESIS}')",
)
# A replacing insert deletes without asking the delete trigger; it fails because the head moves on by one and only one.
TRIGGERS = (
    """CREATE TRIGGER record_follows BEFORE INSERT ON record
        WHEN NEW.previous IS NOT (SELECT hash FROM head)
        BEGIN SELECT RAISE(ABORT, 'a ledger grows only at its end'); END""",
    """CREATE TRIGGER record_counts AFTER INSERT ON record
        BEGIN UPDATE head SET count = NEW.number, hash = NEW.hash; END""",
    "CREATE TRIGGER record_stays BEFORE UPDATE ON record BEGIN SELECT RAISE(ABORT, 'a record is never changed'); END",
    "CREATE TRIGGER record_is_kept BEFORE DELETE ON record BEGIN SELECT RAISE(ABORT, 'a record is never removed'); END",
    """CREATE TRIGGER head_moves BEFORE UPDATE ON head
        WHEN NEW.only_row IS NOT 1 OR NEW.count IS NOT OLD.count + 1
            OR NEW.hash IS NOT (SELECT hash FROM record WHERE number = NEW.count)
        BEGIN SELECT RAISE(ABORT, 'the head moves only with a new record'); END""",
    "CREATE TRIGGER head_is_one BEFORE INSERT ON head BEGIN SELECT RAISE(ABORT, 'there is one head'); END",
    "CREATE TRIGGER head_is_kept BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'the head is never removed'); END",
)
# A seal by its id, and the settlements of a seal: the hash of the seal is what their content ends with.
INDEXES = (
    "CREATE INDEX seal_hash ON record (hash) WHERE kind = 'seal'",
    "CREATE INDEX settled_seal ON record (substr(content, -66, 64)) WHERE kind = 'settle'",
)
OF_SEAL = "kind = 'settle' AND substr(content, -66, 64) = ?"
LAYOUTS = {1: (*TABLES, *TRIGGERS), LAYOUT: (*TABLES, *TRIGGERS, *INDEXES)}
# By the start of SQLite's error name: what it means for a ledger, and what to do.
FILE_ERRORS = {
    "SQLITE_BUSY": (f"another process kept it locked for {LOCK_TIMEOUT:g} s", "try again when it is done"),
    "SQLITE_FULL": ("the disk is full; nothing was added, what was sealed before is safe", "free space and try again"),
    "SQLITE_IOERR": (
        "the disk is full or failing; nothing was added, what was sealed before is safe",
        "free space or choose another place, then try again",
    ),
    "SQLITE_READONLY": ("it may not be written", "change its rights or name another file"),
    "SQLITE_CANTOPEN": ("it cannot be opened", "check the folder and its rights, or name another file"),
    "SQLITE_NOTADB": ("it is not a ledger", "name another file"),
}


class Broken(InputError):
    """A broken ledger, to which nothing is added."""


class Damaged(Broken):
    """A ledger whose tables cannot even be read as they should."""


@dataclass(frozen=True)
class Difference:
    """A part of the layout that is not as a ledger has it."""

    name: str
    how: str
    harmless: bool  # to reading: a trigger or an index is missing

    @property
    def text(self) -> str:
        return f"'{self.name}' {self.how}: another program wrote this file"


class Foreign(Damaged):
    """A file whose layout is not that of a ledger; nothing in it is read."""

    def __init__(self, path: Path, differences: Sequence[Difference]) -> None:
        more = f", and {len(differences) - 1} more" if len(differences) > 1 else ""
        super().__init__(
            f"the ledger '{path}' cannot be trusted and was not read: {differences[0].text}{more}; "
            "restore it from a copy or use another file"
        )
        self.differences = differences


class Store:
    """Opened for every call and closed again; problems with the file come as one message."""

    def __init__(self, path: Path, clock: Callable[[], datetime], make_folder: bool) -> None:
        self.path, self._clock, self._make_folder = path, clock, make_folder

    def append(
        self,
        kind: str,
        make: Callable[[sqlite3.Connection, str], dict[str, Any]],
        show: Callable[[Record], object],
    ) -> Record:
        """One record more, all of it or nothing.

        Under the lock `make` gives the content at the record's time, and `show` gets the record before it is committed:
        what it raises leaves the ledger as it was.
        """
        with self._open("rwc" if kind == "seal" else "rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            if _empty(connection):
                for statement in LAYOUTS[LAYOUT]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {LAYOUT}")
            differences = self._check_layout(connection)
            if differences:
                raise self._broken(differences[0].text)
            if _pragma(connection, "user_version") < LAYOUT:
                for statement in INDEXES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {LAYOUT}")
            last = self._last(connection)
            time, latest = self._time(last)
            content = make(connection, time)
            if latest:
                content["evidence_after"] = latest
            text = canonical_json(content, "the record")
            refuse_over("document", len(text), "what is to be recorded")
            number, previous = (last.number + 1, last.hash) if last else (1, GENESIS)
            record = Record(number, SCHEMA, kind, time, __version__, text, text_hash(text), previous, "")
            record = replace(record, hash=record.computed_hash())
            marks = ", ".join("?" * len(COLUMNS))
            connection.execute(f"INSERT INTO record VALUES ({marks})", tuple(record.row().values()))
            show(record)
            connection.execute("COMMIT")
        return record

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """The ledger at one moment."""
        with self._open("rw") as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            if _empty(connection):
                raise InputError(f"'{self.path}' is empty: seal predictions first, or name another file")
            self._check_layout(connection)
            yield connection

    def _last(self, connection: sqlite3.Connection) -> Record | None:
        """The last record, which must be intact and the one that the head names."""
        count, named = head(connection)
        last = next(iter(records(connection, "ORDER BY number DESC LIMIT 1")), None)
        if last is None and (count, named) == (0, GENESIS):
            return None
        number = last.number if last else 0
        if last is None or type(count) is not int or number != count:
            raise self._broken(f"the head counts {count} records, the last one is record {number}")
        if not last.intact:
            raise self._broken(f"record {number} was changed")
        if last.hash != named:
            raise self._broken(f"the head was changed: its hash is not that of record {number}")
        if last.schema != SCHEMA or not last.parsed:
            raise self._broken(f"record {number} is not a record of schema {SCHEMA}")
        return last

    def _broken(self, problem: str) -> Broken:
        return Broken(
            f"the ledger '{self.path}' is broken and was not changed: {problem}; "
            "see all of it with `ridgeline ledger verify`, restore a copy or use another file"
        )

    def _time(self, last: Record | None) -> tuple[str, str]:
        """Now, as the record will hold it; and the latest time of the records before, where the clock is behind it."""
        time = self._clock().astimezone(UTC)
        latest = parse_time(last.evidence_after) if last else None
        if latest is None or time >= latest:
            return time_text(time), ""
        if latest - time <= MAX_CLOCK_STEP_BACK:
            return time_text(latest), ""
        return time_text(time), time_text(latest)

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        """A connection whose problems come as one message; what is not committed is gone when it closes."""
        exists = os.path.exists(self.path)
        if exists:
            refuse_over("read", os.path.getsize(self.path), f"the ledger '{self.path}'")
        if exists and not os.path.isfile(self.path):
            raise InputError(f"cannot use '{self.path}' as a ledger: it is not a file; name a file")
        if mode == "rw" and not exists:
            raise InputError(f"there is no ledger '{self.path}': seal predictions first, or name another file")
        if not os.path.isdir(self.path.parent):
            if not self._make_folder:
                raise InputError(f"cannot write '{self.path}': there is no such folder; create it first")
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"cannot make the folder '{self.path.parent}': {error.strerror}; name another file"
                ) from error
        # A reader opens for writing too where it may: what a killed writer left half done must be taken back first.
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            with closing(sqlite3.connect(address, LOCK_TIMEOUT, uri=True, isolation_level=None)) as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA cell_size_check = ON")
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_LAYOUT)  # until the layout is known to be ours
                connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
                _limit_steps(connection)
                yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error
        except UnicodeDecodeError as error:  # SQLite's message quotes a broken text of the file
            raise self._damaged("a text in it is not valid") from error

    def _check_layout(self, connection: sqlite3.Connection) -> list[Difference]:
        """What is missing and harmless; any other difference is refused before a table is read."""
        if _pragma(connection, "application_id") != APPLICATION:
            raise InputError(f"cannot use '{self.path}': it is a database, but no ledger; name another file")
        version = _pragma(connection, "user_version")
        if version > LAYOUT:
            raise InputError(
                f"the ledger '{self.path}' has schema {version}, known here is {LAYOUT}; install a newer ridgeline"
            )
        differences = layout_differences(connection, version)
        if not all(difference.harmless for difference in differences):
            raise Foreign(self.path, differences)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, int(min(limit("document"), MAX_LENGTH)))
        return differences

    def _explained(self, error: sqlite3.Error) -> InputError:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_INTERRUPT":
            return over("steps", f"the work on the ledger '{self.path}'")
        if name == "SQLITE_TOOBIG":
            return over("document", f"a record of the ledger '{self.path}'")
        for start, (problem, remedy) in FILE_ERRORS.items():
            if name.startswith(start):
                return InputError(f"cannot use the ledger '{self.path}': {problem}; {remedy}")
        return self._damaged(clean(str(error), MAX_QUOTED))

    def _damaged(self, problem: str) -> Damaged:
        return Damaged(f"the ledger '{self.path}' is damaged: {problem}; restore it from a copy or use another file")


def layout_differences(connection: sqlite3.Connection, version: int) -> list[Difference]:
    """Tables, triggers and indexes that are missing, changed or foreign, by their text in the file."""

    def layout(where: sqlite3.Connection) -> list[tuple[Any, ...]]:
        return where.execute("SELECT name, type, tbl_name, sql FROM sqlite_master").fetchall()

    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in LAYOUTS.get(version, LAYOUTS[1]):
            fresh.execute(statement)
        expected = {row[0]: row for row in layout(fresh)}
    known = frozenset(expected)
    actual = layout(connection)
    names = {row[0] for row in actual}
    differences = [
        Difference(name, "is missing", row[1] != "table") for name, row in expected.items() if name not in names
    ]
    for row in actual:
        if row != expected.pop(row[0], None):
            how = "was changed" if row[0] in known else "does not belong to a ledger"
            differences.append(Difference(clean(str(row[0]), MAX_NAME), how, False))
    return sorted(differences, key=lambda difference: (difference.harmless, difference.name))


def _limit_steps(connection: sqlite3.Connection) -> None:
    """Interrupt the connection once it has done more steps than the limit."""
    looks = iter(range(int(limit("steps") / STEPS_BETWEEN)))
    connection.set_progress_handler(lambda: next(looks, None) is None, STEPS_BETWEEN)


def records(connection: sqlite3.Connection, rest: str, *values: Any) -> list[Record]:
    return [Record(*row) for row in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM record {rest}", values)]


def head(connection: sqlite3.Connection) -> tuple[Any, Any]:
    """How many records there are and the hash of the last, as the file has them."""
    heads = connection.execute("SELECT count, hash FROM head").fetchall()
    if len(heads) != 1:
        raise Damaged(f"the ledger is damaged: it has {len(heads)} heads instead of one; restore it from a copy")
    return heads[0][0], heads[0][1]


def _empty(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever written: a new file, or one whose first write was cut off."""
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return not tables and not _pragma(connection, "application_id")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
