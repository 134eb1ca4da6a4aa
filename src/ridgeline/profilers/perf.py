"""`perf stat -x,`: flops by the width of the vectors, memory traffic and wall time of a whole run.

Checked against real output of perf for the software events; the hardware events follow the documented format only. An
instruction counts as many flops as it has elements; a fused multiply-add retires as two already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..core.errors import InputError
from ..core.observation import Observation
from ..core.tabular import cells, count, decimal_mark, number, opened
from ..core.work import Work

HOW = "perf stat -x, -o FILE.csv -e duration_time,fp_arith_inst_retired.256b_packed_double,... -- PROGRAM"
SIGNS = ",;|\t"
UNCOUNTED = ("<not counted>", "<not supported>")

# Elements per instruction, by event.
FLOPS: dict[str, tuple[str, int]] = {
    f"{event}.{width}_{kind}": (f"vector.{dtype}", (bits or size) // size)
    for event, kind, dtype, size in (
        ("fp_arith_inst_retired", "double", "fp64", 64),
        ("fp_arith_inst_retired", "single", "fp32", 32),
        ("fp_arith_inst_retired2", "half", "fp16", 16),
    )
    for width, bits in (("scalar", 0), ("128b_packed", 128), ("256b_packed", 256), ("512b_packed", 512))
}
FLOPS["fp_ret_sse_avx_ops.all"] = ("all", 1)  # AMD counts flops, and not of which precision
LINE = 64  # bytes of a memory access
SCALES = {
    "": 1.0,
    "b": 1.0,
    "bytes": 1.0,
    "kib": 2.0**10,
    "mib": 2.0**20,
    "gib": 2.0**30,
    "kb": 1e3,
    "mb": 1e6,
    "gb": 1e9,
}
TIMES = {
    "ns": 1e-9,
    "nsec": 1e-9,
    "us": 1e-6,
    "usec": 1e-6,
    "ms": 1e-3,
    "msec": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
}
_EVENT = re.compile(r"[A-Za-z][\w.\-/:=,@ ]*")


def recognises(head: str, path: Path) -> bool:
    """Lines of value, unit, event, run time and percentage."""
    lines = [line for line in head.splitlines()[:60] if line.strip() and not line.startswith("#")]
    return bool(lines) and _parts(lines[0]) is not None


def _parts(line: str) -> tuple[str, str, str, list[str]] | None:
    """Value, unit, event and the rest of a line; None for what is no line of perf."""
    for sign in SIGNS:
        row = [cell.strip() for cell in cells(line.rstrip("\r\n"), sign)]
        if len(row) < 5:
            continue
        value, unit, event, *rest = row
        if not (value in UNCOUNTED or number(value.replace(",", ".")) is not None):
            continue
        if rest[0].endswith("%"):
            rest = rest[1:]  # the spread of repeated runs
        if (
            _EVENT.fullmatch(event)
            and len(rest) >= 2
            and rest[0].isdigit()
            and number(rest[1].replace(",", ".")) is not None
        ):
            return value, unit, event, rest
    return None


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        found = [parts for line in text if not line.startswith("#") and (parts := _parts(line))]
    if not found:
        raise InputError(f"'{path}' has no lines of perf stat; without -I, -A or --per-socket write it as {HOW}")
    return [_observation(found, path)]


def _plain(event: str) -> str:
    """An event without the unit it was counted on and its modifiers: `cpu_core/cycles/u` is `cycles`."""
    on = re.fullmatch(r"[\w\-]+/(.+)/\w*", event)
    name = on[1] if on else event
    return name.partition(":")[0].lower()


def _observation(rows: Iterable[tuple[str, str, str, list[str]]], path: Path) -> Observation:
    rows = list(rows)
    mark = decimal_mark(value for value, *_ in rows)
    flops: dict[str, float] = {}
    moved: dict[str, float] = {}
    defined: dict[str, list[str]] = {}
    counters: dict[str, float] = {}
    notes: list[str] = []
    missed: list[str] = []
    partly: list[str] = []
    wall: float | None = None
    clock: tuple[float, float] | None = None
    for text, unit, event, rest in rows:
        name, value = _plain(event), count(text, mark)
        if value is None:
            missed.append(event)
            continue
        share = number(rest[1].replace(",", "."))
        if share is not None and share < 99.5 and name in FLOPS:
            partly.append(f"{event} {share:g} %")
        if name == "duration_time":
            wall = value * TIMES.get(unit.lower(), 1e-9)
        elif name in ("task-clock", "cpu-clock"):
            used = number(rest[2], mark) if len(rest) > 3 and "CPUs" in rest[3] else None
            clock = value * TIMES.get(unit.lower(), 1e-3), used or 0.0
        elif name in FLOPS:
            engine, weight = FLOPS[name]
            flops[engine] = flops.get(engine, 0.0) + weight * value
            defined.setdefault(f"flops.{engine}", []).append(event if weight == 1 else f"{weight} x {event}")
        elif "cas_count" in name:
            size = SCALES.get(unit.lower(), 1.0) if unit else float(LINE)
            moved["main"] = moved.get("main", 0.0) + size * value
            defined.setdefault("bytes.main", []).append(event if unit else f"{LINE} x {event}")
        elif name in ("instructions", "cycles", "cpu-cycles"):
            counters[name.removeprefix("cpu-")] = value
    if wall is None and clock is not None and clock[1] > 0:
        wall = clock[0] / clock[1]
        notes.append("the time is the task clock over the processors used; add duration_time for the wall time")
    if wall is None or not wall > 0:
        raise InputError(f"'{path}' does not say how long the run took; add the event duration_time: {HOW}")
    if missed:
        notes.append(f"not counted: {', '.join(missed)}")
    if partly:
        notes.append(f"counted part of the time and scaled up by perf: {', '.join(partly)}")
    if "main" in moved:
        notes.append("bytes are those of the memory controllers, whatever program moved them")
    return Observation(
        name=path.name.partition(".")[0],
        target=path.name.partition(".")[0],
        samples=(wall,),
        work=Work(),
        tool="perf",
        notes=tuple(notes),
        flops=flops,
        bytes=moved,
        counters=counters,
        defined={key: " + ".join(texts) for key, texts in defined.items()},
    )
