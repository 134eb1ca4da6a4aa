"""How often `ridgeline gate` raises a false alarm, and how often it misses a slowdown, on real timings of this machine.

    python benchmarks/gate_alarms.py collect runs.json [--runs 120] [--seed 1]
    python benchmarks/gate_alarms.py judge runs.json [--gates 1000] [--seed 1]
    python benchmarks/gate_alarms.py pairs pairs.jsonl [--runs 100] [--seed 1]

`collect` times small kernels as the fixture `ridgeline_record` does, each run in a process of its own, while a busy process
comes and goes (for a part of the time, in `BUSY_SHARE` of the runs). Every second run does 10 % more work, so a slowdown
is a real one. `judge` draws baseline and current runs from that file without replacement: identical ones, and ones in
which one kernel is taken from the slow runs. It prints the share of red gates and of slowdowns that were caught.

`pairs` draws nothing: for each of its pairs it runs new processes, first the baseline runs, then current runs of the same
code in turn with current runs in which one kernel does 10 % more work. The gate decides each pair once, at its defaults.
The load is what the machine has. Every pair is a line of the file, and a second call goes on after the last one.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ridgeline.core.documents import to_document
from ridgeline.gaps.gate import SLOWER, UNCLEAR, Timed, Verdict, compare, read

BUSY_SHARE = 0.4  # of the runs have a busy process next to them, for a part of their time
SLOWDOWN = 1.1
PLANS = ((1, 1), (3, 1), (5, 1), (5, 3), (8, 3))  # baseline and current runs
PAIR_PLAN = (5, 3)  # baseline and current runs of a pair
PAIR_NAMES = ("products", "copy", "python")  # BLAS, memory bandwidth, the interpreter
ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}  # threads that wait for each other time the neighbours
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


def sample_kernels(names: list[str], slowed: list[str]) -> list[dict[str, Any]]:
    from ridgeline.app.pytest_plugin.check import timed

    normal, slow = kernels(1.0), kernels(SLOWDOWN)
    calls = {name: slow[name] if name in slowed else normal[name] for name in names or normal}
    return [to_document(timed(call, name=name)) for name, call in calls.items()]


def run_apart(names: Sequence[str] = (), slowed: Sequence[str] = ()) -> list[dict[str, Any]]:
    """The observations of one run in a process of its own, on one thread."""
    words = [sys.executable, __file__, "run", "--names", *names, "--slowed", *slowed]
    ended = subprocess.run(words, check=True, capture_output=True, text=True, env={**os.environ, **ONE_THREAD})
    observations: list[dict[str, Any]] = json.loads(ended.stdout)
    return observations


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
            observations = run_apart(slowed=list(kernels(1.0)) if slow else [])
        kept.append({"slow": slow, "busy": busy, "observations": observations})
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


def make_pair(number: int, seed: int) -> dict[str, Any]:
    """The runs of one pair."""
    baseline, current = PAIR_PLAN
    name = random.Random(f"{seed} {number}").choice(PAIR_NAMES)
    load = [os.getloadavg()[0]]

    def run(*slowed: str) -> list[dict[str, Any]]:
        keys = ("name", "samples", "conditions")
        return [{key: row[key] for key in keys} for row in run_apart(PAIR_NAMES, slowed)]

    old = [run() for _ in range(baseline)]
    turns = [(run(), run(name)) for _ in range(current)]
    load.append(os.getloadavg()[0])
    return {"slowed": name, "load": load, "baseline": old, "current": [same for same, _ in turns], "slow": [slow for _, slow in turns]}  # fmt: skip


def pairs(out: Path, count: int, seed: int) -> None:
    done = len(out.read_text().splitlines()) if out.exists() else 0
    for number in range(done, count):
        pair = make_pair(number, seed)
        with out.open("a") as file:
            file.write(json.dumps(pair) + "\n")
    judge_pairs([json.loads(line) for line in out.read_text().splitlines()])


def judge_pairs(rows: list[dict[str, Any]]) -> None:
    red, caught, unclear, missed = 0, 0, 0, Counter[str]()
    for row in rows:
        old, same, slow = ([read(run) for run in row[side]] for side in ("baseline", "current", "slow"))
        red += not compare(old, same).passed
        verdict, name = compare(old, slow), row["slowed"]
        caught += name in _with(verdict, SLOWER)
        unclear += name in _with(verdict, UNCLEAR)
        missed.update({name: name not in _with(verdict, SLOWER)})
    loads = sorted(load for row in rows for load in row["load"])
    print(
        f"{os.cpu_count()} CPUs, load average {loads[0]:.1f} to {loads[-1]:.1f}, median {loads[len(loads) // 2]:.1f}; "
        f"{len(PAIR_NAMES)} names, {PAIR_PLAN[0]} baseline and {PAIR_PLAN[1]} current runs, each a new process"
    )
    print(f"identical runs: {red} red gates in {len(rows)} pairs")
    print(
        f"one name does 10 % more work: caught in {caught} of {len(rows)} pairs, inconclusive in {unclear} "
        f"(missed: {', '.join(f'{name} {count}' for name, count in missed.items() if count) or 'none'})"
    )


def _with(verdict: Verdict, kind: str) -> list[str]:
    return [item.name for item in verdict.items if item.verdict == kind]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["collect", "judge", "pairs", "run"])
    parser.add_argument("file", type=Path, nargs="?", default=Path("runs.json"))
    parser.add_argument("--runs", type=int, help="runs (120) or pairs (100)")
    parser.add_argument("--gates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--slowed", nargs="*", default=[])
    options = parser.parse_args()
    if options.what == "run":
        print(json.dumps(sample_kernels(options.names, options.slowed)))
    elif options.what == "collect":
        collect(options.file, options.runs or 120, options.seed)
    elif options.what == "pairs":
        pairs(options.file, options.runs or 100, options.seed)
    else:
        judge(options.file, options.gates, options.seed)


if __name__ == "__main__":
    main()
