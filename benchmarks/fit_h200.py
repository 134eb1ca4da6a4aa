"""Fit the H200's kernel families to timings taken on it, and judge them on shapes that were not used.

    python benchmarks/fit_h200.py          write src/ridgeline/machines/catalog/fitted/h200-sxm.json
    python benchmarks/fit_h200.py gemm bmm only the families of these ops, the others as they are

The timings are in benchmarks/data, taken with `python -m ridgeline.measure.cuda.kernels`: h200-calibration.csv.gz is fitted
to; shapes drawn at random (h200-test.csv), layers of networks (h200-layers.csv) and projections of language models
(h200-projections.csv) never are. h200-conditions.json tells how and when.
"""

from __future__ import annotations

import csv
import gzip
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from ridgeline.core.families import Key
from ridgeline.core.machine import Fitted
from ridgeline.machines import coefficients
from ridgeline.machines import load as machines
from ridgeline.prediction.fit import fit_cases

DATA = Path(__file__).with_name("data")
# ops that are fitted side by side; a family's ops must be in one of them
SIDES = (("conv2d",), ("gemm", "bmm"))
SOURCE = "timed on an H200 by ridgeline (CUPTI device time, cold caches, PyTorch 2.11 default paths), 2026-11-15"


def rows(path: Path) -> list[dict[str, Any]]:
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [
        {name: value for name, value in row.items() if value != ""}
        for row in csv.DictReader(text.decode().splitlines())
    ]


def fitted_to(cases: list[dict[str, Any]]) -> dict[Key, Fitted]:
    # from scratch: what it carries now was fitted to these very timings
    machine = replace(machines.load("h200-sxm"), fitted={})
    return fit_cases(cases, machine, SOURCE, lambda text: print(text, file=sys.stderr))


def main() -> None:
    wanted = set(sys.argv[1:])
    cases = [row for row in rows(DATA / "h200-calibration.csv.gz") if not wanted or row["op"] in wanted]
    sides = [[row for row in cases if row["op"] in side] for side in SIDES]
    sides.append([row for row in cases if not any(row["op"] in side for side in SIDES)])
    fitted = {key: row for key, row in coefficients.of_machine("h200-sxm").items() if wanted or key.backend}
    with ProcessPoolExecutor() as pool:
        for part in pool.map(fitted_to, filter(None, sides)):
            fitted |= part
    coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})


if __name__ == "__main__":
    main()
