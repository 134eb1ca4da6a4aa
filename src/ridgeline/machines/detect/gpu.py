"""The GPUs of this machine, as the CUDA driver or macOS reports them, and the Machine that follows for each."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.notes import NOT_DETECTED, Note
from ...core.units import show
from ..files import by_driver_name
from .device import NAME, REPORTED, Device, memory_level, rate_of, read_table, reported, source_of
from .system import System

MIN_MEMORY_SHARE = 0.85  # a GPU that shows less of its memory than this is a slice; ECC and the driver take far less

# CUDA driver API, enum CUdevice_attribute.
ATTRIBUTES = {
    "clock": 13, "sm": 16, "integrated": 18, "ecc": 32, "pci_bus": 33, "pci_device": 34, "memory_clock": 36, "bus": 37, "l2": 38, "pci_domain": 50,
    "major": 75, "minor": 76, "shared_per_sm": 81, "registers_per_sm": 82, "shared_per_block": 97,
}  # fmt: skip
NO_DEVICE = 100


def find_gpus(system: System) -> tuple[list[Device], str]:
    """All GPUs, and why there is none where the driver says."""
    if system.platform == "darwin":
        return _apple_gpus(system), ""
    return _nvidia_gpus(system)


def _call(library: Any, name: str, *arguments: Any) -> int:
    """The CUresult of a driver call; -1 for a function this driver lacks."""
    try:
        return int(getattr(library, name)(*arguments))
    except (AttributeError, OSError, TypeError, ValueError, ctypes.ArgumentError):
        return -1


def _nvidia_gpus(system: System) -> tuple[list[Device], str]:
    names = ("nvcuda.dll",) if system.platform == "win32" else ("libcuda.so.1", "libcuda.so")
    driver = system.library(*names)
    if driver is None:
        return [], "no NVIDIA driver is installed"
    status, count = _call(driver, "cuInit", 0), ctypes.c_int(0)
    if status not in (0, NO_DEVICE):
        return [], f"the NVIDIA driver answered error {status} to cuInit"
    if status == 0 and _call(driver, "cuDeviceGetCount", ctypes.byref(count)) != 0:
        count.value = 0
    devices = [device for index in range(min(count.value, 1024)) if (device := _nvidia_gpu(driver, index))]
    return devices, "" if devices else "the NVIDIA driver sees no device"


def _nvidia_gpu(driver: Any, index: int) -> Device | None:
    handle, text, size = ctypes.c_int(0), ctypes.create_string_buffer(256), ctypes.c_size_t(0)
    if _call(driver, "cuDeviceGet", ctypes.byref(handle), index) != 0:
        return None
    if _call(driver, "cuDeviceGetName", text, 256, handle) != 0:
        return None
    name = " ".join(text.value.decode("utf-8", "replace").split())
    memory = size.value if _call(driver, "cuDeviceTotalMem_v2", ctypes.byref(size), handle) == 0 else 0
    attributes: dict[str, int] = {}
    for key, number in ATTRIBUTES.items():
        value = ctypes.c_int(0)
        if _call(driver, "cuDeviceGetAttribute", ctypes.byref(value), number, handle) == 0:
            attributes[key] = value.value

    def figures(**wanted: tuple[str, str, float]) -> dict[str, Figure]:
        """Figures by name, of an attribute, its unit and factor; absent where the driver gives none."""
        return {
            name: reported(attributes[key] * factor, unit, f"CUDA driver, device attribute {ATTRIBUTES[key]}")
            for name, (key, unit, factor) in wanted.items()
            if attributes.get(key, 0) > 0
        }

    clocks = figures(vector=("clock", "Hz", 1e3), memory=("memory_clock", "Hz", 1e3))
    l2 = [Level(name, Figure("B/s"), size, source=REPORTED) for name, size in figures(l2=("l2", "B", 1.0)).items()]
    bandwidth = _bandwidth(name, clocks.get("memory"), attributes.get("bus", 0))
    outer = replace(memory_level(memory, "CUDA driver, cuDeviceTotalMem"), bandwidth=bandwidth)
    matched, remark = by_driver_name(name, "gpu")
    return Device(
        "gpu", f"gpu{index}", name or "unnamed NVIDIA GPU", "NVIDIA", units={"sm": attributes["sm"]} if attributes.get("sm", 0) > 0 else {},
        levels=(*l2, outer), clocks=clocks, matched=matched,
        limits=figures(
            shared_per_sm=("shared_per_sm", "B", 1.0), shared_per_block=("shared_per_block", "B", 1.0), registers_per_sm=("registers_per_sm", "B", 4.0)
        ),
        capability=f"{attributes['major']}.{attributes.get('minor', 0)}" if attributes.get("major", 0) > 0 else None,
        notes=(*_nvidia_notes(name, attributes), *((remark,) if remark else ())),
    )  # fmt: skip


def _mig_slice(name: str) -> bool:
    return " MIG " in f" {name} "


def _bandwidth(name: str, clock: Figure | None, bus: int) -> Figure:
    if _mig_slice(name) or clock is None or not clock.derived or bus <= 0:
        return Figure("B/s")
    how = f"{show(clock.derived, 'Hz')} x {bus} bit x 2 transfers / 8, clock and bus from the CUDA driver"
    return Figure("B/s", derived=clock.derived * bus * 2 / 8, source=REPORTED, derivation=how)


def _nvidia_notes(name: str, attributes: Mapping[str, int]) -> list[str]:
    notes = []
    if _mig_slice(name):
        notes.append(
            "A MIG slice: the driver gives the memory clock and bus of the full board, so no bandwidth is derived."
        )
    if attributes.get("integrated"):
        notes.append("An integrated GPU: its memory is shared with the CPU.")
    if attributes.get("ecc"):
        notes.append("ECC is on.")
    if "pci_bus" in attributes:
        domain, device = attributes.get("pci_domain", 0), attributes.get("pci_device", 0)
        notes.append(f"PCI {domain:04x}:{attributes['pci_bus']:02x}:{device:02x}.")
    return notes


def _apple_gpus(system: System) -> list[Device]:
    """The GPU of an Apple chip: its name is the chip's, its core count is in the I/O registry."""
    registry = system.run("/usr/sbin/ioreg", "-rd1", "-c", "AGXAccelerator")
    named = re.search(r'"model"\s*=\s*"(Apple [^"\n]{1,60})"', registry)
    if not named:
        return []
    cores = re.search(r'"gpu-core-count"\s*=\s*([0-9]{1,4})\b', registry, re.ASCII)
    name = " ".join(named[1].split())
    size = re.search(r"hw\.memsize:\s*([0-9]{1,18})", system.run("/usr/sbin/sysctl", "hw.memsize"), re.ASCII)
    matched, remark = by_driver_name(name, "gpu")
    return [
        Device(
            "gpu", "gpu0", name, "Apple", units={"gpu_core": int(cores[1])} if cores and int(cores[1]) else {},
            levels=(memory_level(int(size[1]) if size else system.memory(), "hw.memsize"),), matched=matched,
            notes=("Memory is shared with the CPU.", *((remark,) if remark else ())),
        )
    ]  # fmt: skip


