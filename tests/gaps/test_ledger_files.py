"""The file of a ledger: rights, locks, other files, kills, concurrent writers, a full disk."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from ledger_kills import killed
from ledger_samples import Clock, item, seal

from ridgeline.core.errors import InputError
from ridgeline.gaps.ledger import Ledger, open_ledger, store
from ridgeline.gaps.ledger import ledger as module


def test_reading_makes_no_file(book: Ledger) -> None:
    for read in (
        book.verify,
        book.report,
        book.markdown,
        book.export,
        book.head,
        lambda: book.settle("abcd", [item("a", 1, None)]),
    ):
        with pytest.raises(InputError, match=r"there is no ledger .*: seal predictions first"):
            read()
    assert not book.path.exists()


def test_an_empty_file_is_a_ledger_to_be(book: Ledger) -> None:
    book.path.touch()
    with pytest.raises(InputError, match="is empty: seal predictions first"):
        book.verify()
    seal(book)
    assert book.verify() == []


def test_files_that_are_no_ledger_are_left_alone(tmp_path: Path) -> None:
    text, other = tmp_path / "notes #1?.txt", tmp_path / "other.sqlite"
    text.write_text("some notes, long enough to be taken for anything at all\n" * 20)
    raw = sqlite3.connect(other)
    raw.execute("CREATE TABLE mine (x)")
    raw.close()
    for path, told in (
        (text, "it is not a ledger; name another file"),
        (other, "it is a database, but no ledger"),
        (tmp_path, "it is not a file"),
        (Path("/dev/null"), "it is not a file"),
        (tmp_path / "none" / "book.sqlite", "there is no such folder; create it first"),
    ):
        before = path.read_bytes() if path.is_file() else b""
        with pytest.raises(InputError, match=told):
            seal(open_ledger(path))
        with pytest.raises(InputError):
            open_ledger(path).verify()
        assert not path.is_file() or path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes #1?.txt", "other.sqlite"]


def test_a_newer_schema_is_refused(book: Ledger) -> None:
    seal(book)
    raw = sqlite3.connect(book.path)
    raw.execute("PRAGMA user_version = 3")
    raw.close()
    for ask in (book.verify, book.report, lambda: seal(book)):
        with pytest.raises(InputError, match="has schema 3, known here is 2; install a newer ridgeline"):
            ask()


def test_a_ledger_without_indexes_is_read_and_gets_them_with_its_next_record(book: Ledger, clock: Clock) -> None:
    """As ridgeline 0.1 wrote it."""
    first = seal(book)
    book.settle(first, [item("a", 8.0, clock.after(seconds=1))])
    raw = sqlite3.connect(book.path)
    raw.executescript("DROP INDEX seal_hash; DROP INDEX settled_seal; PRAGMA user_version = 1")
    raw.close()
    assert book.verify() == []
    assert book.find(first).id == first
    assert book.settle(first, [item("a", 8.0, clock.after(seconds=1))]).items[0]["repeat"]
    assert book.verify() == []
    raw = sqlite3.connect(book.path)
    assert raw.execute("SELECT count(*) FROM sqlite_master WHERE type = 'index'").fetchone() == (2,)
    raw.close()


def test_the_users_own_ledger_gets_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "folder", lambda kind: tmp_path / kind / "ridgeline")
    seal(open_ledger())
    assert open_ledger(tmp_path / "data" / "ridgeline" / "ledger.sqlite").head()[0] == 1
    monkeypatch.setattr(module, "folder", lambda kind: Path("/dev/null/ridgeline"))
    with pytest.raises(InputError, match="cannot make the folder '/dev/null/ridgeline'"):
        seal(open_ledger())


def test_a_locked_ledger_says_so(book: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    seal(book)
    monkeypatch.setattr(store, "LOCK_TIMEOUT", 0.05)
    raw = sqlite3.connect(book.path, isolation_level=None)
    raw.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match="another process kept it locked"):
        seal(book)
    assert book.verify() == []  # readers go on
    raw.close()
    seal(book)


def run(code: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder another user can reach."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def _as_nobody(path: Path, tell: Any) -> None:
    if os.geteuid() == 0:
        os.setuid(65534)  # root may write everything
    book = open_ledger(path)
    found: list[Any] = [len(book.verify()), book.report()["predictions"]]
    try:
        seal(book)
    except InputError as error:
        found.append(str(error))
    tell.send(found)


@pytest.mark.parametrize(("file", "folder"), [(0o444, 0o777), (0o444, 0o555), (0o666, 0o555)])
def test_a_read_only_ledger_can_be_read(open_folder: Path, file: int, folder: int) -> None:
    path = open_folder / "book.sqlite"
    seal(open_ledger(path))
    path.chmod(file)
    open_folder.chmod(folder)
    heard, tell = get_context("fork").Pipe()
    reader = get_context("fork").Process(target=_as_nobody, args=(path, tell))
    reader.start()
    assert heard.poll(30)
    findings, predictions, told = heard.recv()
    reader.join()
    assert (findings, predictions) == (0, 2)
    assert told.startswith(f"cannot use the ledger '{path}': it ")
    assert "change its rights" in told or "check the folder and its rights" in told
    assert open_ledger(path).head()[0] == 1


SEALING = """
import sys
from ridgeline.gaps.ledger import open_ledger, store
store.LOCK_TIMEOUT = 600  # however slow the machine is
path, who, count = sys.argv[1:]
for turn in range(int(count)):
    made = open_ledger(path).seal([{"name": f"{who} {turn}", "time_us": 1.0}], "text", "h200-sxm")
    print(made.hash, flush=True)
