"""The CPU probes against likwid-bench, in turns on the same machine: a table of both with their spread.

    python benchmarks/cpu_against_likwid.py               the table (needs likwid-bench on the PATH)
    python benchmarks/cpu_against_likwid.py --self-check  every kernel's answer, then all probes, without likwid

likwid-bench's variants of a kernel are ranked once on a short run; the best of them and ours then take turns, each run
as long as the other, one core on the same processor, now ours first and now theirs. Rows whose ratio lies within both
spreads of the goal, on either side of it, get more rounds than the others. `ratio` is of the best samples, `paired` the
middle of the ratios turn by turn. Both count nominal bytes (no write-allocate), and both may store past the caches at every level,
because likwid-bench's best variant sometimes does. Its cl* kernels are left out: they count whole lines
and load one word of each. `stream` is a[i] + s b[i] (three arrays), `triad` a[i] + b[i] c[i] (four arrays).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from ridgeline.core.documents import to_document
from ridgeline.core.statistics import median
from ridgeline.core.units import show
from ridgeline.machines.detect.local import here
from ridgeline.measure.cpu.bench import WARM_PASSES, Bench
from ridgeline.measure.cpu.build import build
from ridgeline.measure.cpu.pool import Kernel, Library, Pool, cores
from ridgeline.measure.cpu.probes import measure
from ridgeline.measure.protocol import calibrate

GOAL = 0.97
# our mix -> likwid's kernel name
FAMILIES = {"read": "load", "copy": "copy", "triad": "stream", "schoenauer": "triad"}
PEAKS = {"fp64": re.compile(r"^peakflops(?!_sp)(_|$)"), "fp32": re.compile(r"^peakflops_sp(_|$)")}


@dataclass
class Row:
    what: str
    level: str
    threads: int
    unit: str
    ours_name: str
    theirs_name: str
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return max(self.ours) / max(self.theirs)

    @property
    def paired(self) -> float:
        """The middle of the ratios turn by turn, which a drift of the machine moves less than the best of each."""
        return median([mine / other for mine, other in zip(self.ours, self.theirs, strict=True) if other])

    @property
    def undecided(self) -> bool:
        """Whether another round could still move the row to the other side of the goal."""
        return abs(self.ratio - GOAL) < half_range(self.ours) + half_range(self.theirs)

    def document(self) -> dict[str, Any]:
        return {**self.__dict__, "ratio": self.ratio, "paired": self.paired}


def variants() -> list[str]:
    listed = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, check=True).stdout
    return [line.split(" - ")[0].strip() for line in listed.splitlines() if " - " in line]


def likwid(test: str, kilobytes: int, threads: int, seconds: float, rate: float, flops: bool) -> float:
    """Its B/s or flop/s for a run of about so many seconds; 0 where it cannot run the variant."""
    iterations = max(10, int(seconds * rate / (kilobytes * 1000)))
    stride = max(1, len(os.sched_getaffinity(0)) // len(cores()))
    flag = "-W" if len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) > 1 else "-w"
    group = f"N:{kilobytes}kB:{threads}:1:{stride}" if stride > 1 else f"N:{kilobytes}kB:{threads}"
    done = subprocess.run(
        ["likwid-bench", "-t", test, flag, group, "-i", str(iterations)], capture_output=True, text=True, check=False
    )
    hit = re.search(r"MFlops/s:\s*([0-9.]+)" if flops else r"MByte/s:\s*([0-9.]+)", done.stdout)
    return float(hit[1]) * 1e6 if hit and done.returncode == 0 else 0.0


class Ours:
    """One of our kernels on a working set, timed for so many seconds a sample."""

    def __init__(self, pool: Pool, kernel: Kernel, size: int, warm: int) -> None:
        self.pool, self.kernel, self.size, self.warm = pool, kernel, size, warm
        self.loops: dict[float, int] = {}

    def run(self, loops: int) -> Any:
        return self.pool.run(self.kernel, self.size, loops, self.warm)

    def rate(self, seconds: float) -> float:
        if seconds not in self.loops:
            self.loops[seconds] = calibrate(self.run, min_seconds=seconds)
        flops = self.kernel.flops * self.pool.threads
        amount = float(self.pool.touched(self.kernel, self.size)) if self.size else flops
        return amount * self.loops[seconds] / self.run(self.loops[seconds]).seconds


@dataclass
class Match:
    """A row of the table, and how each side is run."""

    row: Row
    ours: Ours
    kilobytes: int
    rate: float  # of theirs, about: how long their run must be

    def turn(self, seconds: float, first: bool) -> None:
        for mine in (first, not first):
            if mine:
                self.row.ours.append(self.ours.rate(seconds))
            else:
                arithmetic = self.row.unit == "flop/s"
                test, threads = self.row.theirs_name, self.row.threads
                self.row.theirs.append(likwid(test, self.kilobytes, threads, seconds, self.rate, arithmetic))


def matches(bench: Bench, seconds: float, pools: list[Pool], only: str, wanted: str) -> list[Match]:
    """What is compared: our kernel and likwid's best variant for every family, level and thread count."""
    names = [name for name in variants() if re.search(only, name)]
    plan: list[Match] = []
    for pool in pools:
        plan += stream_matches(bench, seconds, pool, names, wanted)
        plan += peak_matches(bench, seconds, pool, names, wanted)
    return plan


