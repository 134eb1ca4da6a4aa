"""Whether a working set fits the main memory of a machine, and the sentence where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np

from .machine import Machine
from .units import show
from .work import Array


def _capacity(machine: Machine) -> float | None:
    return machine.levels[-1].total if machine.levels else None


def fits(footprint: Array, machine: Machine) -> Any:
    """Yes or no for every case; None where the capacity is not known."""
    capacity = _capacity(machine)
    if capacity is None:
        return None
    fitting = np.asarray(footprint) <= capacity
    return fitting if fitting.ndim else bool(fitting)


def shortage(footprint: Array, machine: Machine) -> str:
    """`does not fit: needs 103 GB, l4 has 24.2 GB`; of a sweep also how many cases; nothing where all fit."""
    capacity, fitting = _capacity(machine), fits(footprint, machine)
    if capacity is None or np.all(fitting):
        return ""
    sizes, has = np.ravel(footprint), f"{machine.name} has {show(capacity, 'B', 3)}"
    if sizes.size == 1:
        return f"does not fit: needs {show(float(sizes[0]), 'B', 3)}, {has}"
    short = np.count_nonzero(~fitting)
    return f"{short:,} of {sizes.size:,} cases do not fit: they need up to {show(float(sizes.max()), 'B', 3)}, {has}"
