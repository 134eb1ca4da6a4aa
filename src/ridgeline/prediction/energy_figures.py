"""Energy per flop and byte: those of a machine, or of the measured one with the same architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..core.machine import Machine
from ..machines.load import load
from ..machines.power import MEASURED, base

USUAL = "flop.vector.fp32"  # for engines without a figure, whose arithmetic is a small part of a model's
OWN, OTHER = "measured energy figures", "energy figures measured on {}"


@dataclass(frozen=True)
class EnergyFigures:
    """Joules per flop and byte."""

    values: Mapping[str, float | None]
    basis: str

    def per_flop(self, engine: str) -> float:
        value = self.values.get(f"flop.{engine}")
        return (self.values.get(USUAL) or 0.0) if value is None else value

    def per_byte(self, machine: Machine) -> float:
        value = self.values.get(f"byte.{machine.main.name}")
        return self.values.get("byte.hbm") or 0.0 if value is None else value


def energy_figures(machine: Machine) -> EnergyFigures | None:
    if machine.energy:
        return EnergyFigures({name: figure.value() for name, figure in machine.energy.items()}, OWN)
    like = MEASURED.get(base(machine.architecture))
    return None if like is None else measured_figures(like)


@cache
def measured_figures(name: str) -> EnergyFigures:
    """Those of a machine of the catalog; read once, since every step of every layout asks for them."""
    return EnergyFigures({key: figure.value() for key, figure in load(name).energy.items()}, OTHER.format(name))
