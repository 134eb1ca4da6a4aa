"""A clock, predictions and measurements for a ledger, and what someone does who tampers with it."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ridgeline.gaps.ledger import Ledger, text_hash
from ridgeline.gaps.ledger.record import GENESIS, Record

COLUMNS = ("number", "schema", "kind", "time", "ridgeline", "content", "content_hash", "previous", "hash")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Clock:
    """A clock that moves only when told to."""

    def __init__(self) -> None:
        self.time = NOON

    def __call__(self) -> datetime:
        return self.time

    def after(self, **step: float) -> str:
        self.time += timedelta(**step)
        return self.time.isoformat()


def row(name: str, time_us: float = 10.0, **more: Any) -> dict[str, Any]:
    return {"name": name, "op": "gemm", "bound": "memory", "floor_us": 5.0, "time_us": time_us, **more}


def seal(book: Ledger, *rows: dict[str, Any], machine: str = "h200-sxm") -> str:
    return book.seal(rows or [row("a"), row("b", 20.0)], "name = 'h200'", machine).id


def item(name: str, measured_us: float, measured_at: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "measured_us": measured_us, "measured_at": measured_at, **more}


def tamper(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """What someone with SQLite and no scruples does: triggers away, change, triggers back as they were."""
    with sqlite3.connect(path) as raw:
        raw.execute("PRAGMA synchronous = OFF")  # nobody cuts the power here
        triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            raw.execute(f"DROP TRIGGER {name}")
        for statement, values in statements:
            raw.execute(statement, values)
        for _, sql in triggers:
            raw.execute(sql)
    raw.close()


def stored_rows(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as raw:
        found = raw.execute(f"SELECT {', '.join(COLUMNS)} FROM record ORDER BY number").fetchall()
    raw.close()
    return found


def refill(path: Path, records: list[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * len(COLUMNS))
    tamper(path, ("DELETE FROM record", ()), *((f"INSERT INTO record VALUES ({marks})", record) for record in records))


def rewrite(path: Path, start: int, content: Any, follow: bool = True) -> None:
    """Change a record's content and recompute its hash; with `follow` every later one and the head too."""
    with sqlite3.connect(path) as raw:
        fixed = raw.execute("SELECT count, hash FROM head").fetchone()
    raw.close()
    records = [Record(*record) for record in stored_rows(path)]
    previous = records[start - 2].hash if start > 1 else GENESIS
    done = records[: start - 1]
    for record in records[start - 1 :]:
        if record.number > start and not follow:
            done.append(record)
            continue
        text = content(record.content) if record.number == start else record.content
        for old, new in zip(records, done, strict=False):
            text = text.replace(old.hash, new.hash)
        made = replace(record, content=text, content_hash=text_hash(text), previous=previous)
        made = replace(made, hash=made.computed_hash())
        done.append(made)
        previous = made.hash
    head = (done[-1].number, done[-1].hash) if follow else fixed
    refill(path, [tuple(record.row().values()) for record in done])
    tamper(path, ("UPDATE head SET count = ?, hash = ?", head))
