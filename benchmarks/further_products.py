"""Cases of products and pools, to time in addition to the calibration of every family, and tests of products.

    python benchmarks/further_products.py first > cases.csv      batched products, fp64, fp32 and int8 products, pools
    python benchmarks/further_products.py second > cases.csv     fp32, tf32, fp64 and 16-bit products
    python benchmarks/further_products.py third > cases.csv      products of every format, transposed convolutions, quantized weights
    python benchmarks/further_products.py test > cases.csv       products of every format, never to be fitted to
    python benchmarks/further_products.py third-test > cases.csv the same of the third table, never to be fitted to
    python benchmarks/further_products.py fourth-test > cases.csv products of every format, drawn after the third table was fitted to

Sizes people use mixed with odd ones, and sizes drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

import sys

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
}
FIRST = {
    "test": 300,
    "third-test": 200,
    "fourth-test": 500,
}  # cases of each mixed draw that are taken, where not all are


def main() -> None:
    chosen = sys.argv[1]
    cases = [
        case
        for draws, seed, only in MIXED[chosen]
        for further in range(draws)
        for case in calibration_cases(seed=seed + further, only=only)[: FIRST.get(chosen)]
    ]
    cases += [case for count, seed, only in RANDOM[chosen] for case in random_cases(count, seed, only=only)]
    print(table(cases), end="")


if __name__ == "__main__":
    main()
