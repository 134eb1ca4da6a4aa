"""Ops on this CPU against what machine files predict: error, interval and label of each op.

    python benchmarks/cpu_ops.py cold MACHINE ...         files of `measure cpu --calibrate`, or `here`; about three minutes
    python benchmarks/cpu_ops.py resident MACHINE ...     with the operands in the caches

The cases are drawn as those of a full `measure cpu --calibrate` are, with another seed. `ratio` is the median of measured over
predicted time, `off` the median error, `inside` the share within the interval.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import numpy as np

import ridgeline as rl
from ridgeline.core.machine import Machine
from ridgeline.measure.cpu.calibration import COLD_CACHES, FLUSH_CACHES, limits, resident_limits, time_cases
from ridgeline.measure.cpu.draws import cases
from ridgeline.measure.cpu.library import Torch, keep_freed_memory
from ridgeline.programs.ops import find

SEED, SECONDS, POOL_BYTES = 77, 170.0, 1 << 28


def timed(machine: Machine, resident: bool) -> list[dict[str, Any]]:
    keep_freed_memory()
    most = limits(machine, False, POOL_BYTES)
    if resident:
        most = resident_limits(machine, most)
    dtypes = [name for name in ("fp32", "bf16") if name in machine.dtypes()]
    listed = cases(Torch.name, dtypes, most, False, resident, SEED)
    listed = [listed[place] for place in np.random.default_rng(SEED).permutation(len(listed))]
    pool_bytes = max(int(COLD_CACHES * machine.largest_cache), POOL_BYTES)
    library = Torch(int(FLUSH_CACHES * machine.largest_cache), pool_bytes)
    timings = time_cases(listed, library, machine, True, perf_counter() + SECONDS, lambda *step: None, resident)
    print(f"{len(timings.rows)} timings, {timings.preempted} preempted, {timings.missing} left when the time was over")
    return timings.rows


def judge(machine: Machine, rows: Sequence[dict[str, Any]], resident: bool) -> None:
    by_op, by_label = defaultdict(list), defaultdict(list)
    for row in rows:
        sizes = {key: value for key, value in row.items() if key not in ("op", "time_us")}
        told = rl.predict(find(row["op"])(**sizes), machine, resident="l2" if resident else None)
        seconds = row["time_us"] * 1e-6
        inside = float(told.low) <= seconds <= float(told.high)
        point = float(np.log(seconds / float(told.time))), inside
        label = str(told.expected[0].label)
        by_op[label, row["op"], row["dtype"]].append(point)
        by_label[label].append(point)
    print(f"{'op':24}{'dtype':6}{'label':14}{'cases':>6}{'ratio':>8}{'off':>8}{'P90':>8}{'inside':>8}")
    for (label, op, dtype), points in sorted(by_op.items()):
        print(f"{op:24}{dtype:6}{label:14}" + figures(points))
    for label, points in sorted(by_label.items()):
        print(f"{'all':30}{label:14}" + figures(points))


def figures(points: Sequence[tuple[float, bool]]) -> str:
    logs = np.array([log for log, _ in points])
    errors = np.abs(np.expm1(-logs))
    inside = np.mean([inside for _, inside in points])
    middle, p90 = np.median(errors), np.quantile(errors, 0.9)
    return f"{len(points):6}{np.exp(np.median(logs)):8.2f}{middle:8.1%}{p90:8.1%}{inside:8.0%}"


def main(state: str = "cold", *names: str) -> None:
    machines = [rl.machine(name) for name in names or ("here",)]
    rows = timed(machines[0], state == "resident")
    for machine, name in zip(machines, names or ("here",), strict=True):
        print(f"\n{name}")
        judge(machine, rows, state == "resident")


if __name__ == "__main__":
    main(*sys.argv[1:])
