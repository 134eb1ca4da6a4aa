"""A ledger only grows: what was altered, lied about or broken is found, and nothing more is added to it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import replace
from typing import Any

import pytest
from ledger_samples import NOON, Clock, item, refill, rewrite, row, seal, stored_rows, tamper

from ridgeline.core.errors import InputError
from ridgeline.gaps.ledger import Broken, Ledger, open_ledger
from ridgeline.gaps.ledger.record import Record
from ridgeline.gaps.ledger.verify import ALTERED


def test_an_altered_seal_makes_no_evidence(book: Ledger, clock: Clock) -> None:
    made, other = seal(book), seal(book, row("c"))
    book.settle(made, [item("a", 8.0, clock.after(seconds=1))])
    book.settle(other, [item("c", 8.0, clock.after(seconds=1))])
    assert book.report()["settled"] == 2
    tamper(book.path, ("UPDATE record SET content = replace(content, '10.0', '8.0') WHERE number = 1", ()))
    with pytest.raises(Broken, match=r"nothing was settled: record 1 was changed; see all of it with `ridgeline"):
        book.settle(made, [item("b", 20.0, clock.after(seconds=1))])
    assert book.head()[0] == 4, "nothing was added"
    # what does not depend on the altered record goes on; `verify` and the report look at all of them
    book.settle(other, [item("c", 20.0, clock.after(seconds=1))])
    assert [(finding.record, finding.what) for finding in book.verify()] == [(1, "altered"), (3, "judged")]
    report = book.report()
    assert report["intact"] is False
    assert [(case["name"], case["sealed"], case["reason"]) for case in report["cases"]] == [
        ("a", False, ALTERED),
        ("c", True, ""),
        ("c", True, ""),
    ]


def test_nothing_before_a_break_counts(book: Ledger, clock: Clock) -> None:
    """Record 2 was replaced by one with a right hash of its own; what stands before it nobody vouches for any more."""
    made = seal(book, row("a"))
    book.settle(made, [item("a", 8.0, clock.after(seconds=1))])
    later = seal(book, row("c"))
    book.settle(later, [item("c", 8.0, clock.after(seconds=1))])
    rewrite(book.path, 2, content=lambda text: text.replace("8.0", "10.0"), follow=False)
    assert [finding.what for finding in book.verify()] == ["replaced"]
    assert [(case["name"], case["sealed"]) for case in book.report()["cases"]] == [("a", False), ("c", True)]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE record SET content = '{}' WHERE number = 1",
        "UPDATE OR REPLACE record SET number = 1 WHERE number = 2",
        "DELETE FROM record WHERE number = 2",
        "DELETE FROM record",
        "INSERT OR REPLACE INTO record SELECT 1, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT 4, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT 3, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "INSERT OR REPLACE INTO record SELECT 1, schema, kind, time, ridgeline, content, content_hash, hash, hash FROM record WHERE number = 2",
        "INSERT OR REPLACE INTO record SELECT 2, schema, kind, time, ridgeline, content, content_hash, hash, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT 4, schema, kind, time, ridgeline, content, content_hash, hash, hash FROM record WHERE number = 2",
        "INSERT INTO record SELECT NULL, schema, kind, time, ridgeline, content, content_hash, previous, hash FROM record WHERE number = 2",
        "UPDATE head SET count = 1, hash = (SELECT hash FROM record WHERE number = 1)",
        "UPDATE head SET only_row = 2",
        "UPDATE OR IGNORE head SET hash = 'x'",
        "DELETE FROM head",
        "INSERT OR REPLACE INTO head VALUES (1, 0, '')",
        "INSERT OR IGNORE INTO head VALUES (1, 0, '')",
    ],
)
def test_a_normal_connection_cannot_change_anything(book: Ledger, statement: str) -> None:
    seal(book), seal(book)
    before = stored_rows(book.path), book.head()
    raw = sqlite3.connect(book.path)
    with pytest.raises(sqlite3.IntegrityError):
        raw.execute(statement)
    raw.commit()
    raw.close()
    assert (stored_rows(book.path), book.head()) == before
    assert book.verify() == []


def test_what_only_a_hash_kept_elsewhere_finds(book: Ledger, clock: Clock) -> None:
    """The limits of a chain: cut back with its head, or recomputed from the start, it looks whole."""
    made = seal(book)
    book.settle(made, [item("a", 30.0, clock.after(seconds=1))])
    committed = book.head()[1]
    seal(book, row("c"))
    assert book.verify(expect=committed) == []
    assert book.verify(expect=book.head()[1]) == []

    shutil.copy(book.path, book.path.with_name("cut"))
    cut = open_ledger(book.path.with_name("cut"))
    last = stored_rows(cut.path)[0][-1]
    tamper(cut.path, ("DELETE FROM record WHERE number > 1", ()), ("UPDATE head SET count = 1, hash = ?", (last,)))
    assert cut.verify() == []
    assert [finding.what for finding in cut.verify(expect=committed)] == ["expected"]

    rewrite(book.path, 1, content=lambda text: text.replace('"time_us":10.0', '"time_us":30.0'))
    assert book.verify() == []
    assert book.report()["sealed"]["error"]["median"] == 0.0  # polished
    (finding,) = book.verify(expect=committed)
    assert committed in finding.text


@pytest.mark.parametrize("expect", ["", "abc", "0" * 63, "G" * 64])
def test_a_part_of_a_hash_is_not_enough_to_expect(book: Ledger, expect: str) -> None:
    seal(book)
    with pytest.raises(InputError, match="64 hex digits"):
        book.verify(expect=expect)


def test_a_well_hashed_lie_is_found(book: Ledger, clock: Clock) -> None:
    """Measured before the sealing, and a record that calls it sealed all the same."""
    book.settle(seal(book), [item("a", 8.0, NOON.isoformat())])
    assert book.verify() == []

    def lie(text: str) -> str:
        content = json.loads(text)
        content["items"][0] |= {"sealed": True, "reason": ""}
        return json.dumps(content, sort_keys=True, separators=(",", ":"))

    rewrite(book.path, 2, content=lie)
    (finding,) = book.verify()
    assert (finding.record, finding.what) == (2, "judged")
    assert book.report()["settled"] == 0


def test_evidence_for_a_seal_that_is_not_there_is_found(book: Ledger, clock: Clock) -> None:
    made = book.find(seal(book))
    book.settle(made.id, [item("a", 8.0, clock.after(seconds=1))])
    rewrite(book.path, 2, content=lambda text: text.replace(made.hash, "f" * 64))
    assert [(finding.record, finding.what) for finding in book.verify()] == [(2, "judged")]
    assert book.report()["cases"] == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("seal", {"predictions": []}),
        ("seal", {"predictions": [{"time_us": 3}]}),
        ("seal", {"predictions": [{"name": "a", "time_us": "3"}]}),
        ("seal", {"machine": "h200"}),
        ("seal", {"environment": []}),
        ("settle", {"items": [{"name": "a"}]}),
        ("settle", {"items": [{"name": "a", "measured_us": 3, "sealed": False, "reason": ""}]}),
        (
            "settle",
            {"items": [{"name": "a", "measured_us": 3, "sealed": True, "reason": "", "claimed": {"time_us": "x"}}]},
        ),
        ("settle", {"items": {"name": "a"}}),
        ("settle", {"seal": None}),
    ],
)
def test_a_well_hashed_record_of_another_form_is_found(
    book: Ledger, clock: Clock, kind: str, change: dict[str, Any]
) -> None:
    seal(book)
    book.settle(seal(book, row("a")), [item("a", 8.0, clock.after(seconds=1))])
    number = 1 if kind == "seal" else 3
    rewrite(book.path, number, content=lambda text: json.dumps({**json.loads(text), **change}))
    assert [(finding.record, finding.what) for finding in book.verify()] == [(number, "schema")]
    json.dumps([book.report(), book.export()], allow_nan=False)
    assert "This ledger is broken" in book.markdown()


def test_times_that_run_backwards_are_found(book: Ledger) -> None:
    seal(book), seal(book)
    records = [Record(*record) for record in stored_rows(book.path)]
    changed = replace(records[1], time="2026-02-28T12:00:00.000000+00:00")
    changed = replace(changed, hash=changed.computed_hash())
    refill(book.path, [tuple(records[0].row().values()), tuple(changed.row().values())])
    tamper(book.path, ("UPDATE head SET hash = ?", (changed.hash,)))
    assert [(finding.record, finding.what) for finding in book.verify()] == [(2, "time")]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("DROP TRIGGER record_stays", "'record_stays' is missing"),
        ("DROP TABLE head", "'head' is missing"),
        ("ALTER TABLE record RENAME COLUMN kind TO sort", "'record' was changed"),
        ("ALTER TABLE head ADD COLUMN more TEXT", "'head' was changed"),
        ("CREATE TABLE extra (x)", "'extra' does not belong to a ledger"),
        ("CREATE TRIGGER extra AFTER INSERT ON record BEGIN SELECT 1; END", "'extra' does not belong to a ledger"),
    ],
)
def test_tables_that_are_not_as_made_are_found(book: Ledger, statement: str, told: str) -> None:
    seal(book)
    raw = sqlite3.connect(book.path)
    raw.execute("DROP TRIGGER head_is_kept") if "head" in statement else None
    raw.execute(statement)
    raw.commit()
    raw.close()
    assert any(told in finding.text for finding in book.verify())


def test_a_ledger_broken_at_its_end_takes_no_more(book: Ledger) -> None:
    seal(book), seal(book)
    tamper(book.path, ("DELETE FROM record WHERE number = 2", ()))
    with pytest.raises(
        Broken,
        match="was not changed: the head counts 2 records, the last one is record 1; see all of it with `ridgeline",
    ):
        seal(book)
    assert [(finding.record, finding.text) for finding in book.verify()] == [(2, "record 2 is missing")]


def test_pages_of_the_file_that_were_overwritten_are_found(book: Ledger) -> None:
    for number in range(30):
        seal(book, *(row(f"{number} {place}") for place in range(20)))
    raw = bytearray(book.path.read_bytes())
    raw[3 * 4096 : 4 * 4096] = bytes(4096)
    book.path.write_bytes(raw)
    assert book.verify()
