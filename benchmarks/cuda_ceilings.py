"""Empirical ceilings of the CUDA GPU here, each against its stated figure, as a table and as JSON.

    PYTHONPATH=src python benchmarks/cuda_ceilings.py --out FOLDER [--quick] [--twice]

`--twice` measures in two processes and compares: two runs should agree within the spread they report.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from ridgeline.core.documents import to_document
from ridgeline.core.errors import RidgelineError
from ridgeline.core.observation import Observation, from_document
from ridgeline.core.units import show
from ridgeline.measure.cuda import probes as cuda

# What a measurement on an H200 should reach; a miss is printed, not hidden.
GOALS = {"hbm read": 4.30e12, "hbm triad": 4.30e12, "tensor.bf16": 780e12, "tensor.fp8": 1380e12}
GOALS |= {"tensor.tf32": 360e12, "tensor.fp64": 58e12, "vector.fp32": 60e12}


def rate(each: Observation) -> tuple[float, str]:
    """What the observation is about, best sample: a rate, or the seconds of one."""
    if each.target.startswith(("vector", "tensor", "special")):
        return each.best_rate, "flop/s"
    if each.target == "pcie":
        return each.best_rate, "B/s"
    if float(each.work.bytes):
        return each.best_bandwidth, "B/s"
    if float(each.work.flops):
        return each.best_rate, "flop/s"
    return each.best, "s"


def row(each: Observation) -> str:
    value, unit = rate(each)
    middle = each.median if unit == "s" else value * each.best / each.median
    share = each.settings.get("share_of_ceiling")
    during = each.conditions.get("during", {})
    clock, power = (during.get(key, {}).get("median") for key in ("sm_clock", "power"))
    detail = f"{show(clock, 'Hz')}, {power:.0f} W" if clock and power else ""
    return (
        f"{each.name:42s} {show(value, unit):>14s} median {show(middle, unit):>14s} ±{each.spread:5.1%} "
        f"{'' if share is None else f'{share:6.1%}':>7s}  {detail}"
    )


def goals(observations: list[Observation]) -> None:
    """The best of each ceiling against its goal; the sustained rate beside it where there is one."""
    for name, goal in GOALS.items():
        ceilings = [each for each in observations if "sweep_over" not in each.settings]
        fitting = [each for each in ceilings if name in (each.target, f"{each.target} {each.settings.get('mix')}")]
        best = max(
            (each for each in fitting if each.settings.get("state") != "resident"), key=lambda each: rate(each)[0]
        )
        value, unit = rate(best)
        held = [each for each in fitting if each.settings.get("burst") is False]
        also = f"; sustained {show(rate(held[0])[0] * held[0].best / held[0].median, unit)}" if held else ""
        verdict = "reached" if value >= goal else "MISSED"
        print(f"goal {name:12s} {show(goal, unit):>14s} {verdict}: {show(value, unit)} ({best.name}){also}")


def once(out: Path, quick: bool) -> int:
    """Measure, print, and write `cuda-full.json` or `cuda-quick.json`."""
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()

    def progress(done: int, total: int, label: str) -> None:
        with (out / "progress.txt").open("a") as file:
            file.write(f"{time.perf_counter() - start:8.2f} s {done}/{total} {label}\n")

    try:
        observations = cuda.measure(quick=quick, on_progress=progress)
    except RidgelineError as error:
        print(error, file=sys.stderr)
        return 2
    seconds = time.perf_counter() - start
    document = {"seconds": seconds, "observations": [to_document(each) for each in observations]}
    (out / name(quick)).write_text(json.dumps(document, indent=1))
    for each in observations:
        print(row(each))
        for note in each.notes:
            print(f"    {note}")
    if "H200" in observations[0].conditions["device"]:
        goals(observations)
    print(f"{len(observations)} observations in {seconds:.1f} s; gaps: {observations[0].conditions['gaps']}\n")
    return 0


def name(quick: bool) -> str:
    return f"cuda-{'quick' if quick else 'full'}.json"


def agree(first: Path, second: Path) -> None:
    """Every observation of two runs side by side, by the rate of the median sample."""
    runs = []
    for path in (first, second):
        document = json.loads(path.read_text())
        runs.append({each["name"]: from_document(each) for each in document["observations"]})
    print("second run against the first, by the median")
    for label, first_item in runs[0].items():
        second_item = runs[1].get(label)
        if second_item is None or first_item.target == "energy":
            continue
        (before, unit), (after, _) = (rate(each) for each in (first_item, second_item))
        if unit == "s":
            change = first_item.median / second_item.median - 1
        else:
            medians = [value * item.best / item.median for value, item in ((before, first_item), (after, second_item))]
            change = medians[1] / medians[0] - 1
        allowed = first_item.spread + second_item.spread
        verdict = "within the spread" if abs(change) <= max(allowed, 0.01) else "APART"
        print(f"{label:52s} {change:+7.2%} of ±{allowed:6.2%} {verdict}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path("."))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--twice", action="store_true")
    options = parser.parse_args()
    if not options.twice:
        return once(options.out, options.quick)
    # processes of their own: the profiler that names the kernels at the end slows the launches of a process for good
    folders = [options.out / part for part in ("first", "second")]
    for folder in folders:
        words = [sys.executable, __file__, "--out", str(folder), *(["--quick"] if options.quick else [])]
        code = subprocess.run(words, check=False).returncode
        if code:
            return code
    agree(*(folder / name(options.quick) for folder in folders))
    return 0


if __name__ == "__main__":
    sys.exit(main())
