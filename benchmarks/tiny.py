"""Cases of few elements, to time in addition to every family's calibration.

    python benchmarks/tiny.py calibration > cases.csv
    python benchmarks/tiny.py test > cases.csv            never to be fitted to

Biases, scales, single rows and flags: their kernels take what launching and leaving one takes, which other tables begin above.
Sizes are drawn log-uniformly; the same table every time.
"""

from __future__ import annotations

from drawn import print_cases

from ridgeline.measure.cuda.draw import REDUCTIONS, ROWS, STREAMS, Case, Draw

COUNTS = {"calibration": 3, "test": 1}  # times what follows
SEEDS = {"calibration": 8210, "test": 8220}
FORMATS = ("fp32", "bf16")
MAX_VECTOR, MAX_LIST, MAX_ROWS, MAX_COLS = 1200, 6000, 16, 64
PER_STREAM, PER_LIST, PER_ROW = 3, 9, 4


def cases(draw: Draw, times: int) -> list[Case]:
    drawn: list[Case] = []
    for dtype in FORMATS:
        for op in (*STREAMS, *REDUCTIONS, "fill"):
            if op != "cast":
                drawn += [{"op": op, "dtype": dtype, "n": draw.size(1, MAX_VECTOR)} for _ in range(PER_STREAM * times)]
        for _ in range(PER_LIST * times):
            for more in ({"op": "sgd", "momentum": "no"}, {"op": "sgd", "momentum": "yes"}):
                drawn.append(more | {"dtype": dtype, "n": draw.size(1, MAX_LIST)})
            for variant in ("fused", "foreach"):
                drawn.append({"op": "adamw", "variant": variant, "dtype": dtype, "n": draw.size(1, MAX_LIST)})
        for op in ROWS:
            for _ in range(PER_ROW * times):
                drawn.append({"op": op, "dtype": dtype, "rows": draw.size(1, MAX_ROWS), "cols": draw.size(1, MAX_COLS)})
    return drawn


if __name__ == "__main__":
    print_cases(cases, COUNTS, SEEDS)
