"""Kills at random moments of a process that seals and settles without end, and what must hold after each."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from ridgeline.app.cli import main
from ridgeline.gaps.ledger import open_ledger

CASES = "name,op,m,n,k\na,gemm,64,64,64\nb,gemm,128,128,128\n"
MAX_REPORTS, MAX_WAIT = 3, 0.03  # records that are waited for, and then seconds until the kill


def killed(path: Path, kills: int, seed: int, batch: int = 10) -> Iterator[tuple[int, int]]:
    """Kill so many processes; after each batch how many records were reported so far and how many there are.

    AssertionError where a reported record is lost, one is there in part, or the next command does not work.
    """
    chance, reported = random.Random(seed), set[str]()
    cases = path.with_suffix(".csv")
    cases.write_text(CASES)
    seal_command(path, cases)
    for number in range(1, kills + 1):
        reported |= one_life(path, chance.randint(0, MAX_REPORTS), chance.random() * MAX_WAIT)
        if number % batch == 0 or number == kills:
            book = open_ledger(path)
            assert book.verify() == [], number
            kept = {record["hash"] for record in book.export()}
            assert reported <= kept, number
            seal_command(path, cases)
            yield len(reported), len(kept)


def seal_command(path: Path, cases: Path) -> None:
    """The next command, which takes back what a killed process left half done."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        main(["seal", str(cases), "--on", "h200-sxm", "--ledger", str(path)], standalone_mode=False)
    assert printed.getvalue().startswith("sealed 2 predictions as ")


def one_life(path: Path, reports: int, seconds: float) -> set[str]:
    """The hashes that a process reported before it was killed."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        with contextlib.suppress(BaseException):
            work(path, into)
        os._exit(1)
    os.close(into)
    with os.fdopen(out, "rb") as lines:
        told = [lines.readline() for _ in range(reports)]
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "it ended by itself"
        return {line.decode().strip() for line in (*told, *lines) if len(line) == 65}


def work(path: Path, into: int) -> None:
    """Seal and settle, report each once it is recorded, and again."""
    book = open_ledger(path)
    while True:
        made = book.seal([{"name": name, "time_us": 5.0} for name in "ab"], "text", "h200-sxm")
        os.write(into, f"{made.hash}\n".encode())
        begun = datetime.now(UTC).isoformat()
        items = [{"name": name, "measured_us": 5.0, "measured_at": begun} for name in "ab"]
        os.write(into, f"{book.settle(made.id, items).hash}\n".encode())
