"""`perf stat -x,`: flops by the width of the vectors, memory traffic and wall time of a whole run.

Checked against real output of perf for the software events; the hardware events follow the documented format only. An
instruction counts as many flops as it has elements; a fused multiply-add retires as two already.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..core.errors import InputError
from ..core.observation import Observation
from ..core.tabular import cells, count, decimal_mark, number, opened
from .rows import Omitted, numbered

HOW = "perf stat -x, -o FILE.csv -e duration_time,fp_arith_inst_retired.256b_packed_double,... -- PROGRAM"
DELIMITERS = ",;|\t"
WALL = "duration_time"
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
SCALES = {"b": 1.0, "bytes": 1.0, "kib": 2.0**10, "mib": 2.0**20, "gib": 2.0**30, "kb": 1e3, "mb": 1e6, "gb": 1e9}
_SECONDS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0}
TIMES = {f"{prefix}{unit}": scale for prefix, scale in _SECONDS.items() for unit in ("s", "sec", "seconds")}
MIN_COUNTED = 99.5  # percent of the time below which an event was counted by turns and scaled up
_EVENT = re.compile(r"[A-Za-z][\w.\-/:=,@ ]*")


def recognises(head: str, path: Path) -> bool:
    """Lines of value, unit, event, run time and percentage."""
    lines = [line for line in head.splitlines()[:60] if line.strip() and not line.startswith("#")]
    return bool(lines) and _parts(lines[0]) is not None


def _parts(line: str) -> tuple[str, str, str, list[str]] | None:
    """Value, unit, event and the rest of a line; None for what is no line of perf."""
    for sign in DELIMITERS:
        row = [cell.strip() for cell in cells(line.rstrip("\r\n"), sign)]
        if len(row) < 5:
            continue
        value, unit, event, *rest = row
        if rest[0].endswith("%"):
            rest = rest[1:]  # the spread of repeated runs
        counted = value in UNCOUNTED or number(value.replace(",", ".")) is not None
        if not counted or not _EVENT.fullmatch(event) or len(rest) < 2:
            continue
        if rest[0].isdigit() and number(rest[1].replace(",", ".")) is not None:
            return value, unit, event, rest
    return None


def read(path: Path) -> list[Observation]:
    with opened(path) as text:
        omitted, rows = Omitted("not written by perf stat"), []
        for place, line in numbered(text, path):
            if line.startswith("#"):
                continue
            if (parts := _parts(line)) is not None:
                rows.append(parts)
            else:
                omitted.add(place)
    if not rows:
        raise InputError(f"'{path}' has no lines of perf stat; without -I, -A or --per-socket write it as {HOW}")
    walls = sum(_plain(event) == WALL for _, _, event, _ in rows)
    if walls > 1:
        raise InputError(
            f"'{path}' has {WALL} {walls} times; import the file of one run, without -I, -A or --per-socket"
        )
    run = _Run(decimal_mark(value for value, *_ in rows))
    for row in rows:
        run.take(*row)
    return omitted.noted([run.observation(path)])


def _plain(event: str) -> str:
    """An event without the unit it was counted on and its modifiers: `cpu_core/cycles/u` is `cycles`."""
    on = re.fullmatch(r"[\w\-]+/(.+)/\w*", event)
    name = on[1] if on else event
    return name.partition(":")[0].lower()


@dataclass
class _Run:
    """What the lines of one run say."""

    mark: str
    flops: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, float] = field(default_factory=dict)
    counters: dict[str, float] = field(default_factory=dict)
    terms: dict[str, dict[str, None]] = field(default_factory=dict)  # of what each count is the sum of
    uncounted: list[str] = field(default_factory=list)
    scaled: list[str] = field(default_factory=list)
    scalar: float = 0.0  # flops of scalar instructions
    wall: float | None = None
    task_clock: tuple[float, float] = (0.0, 0.0)  # seconds, and how many processors were used

    def take(self, text: str, unit: str, event: str, rest: list[str]) -> None:
        name, value = _plain(event), count(text, self.mark)
        if value is None:
            self.uncounted.append(event)
        elif name == WALL:
            self.wall = value * TIMES.get(unit.lower(), 1e-9)
        elif name in ("task-clock", "cpu-clock"):
            used = number(rest[2], self.mark) if len(rest) > 3 and "CPUs" in rest[3] else None
            self.task_clock = value * TIMES.get(unit.lower(), 1e-3), used or 0.0
        elif name in FLOPS:
            share = number(rest[1].replace(",", "."))
            if share is not None and share < MIN_COUNTED:
                self.scaled.append(f"{event} {share:g} %")
            engine, weight = FLOPS[name]
            self.flops[engine] = self.flops.get(engine, 0.0) + weight * value
            self.scalar += weight * value if ".scalar_" in name else 0.0
            self._define(f"flops.{engine}", event if weight == 1 else f"{weight} x {event}")
        elif "cas_count" in name:
            size = SCALES.get(unit.lower(), 1.0) if unit else float(LINE)
            self.bytes["main"] = self.bytes.get("main", 0.0) + size * value
            self._define("bytes.main", event if unit else f"{LINE} x {event}")
        elif name in ("instructions", "cycles", "cpu-cycles"):
            self.counters[name.removeprefix("cpu-")] = value

    def _define(self, key: str, term: str) -> None:
        self.terms.setdefault(key, {})[term] = None

    def observation(self, path: Path) -> Observation:
        notes: list[str] = []
        if self.wall is None and self.task_clock[1] > 0:
            self.wall = self.task_clock[0] / self.task_clock[1]
            notes.append("time = task clock / CPUs utilized; add duration_time for the wall time")
        if self.wall is None or not self.wall > 0:
            raise InputError(f"'{path}' has no run time; add the event duration_time: {HOW}")
        if self.uncounted:
            notes.append(f"not counted: {', '.join(self.uncounted)}")
        if self.scaled:
            notes.append(f"multiplexed and scaled by perf: {', '.join(self.scaled)}")
        if "main" in self.bytes:
            notes.append("memory-controller bytes include the traffic of all processes")
        name = path.name.partition(".")[0] or "perf"
        by_width = sum(value for engine, value in self.flops.items() if engine != "all")
        if by_width:
            self.counters["scalar_share"] = self.scalar / by_width
        return Observation(
            name=name,
            target=name,
            samples=(self.wall,),
            tool="perf",
            notes=tuple(notes),
            flops=self.flops,
            bytes=self.bytes,
            counters=self.counters,
            defined={key: " + ".join(terms) for key, terms in self.terms.items()},
        )
