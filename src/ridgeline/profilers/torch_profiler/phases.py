"""The phase of a training or inference step that a kernel belongs to.

communication   collectives, whatever launched them
copy            copies between host and device
optimizer       inside `Optimizer.step` or `Optimizer.zero_grad`; ops on all parameters at once
backward        inside the autograd engine, or the derivative of a recorded forward op
forward         any other op
other           nothing around the launch says; a range of the user named `forward`, `backward` or `optimizer` does
"""

from __future__ import annotations

import math
import re
from bisect import bisect

from ...core.timeline import BACKWARD, COLLECTIVE, COMMUNICATION, COPIES, COPY, FORWARD, OPTIMIZER, OTHER
from ..chrome_trace import RANGE
from .events import Activity
from .links import ENGINE, Chain, Context, Links

_DERIVATIVE = re.compile(r"\w+Backward\d*|torch::autograd::\w+")
OPTIMIZER_STEP = "Optimizer.step#"
_OPTIMIZER_RANGES = (OPTIMIZER_STEP, "Optimizer.zero_grad#")
_OPTIMIZER_OPS = re.compile(r"aten::_(?:fused_(?:adam|adamw|sgd|adagrad)_|foreach_\w+|amp_\w+)")
_COLLECTIVE_OPS = ("c10d::", "_c10d_functional::", "nccl:", "record_param_comms")
_RANGE_NAMES = {"forward": FORWARD, "fwd": FORWARD, "backward": BACKWARD, "bwd": BACKWARD, "optimizer": OPTIMIZER,
                "optimizer_step": OPTIMIZER, "optim": OPTIMIZER}  # fmt: skip
_ACROSS = ("memcpy HtoD", "memcpy DtoH")


class GradientWork:
    """The times between a backward pass and the optimizer step that follows it."""

    def __init__(self, links: Links) -> None:
        steps = [span for (_, name), spans in links.blocks.items() if name.startswith(OPTIMIZER_STEP) for span in spans]
        self.steps = sorted(span.start for span in steps)
        ends = sorted(span.end for span in links.backward)
        places = (bisect(ends, start) for start in self.steps)
        self.begins = [ends[place - 1] if place else math.inf for place in places]

    def holds(self, time: float) -> bool:
        place = bisect(self.steps, time)
        return place < len(self.steps) and time >= self.begins[place]


def phase(context: Context, activity: Activity | None, after_backward: bool = False) -> str:
    """The phase of what `activity` did under this context; of an op on the host without an activity."""
    names = [op.name for op in context.ops or ()]
    if (activity is not None and activity.kind == COLLECTIVE) or any(
        name.startswith(_COLLECTIVE_OPS) for name in names
    ):
        return COMMUNICATION
    if activity is not None and activity.kind == COPY and activity.name.startswith(_ACROSS):
        return COPIES
    ranges = context.path.named(RANGE) if context.path is not None else ()
    if any(name.startswith(_OPTIMIZER_RANGES) for name in ranges):
        return OPTIMIZER
    if context.forward is not None or any(_differentiates(name) for name in names):
        return BACKWARD
    if after_backward or any(_OPTIMIZER_OPS.match(name) for name in names):
        return OPTIMIZER
    stated = [_RANGE_NAMES[name.lower()] for name in ranges if name.lower() in _RANGE_NAMES]
    if stated:
        return stated[-1]
    return FORWARD if names else OTHER


def _differentiates(name: str) -> bool:
    return name.startswith(ENGINE) or _DERIVATIVE.fullmatch(name) is not None


def calls_outside_engine(ops: Chain | None) -> list[str]:
    """The names of the ops around something, those of the autograd engine left out, outermost first."""
    return [op.name for op in ops or () if not _differentiates(op.name)]
