"""What the host makes the device wait for: synchronisations, launches, data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....core.units import percent, show
from ....prediction.queue import PAUSE, RUN, SYNC, Queue, saved
from ..idle import DATA, LAUNCH, Waited
from ..queue import is_data_wait
from ..view import View
from .move import Move

MIN_LAUNCH_SHARE = 0.03  # of the step that the device waits for launches, from which these are a cause
MAX_NAMED = 3
GRAPH = "capture a CUDA graph, or torch.compile(mode='reduce-overhead')"
JIT = "compile the entire step with jax.jit, with the buffers it replaces donated (donate_argnums)"


def synchronisations(view: View) -> Iterator[Move]:
    """Waits of the host for the device, by line: without them the host launches ahead."""
    queue = view.unrecorded
    for wait in view.waits:
        if is_data_wait(wait.operator) or view.kept.on_host or wait.idle <= 0:
            continue
        gain = saved(queue, _without(queue, wait, SYNC))
        evidence = (
            f"{wait.through} calls per step: {wait.count:.3g}, {show(wait.time, 's', 3)} of waiting",
            f"device idle {show(wait.idle, 's', 3)} right after it",
        )
        cause = f"host synchronisation in the step: {wait.name}"
        move = "read results back once every many steps, or without blocking"
        yield Move("synchronisation", cause, move, gain, evidence, sources=(wait.source,) if wait.source else ())


def _without(queue: Queue, wait: Waited, kind: int) -> Queue:
    return queue.without((queue.kind == kind) & np.isin(queue.place, wait.waits))


def launch_train(view: View) -> Iterator[Move]:
    """Kernels that end before the next one is launched: a graph replays all of them with one launch."""
    if view.kept.on_host or view.host_bound_share < MIN_LAUNCH_SHARE or view.kept.graph.all():
        return
    queue = view.unrecorded
    launches = queue.kind == RUN
    cost = np.where(launches, 0.0, queue.cost)
    cost[np.flatnonzero(launches)[0]] = view.dispatch or 0.0
    gain = saved(queue, replace(queue, cost=cost))
    short = float(np.median(queue.time[launches]))
    each = f", one every {show(view.dispatch, 's', 2)}" if view.dispatch else ""
    evidence = (
        f"device idle {show(view.idle_causes[LAUNCH], 's', 3)} ({percent(view.host_bound_share)} of the step) waiting for launches",
        f"{view.launches:,.0f} launches per step{each}; median kernel {show(short, 's', 2)}",
        f"without {show(view.recording, 's', 2)} per step that recording took",
    )
    move = JIT if view.uses_jax else GRAPH
    yield Move("launch train", "the device runs dry between launches", move, gain, evidence)


def data_stalls(view: View) -> Iterator[Move]:
    """Waits of the host for the next batch."""
    queue = view.unrecorded
    waits = [wait for wait in view.waits if is_data_wait(wait.operator)]
    if not waits:
        return
    time = sum(wait.time for wait in waits)
    waiting = f"the host waits {show(time, 's', 3)} per step for the next batch"
    if view.kept.on_host:  # what loads the batch runs in the program itself; workers run it beside the step
        gain, move = time, "load ahead in other processes: DataLoader(num_workers=...)"
        evidence = (waiting, f"operators take {show(view.device, 's', 3)} of the step")
    else:
        places = [place for wait in waits for place in wait.waits]
        gain = saved(queue, queue.without((queue.kind == PAUSE) & np.isin(queue.place, places)))
        evidence = (waiting, f"device idle {show(view.idle_causes[DATA], 's', 3)} meanwhile")
        move = "load ahead: more DataLoader workers, pin_memory, prefetch_factor"
    sources = tuple(dict.fromkeys(wait.source for wait in waits if wait.source))
    yield Move("data loader", "data-loader stall", move, gain, evidence, sources=sources[:MAX_NAMED])
