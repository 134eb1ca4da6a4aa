"""The local machine: what the operating system and the driver say of CPU and GPUs, and the Machine that follows.

A device whose whole name stands in the catalog is that machine, as long as all of it is here; of a part of it (a few
cores of a big server, a slice of a GPU) only what its own counts and clocks give is claimed. Nothing is measured and
nothing guessed: a figure that cannot be found out is absent, and a note says so.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import InputError, RidgelineError
from ..machine import Figure, Level, Machine
from ..units import show

FOLDER = Path(__file__).parent
NAME = "here"
MOST_CPUS = 65536  # a longer list is a broken file, not a machine
CPUS = "/sys/devices/system/cpu"
CGROUPS = "/sys/fs/cgroup"
SLICE = 0.85  # a GPU that shows less of its memory than this is a slice; ECC and the driver take far less

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

# CUDA driver API, enum CUdevice_attribute.
ATTRIBUTES = {
    "clock": 13, "sm": 16, "integrated": 18, "ecc": 32, "pci_bus": 33, "pci_device": 34, "memory_clock": 36, "bus": 37, "l2": 38, "pci_domain": 50,
    "major": 75, "minor": 76, "shared_per_sm": 81, "registers_per_sm": 82, "shared_per_block": 97,
}  # fmt: skip
NO_DEVICE = 100

SYSCTL = (
    "machdep.cpu.brand_string", "machdep.cpu.vendor", "machdep.cpu.family", "machdep.cpu.model", "machdep.cpu.features", "machdep.cpu.leaf7_features",
    "hw.physicalcpu", "hw.logicalcpu", "hw.packages", "hw.memsize", "hw.cpufrequency_max", "hw.l1dcachesize", "hw.l2cachesize", "hw.l3cachesize",
    "hw.nperflevels", "hw.perflevel0.name", "hw.perflevel0.physicalcpu", "hw.perflevel0.l1dcachesize", "hw.perflevel0.l2cachesize",
    "hw.perflevel0.cpusperl2", "hw.perflevel1.name", "hw.perflevel1.physicalcpu", "hw.perflevel1.l1dcachesize", "hw.perflevel1.l2cachesize",
    "hw.perflevel1.cpusperl2",
)  # fmt: skip


class System:
    """Everything detection asks of the outside, so that tests can answer from a recording. No method raises."""

    def __init__(self) -> None:
        self.platform = sys.platform

    def read(self, path: str) -> bytes | None:
        """A whole file, or None. Plain descriptors, because a large server has thousands of these little files."""
        try:
            file = os.open(path, os.O_RDONLY)
        except (OSError, ValueError):
            return None
        try:
            parts = []
            while part := os.read(file, 1 << 16):
                parts.append(part)
            return b"".join(parts)
        except OSError:
            return None
        finally:
            os.close(file)

    def entries(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(path))
        except (OSError, ValueError):
            return []

    def run(self, *command: str) -> str:
        """What a command prints, whatever its exit code: sysctl fails for one unknown key and still prints the rest."""
        import subprocess

        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=5,
                check=False,
            )
        except (OSError, ValueError, subprocess.SubprocessError):
            return ""
        return done.stdout.decode("utf-8", "replace")

    def library(self, *names: str) -> Any:
        """The first of these shared libraries that loads, or None."""
        loader = getattr(ctypes, "WinDLL", ctypes.CDLL)
        for name in names:
            try:
                return loader(name)
            except OSError:
                continue
        return None

    def affinity(self) -> set[int] | None:
        """The CPUs this process may run on, where the system says."""
        ask = getattr(os, "sched_getaffinity", None)
        try:
            return set(ask(0)) if ask else None
        except OSError:
            return None

    def count(self) -> int | None:
        return os.cpu_count()

    def memory(self) -> int | None:
        """Bytes of memory where no file says."""
        try:
            return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        except (AttributeError, OSError, ValueError):
            return None

    def architecture(self) -> str:
        import platform

        return platform.machine()

    def processor(self) -> str:
        """The processor as Python's `platform` has it; on Linux and macOS that starts a process and tells little."""
        import platform

        return platform.processor()


@dataclass(frozen=True)
class Cores:
    """Cores of one kind at one clock; `key` is what cores.toml matches (`arm:0x41:0xd0c`, `GenuineIntel:6:143`)."""

    key: str
    count: int
    clock: float | None = None
    clock_from: str = ""


