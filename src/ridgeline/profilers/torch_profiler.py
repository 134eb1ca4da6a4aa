"""torch.profiler traces: kernels joined to the ops, shapes, modules and ranges that launched them; idle gaps of the device.

    kernel -- External id --> op                                     where the trace has it
    kernel -- correlation --> launch call -- thread and time --> op  elsewhere; one graph launch starts many kernels
    op -- thread and time --> ops, modules and ranges around it; a backward op takes those of its forward op

Kernels that agree in everything but time are samples of one observation. It says how they were sent, one by one or in a
graph, and how long the device waited for the host between them. Without kernels the ops' own time counts: an
op's time less that of the ops it called, so that every microsecond is counted once.

Bytes are never read from the allocator: its `[memory]` events say what was reserved, not what moved.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from ..core.errors import InputError
from ..core.observation import Observation
from ..core.tabular import opened

TOOL = "torch.profiler"
HOW = "torch.profiler: profiler.export_chrome_trace('trace.json.gz'), with record_shapes and with_stack for shapes and modules"
EVENTS = "traceEvents"
MICRO = 1e-6  # a trace counts in microseconds

# -- the file, one event at a time --------------------------------------------------------------------------

PIECE = 1 << 22  # characters read at a time; a trace may be larger than memory
LONGEST = 1 << 26  # characters of one event beyond which the text is taken to be broken
NEAR = 8  # characters from the end within which an error means that the text stops there
_SIGN = re.compile(r"[^\s,:]")
_ENDS = tuple(" \t\r\n,]}")
_DECODER = json.JSONDecoder()


class _Json:
    """JSON values of a text in turn, holding a piece of it at a time."""

    def __init__(self, path: Path, text: TextIO) -> None:
        self.path, self.text = path, text
        self.piece, self.at, self.read = "", 0, 0

    def more(self) -> bool:
        """Read on behind what is left; False at the end."""
        try:
            piece = self.text.read(PIECE)
        except EOFError:  # a compressed file that was cut off
            piece = ""
        self.piece, self.at = self.piece[self.at :] + piece, 0
        return bool(piece)

    def sign(self) -> str:
        """The next character that means something."""
        while True:
            found = _SIGN.search(self.piece, self.at)
            if found:
                self.at = found.start()
                return found[0]
            self.at = len(self.piece)
            if not self.more():
                raise self.cut()

    def value(self) -> Any:
        self.sign()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.piece, self.at)
            except (ValueError, RecursionError) as error:
                if len(self.piece) - self.at > LONGEST or not self.more():
                    raise self.broken(error) from error
                continue
            if not isinstance(value, dict | list | str) and self.piece[end : end + 1] not in _ENDS and self.more():
                continue  # a number that may go on in the next piece
            self.at = end
            self.read += 1
            return value

    def cut(self) -> InputError:
        return InputError(
            f"'{self.path}' is cut off after {self.read} entries: the run that wrote it was stopped, or it was copied in part. "
            "Nothing of it was used; record or copy it again"
        )

    def broken(self, error: Exception) -> InputError:
        if isinstance(error, json.JSONDecodeError) and (
            error.msg.startswith("Unterminated") or error.pos + NEAR >= len(self.piece)
        ):
            return self.cut()
        return InputError(f"'{self.path}' is not JSON after entry {self.read}: {error}; export the trace again")


def items(path: Path) -> Iterator[tuple[str, Any]]:
    """Keys and values of a Chrome trace in the order of the file, each event under `traceEvents`."""
    with opened(path) as text:
        source = _Json(path, text)
        start = source.sign()
        if start not in "{[":
            raise InputError(f"'{path}' is not a trace: it begins with '{start}', a trace is a JSON object of events")
        source.at += 1
        if start == "[":
            yield from _events(source)
            return
        while source.sign() != "}":
            key = str(source.value())
            if key == EVENTS and source.sign() == "[":
                source.at += 1
                yield from _events(source)
            else:
                yield key, source.value()


def _events(source: _Json) -> Iterator[tuple[str, Any]]:
    while (sign := source.sign()) != "]":
        try:  # nearly every event is an object that lies whole in the piece
            if sign != "{":
                raise ValueError(sign)
            value, source.at = _DECODER.raw_decode(source.piece, source.at)
            source.read += 1
        except (ValueError, RecursionError):
            value = source.value()
        yield EVENTS, value
    source.at += 1


# -- what the events say ------------------------------------------------------------------------------------

OP, RANGE, MODULE, LAUNCH = "op", "range", "module", "launch"
KERNEL, COPY, FILL, COLLECTIVE = "kernel", "memcpy", "memset", "collective"
ON_DEVICE = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": FILL}
MODULE_NAME = "nn.Module: "
STEP = "ProfilerStep#"  # the profiler's own range, a new name each step
BACKWARD = "autograd::engine::evaluate_function"
SLACK = 1e-3  # microseconds by which the rounding of a start and a length may let neighbours overlap

DTYPES = {
    "float": "fp32", "double": "fp64", "c10::Half": "fp16", "c10::BFloat16": "bf16", "c10::Float8_e4m3fn": "fp8_e4m3",
    "c10::Float8_e5m2": "fp8_e5m2", "signed char": "int8", "unsigned char": "uint8", "short int": "int16",
    "int": "int32", "long int": "int64", "long": "int64", "bool": "bool",
    # as collectives write them
    "Float": "fp32", "Double": "fp64", "Half": "fp16", "BFloat16": "bf16", "Float8_e4m3fn": "fp8_e4m3",
    "Float8_e5m2": "fp8_e5m2", "Char": "int8", "Byte": "uint8", "Short": "int16", "Int": "int32", "Long": "int64",
    "Bool": "bool",
}  # fmt: skip
LISTED = "TensorList"  # its tensors' shapes are in the trace, their dtypes are not
UNKNOWN = "unknown"
# Ops whose work is not in the shapes of their tensors alone: stride, padding, causal come as scalars.
BY_SCALARS = re.compile(r"conv|attention|attn|pool")

# The first of these in a collective's name says what it is, in the words of ridgeline's ops.
COLLECTIVES = {
    "reducescatter": "reduce_scatter", "allreduce": "all_reduce", "allgather": "all_gather", "alltoall": "all_to_all",
    "sendrecv": "p2p", "broadcast": "broadcast", "send": "p2p", "recv": "p2p", "reduce": "reduce",
}  # fmt: skip

# Settings of a launch, by the profiler's name for them.
LAUNCH_SETTINGS = {
    "grid": "grid",
    "block": "block",
    "registers": "registers per thread",
    "shared_memory": "shared memory",
    "blocks_per_sm": "blocks per SM",
    "warps_per_sm": "warps per SM",
    "bytes": "bytes",
    "graph": "graph id",
    "ranks": "Group size",
    "elements_in": "In msg nelems",
    "elements_out": "Out msg nelems",
}
OCCUPANCY = "est. achieved occupancy %"
DESCRIBING = (*LAUNCH_SETTINGS.values(), OCCUPANCY, "dtype", "stream", "device", "Collective name")
VERSIONS = (
    "cuda_runtime_version",
    "cuda_driver_version",
    "cupti_version",
    "hip_runtime_version",
    "hip_driver_version",
)

# Ops that move no data themselves (what copies in `to` and `reshape` is an op they call). Inside another op they are
# part of it: making room for a result belongs to computing it.
BOOKKEEPING = {
    "aten::alias", "aten::as_strided", "aten::chunk", "aten::contiguous", "aten::detach", "aten::detach_",
    "aten::empty", "aten::empty_like", "aten::empty_strided", "aten::expand", "aten::expand_as", "aten::flatten",
    "aten::lift_fresh", "aten::narrow", "aten::permute", "aten::reshape", "aten::resize_", "aten::resolve_conj",
    "aten::resolve_neg", "aten::result_type", "aten::select", "aten::set_", "aten::slice", "aten::split",
    "aten::squeeze", "aten::squeeze_", "aten::t", "aten::to", "aten::transpose", "aten::unbind", "aten::unflatten",
    "aten::unsafe_split", "aten::unsqueeze", "aten::unsqueeze_", "aten::view", "aten::view_as",
    "aten::_reshape_alias", "aten::_unsafe_view", "detach", "detach_",
}  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One op with one set of inputs; there is one object for all its calls, so equal is identical."""

    name: str
    shapes: tuple[Any, ...] = ()
    dtypes: tuple[str, ...] = ()
    scalars: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Launched:
    """What ran on a device, all but its time; one object for all instances."""

    kind: str
    name: str
    kernel: str
    device: Any
    settings: Mapping[str, Any]


