"""A head that was exported finds what the chain alone cannot; and no flipped bit of a file ends in a traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ledger_samples import Clock, item, rewrite, row, seal, stored_rows, tamper

from amount import WIDE
from ridgeline.app.cli import main
from ridgeline.core.errors import InputError
from ridgeline.gaps.ledger import Broken, Ledger, open_ledger
from ridgeline.gaps.ledger.head import expected_head

FLIPS = 2_000 if WIDE else 80  # at random, by a fixed seed


@pytest.fixture
def sealed(tmp_path: Path) -> Ledger:
    """Three records: two seals, one of them settled."""
    clock = Clock()
    book = open_ledger(tmp_path / "book.sqlite", clock)
    first = seal(book)
    book.settle(first, [item("a", 8.0, clock.after(seconds=1))])
    seal(book, row("c"))
    return book


def command(*words: str) -> Result:
    return CliRunner().invoke(main, ["ledger", *words])


def exported(book: Ledger) -> Path:
    out = book.path.with_name("head.json")
    assert command("head", "--ledger", str(book.path), "--out", str(out)).exit_code == 0
    return out


def cut(book: Ledger) -> None:
    """The last record removed and the head set back, as someone does who knows the format."""
    records = stored_rows(book.path)
    number, digest = records[-2][0], records[-2][-1]
    tamper(book.path, ("DELETE FROM record WHERE number > ?", (number,)), ("UPDATE head SET count = ?, hash = ?", (number, digest)))  # fmt: skip


def test_an_exported_head_holds_count_hash_and_time(sealed: Ledger) -> None:
    document = json.loads(exported(sealed).read_text())
    last = stored_rows(sealed.path)[-1]
    assert (document["records"], document["hash"], document["time"]) == (3, last[-1], last[3])
    assert document["kind"] == "ridgeline ledger head"
    answer = command("head", "--ledger", str(sealed.path))
    assert answer.output == f"head {last[-1]} after 3 records, {last[3]}\n"


def test_a_cut_and_repaired_end_is_found_by_the_exported_head(sealed: Ledger) -> None:
    head = exported(sealed)
    kept = ["verify", "--ledger", str(sealed.path), "--expect", str(head)]
    assert command(*kept).exit_code == 0
    cut(sealed)
    assert command("verify", "--ledger", str(sealed.path)).exit_code == 0  # the chain alone cannot find it
    answer = command(*kept)
    assert answer.exit_code == 1
    assert "the expected head counts 3 records, the ledger has 2: its end was cut off" in answer.output


def test_a_head_stays_in_a_ledger_that_grows_and_not_in_a_rewritten_one(sealed: Ledger) -> None:
    head = exported(sealed)
    seal(sealed, row("d"))
    assert sealed.verify(head) == []
    rewrite(sealed.path, 1, content=lambda text: text.replace('"time_us":10.0', '"time_us":30.0'))
    assert sealed.verify() == []
    (finding,) = sealed.verify(head)
    assert (finding.what, finding.fault) == ("expected", True)


@pytest.mark.parametrize(("key", "value", "text"), [("records", 2, "is record 2"), ("time", "2020", "is dated 2020")])
def test_a_head_that_was_edited_is_found(sealed: Ledger, key: str, value: object, text: str) -> None:
    path = exported(sealed)
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    (finding,) = sealed.verify(path)
    assert text in finding.text


def test_a_broken_ledger_gives_no_head(sealed: Ledger) -> None:
    tamper(sealed.path, ("UPDATE record SET ridgeline = 'x' WHERE number = 1", ()))
    with pytest.raises(Broken, match="its head shows nothing: record 1"):
        sealed.anchor()
    assert command("head", "--ledger", str(sealed.path)).exit_code == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not the head of a ledger"),
        ("[]", "must be a table"),
        ("{}", "4 mistakes found"),
        ('{"kind": "ridgeline ledger head", "hash": "00", "records": 1, "time": "x"}', "it has 64 hex digits"),
        ('{"kind": "ridgeline ledger head", "schema": 9}', "newer than 1"),
        ("\x00\x01", "is not a text file"),
    ],
)
def test_a_file_that_is_no_head_says_so(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "head.json"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        expected_head(path)


def test_heads_are_written_as_json(sealed: Ledger) -> None:
    answer = command("head", "--ledger", str(sealed.path), "--out", str(sealed.path.with_name("head.md")))
    assert answer.exit_code == 2
    assert "a head is written to .json" in answer.output


def test_no_flipped_bit_of_the_file_ends_in_a_traceback(sealed: Ledger, tmp_path: Path) -> None:
    """Bits of the whole file, header and free pages included: an answer or one message, exit code 0, 1 or 2."""
    raw, draw, copy = sealed.path.read_bytes(), random.Random(15), tmp_path / "flipped.sqlite"
    rows = tmp_path / "cases.csv"
    rows.write_text("op,name,m,n,k\ngemm,a,64,64,64\n")
    for turn in range(FLIPS):
        bit = draw.randrange(8 * len(raw))
        changed = bytearray(raw)
        changed[bit // 8] ^= 1 << bit % 8
        copy.write_bytes(changed)
        what = ("verify", "report", "show", "efficiency", "head")[turn % 5]
        lines = [["ledger", what]] if turn % 8 else [["ledger", what], ["seal", str(rows), "--on", "h200-sxm"]]
        for words in lines:
            ended = CliRunner().invoke(main, [*words, "--ledger", str(copy)])
            assert ended.exception is None or isinstance(ended.exception, SystemExit), (bit, words, ended.exception)
            assert ended.exit_code in (0, 1, 2), (bit, words)
            assert ended.output.strip(), (bit, words)