@dataclass(frozen=True)
class Found:
    """One device of this machine, as detected; `machine()` is what may be claimed of it."""

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
    capability: str = ""
    named: bool = True  # whether `name` is the device's own, not only that of its cores
    matched: Machine | None = field(default=None, repr=False)
    notes: tuple[str, ...] = ()

    @property
    def catalog(self) -> str | None:
        """Name of the catalog machine with this whole name, or None."""
        return self.matched.name if self.matched else None

    def machine(self) -> Machine:
        return (_cpu_machine if self.kind == "cpu" else _gpu_machine)(self)

    def document(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "selector": f"{NAME}:{self.selector}", "name": self.name, "vendor": self.vendor, "catalog": self.catalog,
            "units": dict(self.units), "simd_bits": self.simd_bits, "capability": self.capability or None, "quota": self.quota,
            "clocks": {name: clock.document() for name, clock in self.clocks.items()},
            "cores": [{"key": group.key, "count": group.count, "clock": group.clock, "clock_from": group.clock_from} for group in self.cores],
            "levels": [level.document() for level in self.levels],
            "limits": {name: limit.document() for name, limit in self.limits.items()}, "notes": list(self.notes),
        }  # fmt: skip


def found(system: System | None = None) -> list[Found]:
    """The CPU and every GPU there is, CPU first."""
    system = system or System()
    return [_cpu(system), *_gpus(system)[0]]


def here(which: str | None = None, system: System | None = None) -> Machine:
    """The local machine: `cpu`, `gpu`, `gpu1`; without a choice the first GPU, else the CPU.

    Asking for a GPU initialises the CUDA driver in this process (no context); `here("cpu")` leaves it alone.
    """
    system = system or System()
    asked = (which or "").strip().lower()
    if asked == "cpu":
        return _cpu(system).machine()
    gpus, remark = _gpus(system)
    if not asked:
        return (gpus[0] if gpus else _cpu(system)).machine()
    number = re.fullmatch(r"gpu([0-9]{0,6})", asked)
    if number and int(number[1] or 0) < len(gpus):
        return gpus[int(number[1] or 0)].machine()
    there = ", ".join(f"{NAME}:{device.selector} ({device.name})" for device in [_cpu(system), *gpus])
    why = "" if gpus else f" No GPU was found{': ' + remark if remark else ''}."
    raise InputError(
        f"'{NAME}:{which}' is not on this machine; there is {there}.{why} Name one of these, or `{NAME}` alone for the first GPU, else the CPU."
    )


# -- small readers: odd text gives nothing, never an error ----------------------------------------------------


def _text(system: System, path: str) -> str:
    return (system.read(path) or b"").decode("utf-8", "replace").strip("\0 \t\r\n")


def _integer(text: object) -> int | None:
    """A whole number in decimal or 0x form; None for anything else."""
    hit = re.fullmatch(r"[+-]?(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,18})", str(text).strip(), re.ASCII)
    return int(hit[0], 16 if "x" in hit[0].lower() else 10) if hit else None


def _decimal(text: object) -> float | None:
    hit = re.fullmatch(r"[0-9]{1,18}(?:\.[0-9]{0,18})?", str(text).strip(), re.ASCII)
    return float(hit[0]) if hit else None


def _positive(text: object) -> int | None:
    number = _integer(text)
    return number if number is not None and number > 0 else None