class Span(NamedTuple):
    """A stretch of time of a thread. `ident` is the External id of an op or range, the correlation of a launch."""

    start: float
    end: float
    kind: str
    what: Any
    ident: int = 0


class Ran(NamedTuple):
    """One instance of something on a device."""

    start: float
    end: float
    what: Launched
    lane: str
    correlation: int
    external: int


class Context(NamedTuple):
    """What stood around a launch or an op, outermost first."""

    ops: tuple[Op, ...] = ()
    path: tuple[str, ...] = ()
    call: float = 0.0  # when the innermost op began: kernels of one call share it
    forward: tuple[str, float] | None = None  # thread and start of the op this one is the derivative of


class Joined(NamedTuple):
    """How the device's side of a trace hangs together with the host's."""

    by_op: dict[int, Context]  # by External id
    by_launch: dict[int, Context]  # by correlation
    launches: dict[int, Span]  # by correlation
    paths: dict[tuple[str, float], tuple[str, ...]]  # of the ops that have a derivative


@dataclass
class Trace:
    """A trace read once; observations and gaps are made from it."""

    path: Path
    version: str = ""
    header: dict[str, Any] = field(default_factory=dict)
    lanes: dict[str, list[Span]] = field(default_factory=dict)  # by process and thread
    ran: list[Ran] = field(default_factory=list)
    device_lanes: dict[str, list[Span]] = field(default_factory=dict)  # ranges as the device saw them
    forward: dict[int, tuple[str, float]] = field(default_factory=dict)  # by the id of the arrow between the two
    backward: dict[tuple[str, float], int] = field(default_factory=dict)
    launchers: set[str] = field(default_factory=set)  # processes that launched something
    first: float = math.inf
    known: dict[Any, Any] = field(default_factory=dict)

    # -- reading ------------------------------------------------------------------------------------------

    def take(self, event: Any) -> None:
        if not isinstance(event, dict):
            return
        phase, category = event.get("ph"), event.get("cat")
        if phase != "X" or not isinstance(category, str):
            if category == "fwdbwd":
                self._arrow(event)
            return
        name = str(event.get("name", ""))
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        if category == "cpu_op":
            self._span(event, OP, self._op(name, args), _int(args.get("External id")))
        elif category == "user_annotation":
            if not name.startswith(STEP):
                self._span(event, RANGE, self._one(name), _int(args.get("External id")))
        elif category == "python_function":
            if name.startswith(MODULE_NAME):
                self._span(event, MODULE, self._one(name.removeprefix(MODULE_NAME)))
        elif category in ON_DEVICE:
            start, end = self._times(event)
            described = f"{category} {name} {event.get('pid')} {[args.get(one) for one in DESCRIBING]}"
            what = self.known.get(described)
            if what is None:
                what = self.known[described] = _launched(ON_DEVICE[category], name, args, event.get("pid"))
            correlation, external = _int(args.get("correlation")), _int(args.get("External id"))
            self.ran.append(Ran(start, end, what, self._one(_lane(event)), correlation, external))
        elif category == "gpu_user_annotation":
            if not name.startswith(STEP):
                start, end = self._times(event)
                self.device_lanes.setdefault(_lane(event), []).append(Span(start, end, RANGE, self._one(name)))
        elif category.endswith(("_runtime", "_driver")) and "correlation" in args:
            self.launchers.add(str(event.get("pid")))
            self._span(event, LAUNCH, self._one(name), _int(args["correlation"]))

    def _arrow(self, event: Mapping[str, Any]) -> None:
        """One end of the arrow from an op to its derivative."""
        end = _lane(event), _number(event.get("ts"))
        if event.get("ph") == "s":
            self.forward[_int(event.get("id"))] = end
        else:
            self.backward[end] = _int(event.get("id"))

    def _times(self, event: Mapping[str, Any]) -> tuple[float, float]:
        start, length = event.get("ts"), event.get("dur")
        if type(start) is not float or type(length) is not float:
            start, length = _number(start), _number(length)
        if not (-math.inf < start < math.inf and 0 <= length < math.inf):
            raise InputError(
                f"'{self.path}' has an event '{event.get('name')}' without a usable time "
                f"(ts {event.get('ts')!r}, dur {event.get('dur')!r}); export the trace again"
            )
        if start < self.first:
            self.first = start
        return start, start + length

    def _span(self, event: Mapping[str, Any], kind: str, what: Any, ident: int = 0) -> None:
        start, end = self._times(event)
        self.lanes.setdefault(_lane(event), []).append(Span(start, end, kind, what, ident))

    def _one(self, text: str) -> str:
        """The one copy of a name that comes again and again."""
        found: str = self.known.setdefault(text, text)
        return found

    def _op(self, name: str, args: Mapping[str, Any]) -> Op:
        dims, types = args.get("Input Dims"), args.get("Input type")
        given = args.get("Concrete Inputs") if BY_SCALARS.search(name) else None
        key = f"{name} {dims} {types} {given}"  # the quickest thing that is equal where the inputs are
        found: Op | None = self.known.get(key)
        if found is None:
            scalars = tuple((place, str(text)) for place, text in enumerate(_listed(given)) if text not in ("", []))
            found = self.known[key] = Op(name, *_tensors(_listed(_frozen(dims)), _listed(_frozen(types))), scalars)
        return found

    # -- joining ------------------------------------------------------------------------------------------

    @cached_property
    def joined(self) -> Joined:
        if len(self.launchers) > 1:
            raise InputError(
                f"'{self.path}' holds the launches of {len(self.launchers)} processes, whose numbering overlaps; "
                "give the trace of one process (one rank) at a time"
            )
        externals = {ran.external for ran in self.ran if ran.external}
        correlations = {ran.correlation for ran in self.ran if ran.correlation}
        differentiated = set(self.forward.values())
        found = Joined({}, {}, {}, {})
        for lane, spans in self.lanes.items():
            for span, around in nested(spans):
                if span.kind == LAUNCH:
                    if span.ident in correlations:
                        found.launches[span.ident] = span
                        found.by_launch[span.ident] = self._context(lane, around)
                elif span.kind == OP:
                    if span.ident in externals:
                        found.by_op[span.ident] = self._context(lane, [*around, span])
                    if (lane, span.start) in differentiated:
                        found.paths[lane, span.start] = _path(around)
        return found

    def _context(self, lane: str, around: Iterable[Span]) -> Context:
        around = list(around)
        ops = [span for span in around if span.kind == OP]
        arrows = (self.forward.get(self.backward.get((lane, span.start), 0)) for span in ops)
        return Context(
            tuple(span.what for span in ops),
            _path(around),
            ops[-1].start if ops else 0.0,
            next((arrow for arrow in arrows if arrow), None),
        )

    def _placed(self, context: Context) -> Context:
        """A backward op belongs where its forward op stood."""
        path = self.joined.paths.get(context.forward) if context.forward else None
        return context if path is None else context._replace(path=path)

    def _seen_on_device(self) -> Iterator[tuple[Ran, Context]]:
        """Everything that ran on a device in the order it began, with what stood around its launch."""
        joined = self.joined
        for ran in sorted(self.ran, key=lambda ran: ran.start):
            context = joined.by_op.get(ran.external) or joined.by_launch.get(ran.correlation)
            if context is None:  # the host was not recorded: the device's own view of the ranges is all there is
                context = Context((), self.ranges_on_device.get(id(ran), ()))
            yield ran, self._placed(context)

    @cached_property
    def ranges_on_device(self) -> dict[int, tuple[str, ...]]:
        """The ranges each instance fell into, as the device saw them; these may overlap without being nested."""
        lanes = {lane: list(spans) for lane, spans in self.device_lanes.items()}
        for ran in self.ran:
            if ran.lane in lanes:
                lanes[ran.lane].append(Span(ran.start, ran.end, LAUNCH, ran, 1))
        return {
            id(span.what): _path(other for other in around if other.end > span.start)
            for spans in lanes.values()
            for span, around in nested(spans)
            if span.kind == LAUNCH
        }

    def _seen_on_host(self) -> Iterator[tuple[Op, Context, float, frozenset[str]]]:
        """Ops of a trace without kernels with their own time and the ops they called."""
        for lane, spans in sorted(self.lanes.items(), key=lambda item: min(span.start for span in item[1])):
            inside: dict[int, float] = defaultdict(float)
            called: dict[int, set[str]] = {}
            kept: dict[int, tuple[Span, Context]] = {}
            for span, around in nested(spans):
                if span.kind != OP:
                    continue
                caller = next((id(other) for other in reversed(around) if id(other) in kept), None)
                if caller is not None:
                    if span.what.name in BOOKKEEPING:
                        continue
                    inside[caller] += span.end - span.start
                    called.setdefault(caller, set()).add(span.what.name)
                kept[id(span)] = span, self._context(lane, [*around, span])
            for span, context in kept.values():
                own = span.end - span.start - inside[id(span)]
                yield span.what, self._placed(context), own, frozenset(called.get(id(span), ()))

    # -- results ------------------------------------------------------------------------------------------

    def observations(self) -> list[Observation]:
        """One per kernel (or op of a trace without kernels), shape, launch and path, in the order they first ran."""
        groups: dict[Any, _Group] = {}
        if self.ran:
            seen = list(self._seen_on_device())
            waits = self._host_waits({id(ran): context.path for ran, context in seen})
            for ran, context in seen:
                key = ran.what, context.ops, context.path
                group = groups.setdefault(key, _Group(context, ran.what))
                group.take(ran.end - ran.start, context)
                group.sent.add(self._sent(ran))
                if id(ran) in waits:
                    group.waits.append(waits[id(ran)])
        else:
            for op, context, own, called in self._seen_on_host():
                groups.setdefault((op, context.ops, context.path), _Group(context, None, called)).take(own, context)
        return [self._observation(group) for group in groups.values() if group.samples]

    def _sent(self, ran: Ran) -> str:
        """How it came to the device; empty where the call that launched it was not recorded."""
        launch = self.joined.launches.get(ran.correlation)
        if "graph" in ran.what.settings or (launch is not None and "GraphLaunch" in launch.what):
            return "graph"
        return "one by one" if launch is not None else ""

    def _host_waits(self, paths: Mapping[int, tuple[str, ...]]) -> dict[int, float]:
        """Microseconds each kernel let its device wait for the host, where the one before it ran under the same path.

        What the host did between one range or module and the next is neither one's: setting up may be part of it.
        """
        return {
            id(idle.ran): idle.time if idle.host else 0.0
            for mine in self._by_device().values()
            for idle in _idle(mine, self.joined.launches)
            if idle.host is not None and paths[id(idle.before)] == paths[id(idle.ran)]
        }

    def _by_device(self) -> dict[Any, list[Ran]]:
        found: dict[Any, list[Ran]] = {}
        for ran in self.ran:
            found.setdefault(ran.what.device, []).append(ran)
        return found

    def _observation(self, group: _Group) -> Observation:
        what, ops = group.what, group.context.ops
        op = ops[-1] if ops else None
        name = what.name if what and (what.kind != KERNEL or not op) else op.name if op else ""
        settings: dict[str, Any] = {"kind": what.kind if what else OP, "count": len(group.samples)}
        if op:
            settings["op"] = op.name
            settings["ops"] = [outer.name for outer in ops]
            settings["calls"] = len(group.calls)
            if op.shapes:
                settings["shapes"] = [list(shape) for shape in op.shapes]
            if op.dtypes:
                settings["dtypes"] = list(op.dtypes)
            if op.scalars:
                settings["scalars"] = dict(op.scalars)
            if any(outer.name.startswith(BACKWARD) for outer in ops):
                settings["pass"] = "backward"
        if group.called:
            settings["called"] = sorted(group.called)
        if what:
            settings["device"] = what.device
            settings.update(what.settings)
            if len(group.sent) == 1 and "" not in group.sent:
                (settings["sent"],) = group.sent
            if group.waits and settings.get("sent") == "one by one":
                settings["host_wait"] = math.fsum(group.waits) * MICRO
        notes = [f"{group.short} more took no measurable time"] if group.short else []
        return Observation(
            name=name,
            target=name,
            samples=tuple(group.samples),
            settings=settings,
            conditions=self._conditions(what),
            tool=TOOL,
            version=self.version,
            notes=tuple(notes),
            kernel=what.kernel if what else "",
            defined=DEFINED_DEVICE if what else DEFINED_HOST,
            path=group.context.path,
        )

    def _conditions(self, what: Launched | None) -> dict[str, Any]:
        found: dict[str, Any] = {"cache": "as the program left it"}
        base = _number(self.header.get("baseTimeNanoseconds"))
        if base > 0 and math.isfinite(self.first):
            seconds = base / 1e9 + self.first * MICRO
            if 0 < seconds < 4e9:  # this century
                found["date"] = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
        found["device"] = self._device_name(what.device) if what else "cpu"
        if what:
            found.update({key: self.header[key] for key in VERSIONS if key in self.header})
        group = self.header.get("distributedInfo")
        if isinstance(group, dict):
            found.update({key: group[key] for key in ("backend", "rank", "world_size") if key in group})
        return {key: value for key, value in found.items() if value != ""}

    def _device_name(self, device: Any) -> str:
        for row in _listed(self.header.get("deviceProperties")):
            if isinstance(row, dict) and row.get("id") == device:
                return str(row.get("name", ""))
        return ""

    def gaps(self) -> dict[str, Any]:
        """When each device had nothing to do between its first and its last kernel, and whether it waited for the host.

        A gap is the host's when the launch that ends it returned only after the device had run dry; a kernel that was
        queued before that waited for something else.
        """
        rows = []
        for device, ran in self._by_device().items():
            row = _gaps(ran, self.joined.launches)
            rows.append({"device": device, "name": self._device_name(device), **row})
        notes = ["recording slows the host, so the host's share is an upper bound"] if rows else []
        return {"devices": rows, "notes": notes or ["the trace has no kernels: nothing ran on a device"]}


