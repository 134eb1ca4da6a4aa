"""Convolutions to time in addition to the calibration of every family, and a test of them.

    python benchmarks/further_convolutions.py calibration > cases.csv    shapes as `library_convolutions.py` draws them, and the suite's
    python benchmarks/further_convolutions.py test > cases.csv           the suite's, and other draws; never to be fitted to
    python benchmarks/further_convolutions.py usual > cases.csv          of the kinds that most networks have
    python benchmarks/further_convolutions.py usual-test > cases.csv     the same; never to be fitted to
    python benchmarks/further_convolutions.py usual2 > cases.csv         more of these
    python benchmarks/further_convolutions.py usual2-test > cases.csv    the same; never to be fitted to
    python benchmarks/further_convolutions.py layers > cases.csv         layers of networks at usual resolutions and batches
    python benchmarks/further_convolutions.py layers-test > cases.csv    the same; never to be fitted to

No shape is in another table. The same table every time, as long as no table was added.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from judge_h200 import DATA, rows
from library_convolutions import OPS, Row, case_of, endless, images_bytes, popular_layer, row_of, sides, usual

from ridgeline.measure.cuda.cases import calibration_cases, random_cases
from ridgeline.measure.cuda.kernels import table

FAMILIES = ("conv2d", "stems", "transposed", "convolution backward", "grouped", "single pixels")
# of each table: draws of the suite with sizes people use, its cases with any sizes, and draws of `library_convolutions.py`; seeds
COUNTS = {"calibration": (5, 18000, 36000, 9510), "test": (1, 1000, 700, 9610)}
# how they are drawn, how many, seed
USUAL = {
    "usual": (usual, 40000, 9710),
    "usual-test": (usual, 2200, 9810),
    "usual2": (usual, 22_000, 10310),
    "usual2-test": (usual, 1300, 10410),
    "layers": (popular_layer, 130_000, 10110),
    "layers-test": (popular_layer, 2600, 10210),
}
FIRST = {"test": 800}  # cases of a draw with sizes people use that are taken, where not all are
MAX_BYTES = 1 << 29  # of images, and
MAX_FLOPS = {"bf16": 1e12, "fp16": 1e12, "tf32": 5e11, "fp32": 6e10}  # so that many can be timed


def held() -> set[Row]:
    """The convolutions of all tables."""
    paths = [*DATA.glob("h200-*.csv.gz"), *DATA.glob("h200-*.csv")]
    return {row_of(case) for path in paths for case in rows(path) if case.get("op") in OPS}


def drawn(name: str) -> Iterator[Row]:
    if name in USUAL:
        draw, count, seed = USUAL[name]
        random = np.random.default_rng(seed)
        yield from (row for _ in range(count) if (row := draw(random)) is not None)
        return
    mixed, smooth, free, seed = COUNTS[name]
    for further in range(mixed):
        yield from map(row_of, calibration_cases(seed=seed + further, only=FAMILIES)[: FIRST.get(name)])
    yield from map(row_of, random_cases(smooth, seed + 50, only=FAMILIES))
    others = endless(np.random.default_rng(seed + 60))
    for _ in range(free):
        yield next(others)


def flops(row: Row) -> float:
    case = case_of(row)
    ho, wo = (case["h"], case["w"]) if case["op"] == "conv_transpose2d" else sides(case)
    channels = case["c_in"] * case["c_out"] / case["groups"]
    return float(2 * case["batch"] * ho * wo * channels * case["kernel"] ** 2)


def main() -> None:
    name, known, found = sys.argv[1], held(), list[dict[str, Any]]()
    if f"{name}-test" in USUAL:
        known.update(drawn(f"{name}-test"))  # also before it was timed
    for row in drawn(name):
        case = case_of(row)
        if row in known or images_bytes(row) > MAX_BYTES or flops(row) > MAX_FLOPS[case["dtype"]]:
            continue
        known.add(row)
        found.append(case)
    np.random.default_rng(1).shuffle(found)  # whatever part of them is timed is of all kinds
    print(table(found), end="")


if __name__ == "__main__":
    main()
