"""Prefix sums, transposes and pools, to time in addition to every family's calibration.

    python benchmarks/row_walks.py calibration > cases.csv
    python benchmarks/row_walks.py test > cases.csv            never to be fitted to

The kinds that every family's calibration draws, with any sizes; the same table every time. No shape is in another table.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

from judge_h200 import DATA

from ridgeline.measure.cuda.cases import random_cases
from ridgeline.measure.cuda.draw import Case
from ridgeline.measure.cuda.kernels import RESULTS, table

# families of the plan; cases that are drawn of each for a table, and the ops of it that are kept
COUNTS = {
    "calibration": {"selection": 4800, "transpose": 480, "pools": 1000},
    "test": {"selection": 1200, "transpose": 160, "pools": 300},
}
OPS = ("cumsum", "transpose", "max_pool2d", "max_pool2d_backward")
SEEDS = {"calibration": 10310, "test": 10320}


def cases(name: str) -> list[Case]:
    drawn = [
        case for family, count in COUNTS[name].items() for case in random_cases(count, SEEDS[name], only=(family,))
    ]
    return [case for case in drawn if case["op"] in OPS]


def shapes(text: str) -> list[tuple[tuple[str, str], ...]]:
    """What tells the cases of a table apart: every filled column but results."""
    found = csv.DictReader(io.StringIO(text))
    return [tuple(sorted((name, row[name]) for name in row if row[name] and name not in RESULTS)) for row in found]


def read(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()


def main() -> None:
    name = sys.argv[1]
    paths = [path for path in (*DATA.glob("h200-*.csv.gz"), *DATA.glob("h200-*.csv")) if "walks" not in path.name]
    known = {shape for path in paths for shape in shapes(read(path))}
    if name == "calibration":
        known |= set(shapes(table(cases("test"))))
    drawn = cases(name)
    print(table([case for case, shape in zip(drawn, shapes(table(drawn)), strict=True) if shape not in known]), end="")


if __name__ == "__main__":
    main()
