"""The GPUs of this machine, as the CUDA driver or macOS tells them, and the Machine that follows for each."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.units import show
from .system import NAME, Found, System, catalogued, memory_level, own_table, rate_of, reported, sources_of

SLICE = 0.85  # a GPU that shows less of its memory than this is a slice; ECC and the driver take far less

# CUDA driver API, enum CUdevice_attribute.
ATTRIBUTES = {
    "clock": 13, "sm": 16, "integrated": 18, "ecc": 32, "pci_bus": 33, "pci_device": 34, "memory_clock": 36, "bus": 37, "l2": 38, "pci_domain": 50,
    "major": 75, "minor": 76, "shared_per_sm": 81, "registers_per_sm": 82, "shared_per_block": 97,
}  # fmt: skip
NO_DEVICE = 100


@dataclass(frozen=True)
class FoundGpu(Found):
    """One GPU, as detected."""

    def machine(self) -> Machine:
        return _gpu_machine(self)


def find_gpus(system: System) -> tuple[list[FoundGpu], str]:
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


def _nvidia_gpus(system: System) -> tuple[list[FoundGpu], str]:
    driver = (
        system.library("nvcuda.dll") if system.platform == "win32" else system.library("libcuda.so.1", "libcuda.so")
    )
    if driver is None:
        return [], "no NVIDIA driver is installed"
    status, count = _call(driver, "cuInit", 0), ctypes.c_int(0)
    if status != 0 or _call(driver, "cuDeviceGetCount", ctypes.byref(count)) != 0:
        return [], "the NVIDIA driver sees no device" if status in (
            0,
            NO_DEVICE,
        ) else f"the NVIDIA driver answered error {status} to cuInit"
    devices = [device for index in range(min(max(count.value, 0), 1024)) if (device := _nvidia_gpu(driver, index))]
    return devices, "" if devices else "the NVIDIA driver sees no device"


def _nvidia_gpu(driver: Any, index: int) -> FoundGpu | None:
    handle, text, size = ctypes.c_int(0), ctypes.create_string_buffer(256), ctypes.c_size_t(0)
    if (
        _call(driver, "cuDeviceGet", ctypes.byref(handle), index) != 0
        or _call(driver, "cuDeviceGetName", text, 256, handle) != 0
    ):
        return None
    name = " ".join(text.value.decode("utf-8", "replace").split())
    told: dict[str, int] = {}
    for key, number in ATTRIBUTES.items():
        value = ctypes.c_int(0)
        if _call(driver, "cuDeviceGetAttribute", ctypes.byref(value), number, handle) == 0:
            told[key] = value.value
    memory = size.value if _call(driver, "cuDeviceTotalMem_v2", ctypes.byref(size), handle) == 0 else 0

    def attribute(key: str, unit: str, factor: float = 1.0) -> Figure | None:
        value = told.get(key, 0)
        return reported(value * factor, unit, f"CUDA driver, device attribute {ATTRIBUTES[key]}") if value > 0 else None

    limits = {
        "shared_per_sm": attribute("shared_per_sm", "B"), "shared_per_block": attribute("shared_per_block", "B"),
        "registers_per_sm": attribute("registers_per_sm", "B", 4.0),
    }  # fmt: skip
    clocks = {"vector": attribute("clock", "Hz", 1e3), "memory": attribute("memory_clock", "Hz", 1e3)}
    notes = []
    bandwidth = Figure("B/s")
    clock, bus = clocks["memory"], told.get("bus", 0)
    if " MIG " in f" {name} ":
        notes.append(
            "A MIG slice: the driver gives the memory clock and bus of the whole board, so no bandwidth is derived."
        )
    elif clock is not None and clock.derived and bus > 0:
        bandwidth = Figure(
            "B/s", derived=clock.derived * bus * 2 / 8, source="reported by this machine",
            derivation=f"{show(clock.derived, 'Hz')} x {bus} bit x 2 transfers / 8, clock and bus from the CUDA driver",
        )  # fmt: skip
    l2 = attribute("l2", "B")
    levels = [Level("l2", Figure("B/s"), l2, source="reported by this machine")] if l2 else []
    levels.append(replace(memory_level(memory, "CUDA driver, cuDeviceTotalMem"), bandwidth=bandwidth))
    if told.get("integrated"):
        notes.append("An integrated GPU: its memory is shared with the CPU.")
    if told.get("ecc"):
        notes.append("ECC is on.")
    if "pci_bus" in told:
        notes.append(f"PCI {told.get('pci_domain', 0):04x}:{told['pci_bus']:02x}:{told.get('pci_device', 0):02x}.")
    matched, remark = catalogued(name, "gpu")
    return FoundGpu(
        "gpu", f"gpu{index}", name or "unnamed NVIDIA GPU", "NVIDIA", units={"sm": told["sm"]} if told.get("sm", 0) > 0 else {}, levels=tuple(levels),
        clocks={key: figure for key, figure in clocks.items() if figure}, limits={key: figure for key, figure in limits.items() if figure},
        capability=f"{told['major']}.{told.get('minor', 0)}" if told.get("major", 0) > 0 else "", matched=matched,
        notes=(*notes, *((remark,) if remark else ())),
    )  # fmt: skip


def _apple_gpus(system: System) -> list[FoundGpu]:
    """The GPU of an Apple chip: its name is the chip's, its core count stands in the I/O registry."""
    told = system.run("/usr/sbin/ioreg", "-rd1", "-c", "AGXAccelerator")
    named = re.search(r'"model"\s*=\s*"(Apple [^"\n]{1,60})"', told)
    if not named:
        return []
    cores = re.search(r'"gpu-core-count"\s*=\s*([0-9]{1,4})\b', told, re.ASCII)
    name = " ".join(named[1].split())
    size = re.search(r"hw\.memsize:\s*([0-9]{1,18})", system.run("/usr/sbin/sysctl", "hw.memsize"), re.ASCII)
    matched, remark = catalogued(name, "gpu")
    return [
        FoundGpu(
            "gpu", "gpu0", name, "Apple", units={"gpu_core": int(cores[1])} if cores and int(cores[1]) else {},
            levels=(memory_level(int(size[1]) if size else system.memory(), "hw.memsize"),), matched=matched,
            notes=("Memory is shared with the CPU.", *((remark,) if remark else ())),
        )
    ]  # fmt: skip