"""


def test_eight_processes_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "book.sqlite"
    writers = [run(SEALING, str(path), str(who), "50") for who in range(8)]
    ends = [writer.communicate() for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * 8, [end[1] for end in ends]
    book = open_ledger(path)
    assert book.verify() == []
    records = book.export()
    assert len(records) == 8 * 50
    assert {record["hash"] for record in records} == {line for end in ends for line in end[0].split()}
    names = {record["content"]["predictions"][0]["name"] for record in records}
    assert names == {f"{who} {turn}" for who in range(8) for turn in range(50)}
    assert [each.name for each in tmp_path.iterdir()] == ["book.sqlite"]


def test_what_seal_returned_survives_a_kill(tmp_path: Path) -> None:
    (*_, (reported, kept)) = killed(tmp_path / "book.sqlite", kills=20, seed=24)
    assert 0 < reported <= kept


FULL = """
import resource, sys
from ridgeline.core.errors import InputError
from ridgeline.gaps.ledger import open_ledger
path, limit = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), resource.RLIM_INFINITY))
for turn in range(40):
    try:
        made = open_ledger(path).seal([{"name": "x" * 1500, "time_us": 1.0}], "text", "h200-sxm")
    except InputError as error:
        print(error)
        break
    print(made.hash)
"""


@pytest.mark.parametrize("limit", [0, 100, 3000, 4096, 9000, 20480, 30000, 50001])
def test_a_full_disk_loses_nothing(tmp_path: Path, limit: int) -> None:
    """No file may grow beyond `limit` bytes: the write fails in the journal or in the file itself."""
    path = tmp_path / "book.sqlite"
    writer = run(FULL, str(path), str(limit))
    out, trouble = writer.communicate()
    assert writer.returncode == 0, trouble
    *returned, told = out.splitlines()
    assert told.startswith(f"cannot use the ledger '{path}': the disk is full")
    assert "what was sealed before is safe" in told
    assert bool(returned) is (limit > 20000)
    book = open_ledger(path)
    if returned:
        assert [record["hash"] for record in book.export()] == returned
        assert book.verify() == []
    seal(book)  # with room again, it goes on
    assert book.head()[0] == len(returned) + 1
    assert book.verify() == []
