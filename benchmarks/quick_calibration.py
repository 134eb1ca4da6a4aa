"""What an eighth of the timings brings: a quick calibration of the H200 from its own timings, scored on the random cases.

    python benchmarks/quick_calibration.py

Drawn from benchmarks/data/h200-calibration.csv.gz, once for a machine that borrows coefficients and once for the one of
the catalog. The catalog's coefficients were fitted to these timings, so the second shows that they stay, not how good
they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from fit_h200 import DATA, rows

from ridgeline.core.machine import Machine
from ridgeline.machines import load as machines
from ridgeline.machines.coefficients import with_defaults
from ridgeline.prediction.fit import fit_cases
from ridgeline.prediction.score import evaluate
from ridgeline.prediction.table import Defaults

PLAN = 10210  # the first of the timings follow the plan of a full calibration
QUICK = PLAN // 8


def score(name: str, machine: Machine) -> None:
    errors = evaluate(rows(DATA / "h200-test.csv"), Defaults(machine, machines.load, {}, {})).pooled.errors()
    print(f"{name:48} median {errors.median:.1%}, P90 {errors.p90:.1%}", flush=True)


def main() -> None:
    timed = rows(DATA / "h200-calibration.csv.gz")[:PLAN]
    some = [timed[place] for place in np.random.default_rng(3).permutation(PLAN)[:QUICK]]
    catalog = machines.load("h200-sxm")
    borrowing = with_defaults(replace(catalog, fitted={}))
    score("borrowed coefficients", borrowing)
    score(f"and {QUICK} timings", with_defaults(replace(borrowing, fitted=fit_cases(some, borrowing, "timed here"))))
    score("the catalog's own coefficients", catalog)
    score(f"and {QUICK} timings", with_defaults(replace(catalog, fitted=fit_cases(some, catalog, "timed here"))))


if __name__ == "__main__":
    main()
