"""Idle time of the devices in a trace: the gaps between what ran, and whether the device waited for the host.

A gap is the host's when the launch that ends it returned only after the device had run dry; a kernel that was queued before
that waited for something else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..chrome_trace import MICRO, SLACK, Span
from .events import COLLECTIVE, KERNEL, Record, listed
from .links import Trace


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


def host_waits(trace: Trace, paths: Mapping[int, tuple[str, ...]]) -> dict[int, float]:
    """Microseconds each kernel let its device wait for the host, where the one before it ran under the same path.

    What the host did between one range or module and the next is neither one's: setting up may be part of it.
    """
    return {
        id(gap.record): gap.time if gap.host else 0.0
        for records in trace.by_device().values()
        for gap in _gaps(records, trace.links.launches)
        if gap.host is not None and paths[id(gap.before)] == paths[id(gap.record)]
    }


def idle_times(trace: Trace) -> dict[str, Any]:
    """When each device had nothing to do between its first and its last kernel, and how much of it waited for the host."""
    rows = [
        {"device": device, "name": device_name(trace, device), **_device_row(records, trace.links.launches)}
        for device, records in trace.by_device().items()
    ]
    notes = ["recording slows the host, so the host's share is an upper bound"] if rows else []
    return {"devices": rows, "notes": notes or ["the trace has no kernels: nothing ran on a device"]}


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
        row["launches_per_second"] = launched / (span * MICRO)
        row["idle_for_host"] = waited * MICRO
        row["host_bound"] = waited / span
        if unknown:
            row["idle_unexplained"] = unknown * MICRO
    return row


def device_name(trace: Trace, device: Any) -> str:
    for row in listed(trace.events.header.get("deviceProperties")):
        if isinstance(row, dict) and row.get("id") == device:
            return str(row.get("name", ""))
    return ""
