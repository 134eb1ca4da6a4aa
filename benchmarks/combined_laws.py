"""Laws of combined work over random sizes and many machines: sums, repeats, fusions, batches, scaled work.

    python benchmarks/combined_laws.py [CASES_PER_WORK]

Prints how many checks were made and, per law, machine and op, how many failed; the exit code is 1 where some did.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

import ridgeline as rl
from ridgeline.core.work import Work
from ridgeline.prediction.predict import Prediction
from ridgeline.programs import ops

MACHINES = (
    "h200-sxm", "h100-sxm", "a100-sxm-80gb", "b200-sxm", "l4", "l40s", "mi300x", "t4", "v100-sxm2-32gb", "rtx-4090",
    "gh200", "xeon-8480plus",
)  # fmt: skip
CLOSE = 1e-9
Checks = Iterator[tuple[str, Any]]


def works(random: np.random.Generator, count: int) -> dict[str, tuple[Work, str, Any]]:
    """Works over arrays of sizes, each with the tensor it writes and the elements of it."""

    def drawn(low: float, high: float) -> Any:
        return np.ceil(np.exp(random.uniform(np.log(low), np.log(high), count)))

    m, n, k = drawn(1, 16384), drawn(8, 16384), drawn(8, 16384)
    rows, cols, elements = drawn(1, 65536), drawn(8, 16384), drawn(1, 1e9)
    return {
        "gemm": (ops.gemm(m, n, k, dtype="fp16"), "C", m * n),
        "linear": (ops.linear(m, k, n, dtype="fp16"), "y", m * n),
        "softmax": (ops.softmax(rows, cols, dtype="fp16"), "y", rows * cols),
        "layernorm": (ops.layernorm(rows, cols, dtype="fp16"), "y", rows * cols),
        "relu": (ops.relu(elements, dtype="fp16"), "y", elements),
    }


def within(prediction: Prediction) -> Any:
    """stated floor <= low <= time <= high, and items that sum to the time."""
    low, time, high = prediction.low, prediction.time, prediction.high
    items: Any = sum(item.seconds for item in prediction.items)
    ordered = (low <= time * (1 + CLOSE)) & (time <= high * (1 + CLOSE)) & np.isclose(items, time, rtol=1e-6)
    return ordered & (low >= prediction.bounds[0].stated_floor * (1 - CLOSE))


def checks(work: Work, tensor: str, elements: Any, machine: rl.Machine, times: int) -> Checks:
    """The laws by name, each with whether it holds for every case."""
    one = rl.predict(work, machine)
    again, many, fewer = (
        rl.predict(other, machine) for other in (work.repeat(times), work.batch(times), work.scaled(0.5, 1.0))
    )
    for end in ("time", "floor", "low", "high"):
        yield f"repeat, {end}", np.isclose(getattr(again, end), times * getattr(one, end), rtol=CLOSE)
    yield "batch", (many.time >= one.time * (1 - CLOSE)) & (many.time <= times * one.time * (1 + CLOSE)) & within(many)
    yield "fewer bytes", (fewer.time <= one.time * (1 + CLOSE)) & (fewer.time >= fewer.floor) & within(fewer)
    then = ops.gelu(elements, dtype="fp16")
    other, both = rl.predict(then, machine), rl.predict(work + then, machine)
    yield "sum", np.isclose(both.time, one.time + other.time, rtol=CLOSE)
    fused = rl.predict(work.fuse(then, tensor, "x"), machine)
    yield "fuse, at most the sum", (fused.time <= both.time * (1 + CLOSE)) & within(fused)
    for part in (one, other):
        longer = np.where(fused.floor >= part.floor * (1 - CLOSE), part.time, fused.floor)
        yield "fuse, at least the longer", fused.time >= longer * (1 - CLOSE)


def main(count: int) -> int:
    random, failed, made = np.random.default_rng(14), Counter[tuple[str, str, str]](), 0
    for machine in map(rl.machine, MACHINES):
        for name, (work, tensor, elements) in works(random, count).items():
            for law, holds in checks(work, tensor, elements, machine, int(random.integers(2, 9))):
                made += np.size(holds)
                failed[law, machine.name, name] += int(np.size(holds) - np.count_nonzero(holds))
    print(f"{made:,} checks of combined work, {failed.total():,} failed")
    for (law, machine_name, name), cases in failed.items():
        if cases:
            print(f"  {law}: {machine_name}, {name}: {cases}")
    return 1 if failed.total() else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 400))
