"""Trace: what one run of a program does, call by call, read from the program without running it on a device.

    ops      the distinct calls: an operator with its arguments, its place in the program and its work
    order    which op each call of the run is, and how often in a row (the trips of a loop)
    buffers  the memory that calls read and write: size, what it holds, from which call to which call it is needed
    reads, writes   per call: the buffers it touches and the bytes it moves there

Ops are few and are objects; calls and buffers are many and are columns. Views share the buffer of their base.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .cached import cached_property
from .timeline import Site
from .work import Program, Step, Work

# What a compiler does with a call: merges it with its neighbours, ends a chain with it, or calls a library.
POINTWISE, REDUCTION, LIBRARY, MOVE, VIEW = SORTS = ("pointwise", "reduction", "library", "move", "view")
# What a buffer holds.
PARAMETER, INPUT, ACTIVATION, GRADIENT, STATE, TEMPORARY = HOLDS = (
    "parameter", "input", "activation", "gradient", "state", "temporary",
)  # fmt: skip
WORK, FREE, HOST, UNKNOWN = KINDS = ("work", "free", "host", "unknown")
Access = tuple[int, float]  # a buffer and the bytes moved there


@dataclass(frozen=True, slots=True)
class TracedOp:
    """One distinct call: `work` where its kind is work, `reason` where it is unknown."""

    site: Site
    kind: str  # one of KINDS
    work: Work | None = None
    sort: str = LIBRARY  # one of SORTS
    backend: str = ""
    reason: str = ""
    bytes: float = 0.0  # of its tensors, each once; of calls that are not counted too


@dataclass(frozen=True)
class Buffers:
    """Equally long columns; `holds` are places in HOLDS. A buffer of before the run is born at -1; one that is freed
    after the last call dies at the number of calls, one that outlives the run later."""

    size: np.ndarray
    holds: np.ndarray
    born: np.ndarray  # the call that allocates it
    dies: np.ndarray  # the last call before which it is needed no more

    def __len__(self) -> int:
        return len(self.size)


@dataclass(frozen=True)
class Trace:
    ops: tuple[TracedOp, ...]
    op: np.ndarray  # per call, in program order
    times: np.ndarray  # per call: how often it runs in a row, 1 outside of loops
    reads: tuple[tuple[Access, ...], ...]  # per call
    writes: tuple[tuple[Access, ...], ...]
    buffers: Buffers
    name: str = ""
    framework: str = ""  # torch or jax
    notes: tuple[str, ...] = ()
    conditions: Mapping[str, Any] = field(default_factory=dict)
    entered: np.ndarray | None = (
        None  # per call: modules that Python called since the call before; None where not known
    )

    def __len__(self) -> int:
        return len(self.op)

    @cached_property
    def counts(self) -> np.ndarray:
        """How often each op runs."""
        return np.bincount(self.op, self.times, minlength=len(self.ops))

    @cached_property
    def uncounted(self) -> tuple[tuple[TracedOp, float], ...]:
        """Ops without a count and how often they run, the largest bytes first."""
        listed = [(op, float(count)) for op, count in zip(self.ops, self.counts, strict=True) if op.kind == UNKNOWN]
        return tuple(sorted(listed, key=lambda item: -item[0].bytes * item[1]))

    def program(self) -> Program:
        """The counted ops as steps, each with how often it runs."""
        steps = (
            Step(op.site.call.name, op.work, float(count), op.backend)
            for op, count in zip(self.ops, self.counts, strict=True)
            if op.work is not None
        )
        return Program(tuple(steps), self.name)

    @property
    def flops(self) -> float:
        return float(sum(np.max(np.asarray(step.work.flops)) * step.count for step in self.program().steps))

    @property
    def bytes(self) -> float:
        return float(sum(np.max(np.asarray(step.work.bytes)) * step.count for step in self.program().steps))
