"""The ledger: predictions sealed before the run and settled after it, in one file that only grows.

    hash(n) = SHA-256 of record n's fields, among them hash(n - 1) and the hash of its content;
    the number n itself is its place in the chain

What the chain finds: any field of any record that was changed, a record removed, put in, replaced or moved, and,
because the head counts along, records cut off at the end. What it cannot find alone: a ledger written anew from the
start with every hash recomputed, an older copy of the whole file, and a computer whose clock was set wrong on
purpose. Against the first two stands the head's hash, committed where others see it (it is on top of the markdown
view): `verify(expect=...)` asks whether that record is still in the chain. Against the third stands whoever dates
that commit.

The file is SQLite with its rollback journal, not a write-ahead log: at rest it is one file that can be copied,
committed and read where nothing may be written, and network file systems are safe. Every commit is synchronous to
the end (EXTRA also syncs the folder once the journal is gone), so what `seal` returned survives a kill or a power
cut. Writers take the lock before they look at the head, so two at once queue up.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from . import __version__
from .errors import InputError, unknown
from .storage import folder

SCHEMA = 1
APPLICATION = 0x7269646C  # "ridl" in the file's header tells a ledger from other SQLite files
GENESIS = "0" * 64  # what the first record has before it
SHORT, LEAST = 12, 4  # hex digits of a seal's id, and the fewest that may stand for it
PATIENCE = 30.0  # seconds to wait for another process
SLACK = timedelta(seconds=2)  # a clock set back by less than this is evened out
NOMINAL, SURE = 0.8, 1.959964  # what an interval promises; normal quantile of a 95 % uncertainty
VAGUE = 0.4  # an uncertainty of a share so wide that agreeing with it says nothing
WORST = 10

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
# By the start of SQLite's own error name: what it means here, and what to do.
TROUBLES = {
    "SQLITE_BUSY": (f"another process kept it locked for {PATIENCE:g} s", "try again when it is done"),
    "SQLITE_FULL": ("the disk is full; nothing was added, what was sealed before is safe", "free space and try again"),
    "SQLITE_IOERR": (
        "the disk is full or failing; nothing was added, what was sealed before is safe",
        "free space or choose another place, then try again",
    ),
    "SQLITE_READONLY": ("it may not be written", "change its rights or name another file"),
    "SQLITE_CANTOPEN": ("it cannot be opened", "check the folder and its rights, or name another file"),
    "SQLITE_NOTADB": ("it is no ledger", "name another file"),
}


class Damaged(InputError):
    """A ledger whose tables cannot be read as they should."""


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
            _form(self.kind, content)
        except (InputError, AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return {}
        return content


COLUMNS = tuple(field.name for field in fields(Record))
SELECT = f"SELECT {', '.join(COLUMNS)} FROM record"


@dataclass(frozen=True)
class Finding:
    """Something wrong with a ledger: which record (none: the file as a whole), what happened to it, in words."""

    record: int | None
    what: str
    text: str


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


def canonical(document: Any, what: str) -> str:
    """JSON with one spelling only; `what` names the document in the complaint."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"a {type(value).__name__}")

    try:
        return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"{what} cannot be written as JSON: {error}; give finite numbers, texts, lists and mappings"
        ) from error


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 over the document's content, keys in order, its own hash left out."""
    content = {key: value for key, value in document.items() if key != "hash"}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def moment(text: str) -> datetime | None:
    """The time a text names; None where it names none or does not say its offset from UTC."""
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(UTC) if found.tzinfo else None
    except (TypeError, ValueError, OverflowError):
        return None


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
        self.path, self._clock, self._own = path, clock, own

    # Writing

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
        return sealed(self._append("seal", lambda _connection, _time: text))

    def settle(
        self, seal_id: str, items: Iterable[Mapping[str, Any]], observations_meta: Mapping[str, Any] | None = None
    ) -> Settled:
        """Put measurements beside a seal's predictions.

        An item has `name`, `measured_us`, and where known `measured_at` (ISO, with its offset from UTC: when the
        measurement began), `bound_observed` and `cause`. It may also say which prediction it was compared with: the
        row as `prediction`, or any of `predicted_us`, `floor_us`, `bound_predicted`; what differs from the sealed row
        was edited after sealing. What is no sealed evidence is kept as unsealed, with the reason.
        """
        given = [measured(item) for item in items]
        if not given:
            raise InputError("nothing to settle: give at least one measured item")
        earlier: list[Record] = []

        def compare(connection: sqlite3.Connection, time: str) -> str:
            found = self._find(connection, seal_id)
            rows = {row["name"]: row for row in found.said.get("predictions", ())}
            since = _records(connection, "WHERE number >= ? ORDER BY number", found.number)
            earlier.extend(record for record in since if record.kind == "settle")
            broken = "" if found.number in standing(since, _head(connection)[1]) else ALTERED
            kept = []
            for item in given:
                row = rows.get(item["name"])
                item = {key: value for key, value in item.items() if key != "claims"} | edits(row, item["claims"])
                reason = broken or judge(row, found.time, item, time)
                kept.append({**item, "sealed": not reason, "reason": reason})
            return canonical(
                {"seal": found.hash, "items": kept, "observations": dict(observations_meta or {})},
                "what is to be settled",
            )

        record = self._append("settle", compare)
        content = json.loads(record.content)
        counted = {
            item["name"]
            for said in (other.said for other in earlier)
            if said.get("seal") == content["seal"]
            for item in said["items"]
            if item["sealed"]
        }
        told = []
        for item in content["items"]:
            told.append({**item, "repeat": item["sealed"] and item["name"] in counted})
            counted |= {item["name"]} if item["sealed"] else set()
        return Settled(content["seal"][:SHORT], record.number, record.time, tuple(told), record.hash)

    def _append(self, kind: str, make: Callable[[sqlite3.Connection, str], str]) -> Record:
        """One record more, all of it or nothing; `make` gives the content, under the lock and at the record's time."""
        with self._open("rwc" if kind == "seal" else "rw") as connection:
            connection.execute("BEGIN IMMEDIATE")
            if _empty(connection):
                for statement in (*TABLES, *TRIGGERS):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            self._recognise(connection)
            count, previous = _head(connection)
            last = _records(connection, "ORDER BY number DESC LIMIT 1")
            if (count, previous) != ((last[0].number, last[0].hash) if last else (0, GENESIS)):
                raise Damaged(
                    f"the ledger '{self.path}' is broken at its end: its head counts {count} records, the last is "
                    f"{last[0].number if last else 'missing'}; look with `ridgeline ledger verify` and use another file"
                )
            time = self._time(last[0].time if last else None)
            content = make(connection, time)
            record = Record(count + 1, SCHEMA, kind, time, __version__, content, text_hash(content), previous, "")
            record = replace(record, hash=record.own())
            marks = ", ".join("?" * len(COLUMNS))
            connection.execute(f"INSERT INTO record VALUES ({marks})", tuple(record.row().values()))
            connection.execute("COMMIT")
        return record

    def _time(self, last: str | None) -> str:
        """Now, as it will stand in the record; never before the record before."""
        time = self._clock().astimezone(UTC)
        before = moment(last) if last else None
        if before is not None and time < before:
            if before - time > SLACK:
                raise InputError(
                    f"the clock says {stamp(time)}, but the last record of '{self.path}' is of {last}; "
                    "set the clock right, or use another file"
                )
            time = before
        return stamp(time)

    # Reading

    def find(self, seal_id: str) -> Sealed:
        """A seal by its id or any beginning of its hash that fits only one."""
        with self._read() as connection:
            return sealed(self._find(connection, seal_id))

    def head(self) -> tuple[int, str]:
        """How many records there are, and the hash of the last: what to commit elsewhere."""
        with self._read() as connection:
            return _head(connection)

    def export(self) -> list[dict[str, Any]]:
        """Every record with its content as a document (as it stands, where it is none)."""
        with self._read() as connection:
            records = _records(connection, "ORDER BY number")
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
        except Damaged as error:
            return [Finding(None, "damaged", str(error))]
        if expect is not None and not any(record.linked and record.hash == expect for record in records):
            text = f"no record has the expected hash {expect}: the ledger was written anew or cut back since"
            findings.append(Finding(None, "expected", text))
        return findings

    def report(self) -> dict[str, Any]:
        """How good the predictions were; sealed evidence, the blind part of it and unsealed results apart."""
        records, (count, last), findings = self._snapshot()
        cases = joined(records, standing(records, last))
        first = [case for case in cases if case["sealed"] and not case["repeat"]]
        unsealed = [case for case in cases if not case["sealed"]]
        seals = [said["predictions"] for said in (record.said for record in records) if "predictions" in said]
        predictions = sum(map(len, seals))
        return {
            "schema": SCHEMA,
            "ridgeline": __version__,
            "head": {"count": shown(count), "hash": shown(last)},
            "intact": not findings,
            "findings": [asdict(finding) for finding in findings],
            "seals": len(seals),
            "predictions": predictions,
            "settled": len(first),
            "open": predictions - len(first),
            "repeats": sum(case["repeat"] for case in cases),
            "sealed": summary(first),
            "blind": summary([case for case in first if case["blind"]]),
            "unsealed": summary(unsealed) | {"reasons": dict(Counter(case["reason"] for case in unsealed))},
            "cases": cases,
        }

    def markdown(self) -> str:
        """The page to read and commit: every seal with its predictions, what was measured beside them."""
        records, (count, last), findings = self._snapshot()
        by_seal: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for case in joined(records, standing(records, last)):
            by_seal[case["seal"]].append(case)
        lines = [
            "# Predictions",
            "",
            f"Head: `{cell(last)}` after {cell(count)} record{'' if count == 1 else 's'}.",
            "",
            f"To check a ledger against this page: `ridgeline ledger verify --expect {cell(last)}`.",
            "",
        ]
        if findings:
            lines += ["**This ledger is broken.** What the chain does not vouch for is shown as unsealed.", ""]
            lines += [f"- {cell(finding.text)}" for finding in findings] + [""]
        for record in records:
            if record.typed and record.kind == "seal" and record.said:
                lines += _section(record, by_seal[record.hash[:SHORT]])
        return "\n".join(lines)

    def _snapshot(self) -> tuple[list[Record], tuple[int, str], list[Finding]]:
        """All records and the head at one moment, with all that is wrong with them."""
        with self._read() as connection:
            findings = _layout(connection)
            records, head = _records(connection, "ORDER BY number"), _head(connection)
        return records, head, findings + chain(records, head) + meaning(records)

    # The file

    @contextmanager
    def _open(self, mode: str) -> Iterator[sqlite3.Connection]:
        """A connection whose troubles come as one message; what is not committed is gone when it closes."""
        exists = os.path.exists(self.path)
        if exists and not os.path.isfile(self.path):
            raise InputError(f"cannot use '{self.path}' as a ledger: it is no file; name a file")
        if mode == "rw" and not exists:
            raise InputError(f"there is no ledger '{self.path}': seal something first, or name another file")
        if not os.path.isdir(self.path.parent):
            if not self._own:
                raise InputError(f"cannot write '{self.path}': there is no such folder; create it first")
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    f"cannot make the folder '{self.path.parent}': {error.strerror}; name a file with --ledger"
                ) from error
        # A reader opens for writing too where it may: what a killed writer left half done must be taken back first.
        address = f"{self.path.absolute().as_uri()}?mode={mode}"
        try:
            with closing(sqlite3.connect(address, PATIENCE, uri=True, isolation_level=None)) as connection:
                connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA trusted_schema = OFF")
                yield connection
        except sqlite3.Error as error:
            raise self._told(error) from error

    @contextmanager
    def _read(self) -> Iterator[sqlite3.Connection]:
        """The ledger at one moment."""
        with self._open("rw") as connection:
            connection.execute("PRAGMA query_only = ON")
            connection.execute("BEGIN")
            if _empty(connection):
                raise InputError(f"there is nothing in '{self.path}' yet: seal something first, or name another file")
            self._recognise(connection)
            yield connection

    def _recognise(self, connection: sqlite3.Connection) -> None:
        if _pragma(connection, "application_id") != APPLICATION:
            raise InputError(f"cannot use '{self.path}': it is a database, but no ledger; name another file")
        version = _pragma(connection, "user_version")
        if version > SCHEMA:
            raise InputError(
                f"the ledger '{self.path}' has schema {version}, known here is {SCHEMA}; install a newer ridgeline"
            )

    def _told(self, error: sqlite3.Error) -> InputError:
        name = getattr(error, "sqlite_errorname", "")
        for start, (found, remedy) in TROUBLES.items():
            if name.startswith(start):
                return InputError(f"cannot use the ledger '{self.path}': {found}; {remedy}")
        return Damaged(f"the ledger '{self.path}' is damaged: {error}; restore it from a copy or use another file")

    def _find(self, connection: sqlite3.Connection, seal_id: str) -> Record:
        """The one seal whose hash begins so."""
        begins = seal_id.lower()
        found = _records(connection, "WHERE kind = 'seal' AND substr(hash, 1, ?) = ?", len(begins), begins)
        if not found or len(begins) < LEAST:
            ids = connection.execute(f"SELECT CAST(substr(hash, 1, {SHORT}) AS TEXT) FROM record WHERE kind = 'seal'")
            raise unknown("seal", seal_id, [row[0] for row in ids], "`ridgeline ledger` lists them.")
        if len(found) > 1:
            several = ", ".join(record.hash[: 2 * SHORT] for record in found)
            raise InputError(f"'{seal_id}' begins {len(found)} seals: {several}; give more digits")
        return found[0]


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _empty(connection: sqlite3.Connection) -> bool:
    """Whether nothing was ever written: a new file, or one whose first write was cut off."""
    return not connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] and not _pragma(
        connection, "application_id"
    )


