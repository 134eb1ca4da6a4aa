"""Errors of kernel families within programs, how far they go together, and how often the interval of a program holds.

    python benchmarks/programs/errors.py FOLDER [FOLDER ...] [--on MACHINE]

Folders hold the profiles of eager programs that `record.py` wrote. A recorded kernel belongs to the innermost operator that
launched it and that the traced program has too; operators belong to the family of the predicted kernel. Errors are in standard
deviations of the predicted intervals. Their correlation between families of one program is estimated twice: as the mean
product over pairs of families, and as the value under which the errors of the programs' device times are likeliest, which also
says how often the interval of a program holds that the value was not fitted to.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
import statistics
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from compare import traced
from record import RECORDED
from sets import SETS, cases

import ridgeline as rl
from ridgeline.prediction.traced.intervals import HALF_WIDTH, HIGH, LOW

DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCH = ("cuda_runtime", "cuda_driver")
MIN_SHARE = 0.01  # of the device time, for a family to count among the pairs
MAX_DEVIATION = 4.0  # standard deviations that an outlier counts as
GRID = np.linspace(0, 1, 41)


@dataclass
class Family:
    """Seconds per step."""

    predicted: float = 0.0
    recorded: float = 0.0
    low: float = 0.0  # widths towards both ends of the interval
    high: float = 0.0

    @property
    def deviation(self) -> float:
        """The error in standard deviations, cut off for outliers."""
        width = self.high if self.recorded > self.predicted else self.low
        return float(
            np.clip((self.recorded - self.predicted) / max(width / HALF_WIDTH, 1e-12), -MAX_DEVIATION, MAX_DEVIATION)
        )


@dataclass
class Program:
    name: str
    families: dict[Any, Family]

    @property
    def predicted(self) -> float:
        return sum(family.predicted for family in self.families.values())

    @property
    def error(self) -> float:
        return sum(family.recorded for family in self.families.values()) - self.predicted

    def width(self, shared: float) -> float:
        """Towards the recorded time, with errors of families that correlate so far (prediction/traced/intervals.py)."""
        widths = [family.high if self.error > 0 else family.low for family in self.families.values()]
        return math.sqrt((1 - shared) * sum(width**2 for width in widths) + shared * sum(widths) ** 2)


def operator_times(path: Path, names: set[str]) -> Counter[str]:
    """Seconds per step of the kernels of each operator."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kernels: dict[int, float] = defaultdict(float)
    threads: dict[Any, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event.get("cat") in DEVICE:
            kernels[event["args"]["correlation"]] += event["dur"] / 1e6 / RECORDED
        elif event.get("cat") in ("cpu_op", *LAUNCH):
            threads[event["tid"]].append(event)
    times: Counter[str] = Counter()
    for thread in threads.values():
        stack: list[dict[str, Any]] = []
        for event in sorted(thread, key=lambda each: (each["ts"], -each["dur"])):
            while stack and event["ts"] >= stack[-1]["ts"] + stack[-1]["dur"] - 1e-6:
                stack.pop()
            if event["cat"] == "cpu_op":
                stack.append(event)
            elif (seconds := kernels.pop(event.get("args", {}).get("correlation", -1), 0.0)) > 0:
                times[next((item["name"] for item in reversed(stack) if item["name"] in names), "")] += seconds
    return times


def read(path: Path, machine: str) -> Program | None:
    case = next((case for case in cases(*SETS) if path.name == f"{case.replace(' ', '-')}-eager.json.gz"), None)
    if case is None:
        return None
    prediction = rl.predict(traced(case, "eager"), machine)
    families: dict[Any, Family] = defaultdict(Family)
    of_operator = {}
    for item in prediction.ops:
        of_operator.setdefault(item.op, item.family)
        family = families[of_operator[item.op]]
        family.predicted += item.time
        family.low += item.time - getattr(item, LOW)
        family.high += getattr(item, HIGH) - item.time
    for name, seconds in operator_times(path, set(of_operator)).items():
        families[of_operator.get(name, "other")].recorded += seconds
    return Program(case, dict(families))


def likeliest(programs: list[Program]) -> float:
    """The correlation under which the errors of these programs are likeliest."""

    def cost(shared: float) -> float:
        deviations = [(program.width(shared) / HALF_WIDTH, abs(program.error)) for program in programs]
        return sum(math.log(width) + min(error / width, MAX_DEVIATION) ** 2 / 2 for width, error in deviations)

    return float(min(GRID, key=cost))


def pair_correlation(programs: list[Program]) -> float:
    """Mean product of the errors of two families of a program, weighted by their shares of its time."""
    products, weights = 0.0, 0.0
    for program in programs:
        kept = [
            (family.deviation, family.predicted / program.predicted)
            for family in program.families.values()
            if family.recorded > 0 and family.predicted > MIN_SHARE * program.predicted
        ]
        for (first, share), (second, other) in combinations(kept, 2):
            products += first * second * math.sqrt(share * other)
            weights += math.sqrt(share * other)
    return products / weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--on", default="h200-sxm")
    given = parser.parse_args()
    files = [path for folder in given.folders for path in sorted(folder.glob("*-eager.json.gz"))]
    programs = [program for path in files if (program := read(path, given.on)) is not None]
    ratios: dict[Any, list[float]] = defaultdict(list)
    for program in programs:
        print(f"{program.name:28s} {100 * program.error / program.predicted:+5.1f} % recorded over predicted")
        for key, family in program.families.items():
            if family.predicted > MIN_SHARE * program.predicted and family.recorded:
                ratios[key].append(family.recorded / family.predicted)
    for key, values in sorted(ratios.items(), key=lambda row: -len(row[1])):
        spread = statistics.pstdev([math.log(value) for value in values])
        print(
            f"{' '.join(map(str, key)):44s} in {len(values):2d} programs: recorded/predicted {statistics.median(values):.2f}, spread {spread:.2f}"
        )
    inside = 0
    for place, program in enumerate(programs):
        shared = likeliest(programs[:place] + programs[place + 1 :])
        inside += abs(program.error) <= program.width(shared)
    print(
        f"correlation between families: {pair_correlation(programs):.2f} by pairs, {likeliest(programs):.2f} likeliest; the 80 % interval "
        f"holds in {inside} of {len(programs)} programs left out"
    )


if __name__ == "__main__":
    main()
