"""Row ops, sums, pools and transposes to time in addition to every family's calibration.

    python benchmarks/row_ops.py walks > cases.csv          prefix sums, pools, transposes
    python benchmarks/row_ops.py walks-test > cases.csv     the same; never to be fitted to
    python benchmarks/row_ops.py rows > cases.csv           sums of columns, gradients of norms, sorts, look-ups, pools, GEMV
    python benchmarks/row_ops.py rows-test > cases.csv      the same; never to be fitted to

The kinds that every family's calibration draws, with any sizes; the same table every time, as long as no table was added. No
shape is in another table.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping

import numpy as np
from judge_h200 import DATA, rows

from ridgeline.measure.cuda.cases import random_cases
from ridgeline.measure.cuda.draw import Case
from ridgeline.measure.cuda.kernels import RESULTS, table

# families of the plan; cases that are drawn of each for a table, and the ops of it that are kept
WALKS = ("cumsum", "transpose", "max_pool2d", "max_pool2d_backward")
ROWS = (
    *("sum_columns", "layernorm_backward", "rmsnorm_backward", "sort", "topk", "embedding", "gemv"),
    *("max_pool2d", "max_pool2d_backward", "sum_rows", "softmax_backward"),
)
COUNTS: dict[str, tuple[tuple[str, ...], dict[str, int]]] = {
    "walks": (WALKS, {"selection": 4800, "transpose": 480, "pools": 1000}),
    "walks-test": (WALKS, {"selection": 1200, "transpose": 160, "pools": 300}),
    "rows": (
        ROWS,
        {
            **{"column sums": 2800, "row backward": 1600, "selection": 1600, "embedding": 800, "gemv": 800},
            **{"pools": 2400, "few rows": 600},
        },
    ),
    "rows-test": (
        ROWS,
        {
            **{"column sums": 400, "row backward": 300, "selection": 300, "embedding": 150, "gemv": 150},
            **{"pools": 300, "few rows": 100},
        },
    ),
}
SEEDS = {"walks": 10310, "walks-test": 10320, "rows": 10330, "rows-test": 10340}


def cases(name: str) -> list[Case]:
    ops, counts = COUNTS[name]
    drawn = [case for family, count in counts.items() for case in random_cases(count, SEEDS[name], only=(family,))]
    kept = [case for case in drawn if case["op"] in ops]
    np.random.default_rng(SEEDS[name]).shuffle(kept)  # type: ignore[arg-type]  # whatever part is timed is of all kinds
    return kept


def shape(row: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What tells a row of a table apart: every filled cell but results."""
    return tuple(sorted((name, cell) for name, cell in row.items() if cell and name not in RESULTS))


def shapes(cases: list[Case]) -> list[tuple[tuple[str, str], ...]]:
    return [shape(row) for row in csv.DictReader(io.StringIO(table(cases)))]


def main() -> None:
    name = sys.argv[1]
    own = name.removesuffix("-test")
    paths = [path for path in (*DATA.glob("h200-*.csv.gz"), *DATA.glob("h200-*.csv")) if f"-{own}-" not in path.name]
    known = {shape(row) for path in paths for row in rows(path)}
    if name == own:
        known |= set(shapes(cases(f"{own}-test")))
    drawn = cases(name)
    print(table([case for case, each in zip(drawn, shapes(drawn), strict=True) if each not in known]), end="")


if __name__ == "__main__":
    main()