def _records(connection: sqlite3.Connection, rest: str, *values: Any) -> list[Record]:
    return [Record(*row) for row in connection.execute(f"{SELECT} {rest}", values)]


def _head(connection: sqlite3.Connection) -> tuple[int, str]:
    found = connection.execute("SELECT count, hash FROM head").fetchall()
    if len(found) != 1:
        raise Damaged(f"the ledger is damaged: it has {len(found)} heads instead of one; restore it from a copy")
    return found[0][0], found[0][1]


def _layout(connection: sqlite3.Connection) -> list[Finding]:
    """Tables and triggers that are not as they were made: missing, changed, or somebody else's."""

    def drawn(where: sqlite3.Connection) -> dict[str, str]:
        return dict(where.execute("SELECT name, sql FROM sqlite_master").fetchall())

    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in (*TABLES, *TRIGGERS):
            fresh.execute(statement)
        wanted = drawn(fresh)
    found = drawn(connection)
    findings = []
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            how = "is missing"
        elif name not in wanted:
            how = "does not belong to a ledger"
        elif wanted[name] != found[name]:
            how = "was changed"
        else:
            continue
        findings.append(Finding(None, "schema", f"'{name}' {how}: something other than ridgeline wrote this file"))
    damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        findings.append(Finding(None, "damaged", f"the file is damaged: {damage}"))
    return findings


