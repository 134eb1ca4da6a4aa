"""How long ridgeline takes to start, in ratio to `import numpy`: median wall time of fresh interpreters.

    python benchmarks/startup.py [--src OTHER_CHECKOUT/src ...] [--runs 15]

The starts take turns, so that a machine that becomes busy slows all of them and not one.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

SOURCES = Path(__file__).parents[1] / "src"
NUMPY = "import numpy"
PREDICT = "-m ridgeline predict gemm m=1 n=1 k=1 --on h200-sxm"
STARTS = {
    "python": ["-c", "pass"],
    NUMPY: ["-c", "import numpy"],
    "import ridgeline": ["-c", "import ridgeline"],
    "ridgeline --help": ["-m", "ridgeline", "--help"],
    PREDICT.removeprefix("-m "): PREDICT.split(),
}


def seconds(words: list[str], sources: Path) -> float:
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", type=Path, action="append", help="sources to start (default: these)")
    parser.add_argument("--runs", type=int, default=15)
    asked = parser.parse_args()
    trees = [path.resolve() for path in asked.src or [SOURCES]]
    samples: dict[tuple[Path, str], list[float]] = {(tree, name): [] for tree in trees for name in STARTS}
    for turn in range(asked.runs + 1):
        for tree, name in samples:
            taken = seconds(STARTS[name], tree)
            if turn:  # the first one fills the file cache and writes bytecode
                samples[tree, name].append(taken)
    for tree in trees:
        numpy = statistics.median(samples[tree, NUMPY])
        print(tree)
        for name in STARTS:
            median = statistics.median(samples[tree, name])
            print(f"  {name:58} {median * 1e3:7.1f} ms  {median / numpy:5.2f} x {NUMPY}")


if __name__ == "__main__":
    main()