def cpu_list(text: str) -> set[int]:
    """The CPUs of a kernel list such as `0-3,8,10-11`."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = _integer(first), _integer(last if dash else first)
        if low is not None and high is not None and 0 <= low <= high < MOST_CPUS:
            cpus.update(range(low, high + 1))
    return cpus


def cache_size(text: str) -> int | None:
    """Bytes of a cache size as the kernel writes it: `32K`, `32768K`, `1M`."""
    hit = re.fullmatch(r"([0-9]{1,12})\s*([KMG]?)B?", text.strip(), re.IGNORECASE | re.ASCII)
    size = int(hit[1]) << {"": 0, "K": 10, "M": 20, "G": 30}[hit[2].upper()] if hit else 0
    return size or None


def cpuinfo(text: str) -> list[dict[str, str]]:
    """The blocks of /proc/cpuinfo, one per logical CPU, keys in lower case."""
    blocks = []
    for part in re.split(r"\n\s*\n", text):
        block: dict[str, str] = {}
        for line in part.splitlines():
            key, colon, value = line.partition(":")
            if colon:
                block.setdefault(key.strip().lower(), value.strip())
        if block:
            blocks.append(block)
    # Arm kernels before 3.8 and some phones put what concerns all CPUs into a block of its own, at the end.
    rows = [block for block in blocks if "processor" in block]
    common = {key: value for block in blocks if "processor" not in block for key, value in block.items()}
    return [common | row for row in rows] or blocks[:1]


def meminfo(text: str) -> int | None:
    """Bytes of memory the kernel manages, from /proc/meminfo."""
    hit = re.search(r"^MemTotal:\s*([0-9]{1,15})\s*kB", text, re.MULTILINE | re.ASCII)
    return int(hit[1]) * 1024 or None if hit else None


def processor_version(table: bytes) -> str:
    """The name in an SMBIOS processor record (type 4), which is where Arm servers keep theirs."""
    if len(table) < 0x11 or table[0] != 4 or table[1] < 0x11:
        return ""
    strings = table[table[1] :].split(b"\0")
    index = table[0x10]
    name = strings[index - 1].decode("ascii", "replace").strip() if 0 < index <= len(strings) else ""
    return "" if name.lower() in ("not specified", "unknown", "to be filled by o.e.m.", "n/a") else name


def simd_width(flags: Iterable[str], sve: int | None = None) -> int | None:
    """Widest vector registers in bits by the CPU flags; the length of SVE vectors is not a flag."""
    names = set(flags)
    if "sve" in names and sve:
        return max(sve, 128)
    widths = {"avx512f": 512, "avx2": 256, "avx": 256, "avx1.0": 256, "sse2": 128, "asimd": 128, "neon": 128}
    return max((width for flag, width in widths.items() if flag in names), default=None)


def _quota(text: str) -> float | None:
    """CPUs a cgroup v2 `cpu.max` allows (`200000 100000` is 2); None for `max`."""
    parts = text.split()
    limit, period = (_positive(part) for part in [*parts, "", ""][:2])
    return limit / period if limit and period else None


def _ancestors(path: str) -> list[str]:
    """A cgroup and those above it, whose quotas hold as well: `/a/b`, `/a`, and the root."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["".join(f"/{part}" for part in parts[:end]) for end in range(len(parts), -1, -1)]


def cgroup_quota(system: System) -> float | None:
    """CPUs' worth of time this process may use, by the tightest quota of its cgroups (v2 and v1)."""
    quotas = []
    for line in _text(system, "/proc/self/cgroup").splitlines()[:64]:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for above in _ancestors(path)[:32]:
            if number == "0" and not controllers:
                quotas += [_quota(_text(system, f"{root}{above}/cpu.max")) for root in (CGROUPS, f"{CGROUPS}/unified")]
            elif "cpu" in controllers.split(","):
                for root in dict.fromkeys((f"{CGROUPS}/cpu", f"{CGROUPS}/{controllers}")):
                    limit, period = (_text(system, f"{root}{above}/cpu.cfs_{what}_us") for what in ("quota", "period"))
                    quotas.append(_quota(f"{limit} {period}"))
    return min((quota for quota in quotas if quota), default=None)


def _told(value: float, unit: str, by: str) -> Figure:
    """A figure the system reports, with who said it."""
    return Figure(unit, derived=float(value), derivation=by, source="reported by this machine")


@cache
def _toml(name: str) -> dict[str, Any]:
    """One of our own tables; without it nothing is derived."""
    try:
        return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _catalogued(name: str, kind: str) -> tuple[Machine | None, str]:
    """The catalog machine with this whole name (the rule of `by_driver_name`), and a remark where its file is broken.

    Only files that mention the name are parsed: reading the whole catalog takes longer than all of detection.
    """
    from . import files, load_file

    wanted = " ".join(name.lower().split())
    if not wanted:
        return None, ""
    remark = ""
    for path in files().values():
        try:
            if wanted not in " ".join(path.read_text(encoding="utf-8").lower().split()):
                continue
            machine = load_file(path)
        except (OSError, ValueError):
            continue
        except RidgelineError as error:
            remark = (
                f"The machine file {path.name} mentions this device and cannot be used: {str(error).splitlines()[0]}."
            )
            continue
        if machine.kind == kind and any(" ".join(alias.lower().split()) == wanted for alias in machine.aliases):
            return machine, ""
    return None, remark


# -- the CPU ---------------------------------------------------------------------------------------------------


def _cpu(system: System) -> Found:
    if system.platform.startswith(("linux", "android")):
        device = _linux(system)
    elif system.platform == "darwin":
        device = _macos(system)
    else:
        device = _other(system)
    matched, remark = _catalogued(device.name, "cpu") if device.named else (None, "")
    return replace(device, matched=matched, notes=device.notes + ((remark,) if remark else ()))


