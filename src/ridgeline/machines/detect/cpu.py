"""The CPU of this machine: what its system says of it, and the Machine that follows."""

from __future__ import annotations

from dataclasses import replace

from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.notes import NOT_DETECTED, Note
from ...core.units import counted
from ..files import by_driver_name
from .cores import derived_peaks, offered
from .device import NAME, Device, memory_level
from .linux import linux_cpu
from .macos import macos_cpu
from .system import System


def find_cpu(system: System) -> Device:
    if system.platform.startswith(("linux", "android")):
        device = linux_cpu(system)
    elif system.platform == "darwin":
        device = macos_cpu(system)
    else:
        device = _other_cpu(system)
    matched, remark = by_driver_name(device.name, "cpu") if device.named else (None, "")
    return replace(device, matched=matched, notes=device.notes + ((remark,) if remark else ()))


def _other_cpu(system: System) -> Device:
    """Windows and the rest: only what Python itself knows."""
    arch, processor = system.architecture(), system.processor()
    size = system.memory()
    unknown = "the number of cores (only of threads), caches, vector width, clock" + ("" if size else ", memory size")
    return Device(
        "cpu", "cpu", " ".join(processor.split()) or f"unknown {arch} CPU".replace("  ", " "),
        units={"thread": system.count() or 1}, named=bool(processor.strip()), levels=(memory_level(size, "physical pages the system reports"),),
        notes=(f"On {system.platform} this is not known without further tools: {unknown}.",),
    )  # fmt: skip


# -- the machine made of it ------------------------------------------------------------------------------------


def cpu_machine(device: Device) -> Machine:
    """The catalog machine where all of it is here, else what the counts and clocks of this CPU give."""
    chip = device.matched
    if chip is not None:
        chip_cores, cores, sockets = chip.units.get("core"), device.units.get("core", 0), device.units.get("socket", 1)
        if chip_cores and cores == chip_cores * sockets and device.quota is None:
            return _complete_cpu(device, chip, sockets)
        have = counted(cores, "core") + (f" ({device.quota:g} CPUs' worth of time)" if device.quota else "")
        reason = (
            f"it has {chip_cores} cores, here {'is' if cores == 1 else 'are'} {have}"
            if chip_cores
            else "its file gives no core count to check against"
        )
        about = f"By its name this is {chip.name} ({chip.title}), but {reason}; its peaks and bandwidths are not used."
    elif device.named:
        about = f"No CPU in the catalog has the name '{device.name}'."
    else:
        about = "The system tells no model name, so it cannot be looked up in the catalog."
    peaks, notes, core = derived_peaks(device)
    about_bandwidth = (
        "Memory and cache bandwidth cannot be read off a machine; "
        "`ridgeline measure cpu` measures them, or give --bandwidth."
    )
    simd = {"simd_bits": device.simd_bits} if device.simd_bits else {}
    return Machine(
        NAME, device.name, device.vendor, "cpu", chip.architecture if chip else core, units={**device.units, **simd},
        clocks=device.clocks, peaks=peaks, levels=device.levels, notes=(about, *device.notes, *notes, Note(NOT_DETECTED, about_bandwidth)),
    )  # fmt: skip


def _complete_cpu(device: Device, chip: Machine, sockets: int) -> Machine:
    """The catalog machine, once per socket, without what the system does not offer, with the memory that is installed."""
    notes = [f"Matched to {chip.name} in the catalog by its name, '{device.name}'; core count checked."]
    hidden = sorted(peak for peak in chip.peaks if not offered(peak, device))
    if hidden:
        notes.append(
            f"The chip can do {', '.join(hidden)}, but the instructions are not offered here, so these peaks are left out."
        )
    peaks = {name: figure for name, figure in chip.peaks.items() if name not in hidden}
    levels = chip.levels
    if sockets > 1:
        notes.append(
            f"{sockets} sockets: peaks, bandwidths and caches are {sockets} times those of one, with all memory channels filled and used locally."
        )
        peaks = {name: _times(figure, sockets) for name, figure in peaks.items()}
        levels = tuple(_level_of_all(level, sockets) for level in levels)
    installed = next((level.capacity for level in device.levels[-1:] if level.capacity.value()), None)
    if installed and levels:
        levels = (*levels[:-1], replace(levels[-1], capacity=installed, instances=1))
    units, remarks = {**chip.units, **device.units}, (*notes, *device.notes, *chip.notes)
    return replace(chip, name=NAME, units=units, peaks=peaks, levels=levels, notes=remarks)


def _times(figure: Figure, sockets: int) -> Figure:
    """A figure of several sockets: derived, because no vendor states it."""
    value = figure.value()
    if value is None:
        return figure
    how = f"{sockets} sockets x ({figure.why() or figure.source})"
    return Figure(figure.unit, derived=value * sockets, source=figure.source, derivation=how)


def _level_of_all(level: Level, sockets: int) -> Level:
    scope, bandwidth = "group" if level.scope == "chip" else level.scope, _times(level.bandwidth, sockets)
    return replace(level, instances=level.instances * sockets, scope=scope, bandwidth=bandwidth)
