"""What large inputs cost: time and peak memory of commands on tables and files that are made for it.

    python benchmarks/intake.py [NAME ...]

One function per measurement, each of which runs a command in a process of its own; the goals are printed beside.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def timed(*words: str) -> tuple[float, float, float, int]:
    """Seconds of wall and of processor, peak memory in MiB and exit code of a command of ridgeline."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "ridgeline", *words],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode


def write_cases(path: Path, count: int) -> None:
    """A table of four ops in two dtypes with sizes at random."""
    draw = random.Random(1)
    size = draw.randint
    with path.open("w", encoding="utf-8") as out:
        out.write("name,op,dtype,m,n,k,rows,cols,batch,heads,seq_q,head_dim\n")
        for place in range(count):
            head = f"case{place},{{}},{draw.choice(('bf16', 'fp16'))},"
            rest = (
                ("gemm", f"{size(1, 8192)},{size(1, 8192)},{size(1, 8192)},,,,,,"),
                ("softmax", f",,,{size(1, 8192)},{size(1, 8192)},,,,"),
                ("add", f",{size(1, 10**8)},,,,,,,"),
                ("attention", f",,,,,{size(1, 16)},{8 * size(1, 8)},{size(1, 8192)},128"),
            )[place % 4]
            out.write(f"{head.format(rest[0])}{rest[1]}\n")


def cases_csv(folder: Path) -> tuple[str, tuple[float, float, float, int]]:
    write_cases(folder / "cases.csv", 1_000_000)
    words = ("predict", "--cases", str(folder / "cases.csv"), "--on", "h200-sxm", "--out", str(folder / "out.csv"))
    return "1e6 cases, csv to csv: under 20 s and 1 GiB", timed(*words)


def packed_bomb(folder: Path) -> tuple[str, tuple[float, float, float, int]]:
    import gzip

    with gzip.open(folder / "bomb.csv", "wb") as out:
        out.write(b"op,n\n")
        for _ in range(1000):
            out.write(b"add,8\n" * 170_000)
    return "1 GB in a gzip file of 1 MB: refused", timed(
        "predict", "--cases", str(folder / "bomb.csv"), "--on", "h200-sxm"
    )


def sweep(folder: Path) -> tuple[str, tuple[float, float, float, int]]:
    words = ("predict", "gemm", "m=1..1000:1", "n=1..1000:1", "k=4096", "--on", "h200-sxm")
    return "a sweep of 1e6 cases on the terminal", timed(*words)


Measurement = Callable[[Path], tuple[str, tuple[float, float, float, int]]]
MEASUREMENTS: dict[str, Measurement] = {"cases": cases_csv, "bomb": packed_bomb, "sweep": sweep}


def main() -> None:
    print(f"{'wall s':>8} {'CPU s':>8} {'MiB':>8} {'exit':>5}  what")
    for name in sys.argv[1:] or MEASUREMENTS:
        with tempfile.TemporaryDirectory() as folder:
            what, (wall, processor, memory, code) = MEASUREMENTS[name](Path(folder))
        print(f"{wall:8.1f} {processor:8.1f} {memory:8.0f} {code:5}  {what}", flush=True)


if __name__ == "__main__":
    main()
