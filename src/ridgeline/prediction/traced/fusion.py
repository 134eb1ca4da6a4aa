"""Fusion: the kernels that a compiler makes of a program's calls, by the rules of TorchInductor (XLA's are alike).

    1. The result of a pointwise call is computed where it is used, unless a library call reads it, it is needed after the
       program, or several calls read it and it depends on more than 4 buffers (inlining.py).
    2. Calls over the same elements merge with the kernels whose results they read, and with kernels that read a buffer of
       the same elements; copies into another order do not merge for that.
    3. A reduction merges with pointwise calls over its elements or its rows and with reductions of the same rows; one of few
       long rows is made in pieces and ends its kernel.
    4. Library calls (products, convolutions, attention, scatters, fused optimizers) stay as they are; views are free.
    5. A kernel reads every buffer of other kernels once and writes what others read; all else stays in registers.
    6. Compute-bound products of formats below 32 bits are padded to multiples of 8 elements; convolutions run on
       channels-last tensors where the compiler expects to gain from that (layouts.py).

No two calls merge where a third one depends on the first and the second on the third.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.machine import Machine
from ...core.trace import Trace
from .inlining import inlined, stays
from .nodes import ELEMENTS, KEPT, ROWS, SPLIT, Node, nodes

RULE = (
    "pointwise calls and reductions are merged along producers and consumers as TorchInductor merges them; library calls"
    " stay; intermediates within a kernel are not moved"
)
MAX_NODES = 64  # of one kernel, as Inductor limits it
WINDOW = 64  # kernels back to which two are merged
MIN_SHARED = 0.5  # of the bytes of a node's largest read, from which sharing a buffer merges kernels


@dataclass
class Group:
    """Nodes that become one kernel."""

    place: int
    nodes: list[Node] = field(default_factory=list)
    elements: float = 0.0
    rows: float = 0.0  # of its reductions, 0 without any
    ended: bool = False  # by a split reduction
    before: int = 0  # bit set of the groups that must run before it
    merged: Group | None = None  # the kernel that it became part of

    @property
    def final(self) -> Group:
        return self if self.merged is None else self.merged.final

    @property
    def library(self) -> bool:
        return self.nodes[0].kind == KEPT

    def add(self, node: Node) -> None:
        self.nodes.append(node)
        self.elements = max(self.elements, node.elements)
        if node.kind in (ROWS, SPLIT):
            self.rows = node.rows
        self.ended = self.ended or node.kind == SPLIT


def accepts(group: Group, node: Node, produced: bool) -> bool:
    """Whether a kernel may take a node: `produced` says that the node reads one of its results."""
    if group.library or len(group.nodes) >= MAX_NODES or group.nodes[0].graph != node.graph:
        return False
    if node.kind == ELEMENTS:
        if group.ended:
            return produced and node.elements <= group.rows
        return node.elements in (group.elements, group.rows)
    if group.elements != node.elements or group.ended:
        return False
    return not group.rows or (group.rows == node.rows and node.kind == ROWS)


@dataclass
class _State:
    """The kernels so far, and who touched each buffer last."""

    groups: list[Group] = field(default_factory=list)
    producer: dict[int, Group] = field(default_factory=dict)
    readers: dict[int, list[Group]] = field(default_factory=lambda: defaultdict(list))  # since it was written

    def needed(self, node: Node) -> dict[int, Group]:
        """The kernels that must run before a node: what it reads is there, what it overwrites has been read."""
        every = [self.producer[buffer] for buffer, _ in node.reads if buffer in self.producer]
        every += [group for buffer, _ in node.writes for group in self.readers[buffer]]
        return {group.final.place: group.final for group in every}

    def sharing(self, node: Node) -> list[Group]:
        """The kernels that read a large buffer that the node reads, each buffer's last one; none for a copy into another order."""
        if node.copies:
            return []
        largest = max((size for _, size in node.reads), default=0.0)
        shared = [buffer for buffer, size in node.reads if size >= MIN_SHARED * largest and self.readers[buffer]]
        return [self.readers[buffer][-1].final for buffer in shared]

    def add(self, node: Node, group: Group, needed: Mapping[int, Group]) -> None:
        group.add(node)
        for other in needed.values():
            if other is not group:
                group.before |= other.before | 1 << other.place
        for buffer, _ in node.reads:
            self.readers[buffer].append(group)
        for buffer, _ in node.writes:
            self.producer[buffer], self.readers[buffer] = group, []


