"""What a core does per cycle (cores.toml), and the Machine that follows for a CPU that was found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.notes import NOT_DETECTED, Note
from ...core.units import counted, show
from .system import NAME, Cores, Found, integer, own_table, rate_of, sources_of

# cores.toml key -> peak, and the flags that must be there to run it (any of a group), by instruction set.
RATES = {
    "tensor_bf16": "tensor.bf16", "tensor_int8": "tensor.int8", "fp64": "vector.fp64", "fp32": "vector.fp32", "fp16": "vector.fp16", "bf16": "vector.bf16",
}  # fmt: skip
NEEDS = {
    "x86": {
        "vector.fp64": {"fma"}, "vector.fp32": {"fma"}, "vector.fp16": {"avx512_fp16"}, "vector.bf16": {"avx512_bf16", "avx_ne_convert"},
        "tensor.bf16": {"amx_bf16"}, "tensor.fp16": {"amx_fp16"}, "tensor.int8": {"amx_int8"},
    },
    "arm": {"vector.fp16": {"asimdhp", "fphp"}, "vector.bf16": {"bf16"}, "tensor.bf16": {"bf16"}, "tensor.int8": {"i8mm"}},
}  # fmt: skip


def core_matches(pattern: str, key: str) -> bool:
    """Whether `arm:0x41:0xd0c`, `GenuineIntel:6:143`, `AuthenticAMD:25:16-31` or `apple:M2` names the core of a key."""
    wanted, given = pattern.split(":"), key.split(":")
    if len(wanted) != len(given) or wanted[0].lower() != given[0].lower():
        return False
    if len(wanted) != 3:
        return [part.lower() for part in wanted] == [part.lower() for part in given]
    low, dash, high = wanted[2].partition("-")
    first, last, number = integer(low), integer(high if dash else low), integer(given[2])
    family, told = integer(wanted[1]), integer(given[1])
    return None not in (first, last, number, family, told) and family == told and first <= number <= last  # type: ignore[operator]


def core_entry(key: str, name: str = "", table: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]] | None:
    """Name and row of a core in cores.toml; a row whose `names` pattern finds the model name goes before one without."""
    rows = (own_table("cores.toml") if table is None else table).get("core", {})
    fitting = []
    for core, row in rows.items() if isinstance(rows, dict) else ():
        patterns = row.get("match", []) if isinstance(row, dict) else []
        fits = any(
            core_matches(str(pattern), key) for pattern in ([patterns] if isinstance(patterns, str) else patterns)
        )
        if fits and ("names" not in row or re.search(str(row["names"]), name)):
            fitting.append(("names" not in row, core, row))
    return min(fitting, key=lambda item: item[0])[1:] if fitting else None


def core_title(groups: Iterable[Cores]) -> str:
    table = own_table("cores.toml")
    entries = [(core_entry(group.key, table=table), group.key) for group in groups]
    return " and ".join(
        dict.fromkeys(
            str(entry[1].get("title", entry[0])) if entry else key for entry, key in entries if entry or key.strip(":")
        )
    )


def _able(peak: str, device: Found) -> bool:
    """Whether the flags allow what a peak needs; a system that tells no flags is believed."""
    if not device.flags:
        return True
    arm = any(group.key.startswith("arm:") for group in device.cores)
    need = NEEDS["arm" if arm else "x86"].get(peak, set())
    return not need or bool(need & device.flags)


def _derived_peaks(device: Found) -> tuple[dict[str, Figure], list[str], str]:
    """Peaks by cores x flop per core and cycle x clock, what could not be had, and the name of the core."""
    table = own_table("cores.toml")
    entries = [(group, entry) for group in device.cores if (entry := core_entry(group.key, device.name, table))]
    missing = sorted(
        {
            group.key.strip(":") or "without a known identity"
            for group in device.cores
            if not core_entry(group.key, device.name, table)
        }
    )
    if missing or not entries:
        what = f"core {' and '.join(missing)}" if missing else "core (its kind or count is not told)"
        return {}, [Note(NOT_DETECTED, f"No peaks: flop per cycle of the {what} is not in cores.toml.")], ""
    core, row = entries[0][1]
    notes = list(
        dict.fromkeys(
            f"{entry[1].get('title', entry[0])}: {entry[1]['note']}." for _, entry in entries if entry[1].get("note")
        )
    )
    if any(group.clock is None for group, _ in entries):
        known = ", ".join(f"{key} {row[key]:g}" for key in RATES if rate_of(row, key))
        return (
            {},
            [Note(NOT_DETECTED, f"No peaks: the clock is not known. Flop per core and cycle: {known}."), *notes],
            core,
        )
    width = min((rate_of(entry[1], "simd_bits") or 0.0) for _, entry in entries)
    if device.flags and (device.simd_bits or 0) < width:
        return (
            {},
            [
                Note(
                    NOT_DETECTED,
                    f"No peaks: this core has {width:g}-bit vectors, but only {device.simd_bits or 0} bits are offered here.",
                ),
                *notes,
            ],
            core,
        )
    count = sum(group.count for group, _ in entries)
    share = min(1.0, device.quota / count) if device.quota and count else 1.0
    peaks, hidden = {}, []
    for key, peak in RATES.items():
        rates = [(group, rate) for group, entry in entries if (rate := rate_of(entry[1], key))]
        if len(rates) < len(entries):
            continue
        if not _able(peak, device):
            hidden.append(peak)
            continue
        value = sum(group.count * rate * (group.clock or 0.0) for group, rate in rates) * share
        how = " + ".join(
            f"{counted(group.count, 'core')} x {rate:g} flop/cycle x {show(group.clock, 'Hz')}" for group, rate in rates
        )
        limit = f", of which the cgroup quota allows {share:.3g}" if share < 1 else ""
        clock = "; ".join(dict.fromkeys(group.clock_from for group, _ in rates))
        source = str(sources_of(table).get(str(row.get("source", "")), row.get("source", "")))
        peaks[peak] = Figure("flop/s", derived=value, source=source, derivation=f"{how}{limit} (clock: {clock})")
    if hidden:
        notes.append(
            f"The core can do {', '.join(hidden)}, but the instructions are not offered here, so there is no peak for them."
        )
    return peaks, notes, core


def cpu_machine(device: Found) -> Machine:
    whole = device.matched
    if whole is not None:
        chip_cores, cores, sockets = whole.units.get("core"), device.units.get("core", 0), device.units.get("socket", 1)
        if chip_cores and cores == chip_cores * sockets and device.quota is None:
            return _whole_cpu(device, whole, sockets)
        told = counted(cores, "core") + (f" ({device.quota:g} CPUs' worth of time)" if device.quota else "")
        reason = (
            f"it has {chip_cores} cores, here {'is' if cores == 1 else 'are'} {told}"
            if chip_cores
            else "its file gives no core count to check against"
        )
        about: tuple[str, ...] = (
            f"By its name this is {whole.name} ({whole.title}), but {reason}; its peaks and bandwidths are not used.",
        )
    elif device.named:
        about = (f"No CPU in the catalog has the name '{device.name}'.",)
    else:
        about = ("The system tells no model name, so it cannot be looked up in the catalog.",)
    peaks, notes, core = _derived_peaks(device)
    blind = Note(
        NOT_DETECTED,
        "Memory and cache bandwidth cannot be read off a machine; `ridgeline measure cpu` measures them, or give --bandwidth.",
    )
    return Machine(
        NAME, device.name, device.vendor, "cpu", whole.architecture if whole else core,
        units=_units(device), clocks=device.clocks, peaks=peaks, levels=device.levels, notes=(*about, *device.notes, *notes, blind),
    )  # fmt: skip


def _units(device: Found) -> dict[str, int]:
    return {**device.units, **({"simd_bits": device.simd_bits} if device.simd_bits else {})}


def _whole_cpu(device: Found, whole: Machine, sockets: int) -> Machine:
    """The catalog machine, once per socket, without what the system does not offer, with the memory that is fitted."""
    notes = [f"Matched to {whole.name} in the catalog by its name, '{device.name}'; core count checked."]
    hidden = sorted(peak for peak in whole.peaks if not _able(peak, device))
    if hidden:
        notes.append(
            f"The chip can do {', '.join(hidden)}, but the instructions are not offered here, so these peaks are left out."
        )
    peaks = {name: figure for name, figure in whole.peaks.items() if name not in hidden}
    levels = whole.levels
    if sockets > 1:
        notes.append(
            f"{sockets} sockets: peaks, bandwidths and caches are {sockets} times those of one, with all memory channels filled and used locally."
        )
        peaks = {name: _times(figure, sockets, f"{sockets} sockets x ") for name, figure in peaks.items()}
        levels = tuple(_more(level, sockets) for level in levels)
    fitted = next((level.capacity for level in device.levels[-1:] if level.capacity.value()), None)
    if fitted and levels:
        levels = (*levels[:-1], replace(levels[-1], capacity=fitted, instances=1))
    return replace(
        whole,
        name=NAME,
        units={**whole.units, **device.units},
        peaks=peaks,
        levels=levels,
        notes=(*notes, *device.notes, *whole.notes),
    )


def _times(figure: Figure, factor: float, words: str) -> Figure:
    """A figure of several (or a part) of a thing: derived, because no vendor states it."""
    value = figure.value()
    if value is None:
        return figure
    return Figure(
        figure.unit,
        derived=value * factor,
        source=figure.source,
        derivation=f"{words}({figure.why() or figure.source})",
    )


def _more(level: Level, sockets: int) -> Level:
    scope = "group" if level.scope == "chip" else level.scope
    return replace(
        level,
        instances=level.instances * sockets,
        scope=scope,
        bandwidth=_times(level.bandwidth, sockets, f"{sockets} sockets x "),
    )
