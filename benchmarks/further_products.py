"""Cases of products and pools, to time in addition to the calibration of every family, and tests of products.

    python benchmarks/further_products.py first > cases.csv      batched products, fp64, fp32 and int8 products, pools
    python benchmarks/further_products.py second > cases.csv     fp32, tf32, fp64 and 16-bit products
    python benchmarks/further_products.py third > cases.csv      products of every format, transposed convolutions, quantized weights
    python benchmarks/further_products.py test > cases.csv       products of every format, never to be fitted to
    python benchmarks/further_products.py third-test > cases.csv the same of the third table, never to be fitted to
    python benchmarks/further_products.py fourth-test > cases.csv products of every format, drawn after the third table was fitted to
    python benchmarks/further_products.py batched > cases.csv     batched products
    python benchmarks/further_products.py batched-test > cases.csv batched products, never to be fitted to
    python benchmarks/further_products.py popular > cases.csv     products as `library_kernels.py` draws them: popular sides, thin ones
    python benchmarks/further_products.py popular-test > cases.csv the same, never to be fitted to

Sizes people use mixed with odd ones, and sizes drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from fit_products import FORMATS
from judge_h200 import DATA, rows
from library_kernels import BATCHED, drawn

from ridgeline.measure.cuda.cases import calibration_cases, random_cases
from ridgeline.measure.cuda.kernels import table

WIDE, HALVES = ("gemm tf32", "gemm fp32", "gemm fp64"), ("gemm bf16", "gemm fp16")
BYTES, WEIGHTS = ("gemm int8", "gemm fp8"), ("int4 linear", "triton linear")
# draws, seed, families
MIXED = {
    "first": ((5, 7110, ("bmm",)), (4, 7120, ("gemm int8", "gemm fp64")), (2, 7130, ("gemm fp32",))),
    "second": ((4, 7410, WIDE), (1, 7420, HALVES)),
    "test": ((1, 7430, ("gemm",)),),
    "third": (
        *((5, 9110, WIDE), (5, 9120, HALVES), (5, 9130, BYTES), (8, 9140, ("bmm",))),
        *((12, 9150, ("transposed",)), (4, 9165, WEIGHTS)),
    ),
    "third-test": ((1, 9170, ("gemm",)), (1, 9171, ("bmm",)), (1, 9172, ("transposed",)), (1, 9173, WEIGHTS)),
    "fourth-test": ((1, 9370, ("gemm",)), (1, 9371, ("bmm",))),
    "batched": ((20, 10310, ("bmm",)),),
    "batched-test": ((1, 10350, ("bmm",)),),
}
# cases, seed, families
RANDOM = {
    "first": ((2000, 7140, ("bmm",)), (800, 7141, ("gemm fp64",)), (1400, 7142, ("pools",))),
    "second": ((3800, 7440, WIDE), (1100, 7441, HALVES)),
    "test": ((500, 7450, ("gemm",)),),
    "third": (
        *((14000, 9210, WIDE), (7000, 9220, HALVES[:1]), (10000, 9230, HALVES[1:])),
        *((4000, 9240, BYTES), (4000, 9250, ("bmm",))),
    ),
    "third-test": ((700, 9260, ("gemm",)), (200, 9261, ("bmm",))),
    "fourth-test": ((1800, 9460, ("gemm",)), (400, 9461, ("bmm",))),
    "batched": ((16000, 10360, ("bmm",)),),
    "batched-test": ((300, 10390, ("bmm",)),),
}
FIRST = {
    "test": 300,
    "third-test": 200,
    "fourth-test": 500,
    "batched-test": 300,
}  # cases of each mixed draw that are taken, where not all are
ALL_NEW = ("batched", "batched-test")  # tables without any shape of another
# products of each format, seed
POPULAR = {"popular": (1000, 9910), "popular-test": (110, 9920)}
MAX_PRODUCTS, MAX_ELEMENTS = 1 << 38, 1 << 29  # so that many can be timed


def held() -> set[tuple[Any, ...]]:
    """The products of all tables."""
    paths = [*DATA.glob("h200-*.csv.gz"), *DATA.glob("h200-*.csv")]
    return {case_of(case) for path in paths for case in rows(path) if case.get("op") in ("gemm", "bmm")}


def case_of(case: Mapping[str, Any]) -> tuple[Any, ...]:
    """Of a row of a table: op, format and sizes."""
    return (case["op"], case["dtype"], *(int(float(case.get(size, 1))) for size in ("batch", "m", "n", "k")))


def popular(name: str) -> Iterator[dict[str, Any]]:
    """Products that no table holds; the same every time, as long as no table was added."""
    count, seed = POPULAR[name]
    random, known = np.random.default_rng(seed), held()
    for op, dtype in [*(("gemm", dtype) for dtype in FORMATS), *(("bmm", dtype) for dtype in BATCHED)]:
        for b, m, n, k in drawn(op, dtype, count, random).tolist():
            if (
                b * m * n * k <= MAX_PRODUCTS
                and b * max(m * k, n * k, m * n) <= MAX_ELEMENTS
                and (op, dtype, b, m, n, k) not in known
            ):
                yield {"op": op, "dtype": dtype, **({"batch": b} if op == "bmm" else {}), "m": m, "n": n, "k": k}


def main() -> None:
    chosen = sys.argv[1]
    if chosen in POPULAR:
        cases = list(popular(chosen))
        np.random.default_rng(1).shuffle(cases)  # whatever part of them is timed is of all formats
        print(table(cases), end="")
        return
    cases = [
        case
        for draws, seed, only in MIXED[chosen]
        for further in range(draws)
        for case in calibration_cases(seed=seed + further, only=only)[: FIRST.get(chosen)]
    ]
    cases += [case for count, seed, only in RANDOM[chosen] for case in random_cases(count, seed, only=only)]
    if chosen in ALL_NEW:
        known = held()
        cases = [case for case in cases if case_of(case) not in known]
        np.random.default_rng(1).shuffle(cases)
    print(table(cases), end="")


if __name__ == "__main__":
    main()
