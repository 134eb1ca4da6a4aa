"""The file of a ledger: SQLite that grows only at its end, every record all there or not at all.

It keeps its rollback journal, not a write-ahead log: at rest it is one file that can be copied, committed and read
where nothing may be written, and network file systems are safe. Every commit is synchronous to the end (EXTRA also
syncs the folder once the journal is gone), so what was appended survives a kill or a power cut. Writers take the lock
before they look at the head, so two at once queue up.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.version import __version__
from .record import COLUMNS, GENESIS, SCHEMA, Record, parse_time, text_hash, time_text

APPLICATION = 0x7269646C  # "ridl" in the file's header tells a ledger from other SQLite files
LOCK_TIMEOUT = 30.0  # seconds to wait for another process
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
    "SQLITE_NOTADB": ("it is no ledger", "name another file"),
}


class Broken(InputError):
    """A broken ledger, to which nothing is added."""


class Damaged(Broken):
    """A ledger whose tables cannot even be read as they should."""


class Store:
    """Opened for every call and closed again; problems with the file come as one message."""

    def __init__(self, path: Path, clock: Callable[[], datetime], make_folder: bool) -> None:
        self.path, self._clock, self._make_folder = path, clock, make_folder

    def append(
        self, kind: str, check: Callable[[sqlite3.Connection], None], make: Callable[[sqlite3.Connection, str], str]
    ) -> Record:
        """One record more, all of it or nothing.

        Under the lock `check` refuses a file that takes no more, and `make` gives the content at the record's time.
        """
        with self._open("rwc" if kind == "seal" else "rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            if _empty(connection):
                for statement in (*TABLES, *TRIGGERS):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            self._check_schema(connection)
            check(connection)
            count, previous = head(connection)
            last = records(connection, "ORDER BY number DESC LIMIT 1")
            time = self._time(last[0].time if last else None)
            content = make(connection, time)
            record = Record(count + 1, SCHEMA, kind, time, __version__, content, text_hash(content), previous, "")
            record = replace(record, hash=record.computed_hash())
            marks = ", ".join("?" * len(COLUMNS))
            connection.execute(f"INSERT INTO record VALUES ({marks})", tuple(record.row().values()))
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
            self._check_schema(connection)
            yield connection

    def _time(self, last: str | None) -> str:
        """Now, as the record will hold it; never before the record before."""
        time = self._clock().astimezone(UTC)
        before = parse_time(last) if last else None
        if before is not None and time < before:
            if before - time > MAX_CLOCK_STEP_BACK:
                raise InputError(
                    f"the clock says {time_text(time)}, but the last record of '{self.path}' is of {last}; "
                    "set the clock right, or use another file"
                )
            time = before
        return time_text(time)

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        """A connection whose problems come as one message; what is not committed is gone when it closes."""
        exists = os.path.exists(self.path)
        if exists and not os.path.isfile(self.path):
            raise InputError(f"cannot use '{self.path}' as a ledger: it is no file; name a file")
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
                yield connection
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        if _pragma(connection, "application_id") != APPLICATION:
            raise InputError(f"cannot use '{self.path}': it is a database, but no ledger; name another file")
        version = _pragma(connection, "user_version")
        if version > SCHEMA:
            raise InputError(
                f"the ledger '{self.path}' has schema {version}, known here is {SCHEMA}; install a newer ridgeline"
            )

    def _explained(self, error: sqlite3.Error) -> InputError:
        name = getattr(error, "sqlite_errorname", "")
        for start, (problem, remedy) in FILE_ERRORS.items():
            if name.startswith(start):
                return InputError(f"cannot use the ledger '{self.path}': {problem}; {remedy}")
        return Damaged(f"the ledger '{self.path}' is damaged: {error}; restore it from a copy or use another file")


def records(connection: sqlite3.Connection, rest: str, *values: Any) -> list[Record]:
    return [Record(*row) for row in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM record {rest}", values)]


def head(connection: sqlite3.Connection) -> tuple[int, str]:
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
