"""Many steps of one case each, evaluated as if they were one step of many cases.

A prediction asks each formula about a dozen times per kernel, and for a single case the time is mostly that of calling
numpy. Kernels that differ only in their sizes are put into one kernel with arrays of sizes; what it answers is kept in each
of them, as if it had been asked alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.work import Array, Kernel
from .asked import Asked
from .coefficients import kernels
from .expected import Expected
from .kernel_times import KernelTime, of_kernel

Times = tuple[tuple[KernelTime, ...], Array]


def evaluate_together(steps: Iterable[Expected]) -> None:
    """Find the coefficients of many steps and evaluate their formulas; sweeps are left to themselves."""
    listed = list(steps)
    _cover(listed)
    groups: dict[Any, list[KernelTime]] = defaultdict(list)
    for time in (time for step in listed for time in step.kernels):
        if time.asked.launch is None and isinstance(time.applies, float) and _is_one_case(time.kernel):
            groups[_alike(time)].append(time)
    for group in groups.values():
        _evaluate(group)


def _is_one_case(kernel: Kernel) -> bool:
    return all(isinstance(size, float | int) or np.ndim(size) == 0 for size in kernel.sizes.values())


def _arrays(group: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {name: np.array([float(np.asarray(sizes[name])) for sizes in group]) for name in group[0]}


# -- coefficients ---------------------------------------------------------------------------------------------------


def _cover(steps: Sequence[Expected]) -> None:
    """The coefficients of steps of one kernel, which the variants decide that its sizes belong to."""
    groups: dict[Any, list[tuple[Expected, Kernel]]] = defaultdict(list)
    for step in steps:
        if step.flat or step.given_efficiency is not None or "_coverage" in step.__dict__:
            continue
        made = kernels(step.bound.work)
        if len(made) == 1 and _is_one_case(made[0]):
            kernel = made[0]
            names = kernel.family, kernel.op, kernel.dtype, kernel.like, kernel.unusual, tuple(kernel.sizes)
            groups[(*names, id(step.bound.machine), step.backend, step.given_launch)].append((step, kernel))
    for group in groups.values():
        step, kernel = group[0]
        asked = Asked(step.bound.machine, step.backend, step.given_launch)
        times, uncovered = of_kernel(replace(kernel, sizes=_arrays([each.sizes for _, each in group])), asked)
        applies = [np.broadcast_to(time.applies, len(group)).tolist() for time in times]
        missing = np.broadcast_to(uncovered, len(group)).tolist()
        for place, (step, kernel) in enumerate(group):
            served = zip(times, applies, strict=True)
            alone = [replace(time, kernel=kernel, applies=1.0) for time, where in served if where[place]]
            # the formulas give the time of a case that they all serve, or none of it
            step.__dict__["_coverage"] = ((), 1.0) if missing[place] else (tuple(alone), 0.0)


# -- times ----------------------------------------------------------------------------------------------------------


def _alike(time: KernelTime) -> Any:
    """Equal for kernels that have the same formula, coefficients and corrections."""
    kernel, selected, asked = time.kernel, time.selected, time.asked
    names = kernel.family, kernel.op, kernel.dtype, kernel.like, kernel.unusual, tuple(kernel.sizes)
    chosen = id(selected.fitted), selected.key, selected.label, selected.doubt
    return names, chosen, time.hardware, id(asked.machine), asked.backend, asked.padded, tuple(time.scale.items())


def _evaluate(group: Sequence[KernelTime]) -> None:
    first = group[0]
    joint = replace(first, kernel=replace(first.kernel, sizes=_arrays([time.kernel.sizes for time in group])))
    effects = joint.effects
    seconds = [_listed(item.seconds, len(group)) for item in effects]
    fields = ("_formula", "_correction", "_saved", "low", "distance")
    values = [_listed(getattr(joint, name), len(group)) for name in fields]
    for place, time in enumerate(group):
        kept = time.__dict__
        kept["effects"] = tuple(replace(item, seconds=row[place]) for item, row in zip(effects, seconds, strict=True))
        for name, row in zip(fields, values, strict=True):
            kept[name] = row[place]


def _listed(values: Array, count: int) -> list[float]:
    listed: list[float] = np.broadcast_to(np.asarray(values, dtype=np.float64), count).tolist()
    return listed
