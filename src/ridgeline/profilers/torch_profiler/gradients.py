"""The gradients of one step of a training loop: autograd records each when it is accumulated, with its shape and format.

Operators on all parameters at once (`_foreach_add_`) take lists too long for the profiler, which leaves them empty.
"""

from __future__ import annotations

from ...core.timeline import Tensor
from ..chrome_trace import OP
from .events import Events

ACCUMULATE = "torch::autograd::AccumulateGrad"


def gradients(events: Events, steps: int) -> tuple[Tensor, ...]:
    """Of one of so many steps; empty where the steps differ, or nothing was trained."""
    spans = [
        span for lane in events.lanes.values() for span in lane if span.kind == OP and span.what.name == ACCUMULATE
    ]
    spans.sort(key=lambda span: span.start)
    tensors = [span.what.call.tensors[0] for span in spans if span.what.call.tensors]
    if not tensors or steps < 1 or len(tensors) % steps:
        return ()
    each = len(tensors) // steps
    first = tensors[:each]
    if sorted(map(_key, first)) != sorted(map(_key, tensors[-each:])):
        return ()
    while len(first) % 2 == 0 and _repeats(first):
        first = first[: len(first) // 2]  # several backward passes a step
    return tuple(first)


def _key(tensor: Tensor) -> tuple[tuple[int, ...], str]:
    return tensor.shape, tensor.dtype


def _repeats(tensors: list[Tensor]) -> bool:
    half = len(tensors) // 2
    return tensors[:half] == tensors[half:]
