"""Which op, modules and ranges launched what a device ran.

kernel -- External id --> op                                     where the trace has it
kernel -- correlation --> launch call -- thread and time --> op  elsewhere; one graph launch starts many kernels
op -- thread and time --> ops, modules and ranges around it; a backward op takes those of its forward op
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.cached import cached_property
from ...core.errors import InputError
from ..chrome_trace import FRAME, LAUNCH, MODULE, OP, RANGE, Span, nested
from .events import Events, Record
from .graphs import BEGIN, END, GRAPH_LAUNCH, Sent, captures, kind_of, replayed

MAX_OPEN_RANGES = 200  # of one stream; ranges of people are a few inside each other
WAIT = re.compile(
    r"(?:cuda|cu|hip)(?:Stream|Device|Event|Ctx)Synchronize|(?:cuda|hip)Memcpy|cuMemcpy(?!\w*Async)\w*_v2"
)
ENGINE = "autograd::engine::evaluate_function"
NUMBER = re.compile(r"\d+")
DATA_LOADER = "enumerate(DataLoader)#"  # the range of `next` on a torch data loader
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


class Chain:
    """Ops, or modules and ranges, around something. Equal ones are one object, so that a deep trace is held once."""

    __slots__ = ("depth", "in_module", "item", "kind", "outer")

    def __init__(self, outer: Chain | None, item: Any, kind: str) -> None:
        self.outer, self.item, self.kind = outer, item, kind
        self.depth: int = 1 if outer is None else outer.depth + 1
        self.in_module: bool = kind == MODULE or (outer is not None and outer.in_module)

    def __iter__(self) -> Iterator[Any]:
        """Outermost first."""
        return (link.item for link in self.links())

    def links(self) -> list[Chain]:
        """The chains this one is made of, the shortest first."""
        links: list[Chain] = []
        chain: Chain | None = self
        while chain is not None:
            links.append(chain)
            chain = chain.outer
        return links[::-1]

    def named(self, kind: str) -> tuple[str, ...]:
        """The names of one kind, outermost first."""
        return tuple(link.item for link in self.links() if link.kind == kind)


class Context(NamedTuple):
    """What lay around a launch or an op."""

    ops: Chain | None = None
    path: Chain | None = None  # modules and ranges
    call: Span | None = None  # the innermost op: kernels of one call share it
    source: str = ""  # innermost line of the user's program
    forward: tuple[str, float] | None = None  # thread and start of the op this one is the derivative of


NOWHERE = Context()


class Links(NamedTuple):
    """How the device's side of a trace is connected with the host's."""

    by_op: dict[int, Context]  # by External id
    by_launch: dict[int, Context]  # by correlation
    launches: dict[int, Span]  # by correlation
    forward: dict[tuple[str, float], Context]  # around the ops that have a derivative
    waits: list[tuple[Span, Context]]  # of the host: synchronisations, and ranges of a data loader
    blocks: dict[tuple[str, str], list[Span]]  # by thread and name: ranges, frames and modules that no module is around
    backward: list[Span]  # outermost ops of the autograd engine
    captures: list[Span]  # calls that begin and end the capture of a graph
    sent: list[Sent]  # launches that no kernel belongs to: those captured in a graph


@dataclass
class Trace:
    """The events of a trace and how they are connected."""

    events: Events
    chains: dict[tuple[Chain | None, Any, str], Chain] = field(default_factory=dict)
    _alike: dict[Chain, Chain] = field(default_factory=dict)

    def _chain(self, outer: Chain | None, item: Any, kind: str) -> Chain:
        key = outer, item, kind
        chain = self.chains.get(key)
        if chain is None:
            chain = self.chains[key] = Chain(outer, item, kind)
        return chain

    def _contexts(self, lane: str) -> Iterator[tuple[Span, Span | None, Context, Context]]:
        """Spans of a thread, each with the span around it, the context around it and the one inside it.

        A context follows from the one around it in one step, however deep it is.
        """
        inside: list[Context] = []  # of the open spans
        forward, backward = self.events.forward, self.events.backward
        for span, open_spans in nested(self.events.lanes[lane], self.events.path):
            del inside[len(open_spans) :]
            outer = open_spans[-1] if open_spans else None
            context = around = inside[-1] if inside else NOWHERE
            if span.kind == OP:
                derivative_of = around.forward or forward.get(backward.get((lane, span.start)))  # type: ignore[arg-type]
                if derivative_of is not None and outer is not None and around.forward is None and outer.kind == OP:
                    inside[-1] = around._replace(forward=derivative_of)  # what the engine does afterwards is part of it
                ops = self._chain(around.ops, span.what, OP)
                context = Context(ops, around.path, span, around.source, derivative_of)
            elif span.kind in (RANGE, MODULE):
                context = around._replace(path=self._chain(around.path, span.what, span.kind))
            elif span.kind == FRAME:
                context = around._replace(source=span.what)
            if span.kind != LAUNCH:
                inside.append(context)
            yield span, outer, around, context

    @cached_property
    def links(self) -> Links:
        events = self.events
        if len(events.launchers) > 1:
            raise InputError(
                f"'{events.path}' holds the launches of {len(events.launchers)} processes, whose numbering overlaps; "
                "give the trace of one process (one rank) at a time"
            )
        externals = {record.external for record in events.records if record.external}
        correlations = {record.correlation for record in events.records if record.correlation}
        differentiated = set(events.forward.values())
        links = Links({}, {}, {}, {}, [], {}, [], [], [])
        for lane in events.lanes:
            for span, _, around, context in self._contexts(lane):
                if span.kind == LAUNCH:
                    if span.ident in correlations:
                        links.launches[span.ident] = span
                        links.by_launch[span.ident] = around
                    elif kind := kind_of(span.what):
                        links.sent.append(Sent(span, kind, around))
                    elif span.what.endswith((BEGIN, END)):
                        links.captures.append(span)
                    if WAIT.fullmatch(span.what):
                        links.waits.append((span, around))
                elif span.kind != OP:
                    if around.ops is None and (around.path is None or not around.path.in_module):
                        name = NUMBER.sub("#", span.what) if span.kind == RANGE else span.what
                        links.blocks.setdefault((lane, name), []).append(span)
                    if span.kind == RANGE and span.what.startswith(DATA_LOADER):
                        links.waits.append((span, around))
                else:
                    if around.ops is None and span.what.name.startswith(ENGINE):
                        links.backward.append(span)
                    if span.ident in externals:
                        links.by_op[span.ident] = context
                    if (lane, span.start) in differentiated:
                        links.forward[lane, span.start] = around
        return links

    def _placed(self, context: Context) -> Context:
        """A backward op belongs to the modules, ranges and line of its forward op."""
        if context.forward is None or context.forward not in self.links.forward:
            return context
        forward = self.links.forward[context.forward]
        return context._replace(path=forward.path, source=forward.source or context.source)

    def on_device(self) -> Iterator[tuple[Record, Context]]:
        """Everything that ran on a device in the order it began, with what lay around its launch."""
        links = self.links
        for record in sorted(self.events.records, key=lambda record: record.start):
            context = links.by_op.get(record.external) or links.by_launch.get(record.correlation)
            if context is None:  # the host was not recorded: the device's own view of the ranges is all there is
                context = Context(path=self._device_ranges.get(id(record)))
            yield record, self._placed(context)

    @cached_property
    def replayed(self) -> dict[int, Context]:
        """What lay around the capture of each record that a graph replay ran, by its identity."""
        replays: dict[int, list[Record]] = defaultdict(list)
        for record in self.events.records:
            if self.launch_mode(record) == "graph":
                replays[record.correlation].append(record)
        captured = captures(self.links.captures, self.links.sent) if replays else []
        return {ident: self._placed(sent.around) for ident, sent in replayed(replays, captured).items()}

    @cached_property
    def _device_ranges(self) -> dict[int, Chain | None]:
        """The ranges each record fell into, on the device; these may overlap without being nested."""
        lanes = {lane: list(spans) for lane, spans in self.events.device_lanes.items()}
        for record in self.events.records:
            if record.lane in lanes:
                lanes[record.lane].append(Span(record.start, record.end, LAUNCH, record, 1))
        paths: dict[int, Chain | None] = {}
        for spans in lanes.values():
            for span, around in nested(spans, self.events.path, MAX_OPEN_RANGES):
                if span.kind == LAUNCH:
                    path = None
                    for other in around:
                        path = self._chain(path, other.what, RANGE) if other.end > span.start else path
                    paths[id(span.what)] = path
        return paths

    def on_host(self) -> Iterator[tuple[Span, Context, list[Span]]]:
        """Ops of a trace without kernels, each with the ops that it called, in the order they began."""
        lanes = self.events.lanes
        for lane in sorted(lanes, key=lambda lane: min(span.start for span in lanes[lane])):
            called: dict[int, list[Span]] = {}
            kept: list[tuple[Span, Context]] = []
            callers: dict[int, int | None] = {}  # the innermost op that is kept, of the span and all around it
            for span, outer, _, context in self._contexts(lane):
                caller = callers[id(outer)] if outer is not None else None
                callers[id(span)] = caller
                if span.kind != OP or (caller is not None and span.what.name in BOOKKEEPING):
                    continue
                if caller is not None:
                    called.setdefault(caller, []).append(span)
                callers[id(span)] = id(span)
                kept.append((span, context))
            for span, context in kept:
                yield span, self._placed(context), called.get(id(span), [])

    def alike(self, ops: Chain | None) -> Chain | None:
        """The chain of the ops that stand for these, whatever the layout of their inputs."""
        if ops is None:
            return None
        chain = self._alike.get(ops)
        if chain is None:
            for link in ops.links():
                chain = self._chain(chain, link.item.alike, OP)
            assert chain is not None
            self._alike[ops] = chain
        return chain

    def by_device(self) -> dict[Any, list[Record]]:
        devices: dict[Any, list[Record]] = defaultdict(list)
        for record in self.events.records:
            devices[record.activity.device].append(record)
        return devices

    def launch_mode(self, record: Record) -> str:
        """Whether the host launched it alone or in a graph; empty where the launch was not recorded."""
        launch = self.links.launches.get(record.correlation)
        if "graph" in record.activity.settings or (launch is not None and GRAPH_LAUNCH in launch.what):
            return "graph"
        return "one by one" if launch is not None else ""
