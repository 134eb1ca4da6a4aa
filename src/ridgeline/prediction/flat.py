"""The flat form of an expected time: documented fractions of the ceilings, for work that no kernel formula covers.

    time = max over terms of amount / (ceiling x efficiency) + launch latency x launches

With measured ceilings the efficiency is 1, because the loss is already in the ceiling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.bound import Bound
from ..core.families import TimeItem
from ..core.work import Array
from ..machines.defaults import defaults


@dataclass(frozen=True)
class Efficiency:
    """The fraction of a ceiling that kernels reach, and where that fraction comes from."""

    value: float
    why: str


def efficiency(bound: Bound, name: str, given: float | None = None) -> Efficiency:
    """Of one term of a bound: the caller's, the library's, the machine's, else the default of the kind of ceiling."""
    term = bound.terms[name]
    if given is not None:
        return Efficiency(given, "given by the caller")
    library = bound.machine.efficiency.get(f"{bound.work.family}.{name}")
    if library is not None and library.measured is not None:
        return Efficiency(library.measured, library.measurement)
    if term.ceiling.kind == "measured":
        return Efficiency(1.0, "measured ceilings already contain the loss")
    known = bound.machine.efficiency.get(name)
    if known is not None and known.measured is not None:
        return Efficiency(known.measured, known.source)
    usual, of_memory = defaults("efficiency"), defaults("memory_efficiency")
    if term.side == "compute":
        return Efficiency(usual["compute"], "default for tuned kernels")
    if name in of_memory:
        return Efficiency(of_memory[name], f"default for {name.upper()}")
    if any(name == link.name for link in bound.machine.links):
        return Efficiency(usual["link"], "default for links")
    return Efficiency(usual["other"], "default for caches and other memory")


def flat_time(bound: Bound, given: float | None = None) -> Array:
    slowest: Array = 0.0
    for index, (name, term) in enumerate(bound.terms.items()):
        time = term.amount * (1 / (term.rate * efficiency(bound, name, given).value))
        slowest = time if index == 0 else np.maximum(slowest, time)
    return slowest + bound.launch * _launches(bound) if bound.launch else slowest


def flat_items(bound: Bound, flat: Array, time: Array) -> tuple[TimeItem, ...]:
    """Where an expected `time` goes whose flat form gives `flat`."""
    floor = np.minimum(bound.floor, flat)
    lost = np.maximum(time - bound.launch * _launches(bound) - floor, 0.0)
    return (
        TimeItem("floor", "main", floor),
        TimeItem("below the ceilings", "other", lost),
        TimeItem("launch", "launch", time - floor - lost),
    )


def _launches(bound: Bound) -> Array:
    return bound.work.waits.get("launch", 0.0)
