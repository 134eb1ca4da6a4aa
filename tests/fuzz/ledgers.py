"""Ledgers as targets: any bytes in place of the file, and any documents in place of what is sealed and settled."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from fuzz import checks
from fuzz.inputs import as_file, json_or_nothing
from ridgeline.core.errors import RidgelineError
from ridgeline.gaps.ledger import Ledger

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROW = {"name": "a", "op": "gemm", "bound": "memory", "floor_us": 5.0, "time_us": 10.0}


class Clock:
    """Steps on by a second with every look."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        self.time += timedelta(seconds=1)
        return self.time


def ledger_file(data: bytes) -> None:
    """Every question to a file that claims to be a ledger, then one more seal."""
    path = as_file(data, "ledger.sqlite")
    for rest in ("-journal", "-wal", "-shm"):
        path.with_name(path.name + rest).unlink(missing_ok=True)
    book = Ledger(path, Clock())
    with suppress(RidgelineError):
        checks_of(book)
    intact = False
    with suppress(RidgelineError):
        intact = not book.verify()
    with suppress(RidgelineError):
        book.seal([ROW], "name = 'h200'", "h200-sxm")
        checks.hold(not intact or not book.verify(), "an intact ledger is broken after a seal")


def checks_of(book: Ledger) -> None:
    findings = book.verify()
    for finding in findings:
        checks.shown(finding.text, "a finding")
    checks.writable(book.export(), "the export")
    checks.writable(book.report(), "the report")
    checks.shown(book.markdown(), "the markdown")
    count, _ = book.head()
    if not findings:
        checks.finite(count, "the number of records", 0)
    with suppress(RidgelineError):
        book.find("abcd")


def ledger_records(data: bytes) -> None:
    """`{"predictions": [...], "items": [...], "note": ...}` sealed and settled in a new ledger, which stays intact."""
    document = json_or_nothing(data)
    if not isinstance(document, dict):
        return
    path = new_ledger()
    book = Ledger(path, Clock())
    machine, note = document.get("machine", "h200-sxm"), document.get("note", "")
    if not isinstance(machine, str) or not isinstance(note, str):
        return  # the command line gives texts
    sealed = book.seal(as_list(document.get("predictions")), "name = 'h200'", machine, note=note)
    checks.hold(len(sealed.predictions) == len(as_list(document.get("predictions"))), "a prediction was dropped")
    with suppress(RidgelineError):
        settled = book.settle(sealed.id, as_list(document.get("items")))
        checks.hold(len(settled.items) == len(as_list(document.get("items"))), "a measurement was dropped")
    checks.hold(not book.verify(), "the ledger is broken after a seal")
    checks_of(book)


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def new_ledger() -> Path:
    path = as_file(b"", "records.sqlite")
    path.unlink()
    path.with_name(path.name + "-journal").unlink(missing_ok=True)
    return path
