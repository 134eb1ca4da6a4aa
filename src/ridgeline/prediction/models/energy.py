"""Energy: joules of a step, from energy per flop and byte and static power; and how long it takes at the power limit.

    energy of a step = flops x J/flop by engine + bytes of the main memory x J/B + static power x time
    least time       = (energy above static power) / (power limit - static power) x saved

Steps of a model follow each other without a pause, so that a device that would draw more than its limit lowers its clock; a
lower clock takes a little less energy for the same work (`saved`). Where a machine has no energy figures those of the
measured one with the same architecture serve; without either, the power limit times the time is the most it can take.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ...core.bound import Bound
from ...core.machine import Machine
from ...core.terms import Term
from ...core.work import Array
from ...machines.defaults import defaults
from ...machines.load import load
from .step import StepPrediction

USUAL = "flop.vector.fp32"  # for engines without a figure, whose arithmetic is a small part of a model's
MEASURED = {"hopper": "h200-sxm"}  # machines with energy figures, by architecture
OWN, OTHER, LIMIT = BASES = ("measured energy figures", "energy figures measured on {}", "at most: power limit x time")


@dataclass(frozen=True)
class EnergyFigures:
    """Joules per flop and byte, and watts."""

    values: Mapping[str, float | None]
    basis: str

    @property
    def static(self) -> float:
        return self.values.get("static") or 0.0

    def per_flop(self, engine: str) -> float:
        value = self.values.get(f"flop.{engine}")
        return (self.values.get(USUAL) or 0.0) if value is None else value

    def per_byte(self, machine: Machine) -> float:
        value = self.values.get(f"byte.{machine.main.name}")
        return self.values.get("byte.hbm") or 0.0 if value is None else value


def energy_figures(machine: Machine) -> EnergyFigures | None:
    if machine.energy:
        return EnergyFigures({name: figure.value() for name, figure in machine.energy.items()}, OWN)
    like = MEASURED.get(machine.architecture)
    if like is None:
        return None
    return measured_figures(like)


@cache
def measured_figures(name: str) -> EnergyFigures:
    """Those of a machine of the catalog; read once, since every step of every layout asks for them."""
    return EnergyFigures({key: figure.value() for key, figure in load(name).energy.items()}, OTHER.format(name))


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
    joules = work_energy(step, figures) + figures.static * np.asarray(time)
    return StepEnergy(joules if limit is None else np.minimum(joules, limit * np.asarray(time)), figures.basis)


def least_time(step: StepPrediction) -> Array:
    """Seconds of a step at the power limit, steps following each other; 0 where nothing is known of it."""
    figures, limit = energy_figures(step.machine), step.machine.tdp.value()
    if figures is None or limit is None or limit <= figures.static:
        return 0.0
    return work_energy(step, figures) / (limit - figures.static) * defaults("power")["saved"]


def _engines(bound: Bound) -> dict[str, Term]:
    return {name: term for name, term in bound.terms.items() if term.side == "compute"}
