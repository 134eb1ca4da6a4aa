"""What a seal, a settlement and a look at a ledger cost when it has 10, 1000 and 100 000 records.

    python benchmarks/ledger_growth.py [--records 10 1000 100000] [--runs 5]

Every call opens the file and closes it again, as a command does. `process` is the command `ridgeline seal` as a whole,
with the start of Python, as wall and as CPU time; the start alone comes first. Medians, and the most memory of `report`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
sys.path.insert(0, str(SOURCES))

from ridgeline.gaps.ledger import open_ledger  # noqa: E402
from ridgeline.gaps.ledger.record import COLUMNS, Record, canonical_json, text_hash, time_text  # noqa: E402
from ridgeline.gaps.ledger.store import LAYOUTS  # noqa: E402

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SETTLED_EVERY = 2  # every second record settles the seal before it
CASES = "name,op,m,n,k\nk0,gemm,1024,1024,1024\nk1,gemm,2048,2048,2048\n"


def row(name: str) -> dict[str, object]:
    shape = {"m": 1024, "n": 1024, "k": 1024}
    times = {"floor_us": 9.0, "time_us": 10.0, "low_us": 8.0, "high_us": 12.0}
    return {"name": name, "op": "gemm", "family": "gemm", "bound": "memory", "dtype": "bf16", "shape": shape, **times}


def fill(path: Path, count: int) -> str:
    """A ledger of so many records, written without the checks that the records are measured with; an early seal's id."""
    book = open_ledger(path, lambda: BEGAN)
    first = seal = book.seal([row("k0"), row("k1")], "text", "h200-sxm")
    stored = sqlite3.connect(path)
    last = Record(*stored.execute(f"SELECT {', '.join(COLUMNS)} FROM record").fetchone())
    template, seal_hash = json.loads(last.content), seal.hash
    for statement in LAYOUTS[1][3:]:
        stored.execute(f"DROP TRIGGER {statement.split()[2]}")
    marks = ", ".join("?" * len(COLUMNS))
    for number in range(2, count + 1):
        begun = BEGAN + timedelta(seconds=number)
        if number % SETTLED_EVERY:
            content, kind = {**template, "predictions": [row(f"k{number}"), row("k1")]}, "seal"
        else:
            name = f"k{number - 1}" if number > 2 else "k0"
            item = {"name": name, "measured_us": 11.0, "measured_at": time_text(begun), "bound_observed": "memory"}
            kept = {**item, "cause": "", "sealed": True, "reason": ""}
            content, kind = {"seal": seal_hash, "items": [kept], "observations": {}}, "settle"
        text = canonical_json(content, "a record")
        at = time_text(begun + timedelta(milliseconds=1))
        last = Record(number, 1, kind, at, last.ridgeline, text, text_hash(text), last.hash, "")
        last = replace(last, hash=last.computed_hash())
        stored.execute(f"INSERT INTO record VALUES ({marks})", tuple(last.row().values()))
        seal_hash = last.hash if kind == "seal" else seal_hash
    stored.execute("UPDATE head SET count = ?, hash = ?", (last.number, last.hash))
    for statement in LAYOUTS[1][3:]:
        stored.execute(statement)
    stored.commit()
    stored.close()
    return first.id


def seconds(runs: int, call: Callable[[], object]) -> float:
    taken = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def command(*words: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    subprocess.run([sys.executable, "-m", "ridgeline", *words], env=environment, check=True, stdout=subprocess.DEVNULL)


def most_memory(path: Path) -> float:
    """Bytes of a fresh process that makes the report."""
    code = (
        "import resource, sys; from ridgeline.gaps.ledger import open_ledger; open_ledger(sys.argv[1]).report();"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"
    )
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    ran = subprocess.run([sys.executable, "-c", code, path], env=environment, check=True, stdout=subprocess.PIPE)
    return float(ran.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, nargs="+", default=[10, 1000, 100_000])
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cases = Path(folder) / "cases.csv"
        cases.write_text(CASES)
        print(f"start of a command {seconds(asked.runs, lambda: command('--version')):.3f} s")
        for count in asked.records:
            path = Path(folder) / f"{count}.sqlite"
            seal = fill(path, count)
            book = open_ledger(path)
            item = {"name": "k0", "measured_us": 11.0, "measured_at": datetime.now(UTC).isoformat()}
            words = ("seal", str(cases), "--on", "h200-sxm", "--ledger", str(path))
            calls = {
                "seal": lambda book=book: book.seal([row("k0")], "text", "h200-sxm"),
                "settle": lambda book=book, seal=seal, item=item: book.settle(seal, [item]),
                "find": lambda book=book, seal=seal: book.find(seal[:6]),
                "process": lambda words=words: command(*words),
            }
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            figures = [f"{name} {seconds(asked.runs, call):.3f} s" for name, call in calls.items()]
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            figures[-1] += f" (CPU {spent / asked.runs:.2f} s)"
            reads = {"verify": book.verify, "report": book.report, "show": book.markdown}
            figures += [f"{name} {seconds(1, call):.2f} s" for name, call in reads.items()]
            size, memory = path.stat().st_size, most_memory(path)
            print(
                f"{count:7} records  {size / 1e6:6.1f} MB  {'  '.join(figures)}  memory {memory / 1e6:.0f} MB",
                flush=True,
            )


if __name__ == "__main__":
    main()
