"""Optimizers that update tensor by tensor, or in several passes over all of them: a fused one reads and writes each once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

import numpy as np

from ....core.timeline import OPTIMIZER
from ....core.units import show
from ....programs import ops
from ..groups import Group
from ..view import View
from .move import Move, expected, price_runs, sources

MIN_LAUNCHES = 4.0  # of an optimizer step, from which one fused kernel is worth a word
FUSED = "_fused_"
FOREACH = "_foreach_"
ADAM = ("addcdiv", "addcmul")  # operators that only Adam and its kin need


def loop(view: View) -> Iterator[Move]:
    """The elementwise kernels of the optimizer against one fused pass over parameters, gradients and states."""
    every = _groups(view)
    groups = [group for group in every if _is_update(group)]
    if any(FUSED in group.owner.name for group in every):
        return
    launches = sum(group.count * group.launches for group in groups)
    if view.kept.on_host or launches < MIN_LAUNCHES:
        return
    elements = _parameters(groups)
    if not elements:
        return
    adam = any(name in group.owner.name for group in groups for name in ADAM)
    fused = expected(view, ops.adamw(n=elements) if adam else ops.sgd(n=elements, momentum=len(_names(groups)) > 1))
    gain, device = _price(view, groups, fused)
    time = sum(group.time for group in groups)
    foreach = sum(group.time for group in groups if FOREACH in group.owner.name) > time / 2
    present = "foreach (several passes over all tensors)" if foreach else "one kernel per tensor and operation"
    kind = "AdamW" if adam else "SGD"
    evidence = (
        f"{launches:,.0f} launches and {show(time, 's', 3)} per step: {present}",
        f"{show(elements, '', 3)} parameters; a fused {kind} is expected to take {show(fused, 's', 3)}",
    )
    yield Move("optimizer", "unfused optimizer", "pass fused=True to the optimizer", gain, evidence, device=device,
               sources=sources(groups), items=tuple(group.name for group in groups[:4]))  # fmt: skip


def _groups(view: View) -> list[Group]:
    every = [item.group for item in view.items] + [item.group for item in view.uncounted]
    return [group for group in every if group.phase == OPTIMIZER]


def _is_update(group: Group) -> bool:
    """Elementwise passes over tensors; norms for clipping and checks for infinities are not part of the update."""
    name = group.owner.name.rpartition("::")[2]
    return group.owner.work is not None and group.owner.work.family == "stream" and "norm" not in name


def _names(groups: list[Group]) -> set[str]:
    return {group.owner.name for group in groups}


def _parameters(groups: list[Group]) -> float:
    """Elements that are updated: those of the operator that passes over most of them."""
    by_name: dict[str, float] = defaultdict(float)
    for group in groups:
        first = next(iter(group.owner.call.args), None)
        tensors = first if isinstance(first, tuple) else group.owner.call.tensors[:1]
        by_name[group.owner.name] += group.count * sum(prod(tensor.shape) for tensor in tensors)
    return max(by_name.values(), default=0.0)


def _price(view: View, groups: list[Group], fused: float) -> tuple[float, float]:
    """All runs of the groups disappear but the first of a step, which takes as long as the fused kernel."""
    runs = np.concatenate([group.runs for group in groups])
    first = [
        int(runs[view.kept.step[runs] == step].min())
        for step in range(view.steps)
        if (view.kept.step[runs] == step).any()
    ]
    changed = view.kept.time.copy()
    changed[first] = fused
    measured = sum(group.time for group in groups)
    if fused >= measured and view.regime == "device-bound":
        return 0.0, 0.0
    return price_runs(view, changed, np.setdiff1d(runs, first))