def shown(value: Any) -> Any:
    """A stored value that any JSON or page can hold, whatever someone put in its place."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value if isinstance(value, int | float | None) else repr(value)


def stamp(time: datetime) -> str:
    return time.astimezone(UTC).isoformat(timespec="microseconds")


def surroundings() -> dict[str, str]:
    system = f"{platform.system()} {platform.machine()}"
    return {"platform": system, "python": platform.python_version(), "host": platform.node()}


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


# What comes in

TIMES = ("floor_us", "time_us", "low_us", "high_us")
FROM_ZERO = ("floor_us", "low_us")


def checked(predictions: Iterable[Any]) -> list[dict[str, Any]]:
    """Predictions that can be settled later: named, each name once, times that are times."""
    rows = [dict(row) if isinstance(row, Mapping) else {} for row in predictions]
    if not rows:
        raise InputError("nothing to seal: give at least one prediction")
    seen: set[str] = set()
    for place, row in enumerate(rows, 1):
        name = row.get("name")
        if not isinstance(name, str) or not name.strip():
            raise InputError(f"prediction {place} has no name; give each row a `name` to be settled by")
        if name in seen:
            raise InputError(f"two predictions are named '{name}'; give each its own name")
        seen.add(name)
        for field in TIMES:
            _number(row.get(field), f"{field} of prediction '{name}'", zero=field in FROM_ZERO)
        low, high = row.get("low_us"), row.get("high_us")
        if (low is None) != (high is None) or (low is not None and low > high):
            raise InputError(
                f"the interval of prediction '{name}' is {low} to {high}; give low_us <= high_us, or neither"
            )
    return rows


def _number(value: Any, what: str, zero: bool = False) -> None:
    """Refuses what is neither absent nor a time in microseconds; the bounds keep every ratio finite."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if value is not None and not (number and (1e-9 <= value <= 1e15 or (zero and value == 0))):
        raise InputError(f"{what} is {value!r}; give microseconds{' from 0' if zero else ''} between 1e-9 and 1e15")


