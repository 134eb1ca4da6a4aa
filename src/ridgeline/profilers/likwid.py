"""`likwid-perfctr -O`: flops, traffic of each memory level and time of a program or of its marked regions.

Checked against the documented format only. A file is a row of tables; each belongs to a group of counters and, with
marks in the program, to a region. Rates of a thread are multiplied by that thread's time and summed; volumes are summed; the
time is that of the slowest thread. Groups of one region make one Observation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import InputError
from ..core.observation import Observation
from ..core.tabular import cells, count, opened
from .rows import numbered

HOW = "likwid-perfctr -C CORES -g MEM_DP -m -O -o FILE.csv PROGRAM"
RUNTIMES = ("RDTSC Runtime [s]", "Runtime (RDTSC) [s]")
# Metric -> what it is of; the narrower rates beside them (AVX DP, packed) are parts of these and are not added.
RATES = {
    "DP [MFLOP/s]": "vector.fp64",
    "SP [MFLOP/s]": "vector.fp32",
    "DP MFLOP/s": "vector.fp64",
    "SP MFLOP/s": "vector.fp32",
}
VOLUMES = {f"{name} data volume [GBytes]": level for name, level in (("Memory", "main"), ("L3", "l3"), ("L2", "l2"))}
MAX_TIME_DIFFERENCE = 0.05  # runs of two groups whose times differ by more are not one run
_TABLE = re.compile(r"Group (\d+) (Raw|Metric)( STAT)?")
_THREAD = re.compile(r"(?:HWThread|Core) \d+")


def recognises(head: str, path: Path) -> bool:
    return any(_title(cells(line)) for line in head.splitlines() if line.startswith("TABLE,"))


@dataclass
class _Table:
    region: str
    group: str
    statistics: bool
    rows: dict[str, list[float | None]] = field(default_factory=dict)


def _title(row: list[str]) -> _Table | None:
    """`TABLE,[Region NAME,]Group N Raw|Metric[ STAT],GROUP,LINES`."""
    words = [cell.strip() for cell in row[1:]]
    region = words.pop(0).removeprefix("Region ") if words and words[0].startswith("Region ") else ""
    title = _TABLE.fullmatch(words[0]) if words else None
    return _Table(region, words[1] if len(words) > 1 else "", bool(title[3])) if title else None


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        regions: dict[str, list[_Table]] = {}
        about: dict[str, str] = {}
        for table in _tables((line for _, line in numbered(text, path)), about):
            regions.setdefault(table.region, []).append(table)
    if not regions:
        raise InputError(f"'{path}' has no tables of likwid-perfctr; write it with {HOW}")
    return [_observation(name, tables, about, path) for name, tables in regions.items()]


def _tables(lines: Iterable[str], about: dict[str, str]) -> Iterator[_Table]:
    table: _Table | None = None
    threads: list[int] = []
    for line in lines:
        row = [cell.strip() for cell in cells(line)]
        if not any(row):
            continue
        if row[0] in ("TABLE", "STRUCT"):
            if table is not None:
                yield table
            table = _title(row) if row[0] == "TABLE" else None
            threads = []
        elif row[0] in ("CPU name:", "CPU type:", "CPU clock:"):
            about[row[0].rstrip(":").removeprefix("CPU ")] = row[1] if len(row) > 1 else ""
        elif table is not None and row[0] in ("Event", "Metric", "Region Info"):
            threads = [place for place, cell in enumerate(row) if _THREAD.fullmatch(cell) or cell in ("Sum", "Max")]
        elif table is not None and threads:
            values = [count(row[place]) if place < len(row) else None for place in threads]
            table.rows[row[0].removesuffix(" STAT")] = values
    if table is not None:
        yield table


def _observation(region: str, tables: list[_Table], about: dict[str, str], path: Path) -> Observation:
    name = region or path.name.partition(".")[0] or "likwid"
    flops: dict[str, float] = {}
    moved: dict[str, float] = {}
    defined: dict[str, str] = {}
    per_thread = [table for table in tables if not table.statistics]
    times = {table.group: spent for table in per_thread if (spent := _times(table))}
    if not times:
        raise InputError(f"'{path}': {name} has no runtime in any of its tables; write it with {HOW}")
    notes: list[str] = []
    for table in per_thread:
        spent = times.get(table.group, [])
        for metric, values in table.rows.items():
            if metric not in RATES and metric not in VOLUMES:
                continue
            if None in values and any(value is not None for value in values):
                notes.append(f"omitted, not counted on every thread: {metric} of {table.group}")
            elif metric in RATES and len(values) == len(spent):
                engine = RATES[metric]
                if f"flops.{engine}" not in defined:
                    pairs = zip(values, spent, strict=True)
                    flops[engine] = sum(rate * 1e6 * time for rate, time in pairs if rate and time)
                    defined[f"flops.{engine}"] = f"{metric} x time of {table.group}, summed over threads"
            elif metric in VOLUMES:
                level = VOLUMES[metric]
                if f"bytes.{level}" not in defined and any(value is not None for value in values):
                    moved[level] = sum(value * 1e9 for value in values if value)
                    defined[f"bytes.{level}"] = f"{metric} of {table.group}, summed over threads"
    slowest = {group: max(time for time in spent if time) for group, spent in times.items()}
    longest, shortest = max(slowest.values()), min(slowest.values())
    apart = f"run times of the groups differ, {shortest:g} to {longest:g} s: their counts come from different runs"
    return Observation(
        name=name,
        target=name,
        samples=(next(iter(slowest.values())),),
        settings={"groups": list(times), "threads": max(len(spent) for spent in times.values())},
        conditions=dict(about),
        tool="likwid",
        notes=(*notes, *((apart,) if longest > shortest * (1 + MAX_TIME_DIFFERENCE) else ())),
        flops=flops,
        bytes=moved,
        defined=defined,
        path=(region,) if region else (),
    )


def _times(table: _Table) -> list[float | None]:
    """Seconds of each thread, where a table has them; a region's own time is better than that of the whole program."""
    spent = next((table.rows[name] for name in RUNTIMES if name in table.rows), [])
    return spent if any(spent) else []