def stream_matches(bench: Bench, seconds: float, pool: Pool, names: list[str], wanted: str) -> list[Match]:
    plan, zones = [], bench.zones(pool)
    for zone in zones:
        size = pool.size if zone is zones[-1] else int(zone.middle)
        kilobytes = max(1, size * pool.threads // 1000)
        for mix, family in FAMILIES.items():
            candidates = [name for name in names if re.match(rf"^{family}(_|$)", name) and "_sp" not in name]
            if not candidates or not re.search(wanted, f"{family} {zone.name}"):
                continue
            kernels = bench.library.streams(mix) + bench.library.streams(f"{mix}_nt")
            kernel = bench.fastest(kernels, pool, size)
            ours = Ours(pool, kernel, size, 0 if zone is zones[-1] else WARM_PASSES)
            rate = ours.rate(seconds / 4)
            rates = {name: likwid(name, kilobytes, pool.threads, seconds / 2, rate / 2, False) for name in candidates}
            best = max(rates, key=lambda name: rates[name])
            print(f"  {family:7} {zone.name:7} {pool.threads:3}  {best}", file=sys.stderr)
            row = Row(family, zone.name, pool.threads, "B/s", f"{kernel.op} {kernel.isa}", best)
            plan.append(Match(row, ours, kilobytes, rates[best] or rate))
    return plan


def peak_matches(bench: Bench, seconds: float, pool: Pool, names: list[str], wanted: str) -> list[Match]:
    plan = []
    for dtype, pattern in PEAKS.items():
        candidates = [name for name in names if pattern.match(name)]
        if not candidates or not re.search(wanted, f"fma {dtype}"):
            continue
        arithmetic = bench.library.arithmetic().items()
        groups = [group for (engine, kind, _), group in arithmetic if (engine, kind) == ("vector", dtype)]
        every = [Ours(pool, bench.fastest(group, pool), 0, 1) for group in groups]
        ours = max(every, key=lambda each: each.rate(seconds / 10))
        kilobytes = max(1, int(bench.zones(pool)[0].middle) * pool.threads // 1000)
        # likwid's arithmetic kernels read 8 (or 4) bytes per 16 flops or more; the rate only sets how long it runs
        rate = 2e9 * pool.threads
        rates = {name: likwid(name, kilobytes, pool.threads, seconds / 2, rate, True) for name in candidates}
        best = max(rates, key=lambda name: rates[name])
        row = Row(f"fma {dtype}", "-", pool.threads, "flop/s", f"{ours.kernel.isa} x{ours.kernel.chains}", best)
        plan.append(Match(row, ours, kilobytes, 4e9 * pool.threads))
    return plan


def compare(rounds: int, more: int, seconds: float, threads: str, only: str, wanted: str) -> list[Row]:
    bench = Bench(Library(build()), here("cpu"), False)
    # likwid-bench takes the first processor for one thread; so do we
    first = Pool(bench.library, cores()[:1], bench.pools[0].size)
    pools = {"one": [first], "all": bench.pools[-1:], "both": [first, *bench.pools[1:]]}[threads]
    plan = matches(bench, seconds, pools, only, wanted)
    for turn in range(rounds + more):
        going = [match for match in plan if turn < rounds or match.row.undecided]
        print(f"  round {turn + 1} of {rounds + more}: {len(going)} rows", file=sys.stderr)
        for match in going:
            match.turn(seconds, first=turn % 2 == 0)
        # after every round, so that a run that is cut short has printed its rows
        print(table([match.row for match in plan if max(match.row.theirs)]), flush=True)
    return [match.row for match in plan if max(match.row.theirs)]


def half_range(values: list[float]) -> float:
    return (max(values) - min(values)) / 2 / median(values)


def table(rows: list[Row]) -> str:
    head = f"{'kernel':9} {'level':7} {'cores':>5}  {'ours':>14} {'+-':>6}  {'likwid-bench':>14} {'+-':>6}  {'ratio':>6}  {'paired':>6}  {'rounds':>6}  variants"
    lines = [head, "-" * len(head)]
    for row in rows:
        verdict = ("" if row.ratio >= GOAL else "  below") + (" (within the spread)" if row.undecided else "")
        lines.append(
            f"{row.what:9} {row.level:7} {row.threads:5}  {show(max(row.ours), row.unit):>14} {half_range(row.ours):6.1%}  "
            f"{show(max(row.theirs), row.unit):>14} {half_range(row.theirs):6.1%}  {row.ratio:6.3f}  {row.paired:6.3f}  {len(row.ours):6}  {row.ours_name} / {row.theirs_name}{verdict}"
        )
    below = sum(row.ratio < GOAL for row in rows)
    return "\n".join([*lines, f"{len(rows) - below} of {len(rows)} at least {GOAL} of likwid-bench's best variant"])


def self_check() -> None:
    """Every kernel this CPU can run gives the right answer; then all probes of a quick run with their values."""
    start = time.perf_counter()
    built = build()
    library = Library(built)
    pool = Pool(library, cores(), 1 << 20)
    for kernel in library.kernels:
        for size in (5000, 70_000, 1 << 20):
            pool.run(kernel, size if kernel.kind == "stream" else 0, 3, 1, check=True)
    kinds = sorted({f"{kernel.isa} {kernel.dtype}" for kernel in library.kernels})
    print(f"{len(library.kernels)} kernels right ({', '.join(kinds)}), {built.compiler}, {' '.join(built.flags)}")
    for each in measure(here("cpu"), quick=True):
        arithmetic = each.settings.get("mix") in ("none", "gemm")
        value = show(each.best_rate, "flop/s") if arithmetic else show(each.best_bandwidth, "B/s")
        value = show(each.best, "s") if each.settings.get("mix") == "chase" else value
        print(
            f"{each.name:44} {each.target:16} {each.settings.get('isa', '')!s:7} {value:>16}  spread {each.spread:.1%}"
        )
    print(f"{time.perf_counter() - start:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--more", type=int, default=5, help="rounds more, for rows that are undecided")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one sample")
    parser.add_argument("--only", default="", help="consider only the variants of likwid-bench that match this")
    parser.add_argument("--rows", default="", help="only the rows that match this, such as 'load l1' or 'l3|memory'")
    parser.add_argument("--cores", choices=["one", "all", "both"], default="both")
    parser.add_argument("--json", type=Path, help="write all samples here")
    parser.add_argument("--self-check", action="store_true")
    given = parser.parse_args()
    if given.self_check:
        self_check()
        return 0
    if not shutil.which("likwid-bench"):
        print(
            "likwid-bench is not on the PATH; install the package `likwid` (Debian: amd64 only, elsewhere from source)."
        )
        return 2
    rows = compare(given.rounds, given.more, given.seconds, given.cores, given.only, given.rows)
    if given.json:
        given.json.write_text(json.dumps([to_document(row) for row in rows], indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