CLAIMS = {"predicted_us": "time_us", "floor_us": "floor_us", "bound_predicted": "bound"}


def measured(item: Mapping[str, Any]) -> dict[str, Any]:
    """One measured item as it will be kept, with what it says of its prediction under `claims`."""
    name = item.get("name") if isinstance(item, Mapping) else None
    if not isinstance(name, str) or not name.strip():
        raise InputError("a measured item has no name; give the `name` of its prediction")
    if item.get("measured_us") is None:
        raise InputError(f"'{name}' has no measured_us; give the measured time in microseconds")
    _number(item["measured_us"], f"measured_us of '{name}'")
    at = item.get("measured_at") or None
    if at is not None:
        try:
            datetime.fromisoformat(at)
        except (TypeError, ValueError) as error:
            raise InputError(
                f"measured_at of '{name}' is {at!r}; give an ISO time with its offset, as 2026-01-31T12:00:00+00:00"
            ) from error
        known = moment(at)
        at = stamp(known) if known else at
    row = item.get("prediction")
    if row is not None and not isinstance(row, Mapping):
        raise InputError(f"the prediction of '{name}' is {row!r}; give the whole row, or leave it out")
    claims = {field: item.get(key) for key, field in CLAIMS.items() if item.get(key) is not None}
    told = claims if row is None else dict(row)
    for field in TIMES:
        _number(told.get(field), f"{field} of the prediction of '{name}'", zero=field in FROM_ZERO)
    kept = {
        "name": name,
        "measured_us": item["measured_us"],
        "measured_at": at,
        "bound_observed": item.get("bound_observed") or None,
        "cause": item.get("cause") or "",
        "claims": {"row": told, "all": row is not None},
    }
    normal: dict[str, Any] = json.loads(canonical(kept, f"the measured item '{name}'"))
    return normal


