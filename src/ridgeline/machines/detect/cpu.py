"""The CPU of this machine: cores, caches, clocks and limits as Linux, macOS and other systems tell them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from ...core.figure import Figure, Level
from ...core.machine import Machine
from ...core.units import show
from .cores import core_title, cpu_machine
from .system import Cores, Found, System, catalogued, decimal, integer, memory_level, positive, read_text, reported

MOST_CPUS = 65536  # a longer list is a broken file, not a machine
CPUS = "/sys/devices/system/cpu"
CGROUPS = "/sys/fs/cgroup"

SYSCTL = (
    "machdep.cpu.brand_string", "machdep.cpu.vendor", "machdep.cpu.family", "machdep.cpu.model", "machdep.cpu.features", "machdep.cpu.leaf7_features",
    "hw.physicalcpu", "hw.logicalcpu", "hw.packages", "hw.memsize", "hw.cpufrequency_max", "hw.l1dcachesize", "hw.l2cachesize", "hw.l3cachesize",
    "hw.nperflevels", "hw.perflevel0.name", "hw.perflevel0.physicalcpu", "hw.perflevel0.l1dcachesize", "hw.perflevel0.l2cachesize",
    "hw.perflevel0.cpusperl2", "hw.perflevel1.name", "hw.perflevel1.physicalcpu", "hw.perflevel1.l1dcachesize", "hw.perflevel1.l2cachesize",
    "hw.perflevel1.cpusperl2",
)  # fmt: skip


@dataclass(frozen=True)
class FoundCpu(Found):
    """The CPU, as detected."""

    def machine(self) -> Machine:
        return cpu_machine(self)


def find_cpu(system: System) -> Found:
    if system.platform.startswith(("linux", "android")):
        device = _linux(system)
    elif system.platform == "darwin":
        device = _macos(system)
    else:
        device = _other(system)
    matched, remark = catalogued(device.name, "cpu") if device.named else (None, "")
    return replace(device, matched=matched, notes=device.notes + ((remark,) if remark else ()))


# -- small readers: odd text gives nothing, never an error ----------------------------------------------------


def cpu_list(text: str) -> set[int]:
    """The CPUs of a kernel list such as `0-3,8,10-11`."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = integer(first), integer(last if dash else first)
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
    limit, period = (positive(part) for part in [*parts, "", ""][:2])
    return limit / period if limit and period else None


def _ancestors(path: str) -> list[str]:
    """A cgroup and those above it, whose quotas hold as well: `/a/b`, `/a`, and the root."""
    parts = [part for part in path.split("/") if part and part != ".."]
    return ["".join(f"/{part}" for part in parts[:end]) for end in range(len(parts), -1, -1)]


def cgroup_quota(system: System) -> float | None:
    """CPUs' worth of time this process may use, by the tightest quota of its cgroups (v2 and v1)."""
    quotas = []
    for line in read_text(system, "/proc/self/cgroup").splitlines()[:64]:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for above in _ancestors(path)[:32]:
            if number == "0" and not controllers:
                quotas += [
                    _quota(read_text(system, f"{root}{above}/cpu.max")) for root in (CGROUPS, f"{CGROUPS}/unified")
                ]
            elif "cpu" in controllers.split(","):
                for root in dict.fromkeys((f"{CGROUPS}/cpu", f"{CGROUPS}/{controllers}")):
                    limit, period = (
                        read_text(system, f"{root}{above}/cpu.cfs_{what}_us") for what in ("quota", "period")
                    )
                    quotas.append(_quota(f"{limit} {period}"))
    return min((quota for quota in quotas if quota), default=None)


# -- by system -------------------------------------------------------------------------------------------------


