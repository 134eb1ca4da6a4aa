"""Extended rooflines: energy per flop and byte, and attainable rate against the bytes that a device communicates."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.errors import MissingFigure
from ..core.machine import MAIN, Machine
from ..core.roofline import energy_balance
from ..programs import ops
from .ceilings import default_dtype, engine_for, usable_dtype
from .kernel_sets import PredictedKernel, predict_set

GBIT = 1e9 / 8  # B/s
NICS = {"100 Gbit/s NIC": 100 * GBIT, "400 Gbit/s NIC": 400 * GBIT}  # nominal rates of common network cards
TRAINING_TOKENS = 2**15  # of one step of data-parallel training, over all devices
DEVICE_COUNTS = (8, 64)


@dataclass(frozen=True)
class EnergyRoofline:
    """Energy of one flop and one byte (J), static power (W), and the rates that say how long static power runs."""

    machine: Machine
    engine: str
    level: str
    per_flop: float
    per_byte: float
    static: float
    peak: float
    bandwidth: float
    kernels: tuple[PredictedKernel, ...] = ()

    @property
    def balance(self) -> float:
        return energy_balance(self.per_flop, self.per_byte)

    def efficiency(self, intensity: NDArray[np.float64], static: bool = False) -> NDArray[np.float64]:
        """FLOP/J at an intensity; with static power the kernel is assumed to run at its roofline."""
        per_flop = self.per_flop + self.per_byte / intensity
        if static:
            per_flop = per_flop + self.static / np.minimum(self.peak, self.bandwidth * intensity)
        return np.asarray(1 / per_flop)

    def kernel_efficiency(self, kernel: PredictedKernel) -> float:
        """FLOP/J of a kernel at its expected time."""
        joules = kernel.flops * self.per_flop + kernel.bytes * self.per_byte + self.static * kernel.time
        return kernel.flops / joules


def energy(
    machine: Machine,
    dtype: str | None = None,
    per_flop: float | None = None,
    per_byte: float | None = None,
    static: float | None = None,
    ceilings: str | None = None,
) -> EnergyRoofline:
    """The energy figures of a machine, or those given, and a GEMM and a softmax at their expected times."""
    dtype = dtype or usable_dtype(machine, default_dtype(machine))
    engine, level = engine_for(machine, dtype, ceilings), machine.main.name
    figures = {name: figure.value() for name, figure in machine.energy.items()}
    per_flop = per_flop or figures.get(f"flop.{engine}")
    per_byte = per_byte or figures.get(f"byte.{level}")
    if not per_flop or not per_byte:
        missing = " and ".join(
            name for name, value in ((f"flop.{engine}", per_flop), (f"byte.{level}", per_byte)) if not value
        )
        raise MissingFigure(
            f"{machine.name} has no energy figure for {missing}; `ridgeline measure cuda` measures them on a GPU, "
            "h200-sxm has measured ones"
        )
    works = [ops.gemm(4096, 4096, 4096, dtype=dtype), ops.softmax(16384, 4096, dtype=dtype)]
    kernels = predict_set(machine, (("", work) for work in works), ceilings=ceilings).kernels
    peak, bandwidth = machine.peak(engine, ceilings).value, machine.bandwidth(MAIN, ceilings).value
    power = static if static is not None else figures.get("static") or 0.0
    return EnergyRoofline(machine, engine, level, per_flop, per_byte, power, peak, bandwidth, tuple(kernels))


@dataclass(frozen=True)
class CommunicationRoofline:
    """Links of a machine and nominal network cards, per direction (B/s), against one peak."""

    machine: Machine
    engine: str
    peak: float
    links: dict[str, float]
    training: dict[str, float]  # FLOP per byte sent by each device in data-parallel training
    carriers: dict[str, str]  # the link that carries it

    def ridge(self, link: str) -> float:
        return self.peak / self.links[link]


def data_parallel_intensity(tokens: float, devices: int, width: float) -> float:
    """FLOP per byte that a device sends in data-parallel training: 6 x parameters x tokens / devices over a ring all-reduce.

    A ring all-reduce sends 2 (N-1)/N of the gradient; gradients have `width` bytes per parameter.
    """
    return 3 * tokens / ((devices - 1) * width)


def data_parallel_limit(tokens: float, at_ridge: float, width: float) -> int:
    """The most devices of data-parallel training that stay compute-bound: 3 tokens / ((N-1) width) is at the ridge or above.

    The ridge is peak over link bandwidth, in flops per byte sent; one device sends nothing.
    """
    # one part in 1e12 keeps an exact whole answer from being rounded down by floating point
    return 1 + math.floor(3 * tokens / (at_ridge * width) * (1 + 1e-12))


def communication(machine: Machine, dtype: str | None = None, ceilings: str | None = None) -> CommunicationRoofline:
    """The links of the catalog and common network cards."""
    engine = engine_for(machine, dtype or default_dtype(machine), ceilings)
    rates = {link.name: link.per_direction.value() for link in machine.links}
    links = {name: rate for name, rate in rates.items() if rate}
    links |= {name: rate for name, rate in NICS.items() if rate not in links.values()}
    names = {count: f"data parallel, {count} devices" for count in DEVICE_COUNTS}
    training = {name: data_parallel_intensity(TRAINING_TOKENS, count, 2.0) for count, name in names.items()}
    carriers = {name: _carrier(machine, links, count) for count, name in names.items()}
    return CommunicationRoofline(machine, engine, machine.peak(engine, ceilings).value, links, training, carriers)


def _carrier(machine: Machine, links: dict[str, float], count: int) -> str:
    """The fastest link that joins so many devices; a network card joins any number."""
    reach = {link.name: link.devices or count for link in machine.links}
    return max((name for name in links if reach.get(name, count) >= count), key=lambda name: links[name])
