"""Checks of a ledger: its tables, its hash chain, the contents of its records, and which records still count."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from .record import GENESIS, SCHEMA, Record, edited_fields, parse_time, sealed_row, time_text
from .store import TABLES, TRIGGERS

ALTERED = "the seal was altered"


@dataclass(frozen=True)
class Finding:
    """A fault of a ledger: the record (None: the file), its kind, and a sentence."""

    record: int | None
    what: str
    text: str


def check_tables(connection: sqlite3.Connection) -> list[Finding]:
    """Tables and triggers that are missing, changed or foreign."""

    def schema(where: sqlite3.Connection) -> dict[str, str]:
        return dict(where.execute("SELECT name, sql FROM sqlite_master").fetchall())

    with closing(sqlite3.connect(":memory:")) as fresh:
        for statement in (*TABLES, *TRIGGERS):
            fresh.execute(statement)
        expected = schema(fresh)
    actual = schema(connection)
    findings = []
    for name in sorted(expected.keys() | actual.keys()):
        if name not in actual:
            how = "is missing"
        elif name not in expected:
            how = "does not belong to a ledger"
        elif expected[name] != actual[name]:
            how = "was changed"
        else:
            continue
        findings.append(Finding(None, "schema", f"'{name}' {how}: another program wrote this file"))
    damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        findings.append(Finding(None, "damaged", f"the file is damaged: {damage}"))
    return findings


def check_chain(records: Sequence[Record], head: tuple[int, str]) -> list[Finding]:
    """Whether every record is unchanged and follows the previous one."""
    findings: list[Finding] = []
    places = {GENESIS: "none"} | {record.hash: f"what is now record {record.number}" for record in records}
    before, expected = GENESIS, 1
    for record in records:
        number = record.number
        if number > expected:
            findings.append(_missing(expected, number - 1))
        if number < expected:
            findings.append(Finding(number, "inserted", f"record {number}: a ledger begins with record 1"))
        elif not record.intact:
            what = "its content" if record.hash_matches else "a field or its hash"
            findings.append(Finding(number, "altered", f"record {number}: {what} was changed"))
        elif number == expected and record.previous != before:
            known = record.previous in places
            how = f"it followed {places[record.previous]}" if known else "the record it followed is missing"
            text = f"record {number} does not follow the previous record: {how}"
            findings.append(Finding(number, "moved" if known else "replaced", text))
        before, expected = record.hash, max(number, 0) + 1
    count, last = head
    if type(count) is not int or type(last) is not str or count < 0:
        findings.append(Finding(None, "head", f"the head was changed: it holds {count!r} and {last!r}"))
    elif count >= expected:
        findings.append(_missing(expected, count))
    elif count < expected - 1:
        text = f"record {expected - 1}: the head counts only {count} records; later ones were inserted"
        findings.append(Finding(expected - 1, "inserted", text))
    elif last != before:
        findings.append(Finding(None, "head", f"the head was changed: it says {last!r}, the last record {before!r}"))
    return findings


def _missing(first: int, last: int) -> Finding:
    which = f"record {first} is" if first == last else f"records {first} to {last} are"
    return Finding(first, "removed", f"{which} missing")


def check_contents(records: Sequence[Record]) -> list[Finding]:
    """Whether the contents of intact records are consistent: form, order of times, evidence supported by its seal."""
    findings: list[Finding] = []
    seals: dict[str, tuple[Record, dict[str, Any]]] = {}
    before: datetime | None = None
    for record in records:
        if not record.intact:
            continue
        number, content, time = record.number, record.parsed, parse_time(record.time)
        if record.schema != SCHEMA or time is None or not content:
            text = f"record {number}: not a record of schema {SCHEMA}; another program wrote it"
            findings.append(Finding(number, "schema", text))
            continue
        if before is not None and time < before:
            text = f"record {number} is dated {time_text(time)}, earlier than the previous record"
            findings.append(Finding(number, "time", text))
        before = time
        if record.kind == "seal":
            seals[record.hash] = (record, {row["name"]: row for row in content["predictions"]})
            continue
        seal, rows = seals.get(content["seal"], (None, {}))
        for item in content["items"]:
            row = sealed_row(rows, item)
            reason = unsealed_reason(row, seal.time, item, record.time) if seal else "its seal does not exist"
            if item["sealed"] and reason:
                text = f"record {number} marks {item['name']!r} as sealed evidence, but {reason}"
                findings.append(Finding(number, "judged", text))
    return findings


def compared_item(rows: Mapping[str, Any], item: Mapping[str, Any], sealed_at: str, settled_at: str) -> dict[str, Any]:
    """A checked measurement as stored: edits of its prediction, and whether it is sealed evidence."""
    row = sealed_row(rows, item)
    kept = {key: value for key, value in item.items() if key != "claims"} | edited_fields(row, item["claims"])
    reason = unsealed_reason(row, sealed_at, kept, settled_at)
    return {**kept, "sealed": not reason, "reason": reason}


def unsealed_reason(row: Mapping[str, Any] | None, sealed_at: str, item: Mapping[str, Any], settled_at: str) -> str:
    """Why a measurement is not sealed evidence for a prediction; empty when it is."""
    if row is None:
        return "no prediction of this name was sealed"
    if item.get("claimed"):
        parts = [f"{key} was {row.get(key)!r}, is {value!r}" for key, value in item["claimed"].items()]
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        return f"the prediction was edited after sealing: {'; '.join(parts[:3])}{more}"
    if item.get("measured_at") is None:
        return "the time of measurement is unknown"
    begun, fixed, end = parse_time(item["measured_at"]), parse_time(sealed_at), parse_time(settled_at)
    if begun is None or fixed is None or end is None:
        return f"measured at {item['measured_at']}, which has no UTC offset"
    if begun <= fixed:
        return f"measured at {time_text(begun)}, not after the seal at {time_text(fixed)}"
    if begun > end:
        return f"measured at {time_text(begun)}, which is after the settlement at {time_text(end)}"
    return ""


def vouched_records(records: Sequence[Record], last: str) -> set[int]:
    """The records reached from the head, hash by hash, up to the first break."""
    numbers: set[int] = set()
    expected = last
    for record in reversed(records):
        if not record.hash_matches or record.hash != expected:
            break
        if record.intact:
            numbers.add(record.number)
        expected = record.previous
    return numbers
