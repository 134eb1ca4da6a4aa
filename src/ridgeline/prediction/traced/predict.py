"""predict_trace: a traced program on a machine, run eagerly, as a captured graph, or compiled."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...core.errors import unknown
from ...core.machine import Machine
from ...core.trace import Trace
from ...machines.defaults import defaults
from ...machines.load import as_machine
from ..formats import trace_on
from ..host import graph_node_share
from ..queue import PAUSE, RUN, SYNC, Floats, Queue
from .cache import bytes_in_cache, last_level_cache
from .compiled import fused_plan
from .dispatch import compiled_costs, dispatch_cost, graph_costs, host_costs, module_costs
from .kernels import parts, predictions, run_times
from .memory import memory
from .plan import EAGER, FUSED, GRAPH, MODES, Plan, eager_plan, is_view, waits_for_device
from .power import least_time
from .result import ProgramPrediction

JAX = "jax"  # whose compiled functions are one launch of a graph
MAX_POWER_STEPS, POWER_TOLERANCE = 20, 1e-3  # until a step takes as long as the power limit asks for


def predict_trace(
    trace: Trace, machine: Machine | str | Path, mode: str = EAGER, ceilings: str | None = None
) -> ProgramPrediction:
    """How long a traced program takes on a machine, op by op, on the device and on the clock on the wall.

    `mode`: `eager` (every call dispatched by the host), `graph` (the same kernels replayed from a captured graph) or
    `fused` (as a compiler merges them); `ceilings`: stated, derived or measured figures, as of `predict`.
    """
    machine = as_machine(machine)
    if mode not in MODES:
        raise unknown("mode of a program", mode, MODES)
    trace = trace_on(trace, machine)
    plan, buffers = fused_plan(trace, machine) if mode == FUSED else (eager_plan(trace, machine), trace.buffers)
    made = predictions(plan, machine, ceilings)
    kernels = parts(made, machine)
    cache = last_level_cache(machine)
    hits = bytes_in_cache(plan, cache)
    times = run_times(plan, kernels, hits, cache)
    queue = _queue(trace, machine, plan, times * plan.times, mode)
    counts = np.bincount(plan.unit, plan.times, minlength=len(plan.units)).astype(np.float64)
    least = least_time(machine, made, counts, float((hits * plan.times).sum()))
    slowdown = 1.0
    for _ in range(MAX_POWER_STEPS):  # more than one where longer kernels first fill the time that the device waits
        longer = least - queue.wall()
        if longer <= POWER_TOLERANCE * least:
            break
        factor = 1 + longer / max(float((times * plan.times).sum()), 1e-30)
        times, slowdown = times * factor, slowdown * factor
        queue = queue.with_times((times * plan.times)[queue.runs])
    held = memory(trace, buffers)
    return ProgramPrediction(
        trace, machine, mode, plan, tuple(made), kernels, times, hits, queue, held, cache, slowdown
    )


def _queue(trace: Trace, machine: Machine, plan: Plan, times: Floats, mode: str) -> Queue:
    """The launches of the program in the order of the host.

    A loop's trips are one event of so many times the cost and the time. On a CPU the host runs the kernels itself.
    """
    units = plan.units
    kinds = np.array([PAUSE if is_view(unit.op) else SYNC if waits_for_device(unit.op) else RUN for unit in units])
    kind, on_host = kinds[plan.unit].astype(np.int64), machine.kind == "cpu"
    each = np.zeros(len(units)) if on_host else _unit_costs(trace, machine, plan, mode)
    cost = each[plan.unit] * plan.times
    if mode == EAGER and not on_host:
        cost = cost + module_costs(trace, machine)[plan.call] * plan.times
    if mode == GRAPH:
        cost[:1] = dispatch_cost(machine)  # of the replay
    if mode == FUSED and not on_host:
        if trace.framework == JAX:
            cost[:1] += defaults("executable")["call"]
        else:
            cost = cost + graph_costs(trace, plan.call, machine)
    gap = 0.0 if on_host else defaults("launch_gap").get(machine.kind, 0.0)
    delay = np.where(kind == RUN, gap * (graph_node_share(machine) if mode == GRAPH else 1.0), 0.0)
    if on_host:
        kind = np.where(kind == RUN, PAUSE, kind)
    count = len(plan)
    return Queue(kind, cost, times, delay, np.zeros(count, dtype=np.int64), np.arange(count, dtype=np.int64))


def _unit_costs(trace: Trace, machine: Machine, plan: Plan, mode: str) -> Floats:
    """Host seconds of each unit: nothing within a graph, a launch by compiled code, or the dispatch of a call."""
    if mode == GRAPH:
        return np.zeros(len(plan.units))
    if mode == FUSED:
        if trace.framework == JAX:
            return np.full(len(plan.units), defaults("executable")["kernel"])
        return compiled_costs(trace, [unit.op for unit in plan.units], machine)
    costs = host_costs(trace, machine)
    return np.array([costs[list(unit.ops)].sum() for unit in plan.units])
