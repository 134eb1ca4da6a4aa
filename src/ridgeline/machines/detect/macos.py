"""The CPU as macOS describes it, through sysctl."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...core.figure import Level
from .device import Cores, Device, cache_level, clocks, memory_level, simd_width
from .system import System, positive

SYSCTL = (
    "machdep.cpu.brand_string", "machdep.cpu.vendor", "machdep.cpu.family", "machdep.cpu.model", "machdep.cpu.features", "machdep.cpu.leaf7_features",
    "hw.physicalcpu", "hw.logicalcpu", "hw.packages", "hw.memsize", "hw.cpufrequency_max", "hw.l1dcachesize", "hw.l2cachesize", "hw.l3cachesize",
    "hw.nperflevels", "hw.perflevel0.name", "hw.perflevel0.physicalcpu", "hw.perflevel0.l1dcachesize", "hw.perflevel0.l2cachesize",
    "hw.perflevel0.cpusperl2", "hw.perflevel1.name", "hw.perflevel1.physicalcpu", "hw.perflevel1.l1dcachesize", "hw.perflevel1.l2cachesize",
    "hw.perflevel1.cpusperl2",
)  # fmt: skip


def macos_cpu(system: System) -> Device:
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
    groups = _groups(values, name, cores, kinds)
    threads = _number(values, "hw.logicalcpu") or system.count() or 1
    return Device(
        "cpu", "cpu", name or "unknown Mac CPU", "Apple" if arm else "Intel" if "Intel" in name else "",
        units={"socket": _number(values, "hw.packages") or 1, **({"core": cores} if cores else {}), "thread": threads},
        levels=(*_caches(values, arm, cores, kinds), memory_level(_number(values, "hw.memsize") or system.memory(), "hw.memsize")),
        simd_bits=128 if arm else simd_width(flags), clocks=clocks(groups), cores=groups, flags=flags, named=bool(name),
        notes=() if kinds else ("How caches are shared is not told by this system.",),
    )  # fmt: skip


def _number(values: Mapping[str, str], key: str) -> int | None:
    return positive(values.get(key, ""))


def _groups(values: Mapping[str, str], name: str, cores: int, kinds: Sequence[tuple[int, int]]) -> tuple[Cores, ...]:
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


def _caches(values: Mapping[str, str], arm: bool, cores: int, kinds: Sequence[tuple[int, int]]) -> list[Level]:
    levels = []
    for level, key in (("l1", "l1dcachesize"), ("l2", "l2cachesize"), ("l3", "l3cachesize")):
        sizes: list[int] = []
        for kind, count in kinds:
            size = _number(values, f"hw.perflevel{kind}.{key}")
            sharing = _number(values, f"hw.perflevel{kind}.cpusperl2") if level == "l2" else 1
            sizes += [size] * max(1, min(count // (sharing or count), 1024)) if size else []
        # without perflevels an L1 is per core; how many share the others is not told, except that Intel's L3 is one
        private = level == "l1" or (level == "l2" and not arm)
        if not sizes and (size := _number(values, f"hw.{key}")):
            sizes = [size] * (min(cores, 1024) if private and cores else 1)
        if sizes:
            scope = "core" if private else "chip" if len(sizes) == 1 else "group"
            levels.append(cache_level(level, sizes, scope, f"{key} of sysctl hw"))
    return levels