def edits(row: Mapping[str, Any] | None, claims: Mapping[str, Any]) -> dict[str, Any]:
    """What a measurement was compared with, where that is not what the seal holds."""
    was, told = row or {}, claims["row"]
    compared = sorted(told.keys() | was.keys()) if claims["all"] else sorted(told)
    differing = {field: told.get(field) for field in compared if told.get(field) != was.get(field)}
    return {"claimed": differing} if differing else {}


# What the chain says


ALTERED = "the seal does not stand in the chain as it was made"


def judge(row: Mapping[str, Any] | None, sealed_at: str, item: Mapping[str, Any], settled_at: str) -> str:
    """Why a measurement is no sealed evidence for a prediction; empty when it is."""
    if row is None:
        return "no prediction of this name was sealed"
    if item.get("claimed"):
        parts = [f"{key} was {row.get(key)!r}, is {value!r}" for key, value in item["claimed"].items()]
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        return f"the prediction was edited after sealing: {'; '.join(parts[:3])}{more}"
    if item.get("measured_at") is None:
        return "not known when it was measured"
    begun, fixed, end = moment(item["measured_at"]), moment(sealed_at), moment(settled_at)
    if begun is None or fixed is None or end is None:
        return f"measured at {item['measured_at']}, which does not say its offset from UTC"
    if begun <= fixed:
        return f"measured at {stamp(begun)}, not after the sealing at {stamp(fixed)}"
    if begun > end:
        return f"measured at {stamp(begun)}, which is after the settling at {stamp(end)}"
    return ""


