"""JAX profiler traces: XLA's ops and kernels from the plain trace file next to the `.xplane.pb`.

`jax.profiler.trace(FOLDER)` writes FOLDER/plugins/profile/RUN/HOST.trace.json.gz. A device's time is in it several
times over: by stream (kernels), by XLA op, by module, by step, by name scope. Read are the streams where there are any
(GPU), else the line of XLA ops (TPU); on a CPU the ops stand among the host's events and are known by their HLO name.

Flops and bytes in such a trace are the compiler's estimates, not counts of what happened.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...core.errors import InputError
from ...core.intake import Door, refuse_over
from ...core.observation import Observation
from ...core.timeline import Timeline
from ...core.units import counted
from ..chrome_trace import EVENTS, MICRO, OP, RANGE, SLACK, UNREADABLE, Span, items, nested, stretches, times, usable
from .timeline import Event, Recorded
from .timeline import timeline as trace_timeline
from .versions import LAUNCH, run_number

TOOL = "jax.profiler"
HOW = "JAX: jax.profiler.trace(FOLDER) around the block, then FOLDER/plugins/profile/*/*.trace.json.gz"
DEVICE, HOST = "/device:", "/host:"
STREAM, XLA_OPS = "Stream", "XLA Ops"
MAX_EVENTS = 1_000_000  # events after which the profiler leaves out the rest
ESTIMATES = ("flops", "model_flops", "bytes_accessed")  # numbers the compiler wrote down when it made the program
TIME = "start to end of the op or kernel, less the ops inside it"
ESTIMATE = "the compiler's estimate for the op, not counted while it ran"
WANTED = (*ESTIMATES, "hlo_op", "hlo_module", "hlo_category", "tf_op", "kernel_details", "memcpy_details",
          "Memset_details", "cuda_graph_id")  # fmt: skip
MAX_DIGITS = 18  # of a size of a launch
TRACE = "trace.json.gz"
WAIT = re.compile(r"\w*Buffer::Await|(?:\w+::)?BlockHostUntil\w+")


@dataclass
class _Lane:
    """One line of the timeline."""

    device: str = ""
    name: str = ""
    spans: list[Span] = field(default_factory=list)

    @property
    def streams(self) -> bool:
        return self.name.startswith(STREAM)


@dataclass
class _Trace:
    path: Path
    processes: dict[str, str] = field(default_factory=dict)
    threads: dict[tuple[str, str], str] = field(default_factory=dict)
    spans: dict[tuple[str, str], list[Span]] = field(default_factory=dict)
    known: dict[str, tuple[str, dict[str, Any]]] = field(default_factory=dict)  # one copy of what comes again and again
    launches: dict[int, tuple[float, float]] = field(default_factory=dict)  # of the host, by correlation
    marks: list[Span] = field(default_factory=list)  # StepTraceAnnotation
    waits: list[Span] = field(default_factory=list)
    events: int = 0
    taken: int = 0
    notes: list[str] = field(default_factory=list)  # what of the file was left out

    def __post_init__(self) -> None:
        self.door = Door(f"'{self.path}'")

    def take(self, event: Any) -> None:
        self.taken += 1
        args = usable(event, self.door, self.taken)
        if not isinstance(event, dict) or not event:  # the writer ends with an empty event
            return
        pid, tid = str(event.get("pid")), str(event.get("tid"))
        if event.get("ph") == "M":
            if event.get("name") == "process_name":
                self.processes[pid] = str(args.get("name", ""))
            elif event.get("name") == "thread_name":
                self.threads[pid, tid] = str(args.get("name", ""))
        elif event.get("ph") == "X":
            self.events += 1
            stretch = times(event, self.door, self.taken, _number(event.get("ts")), _number(event.get("dur")))
            if stretch is None:
                return
            name = str(event.get("name", ""))
            if "hlo_op" not in args and HOST in self.processes.get(pid, ""):
                self._host(stretch, name, args)
                return
            kept = {key: args[key] for key in WANTED if key in args}
            what = self.known.setdefault(f"{name} {kept}", (name, kept))
            self.spans.setdefault((pid, tid), []).append(Span(*stretch, OP, what, run_number(args)))

    def _host(self, stretch: tuple[float, float], name: str, args: Mapping[str, Any]) -> None:
        if LAUNCH in args:
            self.launches[run_number(args)] = stretch
        elif "step_num" in args:
            self.marks.append(Span(*stretch, RANGE, name))
        elif WAIT.fullmatch(name):
            self.waits.append(Span(*stretch, RANGE, name))

    def lanes(self) -> list[_Lane]:
        """The lines that hold each device's time once."""
        lanes: list[_Lane] = []
        by_process: dict[str, list[_Lane]] = defaultdict(list)
        for key, spans in self.spans.items():
            process = self.processes.get(key[0], "")
            if DEVICE in process:
                by_process[key[0]].append(_Lane(process[process.index(DEVICE) :], self.threads.get(key, ""), spans))
        for pid in self.processes:
            of_process = by_process.get(pid, [])
            streams = [lane for lane in of_process if lane.streams]
            lanes += streams or [lane for lane in of_process if lane.name == XLA_OPS]
        if not lanes:
            for spans in self.spans.values():
                ops = [span for span in spans if "hlo_op" in span.what[1]]
                lanes += [_Lane("cpu", "", ops)] if ops else []
        return lanes