# -- the machine made of it ------------------------------------------------------------------------------------


def _gpu_machine(device: Found) -> Machine:
    whole = device.matched
    if whole is None:
        return _unknown_gpu(device)
    unit = "gpu_core" if "gpu_core" in whole.units else "sm"
    counted, count = whole.units.get(unit), device.units.get(unit)
    notes = [f"Matched to {whole.name} in the catalog by its name, '{device.name}'."]
    machine = whole
    if counted and count and counted != count:
        what = {"sm": "SMs", "gpu_core": "GPU cores"}[unit]
        machine = _part(whole, unit, count, counted)
        lost = sorted(set(whole.peaks) - set(machine.peaks))
        notes.append(
            f"The catalog counts {counted} {what}, this device has {count} (a slice or another bin): peaks are the catalog's derivation with {count}"
            + (f"; {', '.join(lost)} cannot be derived and are left out." if lost else ".")
        )
        if unit == "gpu_core":
            machine = without_bandwidth(machine)
            notes.append("Bins of this chip differ in memory bandwidth, so none is claimed.")
    elif not counted or not count:
        notes.append("The number of its units could not be checked.")
    seen = device.levels[-1] if device.levels else None
    size, stated = (
        (seen.capacity.value() if seen else None),
        (machine.levels[-1].capacity.value() if machine.levels else None),
    )
    if seen and machine.levels and size and (stated is None or unit == "gpu_core"):
        machine = _main(machine, lambda level: replace(level, capacity=seen.capacity))
    elif seen and machine.levels and size and stated and size < SLICE * stated:
        shown, of = show(size, "B", binary=True), show(stated, "B", binary=True)
        notes.append(f"It shows {shown} of {of} memory (a slice), so the bandwidth of the whole is not claimed.")
        machine = _main(without_bandwidth(machine), lambda level: replace(level, capacity=seen.capacity))
    elif (
        seen
        and machine.levels
        and machine.levels[-1].bandwidth.value() is None
        and seen.bandwidth.value()
        and unit == "sm"
    ):
        notes.append("The catalog has no memory bandwidth for it; the driver's clock and bus give it.")
        machine = _main(machine, lambda level: replace(level, bandwidth=seen.bandwidth))
    return replace(
        machine, name=NAME, units={**machine.units, **device.units}, notes=(*notes, *device.notes, *machine.notes)
    )


