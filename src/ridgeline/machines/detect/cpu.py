"""The CPU of this machine: what its system says of it, and the Machine that follows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.notes import NOT_DETECTED, Note
from ...core.units import counted
from ..files import by_driver_name
from .cores import derived_peaks, flops_per_cycle, offered
from .device import NAME, Cores, Device, cache_level, clocks, memory_level, simd_width
from .linux import linux_cpu
from .system import System, positive

SYSCTL = (
    "machdep.cpu.brand_string", "machdep.cpu.vendor", "machdep.cpu.family", "machdep.cpu.model", "machdep.cpu.features", "machdep.cpu.leaf7_features",
    "hw.physicalcpu", "hw.logicalcpu", "hw.packages", "hw.memsize", "hw.cpufrequency_max", "hw.l1dcachesize", "hw.l2cachesize", "hw.l3cachesize",
    "hw.nperflevels", "hw.perflevel0.name", "hw.perflevel0.physicalcpu", "hw.perflevel0.l1dcachesize", "hw.perflevel0.l2cachesize",
    "hw.perflevel0.cpusperl2", "hw.perflevel1.name", "hw.perflevel1.physicalcpu", "hw.perflevel1.l1dcachesize", "hw.perflevel1.l2cachesize",
    "hw.perflevel1.cpusperl2",
)  # fmt: skip


def find_cpu(system: System) -> Device:
    if system.platform.startswith(("linux", "android")):
        device = linux_cpu(system)
    elif system.platform == "darwin":
        device = _macos_cpu(system)
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


def _macos_cpu(system: System) -> Device:
    """What macOS reports through sysctl."""
    values = {}
    for line in system.run("/usr/sbin/sysctl", *SYSCTL).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            values[key.strip()] = value.strip()
    name = " ".join(values.get("machdep.cpu.brand_string", "").split())
    arm = name.startswith("Apple")
    features = (values.get(f"machdep.cpu.{key}", "") for key in ("features", "leaf7_features"))
    flags = frozenset(" ".join(features).lower().split())
    cores = _number(values, "hw.physicalcpu") or 0
    kinds = [(kind, count) for kind in (0, 1) if (count := _number(values, f"hw.perflevel{kind}.physicalcpu")) and arm]
    groups = _mac_cores(values, name, cores, kinds)
    threads = _number(values, "hw.logicalcpu") or system.count() or 1
    return Device(
        "cpu", "cpu", name or "unknown Mac CPU", "Apple" if arm else "Intel" if "Intel" in name else "",
        units={"socket": _number(values, "hw.packages") or 1, **({"core": cores} if cores else {}), "thread": threads},
        levels=(*_mac_caches(values, arm, cores, kinds), memory_level(_number(values, "hw.memsize") or system.memory(), "hw.memsize")),
        simd_bits=128 if arm else simd_width(flags), clocks=clocks(groups), cores=groups, flags=flags, named=bool(name),
        notes=() if kinds else ("This system does not report how caches are shared.",),
    )  # fmt: skip


def _number(values: Mapping[str, str], key: str) -> int | None:
    return positive(values.get(key, ""))


def _mac_cores(values: Mapping[str, str], name: str, cores: int, kinds: Sequence[tuple[int, int]]) -> tuple[Cores, ...]:
    """Cores by kind; `kinds` are the performance levels of an Apple chip with their core counts."""
    clock, how = float(_number(values, "hw.cpufrequency_max") or 0) or None, "hw.cpufrequency_max"
    in_name = re.search(r"@\s*([0-9]{1,2}(?:\.[0-9]{1,4})?)GHz", name, re.ASCII)
    if clock is None and in_name:
        clock, how = float(in_name[1]) * 1e9 or None, "base clock in the model name"
    how = how if clock else ""
    if kinds:
        family = re.match(r"Apple (M[0-9]{1,3})\b", name, re.ASCII)
        key = f"apple:{family[1] if family else ''}"
        # cores.toml has the performance cores; macOS gives no clock, so nothing is derived here anyway
        return tuple(Cores(key + (":efficiency" if kind else ""), count, clock, how) for kind, count in kinds)
    vendor, family_number, model = (values.get(f"machdep.cpu.{key}", "") for key in ("vendor", "family", "model"))
    return (Cores(f"{vendor}:{family_number}:{model}", cores, clock, how),) if cores else ()


def _mac_caches(values: Mapping[str, str], arm: bool, cores: int, kinds: Sequence[tuple[int, int]]) -> list[Level]:
    levels = []
    for level, key in (("l1", "l1dcachesize"), ("l2", "l2cachesize"), ("l3", "l3cachesize")):
        sizes: list[int] = []
        for kind, count in kinds:
            size = _number(values, f"hw.perflevel{kind}.{key}")
            sharing = _number(values, f"hw.perflevel{kind}.cpusperl2") if level == "l2" else 1
            sizes += [size] * max(1, min(count // (sharing or count), 1024)) if size else []
        # without perflevels an L1 is per core; how many share the others is not reported, except that Intel's L3 is one
        private = level == "l1" or (level == "l2" and not arm)
        if not sizes and (size := _number(values, f"hw.{key}")):
            sizes = [size] * (min(cores, 1024) if private and cores else 1)
        if sizes:
            scope = "core" if private else "chip" if len(sizes) == 1 else "group"
            levels.append(cache_level(level, sizes, scope, f"{key} of sysctl hw"))
    return levels


def cpu_machine(device: Device) -> Machine:
    """The catalog machine where all of it is here, else what the counts and clocks of this CPU give."""
    chip = device.matched
    if chip is not None:
        chip_cores, cores, sockets = chip.units.get("core"), device.units.get("core", 0), device.units.get("socket", 1)
        if chip_cores and cores == chip_cores * sockets and device.quota is None:
            return _complete_cpu(device, chip, sockets)
        have = counted(cores, "core") + (f" (a quota of {device.quota:g} CPUs)" if device.quota else "")
        reason = (
            f"it has {chip_cores} cores, here {'is' if cores == 1 else 'are'} {have}"
            if chip_cores
            else "its file gives no core count to check against"
        )
        about = f"By its name this is {chip.name} ({chip.title}), but {reason}; its peaks and bandwidths are not used."
    elif device.named:
        about = f"No CPU in the catalog has the name '{device.name}'."
    else:
        about = "The system reports no model name, so the catalog was not searched."
    peaks, notes, core = derived_peaks(device)
    about_bandwidth = (
        "Memory and cache bandwidth cannot be read off a machine; "
        "`ridgeline measure cpu` measures them, or give --bandwidth."
    )
    simd = {"simd_bits": device.simd_bits} if device.simd_bits else {}
    return Machine(
        NAME, device.name, device.vendor, "cpu", chip.architecture if chip else core, units={**device.units, **simd},
        clocks=device.clocks, peaks=peaks, per_cycle=flops_per_cycle(device), levels=device.levels, notes=(about, *device.notes, *notes, Note(NOT_DETECTED, about_bandwidth)),
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