def gpu_machine(device: Device) -> Machine:
    """The catalog machine, cut down where this device has less of it; without one what the driver gives."""
    card = device.matched
    if card is None:
        return _unknown_gpu(device)
    unit = "gpu_core" if "gpu_core" in card.units else "sm"
    card_count, count = card.units.get(unit), device.units.get(unit)
    notes = [f"Matched to {card.name} in the catalog by its name, '{device.name}'."]
    machine = card
    if card_count and count and card_count != count:
        what = {"sm": "SMs", "gpu_core": "GPU cores"}[unit]
        machine = _part(card, unit, count, card_count)
        lost = sorted(set(card.peaks) - set(machine.peaks))
        notes.append(
            f"The catalog counts {card_count} {what}, this device has {count} (a slice or another bin): peaks are the catalog's derivation with {count}"
            + (f"; {', '.join(lost)} cannot be derived and are left out." if lost else ".")
        )
        if unit == "gpu_core":
            machine = without_bandwidth(machine)
            notes.append("Bins of this chip differ in memory bandwidth, so none is claimed.")
    elif not card_count or not count:
        notes.append("The number of its units could not be checked.")
    if device.levels and machine.levels:
        machine, remarks = _with_memory(machine, device.levels[-1], unit)
        notes += remarks
    units = {**machine.units, **device.units}
    return replace(machine, name=NAME, units=units, notes=(*notes, *device.notes, *machine.notes))


