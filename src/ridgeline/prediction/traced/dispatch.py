"""Host time of a program's calls: what the framework takes to dispatch each of them, by what the call is.

    call without autograd    dispatch
    forward call that is recorded for a backward pass, call of the backward pass, call of an optimizer    times a factor
    view                     times a factor: it launches nothing
    foreach and fused calls  a share of a dispatch for each tensor of their lists on top
    further kernels of one call    a launch each

The factors are data (`machines/defaults.toml`); the dispatch cost is the machine's own where it was measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from ...core.machine import Machine
from ...core.timeline import BACKWARD, OPTIMIZER, Tensor
from ...core.trace import HOST, Trace, TracedOp
from ...machines.defaults import defaults
from ..queue import Floats
from .plan import is_view


def dispatch_cost(machine: Machine) -> float:
    """Seconds per call without autograd: the machine's own, else the default of its kind."""
    known = machine.dispatch.value()
    return defaults("dispatch").get(machine.kind, 0.0) if known is None else known


def host_costs(trace: Trace, machine: Machine) -> Floats:
    """Seconds of host time per op of the trace, for one call."""
    each, factors = dispatch_cost(machine), defaults("dispatch_factor")
    trained = any(op.site.phase == BACKWARD for op in trace.ops)
    return np.array([each * _factor(op, trained, factors) for op in trace.ops], dtype=np.float64)


def _factor(op: TracedOp, trained: bool, factors: Mapping[str, float]) -> float:
    phase = op.site.phase
    if is_view(op):
        return factors["view"] * (factors["recorded_view"] if trained and phase not in (BACKWARD, OPTIMIZER) else 1.0)
    if op.kind == HOST:
        return factors["read"]
    lists = _listed(op.site.call.args) * factors["listed"]
    further = max(_launches(op) - 1.0, 0.0) * factors["launch"]
    name = BACKWARD if phase == BACKWARD else OPTIMIZER if phase == OPTIMIZER else "recorded" if trained else "plain"
    return factors[name] + lists + further


def _listed(args: Iterable[object]) -> int:
    """Tensors in the lists among the arguments."""
    return sum(sum(isinstance(item, Tensor) for item in arg) for arg in args if isinstance(arg, tuple))


def _launches(op: TracedOp) -> float:
    if op.work is None:
        return 1.0
    return float(sum(np.max(np.asarray(step.work.waits.get("launch", 1.0) * step.count)) for step in op.work.steps))