def _linux(system: System) -> Found:
    blocks = cpuinfo(_text(system, "/proc/cpuinfo"))
    rows = {
        number: block
        for block in blocks
        if (number := _integer(block.get("processor"))) is not None and 0 <= number < MOST_CPUS
    }
    first = blocks[0] if blocks else {}
    online = cpu_list(_text(system, f"{CPUS}/online")) or set(rows) or set(range(min(system.count() or 1, MOST_CPUS)))
    allowed = (system.affinity() or online) & online or online
    notes: list[str] = []

    all_cores, sure = _topology(system, online, rows)
    cores = {cpus: package for cpus, package in all_cores.items() if cpus & allowed}
    flags = frozenset((first.get("flags") or first.get("features") or "").lower().split())
    if not sure:
        notes.append("Threads and cores could not be told apart; each logical CPU is counted as a core.")
    if len(cores) < len(all_cores):
        notes.append(
            f"This process may run on {len(cores)} of {len(all_cores)} cores (CPU affinity); figures are for these."
        )
    quota = cgroup_quota(system)
    if quota is not None and quota >= len(cores):
        quota = None  # every core may be busy, so nothing is limited
    if quota is not None:
        notes.append(
            f"A cgroup quota allows {quota:g} CPUs' worth of time on {len(cores)} cores; peaks are for that share."
        )
    if "hypervisor" in flags:
        notes.append(
            "A virtual machine: cores and caches are what the hypervisor tells, and may be threads and shares of a larger chip."
        )

    name = _cpu_name(system, first)
    groups, hybrid = _groups(system, cores, rows or {0: first}, name)
    if hybrid:
        notes.append("Performance and efficiency cores share one model number here; their rates differ.")
    sve_bytes = _positive(_text(system, "/proc/sys/abi/sve_default_vector_length")) or (
        _sve(system) if "sve" in flags else None
    )
    size, by = meminfo(_text(system, "/proc/meminfo")), "MemTotal of /proc/meminfo"
    if size is None:
        size, by = system.memory(), "physical pages the system reports"
    sockets = len(set(cores.values())) or 1
    return Found(
        "cpu", "cpu", name or _core_title(groups) or f"unknown {system.architecture()} CPU".replace("  ", " "), _vendor(first),
        units={"socket": sockets, "core": len(cores), "thread": sum(len(cpus & allowed) for cpus in cores)},
        levels=(*_caches(system, cores, allowed, sockets), _memory(size, by)),
        simd_bits=simd_width(flags, sve_bytes * 8 if sve_bytes and sve_bytes <= 256 else None), clocks=_clocks(groups), cores=groups, flags=flags,
        quota=quota, named=bool(name), notes=tuple(notes),
    )  # fmt: skip


def _topology(
    system: System, online: set[int], rows: Mapping[int, Mapping[str, str]]
) -> tuple[dict[frozenset[int], str], bool]:
    """Logical CPUs of each core -> its package; and whether threads and cores are really told apart."""
    cores: dict[frozenset[int], str] = {}
    seen: set[int] = set()
    by_id: dict[tuple[str, str], set[int]] = {}
    unknown: set[int] = set()
    for cpu in sorted(online):
        if cpu in seen:
            continue
        folder = f"{CPUS}/cpu{cpu}/topology"
        siblings = (
            cpu_list(_text(system, f"{folder}/thread_siblings_list") or _text(system, f"{folder}/core_cpus_list"))
            & online
        )
        if cpu in siblings:
            # what an earlier core already holds stays there: lists that overlap are a broken file
            cores[frozenset(siblings - seen)] = _text(system, f"{folder}/physical_package_id") or "0"
            seen |= siblings
            continue
        row = rows.get(cpu, {})
        if "core id" in row:
            by_id.setdefault((row.get("physical id", "0"), row["core id"]), set()).add(cpu)
        else:
            unknown.add(cpu)
    cores |= {frozenset(cpus): package for (package, _), cpus in by_id.items()}
    cores |= {frozenset({cpu}): "0" for cpu in unknown}
    return cores, not unknown


