"""Host time of a program's calls: what the framework takes to dispatch each of them, by what the call is.

A call costs a multiple of the time to launch one small kernel: more under autograd, less for a view, which launches nothing;
the tensors in the lists of foreach and fused calls, and further kernels of one call, cost a share each. The multiples are
data (`machines/defaults.toml`); the time of a launch is the machine's own where it was measured.
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


def compiled_cost(trace: Trace, machine: Machine) -> float:
    """Seconds of host time per kernel that compiled code launches."""
    trained = any(op.site.phase == BACKWARD for op in trace.ops)
    return dispatch_cost(machine) * defaults("dispatch_factor")["compiled_training" if trained else "compiled"]


def _factor(op: TracedOp, trained: bool, factors: Mapping[str, float]) -> float:
    if op.kind == HOST:
        return factors["read"]
    phase = op.site.phase
    name = phase if phase in (BACKWARD, OPTIMIZER) else "recorded" if trained else "plain"
    if is_view(op):
        return factors[f"{name}_view"]
    lists = _listed(op.site.call.args) * factors["listed"]
    further = max(_launches(op) - 1.0, 0.0) * factors["launch"]
    return factors[name] + lists + further


def _listed(args: Iterable[object]) -> int:
    """Tensors in the lists among the arguments."""
    return sum(sum(isinstance(item, Tensor) for item in arg) for arg in args if isinstance(arg, tuple))


def _launches(op: TracedOp) -> float:
    if op.work is None:
        return 1.0
    return float(sum(np.max(np.asarray(step.work.waits.get("launch", 1.0) * step.count)) for step in op.work.steps))
