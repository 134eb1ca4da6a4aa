"""How long ridgeline takes to start, in ratio to `import numpy`: medians over fresh interpreters.

    python benchmarks/startup.py [--src OTHER_CHECKOUT/src ...] [--runs 15]

The starts take turns, so that a machine that becomes busy slows all of them and not one. The CPU time of the process is
the steadier figure there; the ratio is taken from it.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
NUMPY = "import numpy"
STARTS = {
    "python": ["-c", "pass"],
    NUMPY: ["-c", NUMPY],
    "import ridgeline": ["-c", "import ridgeline"],
    "ridgeline --help": ["-m", "ridgeline", "--help"],
    "ridgeline predict gemm": ["-m", "ridgeline", *["predict", "gemm", "m=1", "n=1", "k=1", "--on", "h200-sxm"]],
}


def start(words: list[str], sources: Path) -> tuple[float, float]:
    """Wall and CPU seconds of one interpreter."""
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, action="append", help="sources to start (default: these)")
    parser.add_argument("--runs", type=int, default=15)
    asked = parser.parse_args()
    trees = [path.resolve() for path in asked.src or [SOURCES]]
    samples: dict[tuple[Path, str], list[tuple[float, float]]] = {(tree, name): [] for tree in trees for name in STARTS}
    for turn in range(asked.runs + 1):
        for tree, name in samples:
            taken = start(STARTS[name], tree)
            if turn:  # the first one fills the file cache and writes bytecode
                samples[tree, name].append(taken)
    for tree in trees:
        medians = {
            name: [statistics.median(column) for column in zip(*samples[tree, name], strict=True)] for name in STARTS
        }
        print(tree)
        for name, (wall, cpu) in medians.items():
            ratio = cpu / medians[NUMPY][1]
            print(f"  {name:24} wall {wall * 1e3:7.1f} ms  CPU {cpu * 1e3:7.1f} ms  {ratio:5.2f} x {NUMPY}")


if __name__ == "__main__":
    main()
