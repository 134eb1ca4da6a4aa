"""How fast expected times are: GEMMs of random sizes through their family's formula, on one core (NumPy's
elementwise work runs on one).

    python benchmarks/expected_speed.py [MACHINE]

Sizes of every kind run, so that each block of cases holds every variant (aligned, loose, odd, few rows); the goal is a
million times a second and core. The best of the repetitions counts; the first one, which also computes the corrections from
similar timings, is printed beside it.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import ridgeline as rl

CASES, REPEATS, GOAL = 1_000_000, 5, 1e6


def sizes(kind: str) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    drawn = {name: np.exp(random.uniform(0, np.log(16384), CASES)) for name in "mnk"}
    if kind == "aligned":
        return {name: np.maximum(np.ceil(values / 64) * 64, 64) for name, values in drawn.items()}
    return {name: np.ceil(values) for name, values in drawn.items()}


def main(name: str) -> None:
    machine = rl.machine(name)
    for kind in ("aligned", "any"):
        arrays = sizes(kind)
        seconds = []
        for _ in range(REPEATS):
            start = time.perf_counter()
            made = rl.predict_cases(rl.ops.gemm, machine, arrays, wanted=("time",))
            seconds.append(time.perf_counter() - start)
        assert len(made["time"]) == CASES
        rate, first = CASES / min(seconds), CASES / seconds[0]
        verdict = "at or above" if rate >= GOAL else "below"
        print(
            f"{kind:8s} {rate / 1e6:5.2f} million GEMM times a second and core (the first time {first / 1e6:.2f}); {verdict} the goal of 1"
        )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "h200-sxm")
