"""Host time of a program's calls: what the framework and the program's Python take for each of them, by what the call is.

    call        multiple of its kind x `eager_call`, the host time per launching call of a program (a figure of the machine)
    forward     of a training step: `recorded` times that, for the graph that autograd keeps
    backward    multiple of its kind x `backward` x `backward_call`: autograd runs on a thread and a core of its own
    optimizer   a multiple per call, one per tensor in its lists, and one per parameter for the loop of its Python
    view        launches nothing, and is dispatched all the same
    module      Python between two calls, per module that was called; the Python around attention is in its multiple

Of compiled programs, as multiples of `eager_call` too:

    kernel      a launch by compiled code: of a generated kernel, or of a library by what it computes
    call        of an inference step: checks that the compiled code still holds, and calling it; less for few parameters
    parameter   of a training step: the same for each of them, handing it over, keeping its gradient
    break       where Python reads a number in the forward pass the compiler ends a graph and begins another

Hosts differ by more than programs do: `eager_call` is measured (`ridgeline measure cuda`), else the default of usual hosts.
The multiples are data (`machines/defaults.toml`, fitted by benchmarks/programs/host_fit.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from ...core.machine import Machine
from ...core.timeline import BACKWARD, FORWARD, OPTIMIZER, Tensor
from ...core.trace import GRADIENT, HOLDS, HOST, PARAMETER, Trace, TracedOp
from ...machines.defaults import defaults
from ..queue import Floats, Ints
from .plan import is_view

FORWARD_CALL, BACKWARD_CALL = "eager_call", "backward_call"
# Kinds of launching calls by parts of their names, the first that fits; all others are of kind `operator`.
KINDS = {
    "attention": ("scaled_dot_product", "flash_attention", "efficient_attention"),
    "convolution": ("conv",),
    "batch_norm": ("batch_norm",),
    "norm": ("layer_norm", "group_norm", "rms_norm"),
}
READ = "aten::_local_scalar_dense"  # a number of a tensor
RECURRENT = "_rnn"  # layers whose library launches a product and a cell for every time step
PRODUCTS = frozenset(("mm", "addmm", "bmm", "baddbmm", "addbmm", "_scaled_mm", "_grouped_mm", "linear"))
Factors = Mapping[str, float]


def dispatch_cost(machine: Machine) -> float:
    """Seconds to launch one small kernel: the machine's own, else the default of its kind."""
    known = machine.dispatch.value()
    return defaults("dispatch").get(machine.kind, 0.0) if known is None else known


def call_cost(machine: Machine, figure: str) -> float:
    """Seconds of a call, `eager_call` or `backward_call`: the machine's own, else that of usual hosts.

    Where only calls without gradients were measured, those of a backward pass are as much slower or faster.
    """
    known = getattr(machine, figure).value()
    usual = defaults("host_call")
    if known is not None:
        return float(known)
    if machine.kind != "gpu":
        return 0.0
    return (
        usual[figure] / usual[FORWARD_CALL] * call_cost(machine, FORWARD_CALL)
        if figure != FORWARD_CALL
        else usual[figure]
    )


def host_costs(trace: Trace, machine: Machine, factors: Factors | None = None) -> Floats:
    """Seconds of host time per op of the trace, for one call; without the modules around it."""
    used = defaults("call_factor") if factors is None else factors
    forward, backward = (call_cost(machine, figure) for figure in (FORWARD_CALL, BACKWARD_CALL))
    trained = _trained(trace)
    costs = [
        backward * _backward(op, used) if op.site.phase == BACKWARD else forward * _forward(op, trained, used)
        for op in trace.ops
    ]
    listing = [(place, _longest(op)) for place, op in enumerate(trace.ops) if op.site.phase == OPTIMIZER]
    if listing:  # the loop over parameters precedes the first call on a list of them
        parameters = max(count for _, count in listing)
        first = next(place for place, count in listing if count == parameters)
        costs[first] += forward * used["parameter"] * parameters
    return np.array(costs, dtype=np.float64)


def module_costs(trace: Trace, machine: Machine, factors: Factors | None = None) -> Floats:
    """Seconds of host time before each call of the trace, for the modules that Python called since the one before."""
    used = defaults("call_factor") if factors is None else factors
    entered = np.zeros(len(trace)) if trace.entered is None else trace.entered
    return np.asarray(entered * used["module"] * call_cost(machine, FORWARD_CALL), dtype=np.float64)


