"""What a torch.profiler trace says: its kernels as Observations, and the idle time of its devices.

Kernels that agree in everything but time are samples of one Observation. A gap between two kernels is the host's when the
launch that ends it returned only after the device had run dry; a kernel queued before that waited for something else.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ...core.intake import refuse_over
from ...core.observation import SHORTEST, Observation
from ...core.timeline import COLLECTIVE, KERNEL
from ...core.units import counted
from ..chrome_trace import MICRO, MODULE, OP, RANGE, SLACK, Span
from .events import Activity, Record, listed, number
from .links import ENGINE, Chain, Context, Trace

TOOL = "torch.profiler"
VERSIONS = ("cuda_runtime_version", "cuda_driver_version", "cupti_version", "hip_runtime_version", "hip_driver_version")
HEADER = frozenset({*VERSIONS, "baseTimeNanoseconds", "deviceProperties", "distributedInfo"})  # what is used of it
DEFINED_DEVICE = {
    "time": "start to end on the device, as the profiler's activity records give it",
    "settings.occupancy_estimate": "computed by the profiler from grid, block, registers and shared memory; not counted",
    "settings.bytes": "the size the program asked to copy or to set; not counted",
    "settings.host_wait": "idle time of the device before these kernels, all samples together, where the launch came late and "
    "the kernel before ran under the same path; recording slows the host, so at most this",
}
DEFINED_HOST = {"time": "time of the op on the host less the ops it called, recording included"}


@dataclass
class _Group:
    """The samples of one activity, or of one op of the host, under one context."""

    context: Context
    activity: Activity | None
    called: frozenset[str] = frozenset()
    samples: list[float] = field(default_factory=list)
    calls: set[int] = field(default_factory=set)
    without_time: int = 0
    launch_modes: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)  # microseconds

    def take(self, length: float, context: Context) -> None:
        self.calls.add(id(context.call))
        if length * MICRO >= SHORTEST:
            self.samples.append(length * MICRO)
        else:
            self.without_time += 1


def observations(trace: Trace) -> list[Observation]:
    """One per kernel (or op of a trace without kernels), shape, launch and path, in the order they first ran."""
    groups: dict[Any, _Group] = {}
    if trace.events.records:
        records = list(trace.on_device())
        waits = _host_waits(trace, {id(record): context.path for record, context in records})
        for record, context in records:
            key: Any = record.activity, trace.alike(context.ops), context.path
            group = groups.setdefault(key, _Group(context, record.activity))
            group.take(record.end - record.start, context)
            group.launch_modes.add(trace.launch_mode(record))
            if id(record) in waits:
                group.waits.append(waits[id(record)])
    else:
        for span, context, called in trace.on_host():
            key = trace.alike(context.ops), context.path
            group = groups.setdefault(key, _Group(context, None, frozenset(inner.what.name for inner in called)))
            group.take(span.end - span.start - math.fsum(inner.end - inner.start for inner in called), context)
    refuse_over("kernels", len(groups), f"'{trace.events.path}', {len(groups):,} different kernels or ops,")
    names = sum(chain.depth for group in groups.values() for chain in group.context[:2] if chain is not None)
    refuse_over("rows", names, f"'{trace.events.path}': the {names:,} ops and modules around its kernels")
    ranges = Counter(span.what for lane in trace.events.lanes.values() for span in lane if span.kind in (RANGE, MODULE))
    names_of_devices, conditions = device_names(trace), dict[Any, dict[str, Any]]()
    timed = []
    for group in groups.values():
        device = group.activity.device if group.activity else None
        if device not in conditions:
            conditions[device] = recording_conditions(trace, group.activity, names_of_devices)
        if group.samples:
            timed.append(_observation(trace, group, conditions[device], ranges))
    timeless = len(groups) - len(timed)
    notes = list(trace.events.notes)
    if timeless:
        notes.append(f"{counted(timeless, 'more kernel')} of the trace without measurable time, omitted")
    if timed and notes:
        timed[0] = replace(timed[0], notes=(*timed[0].notes, *notes))
    return timed


def _observation(trace: Trace, group: _Group, conditions: Mapping[str, Any], ranges: Mapping[str, int]) -> Observation:
    activity, op = group.activity, group.context.ops and group.context.ops.item
    name = activity.name if activity and (activity.kind != KERNEL or not op) else op.name if op else ""
    name = name or (activity.kind if activity else OP)
    return Observation(
        name=name,
        target=name,
        samples=tuple(group.samples),
        settings=_settings(group, ranges),
        conditions=conditions,
        tool=TOOL,
        version=trace.events.version,
        notes=(f"{group.without_time} more launches have no measurable time",) if group.without_time else (),
        kernel=activity.kernel if activity else "",
        defined=DEFINED_DEVICE if activity else DEFINED_HOST,
        path=tuple(group.context.path or ()),
    )


def _settings(group: _Group, ranges: Mapping[str, int]) -> dict[str, Any]:
    activity, ops = group.activity, tuple(op.alike for op in group.context.ops or ())
    settings: dict[str, Any] = {"kind": activity.kind if activity else OP, "count": len(group.samples)}
    if ops:
        op = ops[-1]
        settings |= {"op": op.name, "ops": [outer.name for outer in ops], "calls": len(group.calls)}
        shapes = [list(shape) for shape in op.shapes]
        inputs = {"shapes": shapes, "dtypes": list(op.dtypes), "scalars": dict(op.scalars)}
        settings |= {key: value for key, value in inputs.items() if value}
        if any(outer.name.startswith(ENGINE) for outer in ops):
            settings["pass"] = "backward"
    path = group.context.path
    if path is not None and path.item in ranges:
        settings["range_runs"] = ranges[path.item]  # of the innermost range or module around it
    if group.called:
        settings["called"] = sorted(group.called)
    if activity:
        settings |= {"device": activity.device, **activity.settings}
        if len(group.launch_modes) == 1 and "" not in group.launch_modes:
            (settings["sent"],) = group.launch_modes
        if group.waits and settings.get("sent") == "one by one":
            settings["host_wait"] = math.fsum(group.waits) * MICRO
    return settings


def recording_conditions(trace: Trace, activity: Activity | None, names: Mapping[Any, str]) -> dict[str, Any]:
    header = trace.events.header
    conditions: dict[str, Any] = {"cache": "as the program left it"}
    base = number(header.get("baseTimeNanoseconds"))
    if base > 0 and math.isfinite(trace.events.first):
        seconds = base / 1e9 + trace.events.first * MICRO
        if 0 < seconds < 4e9:  # this century
            conditions["date"] = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    conditions["device"] = names.get(activity.device, "") if activity else "cpu"
    if activity:
        conditions.update({key: header[key] for key in VERSIONS if key in header})
    group = header.get("distributedInfo")
    if isinstance(group, dict):
        conditions.update({key: group[key] for key in ("backend", "rank", "world_size") if key in group})
    return {key: value for key, value in conditions.items() if value != ""}


class Gap(NamedTuple):
    """What came before something on its device: the last to end, and the time in between."""

    record: Record
    before: Record
    time: float  # microseconds, 0 where they overlap or touch
    host: bool | None  # whether the device waited for the launch; None where the launch was not recorded


def _gaps(records: list[Record], launches: Mapping[int, Span]) -> Iterator[Gap]:
    """All that ran on one device but the first, in the order it began."""
    records = sorted(records, key=lambda record: record.start)
    last = records[0]
    for record in records[1:]:
        gap, launch = record.start - last.end, launches.get(record.correlation)
        time = gap if gap > SLACK else 0.0
        yield Gap(record, last, time, None if launch is None else time > 0 and launch.end > last.end)
        if record.end > last.end:
            last = record


def _host_waits(trace: Trace, paths: Mapping[int, Chain | None]) -> dict[int, float]:
    """Microseconds each kernel let its device wait for the host, where the one before it ran under the same path.

    What the host did between one range or module and the next is neither one's: setting up may be part of it.
    """
    return {
        id(gap.record): gap.time if gap.host else 0.0
        for records in trace.by_device().values()
        for gap in _gaps(records, trace.links.launches)
        if gap.host is not None and paths[id(gap.before)] is paths[id(gap.record)]
    }


def idle_times(trace: Trace) -> dict[str, Any]:
    """Idle time of each device between its first and last kernel, and the part spent waiting for the host."""
    names = device_names(trace)
    rows = [
        {"device": device, "name": names.get(device, ""), **_device_row(records, trace.links.launches)}
        for device, records in trace.by_device().items()
    ]
    notes = ["recording slows the host, so the host share is an upper bound"] if rows else []
    return {"devices": rows, "notes": notes or ["the trace has no device kernels"]}


def _device_row(records: list[Record], launches: Mapping[int, Span]) -> dict[str, Any]:
    gaps = [gap for gap in _gaps(records, launches) if gap.time]
    idle = math.fsum(gap.time for gap in gaps)
    waited = math.fsum(gap.time for gap in gaps if gap.host)
    unknown = math.fsum(gap.time for gap in gaps if gap.host is None)
    span = max(record.end for record in records) - min(record.start for record in records)
    launched = len({record.correlation for record in records if record.correlation in launches})
    row: dict[str, Any] = {
        "kernels": sum(record.activity.kind in (KERNEL, COLLECTIVE) for record in records),
        "span": span * MICRO,
        "busy": (span - idle) * MICRO,
        "idle": idle * MICRO,
        "gaps": len(gaps),
    }
    if gaps:
        largest = max(gaps, key=lambda gap: gap.time)
        names = {"after": largest.before.activity.name, "before": largest.record.activity.name}
        row["largest"] = {"time": largest.time * MICRO, **names}
    if launched and span > 0:
        row |= {
            "launches_per_second": launched / (span * MICRO),
            "idle_for_host": waited * MICRO,
            "host_bound": waited / span,
        }
        if unknown:
            row["idle_unexplained"] = unknown * MICRO
    return row


def device_names(trace: Trace) -> dict[Any, str]:
    names: dict[Any, str] = {}
    for row in listed(trace.events.header.get("deviceProperties")):
        if isinstance(row, dict) and isinstance(row.get("id"), int | str):
            names.setdefault(row["id"], str(row.get("name", "")))
    return names