@dataclass
class _Group:
    context: Context
    what: Launched | None
    called: frozenset[str] = frozenset()
    samples: list[float] = field(default_factory=list)
    calls: set[float] = field(default_factory=set)
    short: int = 0
    sent: set[str] = field(default_factory=set)
    waits: list[float] = field(default_factory=list)  # microseconds

    def take(self, length: float, context: Context) -> None:
        self.calls.add(context.call)
        if length > 0:
            self.samples.append(length * MICRO)
        else:
            self.short += 1


DEFINED_DEVICE = {
    "time": "start to end on the device, as the profiler's activity records give it",
    "settings.occupancy_estimate": "computed by the profiler from grid, block, registers and shared memory; not counted",
    "settings.bytes": "the size the program asked to copy or to set; not counted",
    "settings.host_wait": "idle time of the device before these kernels, all samples together, where the launch came late and "
    "the kernel before ran under the same path; recording slows the host, so at most this",
}
DEFINED_HOST = {"time": "time of the op on the host less the ops it called, recording included"}


class Idle(NamedTuple):
    """What stood before something on its device: the last to end, and the time in between."""

    ran: Ran
    before: Ran
    time: float  # microseconds, 0 where they overlap or touch
    host: bool | None  # whether the launch returned only after the device had run dry; None where it was not recorded


