"""Fit the H200's kernel families to timings taken on it, and judge them on shapes that were not used.

    python benchmarks/fit_h200.py          write src/ridgeline/machines/catalog/fitted/h200-sxm.json
    python benchmarks/fit_h200.py gemm     only the families of these ops, the others as they are
    python benchmarks/fit_h200.py softmax embedding --keys rows      only these ops, and of their keys those with this text
    python benchmarks/fit_h200.py --renew conv2d    coefficients as they are; corrections by similar timings and intervals made again
    python benchmarks/fit_h200.py --renew --again conv2d    also fitted again, where that predicts held-out timings better

The timings are in benchmarks/data, taken with `python -m ridgeline.measure.cuda.kernels`: h200-calibration.csv.gz,
h200-further-, h200-smooth-, h200-wider-, h200-training-, h200-dense-, h200-programs-,
h200-convolutions-, h200-convolutions2-, h200-images- and h200-random-calibration.csv.gz are fitted to.
Shapes drawn at random (h200-test.csv, h200-further-test.csv, h200-smooth-test.csv.gz, h200-training-test.csv.gz,
h200-programs-test.csv.gz, h200-convolutions-test.csv.gz, h200-random-test.csv.gz), layers of
networks (h200-layers.csv) and projections of language models (h200-projections.csv) never are. The conditions files say how and when they were timed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from judge_h200 import DATA, rows

from ridgeline.core.families import Key, formula
from ridgeline.core.machine import Fitted
from ridgeline.machines import coefficients
from ridgeline.machines import load as machines
from ridgeline.prediction.fit import fit_cases, renew_cases

# ops that are fitted together; a family's ops must be in one of them
SIDES = (("linear",), ("attention", "attention_backward"), ("gemm", "bmm"), ("conv2d", "conv_transpose2d"))
# but for these, whose kernels have op names of their own: what the others of their families share stays as it is
APART = (
    ("batchnorm_training", "batchnorm_backward", "permute", "add_row", "add_mixed", "concatenate"),
    ("conv2d_dgrad",),
    ("conv2d_wgrad",),
    (
        *("max_pool2d", "max_pool2d_backward", "batchnorm_inference", "sum_columns", "log_softmax_backward"),
        *("scale_expanded", "stack_permuted", "gelu_erf", "gelu_erf_backward"),
    ),
)
APART_KERNELS = (  # how these op names begin
    *("batchnorm_", "strided", "converted", "cat", "dgrad_", "wgrad_"),
    *("max_pool", "sum_columns", "log_softmax_backward", "expanded", "stack_strided", "gelu_erf"),
)
RENEW, AGAIN = "--renew", "--again"
SETS = (
    *("", "further-", "smooth-", "wider-", "training-", "dense-", "programs-"),
    *("convolutions-", "convolutions2-", "images-", "random-"),
)
CALIBRATIONS = tuple(f"h200-{name}calibration.csv.gz" for name in SETS)
SOURCE = "timed on an H200 by ridgeline (CUPTI device time, cold caches, PyTorch 2.11), 2026-11-15 and 2026-11-16"


def within_bounds(key: Key, row: Fitted) -> Fitted:
    """A row that was fitted before its formula changed: coefficients moved to their bounds, new ones at their defaults."""
    fitted: dict[str, float] = {}
    for name, bounds in formula(key.family).coefficients.items():
        if name in row.coefficients:
            fitted[name] = min(max(row.coefficients[name], bounds.low), bounds.high)
        elif not bounds.optional:
            fitted[name] = bounds.default
    return replace(row, coefficients=fitted)


def fitted_to(cases: list[dict[str, Any]], text: str = "") -> dict[Key, Fitted]:
    # from scratch: what it carries now was fitted to these very timings
    machine = replace(machines.load("h200-sxm"), fitted={})
    return fit_cases(
        cases, machine, SOURCE, lambda line: print(line, file=sys.stderr, flush=True), lambda key: text in str(key)
    )


def fit_keys(ops: set[str], text: str) -> None:
    """Of these ops the keys with this text, the others as they are."""
    part = fitted_to([row for name in CALIBRATIONS for row in rows(DATA / name) if row["op"] in ops], text)
    fitted = coefficients.of_machine("h200-sxm") | {key: row for key, row in part.items() if text in str(key)}
    coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})


def renewed_by(cases: list[dict[str, Any]], fitted: dict[Key, Fitted], again: bool) -> dict[Key, Fitted]:
    machine = replace(machines.load("h200-sxm"), fitted=fitted)
    return renew_cases(cases, machine, SOURCE, lambda text: print(text, file=sys.stderr, flush=True), again)


def main() -> None:
    wanted = set(sys.argv[1:])
    if "--keys" in sys.argv:
        place = sys.argv.index("--keys")
        fit_keys(set(sys.argv[1:place]), sys.argv[place + 1])
        return
    renew, again = RENEW in wanted, AGAIN in wanted
    wanted -= {RENEW, AGAIN}
    cases = [row for name in CALIBRATIONS for row in rows(DATA / name)]
    listed = {op for side in (*SIDES, *APART) for op in side}
    sides = [*SIDES, tuple({row["op"] for row in cases} - listed), *APART]
    ours = {row.get("backend", "") for row in cases}  # the backends that are timed here; others are third-party timings
    fitted = coefficients.of_machine("h200-sxm")
    for side in sides:
        if wanted and not wanted & set(side):
            continue
        of_side = [row for row in cases if row["op"] in side]
        if renew:
            fitted = fitted | renewed_by(of_side, fitted, again)
            coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})
            continue
        part = fitted_to(of_side)
        if side in APART:
            part = {key: row for key, row in part.items() if key.op}
        replaced = {(key.family, key.op) if side in APART else key.family for key in part}
        others = {
            key: row
            for key, row in fitted.items()
            if not replaced & {key.family, (key.family, key.op)}
            or key.backend not in ours
            or (side not in APART and key.op.startswith(APART_KERNELS))
        }
        fitted = {key: within_bounds(key, row) for key, row in (others | part).items()}
        coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})


if __name__ == "__main__":
    main()
