"""The events of a torch.profiler trace, kept by what they are: spans of the host's threads, activities of the devices."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ...core.intake import Door, clean
from ...core.intake.door import shown
from ...core.timeline import COLLECTIVE, COPY, FILL, KERNEL, Call
from ..chrome_trace import FRAME, LAUNCH, MAX_START, MODULE, OP, RANGE, Span, times, usable
from ..frames import source_line
from .arguments import DTYPES, arguments

ON_DEVICE = {"kernel": KERNEL, "gpu_memcpy": COPY, "gpu_memset": FILL}
MODULE_NAME = "nn.Module: "
STEP = "ProfilerStep#"  # the profiler's own range, a new name each step
STEP_MARK = "ridgeline.step#"  # a step that the program marks itself
STEPS = (STEP, STEP_MARK)

UNKNOWN = "unknown"
# Ops whose work is not in the shapes of their tensors alone: stride, padding, causal come as scalars.
WITH_SCALARS = re.compile(r"conv|attention|attn|pool")

# The first of these in a collective's name says what it is, in the words of ridgeline's ops.
COLLECTIVES = {
    "reducescatter": "reduce_scatter", "allreduce": "all_reduce", "allgather": "all_gather", "alltoall": "all_to_all",
    "sendrecv": "p2p", "broadcast": "broadcast", "send": "p2p", "recv": "p2p", "reduce": "reduce",
}  # fmt: skip

# Settings of a launch, by the profiler's name for them.
LAUNCH_SETTINGS = {
    "grid": "grid", "block": "block", "registers": "registers per thread", "shared_memory": "shared memory",
    "blocks_per_sm": "blocks per SM", "warps_per_sm": "warps per SM", "bytes": "bytes", "graph": "graph id",
    "ranks": "Group size", "elements_in": "In msg nelems", "elements_out": "Out msg nelems",
}  # fmt: skip
OCCUPANCY = "est. achieved occupancy %"
DESCRIPTION = (*LAUNCH_SETTINGS.values(), OCCUPANCY, "dtype", "stream", "device", "Collective name")


@dataclass(frozen=True, eq=False, slots=True)
class Op:
    """One op with one set of inputs; there is one object for all its calls, so equal is identical."""

    call: Call
    alike: Op | None = None  # the op that stands for all whose shapes and dtypes are these, whatever their layout
    scalars: tuple[tuple[int, str], ...] = ()

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(tensor.shape for tensor in self.call.tensors)

    @property
    def dtypes(self) -> tuple[str, ...]:
        dtypes = tuple(tensor.dtype for tensor in self.call.tensors)
        return tuple(dtype or UNKNOWN for dtype in dtypes) if any(dtypes) else ()


@dataclass(frozen=True, eq=False, slots=True)
class Activity:
    """A kernel, copy, fill or collective on a device, all but its time; one object for all instances."""

    kind: str
    name: str
    kernel: str
    device: Any
    settings: Mapping[str, Any]


class Record(NamedTuple):
    """One instance of an activity: the profiler's activity record."""

    start: float
    end: float
    activity: Activity
    lane: str
    correlation: int
    external: int


