"""Intel Advisor's survey as a table: self time, self operations and the traffic of each level, loop by loop.

Checked against the documented format only. Advisor counts operations without telling their precision, unless the loop has
one data type only; its `memory` bytes are those between the core and L1, the levels behind need the cache simulation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path

from ..core.errors import InputError
from ..core.intake import Door
from ..core.observation import LONGEST, SHORTEST, Observation
from ..core.tabular import count, decimal_mark, header, opened
from .rows import Omitted, by_column, held, numbered, timed

HOW = "advisor --report=survey --show-all-columns --format=csv --report-output=FILE.csv --project-dir=DIR"
NAMES = ("function_call_sites_and_loops", "loop_name", "source_location")
TIMES = ("self_elapsed_time", "self_time")
WORK = {"self_gflop": 1e9, "self_flop": 1.0}
LEVELS = {"l1": "self_memory_gb", "l2": "self_l2_gb", "l3": "self_l3_gb", "main": "self_dram_gb"}
HALVES = {"l1": "self", "l2": "self_l2", "l3": "self_l3", "main": "self_dram"}
INTENSITY = ("self_ai", "self_arithmetic_intensity")
DTYPES = {"float64": "vector.fp64", "float32": "vector.fp32", "float16": "vector.fp16", "bfloat16": "vector.bf16"}
PEEK = 200  # rows that show how numbers are written
MAX_HEADER_LINE = 200  # lines in which the header must come


def recognises(head: str, path: Path) -> bool:
    return any(_is_header(_columns(line)[0]) for line in head.splitlines()[:MAX_HEADER_LINE])


def _columns(line: str) -> tuple[list[str], str]:
    """Column names in one spelling: `Self Memory, GB` and `self_memory_gb` are the same."""
    names, sign = header(line)
    return [re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in names], sign


def _is_header(names: list[str]) -> bool:
    return any(name in NAMES for name in names) and any(name in TIMES for name in names)


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        lines = numbered(text, path)
        for _, line in islice(lines, MAX_HEADER_LINE):
            names, sign = _columns(line)
            if _is_header(names):
                break
        else:
            raise InputError(f"'{path}' has no header of an Advisor survey; write it with {HOW}")
        door, omitted = Door(f"'{path}'"), Omitted("without a name or self time")
        rows = by_column(lines, names, sign, door)
        first_rows = list(islice(rows, PEEK))
        mark = decimal_mark(cell for _, row in first_rows for cell in row.values())
        every = ((place, _observation(row, mark, door, place)) for place, row in chain(first_rows, rows))
        observations = list(held(timed(every, omitted), path))
    door.close()
    return omitted.noted(observations)


def _number(row: Mapping[str, str], name: str, mark: str) -> float | None:
    text = row.get(name, "").removesuffix("s").strip()  # 1.250s
    return count(text.lstrip("<~ "), mark) if text else None


def _observation(row: Mapping[str, str], mark: str, door: Door, line: int) -> Observation | None:
    name = next((row[key] for key in NAMES if row.get(key)), "")
    timed = next((key for key in TIMES if _number(row, key, mark)), "")
    seconds = _number(row, timed, mark) if timed else None
    if not name or seconds is None or not seconds > 0:
        return None  # totals, and functions that only call others
    seconds = door.number(seconds, f"line {line}, {timed}", SHORTEST, LONGEST)
    types = [word for word in re.split(r"[^a-z0-9]+", row.get("data_types", "").lower()) if word in DTYPES]
    engine = DTYPES[types[0]] if len(set(types)) == 1 else "all"
    flops: dict[str, float] = {}
    moved: dict[str, float] = {}
    defined: dict[str, str] = {}
    for key, factor in WORK.items():
        value = _number(row, key, mark)
        if value is not None and engine not in flops:
            flops[engine], defined[f"flops.{engine}"] = value * factor, key
    for level, key in LEVELS.items():
        value = _number(row, key, mark)
        halves = [f"{HALVES[level]}_loaded_gb", f"{HALVES[level]}_stored_gb"]
        parts = [part for half in halves if (part := _number(row, half, mark)) is not None]
        if value is not None:
            moved[level], defined[f"bytes.{level}"] = value * 1e9, key
        elif len(parts) == 2:
            moved[level], defined[f"bytes.{level}"] = sum(parts) * 1e9, " + ".join(halves)
    intensity = next((value for key in INTENSITY if (value := _number(row, key, mark))), None)
    if "l1" not in moved and intensity and flops.get(engine):
        moved["l1"], defined["bytes.l1"] = flops[engine] / intensity, "self_gflop over self_ai"
    return Observation(
        name=name,
        target=name,
        samples=(seconds,),
        tool="advisor",
        notes=("the time is summed over threads",) if timed == "self_time" else (),
        flops=flops,
        bytes=moved,
        defined=defined,
        settings={key: row[key] for key in ("source_location", "vector_isa", "type") if row.get(key)},
    )