def chain(records: Sequence[Record], head: tuple[int, str]) -> list[Finding]:
    """Whether every record is as it was written and follows the one before."""
    findings: list[Finding] = []
    places = {GENESIS: "none"} | {record.hash: f"what is now record {record.number}" for record in records}
    before, expected = GENESIS, 1
    for record in records:
        number = record.number
        if number > expected:
            findings.append(_missing(expected, number - 1))
        if number < expected:
            findings.append(Finding(number, "inserted", f"record {number}: a ledger begins with record 1"))
        elif not record.whole:
            what = "its content" if record.linked else "a field or its hash"
            findings.append(Finding(number, "altered", f"record {number}: {what} was changed"))
        elif number == expected and record.previous != before:
            known = record.previous in places
            how = f"it was made after {places[record.previous]}" if known else "the record it was made after is gone"
            text = f"record {number} does not follow the record before it: {how}"
            findings.append(Finding(number, "moved" if known else "replaced", text))
        before, expected = record.hash, max(number, 0) + 1
    count, last = head
    if type(count) is not int or type(last) is not str or count < 0:
        findings.append(Finding(None, "head", f"the head was changed: it holds {count!r} and {last!r}"))
    elif count >= expected:
        findings.append(_missing(expected, count))
    elif count < expected - 1:
        text = f"record {expected - 1}: the head counts only {count} records; what is after them was put there later"
        findings.append(Finding(expected - 1, "inserted", text))
    elif last != before:
        findings.append(Finding(None, "head", f"the head was changed: it says {last!r}, the last record {before!r}"))
    return findings


def _missing(first: int, last: int) -> Finding:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return Finding(first, "removed", f"{which} missing")


def meaning(records: Sequence[Record]) -> list[Finding]:
    """Whether what the sound records say can be: their form, the order of their times, evidence its seal bears out."""
    findings: list[Finding] = []
    seals: dict[str, tuple[Record, dict[str, Any]]] = {}
    before: datetime | None = None
    for record in records:
        if not record.whole:
            continue
        number, said, time = record.number, record.said, moment(record.time)
        if record.schema != SCHEMA or time is None or not said:
            text = f"record {number}: this is no record of schema {SCHEMA}; something other than ridgeline wrote it"
            findings.append(Finding(number, "schema", text))
            continue
        if before is not None and time < before:
            findings.append(
                Finding(number, "time", f"record {number} is of {stamp(time)}, before the record before it")
            )
        before = time
        if record.kind == "seal":
            seals[record.hash] = (record, {row["name"]: row for row in said["predictions"]})
            continue
        made, rows = seals.get(said["seal"], (None, {}))
        for item in said["items"]:
            reason = judge(rows.get(item["name"]), made.time, item, record.time) if made else "there is no such seal"
            if item["sealed"] and reason:
                text = f"record {number} calls {item['name']!r} sealed evidence, but: {reason}"
                findings.append(Finding(number, "judged", text))
    return findings


def _form(kind: str, content: Any) -> None:
    """Raises where a record's content is not what `seal` or `settle` writes."""
    if kind == "seal":
        checked(content["predictions"])
        named = isinstance(content["machine"]["name"], str) and isinstance(content["note"], str)
        if not named or not isinstance(content["environment"], dict):
            raise InputError("no seal")
    elif kind == "settle":
        for item in content["items"]:
            measured(item)
            for field in TIMES:
                _number(item.get("claimed", {}).get(field), field, zero=field in FROM_ZERO)
            if item["sealed"] is not (item["reason"] == "") or not isinstance(item["reason"], str):
                raise InputError("no verdict")
        if not isinstance(content["seal"], str):
            raise InputError("no seal's hash")
    else:
        raise InputError("no kind of record")


