"""Optimizers that update tensor by tensor, or in several passes over all of them: a fused one reads and writes each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

import numpy as np

from ....core.timeline import BACKWARD, OPTIMIZER, Tensor
from ....core.units import show
from ....prediction.queue import DEVICE_BOUND
from ....programs import ops
from ....programs.aten.optimizer import FUSED_TENSORS
from ....programs.aten.optimizer import launches as fused_launches
from ..groups import Group
from ..view import View
from .move import Move, expected, price_runs, sources

MIN_LAUNCHES = 4.0  # of an optimizer step, from which one fused kernel is worth a word
MIN_PASS = 0.5  # of the elements of the largest pass, from which a pass is one over all parameters
FUSED = "_fused_"
FOREACH = "_foreach_"
ADAM = ("addcdiv", "addcmul", "sqrt")  # operators that only Adam and its kin need
JAX_MIN_PASS = (
    0.05  # the same where JAX runs operation by operation: Adam has ten products and one square root per tensor
)
FUSE, JIT = "pass fused=True to the optimizer", "compile the update with the step (jax.jit, its buffers donated)"


def loop(view: View) -> Iterator[Move]:
    """The elementwise kernels of the optimizer against one fused pass over parameters, gradients and states."""
    every = _groups(view)
    groups = [group for group in every if _is_update(group)]
    launches = sum(group.count * group.launches for group in groups)
    if launches < MIN_LAUNCHES or any(FUSED in group.owner.name for group in every):
        return
    sizes = _parameters(view, groups)
    elements = float(sum(sizes))
    if not elements:
        return
    adam = any(name in group.owner.name for group in groups for name in ADAM)
    fused = expected(view, ops.adamw(n=elements) if adam else ops.sgd(n=elements, momentum=len(_names(groups)) > 1))
    time = sum(group.time for group in groups)
    pieces = int(fused_launches(sizes, 4 if adam else 3, FUSED_TENSORS))
    gain, device = _price(view, groups, fused, pieces)
    foreach = sum(group.time for group in groups if FOREACH in group.owner.name) > time / 2
    present = "foreach (several passes over all tensors)" if foreach else "one call per tensor and operation"
    kind = "AdamW" if adam else "SGD"
    evidence = (
        f"{launches:,.0f} {'calls' if view.kept.on_host else 'launches'} and {show(time, 's', 3)} per step: {present}",
        f"{show(elements, '', 3)} parameters; a fused {kind} is expected to take {show(fused, 's', 3)}",
    )
    yield Move("optimizer", "unfused optimizer", JIT if view.uses_jax else FUSE, gain, evidence, device=device,
               sources=sources(groups), items=tuple(group.name for group in groups[:4]))  # fmt: skip


def _groups(view: View) -> list[Group]:
    every = [item.group for item in view.items] + [item.group for item in view.uncounted]
    groups = [group for group in every if group.phase == OPTIMIZER]
    if view.uses_jax:  # what is compiled with the gradients is fused as far as it can be
        compiled = {site.modules[:1] for group in every if group.phase == BACKWARD for site in group.sites}
        groups = [group for group in groups if not compiled & {site.modules[:1] for site in group.sites}]
    return groups


def _is_update(group: Group) -> bool:
    """Elementwise passes over tensors; norms for clipping and checks for infinities are not part of the update."""
    name = group.owner.name.rpartition("::")[2]
    return group.owner.work is not None and group.owner.work.family == "stream" and "norm" not in name


def _names(groups: list[Group]) -> set[str]:
    return {group.owner.name for group in groups}


def _parameters(view: View, groups: list[Group]) -> list[int]:
    """Elements of every tensor that is updated: the gradients of the step, else the tensors of one pass over them."""
    if view.kept.timeline.gradients:
        return [prod(tensor.shape) for tensor in view.kept.timeline.gradients]
    by_name: dict[str, list[int]] = defaultdict(list)
    for group in groups:
        first = next(iter(group.owner.call.args), None)
        listed = first if isinstance(first, tuple) else group.owner.call.tensors[:1]
        if view.uses_jax:  # operands in any order, scalars among them
            listed = (max(group.owner.call.tensors, key=lambda tensor: prod(tensor.shape)),)
        sizes = [prod(tensor.shape) for tensor in listed if isinstance(tensor, Tensor)]
        by_name[group.owner.name] += sizes * max(round(group.count), 1)
    least = (JAX_MIN_PASS if view.uses_jax else MIN_PASS) * max(map(sum, by_name.values()), default=0)
    passes = [sizes for sizes in by_name.values() if sum(sizes) >= least]
    return min(passes, key=sum, default=[])


def _price(view: View, groups: list[Group], fused: float, pieces: int) -> tuple[float, float]:
    """All runs of the groups disappear but the first ones of a step, which are the launches of the fused optimizer."""
    runs = np.sort(np.concatenate([group.runs for group in groups]))
    changed, stay = view.kept.time.copy(), []
    for step in range(view.steps):
        first = runs[view.kept.step[runs] == step][:pieces]
        changed[first] = fused / max(len(first), 1)
        stay += first.tolist()
    if fused >= sum(group.time for group in groups) and view.regime == DEVICE_BOUND:
        return 0.0, 0.0
    gain, device = price_runs(view, changed, np.setdiff1d(runs, stay))
    if not view.kept.on_host:
        return gain, device
    # recording makes small operators of a CPU longer, which a fused one does not save without the profiler
    priced = {item.group: item.predicted for item in view.items}
    saved = min(device, max(sum(priced.get(group, group.time) for group in groups) - fused, 0.0))
    return gain - (device - saved), saved
