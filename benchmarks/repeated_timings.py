"""How far apart two timings of a shape lie: no prediction of a single timing can have a smaller error than that allows.

    python benchmarks/repeated_timings.py                differences of timings, errors of expected times, by group and by length
    python benchmarks/repeated_timings.py draw FOLDER    the cases to time again: FOLDER/again.csv and FOLDER/rested.csv

Held-out shapes (judge_h200.py) were timed again on another day in another order, in the usual way (`again`), and the matrix
products among them a third time with 5 ms of rest before each call (`rested`), so that the clock recovers from the load
before. Columns are median and P90: of the second timing against the first, of it against the rested one, of the expected
time against the first, and against the mean of the first two; then the share of first timings inside the 80 % interval and
that of cases whose longest kernel has the same name both times. `python -m ridgeline.measure.cuda.kernels --cases FILE --repeats 3 [--rest-ms 5]` timed them. None is fitted to.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from judge_h200 import DATA, HELD_OUT, OTHER_SETS, group_of, predicted, rows
from numpy.typing import NDArray

from ridgeline.core.files import write_text
from ridgeline.core.statistics import Errors
from ridgeline.measure.cuda import kernels

AGAIN, RESTED = DATA / "h200-again-test.csv.gz", DATA / "h200-rested-test.csv.gz"
PRODUCTS = ("gemm", "bmm")
PER_GROUP, PER_CONVOLUTION = 45, 80  # shapes of a group that are timed again; of matrix products all
MAX_US = 20_000.0  # of a shape that is timed again
SEED = 771
RESULTS = frozenset((*kernels.RESULTS, "given_time_us"))
DEFAULTS = {"groups": "1", "dilation": "1", "layout": "nchw"}  # what an empty cell means
LENGTHS = (0.0, 2.5, 4.0, 10.0, 50.0, 200.0, np.inf)  # us

Row = Mapping[str, Any]
Vector = NDArray[np.float64]


def shape(row: Row) -> tuple[tuple[str, str], ...]:
    """What tells a case from others."""
    cells = ((name, str(value)) for name, value in row.items() if name not in RESULTS)
    return tuple(sorted((name, value) for name, value in cells if value not in ("", DEFAULTS.get(name))))


def held_out() -> list[dict[str, Any]]:
    return [row for name in (*HELD_OUT, *OTHER_SETS) for row in rows(DATA / name)]


# -- drawing --------------------------------------------------------------------------------------------------


def drawn() -> list[dict[str, Any]]:
    """Held-out shapes to time again, in random order."""
    generator = np.random.default_rng(SEED)
    groups: dict[str, dict[Any, dict[str, Any]]] = defaultdict(dict)
    for row in held_out():
        # kernels that are compiled first would take most of the time
        if float(row["time_us"]) <= MAX_US and row.get("backend") != "triton":
            groups[group_of(row)][shape(row)] = {name: value for name, value in row.items() if name not in RESULTS}
    chosen: list[dict[str, Any]] = []
    for group, cases in sorted(groups.items()):
        most = len(cases) if group.split()[0] in PRODUCTS else PER_GROUP
        most = PER_CONVOLUTION if group.startswith("conv") else most
        listed = list(cases.values())
        chosen += [listed[place] for place in generator.permutation(len(listed))[:most]]
    return [chosen[place] for place in generator.permutation(len(chosen))]


def draw(folder: Path) -> None:
    cases = drawn()
    folder.mkdir(parents=True, exist_ok=True)
    products = [row for row in cases if row["op"] in PRODUCTS and not row.get("backend")]
    for name, listed in (("again", cases), ("rested", products)):
        write_text(folder / f"{name}.csv", kernels.table(listed))
        print(f"{folder / name}.csv: {len(listed)} cases")


# -- comparing ------------------------------------------------------------------------------------------------


def two(errors: Errors) -> str:
    return f"{errors.median:6.1%} {errors.p90:6.1%}"


def line(name: str, table: Vector) -> str:
    """Differences of two timings, errors of the expected times, and the share of cases inside the interval."""
    first, again, rested, time, low, high, same = table.T
    inside = np.mean((low <= first) & (first <= high))
    known = np.isfinite(rested)
    rest = two(Errors.of(again[known], rested[known])) if np.any(known) else 13 * " "
    against = f"{two(Errors.of(time, first))} {two(Errors.of(time, np.sqrt(first * again)))}"
    return (
        f"{name:32s} {two(Errors.of(again, first))} {rest} {against} {inside:6.0%} {np.mean(same):6.1%} {len(table):6d}"
    )


def kind(group: str) -> str:
    op = group.split()[0]
    if op.startswith("conv"):
        return "convolutions"
    return "matrix products" if op in PRODUCTS else "other ops"


def compare() -> None:
    first = {shape(row): row for row in held_out()}
    rested = {shape(row): float(row["time_us"]) for row in rows(RESTED)}
    groups: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    listed = rows(AGAIN)
    for row, expected in zip(listed, predicted(listed), strict=True):
        before = first[shape(row)]
        times = float(before["time_us"]), float(row["time_us"]), rested.get(shape(row), np.nan)
        interval = expected["time_us"], expected["low_us"], expected["high_us"]
        # the first of the files has no names of kernels
        same = before.get("kernel_name", row["kernel_name"]) == row["kernel_name"]
        groups[group_of(row)].append((*times, *interval, float(same)))
    tables = {group: np.array(cases) for group, cases in sorted(groups.items())}
    print(
        f"{'':32s} {'two timings':13s} {'usual, rested':13s} {'prediction':13s} {'of their mean':13s} inside kernel  cases"
    )
    for name in ("matrix products", "convolutions", "other ops"):
        of_kind = {group: table for group, table in tables.items() if kind(group) == name}
        every = np.concatenate(list(of_kind.values()))
        print("\n" + line(name, every))
        for low, high in pairwise(LENGTHS):
            length = (every[:, 0] >= low) & (every[:, 0] < high)
            print(line(f"  {low:g} us to {high:g} us" if np.isfinite(high) else f"  from {low:g} us", every[length]))
        if name != "other ops":
            for group, table in of_kind.items():
                print(line(f"  {group}", table))


def main() -> None:
    if sys.argv[1:2] == ["draw"]:
        draw(Path(sys.argv[2]))
    else:
        compare()


if __name__ == "__main__":
    main()
