"""A torch.profiler trace as a Timeline: every kernel with the call, phase, modules and line that launched it.

Kernels are joined by External id and correlation, never by name. Without kernels the operators' own stretches of time on
the host are the runs: their time outside the operators they called.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...core.intake import Door, clean, refuse_over
from ...core.observation import plain_table
from ...core.timeline import OPERATOR, Activity, Call, Columns, Runs, Site, Timeline, Waits
from ..chrome_trace import MICRO, MODULE, RANGE, Span, stretches
from . import events as recorded
from .compiled import fused_operators
from .events import Record
from .gradients import gradients
from .links import Context, Trace
from .phases import GradientWork, calls_outside_engine, phase
from .results import TOOL, device_names, recording_conditions
from .steps import find_steps

GRAPH_LAUNCH = "cudaGraphLaunch"
DATA_LOADER = "data loader"


class Row(NamedTuple):
    """One run while it is gathered; times in microseconds of the trace."""

    start: float
    end: float
    site: int
    activity: int
    call: int
    stream: int
    correlated: bool
    graph: bool
    launch: Span | None


@dataclass
class _Gathered:
    """Sites, activities and calls, each once, numbered in the order they appear."""

    door: Door
    gradient_work: GradientWork
    sites: list[Site] = field(default_factory=list)
    activities: list[Activity] = field(default_factory=list)
    calls: list[tuple[Span, int]] = field(default_factory=list)  # when, and the site
    numbers: dict[Any, int] = field(default_factory=dict)
    phases: dict[Any, str] = field(default_factory=dict)

    def site(self, context: Context, activity: recorded.Activity | None, graph: bool = False) -> int:
        if context.ops is None and context.path is None and not context.source:
            return -1
        of_phase = self._phase(context, activity)
        name = "" if context.ops is not None or activity is None else GRAPH_LAUNCH if graph else activity.name
        key = "site", context.ops, context.path, context.source, of_phase, name
        if key not in self.numbers:
            self.numbers[key] = len(self.sites)
            self.sites.append(_site(context, of_phase, name))
        return self.numbers[key]

    def _phase(self, context: Context, activity: recorded.Activity | None) -> str:
        after = context.call is not None and self.gradient_work.holds(context.call.start)
        key = context.ops, context.path, context.forward is None, after, id(activity)
        if key not in self.phases:
            self.phases[key] = phase(context, activity, after)
        return self.phases[key]

    def activity(self, item: recorded.Activity) -> int:
        key = "activity", id(item)
        if key not in self.numbers:
            self.numbers[key] = len(self.activities)
            settings = plain_table(self.door, dict(item.settings), "settings of a kernel")
            names = clean(item.name), clean(item.kernel), clean(str(item.device))
            self.activities.append(Activity(item.kind, *names, settings))
        return self.numbers[key]

    def operator(self, name: str) -> int:
        key = "operator", name
        if key not in self.numbers:
            self.numbers[key] = len(self.activities)
            self.activities.append(Activity(OPERATOR, name, device="cpu"))
        return self.numbers[key]

    def call(self, span: Span | None, site: int, replay: Span | None = None) -> int:
        """The call of an op; of a captured op each replay of the graph is another one."""
        if span is None or site < 0:
            return -1
        key = "call", id(span), site, id(replay)
        if key not in self.numbers:
            self.numbers[key] = len(self.calls)
            self.calls.append((replay or span, site))
        return self.numbers[key]


def _site(context: Context, of_phase: str, name: str) -> Site:
    calls = tuple(op.call for op in context.ops or ())
    call = calls[-1] if calls else Call(clean(name))
    path = context.path
    return Site(
        call,
        of_phase,
        modules=tuple(map(clean, path.named(MODULE))) if path is not None else (),
        source=context.source,
        outer=calls[:-1],
        fused=fused_operators(call.name),
        ranges=tuple(map(clean, path.named(RANGE))) if path is not None else (),
    )


def timeline(trace: Trace) -> Timeline:
    """The Timeline of a trace; sites and steps are those of one process."""
    events, gathered = trace.events, _Gathered(Door(f"'{trace.events.path}'"), GradientWork(trace.links))
    rows = list(_device_rows(trace, gathered) if events.records else _host_rows(trace, gathered))
    refuse_over("kernels", len(gathered.sites), f"'{events.path}', {len(gathered.sites):,} different calls,")
    rows.sort(key=lambda row: row.start)
    waits = list(_waits(trace, gathered))
    zero = events.first - (events.base or 0.0) if math.isfinite(events.first) else 0.0
    steps, step_of = find_steps(trace, rows, gathered.sites, gathered.activities, zero)
    order = sorted(range(len(gathered.calls)), key=lambda place: gathered.calls[place][0].start)
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1  # call -1 stays -1
    calls = [gathered.calls[place] for place in order]

    def seconds(values: list[float]) -> np.ndarray:
        return (np.asarray(values, np.float64) - zero) * MICRO

    conditions = _conditions(trace, gathered.door)
    gathered.door.close()
    return Timeline(
        sites=tuple(gathered.sites),
        activities=tuple(gathered.activities),
        runs=Runs(
            start=seconds([row.start for row in rows]),
            end=seconds([row.end for row in rows]),
            site=_integers([row.site for row in rows]),
            activity=_integers([row.activity for row in rows]),
            call=rank[_integers([row.call for row in rows])],
            step=step_of,
            stream=_integers([row.stream for row in rows]),
            correlated=np.array([row.correlated for row in rows], bool),
            graph=np.array([row.graph for row in rows], bool),
            launched=seconds([row.launch.end if row.launch else math.nan for row in rows]),
        ),
        calls=Columns(
            seconds([span.start for span, _ in calls]),
            seconds([span.end for span, _ in calls]),
            _integers([site for _, site in calls]),
        ),
        waits=Waits(
            start=seconds([span.start for span, *_ in waits]),
            end=seconds([span.end for span, *_ in waits]),
            site=_integers([site for _, site, *_ in waits]),
            what=tuple(what for *_, what, _ in waits),
            through=tuple(through for *_, through in waits),
        ),
        steps=steps,
        shapes=any(site.call.tensors or any(call.tensors for call in site.outer) for site in gathered.sites),
        conditions=conditions,
        tool=TOOL,
        notes=(*events.notes, *_notes(steps.how, bool(events.records))),
        gradients=gradients(events, len(steps) + steps.warmup),
        host_events=events.on_host,
    )


def _integers(values: list[int]) -> np.ndarray:
    return np.asarray(values, np.int64)


def _device_rows(trace: Trace, gathered: _Gathered) -> Iterator[Row]:
    launches, replayed = trace.links.launches, trace.replayed
    for record, around in trace.on_device():
        launch, graph = launches.get(record.correlation), trace.launch_mode(record) == "graph"
        context = replayed.get(id(record), around)
        site = gathered.site(context, record.activity, graph)
        call = gathered.call(context.call, site, launch if graph else None)
        activity, correlated = gathered.activity(record.activity), around.ops is not None
        yield Row(record.start, record.end, site, activity, call, _stream(record), correlated, graph, launch)


def _stream(record: Record) -> int:
    stream = record.activity.settings.get("stream")
    return stream if type(stream) is int and abs(stream) < 2**62 else -1


def _host_rows(trace: Trace, gathered: _Gathered) -> Iterator[Row]:
    for span, context, called in trace.on_host():
        site = gathered.site(context, None)
        activity, call = gathered.operator(span.what.name), gathered.call(span, site)
        for start, end in stretches(span, called):
            yield Row(start, end, site, activity, call, -1, True, False, None)


def _waits(trace: Trace, gathered: _Gathered) -> Iterator[tuple[Span, int, str, str]]:
    for span, context in sorted(trace.links.waits, key=lambda wait: wait[0].start):
        name = clean(span.what)
        operators = calls_outside_engine(context.ops)
        if span.kind == RANGE:
            what = DATA_LOADER
        else:
            what = next(
                (operator for operator in operators if operator.startswith("aten::")),
                operators[0] if operators else name,
            )
        yield span, gathered.site(context, None), what, name


def _conditions(trace: Trace, door: Door) -> dict[str, Any]:
    activity = trace.events.records[0].activity if trace.events.records else None
    conditions: dict[str, Any] = plain_table(door, recording_conditions(trace, activity, device_names(trace)), "header")
    return conditions


def _notes(how: str, device: bool) -> tuple[str, ...]:
    recording = "recording slows the host: idle time of the device is an upper bound" if device else ""
    single = "no repeated step was recognised: the entire run counts as a single step" if how == "single" else ""
    return tuple(note for note in (recording, single) if note)