def _idle(ran: list[Ran], launches: Mapping[int, Span]) -> Iterator[Idle]:
    """All that ran on one device but the first, in the order it began."""
    ran = sorted(ran, key=lambda item: item.start)
    last = ran[0]
    for item in ran[1:]:
        gap, launch = item.start - last.end, launches.get(item.correlation)
        time = gap if gap > SLACK else 0.0
        yield Idle(item, last, time, None if launch is None else time > 0 and launch.end > last.end)
        if item.end > last.end:
            last = item


def _gaps(ran: list[Ran], launches: Mapping[int, Span]) -> dict[str, Any]:
    gaps = [idle for idle in _idle(ran, launches) if idle.time]
    idle = math.fsum(gap.time for gap in gaps)
    waited = math.fsum(gap.time for gap in gaps if gap.host)
    unknown = math.fsum(gap.time for gap in gaps if gap.host is None)
    span = max(item.end for item in ran) - min(item.start for item in ran)
    launched = len({item.correlation for item in ran if item.correlation in launches})
    row: dict[str, Any] = {
        "kernels": sum(item.what.kind in (KERNEL, COLLECTIVE) for item in ran),
        "span": span * MICRO,
        "busy": (span - idle) * MICRO,
        "idle": idle * MICRO,
        "gaps": len(gaps),
    }
    if gaps:
        largest = max(gaps, key=lambda gap: gap.time)
        row["largest"] = {
            "time": largest.time * MICRO,
            "after": largest.before.what.name,
            "before": largest.ran.what.name,
        }
    if launched and span > 0:
        row["launches_per_second"] = launched / (span * MICRO)
        row["idle_for_host"] = waited * MICRO
        row["host_bound"] = waited / span
        if unknown:
            row["idle_unexplained"] = unknown * MICRO
    return row


