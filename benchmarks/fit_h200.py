"""Fit the H200's kernel families to timings taken on it, and judge them on shapes that were not used.

    python benchmarks/fit_h200.py          write src/ridgeline/machines/catalog/fitted/h200-sxm.json
    python benchmarks/fit_h200.py gemm bmm only the families of these ops, the others as they are

The timings are in benchmarks/data, taken with `python -m ridgeline.measure.cuda.kernels`: h200-calibration.csv.gz and
h200-further-calibration.csv.gz are fitted to; shapes drawn at random (h200-test.csv, h200-further-test.csv), layers of
networks (h200-layers.csv) and projections of language models (h200-projections.csv) never are. The conditions files tell
how and when.
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
SIDES = (("conv2d", "conv_transpose2d"), ("gemm", "bmm"), ("attention", "attention_backward"))
CALIBRATIONS = ("h200-calibration.csv.gz", "h200-further-calibration.csv.gz", "h200-smooth-calibration.csv.gz")
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
    cases = [row for name in CALIBRATIONS for row in rows(DATA / name) if not wanted or row["op"] in wanted]
    sides = [[row for row in cases if row["op"] in side] for side in SIDES]
    sides.append([row for row in cases if not any(row["op"] in side for side in SIDES)])
    ours = {row.get("backend", "") for row in cases}  # the backends that are timed here; others are third-party timings
    fitted = {key: row for key, row in coefficients.of_machine("h200-sxm").items() if wanted or key.backend not in ours}
    with ProcessPoolExecutor() as pool:
        for part in pool.map(fitted_to, filter(None, sides)):
            fitted |= part
    coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})


if __name__ == "__main__":
    main()
