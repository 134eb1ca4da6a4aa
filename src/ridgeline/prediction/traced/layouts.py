"""Whether a compiler lays images out channels-last: TorchInductor decides once for all convolutions of a graph.

It does not where convolutions are few among the operators. In training it does not where one is grouped (unless every channel is
by itself), where a window of several pixels has half as many channels after it or fewer, or where all are narrow. In inference
the arithmetic of each kind decides, weighted with the time that channels-last took against the other layout when its authors
timed them (`decide_layout_opt` in torch/_inductor/graph.py, torch 2.13).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.timeline import BACKWARD, Tensor
from ...core.trace import Trace, TracedOp
from ...programs.aten.arguments import base_name

MAX_CALLS_PER_CONVOLUTION = 300
NARROW = 64  # channels
GROUPED, SMALL, NARROWING, OTHER = "grouped", "small", "narrowing", "other"
RELATIVE_TIME = {GROUPED: 1.358, SMALL: 0.783, NARROWING: 0.725, OTHER: 0.823}  # of channels-last


@dataclass(frozen=True)
class _Convolution:
    weight: tuple[int, ...]  # outputs, inputs of a group, window
    groups: int
    flops: float

    @property
    def grouped(self) -> bool:
        return self.groups > 1 and self.weight[1] > 1

    @property
    def narrowing(self) -> bool:
        return self.weight[0] * 2 <= self.weight[1] and self.weight[2] > 1

    @property
    def small(self) -> bool:
        return max(self.weight[:2]) <= NARROW

    @property
    def kind(self) -> str:
        return GROUPED if self.grouped else SMALL if self.small else NARROWING if self.narrowing else OTHER


def lays_channels_last(trace: Trace) -> bool:
    """Whether the convolutions of a compiled trace run on channels-last tensors."""
    rows = [(_convolution(op), float(count)) for op, count in zip(trace.ops, trace.counts, strict=True)]
    convolutions = [(item, count) for item, count in rows if item is not None]
    trained = any(op.site.phase == BACKWARD for op in trace.ops)
    calls = sum(op.site.phase != BACKWARD for place in trace.op.tolist() for op in (trace.ops[place],))
    if not convolutions or calls >= MAX_CALLS_PER_CONVOLUTION * sum(count for _, count in convolutions):
        return False
    if not trained:
        total = sum(item.flops * count for item, count in convolutions)
        return sum(item.flops * count * RELATIVE_TIME[item.kind] for item, count in convolutions) <= total
    every = [item for item, _ in convolutions]
    return not (any(item.grouped or item.narrowing for item in every) or all(item.small for item in every))


def _convolution(op: TracedOp) -> _Convolution | None:
    """A forward convolution of images."""
    call = op.site.call
    if base_name(call.name) != "convolution" or op.work is None or op.site.phase == BACKWARD:
        return None
    weight = call.args[1]
    if not isinstance(weight, Tensor) or len(weight.shape) != 4:
        return None
    groups = call.args[8] if len(call.args) > 8 else 1
    return _Convolution(
        weight.shape, groups if isinstance(groups, int) else 1, float(np.max(np.asarray(op.work.flops)))
    )