@dataclass
class Events:
    """A trace read once."""

    path: Path
    version: str = ""
    header: dict[str, Any] = field(default_factory=dict)
    lanes: dict[str, list[Span]] = field(default_factory=dict)  # by process and thread
    records: list[Record] = field(default_factory=list)
    device_lanes: dict[str, list[Span]] = field(default_factory=dict)  # ranges as the device saw them
    forward: dict[int, tuple[str, float]] = field(default_factory=dict)  # by the id of the arrow between the two
    backward: dict[tuple[str, float], int] = field(default_factory=dict)
    marks: list[Span] = field(default_factory=list)  # steps of the profiler and of the program
    launchers: set[str] = field(default_factory=set)  # processes that launched something
    first: float = math.inf
    base: float | None = None  # the first time of the file; the others are kept from there, which saves their digits
    taken: int = 0
    notes: list[str] = field(default_factory=list)  # what of the file was left out
    on_host: int = 0  # events of the host, each of which slowed it
    shared: dict[str, Any] = field(default_factory=dict)  # one copy of what comes again and again, by its text

    def __post_init__(self) -> None:
        self.door = Door(f"'{self.path}'")

    def take(self, event: Any) -> None:
        self.taken += 1
        args = usable(event, self.door, self.taken)
        if not isinstance(event, dict):
            return
        phase, category = event.get("ph"), event.get("cat")
        if phase != "X" or not isinstance(category, str):
            if category == "fwdbwd":
                self._arrow(event)
            return
        name = str(event.get("name", ""))
        self.on_host += category not in ON_DEVICE and category != "gpu_user_annotation"
        if category == "cpu_op":
            self._span(event, OP, self._op(name, args), self._ident(args, "External id"))
        elif category == "user_annotation":
            if name.startswith(STEPS):
                self._mark(event, name)
            else:
                self._span(event, RANGE, self._name(name), self._ident(args, "External id"))
        elif category == "python_function":
            if name.startswith(MODULE_NAME):
                self._span(event, MODULE, self._name(name.removeprefix(MODULE_NAME)))
            elif source := source_line(name):
                self._span(event, FRAME, source)
        elif category in ON_DEVICE:
            self._record(event, category, name, args)
        elif category == "gpu_user_annotation":
            if not name.startswith(STEPS) and (times := self._times(event)) is not None:
                self.device_lanes.setdefault(_lane(event), []).append(Span(*times, RANGE, self._name(name)))
        elif category.endswith(("_runtime", "_driver")) and "correlation" in args:
            self.launchers.add(str(event.get("pid")))
            self._span(event, LAUNCH, self._name(name), self._ident(args, "correlation"))

    def _arrow(self, event: Mapping[str, Any]) -> None:
        """One end of the arrow from an op to its derivative."""
        ident, start = event.get("id"), self._from_base(number(event.get("ts")))
        if type(ident) is not int or not math.isfinite(start):
            self.door.complain(f"event {self.taken}", f"an arrow needs an id and a time, found {shown(ident)} at {shown(event.get('ts'))}")  # fmt: skip
        elif event.get("ph") == "s":
            self.forward[ident] = _lane(event), start
        else:
            self.backward[_lane(event), start] = ident

    def _from_base(self, start: float) -> float:
        if self.base is None and abs(start) <= MAX_START:
            self.base = start
        return start - (self.base or 0.0)

    def _times(self, event: dict[str, Any]) -> tuple[float, float] | None:
        start, length = event.get("ts"), event.get("dur")
        if type(start) is not float or type(length) is not float:
            start, length = number(start), number(length)
        if start < self.first:
            self.first = start
        return times(event, self.door, self.taken, self._from_base(start), length)

    def _ident(self, args: Mapping[str, Any], key: str) -> int:
        """An id; 0 where there is none."""
        value = args.get(key, 0)
        if type(value) is int:
            return value
        if value is not None:
            self.door.complain(f"event {self.taken}", f"{key} is {shown(value)}; it is a whole number")
        return 0

    def _span(self, event: dict[str, Any], kind: str, what: Any, ident: int = 0) -> None:
        if (times := self._times(event)) is not None:
            self.lanes.setdefault(_lane(event), []).append(Span(*times, kind, what, ident))

    def _mark(self, event: dict[str, Any], name: str) -> None:
        if (times := self._times(event)) is not None:
            self.marks.append(Span(*times, RANGE, STEP if name.startswith(STEP) else STEP_MARK))

    def _record(self, event: dict[str, Any], category: str, name: str, args: Mapping[str, Any]) -> None:
        times = self._times(event)
        key = f"{category} {name} {event.get('pid')} {[args.get(part) for part in DESCRIPTION]}"
        activity = self.shared.get(key)
        if activity is None:
            activity = self.shared[key] = _activity(ON_DEVICE[category], name, args, event.get("pid"))
        idents = self._ident(args, "correlation"), self._ident(args, "External id")
        if times is not None:
            self.records.append(Record(*times, activity, self._name(_lane(event)), *idents))

    def _name(self, text: str) -> str:
        name: str = self.shared.setdefault(text, text)
        return name

    def _op(self, name: str, args: Mapping[str, Any]) -> Op:
        dims, types = args.get("Input Dims"), args.get("Input type")
        strides, inputs = args.get("Input Strides"), args.get("Concrete Inputs")
        key = f"{name} {dims} {types} {strides} {inputs}"  # the quickest thing that is equal where the inputs are
        op: Op | None = self.shared.get(key)
        if op is None:
            call = Call(clean(name), arguments(dims, types, strides, inputs))
            op = self.shared[key] = Op(call, self._alike(name, dims, types, inputs))
        return op

    def _alike(self, name: str, dims: Any, types: Any, inputs: Any) -> Op:
        inputs = inputs if WITH_SCALARS.search(name) else None
        key = f"{name} {dims} {types} {inputs}"
        op: Op | None = self.shared.get(f"alike {key}")
        if op is None:
            scalars = tuple((place, str(text)) for place, text in enumerate(listed(inputs)) if text not in ("", []))
            op = self.shared[f"alike {key}"] = Op(Call(name, arguments(dims, types)), None, scalars)
        return op


def short(kernel: str) -> str:
    """A kernel's name without result type, namespaces, template and call arguments."""
    bare = re.split(r"[<(]", kernel.removeprefix("void ").replace("(anonymous namespace)::", ""))[0]
    return bare.rsplit("::", 1)[-1].strip() or kernel


def _activity(kind: str, name: str, args: Mapping[str, Any], pid: Any) -> Activity:
    settings = {ours: _frozen(args[theirs]) for ours, theirs in LAUNCH_SETTINGS.items() if theirs in args}
    if not settings.get("graph"):
        settings.pop("graph", None)  # 0 says that it was no graph
    occupancy = number(args.get(OCCUPANCY))
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
    return Activity(kind, shown, name, device, settings)


def _collective(stated: str, kernel: str) -> str:
    for text in (stated, kernel):
        plain = text.lower().replace("_", "")
        for part, name in COLLECTIVES.items():
            if part in plain:
                return name
    return COLLECTIVE


def _lane(event: Mapping[str, Any]) -> str:
    return f"{event.get('pid')} {event.get('tid')}"


def number(value: Any) -> float:
    if type(value) is float:
        return value
    try:
        return float(value) if type(value) is int else math.nan
    except OverflowError:
        return math.nan


def _frozen(value: Any) -> Any:
    """Lists as tuples, so that they can be compared."""
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return str(value) if isinstance(value, dict) else value


def listed(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list | tuple) else ()