def _with_memory(machine: Machine, memory: Level, unit: str) -> tuple[Machine, list[str]]:
    """The catalog machine with the memory this device shows, and what follows for its bandwidth."""
    size, stated = memory.capacity.value(), machine.main.capacity.value()
    if size and (stated is None or unit == "gpu_core"):
        return _with_main(machine, capacity=memory.capacity), []
    if size and stated and size < MIN_MEMORY_SHARE * stated:
        shown, of = show(size, "B", binary=True), show(stated, "B", binary=True)
        part = _with_main(machine, capacity=memory.capacity, bandwidth=Figure("B/s"))
        return part, [f"It shows {shown} of {of} memory (a slice), so the bandwidth of the full board is not claimed."]
    if machine.main.bandwidth.value() is None and memory.bandwidth.value() and unit == "sm":
        derived = _with_main(machine, bandwidth=memory.bandwidth)
        return derived, ["The catalog has no memory bandwidth for it; the driver's clock and bus give it."]
    return machine, []


def _with_main(machine: Machine, **changes: Any) -> Machine:
    """The machine with figures of its main memory replaced, where it has one."""
    main = [replace(level, **changes) for level in machine.levels[-1:]]
    return replace(machine, levels=(*machine.levels[:-1], *main))


def without_bandwidth(machine: Machine) -> Machine:
    return _with_main(machine, bandwidth=Figure("B/s"))


def _part(card: Machine, unit: str, count: int, card_count: int) -> Machine:
    """The catalog machine with another number of units: only what was derived from units can follow them."""

    def scaled(figure: Figure) -> Figure:
        value = None if figure.derived is None else figure.derived * count / card_count
        how = f"{count} of {card_count} {unit}: {figure.derivation}" if value else ""
        return Figure(figure.unit, derived=value, source=figure.source, derivation=how)

    peaks = {name: scaled(figure) for name, figure in card.peaks.items() if figure.derived is not None}
    levels = []
    for level in card.levels:
        inner = level.scope == "sm" and level.instances == card_count
        levels.append(replace(level, instances=count, bandwidth=scaled(level.bandwidth)) if inner else level)
    return replace(card, peaks=peaks, levels=tuple(levels), tdp=Figure("W"))


def _unknown_gpu(device: Device) -> Machine:
    """A GPU the catalog does not have: what the driver reports, and vector peaks where the lanes are documented."""
    table = read_table("capability.toml")
    row = table.get("capability", {}).get(device.capability, {})
    source = source_of(table, row)
    clock, count = device.clocks.get("vector", Figure("Hz")).value(), device.units.get("sm")
    notes = [f"No GPU in the catalog has the name '{device.name}'; figures are what its driver reports."]
    peaks = {}
    for dtype in ("fp32", "fp64"):
        lanes = rate_of(row, dtype)
        if lanes and clock and count:
            rate = count * lanes * 2 * clock
            how = f"{count} SMs x {lanes:g} lanes x 2 flop x {show(clock, 'Hz')} (highest clock the driver gives)"
            peaks[f"vector.{dtype}"] = Figure("flop/s", derived=rate, source=source, derivation=how)
    if device.vendor != "NVIDIA":
        notes.append(Note(NOT_DETECTED, "No peaks: this system reports neither its lanes nor its clock."))
    elif not peaks:
        sms = f"lanes per SM of compute capability {device.capability or '(unknown)'}"
        text = f"No peaks: {sms} are not in capability.toml, or SMs or clock are unknown."
        notes.append(Note(NOT_DETECTED, text))
    else:
        notes.append(
            "Tensor peaks cannot be derived from what the driver reports; measure them or write a machine file."
        )
    if not device.levels[-1].bandwidth.value():
        text = "Memory bandwidth is not known; `ridgeline measure cuda` measures it, or give --bandwidth."
        notes.append(Note(NOT_DETECTED, text))
    return Machine(
        NAME, device.name, device.vendor, "gpu", str(row.get("architecture", "")), units=device.units, clocks=device.clocks, peaks=peaks,
        levels=device.levels, limits=device.limits, notes=(*notes, *device.notes),
    )  # fmt: skip
