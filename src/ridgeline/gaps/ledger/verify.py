"""Checks of a ledger: its tables, its hash chain, the contents of its records, and which records still count."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ...core.intake import clean
from .record import GENESIS, SCHEMA, Record, edited_fields, parse_time, sealed_row, time_text
from .store import Difference, layout_differences

ALTERED = "the seal was altered"


@dataclass(frozen=True)
class Finding:
    """What is to be said of a ledger: the record (None: the file), its kind, and a sentence; a fault unless a notice."""

    record: int | None
    what: str
    text: str
    fault: bool = True


def check_tables(connection: sqlite3.Connection) -> list[Finding]:
    """Triggers and indexes that are missing, and pages of the file that are damaged."""
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    findings = layout_findings(layout_differences(connection, version))
    damage = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if damage != "ok":
        findings.append(Finding(None, "damaged", f"the file is damaged: {clean(str(damage))}"))
    return findings


def layout_findings(differences: Sequence[Difference]) -> list[Finding]:
    return [Finding(None, "schema", difference.text) for difference in differences]


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
    latest: datetime | None = None
    behind: dict[datetime, list[int]] = {}  # numbers of the records whose clock was behind, by the time it was behind
    for record in records:
        if not record.intact:
            continue
        number, content, time = record.number, record.parsed, parse_time(record.time)
        if record.schema != SCHEMA or time is None or not content:
            text = f"record {number}: not a record of schema {SCHEMA}; another program wrote it"
            findings.append(Finding(number, "schema", text))
            continue
        after = parse_time(record.evidence_after) or time
        if latest is not None and after < latest:
            text = f"record {number} is dated {time_text(time)}, earlier than a record before it of {time_text(latest)}"
            findings.append(Finding(number, "time", text))
        elif time < after:
            behind.setdefault(after, []).append(number)
        latest = max(after, latest or after)
        if record.kind == "seal":
            seals[record.hash] = (record, {row["name"]: row for row in content["predictions"]})
            continue
        seal, rows = seals.get(content["seal"], (None, {}))
        for item in content["items"]:
            row = sealed_row(rows, item)
            reason = unsealed_reason(row, seal, item, record.time) if seal else "its seal does not exist"
            if item["sealed"] and reason:
                text = f"record {number} marks {item['name']!r} as sealed evidence, but {reason}"
                findings.append(Finding(number, "judged", text))
    return findings + [_clock_notice(numbers, time) for time, numbers in behind.items()]


def _clock_notice(numbers: Sequence[int], latest: datetime) -> Finding:
    """One notice for all records that are dated before an earlier one."""
    first, last = numbers[0], numbers[-1]
    which = f"record {first} is" if first == last else f"{len(numbers)} records from {first} to {last} are"
    text = (
        f"{which} dated before an earlier record of {time_text(latest)}: a clock was ahead then or set back later. "
        "Measurements for their seals are sealed evidence only if they began after that time"
    )
    return Finding(first, "clock", text, fault=False)


def compared_item(rows: Mapping[str, Any], item: Mapping[str, Any], seal: Record, settled_at: str) -> dict[str, Any]:
    """A checked measurement as stored: edits of its prediction, and whether it is sealed evidence."""
    row = sealed_row(rows, item)
    kept = {key: value for key, value in item.items() if key != "claims"} | edited_fields(row, item["claims"])
    reason = unsealed_reason(row, seal, kept, settled_at)
    return {**kept, "sealed": not reason, "reason": reason}


def unsealed_reason(row: Mapping[str, Any] | None, seal: Record, item: Mapping[str, Any], settled_at: str) -> str:
    """Why a measurement is not sealed evidence for a prediction; empty when it is."""
    if row is None:
        return "no prediction of this name was sealed"
    if item.get("claimed"):
        parts = [f"{key} was {row.get(key)!r}, is {value!r}" for key, value in item["claimed"].items()]
        more = f" and {len(parts) - 3} more" if len(parts) > 3 else ""
        return f"the prediction was edited after sealing: {'; '.join(parts[:3])}{more}"
    if item.get("measured_at") is None:
        return "the time of measurement is unknown"
    begun, fixed, end = parse_time(item["measured_at"]), parse_time(seal.evidence_after), parse_time(settled_at)
    if begun is None or fixed is None or end is None:
        return f"measured at {item['measured_at']}, which has no UTC offset"
    if begun <= fixed and seal.evidence_after == seal.time:
        return f"measured at {time_text(begun)}, not after the seal at {time_text(fixed)}"
    if begun <= fixed:
        text = f"measured at {time_text(begun)}, not after an earlier record of {time_text(fixed)}"
        return f"{text}: the clock was set back before the seal, so that the order cannot be shown"
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
