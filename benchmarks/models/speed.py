"""How long a thousand layouts x batches take: 4 machines, 5 layouts, 50 batches of one model, in seconds of one core.

`python benchmarks/models/speed.py` prints the median of five runs; the first, which reads files and fills caches, apart.
"""

from __future__ import annotations

import statistics
import time

from ridgeline.machines.load import load
from ridgeline.prediction.models.choice import ServiceLevel, choices
from ridgeline.prediction.models.result import Load
from ridgeline.programs.models.layout import Layout
from ridgeline.programs.models.load import architecture
from ridgeline.programs.models.phase import Formats

MODEL = "llama-3-70b"
MACHINES = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")
LAYOUTS = (Layout(), Layout(tp=2), Layout(tp=4), Layout(tp=8), Layout(tp=8, pp=2))
BATCHES = tuple(range(1, 51))
RUNS = 5


def seconds() -> float:
    """Of one evaluation, machines read beforehand."""
    machines = [load(name) for name in MACHINES]
    start = time.process_time()
    rows = choices(architecture(MODEL), machines, Load(), Formats(), ServiceLevel(), LAYOUTS, BATCHES)
    spent = time.process_time() - start
    assert len(rows) == len(MACHINES) * len(LAYOUTS)
    return spent


def main() -> None:
    first = seconds()
    again = statistics.median(seconds() for _ in range(RUNS))
    points = len(MACHINES) * len(LAYOUTS) * len(BATCHES)
    print(f"{points} layouts x batches of {MODEL}: {again:.2f} s of one core, {first:.2f} s in a new process")


if __name__ == "__main__":
    main()
