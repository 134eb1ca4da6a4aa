"""Timed cases grouped by the key their coefficients are kept under, as arrays that a formula takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.errors import InputError
from ...core.families import Family, Hardware, Key, formula, keys
from ...core.machine import Machine
from ...core.work import Kernel
from ...programs.cases import batches
from ..coefficients import hardware, kernels
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
        return replace(
            self, sizes={name: values[chosen] for name, values in self.sizes.items()}, times=self.times[chosen]
        )

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
) -> dict[Key, Group]:
    """Rows of op, sizes and `time_us` by the key of their kernel; ops of several kernels are left out.

    `by_op` says which kernels have groups by op; families `without_variants` have one group for all their variants.
    """
    listed = list(rows)
    calls, faults = batches(listed)
    for place, why in faults.items():
        raise InputError(f"row {place + 1}, {why}")
    groups: dict[Key, Group] = {}
    for batch in calls:
        backend = batch.labels.get("backend", "")
        times = np.array([float(listed[place]["time_us"]) for place in batch.places]) * 1e-6
        of_call = kernels(batch.op(**batch.sizes, **batch.words))
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
        timed = Group(formula(kernel.family), known, arrays, times)
        alone = kernel.family in without_variants
        for key, applies in [(every, 1.0)] if alone else keys(kernel.family, kernel.sizes, kernel.dtype, kernel.op):
            key = key._replace(op=key.op if by_op(kernel) else "", backend=backend)
            part = replace(timed, family=formula(key.family)).part(
                np.broadcast_to(np.asarray(applies) > 0, times.shape)
            )
            groups[key] = groups[key].joined(part) if key in groups else part
    return groups