def _groups(
    system: System, cores: Mapping[frozenset[int], str], rows: Mapping[int, Mapping[str, str]], name: str
) -> tuple[tuple[Cores, ...], bool]:
    """Cores by kind and clock, and whether efficiency cores hide behind the model number of the others."""
    atoms = cpu_list(_text(system, "/sys/devices/cpu_atom/cpus"))
    named = re.search(r"@\s*([0-9]{1,2}(?:\.[0-9]{1,4})?)\s*GHz", name, re.IGNORECASE | re.ASCII)
    running = max((mhz for row in rows.values() if (mhz := _decimal(row.get("cpu mhz", "")))), default=None)
    counts: dict[tuple[str, float | None, str], int] = {}
    for cpus in cores:
        cpu = min(cpus)
        key = _key(rows.get(cpu) or next(iter(rows.values()))) + (":efficiency" if cpus & atoms else "")
        khz = _positive(_text(system, f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq"))
        clock: tuple[float | None, str] = (None, "")
        if khz:
            clock = (khz * 1e3, "highest clock in cpufreq, which one core reaches and all together may not")
        elif named and float(named[1]):
            clock = (float(named[1]) * 1e9, "base clock in the model name")
        elif running:
            clock = (running * 1e6, "last resort: `cpu MHz` in /proc/cpuinfo, the clock at this moment")
        counts[(key, *clock)] = counts.get((key, *clock), 0) + 1
    return tuple(Cores(key, count, hertz, how) for (key, hertz, how), count in counts.items()), bool(atoms)


def _key(row: Mapping[str, str]) -> str:
    if "cpu implementer" in row:
        return f"arm:{row['cpu implementer']}:{row.get('cpu part', '')}".lower()
    if "vendor_id" in row:
        return f"{row['vendor_id']}:{row.get('cpu family', '')}:{row.get('model', '')}"
    return ""


def _cpu_name(system: System, row: Mapping[str, str]) -> str:
    """The model name; Arm kernels give none, so there the firmware is asked (readable for root only)."""
    if "cpu implementer" in row:
        return processor_version(system.read("/sys/firmware/dmi/entries/4-0/raw") or b"")
    return " ".join(row.get("model name", row.get("cpu model", row.get("cpu", ""))).split())


def _vendor(row: Mapping[str, str]) -> str:
    known = {
        "GenuineIntel": "Intel",
        "AuthenticAMD": "AMD",
        "0x41": "Arm",
        "0x46": "Fujitsu",
        "0x4e": "NVIDIA",
        "0x61": "Apple",
        "0xc0": "Ampere",
    }
    told = row.get("vendor_id") or row.get("cpu implementer", "").lower()
    return known.get(told, told)


def _sve(system: System) -> int | None:
    """Bytes of an SVE vector for this process, by prctl(PR_SVE_GET_VL)."""
    libc = system.library("libc.so.6")
    try:
        length = int(libc.prctl(51, 0, 0, 0, 0)) & 0xFFFF if libc is not None else 0
    except (AttributeError, OSError, TypeError, ValueError):
        return None
    return length if 16 <= length <= 256 else None


def _caches(system: System, cores: Mapping[frozenset[int], str], allowed: set[int], sockets: int) -> list[Level]:
    """Data and unified caches, inner to outer, those that the allowed CPUs can use."""
    indices: list[tuple[int, str]] = []
    example = min((min(cpus & allowed) for cpus in cores), default=0)
    for entry in system.entries(f"{CPUS}/cpu{example}/cache"):
        folder = f"{CPUS}/cpu{example}/cache/{entry}"
        level = _positive(_text(system, f"{folder}/level")) if re.fullmatch(r"index[0-9]{1,2}", entry) else None
        if level and level <= 9 and _text(system, f"{folder}/type") in ("Data", "Unified"):
            indices.append((level, entry))
    levels: list[Level] = []
    for level, entry in sorted(indices):
        sizes: list[int] = []
        covered: set[int] = set()
        private = True
        for cpus in cores:
            cpu = min(cpus & allowed)
            if cpu in covered:
                continue
            folder = f"{CPUS}/cpu{cpu}/cache/{entry}"
            size = cache_size(_text(system, f"{folder}/size"))
            if size is None:
                continue
            shared = cpu_list(_text(system, f"{folder}/shared_cpu_list")) | cpus
            covered |= shared
            private = private and shared <= cpus
            sizes.append(size)
        if sizes and f"l{level}" not in [row.name for row in levels]:
            scope = "core" if private and level < 3 else "chip" if len(sizes) <= sockets else "group"
            levels.append(_cache(f"l{level}", sizes, scope, f"size and shared_cpu_list of {CPUS}/cpu*/cache/{entry}"))
    return levels


def _cache(name: str, sizes: list[int], scope: str, by: str) -> Level:
    """One level; where instances differ its capacity is their mean, so that the total is right."""
    note = ""
    if len(set(sizes)) > 1:
        kinds = (f"{sizes.count(size)} x {show(size, 'B', binary=True)}" for size in sorted(set(sizes), reverse=True))
        note = f"sizes differ: {', '.join(kinds)}; capacity is the mean"
    return Level(
        name,
        Figure("B/s"),
        _told(sum(sizes) / len(sizes), "B", by),
        scope,
        len(sizes),
        note=note,
        source="reported by this machine",
    )


def _memory(size: int | None, by: str, name: str = "memory") -> Level:
    return Level(name, Figure("B/s"), _told(size, "B", by) if size else Figure("B"), source="reported by this machine")


def _clocks(groups: Iterable[Cores]) -> dict[str, Figure]:
    known = [group for group in groups if group.clock]
    top = max(known, key=lambda group: group.clock or 0.0, default=None)
    return {"vector": _told(top.clock, "Hz", top.clock_from)} if top is not None and top.clock else {}


def _macos(system: System) -> Found:
    told = {}
    for line in system.run("/usr/sbin/sysctl", *SYSCTL).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            told[key.strip()] = value.strip()

    def number(key: str) -> int | None:
        return _positive(told.get(key, ""))

    name = " ".join(told.get("machdep.cpu.brand_string", "").split())
    arm = name.startswith("Apple")
    flags = frozenset(
        f"{told.get('machdep.cpu.features', '')} {told.get('machdep.cpu.leaf7_features', '')}".lower().split()
    )
    cores = number("hw.physicalcpu") or 0
    clock, how = float(number("hw.cpufrequency_max") or 0) or None, "hw.cpufrequency_max"
    named = re.search(r"@\s*([0-9]{1,2}(?:\.[0-9]{1,4})?)GHz", name, re.ASCII)
    if clock is None and named:
        clock, how = float(named[1]) * 1e9 or None, "base clock in the model name"
    kinds = [(kind, count) for kind in (0, 1) if (count := number(f"hw.perflevel{kind}.physicalcpu")) and arm]
    if kinds:
        family = re.match(r"Apple (M[0-9]{1,3})\b", name, re.ASCII)
        key = f"apple:{family[1] if family else ''}"
        # cores.toml has the performance cores; macOS tells no clock, so nothing is derived here anyway
        groups = tuple(
            Cores(key + (":efficiency" if kind else ""), count, clock, how if clock else "") for kind, count in kinds
        )
    else:
        vendor, cpu_family, model = (told.get(f"machdep.cpu.{key}", "") for key in ("vendor", "family", "model"))
        groups = (Cores(f"{vendor}:{cpu_family}:{model}", cores, clock, how if clock else ""),) if cores else ()
    levels = []
    for level, key in (("l1", "l1dcachesize"), ("l2", "l2cachesize"), ("l3", "l3cachesize")):
        sizes: list[int] = []
        for kind, count in kinds:
            size, sharing = (
                number(f"hw.perflevel{kind}.{key}"),
                number(f"hw.perflevel{kind}.cpusperl2") if level == "l2" else 1,
            )
            sizes += [size] * max(1, min(count // (sharing or count), 1024)) if size else []
        # without perflevels an L1 is per core; how many share the others is not told, except that Intel's L3 is one
        private = level == "l1" or (level == "l2" and not arm)
        if not sizes and (size := number(f"hw.{key}")):
            sizes = [size] * (min(cores, 1024) if private and cores else 1)
        if sizes:
            scope = "core" if private else "chip" if len(sizes) == 1 else "group"
            levels.append(_cache(level, sizes, scope, f"{key} of sysctl hw"))
    notes = () if arm and kinds else ("How caches are shared is not told by this system.",)
    return Found(
        "cpu", "cpu", name or "unknown Mac CPU", "Apple" if arm else "Intel" if "Intel" in name else "",
        units={"socket": number("hw.packages") or 1, **({"core": cores} if cores else {}), "thread": number("hw.logicalcpu") or system.count() or 1},
        levels=(*levels, _memory(number("hw.memsize") or system.memory(), "hw.memsize")), simd_bits=128 if arm else simd_width(flags), clocks=_clocks(groups),
        cores=groups, flags=flags, named=bool(name), notes=notes,
    )  # fmt: skip


def _other(system: System) -> Found:
    """Windows and the rest: only what Python itself knows."""
    arch, processor = system.architecture(), system.processor()
    size = system.memory()
    unknown = [
        "the number of cores (only of threads)",
        "caches",
        "vector width",
        "clock",
        *([] if size else ["memory size"]),
    ]
    return Found(
        "cpu", "cpu", " ".join(processor.split()) or f"unknown {arch} CPU".replace("  ", " "),
        units={"thread": system.count() or 1}, named=bool(processor.strip()), levels=(_memory(size, "physical pages the system reports"),),
        notes=(f"On {system.platform} this is not known without further tools: {', '.join(unknown)}.",),
    )  # fmt: skip


# -- what a core does per cycle (cores.toml) -------------------------------------------------------------------


def core_matches(pattern: str, key: str) -> bool:
    """Whether `arm:0x41:0xd0c`, `GenuineIntel:6:143`, `AuthenticAMD:25:16-31` or `apple:M2` names the core of a key."""
    wanted, given = pattern.split(":"), key.split(":")
    if len(wanted) != len(given) or wanted[0].lower() != given[0].lower():
        return False
    if len(wanted) != 3:
        return [part.lower() for part in wanted] == [part.lower() for part in given]
    low, dash, high = wanted[2].partition("-")
    first, last, number = _integer(low), _integer(high if dash else low), _integer(given[2])
    family, told = _integer(wanted[1]), _integer(given[1])
    return None not in (first, last, number, family, told) and family == told and first <= number <= last  # type: ignore[operator]


def core_entry(key: str, name: str = "", table: Mapping[str, Any] | None = None) -> tuple[str, dict[str, Any]] | None:
    """Name and row of a core in cores.toml; a row whose `names` pattern finds the model name goes before one without."""
    rows = (_toml("cores.toml") if table is None else table).get("core", {})
    fitting = []
    for core, row in rows.items() if isinstance(rows, dict) else ():
        patterns = row.get("match", []) if isinstance(row, dict) else []
        fits = any(
            core_matches(str(pattern), key) for pattern in ([patterns] if isinstance(patterns, str) else patterns)
        )
        if fits and ("names" not in row or re.search(str(row["names"]), name)):
            fitting.append(("names" not in row, core, row))
    return min(fitting, key=lambda item: item[0])[1:] if fitting else None


def _core_title(groups: Iterable[Cores]) -> str:
    table = _toml("cores.toml")
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
    table = _toml("cores.toml")
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
        return {}, [f"No peaks: flop per cycle of the {what} is not in cores.toml."], ""
    core, row = entries[0][1]
    notes = list(
        dict.fromkeys(
            f"{entry[1].get('title', entry[0])}: {entry[1]['note']}." for _, entry in entries if entry[1].get("note")
        )
    )
    if any(group.clock is None for group, _ in entries):
        known = ", ".join(f"{key} {row[key]:g}" for key in RATES if _rate(row, key))
        return {}, [f"No peaks: the clock is not known. Flop per core and cycle: {known}.", *notes], core
    width = min((_rate(entry[1], "simd_bits") or 0.0) for _, entry in entries)
    if device.flags and (device.simd_bits or 0) < width:
        return (
            {},
            [
                f"No peaks: this core has {width:g}-bit vectors, but only {device.simd_bits or 0} bits are offered here.",
                *notes,
            ],
            core,
        )
    count = sum(group.count for group, _ in entries)
    share = min(1.0, device.quota / count) if device.quota and count else 1.0
    peaks, hidden = {}, []
    for key, peak in RATES.items():
        rates = [(group, rate) for group, entry in entries if (rate := _rate(entry[1], key))]
        if len(rates) < len(entries):
            continue
        if not _able(peak, device):
            hidden.append(peak)
            continue
        value = sum(group.count * rate * (group.clock or 0.0) for group, rate in rates) * share
        how = " + ".join(
            f"{_cores(group.count)} x {rate:g} flop/cycle x {show(group.clock, 'Hz')}" for group, rate in rates
        )
        limit = f", of which the cgroup quota allows {share:.3g}" if share < 1 else ""
        clock = "; ".join(dict.fromkeys(group.clock_from for group, _ in rates))
        source = str(_toml_sources(table).get(str(row.get("source", "")), row.get("source", "")))
        peaks[peak] = Figure("flop/s", derived=value, source=source, derivation=f"{how}{limit} (clock: {clock})")
    if hidden:
        notes.append(
            f"The core can do {', '.join(hidden)}, but the instructions are not offered here, so there is no peak for them."
        )
    return peaks, notes, core


def _cores(count: int) -> str:
    return f"{count} core{'s' if count != 1 else ''}"


def _rate(row: Mapping[str, Any], key: str) -> float | None:
    value = row.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def _toml_sources(table: Mapping[str, Any]) -> Mapping[str, Any]:
    sources = table.get("sources", {})
    return sources if isinstance(sources, dict) else {}


def _cpu_machine(device: Found) -> Machine:
    whole = device.matched
    if whole is not None:
        counted, cores, sockets = whole.units.get("core"), device.units.get("core", 0), device.units.get("socket", 1)
        if counted and cores == counted * sockets and device.quota is None:
            return _whole_cpu(device, whole, sockets)
        told = _cores(cores) + (f" ({device.quota:g} CPUs' worth of time)" if device.quota else "")
        reason = (
            f"it has {counted} cores, here {'is' if cores == 1 else 'are'} {told}"
            if counted
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
    blind = "Memory and cache bandwidth cannot be read off a machine; `ridgeline measure cpu` measures them, or give --bandwidth."
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


# -- GPUs ------------------------------------------------------------------------------------------------------


def _gpus(system: System) -> tuple[list[Found], str]:
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


def _nvidia_gpus(system: System) -> tuple[list[Found], str]:
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


def _nvidia_gpu(driver: Any, index: int) -> Found | None:
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
        return _told(value * factor, unit, f"CUDA driver, device attribute {ATTRIBUTES[key]}") if value > 0 else None

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
    levels.append(replace(_memory(memory, "CUDA driver, cuDeviceTotalMem"), bandwidth=bandwidth))
    if told.get("integrated"):
        notes.append("An integrated GPU: its memory is shared with the CPU.")
    if told.get("ecc"):
        notes.append("ECC is on.")
    if "pci_bus" in told:
        notes.append(f"PCI {told.get('pci_domain', 0):04x}:{told['pci_bus']:02x}:{told.get('pci_device', 0):02x}.")
    matched, remark = _catalogued(name, "gpu")
    return Found(
        "gpu", f"gpu{index}", name or "unnamed NVIDIA GPU", "NVIDIA", units={"sm": told["sm"]} if told.get("sm", 0) > 0 else {}, levels=tuple(levels),
        clocks={key: figure for key, figure in clocks.items() if figure}, limits={key: figure for key, figure in limits.items() if figure},
        capability=f"{told['major']}.{told.get('minor', 0)}" if told.get("major", 0) > 0 else "", matched=matched,
        notes=(*notes, *((remark,) if remark else ())),
    )  # fmt: skip


def _apple_gpus(system: System) -> list[Found]:
    """The GPU of an Apple chip: its name is the chip's, its core count stands in the I/O registry."""
    told = system.run("/usr/sbin/ioreg", "-rd1", "-c", "AGXAccelerator")
    named = re.search(r'"model"\s*=\s*"(Apple [^"\n]{1,60})"', told)
    if not named:
        return []
    cores = re.search(r'"gpu-core-count"\s*=\s*([0-9]{1,4})\b', told, re.ASCII)
    name = " ".join(named[1].split())
    size = re.search(r"hw\.memsize:\s*([0-9]{1,18})", system.run("/usr/sbin/sysctl", "hw.memsize"), re.ASCII)
    matched, remark = _catalogued(name, "gpu")
    return [
        Found(
            "gpu", "gpu0", name, "Apple", units={"gpu_core": int(cores[1])} if cores and int(cores[1]) else {},
            levels=(_memory(int(size[1]) if size else system.memory(), "hw.memsize"),), matched=matched,
            notes=("Memory is shared with the CPU.", *((remark,) if remark else ())),
        )
    ]  # fmt: skip


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
            machine = _without_bandwidth(machine)
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
        machine = _main(_without_bandwidth(machine), lambda level: replace(level, capacity=seen.capacity))
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


def _without_bandwidth(machine: Machine) -> Machine:
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
    table = _toml("capability.toml")
    rows = table.get("capability", {})
    row = rows.get(device.capability, {}) if isinstance(rows, dict) else {}
    source = str(_toml_sources(table).get(str(row.get("source", "")), ""))
    clock, count = device.clocks.get("vector", Figure("Hz")).value(), device.units.get("sm")
    notes = [f"No GPU in the catalog has the name '{device.name}'; figures are what its driver tells."]
    peaks = {}
    for dtype in ("fp32", "fp64"):
        lanes = _rate(row, dtype)
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