def _linux(system: System) -> FoundCpu:
    blocks = cpuinfo(read_text(system, "/proc/cpuinfo"))
    rows = {
        number: block
        for block in blocks
        if (number := integer(block.get("processor"))) is not None and 0 <= number < MOST_CPUS
    }
    first = blocks[0] if blocks else {}
    online = (
        cpu_list(read_text(system, f"{CPUS}/online")) or set(rows) or set(range(min(system.count() or 1, MOST_CPUS)))
    )
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
    sve_bytes = positive(read_text(system, "/proc/sys/abi/sve_default_vector_length")) or (
        _sve(system) if "sve" in flags else None
    )
    size, by = meminfo(read_text(system, "/proc/meminfo")), "MemTotal of /proc/meminfo"
    if size is None:
        size, by = system.memory(), "physical pages the system reports"
    sockets = len(set(cores.values())) or 1
    return FoundCpu(
        "cpu", "cpu", name or core_title(groups) or f"unknown {system.architecture()} CPU".replace("  ", " "), _vendor(first),
        units={"socket": sockets, "core": len(cores), "thread": sum(len(cpus & allowed) for cpus in cores)},
        levels=(*_caches(system, cores, allowed, sockets), memory_level(size, by)),
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
            cpu_list(
                read_text(system, f"{folder}/thread_siblings_list") or read_text(system, f"{folder}/core_cpus_list")
            )
            & online
        )
        if cpu in siblings:
            # what an earlier core already holds stays there: lists that overlap are a broken file
            cores[frozenset(siblings - seen)] = read_text(system, f"{folder}/physical_package_id") or "0"
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
    atoms = cpu_list(read_text(system, "/sys/devices/cpu_atom/cpus"))
    named = re.search(r"@\s*([0-9]{1,2}(?:\.[0-9]{1,4})?)\s*GHz", name, re.IGNORECASE | re.ASCII)
    running = max((mhz for row in rows.values() if (mhz := decimal(row.get("cpu mhz", "")))), default=None)
    counts: dict[tuple[str, float | None, str], int] = {}
    for cpus in cores:
        cpu = min(cpus)
        key = _key(rows.get(cpu) or next(iter(rows.values()))) + (":efficiency" if cpus & atoms else "")
        khz = positive(read_text(system, f"{CPUS}/cpu{cpu}/cpufreq/cpuinfo_max_freq"))
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
        level = positive(read_text(system, f"{folder}/level")) if re.fullmatch(r"index[0-9]{1,2}", entry) else None
        if level and level <= 9 and read_text(system, f"{folder}/type") in ("Data", "Unified"):
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
            size = cache_size(read_text(system, f"{folder}/size"))
            if size is None:
                continue
            shared = cpu_list(read_text(system, f"{folder}/shared_cpu_list")) | cpus
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
        reported(sum(sizes) / len(sizes), "B", by),
        scope,
        len(sizes),
        note=note,
        source="reported by this machine",
    )


def _clocks(groups: Iterable[Cores]) -> dict[str, Figure]:
    known = [group for group in groups if group.clock]
    top = max(known, key=lambda group: group.clock or 0.0, default=None)
    return {"vector": reported(top.clock, "Hz", top.clock_from)} if top is not None and top.clock else {}


def _macos(system: System) -> FoundCpu:
    told = {}
    for line in system.run("/usr/sbin/sysctl", *SYSCTL).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            told[key.strip()] = value.strip()

    def number(key: str) -> int | None:
        return positive(told.get(key, ""))

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
    return FoundCpu(
        "cpu", "cpu", name or "unknown Mac CPU", "Apple" if arm else "Intel" if "Intel" in name else "",
        units={"socket": number("hw.packages") or 1, **({"core": cores} if cores else {}), "thread": number("hw.logicalcpu") or system.count() or 1},
        levels=(*levels, memory_level(number("hw.memsize") or system.memory(), "hw.memsize")), simd_bits=128 if arm else simd_width(flags), clocks=_clocks(groups),
        cores=groups, flags=flags, named=bool(name), notes=notes,
    )  # fmt: skip


def _other(system: System) -> FoundCpu:
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
    return FoundCpu(
        "cpu", "cpu", " ".join(processor.split()) or f"unknown {arch} CPU".replace("  ", " "),
        units={"thread": system.count() or 1}, named=bool(processor.strip()), levels=(memory_level(size, "physical pages the system reports"),),
        notes=(f"On {system.platform} this is not known without further tools: {', '.join(unknown)}.",),
    )  # fmt: skip