def nested(spans: Iterable[Span]) -> Iterator[tuple[Span, list[Span]]]:
    """Spans of one thread in the order they began, each with those still open around it, outermost first.

    Only starts are compared: launch calls carry the driver's clock and may end a little after the op around them.
    """
    around: list[Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end, span.ident)):
        while around and around[-1].end <= span.start + SLACK:
            around.pop()
        yield span, around
        if span.kind != LAUNCH:
            around.append(span)


def short(kernel: str) -> str:
    """A kernel's name without result type, namespaces, template and call arguments."""
    bare = re.split(r"[<(]", kernel.removeprefix("void ").replace("(anonymous namespace)::", ""))[0]
    return bare.rsplit("::", 1)[-1].strip() or kernel


def _launched(kind: str, name: str, args: Mapping[str, Any], pid: Any) -> Launched:
    settings = {ours: _frozen(args[theirs]) for ours, theirs in LAUNCH_SETTINGS.items() if theirs in args}
    if not settings.get("graph"):
        settings.pop("graph", None)  # 0 says that it was no graph
    occupancy = _number(args.get(OCCUPANCY))
    if occupancy > 0:  # 0 says that the profiler could not tell
        settings["occupancy_estimate"] = occupancy / 100
    if "dtype" in args:
        settings["dtype"] = DTYPES.get(str(args["dtype"]), str(args["dtype"]))
    if "stream" in args:
        settings["stream"] = _frozen(args["stream"])
    device = _frozen(args.get("device", pid))
    shown = short(name)
    if kind == KERNEL and ("Collective name" in args or name.startswith("nccl")):
        kind, shown = COLLECTIVE, _collective(str(args.get("Collective name", "")), name)
    elif kind == COPY:
        shown = " ".join([kind, *name.split()[1:2]])  # `Memcpy HtoD (Pinned -> Device)`: the direction counts
    elif kind == FILL:
        shown = kind
    return Launched(kind, shown, name, device, settings)