def groups(trace: Trace, machine: Machine) -> list[Group]:
    """The kernels in the order of their first call."""
    state = _State()
    for node in inlined(trace, nodes(trace, machine)):
        needed = state.needed(node)
        group = _home(state, node, needed)
        if group is None:
            group = Group(len(state.groups))
            state.groups.append(group)
        state.add(node, group, needed)
        for other in needed.values():
            if other is not group and _mergeable(state, other, group):
                _merge(state, other, group)
    kept = [group for group in state.groups if group.merged is None]
    for place, group in enumerate(kept):
        group.place = place
        group.nodes.sort(key=lambda node: node.call)
    return kept


def _home(state: _State, node: Node, needed: Mapping[int, Group]) -> Group | None:
    """The kernel that a node joins: one whose results it reads, the latest first, else one that reads the same buffer."""
    if node.kind == KEPT:
        return None
    for group in sorted(needed.values(), key=lambda group: -group.place):
        if accepts(group, node, True) and _possible(group, needed.values()):
            return group
    for group in sorted(state.sharing(node), key=lambda group: -group.place):
        if group.place not in needed and accepts(group, node, False) and _possible(group, needed.values()):
            return group
    return None


def _possible(group: Group, needed: Iterable[Group]) -> bool:
    """Whether nothing that the node needs has to run after the group."""
    return not any(other is not group and other.before >> group.place & 1 for other in needed)


def _mergeable(state: _State, first: Group, then: Group) -> bool:
    """Whether two kernels, the second of which reads the first, may be one: the same elements, and nothing in between."""
    if first.library or then.library or first.ended or len(first.nodes) + len(then.nodes) > MAX_NODES:
        return False
    if first.elements != then.elements or (first.rows and then.rows and first.rows != then.rows):
        return False
    if first.nodes[0].graph != then.nodes[0].graph or not then.before >> first.place & 1:
        return False
    later = state.groups[first.place + 1 :]
    return len(later) <= WINDOW and not any(
        then.before >> between.place & 1 and between.before >> first.place & 1 for between in later
    )


def _merge(state: _State, first: Group, then: Group) -> None:
    for node in first.nodes:
        then.add(node)
    first.merged = then
    then.before |= first.before
    for later in state.groups[first.place + 1 :]:
        if later is not then and later.before >> first.place & 1:
            later.before |= 1 << then.place


# -- what a kernel moves -----------------------------------------------------------------------------------------


@dataclass
class Traffic:
    """Bytes by buffer that a kernel reads and writes."""

    reads: dict[int, float] = field(default_factory=dict)
    writes: dict[int, float] = field(default_factory=dict)

    @property
    def moves(self) -> bool:
        """Whether there is anything to do: what no other kernel needs is not computed."""
        return any(self.reads.values()) or any(self.writes.values())


def traffic(trace: Trace, listed: Sequence[Group]) -> list[Traffic]:
    """Of each kernel: every buffer of others once, and what others read of it."""
    moved = [Traffic() for _ in listed]
    events: dict[int, list[tuple[int, int, bool, float]]] = defaultdict(
        list
    )  # of each buffer: call, kernel, write, bytes
    for group, row in zip(listed, moved, strict=True):
        own: set[int] = set()
        for node in group.nodes:
            for buffer, size in node.reads:
                events[buffer].append((node.call, group.place, False, size))
                if buffer not in own:
                    row.reads[buffer] = max(row.reads.get(buffer, 0.0), size)
            for buffer, size in node.writes:
                events[buffer].append((node.call, group.place, True, size))
                own.add(buffer)
    for buffer, accesses in events.items():
        for place, size in _written(accesses, stays(trace, buffer, any(not write for _, _, write, _ in accesses))):
            moved[place].writes[buffer] = max(moved[place].writes.get(buffer, 0.0), size)
    return moved


def _written(accesses: list[tuple[int, int, bool, float]], stays: bool) -> list[tuple[int, float]]:
    """The kernels that write a buffer to memory: whose result another kernel reads before it is written again."""
    ordered = sorted(accesses, key=lambda row: row[0])
    kept: list[tuple[int, float]] = []
    for place, (_, kernel, writes, size) in enumerate(ordered):
        if not writes:
            continue
        needed = stays
        for _, other, again, _ in ordered[place + 1 :]:
            needed = other != kernel
            if needed or again:
                break
        else:
            needed = stays
        if needed:
            kept.append((kernel, size))
    return kept
