"""Files made to harm whoever opens them: views, triggers and columns that run, wrong types, cycles, sizes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from ledger_samples import Clock, item, row, seal, tamper

from ridgeline.app.cli import main
from ridgeline.core.errors import InputError
from ridgeline.core.intake import limits
from ridgeline.gaps.ledger import Broken, Ledger, open_ledger
from ridgeline.gaps.ledger.report import cell, code
from ridgeline.gaps.ledger.store import APPLICATION, LAYOUT

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
AS_RECORD = "x AS number, 1 AS schema, 'seal' AS kind, '' AS time, '' AS ridgeline, '' AS content, '' AS content_hash, '' AS previous, '' AS hash FROM n"


def hostile(path: Path, script: str) -> Ledger:
    """A file that says it is a ledger."""
    raw = sqlite3.connect(path)
    raw.executescript(f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {LAYOUT}; {script}")
    raw.close()
    return open_ledger(path)


def asks(book: Ledger) -> list[Callable[[], object]]:
    return [
        book.report,
        book.markdown,
        book.export,
        book.head,
        lambda: book.find("abcdef"),
        lambda: seal(book),
        lambda: book.settle("abcdef", [item("a", 1.0, None)]),
    ]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (f"CREATE VIEW record AS {ENDLESS} {AS_RECORD}; CREATE TABLE head (count, hash)", "'head' was changed"),
        (f"CREATE VIEW head AS {ENDLESS} x AS count, '' AS hash FROM n", "'head' was changed"),
        ("CREATE TABLE record (number); CREATE TABLE head (count, hash)", "'record' was changed"),
        ("CREATE TABLE other (x)", "'head' is missing"),
        (
            "CREATE TABLE record (number INTEGER PRIMARY KEY, hash TEXT AS (zeroblob(900000000)))",
            "'record' was changed",
        ),
        ('CREATE TABLE "evil\x1b[2J" (x)', "'evil' does not belong"),
    ],
)
def test_a_foreign_layout_is_named_and_nothing_of_it_is_read(tmp_path: Path, script: str, told: str) -> None:
    book = hostile(tmp_path / "book.sqlite", script)
    before = book.path.read_bytes()
    assert any(told in finding.text for finding in book.verify())
    for ask in asks(book):
        with pytest.raises(Broken, match="cannot be trusted and was not read"):
            ask()
    assert book.path.read_bytes() == before


@pytest.mark.parametrize("what", ["verify", "report", "show"])
def test_commands_say_in_one_line_that_a_ledger_is_foreign(tmp_path: Path, what: str) -> None:
    book = hostile(tmp_path / "book.sqlite", f"CREATE VIEW head AS {ENDLESS} x AS count, '' AS hash FROM n")
    ended = CliRunner().invoke(main, ["ledger", what, "--ledger", str(book.path)])
    assert (ended.exit_code, "'head' was changed" in ended.output) == (1, True)


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE TRIGGER more AFTER INSERT ON record BEGIN INSERT INTO head {ENDLESS} 2, x, x FROM n; END",
        f"CREATE VIEW more AS {ENDLESS} x FROM n",
        "CREATE INDEX more ON record (time)",
        "CREATE TABLE more (x)",
    ],
)
def test_anything_put_into_a_ledger_stops_it(book: Ledger, statement: str) -> None:
    seal(book)
    raw = sqlite3.connect(book.path)
    raw.execute(statement)
    raw.close()
    assert [finding.text for finding in book.verify()] == [
        "'more' does not belong to a ledger: another program wrote this file"
    ]
    with pytest.raises(Broken, match="'more' does not belong to a ledger"):
        seal(book)


def test_a_view_that_takes_the_place_of_a_table_is_not_asked(book: Ledger) -> None:
    seal(book)
    raw = sqlite3.connect(book.path)
    raw.executescript(f"ALTER TABLE record RENAME TO kept; CREATE VIEW record AS {ENDLESS} {AS_RECORD}")
    raw.close()
    assert {finding.what for finding in book.verify()} == {"schema"}
    with pytest.raises(Broken, match="cannot be trusted"):
        book.report()


def test_work_beyond_the_limit_of_steps_ends(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(20):
        seal(book, *(row(f"{number} {place}") for place in range(20)))
    monkeypatch.setattr("ridgeline.gaps.ledger.store.STEPS_BETWEEN", 10)
    monkeypatch.setattr(limits, "_given", {"steps": 200})
    with pytest.raises(InputError, match=r"the work on the ledger .* is over the limit of 200 .*--limit steps=400"):
        book.report()


def test_sizes_beyond_the_limits_are_refused(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    made = seal(book)
    monkeypatch.setattr(limits, "_given", {"document": 5000})
    with pytest.raises(InputError, match=r"what is to be recorded is over the limit .*--limit document="):
        seal(book, *(row(str(place)) for place in range(100)))
    assert book.head()[0] == 1
    tamper(book.path, ("UPDATE record SET content = printf('%.20000c', 'x')", ()))
    with pytest.raises(InputError, match=r"a record of the ledger .* is over the limit .*--limit document="):
        book.find(made)
    monkeypatch.setattr(limits, "_given", {"read": 5000})
    with pytest.raises(InputError, match=r"the ledger .* is over the limit .*--limit read="):
        book.find(made)
    monkeypatch.setattr(limits, "_given", {"document": 30000})  # what is held as a whole
    with pytest.raises(InputError, match=r"the ledger .* is over the limit .*--limit document="):
        book.verify()


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("count", 2, "the head counts 2 records, the last one is record 1"),
        ("count", "1x", "the head counts 1x records"),
        ("count", 1.5, "the head counts 1.5 records"),
        ("hash", "0" * 64, "its hash is not that of record 1"),
        ("hash", b"\xff", "its hash is not that of record 1"),
    ],
)
def test_a_head_that_does_not_name_the_last_record_takes_no_more(
    book: Ledger, column: str, value: object, told: str
) -> None:
    seal(book)
    tamper(book.path, (f"UPDATE head SET {column} = ?", (value,)))
    with pytest.raises(Broken, match=told):
        seal(book)
    assert [finding.fault for finding in book.verify()]
    book.report(), book.markdown().encode(), book.export()


@pytest.mark.parametrize(
    "column", ["kind", "time", "content", "content_hash", "previous", "hash", "ridgeline", "schema"]
)
@pytest.mark.parametrize("value", [b"\xff\x00", 3.5, "\x1b[2J`<script>"])
def test_a_last_record_of_wrong_types_takes_no_more(book: Ledger, column: str, value: object) -> None:
    made = seal(book)
    tamper(book.path, (f"UPDATE record SET {column} = ?", (value,)))
    with pytest.raises(Broken):
        seal(book)
    for ask in (lambda: book.settle(made, [item("a", 1.0, None)]), lambda: book.find(made)):
        with suppress(InputError):
            ask()
    assert book.verify()
    book.report(), book.export()
    assert "\x1b" not in book.markdown()


def test_damaged_pages_that_are_touched_are_one_message(book: Ledger) -> None:
    for number in range(40):
        seal(book, *(row(f"{number} {place}") for place in range(20)))
    whole = book.path.read_bytes()
    pages = len(whole) // 4096
    for page in range(1, pages, 7):
        book.path.write_bytes(whole[: page * 4096] + b"\xa5" * 4096 + whole[(page + 1) * 4096 :])
        for ask in (lambda: seal(book), book.report, book.markdown, book.export):
            with suppress(InputError):
                ask()
        with suppress(InputError):  # the layout itself may be on that page
            assert book.verify()


def test_any_byte_of_the_layout_that_is_no_text_is_one_message(book: Ledger) -> None:
    """SQLite quotes such a text in its message, and Python cannot read the message."""
    seal(book)
    whole = book.path.read_bytes()
    for place in range(whole.index(b"CREATE TABLE record") - 300, 4096, 37):
        book.path.write_bytes(whole[:place] + b"\x8a" + whole[place + 1 :])
        for ask in (lambda: seal(book), book.report, book.export):
            with suppress(InputError):
                ask()
        assert book.verify(), place


def test_names_bring_no_markup_into_the_page(book: Ledger, clock: Clock) -> None:
    bad = "[x](javascript:alert(1)) <script>alert(1)</script> `a` | b ![y](z) &lt; *c* _d_ # e ~f~ \\"
    made = book.seal([row(bad)], "text", bad, {"driver": bad}, bad)
    book.settle(made.id, [item(bad, 8.0, clock.after(seconds=1), cause=bad), item(bad, 9.0, None, cause=bad)])
    page = book.markdown()
    for sign in "[]<>|`&*_#~":
        unescaped = page.replace("\\\\", "").count(sign) - page.replace("\\\\", "").count("\\" + sign)
        own = {"|": None, "`": None, "#": None, "_": None}.get(sign, 0)
        assert own is None or unescaped == own, sign
    (line,) = [line for line in page.splitlines() if line.startswith("| \\[x")]
    assert line.replace("\\|", "").count("|") == 10
    assert cell("a\nb\x1b[2J") == "a b"
    assert code("a`<b>\n") == "`a<b>`"
