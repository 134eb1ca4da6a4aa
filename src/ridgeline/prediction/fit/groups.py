"""Timings by the kernels they are of: the sizes and seconds of every case of one family, op and dtype on one machine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.columns import Columns
from ...core.families import Family, Hardware, Key, formula, keys
from ...core.families.attention import WINDOW
from ...core.machine import Machine
from ...core.work import Kernel
from ...programs.cases import batches, refuse
from ..coefficients import in_cache, kernels
from ..hardware import hardware
from .least_squares import Vector


@dataclass(frozen=True)
class Group:
    """Timings of one family, op and dtype on one machine: sizes and seconds of every case."""

    family: Family
    hardware: Hardware
    sizes: Mapping[str, Vector]
    times: Vector

    def __len__(self) -> int:
        return len(self.times)

    def part(self, chosen: NDArray[np.bool_]) -> Group:
        sizes = {name: values[chosen] for name, values in self.sizes.items()}
        return replace(self, sizes=sizes, times=self.times[chosen])

    def joined(self, other: Group) -> Group:
        sizes = {name: np.concatenate([values, other.sizes[name]]) for name, values in self.sizes.items()}
        return replace(self, sizes=sizes, times=np.concatenate([self.times, other.times]))

    def formula_times(self, coefficients: Mapping[str, float]) -> Vector:
        return np.asarray(self.family.time(self.sizes, self.hardware, coefficients), dtype=np.float64)


def group(
    rows: Iterable[Mapping[str, Any]],
    machine: Machine,
    by_op: Callable[[Kernel], bool],
    without_variants: Collection[str] = (),
    resident: bool = False,
) -> dict[Key, Group]:
    """Rows of op, sizes and `time_us` by the key of their kernel; ops of several kernels are left out.

    `by_op` says which kernels have groups by op; families `without_variants` have one group for all their variants;
    `resident` that the operands were in the caches of a CPU.
    """
    listed = list(rows)
    calls, faults = batches(Columns.of_rows(listed))
    refuse(faults, "the timings")
    groups: dict[Key, Group] = {}
    for batch in calls:
        backend = batch.labels.get("backend", "")
        times = np.array([float(listed[place]["time_us"]) for place in batch.places]) * 1e-6
        work = batch.op(**batch.sizes, **batch.words)
        of_call = kernels(in_cache(work) if resident else work)
        if len(of_call) != 1:
            continue
        kernel = of_call[0]
        every = Key(kernel.family, kernel.dtype, op=kernel.op)
        known = hardware(machine, every.dtypes[0])
        if known is None:
            continue
        arrays = {
            name: np.broadcast_to(np.asarray(size, dtype=np.float64), times.shape)
            for name, size in kernel.sizes.items()
        }
        timed = Group(formula(every, machine.kind), known, arrays, times)
        alone = kernel.family in without_variants and not resident
        of_kernel = kernel.family, kernel.sizes, kernel.dtype, kernel.op
        for key, applies in [(every, 1.0)] if alone else keys(*of_kernel, machine.kind):
            apart = (
                by_op(kernel) or key.op == WINDOW
            )  # which has a kernel of its own where causal and full masks share one
            key = key._replace(op=key.op if apart else "", backend=backend)
            cases = np.broadcast_to(np.asarray(applies) > 0, times.shape)
            part = replace(timed, family=formula(key, machine.kind)).part(cases)
            groups[key] = groups[key].joined(part) if key in groups else part
    return groups


def thinned(groups: Sequence[Group], count: int) -> list[Group]:
    """About so many of the timings, spread evenly, or all where there are fewer."""
    step = max(sum(map(len, groups)) // count, 1)
    return [timed.part(np.arange(len(timed)) % step == 0) for timed in groups]


def by_hardware(groups: Sequence[Group]) -> list[Group]:
    """Groups of the same formula, hardware and sizes as one, because a formula takes as long for a few cases as for many."""
    parts: dict[tuple[Hardware, frozenset[str]], Group] = {}
    for timed in groups:
        key = timed.hardware, frozenset(timed.sizes)
        parts[key] = parts[key].joined(timed) if key in parts else timed
    return list(parts.values())
