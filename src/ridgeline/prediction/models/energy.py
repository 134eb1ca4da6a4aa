"""Energy: joules of a step, from energy per flop and byte and static power; and how long it takes at the power limit.

    energy of a step = flops x J/flop by engine + bytes of the main memory x J/B + static power x time, at most power limit x time
    least time       = (energy above static power) / (power limit - static power) x saved

Steps of a model follow each other without a pause, so that a device that would draw more than its limit lowers its clock; a
lower clock takes less energy for the same work (`saved`, machines/power.py). Where a machine has no energy figures those of the
measured one with the same architecture serve; without either, the power limit times the time is the most it can take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...core.bound import Bound
from ...core.terms import Term
from ...core.work import Array
from ...machines.power import seconds_per_joule, static
from ..energy_figures import EnergyFigures, energy_figures
from .step import StepPrediction

LIMIT = "at most: power limit x time"


@dataclass(frozen=True)
class StepEnergy:
    """Joules of one device in one step, and what they rest on."""

    joules: Array
    basis: str

    DOCUMENT: ClassVar = ("joules", "basis")


def work_energy(step: StepPrediction, figures: EnergyFigures) -> Array:
    """Joules above static power."""
    per_byte = figures.per_byte(step.machine)
    joules: Array = 0.0
    for item in step.ops:
        for part, bound in zip(item.prediction.steps, item.prediction.bounds, strict=True):
            each = np.asarray(bound.work.bytes) * per_byte
            for name, term in _engines(bound).items():
                each = each + np.asarray(term.amount) * figures.per_flop(name)
            joules = joules + each * part.count * item.op.count
    return joules


def step_energy(step: StepPrediction, time: Array) -> StepEnergy | None:
    """Of a step that takes `time` with everything; None where the machine states no power at all."""
    figures, limit = energy_figures(step.machine), step.machine.tdp.value()
    if figures is None:
        return None if limit is None else StepEnergy(limit * np.asarray(time), LIMIT)
    joules = work_energy(step, figures) + (static(step.machine) or 0.0) * np.asarray(time)
    return StepEnergy(joules if limit is None else np.minimum(joules, limit * np.asarray(time)), figures.basis)


def least_time(step: StepPrediction) -> Array:
    """Seconds of a step at the power limit, steps following each other; 0 where nothing is known of it."""
    figures = energy_figures(step.machine)
    return 0.0 if figures is None else work_energy(step, figures) * seconds_per_joule(step.machine)


def _engines(bound: Bound) -> dict[str, Term]:
    return {name: term for name, term in bound.terms.items() if term.side == "compute"}
