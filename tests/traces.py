"""Traces written by hand: calls on named buffers, with the work that the aten table counts for them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from ridgeline.core.timeline import BACKWARD, FORWARD, Call, Site, Tensor
from ridgeline.core.trace import (
    HOLDS,
    INPUT,
    LIBRARY,
    PARAMETER,
    POINTWISE,
    TEMPORARY,
    VIEW,
    Buffers,
    Trace,
    TracedOp,
)
from ridgeline.programs.aten import Settings, count

WIDTH = {"bf16": 2, "fp32": 4, "int64": 8, "bool": 1}


@dataclass
class Builder:
    """A program, call by call: `b.buffer("x", (8, 8))`, then `b.call("aten::relu", ["x"], ["y"])`."""

    dtype: str = "bf16"
    names: dict[str, int] = field(default_factory=dict)
    tensors: list[Tensor] = field(default_factory=list)
    holds: list[str] = field(default_factory=list)
    ops: dict[Site, TracedOp] = field(default_factory=dict)
    op: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    reads: list[tuple[str, ...]] = field(default_factory=list)
    writes: list[tuple[str, ...]] = field(default_factory=list)

    def buffer(self, name: str, shape: tuple[int, ...], holds: str = TEMPORARY, dtype: str = "") -> str:
        self.names[name] = len(self.tensors)
        self.tensors.append(Tensor(shape, dtype or self.dtype))
        self.holds.append(holds)
        return name

    def tensor(self, name: str) -> Tensor:
        return self.tensors[self.names[name]]

    def call(
        self,
        name: str,
        reads: list[str],
        writes: list[str],
        *,
        sort: str = POINTWISE,
        phase: str = FORWARD,
        module: str | tuple[str, ...] = "",
        source: str = "train.py:7",
        further: tuple[object, ...] = (),
        times: float = 1.0,
    ) -> None:
        args = (*(self.tensor(read) for read in reads), *further)
        call = Call(name, args, tuple(self.tensor(write) for write in writes))
        counted = count(call, Settings(leaf=True))
        moved = float(sum(self.size(tensor) for tensor in (*reads, *writes)))
        modules = module if isinstance(module, tuple) else (module,) if module else ()
        site = Site(call, phase, modules, source)
        made = TracedOp(site, counted.kind, counted.work, sort, counted.backend, counted.reason, moved)
        self.ops.setdefault(site, made)
        self.op.append(list(self.ops).index(site))
        self.times.append(times)
        self.reads.append(tuple(reads))
        self.writes.append(tuple(writes))

    def size(self, name: str) -> int:
        tensor = self.tensor(name)
        return prod(tensor.shape) * WIDTH[tensor.dtype]

    def trace(self) -> Trace:
        """Buffers are born where they are first written, and die after their last use; others are there all along."""
        calls = len(self.op)
        born, dies = [], []
        for name, place in self.names.items():
            used = [call for call in range(calls) if name in (*self.reads[call], *self.writes[call])]
            temporary = self.holds[place] == TEMPORARY
            first = next((call for call in used if name not in self.reads[call]), -1)
            born.append(first if temporary else -1)
            dies.append(used[-1] + 1 if temporary and used else calls + 1)
        sizes = np.array([self.size(name) for name in self.names], dtype=np.float64)
        holds = np.array([HOLDS.index(kind) for kind in self.holds], dtype=np.int64)

        def accesses(named: list[tuple[str, ...]]) -> tuple[tuple[tuple[int, float], ...], ...]:
            return tuple(tuple((self.names[name], float(self.size(name))) for name in row) for row in named)

        buffers = Buffers(sizes, holds, np.array(born), np.array(dies))
        return Trace(
            tuple(self.ops.values()),
            np.array(self.op),
            np.array(self.times),
            accesses(self.reads),
            accesses(self.writes),
            buffers,
        )


def perceptron(rows: int = 4096, width: int = 4096, layers: int = 3) -> Trace:
    """Layers of a product and a relu under one module each, a backward pass of the products, an op that no rule counts."""
    b = Builder()
    b.buffer("x0", (rows, width), INPUT)
    for place in range(layers):
        path = (":Net", f"layers.{place}:Layer")
        b.buffer(f"w{place}", (width, width), PARAMETER)
        b.buffer(f"h{place}", (rows, width))
        b.buffer(f"x{place + 1}", (rows, width))
        b.call("aten::mm", [f"x{place}", f"w{place}"], [f"h{place}"], sort=LIBRARY, module=(*path, "fc:Linear"))
        b.call("aten::relu", [f"h{place}"], [f"x{place + 1}"], module=path, source="train.py:9")
    b.call("aten::t", ["w0"], ["w0"], sort=VIEW, module=(":Net",))
    b.call("mylib::mystery", [f"x{layers}"], ["x0"], sort=LIBRARY)
    for place in reversed(range(layers)):
        path = (":Net", f"layers.{place}:Layer", "fc:Linear")
        b.call("aten::mm", [f"h{place}", f"w{place}"], [f"x{place}"], sort=LIBRARY, module=path, phase=BACKWARD)
    return replace(b.trace(), name="net")
