"""How often `ridgeline gate` raises a false alarm, and how often it misses a slowdown, on real timings of this machine.

    python benchmarks/gate_alarms.py collect runs.json [--runs 120] [--seed 1]
    python benchmarks/gate_alarms.py judge runs.json [--gates 1000] [--seed 1]

`collect` times small kernels as the fixture `ridgeline_record` does, each run in a process of its own, while a busy process
comes and goes (for a part of the time, in `BUSY_SHARE` of the runs). Every second run does 10 % more work, so a slowdown
is a real one. `judge` draws baseline and current runs from that file without replacement: identical ones, and ones in
which one kernel is taken from the slow runs. It prints the share of red gates and of slowdowns that were caught.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ridgeline.core.documents import to_document
from ridgeline.gaps.gate import SLOWER, UNCLEAR, Timed, Verdict, compare, read

BUSY_SHARE = 0.4  # of the runs have a busy process next to them, for a part of their time
SLOWDOWN = 1.1
PLANS = ((1, 1), (3, 1), (5, 1), (5, 3), (8, 3))  # baseline and current runs
Run = dict[str, Timed]


def kernels(scale: float) -> dict[str, Callable[[], Any]]:
    """Small kernels of several kinds, with `scale` times as much work: in cache and out of it, library and Python."""
    import numpy as np

    draw = np.random.default_rng(1)
    products, length, large = round(10 * scale), round(20_000 * scale), round(2_000_000 * scale)
    a, b = (draw.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    row, image = draw.standard_normal(length), draw.standard_normal(large).astype(np.float32)
    target, words = np.empty_like(image), [f"word {number}" for number in range(round(2000 * scale))]
    return {
        "products": lambda: [a @ b for _ in range(products)],
        "exp": lambda: np.exp(row),
        "sort": lambda: np.sort(row),
        "sum": lambda: image.sum(),
        "copy": lambda: np.copyto(target, image),
        "prefix": lambda: np.cumsum(row),
        "json": lambda: json.dumps(words),
        "python": lambda: sum(number * number for number in range(round(2000 * scale))),
    }


def sample_kernels(scale: float) -> list[dict[str, Any]]:
    from ridgeline.app.pytest_plugin.check import timed

    return [to_document(timed(call, name=name)) for name, call in kernels(scale).items()]


def _spin(after: float, seconds: float) -> None:
    time.sleep(after)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(10_000))


@contextmanager
def neighbour(draw: random.Random) -> Iterator[bool]:
    """In some runs a busy process, from a random moment on and for a random time."""
    if draw.random() >= BUSY_SHARE:
        yield False
        return
    process = multiprocessing.Process(target=_spin, args=(draw.uniform(0, 2), draw.uniform(0.5, 4)), daemon=True)
    process.start()
    try:
        yield True
    finally:
        process.terminate()
        process.join()


def collect(out: Path, runs: int, seed: int) -> None:
    draw, kept = random.Random(seed), []
    for number in range(runs):
        slow = bool(number % 2)
        with neighbour(draw) as busy:
            words = [sys.executable, __file__, "run", *(["--slow"] if slow else [])]
            answer = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        kept.append({"slow": slow, "busy": busy, "observations": json.loads(answer)})
        out.write_text(json.dumps(kept))


def judge(path: Path, gates: int, seed: int) -> None:
    draw, rows = random.Random(seed), json.loads(path.read_text())
    runs: dict[bool, list[Run]] = {slow: [read(row["observations"]) for row in rows if row["slow"] is slow] for slow in (False, True)}  # fmt: skip
    names = list(runs[False][0])
    print(f"{len(runs[False])} normal runs, {len(runs[True])} slow ones, {len(names)} names, {gates} gates each")
    for baseline, current in PLANS:
        alarms, caught, unclear, missed = 0, 0, 0, Counter[str]()
        for _ in range(gates):
            drawn = draw.sample(runs[False], baseline + current)
            old, new = drawn[:baseline], drawn[baseline:]
            alarms += bool(_with(compare(old, new), SLOWER))
            name = draw.choice(names)
            slowed = [
                {**run, name: slow[name]} for run, slow in zip(new, draw.sample(runs[True], current), strict=True)
            ]
            verdict = compare(old, slowed)
            caught += name in _with(verdict, SLOWER)
            unclear += name in _with(verdict, UNCLEAR)
            missed.update({name: name not in _with(verdict, SLOWER)})
        shares = ", ".join(f"{name} {count}" for name, count in missed.most_common(3))
        print(
            f"{baseline} baseline, {current} current: {100 * alarms / gates:.1f} % false alarms; +10 % of one name: "
            f"{100 * caught / gates:.1f} % caught, {100 * unclear / gates:.1f} % inconclusive (missed most: {shares})"
        )


def _with(verdict: Verdict, kind: str) -> list[str]:
    return [item.name for item in verdict.items if item.verdict == kind]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "judge", "run"])
    parser.add_argument("file", type=Path, nargs="?", default=Path("runs.json"))
    parser.add_argument("--runs", type=int, default=120)
    parser.add_argument("--gates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slow", action="store_true")
    options = parser.parse_args()
    if options.what == "run":
        print(json.dumps(sample_kernels(SLOWDOWN if options.slow else 1.0)))
    elif options.what == "collect":
        collect(options.file, options.runs, options.seed)
    else:
        judge(options.file, options.gates, options.seed)


if __name__ == "__main__":
    main()
