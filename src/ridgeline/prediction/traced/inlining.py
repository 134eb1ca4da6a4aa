"""Inlining: pointwise calls whose results are computed where they are used, as Inductor does it before it makes kernels.

The result of a pointwise call is written to memory where a library call reads it, where it is needed after the program, or
where several calls read it and it depends on many buffers or operators. Else every call that reads it computes it again
from the buffers that it depends on, those of the backward pass too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ...core.trace import GRADIENT, HOLDS, PARAMETER, STATE, TEMPORARY, Trace
from .nodes import ELEMENTS, KEPT, Node

# Limits of Inductor: buffers that a result which several (or one) read may depend on, and operators it may be made of.
MAX_SHARED_READS, MAX_READS, MAX_OPERATORS = 4, 8, 30
KEPT_AFTERWARDS = frozenset(HOLDS.index(kind) for kind in (PARAMETER, GRADIENT, STATE))


@dataclass
class _Uses:
    """Who reads the results of each node, and which nodes' results are read by each; not those that only give a shape."""

    readers: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))  # of each node
    sources: list[dict[int, int]] = field(default_factory=list)  # of each node: buffer to the node that wrote it
    last: dict[int, int] = field(default_factory=dict)  # of each buffer: the node that writes it last


def inlined(trace: Trace, listed: Sequence[Node]) -> list[Node]:
    """The nodes that write their results, each with what is computed within it."""
    uses = _uses(listed)
    every: list[Node] = []
    within: list[bool] = []
    for place, node in enumerate(listed):
        every.append(_expanded(node, uses.sources[place], every, within))
        within.append(_is_inlined(trace, place, every, listed, uses))
    return [node for node, gone in zip(every, within, strict=True) if not gone]


def stays(trace: Trace, buffer: int, was_read: bool) -> bool:
    """Whether a buffer is needed after the program: a temporary one that is read was needed for that alone."""
    holds, outlives = int(trace.buffers.holds[buffer]), bool(trace.buffers.dies[buffer] > len(trace))
    return holds in KEPT_AFTERWARDS or (outlives and (holds != HOLDS.index(TEMPORARY) or not was_read))


def _uses(listed: Sequence[Node]) -> _Uses:
    uses = _Uses()
    for place, node in enumerate(listed):
        sources = {buffer: uses.last[buffer] for buffer, size in node.reads if size and buffer in uses.last}
        uses.sources.append(sources)
        for source in set(sources.values()):
            uses.readers[source].append(place)
        uses.last |= dict.fromkeys((buffer for buffer, _ in node.writes), place)
    return uses


def _expanded(node: Node, sources: dict[int, int], every: Sequence[Node], within: Sequence[bool]) -> Node:
    """A node that reads the buffers that its inlined sources depend on, and does their arithmetic."""
    if node.kind == KEPT or not any(within[source] for source in sources.values()):
        return node
    reads: dict[int, float] = {}
    for buffer, size in node.reads:
        source = sources.get(buffer)
        leaves = every[source].reads if source is not None and within[source] else ((buffer, size),)
        for leaf, bytes_ in leaves:
            reads[leaf] = max(reads.get(leaf, 0.0), bytes_)
    flops, special, ops = node.flops, node.special, dict.fromkeys(node.inlined)
    for source in dict.fromkeys(sources.values()):
        if within[source]:
            made = every[source]
            again = max(node.elements / made.elements, 1.0) if made.elements else 1.0
            flops, special = flops + made.flops * again, special + made.special * again
            ops |= dict.fromkeys((*made.inlined, made.op))
    return replace(node, reads=tuple(reads.items()), flops=flops, special=special, inlined=tuple(ops))


def _is_inlined(trace: Trace, place: int, every: Sequence[Node], listed: Sequence[Node], uses: _Uses) -> bool:
    node, readers = every[place], [listed[reader] for reader in uses.readers[place]]
    if node.kind != ELEMENTS or len(node.writes) != 1:
        return False
    buffer = node.writes[0][0]
    if uses.last[buffer] == place and stays(trace, buffer, bool(readers)):
        return False
    if any(reader.kind == KEPT or reader.times != node.times for reader in readers):
        return False
    loads = node.loads * len(node.reads)
    if len(readers) > 1:
        return loads <= MAX_SHARED_READS and len(node.inlined) < MAX_OPERATORS
    return loads <= MAX_READS
