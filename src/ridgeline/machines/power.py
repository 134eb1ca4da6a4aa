"""Power of a board: what its limit leaves for arithmetic, and how much less energy the same work takes at the clock that it leaves.

    dynamic power per core   P ~ clock V^2
    energy per operation     E ~ V^2

Where voltage follows the clock as V^2 ~ clock, which is between a constant voltage (E constant, P ~ clock) and one in proportion to the
clock (E ~ clock^2, P ~ clock^3), P ~ clock^2 and E ~ sqrt(P). A board with half the power per core thus takes 0.71 of the
energy for the same work. Energies measured on an H200 say by this that an H100 PCIe (350 W, 114 cores) multiplies at 471 TFLOP/s
in bf16 and at 239 in tf32 without a pause; two cards of the kind were reported at 472 to 487 and 226 to 230 with the largest
products (github.com/zzc0721/torch-performance-test-data, issues 95 and 112). With constant energies it would be 359 and 182.
"""

from __future__ import annotations

from math import sqrt

from ..core.errors import MissingFigure
from ..core.machine import Machine
from .defaults import defaults

# Machines whose energy per operation was measured, by the architecture of those that it serves: others have other circuits.
MEASURED = {"hopper": "h200-sxm"}
# Tables of `defaults.toml` with the energy of products. Ada's was reported of boards with so little power that their voltage is the
# lowest, where a lower clock saves nothing: an L4 (1.2 W per core) and an L40S (2.5 W) agree on 1.03 pJ in bf16. So was Turing's (T4).
MATRIX_ENERGY = {"hopper": "matrix_energy_hopper", "ada": "matrix_energy_ada", "turing": "matrix_energy_turing"}
OTHER_HALF = {"bf16": "fp16"}  # whose kernels those of a format are lent to where a machine does only one of them
CORE_UNITS = ("sm", "cu", "xe_core", "gpu_core")  # vendors' names of the units that kernels' blocks are dealt to


def base(architecture: str) -> str:
    """`blackwell-ultra` is a blackwell."""
    return architecture.partition("-")[0]


def cores(machine: Machine) -> int | None:
    return next((machine.units[name] for name in CORE_UNITS if name in machine.units), None)


def saved(machine: Machine) -> float:
    """Energy of work at the clock that the power limit leaves, over that of the energy figures of the machine or of the one measured.

    More power per core than the measured machine has saves as little: the clock of its figures is no reason to expect a higher energy.
    """
    watts, count, figures = machine.tdp.value(), cores(machine), defaults("power")
    if machine.energy or not (watts and count):
        return figures["saved"]
    return figures["saved"] * min(1.0, sqrt(watts / count / figures["per_core"]))


def static(machine: Machine) -> float | None:
    """Watts that flow whatever the machine does: its own figure, else the measured share of its limit."""
    if machine.energy:
        figure = machine.energy.get("static")
        return None if figure is None else figure.value()
    watts = machine.tdp.value()
    return None if watts is None else watts * defaults("static_power")["share"]


def seconds_per_joule(machine: Machine) -> float:
    """Of work done again and again at the power limit, for its energy above static power; 0 where no limit is known, or none is left."""
    watts, idle = machine.tdp.value(), static(machine)
    if watts is None or idle is None or watts <= idle:
        return 0.0
    return saved(machine) / (watts - idle)


def powered(machine: Machine, dtype: str) -> float:
    """Share of the stated peak of products in a format that the power of the board pays for; 1 where it is not known to be short."""
    try:
        name = machine.engine("matrix", dtype)
    except MissingFigure:
        return powered(machine, OTHER_HALF[dtype]) if dtype in OTHER_HALF else 1.0
    peak, built = machine.peaks[name].stated or machine.peaks[name].value(), base(machine.architecture)
    energy = defaults("vector_energy").get(built) if name.startswith("vector.") else None
    if name.startswith("tensor.") and built in MATRIX_ENERGY:
        energy = defaults(MATRIX_ENERGY[built]).get(dtype.partition("_")[0])
        if energy is not None and built in MEASURED:
            energy *= saved(machine)
    watts = machine.tdp.value()
    if not (watts and energy and peak):
        return 1.0
    return min(1.0, watts * (1 - defaults("static_power")["share"]) / (energy * peak))
