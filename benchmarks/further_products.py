"""Cases of batched products, fp64, fp32 and int8 products and pools, to time in addition to the calibration of every family.

    python benchmarks/further_products.py > cases.csv

Sizes people use mixed with odd ones, and sizes drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

from ridgeline.measure.cuda.cases import calibration_cases, random_cases
from ridgeline.measure.cuda.kernels import table

MIXED = ((5, 7110, ("bmm",)), (4, 7120, ("gemm int8", "gemm fp64")), (2, 7130, ("gemm fp32",)))  # draws, seed, families
RANDOM = ((2000, 7140, ("bmm",)), (800, 7141, ("gemm fp64",)), (1400, 7142, ("pools",)))  # cases, seed, families


def main() -> None:
    cases = [
        case
        for draws, seed, only in MIXED
        for further in range(draws)
        for case in calibration_cases(seed=seed + further, only=only)
    ]
    cases += [case for count, seed, only in RANDOM for case in random_cases(count, seed, only=only)]
    print(table(cases), end="")


if __name__ == "__main__":
    main()
