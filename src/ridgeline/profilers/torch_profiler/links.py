"""Which op, modules and ranges launched what a device ran.

kernel -- External id --> op                                     where the trace has it
kernel -- correlation --> launch call -- thread and time --> op  elsewhere; one graph launch starts many kernels
op -- thread and time --> ops, modules and ranges around it; a backward op takes those of its forward op
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from ...core.errors import InputError
from ..chrome_trace import LAUNCH, MODULE, OP, RANGE, Span, nested
from .events import Events, Op, Record

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


class Context(NamedTuple):
    """What lay around a launch or an op, outermost first."""

    ops: tuple[Op, ...] = ()
    path: tuple[str, ...] = ()
    call: float = 0.0  # when the innermost op began: kernels of one call share it
    forward: tuple[str, float] | None = None  # thread and start of the op this one is the derivative of


class Links(NamedTuple):
    """How the device's side of a trace is connected with the host's."""

    by_op: dict[int, Context]  # by External id
    by_launch: dict[int, Context]  # by correlation
    launches: dict[int, Span]  # by correlation
    paths: dict[tuple[str, float], tuple[str, ...]]  # of the ops that have a derivative


@dataclass
class Trace:
    """The events of a trace and how they are connected."""

    events: Events

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
        for lane, spans in events.lanes.items():
            for span, around in nested(spans):
                if span.kind == LAUNCH:
                    if span.ident in correlations:
                        links.launches[span.ident] = span
                        links.by_launch[span.ident] = self._context(lane, around)
                elif span.kind == OP:
                    if span.ident in externals:
                        links.by_op[span.ident] = self._context(lane, [*around, span])
                    if (lane, span.start) in differentiated:
                        links.paths[lane, span.start] = _path(around)
        return links

    def _context(self, lane: str, around: Iterable[Span]) -> Context:
        around = list(around)
        ops = [span for span in around if span.kind == OP]
        forward, backward = self.events.forward, self.events.backward
        arrows = (forward.get(backward.get((lane, span.start), 0)) for span in ops)
        derivative_of = next((arrow for arrow in arrows if arrow), None)
        return Context(tuple(span.what for span in ops), _path(around), ops[-1].start if ops else 0.0, derivative_of)

    def _placed(self, context: Context) -> Context:
        """A backward op belongs to the modules and ranges of its forward op."""
        path = self.links.paths.get(context.forward) if context.forward else None
        return context if path is None else context._replace(path=path)

    def on_device(self) -> Iterator[tuple[Record, Context]]:
        """Everything that ran on a device in the order it began, with what lay around its launch."""
        links = self.links
        for record in sorted(self.events.records, key=lambda record: record.start):
            context = links.by_op.get(record.external) or links.by_launch.get(record.correlation)
            if context is None:  # the host was not recorded: the device's own view of the ranges is all there is
                context = Context((), self._device_ranges.get(id(record), ()))
            yield record, self._placed(context)

    @cached_property
    def _device_ranges(self) -> dict[int, tuple[str, ...]]:
        """The ranges each record fell into, on the device; these may overlap without being nested."""
        lanes = {lane: list(spans) for lane, spans in self.events.device_lanes.items()}
        for record in self.events.records:
            if record.lane in lanes:
                lanes[record.lane].append(Span(record.start, record.end, LAUNCH, record, 1))
        return {
            id(span.what): _path(other for other in around if other.end > span.start)
            for spans in lanes.values()
            for span, around in nested(spans)
            if span.kind == LAUNCH
        }

    def on_host(self) -> Iterator[tuple[Op, Context, float, frozenset[str]]]:
        """Ops of a trace without kernels with their self time and the ops they called."""
        for lane, spans in sorted(self.events.lanes.items(), key=lambda item: min(span.start for span in item[1])):
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


def _path(around: Iterable[Span]) -> tuple[str, ...]:
    return tuple(span.what for span in around if span.kind in (RANGE, MODULE))
