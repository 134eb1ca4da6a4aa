"""Fit the H200's kernel families to timings taken on it, and judge them on shapes that were not used.

    python benchmarks/fit_h200.py          bring src/ridgeline/machines/catalog/fitted/h200-sxm.json up to date with the timings
    python benchmarks/fit_h200.py gemm     only the families of these ops, the others as they are
    python benchmarks/fit_h200.py --all [gemm]        also kernels whose timings did not change, as after a change of a formula
    python benchmarks/fit_h200.py --corrections conv2d      corrections, errors and intervals of every kernel; coefficients as they are
    python benchmarks/fit_h200.py --scratch [gemm]    all coefficients from their defaults, which takes hours

Kernels whose number of timings changed are fitted again from the coefficients they have, and keep those where that predicts
held-out timings no better; new kernels start from the next wider ones. Corrections and intervals are made from all timings.

Matrix products whose corrections `fit_products.py` made, from these and further timings, and convolutions whose corrections
`fit_convolutions.py` made, stay as they are.

The timings are in benchmarks/data, taken with `python -m ridgeline.measure.cuda.kernels`: SETS lists those
that are fitted to.
Shapes drawn at random (h200-test.csv, h200-further-test.csv, h200-smooth-test.csv.gz, h200-training-test.csv.gz,
h200-programs-test.csv.gz, h200-convolutions-test.csv.gz, h200-convolutions3-test.csv.gz, h200-usual-test.csv.gz, h200-popularlayers-test.csv.gz,
h200-batched-test.csv.gz, h200-walks-test.csv.gz, h200-rows-test.csv.gz, h200-windows-test.csv.gz, h200-fresh-test.csv.gz, h200-typical-test.csv.gz, h200-usualops-test.csv.gz,
h200-random-test.csv.gz, h200-unseen-test.csv.gz), layers of
networks (h200-layers.csv, h200-networks-test.csv.gz, h200-networks-last-test.csv.gz, h200-networks-new-test.csv.gz,
h200-networks-fresh-test.csv.gz), projections of language models (h200-projections.csv) other products (h200-products-test.csv.gz, h200-products3-test.csv.gz, h200-products4-test.csv.gz,
h200-popular-test.csv.gz), narrow
rows (h200-narrow-test.csv.gz) few elements (h200-tiny-test.csv.gz), small products (h200-smallproducts-test.csv.gz), small layers (h200-smalllayers-test.csv.gz, h200-smallbackends-test.csv.gz) and edges
(h200-edges-test.csv.gz, h200-formats-test.csv.gz) never are. The conditions files say how and when they were timed.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

from judge_h200 import DATA, rows

from ridgeline.core.families import Key, forest, formula
from ridgeline.core.fitted import Fitted
from ridgeline.machines import coefficients
from ridgeline.machines import load as machines
from ridgeline.prediction.fit import fit_cases, update_cases

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
SCRATCH, ALL, CORRECTIONS = "--scratch", "--all", "--corrections"
SETS = (
    *("", "further-", "smooth-", "wider-", "training-", "dense-", "programs-"),
    *(
        "convolutions-",
        "convolutions2-",
        "images-",
        "random-",
        "networks-",
        "groups-",
        "products-",
        "gradients-",
        "lists-",
        "bmm-",
        "beyond-",
        "networks2-",
        "narrow-",
        "tiny-",
        "smallproducts-",
        "smalllayers-",
        "edges-",
        "formats-",
        "smallbackends-",
        "products3-",
        "convolutions3-",
        "usual-",
        "usual2-",
        "popularlayers-",
        "batched-",
        "popular-",
        "walks-",
        "rows-",
        "windows-",
        "usualops-",
        "usualops2-",
    ),
)
CALIBRATIONS = tuple(f"h200-{name}calibration.csv.gz" for name in SETS)
METHOD = "timed on an H200 by ridgeline (CUPTI device time, cold caches, PyTorch 2.11)"
SOURCE = f"{METHOD}, 2026-11-15 to 2026-11-19"


def within_bounds(key: Key, row: Fitted) -> Fitted:
    """A row that was fitted before its formula changed: coefficients moved to their bounds, new ones at their defaults."""
    fitted: dict[str, float] = {}
    for name, bounds in formula(key).coefficients.items():
        if name in row.coefficients:
            fitted[name] = min(max(row.coefficients[name], bounds.low), bounds.high)
        elif not bounds.optional:
            fitted[name] = bounds.default
    return replace(row, coefficients=fitted)


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def from_scratch(cases: list[dict[str, Any]], side: tuple[str, ...], fitted: dict[Key, Fitted]) -> dict[Key, Fitted]:
    """All coefficients with these of a side: what the machine carries now was fitted to these very timings."""
    part = fit_cases(cases, replace(machines.load("h200-sxm"), fitted={}), SOURCE, tell)
    ours = {row.get("backend", "") for row in cases}  # the backends that are timed here; others are third-party timings
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
    return {key: within_bounds(key, row) for key, row in (others | part).items()}


def main() -> None:
    wanted = set(sys.argv[1:])
    scratch, corrections = SCRATCH in wanted, CORRECTIONS in wanted
    every_kernel = ALL in wanted or corrections
    wanted -= {SCRATCH, ALL, CORRECTIONS}
    cases = [row for name in CALIBRATIONS for row in rows(DATA / name)]
    listed = {op for side in (*SIDES, *APART) for op in side}
    sides = [*SIDES, tuple({row["op"] for row in cases} - listed), *APART]
    fitted = coefficients.of_machine("h200-sxm")
    for side in sides:
        if wanted and not wanted & set(side):
            continue
        of_side = [row for row in cases if row["op"] in side]
        if scratch:
            fitted = from_scratch(of_side, side, fitted)
        else:
            machine = replace(machines.load("h200-sxm"), fitted=fitted)
            # kernels that other timings of this machine were taken for, as of calls of programs, or that trees were grown for; of other
            # convolutions there are more here
            others = {
                key
                for key, row in fitted.items()
                if not row.borrowed
                and not row.source.startswith(METHOD)
                and (key.family != "conv" or str(row.nearby).startswith(forest.HEAD))
            }
            fitted = fitted | update_cases(
                of_side, machine, SOURCE, tell, every_kernel, others, keep_coefficients=corrections
            )
        coefficients.write(coefficients.FOLDER / "h200-sxm.json", {"fitted": fitted})


if __name__ == "__main__":
    main()