def standing(records: Sequence[Record], last: str) -> set[int]:
    """The records the head vouches for: followed back from it, hash by hash, to the first break."""
    found: set[int] = set()
    sought = last
    for record in reversed(records):
        if not record.linked or record.hash != sought:
            break
        if record.whole:
            found.add(record.number)
        sought = record.previous
    return found


# What the record says about the predictions


def joined(records: Sequence[Record], vouched: set[int]) -> list[dict[str, Any]]:
    """Every measurement beside its prediction, in the order they were settled.

    The first sealed measurement of a prediction counts, later ones are repeats. A prediction is blind when no
    measurement of the same case on the same machine stood in the ledger before it was sealed.
    """
    cases: list[dict[str, Any]] = []
    seals: dict[str, tuple[Record, str, dict[str, Any], set[str]]] = {}
    counted: set[tuple[str, str]] = set()
    known: set[str] = set()
    for record in records:
        said = record.said
        if "predictions" in said:
            machine, rows = said["machine"]["name"], {row["name"]: row for row in said["predictions"]}
            blind = {name for name, row in rows.items() if _same(machine, row) not in known}
            seals[record.hash] = (record, machine, rows, blind)
        if said.get("seal") not in seals:
            continue
        made, machine, rows, blind = seals[said["seal"]]
        for item in said["items"]:
            row = rows.get(item["name"])
            reason = item["reason"] or judge(row, made.time, item, record.time)
            if not {made.number, record.number} <= vouched:
                reason = reason or ALTERED
            key = (made.hash, item["name"])
            used = {**(row or {"name": item["name"]}), **item.get("claimed", {})}
            cases.append(
                {
                    "name": item["name"],
                    "family": str(used.get("family") or used.get("op") or "other"),
                    "machine": machine,
                    "seal": made.hash[:SHORT],
                    "sealed_at": made.time,
                    "measured_at": item.get("measured_at"),
                    "floor_us": used.get("floor_us"),
                    "predicted_us": used.get("time_us"),
                    "low_us": used.get("low_us"),
                    "high_us": used.get("high_us"),
                    "measured_us": item["measured_us"],
                    "error": used["time_us"] / item["measured_us"] - 1 if used.get("time_us") else None,
                    "bound_predicted": used.get("bound"),
                    "bound_observed": item.get("bound_observed"),
                    "cause": item.get("cause", ""),
                    "sealed": not reason,
                    "reason": reason,
                    "repeat": not reason and key in counted,
                    "blind": item["name"] in blind,
                }
            )
            if not reason:
                counted.add(key)
            known.add(_same(machine, used))
    return cases


def _same(machine: str, row: Mapping[str, Any]) -> str:
    """What makes two predictions one case: op, dtype and shape on a machine, or the name where there is no op."""
    case = {key: row.get(key) for key in ("op", "dtype", "shape")} if row.get("op") else {"name": row["name"]}
    return json.dumps([machine, case], sort_keys=True)


