"""Running named kernels: once for a profiler, against torch, or timed with CUDA events."""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

FLUSH = 64 << 20  # floats read to push everything else out of L2
WARM, LEAST, MOST = 3, 7, 25  # runs: before timing, and timed
ENOUGH = 0.2  # seconds of timed runs after which LEAST of them do


@dataclass(frozen=True)
class Kernel:
    """`parts` run in turn, each in a range of its name; `found` is what they leave, `wanted` makes what torch says."""

    parts: Mapping[str, Callable[[], object]]
    found: Callable[[], torch.Tensor]
    wanted: Callable[[], torch.Tensor]
    error: float = 1e-5  # largest difference allowed, of the largest number wanted


@contextmanager
def named(name: str):
    """A range that both Nsight Compute and torch.profiler see."""
    with torch.profiler.record_function(name), torch.cuda.nvtx.range(name):
        yield


def once(kernel: Kernel) -> None:
    for name, run in kernel.parts.items():
        with named(name):
            run()
        torch.cuda.synchronize()


def check(kernel: Kernel) -> float:
    """The largest difference to torch, of the largest number."""
    for run in kernel.parts.values():
        run()
    wanted = kernel.wanted().float()
    return float((kernel.found().float() - wanted).abs().max() / wanted.abs().max())


def timed(run: Callable[[], object]) -> list[float]:
    """Seconds of every run; what the last one left in L2 is pushed out before each."""
    for _ in range(WARM):
        run()
    junk = torch.zeros(FLUSH, device="cuda")
    found: list[float] = []
    while len(found) < LEAST or (sum(found) < ENOUGH and len(found) < MOST):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        junk.sum()  # read, not written: dirty lines would be written back on the next kernel's time
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(end) / 1e3)
    return found


def row(name: str, samples: list[float]) -> dict[str, object]:
    told = {"time": statistics.median(samples), "low": min(samples), "high": max(samples)}
    found = {"name": name, **{f"{key}_us": f"{value * 1e6:.3f}" for key, value in told.items()}, "runs": len(samples)}
    print(*found.values(), file=sys.stderr)
    return found


def main(kernels: Mapping[str, Callable[[], Kernel]], about: str) -> None:
    parser = argparse.ArgumentParser(description=about.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="kernels to run; all where none is named")
    parser.add_argument("--skip", nargs="*", default=[], help="kernels to leave out")
    parser.add_argument("--check", action="store_true", help="compare each with torch")
    parser.add_argument("--time", type=Path, metavar="CSV", help="time each with CUDA events")
    asked = parser.parse_args()
    unknown = {*asked.names, *asked.skip} - set(kernels)
    if unknown:
        parser.error(f"no kernel is called {', '.join(sorted(unknown))}; there are {', '.join(kernels)}")
    rows: list[dict[str, object]] = []
    wrong = []
    for name in asked.names or kernels:
        if name in asked.skip:
            continue
        try:
            kernel = kernels[name]()
            if asked.check:
                error = check(kernel)
                wrong += [] if error <= kernel.error else [name]
                print(f"{name}: differs by {error:.2g}, {kernel.error:.2g} allowed", file=sys.stderr)
            elif asked.time:
                rows += [row(part, timed(run)) for part, run in kernel.parts.items()]
            else:
                once(kernel)
            del kernel
        except Exception as failure:  # the others can still run
            print(f"{name}: {type(failure).__name__}: {failure}", file=sys.stderr)
            wrong.append(name)
        torch.cuda.empty_cache()
    if asked.time:
        with asked.time.open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")
