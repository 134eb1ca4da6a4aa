"""Ctrl-C at random moments of a few commands: counts exit codes and tracebacks.

    python benchmarks/interrupts.py [COUNT]

Python's own start, before any line of ridgeline has run, is counted apart: nothing in a package can change what it prints.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections import Counter

START = [sys.executable, "-c", "from ridgeline.__main__ import main\nmain()"]
COMMANDS = (
    "predict gemm m=1..8192 n=4096 k=4096 --on h200-sxm",
    "predict linear batch=1..1024 in_features=4096 out_features=4096 --on h200-sxm --json",
    "machines",
    "chart roofline --on h200-sxm",
    "run --help",
)
CALM = (0, 130, -signal.SIGINT)


def seconds(words: list[str]) -> float:
    begin = time.perf_counter()
    subprocess.run([*START, *words], capture_output=True, check=True)
    return time.perf_counter() - begin


def interrupted(words: list[str], after: float) -> tuple[int, str]:
    with subprocess.Popen([*START, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        time.sleep(after)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    return process.returncode, errors


def main(count: int) -> int:
    draw = random.Random(1)
    takes = {line: seconds(line.split()) for line in COMMANDS}
    codes: Counter[int] = Counter()
    ours, starts = [], 0
    for turn in range(count):
        line = COMMANDS[turn % len(COMMANDS)]
        code, errors = interrupted(line.split(), draw.uniform(0, takes[line]))
        codes[code] += 1
        if code in CALM and "Traceback" not in errors and "ignored" not in errors:
            continue
        if "ridgeline" in errors:
            ours.append(f"{line}: exit code {code}\n{errors}")
        else:
            starts += 1
    print(
        f"{count} interrupts: exit codes {dict(codes)}, {len(ours)} tracebacks, {starts} in the start of Python itself"
    )
    print("\n".join(ours))
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 200))