def compiled_costs(trace: Trace, ops: Sequence[TracedOp], machine: Machine) -> Floats:
    """Seconds of host time of each kernel that compiled code launches for these ops."""
    used, each = defaults("call_factor"), call_cost(machine, FORWARD_CALL)
    if _trained(trace):
        return np.full(len(ops), each * used["compiled_training"])
    kinds = (call_kind(op.site.call.name) for op in ops)
    return np.array([each * used.get(f"compiled_{kind}", used["compiled_kernel"]) for kind in kinds], dtype=np.float64)


def graph_costs(trace: Trace, calls: Ints, machine: Machine) -> Floats:
    """Seconds of host time before each of the kernels that begin with these calls, for calling graphs, parameters and breaks.

    Half of what parameters cost is due before the first kernel, half before the last phase of the step.
    """
    costs, used = np.zeros(len(calls)), defaults("call_factor")
    if not len(calls):
        return costs
    each = call_cost(machine, FORWARD_CALL)
    phases = [op.site.phase for op in trace.ops]
    parameters = int((np.asarray(trace.buffers.holds) == HOLDS.index(GRADIENT)).sum())
    listed = trace.op.tolist()
    if not _trained(trace):
        costs[0] += used["compiled_call"] * checked_share(trace, used) * each
    last = next((call for call, place in enumerate(listed) if phases[place] == OPTIMIZER), 0)
    for call in (0, last):
        costs[_first(calls, call)] += parameters * used["compiled_parameter"] / 2 * each
    for call, place in enumerate(listed):
        if trace.ops[place].site.call.name == READ and phases[place] == FORWARD:
            costs[_first(calls, call)] += used["graph_break"] * each
    return costs


def checked_share(trace: Trace, factors: Factors) -> float:
    """Share of `compiled_call` that a program of few parameters takes: there is less to check and to hand over."""
    parameters = int((np.asarray(trace.buffers.holds) == HOLDS.index(PARAMETER)).sum())
    return min((parameters + factors["compiled_fixed"]) / factors["compiled_checked"], 1.0)


def _trained(trace: Trace) -> bool:
    return any(op.site.phase == BACKWARD for op in trace.ops)


def _first(calls: Ints, call: int) -> int:
    """The first kernel that does not begin before a call."""
    return int(np.argmax(calls >= call)) if (calls >= call).any() else len(calls) - 1


def call_kind(name: str) -> str:
    """Which multiple a launching call has."""
    plain = name.rpartition("::")[2].rstrip("_")
    if plain in PRODUCTS:
        return "product"
    return next((kind for kind, parts in KINDS.items() if any(part in plain for part in parts)), "operator")


def _backward(op: TracedOp, factors: Factors) -> float:
    """Of a call in the backward pass, as a multiple of `backward_call`."""
    if is_view(op):
        return factors["backward_view"]
    return factors["backward"] * factors[call_kind(op.site.call.name)] + _launches(op, factors)


def _forward(op: TracedOp, trained: bool, factors: Factors) -> float:
    """Of any other call, as a multiple of `eager_call`."""
    if op.kind == HOST:
        return factors["read"]
    if op.site.phase == OPTIMIZER:
        if is_view(op):
            return factors["optimizer_view"]
        return factors["optimizer"] + _listed(op) * factors["listed"] + _launches(op, factors)
    if is_view(op):
        return factors["view"]
    recorded = factors["recorded"] if trained else 1.0
    return recorded * factors[call_kind(op.site.call.name)] + _listed(op) * factors["listed"] + _launches(op, factors)


def _listed(op: TracedOp) -> int:
    """Tensors in the lists among the arguments."""
    return sum(_tensors(arg) for arg in op.site.call.args if isinstance(arg, tuple))


def _longest(op: TracedOp) -> int:
    """Tensors in the longest of these lists."""
    return max((_tensors(arg) for arg in op.site.call.args if isinstance(arg, tuple)), default=0)


def _tensors(items: Iterable[object]) -> int:
    return sum(isinstance(item, Tensor) for item in items)


def _launches(op: TracedOp, factors: Factors) -> float:
    """Of the kernels of a call beyond the first."""
    return _further(op) * factors["recurrent_launch" if RECURRENT in op.site.call.name else "launch"]


def _further(op: TracedOp) -> float:
    """Kernels of a call beyond the first."""
    if op.work is None:
        return 0.0
    launches = sum(np.max(np.asarray(step.work.waits.get("launch", 1.0) * step.count)) for step in op.work.steps)
    return max(float(launches) - 1.0, 0.0)
