"""The local machine: what the operating system and the driver say of CPU and GPUs, and the Machine that follows.

A device whose full name is in the catalog is that machine, as long as all of it is here; of a part of it (a few
cores of a big server, a slice of a GPU) only what its own counts and clocks give is claimed. Nothing is measured and
nothing guessed: a figure that cannot be determined is absent, and a note says so.
"""

from __future__ import annotations

import re

from ...core.errors import InputError
from ...core.machine import Machine
from .cpu import cpu_machine, find_cpu
from .device import NAME, Device
from .gpu import find_gpus, gpu_machine
from .system import System


def devices(system: System | None = None) -> list[Device]:
    """The CPU and every GPU there is, CPU first."""
    system = system or System()
    return [find_cpu(system), *find_gpus(system)[0]]


def machine_of(device: Device) -> Machine:
    """What may be claimed of a device."""
    return cpu_machine(device) if device.kind == "cpu" else gpu_machine(device)


def here(which: str | None = None, system: System | None = None) -> Machine:
    """The local machine: `cpu`, `gpu`, `gpu1`; without a choice the first GPU, else the CPU.

    Asking for a GPU initialises the CUDA driver in this process (no context); `here("cpu")` leaves it alone.
    """
    system = system or System()
    asked = (which or "").strip().lower()
    if asked == "cpu":
        return cpu_machine(find_cpu(system))
    gpus, remark = find_gpus(system)
    if not asked:
        return machine_of(gpus[0] if gpus else find_cpu(system))
    number = re.fullmatch(r"gpu([0-9]{0,6})", asked)
    if number and int(number[1] or 0) < len(gpus):
        return gpu_machine(gpus[int(number[1] or 0)])
    if number and not gpus:
        raise InputError(f"no GPU was found on this machine{': ' + remark if remark else ''}; {NAME}:cpu is its CPU")
    present = ", ".join(f"{device.address} ({device.name})" for device in [find_cpu(system), *gpus])
    raise InputError(
        f"'{NAME}:{which}' is not on this machine; there is {present}. Name one of these, or `{NAME}` alone for the first GPU, else the CPU."
    )
