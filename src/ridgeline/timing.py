"""Expected time of a step: how near its roof kernels of its family come, plus the launch floor.

    time = max over terms of amount / (ceiling x efficiency) + launch latency x launches

The efficiencies here are flat, documented fractions: those the machine file carries from public measurements,
else the defaults below. They are marked `family default` in every result. With measured ceilings the
efficiency is 1, because the loss is already in the ceiling, unless the family's own library was measured too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .machine import Machine
from .roofline import Bound
from .work import Array

# The usual landing place of tuned kernels (they spread over 0.65 to 0.85 of the stated roof).
COMPUTE = 0.78
# Streaming kernels by memory technology, and links (public benchmark collections, see docs/model.md).
MEMORY = {"hbm": 0.85, "gddr": 0.92, "ddr": 0.80, "lpddr": 0.80}
LINK = 0.82
OTHER = 0.80

# Shortest kernel on a GPU, seen as the floor of replayed graphs of small GEMMs; other kinds of machine publish nothing.
LAUNCH = {"gpu": 2.5e-6}
BASIS = "family default, not calibrated"
MEASURED = "measured ceilings, kernel families not calibrated"
GIVEN = "efficiency given by the caller"


@dataclass(frozen=True)
class Efficiency:
    value: float
    why: str


def launch_latency(machine: Machine) -> float:
    """Seconds a kernel takes however little it does: the machine's own figure, else the default of its kind."""
    known = machine.launch.value()
    return LAUNCH.get(machine.kind, 0.0) if known is None else known


def efficiency(bound: Bound, name: str, given: float | None = None) -> Efficiency:
    """The fraction of a ceiling that kernels reach, and where that fraction comes from."""
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
    if term.side == "compute":
        return Efficiency(COMPUTE, "default for tuned kernels")
    if name in MEMORY:
        return Efficiency(MEMORY[name], f"default for {name.upper()}")
    if any(name == link.name for link in bound.machine.links):
        return Efficiency(LINK, "default for links")
    return Efficiency(OTHER, "default for caches and other memory")


def basis(bound: Bound, given: float | None = None) -> str:
    """What an expected time rests on."""
    if given is not None:
        return GIVEN
    return MEASURED if bound.kinds == "measured" else BASIS


def expected(bound: Bound, given: float | None = None) -> Array:
    """Expected device time in seconds."""
    slowest: Array = 0.0
    for index, (name, term) in enumerate(bound.terms.items()):
        time = term.amount * (1 / (term.rate * efficiency(bound, name, given).value))
        slowest = time if index == 0 else np.maximum(slowest, time)
    launches = bound.work.waits.get("launch", 0.0)
    return slowest + bound.launch * launches if bound.launch else slowest