def _collective(stated: str, kernel: str) -> str:
    for text in (stated, kernel):
        plain = text.lower().replace("_", "")
        for part, name in COLLECTIVES.items():
            if part in plain:
                return name
    return COLLECTIVE


def _path(around: Iterable[Span]) -> tuple[str, ...]:
    return tuple(span.what for span in around if span.kind in (RANGE, MODULE))


def _tensors(dims: tuple[Any, ...], types: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
    """Shapes and dtypes of the inputs that are tensors; without types, the inputs that have dimensions."""
    if not types:
        return tuple(shape for shape in dims if shape and isinstance(shape, tuple)), ()
    shapes: list[Any] = []
    dtypes: list[str] = []
    for shape, kind in zip(dims, types, strict=False):
        if not isinstance(shape, tuple):
            continue
        if kind == LISTED:
            inner = [one for one in shape if isinstance(one, tuple)]
            shapes += inner
            dtypes += [UNKNOWN] * len(inner)
        elif kind in DTYPES or str(kind).startswith("c10::"):
            shapes.append(shape)
            dtypes.append(DTYPES.get(kind, str(kind).removeprefix("c10::")))
    return tuple(shapes), tuple(dtypes)


def _lane(event: Mapping[str, Any]) -> str:
    return f"{event.get('pid')} {event.get('tid')}"


def _number(value: Any) -> float:
    if type(value) is float:
        return value
    try:
        return float(value) if type(value) is int else math.nan
    except OverflowError:
        return math.nan


def _int(value: Any) -> int:
    """An id; 0 where there is none."""
    return value if type(value) is int else 0


def _frozen(value: Any) -> Any:
    """Lists as tuples, so that equal ones can be told."""
    if isinstance(value, list):
        return tuple(_frozen(one) for one in value)
    return str(value) if isinstance(value, dict) else value


def _listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()


# -- what other rooms call ----------------------------------------------------------------------------------


def load(path: Path, version: str = "") -> Trace:
    trace = Trace(Path(path), version)
    try:
        for key, value in items(trace.path):
            if key == EVENTS:
                trace.take(value)
            else:
                trace.header[key] = value
    except RecursionError as error:
        raise InputError(f"'{path}' nests values too deeply for a trace; export it again") from error
    return trace


def recognises(head: str, path: Path) -> bool:
    """A trace that torch.profiler exported: by its header, or by its events where another tool wrote it anew."""
    return f'"{EVENTS}"' in head and any(
        sign in head
        for sign in ('"schemaVersion"', '"deviceProperties"', '"cpu_op"', '"cuda_runtime"', "PyTorch Profiler")
    )


def read(path: Path) -> list[Observation]:
    found = load(path).observations()
    if not found:
        raise InputError(
            f"'{path}' holds no kernels and no ops; record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] "
            "and run something inside the profiler"
        )
    return found


def gaps(path: Path) -> dict[str, Any]:
    """Idle time of each device in a trace, and how much of it waited for the host."""
    return load(path).gaps()