def _main(machine: Machine, change: Callable[[Level], Level]) -> Machine:
    return replace(machine, levels=(*machine.levels[:-1], change(machine.levels[-1])))


def without_bandwidth(machine: Machine) -> Machine:
    return _main(machine, lambda level: replace(level, bandwidth=Figure("B/s"))) if machine.levels else machine


def _part(whole: Machine, unit: str, count: int, counted: int) -> Machine:
    """The catalog machine with another number of units: only what was derived from units can follow them."""

    def scaled(figure: Figure) -> Figure:
        value = None if figure.derived is None else figure.derived * count / counted
        return Figure(
            figure.unit,
            derived=value,
            source=figure.source,
            derivation=f"{count} of {counted} {unit}: {figure.derivation}" if value else "",
        )

    peaks = {name: scaled(figure) for name, figure in whole.peaks.items() if figure.derived is not None}
    inner = [level.scope == "sm" and level.instances == counted for level in whole.levels]
    levels = tuple(
        replace(level, instances=count, bandwidth=scaled(level.bandwidth)) if own else level
        for level, own in zip(whole.levels, inner, strict=True)
    )
    return replace(whole, peaks=peaks, levels=levels, tdp=Figure("W"))


def _unknown_gpu(device: Found) -> Machine:
    """A GPU the catalog does not have: what the driver tells, and vector peaks where the lanes are documented."""
    table = own_table("capability.toml")
    rows = table.get("capability", {})
    row = rows.get(device.capability, {}) if isinstance(rows, dict) else {}
    source = str(sources_of(table).get(str(row.get("source", "")), ""))
    clock, count = device.clocks.get("vector", Figure("Hz")).value(), device.units.get("sm")
    notes = [f"No GPU in the catalog has the name '{device.name}'; figures are what its driver tells."]
    peaks = {}
    for dtype in ("fp32", "fp64"):
        lanes = rate_of(row, dtype)
        if lanes and clock and count:
            how = f"{count} SMs x {lanes:g} lanes x 2 flop x {show(clock, 'Hz')} (highest clock the driver gives)"
            peaks[f"vector.{dtype}"] = Figure(
                "flop/s", derived=count * lanes * 2 * clock, source=source, derivation=how
            )
    if device.vendor != "NVIDIA":
        notes.append("No peaks: this system tells neither its lanes nor its clock.")
    elif not peaks:
        known = device.capability or "(not told)"
        notes.append(
            f"No peaks: lanes per SM of compute capability {known} are not in capability.toml, or SMs or clock are not told."
        )
    else:
        notes.append("Tensor peaks cannot be derived from what the driver tells; measure them or write a machine file.")
    if not device.levels[-1].bandwidth.value():
        notes.append("Memory bandwidth is not known; `ridgeline measure cuda` measures it, or give --bandwidth.")
    return Machine(
        NAME, device.name, device.vendor, "gpu", str(row.get("architecture", "")), units=device.units, clocks=device.clocks, peaks=peaks,
        levels=device.levels, limits=device.limits, notes=(*notes, *device.notes),
    )  # fmt: skip
