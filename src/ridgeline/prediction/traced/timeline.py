"""The predicted timeline of one step in the Chrome trace format, which Perfetto and chrome://tracing open.

    host      what the host dispatches, one slice a call, with a flow to what it launched
    device    what the device runs, one slice a call, named by its work
    memory    bytes by what they hold, as counters

Times are microseconds from the first event of a steady step. The trips of a loop are one slice with their number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.trace import HOLDS
from ...core.version import __version__
from ..kernel_sets import kernel_name
from ..queue import RUN, SYNC
from .op_time import OpTime
from .result import ProgramPrediction

HOST, DEVICE = 1, 2  # processes of the trace
MAX_SAMPLES = 2000  # of the memory counters


def chrome_trace(program: ProgramPrediction) -> dict[str, Any]:
    """The document of a trace file."""
    slices = _slices(program)
    device = f"{program.machine.name} (predicted)"
    names = [_named(HOST, "host (predicted)", "dispatch"), _named(DEVICE, device, "kernels")]
    facts = {
        "program": program.trace.name, "machine": program.machine.name, "mode": program.mode, "ridgeline": __version__,
        "wall_us": program.wall * 1e6, "device_us": program.time * 1e6, "host_us": program.host * 1e6, "regime": program.regime,
    }  # fmt: skip
    return {
        "traceEvents": [event for pair in names for event in pair] + slices,
        "displayTimeUnit": "ms",
        "otherData": facts,
    }


def _named(process: int, name: str, thread: str) -> list[dict[str, Any]]:
    place = {"ph": "M", "pid": process, "tid": 1}
    return [
        {**place, "name": "process_name", "args": {"name": name}},
        {**place, "name": "thread_name", "args": {"name": thread}},
    ]


def _slices(program: ProgramPrediction) -> list[dict[str, Any]]:
    queue, schedule, plan = program.queue, program.schedule, program.plan
    if not len(queue):
        return []
    begin = float(schedule.host[0] - queue.cost[0] - (queue.time[0] if queue.kind[0] != RUN else 0.0))
    rows = {id(item.unit): item for item in program.ops}
    events: list[dict[str, Any]] = []
    before = begin
    for event in range(len(queue)):
        run = int(queue.place[event])
        unit = plan.units[int(plan.unit[run])]
        name = unit.op.site.call.name
        done, start, end = (float(column[event]) for column in (schedule.host, schedule.start, schedule.end))
        if done > before:
            waits = " (waits for the device)" if queue.kind[event] == SYNC else ""
            args = {"module": ".".join(unit.op.site.modules), "line": unit.op.site.source, "phase": unit.op.site.phase}
            events.append(_slice(HOST, f"{name}{waits}", before - begin, done - before, args))
            if queue.kind[event] == RUN and end > start:
                arrow = {"name": "launch", "cat": "launch", "id": event, "tid": 1}
                events.append({**arrow, "ph": "s", "pid": HOST, "ts": (before - begin) * 1e6})
                events.append({**arrow, "ph": "f", "bp": "e", "pid": DEVICE, "ts": (start - begin) * 1e6})
        before = done
        if end > start and queue.kind[event] == RUN and unit.work is not None:
            args = _facts(rows[id(unit)], float(plan.times[run]))
            events.append(_slice(DEVICE, kernel_name(unit.work), start - begin, end - start, args))
    return [*events, *_memory(program, begin)]


def _slice(process: int, name: str, start: float, time: float, args: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in args.items() if value not in ("", None)}
    return {"ph": "X", "pid": process, "tid": 1, "name": name, "ts": start * 1e6, "dur": time * 1e6, "args": kept}


def _facts(item: OpTime, times: float) -> dict[str, Any]:
    """What is known of one call."""
    return {
        "op": item.op, "module": item.module, "line": item.source, "phase": item.phase, "bound": item.bound,
        "flops": item.flops / item.count, "bytes": item.bytes / item.count, "floor_us": item.floor / item.count * 1e6,
        "share_of_roofline": item.share_of_roofline, "trips": times if times != 1 else None, "fused": ", ".join(item.fused),
    }  # fmt: skip


def _memory(program: ProgramPrediction, begin: float) -> list[dict[str, Any]]:
    calls, curve = program.memory.steps(MAX_SAMPLES)
    place = np.minimum(np.searchsorted(program.plan.call, calls), len(program.plan) - 1)
    times = (program.schedule.start[place] - begin) * 1e6
    return [
        {"ph": "C", "pid": DEVICE, "name": "memory", "ts": float(time), "args": dict(zip(HOLDS, row, strict=True))}
        for time, row in zip(times.tolist(), curve.tolist(), strict=True)
    ]