def _self_times(lane: _Lane, path: Path) -> Iterator[tuple[Span, float]]:
    """Each op with its time less that of the ops inside it: a loop holds its body, but kernels hold no kernels."""
    for span, inner in _held(lane, path):
        yield span, span.end - span.start - math.fsum(item.end - item.start for item in inner)


def _held(lane: _Lane, path: Path) -> list[tuple[Span, list[Span]]]:
    """Each op with the ops inside it, in order."""
    inside: dict[int, list[Span]] = defaultdict(list)
    order: list[Span] = []
    for span, around in nested(lane.spans, path):
        if around and not lane.streams and span.end <= around[-1].end + SLACK:
            inside[id(around[-1])].append(span)
        order.append(span)
    return [(span, inside[id(span)]) for span in order]


def _described(lane: _Lane, name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """Everything about an event but its time, as an Observation names it."""
    scope = str(args.get("tf_op", "")).rsplit(":", 1)[0].split("/") if args.get("tf_op") else []
    module = str(args.get("hlo_module", ""))
    hlo = str(args.get("hlo_op", ""))
    settings: dict[str, Any] = {"kind": "kernel" if lane.streams else "op"}
    pairs = (word.partition(":") for word in str(args.get("kernel_details", "")).split())
    detail = {key: value for key, _, value in pairs if value}
    for ours, theirs in (("registers", "regs"), ("grid", "grid"), ("block", "block")):
        if theirs in detail:
            parts = (part for part in detail[theirs].split(",") if part.isdecimal() and len(part) <= MAX_DIGITS)
            numbers = tuple(map(int, parts))
            settings[ours] = numbers if ours != "registers" else (numbers[0] if numbers else 0)
    shared = [_number(detail.get(key)) for key in ("static_shared", "dynamic_shared")]
    if all(math.isfinite(part) for part in shared):
        settings["shared_memory"] = int(sum(shared))
    if _number(detail.get("occ_pct")) > 0:
        settings["occupancy_estimate"] = _number(detail["occ_pct"]) / 100
    category = str(args.get("hlo_category", ""))
    texts = {"hlo_op": hlo, "hlo_module": module, "category": category, "op": scope[-1] if scope else None}
    settings |= {key: text for key, text in texts.items() if text}
    settings |= {key: value for key in ESTIMATES if math.isfinite(value := _number(args.get(key)))}
    if lane.name:
        settings["stream"] = lane.name
    if str(args.get("memcpy_details", "")) or name.lower().startswith("memcpy"):
        settings["kind"] = "memcpy"
        settings["details"] = str(args.get("memcpy_details", ""))
    return {
        "name": hlo or name or OP,
        "target": hlo or name or OP,
        "kernel": name if lane.streams else "",
        "path": tuple(scope[:-1]) or ((module,) if module else ()),
        "settings": settings,
        "conditions": {"device": lane.device, "cache": "as the program left it"},
    }


def _number(value: Any) -> float:
    """Arguments come as text."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def recognises(head: str, path: Path) -> bool:
    """The trace JAX writes for a browser, or its binary twin, which `read` answers with the name of the right file."""
    return path.name.endswith(".xplane.pb") or (
        f'"{EVENTS}"' in head and '"highres-ticks"' in head and ("/host:CPU" in head or DEVICE in head)
    )


def read(path: Path) -> list[Observation]:
    return _observations(_loaded(Path(path)))


def timeline(path: Path) -> Timeline:
    """The timeline of a trace; of the binary profile, that of the plain trace next to it."""
    path = Path(path)
    if path.name.endswith(".xplane.pb"):
        path = _plain(path)
        if not path.exists():
            raise InputError(f"'{path}' is missing: JAX writes it next to the binary profile, and ridgeline reads both")
    trace = _loaded(path)
    events = [
        Event(span, list(stretches(span, inner)), lane.device, lane.name, lane.streams)
        for lane in _lanes(trace)
        for span, inner in _held(lane, trace.path)
    ]
    marks = sorted(trace.marks, key=lambda span: span.start)
    return trace_timeline(Recorded(path, events, trace.launches, marks, trace.waits, _cut(trace), TOOL))


def _plain(path: Path) -> Path:
    return path.with_name(path.name.removesuffix("xplane.pb") + TRACE)


def _loaded(path: Path) -> _Trace:
    if path.name.endswith(".xplane.pb"):
        plain = _plain(path)
        where = f"'{plain}', which is next to it" if plain.exists() else f"the .{TRACE} that JAX writes next to it"
        raise InputError(f"'{path}' is JAX's binary profile; ridgeline reads {where}")
    trace = _Trace(path)
    try:
        for key, value in items(path):
            if key == EVENTS:
                trace.take(value)
            elif key == UNREADABLE:
                trace.notes.append(value)
    except RecursionError as error:
        raise InputError(f"'{path}' nests values too deeply for a trace; record it again") from error
    trace.door.close()
    return trace


def _lanes(trace: _Trace) -> list[_Lane]:
    lanes = trace.lanes()
    if not lanes:
        raise InputError(
            f"'{trace.path}' holds no XLA ops and no kernels, only {trace.events} events of the host; call the jitted "
            "function and block_until_ready() inside jax.profiler.trace"
        )
    return lanes


def _cut(trace: _Trace) -> tuple[str, ...]:
    cut = (f"the trace holds {trace.events} events and may be truncated: JAX stops at {MAX_EVENTS}",)
    return (*trace.notes, *(cut if trace.events >= MAX_EVENTS else ()))


def _observations(trace: _Trace) -> list[Observation]:
    lanes = _lanes(trace)
    taken = [(span, time, lane) for lane in lanes for span, time in _self_times(lane, trace.path)]
    described: dict[tuple[int, int], _Group] = {}  # by lane and what ran: both are one object for all of an op's runs
    groups: dict[str, _Group] = {}
    for span, time, lane in sorted(taken, key=lambda item: item[0].start):
        key = id(lane), id(span.what)
        if key not in described:
            fields = _described(lane, *span.what)
            described[key] = groups.setdefault(repr(fields), _Group(fields))
        described[key].take(time)
    refuse_over("kernels", len(groups), f"'{trace.path}', {len(groups):,} different kernels or ops,")
    notes = _cut(trace)
    timeless = sum(not group.samples for group in groups.values())
    omitted = (f"{counted(timeless, 'more op')} of the trace without measurable time, omitted",) if timeless else ()
    timed = [group for group in groups.values() if group.samples]
    return [group.observation(notes if place else (*notes, *omitted)) for place, group in enumerate(timed)]


@dataclass
class _Group:
    """The runs of one op or kernel on one line."""

    fields: dict[str, Any]
    samples: list[float] = field(default_factory=list)
    timeless: int = 0

    def take(self, time: float) -> None:
        if time > SLACK * 1e-3:  # the writer gives what took no time a picosecond
            self.samples.append(time * MICRO)
        else:
            self.timeless += 1

    def observation(self, notes: tuple[str, ...]) -> Observation:
        settings = {**self.fields["settings"], "count": len(self.samples)}
        estimated = {f"settings.{key}": ESTIMATE for key in ESTIMATES if key in settings}
        if self.timeless:
            notes = (f"{self.timeless} more launches have no measurable time", *notes)
        parts = {"settings": settings, "tool": TOOL, "notes": notes, "defined": {"time": TIME, **estimated}}
        return Observation(**{**self.fields, "samples": tuple(self.samples), **parts})
