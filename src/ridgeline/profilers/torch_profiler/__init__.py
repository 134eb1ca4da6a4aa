"""torch.profiler traces: kernels joined to the ops, shapes, modules and ranges that launched them; idle gaps of the device.

`chrome_trace` reads the file, `events` sorts its events, `links` joins devices and host, `results` sums up and `timeline`
keeps the order of events. An observation says how its kernels were launched, one by one or in a graph, and how long the
device waited for the host between them. Without kernels the ops' self time counts: an op's time less that of the ops it called, so that every
microsecond is counted once.

Bytes are never read from the allocator: its `[memory]` events say what was reserved, not what moved.
"""

from __future__ import annotations

from pathlib import Path

from ...core.errors import InputError
from ...core.observation import Observation
from ...core.timeline import Timeline
from ..chrome_trace import EVENTS, UNREADABLE, items
from .events import Events
from .indices import add_indices
from .links import Trace
from .results import HEADER, idle_times, observations
from .sparse import add_sparse
from .timeline import timeline as trace_timeline

__all__ = ["HOW", "EmptyTrace", "idle_times", "load", "observations", "read", "recognises", "timeline"]

HOW = "torch.profiler: profiler.export_chrome_trace('trace.json.gz'), with record_shapes and with_stack for shapes and modules"


def load(path: Path, version: str = "") -> Trace:
    events = Events(Path(path), version)
    try:
        for key, value in items(events.path):
            if key == EVENTS:
                events.take(value)
            elif key == UNREADABLE:
                events.notes.append(value)
            elif key in HEADER:
                events.header[key] = value
    except RecursionError as error:
        raise InputError(f"'{path}' nests values too deeply for a trace; export it again") from error
    events.door.close()
    add_indices(events)
    add_sparse(events)
    return Trace(events)


def recognises(head: str, path: Path) -> bool:
    """A trace that torch.profiler exported: by its header, or by its events where another tool wrote it anew."""
    signs = ('"schemaVersion"', '"deviceProperties"', '"cpu_op"', '"cuda_runtime"', "PyTorch Profiler")
    return f'"{EVENTS}"' in head and any(sign in head for sign in signs)


def read(path: Path) -> list[Observation]:
    result = observations(load(path))
    if not result:
        raise _nothing(path)
    return result


def timeline(path: Path) -> Timeline:
    result = trace_timeline(load(path))
    if not len(result.runs):
        raise _nothing(path)
    return result


class EmptyTrace(InputError):
    """A trace in which nothing ran."""


def _nothing(path: Path) -> EmptyTrace:
    return EmptyTrace(
        f"'{path}' holds no kernels and no ops; record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] "
        "and run something inside the profiler"
    )
