"""Plan: what a machine runs for a trace, in order, by the way the program is executed.

eager   every call by itself: the host dispatches each, and the device runs the kernels of those with work
graph   the kernels of the eager program, replayed from a captured graph: the host dispatches nothing
fused   the kernels that a compiler makes of the calls (fusion.py)
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from ...core.machine import Machine
from ...core.trace import FREE, HOST, VIEW, WORK, Access, Trace, TracedOp
from ...core.work import Work
from ..queue import Ints
from .attention import timed_backend

MODES = EAGER, GRAPH, FUSED = ("eager", "graph", "fused")


@dataclass(frozen=True)
class Unit:
    """A distinct thing to run: an op of the trace, or a kernel that a compiler made of several."""

    op: TracedOp  # the first one, whose place in the program it has
    work: Work | None
    backend: str = ""
    ops: tuple[int, ...] = ()  # of the trace, in order
    variant: Hashable = None  # tells kernels apart that begin with equal calls

    @property
    def fused(self) -> bool:
        return len(self.ops) > 1


@dataclass(frozen=True)
class Plan:
    """Units, and the runs of them as columns in program order."""

    units: tuple[Unit, ...]
    unit: Ints  # per run
    call: Ints  # the call of the trace that a run begins with
    times: np.ndarray  # how often it runs in a row
    reads: Sequence[Sequence[Access]]
    writes: Sequence[Sequence[Access]]

    def __len__(self) -> int:
        return len(self.unit)


def eager_plan(trace: Trace, machine: Machine) -> Plan:
    """Every call a run of its own, views too: the host dispatches them."""
    units = tuple(Unit(op, op.work, timed_backend(op, machine), (place,)) for place, op in enumerate(trace.ops))
    calls = np.arange(len(trace), dtype=np.int64)
    return Plan(units, np.asarray(trace.op, dtype=np.int64), calls, trace.times, trace.reads, trace.writes)


def is_view(op: TracedOp) -> bool:
    """Whether a call launches nothing."""
    return op.kind == FREE or (op.sort == VIEW and op.kind != WORK)


def waits_for_device(op: TracedOp) -> bool:
    """Whether the host reads a result: it waits until the device is done."""
    return op.kind == HOST
