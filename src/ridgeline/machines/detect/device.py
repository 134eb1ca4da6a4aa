"""Device: a CPU or GPU of this machine as detected, the levels and figures that detection makes, the tables it reads."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from ...core.figure import Figure, Level
from ...core.intake import clean
from ...core.machine import Machine
from ...core.units import show

NAME = "here"
REPORTED = "reported by this machine"  # the source of what the system says


@dataclass(frozen=True)
class Cores:
    """Cores of one kind at one clock; `key` is what cores.toml matches (`arm:0x41:0xd0c`, `GenuineIntel:6:143`)."""

    key: str
    count: int
    clock: float | None = None
    clock_from: str = ""


@dataclass(frozen=True)
class Device:
    """One device of this machine, as detected; `cpu_machine` and `gpu_machine` say what may be claimed of it."""

    kind: str
    selector: str
    name: str
    vendor: str = ""
    units: Mapping[str, int] = field(default_factory=dict)
    levels: tuple[Level, ...] = ()
    simd_bits: int | None = None
    clocks: Mapping[str, Figure] = field(default_factory=dict)
    limits: Mapping[str, Figure] = field(default_factory=dict)
    cores: tuple[Cores, ...] = ()
    flags: frozenset[str] = frozenset()
    quota: float | None = None
    capability: str | None = None
    named: bool = True  # whether `name` is that of the device, not only of its cores
    matched: Machine | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    DOCUMENT: ClassVar = (
        "kind", "selector=address", "name", "vendor", "catalog", "units", "simd_bits", "capability", "quota", "clocks", "cores",
        "levels", "limits", "notes",
    )  # fmt: skip

    def __post_init__(self) -> None:
        # as a machine file keeps them, so that a saved machine is recognised by its title
        object.__setattr__(self, "name", clean(self.name))
        object.__setattr__(self, "vendor", clean(self.vendor))

    @property
    def address(self) -> str:
        """The name it is asked for by: `here:gpu0`."""
        return f"{NAME}:{self.selector}"

    @property
    def catalog(self) -> str | None:
        """Name of the catalog machine with exactly this name, or None."""
        return self.matched.name if self.matched else None


def reported(value: float, unit: str, by: str) -> Figure:
    """A figure the system reports, with who said it."""
    return Figure(unit, derived=float(value), derivation=by, source=REPORTED)


def memory_level(size: int | None, by: str, name: str = "memory") -> Level:
    return Level(name, Figure("B/s"), reported(size, "B", by) if size else Figure("B"), source=REPORTED)


def cache_level(name: str, sizes: list[int], scope: str, by: str) -> Level:
    """One level; where instances differ its capacity is their mean, so that the total is right."""
    note = ""
    if len(set(sizes)) > 1:
        kinds = (f"{sizes.count(size)} x {show(size, 'B', binary=True)}" for size in sorted(set(sizes), reverse=True))
        note = f"sizes differ: {', '.join(kinds)}; capacity is the mean"
    capacity = reported(sum(sizes) / len(sizes), "B", by)
    return Level(name, Figure("B/s"), capacity, scope, len(sizes), note=note, source=REPORTED)


def clocks(groups: Iterable[Cores]) -> dict[str, Figure]:
    known = [group for group in groups if group.clock]
    top = max(known, key=lambda group: group.clock or 0.0, default=None)
    return {"vector": reported(top.clock, "Hz", top.clock_from)} if top is not None and top.clock else {}


def simd_width(flags: Iterable[str], sve: int | None = None) -> int | None:
    """Widest vector registers in bits by the CPU flags; the length of SVE vectors is not a flag."""
    names = set(flags)
    if "sve" in names and sve:
        return max(sve, 128)
    widths = {"avx512f": 512, "avx2": 256, "avx": 256, "avx1.0": 256, "sse2": 128, "asimd": 128, "neon": 128}
    return max((width for flag, width in widths.items() if flag in names), default=None)


@cache
def read_table(name: str) -> dict[str, Any]:
    """A table by its file name; without it nothing is derived."""
    try:
        return tomllib.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def source_of(table: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """The source a row names, written out."""
    name = str(row.get("source", ""))
    return str(table.get("sources", {}).get(name, name))


def rate_of(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
