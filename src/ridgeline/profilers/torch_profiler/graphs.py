"""Which operators a graph replay runs: those whose launches were captured, in their order.

A replay starts all kernels of its graph with a single call, so nothing connects them with operators. Where the trace holds
the capture, the launches of it have operators around them and no kernels; a replay on a single stream runs its kernels in
the order they were captured. A replay is joined to a capture when their kernels, copies and fills agree one by one and no
capture of other calls does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...core.timeline import COLLECTIVE, COPY, FILL, KERNEL
from ..chrome_trace import Span
from .events import Record

BEGIN, END = "StreamBeginCapture", "StreamEndCapture"
GRAPH_LAUNCH = "GraphLaunch"
_SENT = (
    (KERNEL, re.compile(r"(?:cuda|cu|hip|hipModule)Launch(?:Cooperative)?Kernel\w*|hipExtModuleLaunchKernel")),
    (COPY, re.compile(r"(?:cuda|cu|hip)Memcpy\w*")),
    (FILL, re.compile(r"(?:cuda|cu|hip)Memset\w*")),
)


class Sent(NamedTuple):
    """A launch, copy or fill that the host sent and the device did not run by itself; `around` is where it was sent."""

    span: Span
    kind: str
    around: Any  # Context


def kind_of(call: str) -> str:
    """What a call of the runtime sends to the device; empty for nothing."""
    return next((kind for kind, names in _SENT if names.fullmatch(call)), "")


def captures(edges: Iterable[Span], sent: Iterable[Sent]) -> list[Sequence[Sent]]:
    """What was sent between the begin and the end of each capture, in order; on whatever thread."""
    windows = []
    begin: Span | None = None
    for span in sorted(edges, key=lambda span: span.start):
        if BEGIN in span.what:
            begin = span
        elif begin is not None:
            windows.append((begin.end, span.start))
            begin = None
    ordered = sorted(sent, key=lambda item: item.span.start)
    inside = ([item for item in ordered if first <= item.span.start <= last] for first, last in windows)
    return [items for items in inside if items]


def replayed(replays: Mapping[int, Sequence[Record]], captured: Sequence[Sequence[Sent]]) -> dict[int, Sent]:
    """By the identity of a record, the captured launch that it replays."""
    by_kinds: dict[tuple[str, ...], list[Sequence[Sent]]] = {}
    for items in captured:
        by_kinds.setdefault(tuple(item.kind for item in items), []).append(items)
    joined: dict[int, Sent] = {}
    for records in replays.values():
        ordered = sorted(records, key=lambda record: record.start)
        kinds = tuple(KERNEL if record.activity.kind == COLLECTIVE else record.activity.kind for record in ordered)
        candidates = by_kinds.get(kinds, [])
        single = len({tuple(map(_innermost, items)) for items in candidates}) == 1
        if single and len({record.lane for record in ordered}) == 1:
            joined.update((id(record), item) for record, item in zip(ordered, candidates[-1], strict=True))
    return joined


def _innermost(item: Sent) -> int:
    """The op around a launch: equal ops with equal arguments are one object."""
    return id(item.around.ops.item) if item.around.ops is not None else 0