def summary(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Regimes hit, errors by family and machine over time and by seal, intervals kept, the worst misses."""
    regimes = [case for case in cases if case["bound_predicted"] and case["bound_observed"]]
    ranged = [case for case in cases if case["low_us"] is not None and case["high_us"] is not None]
    timed = [case for case in cases if case["error"] is not None]
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    seals: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for case in timed:
        for month in ("all", case["sealed_at"][:7]):
            groups[case["family"], case["machine"], month].append(case)
        seals[case["seal"], case["sealed_at"], case["machine"]].append(case)
    inside = share(sum(case["low_us"] <= case["measured_us"] <= case["high_us"] for case in ranged), len(ranged))
    # by factor: a time half of what was predicted is as far off as one twice as long
    worst = sorted(timed, key=lambda case: -abs(log(case["predicted_us"] / case["measured_us"])))[:WORST]
    return {
        "cases": len(cases),
        "regimes": share(sum(case["bound_predicted"] == case["bound_observed"] for case in regimes), len(regimes)),
        "error": errors(timed),
        "by_family": [
            {"family": family, "machine": machine, "month": month, **errors(groups[family, machine, month])}
            for family, machine, month in sorted(groups)
        ],
        "by_seal": [
            {"seal": seal, "time": time, "machine": machine, **errors(found)}
            for (seal, time, machine), found in seals.items()
        ],
        "intervals": {**inside, "nominal": NOMINAL, "verdict": _calibrated(inside)},
        "worst": [dict(case) for case in worst],
    }


def errors(cases: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of predicted over measured minus one: middle and 90th percentile of its size, and its signed middle."""
    if not cases:
        return {"cases": 0, "median": None, "p90": None, "signed": None}
    signed = np.array([case["error"] for case in cases])
    return {
        "cases": len(cases),
        "median": float(np.median(abs(signed))),
        "p90": float(np.quantile(abs(signed), 0.9)),
        "signed": float(np.median(signed)),
    }


def share(hits: int, count: int) -> dict[str, Any]:
    """hits / count with its 95 % uncertainty (Wilson's score interval, sensible at 0, at 1 and for few cases)."""
    if not count:
        return {"cases": 0, "hits": 0, "share": None, "low": None, "high": None}
    rate, spread = hits / count, SURE**2 / count
    middle = (rate + spread / 2) / (1 + spread)
    reach = SURE * sqrt(rate * (1 - rate) / count + spread / (4 * count)) / (1 + spread)
    return {
        "cases": count,
        "hits": hits,
        "share": rate,
        "low": max(0.0, middle - reach),
        "high": min(1.0, middle + reach),
    }


def _calibrated(inside: Mapping[str, Any]) -> str:
    if inside["share"] is None:
        return "not known"
    if inside["high"] < NOMINAL:
        return "too narrow"
    if inside["low"] > NOMINAL:
        return "too wide"
    return "as promised" if inside["high"] - inside["low"] < VAGUE else "too few to tell"


# The page


def _section(record: Record, cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """One seal: its head lines, its predictions with what counted for each, the rest of what was measured."""
    seal = sealed(record)
    # the host's name is kept in the record; a page that gets published does without it
    about = {key: value for key, value in seal.environment.items() if key != "host"}
    lines = [
        f"## {cell(seal.id)}",
        "",
        f"Sealed {cell(seal.time)} for {cell(seal.machine.get('name'))} by ridgeline {cell(seal.ridgeline)}, record {seal.number}."
        + (f" {cell(seal.note)}" if seal.note else ""),
        "",
        f"- content `{cell(seal.content_hash)}`",
        f"- record `{cell(seal.hash)}`",
        f"- machine file `{cell(seal.machine.get('hash'))}`",
        f"- {cell(', '.join(f'{key} {value}' for key, value in sorted(about.items())))}",
        "",
        "| name | bound | floor µs | predicted µs | 80 % interval µs | measured µs | error | bound seen | cause |",
        "|---|---|--:|--:|--:|--:|--:|---|---|",
    ]
    counts = {case["name"]: case for case in cases if case["sealed"] and not case["repeat"]}
    for row in seal.predictions:
        case = counts.get(row.get("name", ""), {})
        low, high = row.get("low_us"), row.get("high_us")
        cells = (
            cell(row.get("name")),
            cell(row.get("bound")),
            figure(row.get("floor_us")),
            figure(row.get("time_us")),
            f"{figure(low)} to {figure(high)}" if low is not None else "",
            figure(case.get("measured_us")) if case else "open",
            f"{case['error']:+.1%}" if case and case["error"] is not None else "",
            cell(case.get("bound_observed")),
            cell(case.get("cause")),
        )
        lines.append(f"| {' | '.join(cells)} |")
    rest = [case for case in cases if case["repeat"] or not case["sealed"]]
    for case in rest:
        what = "repeat, does not count" if case["repeat"] else f"unsealed: {case['reason']}"
        lines += [""] if case is rest[0] else []
        lines.append(f"- {cell(case['name'])}: {figure(case['measured_us'])} µs, {cell(what)}")
    return [*lines, ""]


def figure(value: Any) -> str:
    return "" if value is None else f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def cell(value: Any) -> str:
    """A text that cannot break out of a table or bring markup of its own."""
    text = "" if value is None else str(value).encode("utf-8", "replace").decode()
    return re.sub(r"([\\`*_\[\]<>|#~])", r"\\\1", " ".join(text.split()))
