"""The phase of a training or inference step that a kernel belongs to.

communication   collectives, whatever launched them
copy            copies between host and device
optimizer       inside `Optimizer.step` or `Optimizer.zero_grad`; ops on all parameters at once
backward        inside the autograd engine, or the derivative of a recorded forward op
forward         any other op
other           nothing around the launch says; a range of the user named `forward`, `backward` or `optimizer` does
"""

from __future__ import annotations

import re

from ...core.timeline import BACKWARD, COLLECTIVE, COMMUNICATION, COPIES, COPY, FORWARD, OPTIMIZER, OTHER
from ..chrome_trace import RANGE
from .events import Activity
from .links import Chain, Context

ENGINE = "autograd::engine::evaluate_function"
_DERIVATIVE = re.compile(r"\w+Backward\d*|torch::autograd::\w+")
_OPTIMIZER_RANGES = ("Optimizer.step#", "Optimizer.zero_grad#")
_OPTIMIZER_OPS = re.compile(r"aten::_(?:fused_(?:adam|adamw|sgd|adagrad)_|foreach_\w+|amp_\w+)")
_COLLECTIVE_OPS = ("c10d::", "_c10d_functional::", "nccl:", "record_param_comms")
_RANGE_NAMES = {"forward": FORWARD, "fwd": FORWARD, "backward": BACKWARD, "bwd": BACKWARD, "optimizer": OPTIMIZER,
                "optimizer_step": OPTIMIZER, "optim": OPTIMIZER}  # fmt: skip
_ACROSS = ("memcpy HtoD", "memcpy DtoH")


def phase(context: Context, activity: Activity | None) -> str:
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
    if any(_OPTIMIZER_OPS.match(name) for name in names):
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
