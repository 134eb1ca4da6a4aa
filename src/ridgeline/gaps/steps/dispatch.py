"""Operators of a CPU that are too small for threads: they take the time of a dispatch and of the work on one core.

    time = tensors x dispatch + floor x cores

So do they where library kernels of the machine were never timed with operands in cache, and foreach operators, which on a
CPU are loops over their tensors, each dispatched once. Dispatch is what the views of the same recording take, which do
nothing else, so that it includes the cost of recording.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from ...core.machine import Machine
from ...core.statistics import median
from ...core.timeline import Tensor
from ..target import Target
from .groups import Group
from .owners import FREE

GRAIN = 32768  # elements that PyTorch gives a thread at least
SMALL_FAMILIES = ("stream", "rows", "reduce")
INTERVAL = (0.5, 2.0)  # of the time of a small operator: they differ in what they check before they compute


def dispatch_time(groups: Iterable[Group]) -> float | None:
    """Seconds that dispatching an operator takes: the median view; None without any."""
    views = [group for group in groups if group.owner.kind == FREE]
    each = [sample for group in views for sample in group.samples]
    return median(each) if each else None


def is_small(group: Group) -> bool:
    """Whether every tensor of an elementwise operator, a reduction or a norm is less than a thread's share."""
    work = group.owner.work
    if work is None or work.family not in SMALL_FAMILIES:
        return False
    sizes = [prod(tensor.shape) for tensor in group.owner.call.tensors]
    return bool(sizes) and max(sizes) < GRAIN


def loops(group: Group) -> bool:
    """Whether the operator loops over several tensors."""
    return _tensors(group) > 1


def with_dispatch(side: Target, group: Group, machine: Machine, dispatch: float) -> Target:
    """The target of a small operator."""
    cores = machine.units.get("core") or machine.units.get("thread") or 1
    time = _tensors(group) * dispatch + side.floor * cores
    low, high = (time * end for end in INTERVAL)
    return replace(side, time=time, low=low, high=high)


def _tensors(group: Group) -> int:
    """Tensors that the operator loops over: those of its longest list, else one."""
    lists = [arg for arg in group.owner.call.args if isinstance(arg, tuple)]
    return max((sum(isinstance(item, Tensor) for item in arg) for arg in lists), default=0) or 1
