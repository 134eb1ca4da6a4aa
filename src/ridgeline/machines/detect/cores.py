"""What a core does per cycle (cores.toml), and the peaks that follow for the cores of a CPU."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...core.figure import Figure
from ...core.notes import NOT_DETECTED, Note
from ...core.units import counted, show
from .device import Cores, Device, rate_of, read_table, source_of
from .system import integer

Entry = tuple[str, dict[str, Any]]  # name and row of a core in cores.toml

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
    family, given_family = integer(wanted[1]), integer(given[1])
    if first is None or last is None or number is None or family is None:
        return False
    return family == given_family and first <= number <= last


def core_entry(key: str, name: str = "", table: Mapping[str, Any] | None = None) -> Entry | None:
    """Name and row of a core in cores.toml; a row whose `names` pattern finds the model name goes before one without."""
    fitting = []
    table = read_table("cores.toml") if table is None else table
    for core, row in table.get("core", {}).items():
        matches = any(core_matches(pattern, key) for pattern in row["match"])
        if matches and ("names" not in row or re.search(row["names"], name)):
            fitting.append(("names" not in row, core, row))
    return min(fitting, key=lambda item: item[0])[1:] if fitting else None


def core_title(groups: Iterable[Cores]) -> str:
    """Names of the cores, for a CPU without one of its own."""
    entries = [(core_entry(group.key), group.key) for group in groups]
    titles = (_title(entry) if entry else key for entry, key in entries if entry or key.strip(":"))
    return " and ".join(dict.fromkeys(titles))


def _title(entry: Entry) -> str:
    return str(entry[1].get("title", entry[0]))


def offered(peak: str, device: Device) -> bool:
    """Whether the flags allow what a peak needs; a system that gives no flags is believed."""
    if not device.flags:
        return True
    arm = any(group.key.startswith("arm:") for group in device.cores)
    need = NEEDS["arm" if arm else "x86"].get(peak, set())
    return not need or bool(need & device.flags)


def flops_per_cycle(device: Device) -> dict[str, float]:
    """Flop per clock cycle of all cores by peak; nothing for a CPU with several kinds of cores, which differ in clock."""
    entry = core_entry(device.cores[0].key, device.name) if len({group.key for group in device.cores}) == 1 else None
    if entry is None or _too_narrow(device, entry[1]):
        return {}
    count = float(sum(group.count for group in device.cores))
    count = min(count, device.quota or count)
    rates = ((peak, rate_of(entry[1], key)) for key, peak in RATES.items() if offered(peak, device))
    return {peak: count * rate for peak, rate in rates if rate}


def derived_peaks(device: Device) -> tuple[dict[str, Figure], list[str], str]:
    """Peaks by cores x flop per core and cycle x clock, notes on what is unknown, and the name of the core."""
    entries = [(group, core_entry(group.key, device.name)) for group in device.cores]
    known = [(group, entry) for group, entry in entries if entry]
    missing = sorted({group.key.strip(":") or "without a known identity" for group, entry in entries if not entry})
    if missing or not known:
        what = f"core {' and '.join(missing)}" if missing else "core (its kind or count is unknown)"
        return {}, [Note(NOT_DETECTED, f"No peaks: flop per cycle of the {what} is not in cores.toml.")], ""
    core = known[0][1][0]
    notes = list(dict.fromkeys(f"{_title(entry)}: {entry[1]['note']}." for _, entry in known if entry[1].get("note")))
    obstacle = _obstacle(device, known)
    if obstacle:
        return {}, [Note(NOT_DETECTED, f"No peaks: {obstacle}"), *notes], core
    peaks, hidden = _peaks(device, known)
    if hidden:
        notes.append(
            f"The core can do {', '.join(hidden)}, but the instructions are not offered here, so there is no peak for them."
        )
    return peaks, notes, core


def _obstacle(device: Device, entries: Sequence[tuple[Cores, Entry]]) -> str:
    """Why no peak can be derived although the cores are known; empty where nothing is in the way."""
    if any(group.clock is None for group, _ in entries):
        row = entries[0][1][1]
        rates = ", ".join(f"{key} {row[key]:g}" for key in RATES if rate_of(row, key))
        return f"the clock is not known. Flop per core and cycle: {rates}."
    if narrow := next((text for _, entry in entries if (text := _too_narrow(device, entry[1]))), ""):
        return narrow
    return ""


def _too_narrow(device: Device, row: Mapping[str, Any]) -> str:
    """Why the rates of a core do not hold: the system offers narrower vectors than it has."""
    width = rate_of(row, "simd_bits") or 0.0
    if device.flags and (device.simd_bits or 0) < width:
        return f"this core has {width:g}-bit vectors, but only {device.simd_bits or 0} bits are offered here."
    return ""


def _peaks(device: Device, entries: Sequence[tuple[Cores, Entry]]) -> tuple[dict[str, Figure], list[str]]:
    """Peaks of all cores together, and those whose instructions are not offered."""
    count = sum(group.count for group, _ in entries)
    share = min(1.0, device.quota / count) if device.quota and count else 1.0
    limit = f", of which the cgroup quota allows {share:.3g}" if share < 1 else ""
    source = source_of(read_table("cores.toml"), entries[0][1][1])
    peaks, hidden = {}, []
    for key, peak in RATES.items():
        rates = [(group, rate) for group, entry in entries if (rate := rate_of(entry[1], key))]
        if len(rates) < len(entries):
            continue
        if not offered(peak, device):
            hidden.append(peak)
            continue
        value = sum(group.count * rate * (group.clock or 0.0) for group, rate in rates) * share
        how = " + ".join(
            f"{counted(group.count, 'core')} x {rate:g} flop/cycle x {show(group.clock, 'Hz')}" for group, rate in rates
        )
        clock = "; ".join(dict.fromkeys(group.clock_from for group, _ in rates))
        peaks[peak] = Figure("flop/s", derived=value, source=source, derivation=f"{how}{limit} (clock: {clock})")
    return peaks, hidden
