"""Which op, modules and ranges launched what a device ran.

kernel -- External id --> op                                     where the trace has it
kernel -- correlation --> launch call -- thread and time --> op  elsewhere; one graph launch starts many kernels
op -- thread and time --> ops, modules and ranges around it; a backward op takes those of its forward op
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from ...core.errors import InputError
from ..chrome_trace import LAUNCH, MODULE, OP, RANGE, Span, nested
from .events import Events, Op, Record

MAX_OPEN_RANGES = 200  # of one stream; ranges of people are a few inside each other
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

    __slots__ = ("depth", "item", "outer")

    def __init__(self, outer: Chain | None, item: Any) -> None:
        self.outer, self.item = outer, item
        self.depth: int = 1 if outer is None else outer.depth + 1

    def __iter__(self) -> Iterator[Any]:
        """Outermost first."""
        items: list[Any] = []
        chain: Chain | None = self
        while chain is not None:
            items.append(chain.item)
            chain = chain.outer
        return iter(items[::-1])


class Context(NamedTuple):
    """What lay around a launch or an op."""

    ops: Chain | None = None
    path: Chain | None = None  # modules and ranges
    call: float = 0.0  # when the innermost op began: kernels of one call share it
    forward: tuple[str, float] | None = None  # thread and start of the op this one is the derivative of


NOWHERE = Context()


class Links(NamedTuple):
    """How the device's side of a trace is connected with the host's."""

    by_op: dict[int, Context]  # by External id
    by_launch: dict[int, Context]  # by correlation
    launches: dict[int, Span]  # by correlation
    paths: dict[tuple[str, float], Chain | None]  # of the ops that have a derivative


@dataclass
class Trace:
    """The events of a trace and how they are connected."""

    events: Events
    chains: dict[tuple[Chain | None, Any], Chain] = field(default_factory=dict)

    def _chain(self, outer: Chain | None, item: Any) -> Chain:
        key = outer, item
        chain = self.chains.get(key)
        if chain is None:
            chain = self.chains[key] = Chain(outer, item)
        return chain

    def _contexts(self, lane: str) -> Iterator[tuple[Span, Span | None, Context, Context]]:
        """Spans of a thread, each with the span around it, the context around it and the one inside it.

        A context follows from the one around it in one step, however deep it is.
        """
        inside: dict[int, Context] = {}
        forward, backward = self.events.forward, self.events.backward
        for span, open_spans in nested(self.events.lanes[lane], self.events.path):
            outer = open_spans[-1] if open_spans else None
            context = around = inside[id(outer)] if outer is not None else NOWHERE
            if span.kind == OP:
                derivative_of = around.forward or forward.get(backward.get((lane, span.start)))  # type: ignore[arg-type]
                context = Context(self._chain(around.ops, span.what), around.path, span.start, derivative_of)
            elif span.kind in (RANGE, MODULE):
                context = around._replace(path=self._chain(around.path, span.what))
            inside[id(span)] = context
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
        links = Links({}, {}, {}, {})
        for lane in events.lanes:
            for span, _, around, context in self._contexts(lane):
                if span.kind == LAUNCH:
                    if span.ident in correlations:
                        links.launches[span.ident] = span
                        links.by_launch[span.ident] = around
                elif span.kind == OP:
                    if span.ident in externals:
                        links.by_op[span.ident] = context
                    if (lane, span.start) in differentiated:
                        links.paths[lane, span.start] = around.path
        return links

    def _placed(self, context: Context) -> Context:
        """A backward op belongs to the modules and ranges of its forward op."""
        if context.forward is None or context.forward not in self.links.paths:
            return context
        return context._replace(path=self.links.paths[context.forward])

    def on_device(self) -> Iterator[tuple[Record, Context]]:
        """Everything that ran on a device in the order it began, with what lay around its launch."""
        links = self.links
        for record in sorted(self.events.records, key=lambda record: record.start):
            context = links.by_op.get(record.external) or links.by_launch.get(record.correlation)
            if context is None:  # the host was not recorded: the device's own view of the ranges is all there is
                context = Context(path=self._device_ranges.get(id(record)))
            yield record, self._placed(context)

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
                        path = self._chain(path, other.what) if other.end > span.start else path
                    paths[id(span.what)] = path
        return paths

    def on_host(self) -> Iterator[tuple[Op, Context, float, frozenset[str]]]:
        """Ops of a trace without kernels with their self time and the ops they called."""
        lanes = self.events.lanes
        for lane in sorted(lanes, key=lambda lane: min(span.start for span in lanes[lane])):
            inside: dict[int, float] = defaultdict(float)
            called: dict[int, set[str]] = {}
            kept: dict[int, tuple[Span, Context]] = {}
            callers: dict[int, int | None] = {}  # the innermost op that is kept, of the span and all around it
            for span, outer, _, context in self._contexts(lane):
                caller = callers[id(outer)] if outer is not None else None
                callers[id(span)] = caller
                if span.kind != OP or (caller is not None and span.what.name in BOOKKEEPING):
                    continue
                if caller is not None:
                    inside[caller] += span.end - span.start
                    called.setdefault(caller, set()).add(span.what.name)
                callers[id(span)] = id(span)
                kept[id(span)] = span, context
            for span, context in kept.values():
                self_time = span.end - span.start - inside[id(span)]
                yield span.what, self._placed(context), self_time, frozenset(called.get(id(span), ()))

    def by_device(self) -> dict[Any, list[Record]]:
        devices: dict[Any, list[Record]] = defaultdict(list)
        for record in self.events.records:
            devices[record.activity.device].append(record)
        return devices

    def launch_mode(self, record: Record) -> str:
        """Whether the host launched it alone or in a graph; empty where the launch was not recorded."""
        launch = self.links.launches.get(record.correlation)
        if "graph" in record.activity.settings or (launch is not None and "GraphLaunch" in launch.what):
            return "graph"
        return "one by one" if launch is not None else ""
