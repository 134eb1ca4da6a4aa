"""The CPU as Linux describes it: /proc, /sys, cgroups, and the firmware where an Arm kernel gives no name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...core.figure import Level
from .cores import core_title
from .device import Cores, Device, cache_level, clocks, memory_level, simd_width
from .system import System, decimal, integer, positive, read_text

MAX_CPUS = 65536  # a longer list is a broken file, not a machine
CPUS = "/sys/devices/system/cpu"
CGROUPS = "/sys/fs/cgroup"
PR_SVE_GET_VL = 51  # of <linux/prctl.h>
VENDORS = {
    "GenuineIntel": "Intel", "AuthenticAMD": "AMD", "0x41": "Arm", "0x46": "Fujitsu", "0x4e": "NVIDIA", "0x61": "Apple",
    "0xc0": "Ampere",
}  # fmt: skip


def linux_cpu(system: System) -> Device:
    blocks = cpuinfo(read_text(system, "/proc/cpuinfo"))
    rows = {
        number: block
        for block in blocks
        if (number := integer(block.get("processor"))) is not None and 0 <= number < MAX_CPUS
    }
    first = blocks[0] if blocks else {}
    listed = cpu_list(read_text(system, f"{CPUS}/online"))
    online = listed or set(rows) or set(range(min(system.count() or 1, MAX_CPUS)))
    allowed = (system.affinity() or online) & online or online
    all_cores, threads_known = _topology(system, online, rows)
    cores = {cpus: package for cpus, package in all_cores.items() if cpus & allowed}
    sockets = len(set(cores.values())) or 1
    quota = cgroup_quota(system)
    if quota is not None and quota >= len(cores):
        quota = None  # every core may be busy, so nothing is limited
    flags = frozenset((first.get("flags") or first.get("features") or "").lower().split())
    name = _cpu_name(system, first)
    groups, hybrid = _groups(system, cores, rows or {0: first}, name)
    size, by = meminfo(read_text(system, "/proc/meminfo")), "MemTotal of /proc/meminfo"
    memory = memory_level(size, by) if size else memory_level(system.memory(), "physical pages the system reports")
    vendor = first.get("vendor_id") or first.get("cpu implementer", "").lower()
    return Device(
        "cpu", "cpu", name or core_title(groups) or f"unknown {system.architecture()} CPU".replace("  ", " "), VENDORS.get(vendor, vendor),
        units={"socket": sockets, "core": len(cores), "thread": sum(len(cpus & allowed) for cpus in cores)},
        levels=(*_caches(system, cores, allowed, sockets), memory), simd_bits=simd_width(flags, _sve_bits(system, flags)),
        clocks=clocks(groups), cores=groups, flags=flags, quota=quota, named=bool(name),
        notes=_notes(len(cores), len(all_cores), threads_known, quota, "hypervisor" in flags, hybrid),
    )  # fmt: skip


def _notes(
    cores: int, all_cores: int, threads_known: bool, quota: float | None, virtual: bool, hybrid: bool
) -> tuple[str, ...]:
    """What limits the figures of this CPU or makes them doubtful."""
    remarks = {
        "The system does not report which threads share a core; each logical CPU is counted as a core.": not threads_known,
        f"This process may run on {cores} of {all_cores} cores (CPU affinity); figures are for these.": cores < all_cores,
        f"A cgroup quota allows {quota or 0:g} CPUs on {cores} cores; peaks are for that share.": quota is not None,
        "A virtual machine: cores and caches are what the hypervisor reports, and may be threads and shares of a larger chip.": virtual,
        "Performance and efficiency cores share one model number here; their rates differ.": hybrid,
    }  # fmt: skip
    return tuple(text for text, applies in remarks.items() if applies)


def _topology(
    system: System, online: set[int], rows: Mapping[int, Mapping[str, str]]
) -> tuple[dict[frozenset[int], str], bool]:
    """Logical CPUs of each core -> its package; and whether threads are known apart from cores."""
    cores: dict[frozenset[int], str] = {}
    placed: set[int] = set()
    by_id: dict[tuple[str, str], set[int]] = {}
    unknown: set[int] = set()
    for cpu in sorted(online):
        if cpu in placed:
            continue
        folder = f"{CPUS}/cpu{cpu}/topology"
        names = ("thread_siblings_list", "core_cpus_list")
        text = next((text for name in names if (text := read_text(system, f"{folder}/{name}"))), "")
        siblings = cpu_list(text) & online
        if cpu in siblings:
            # what an earlier core already holds stays there: lists that overlap are a broken file
            cores[frozenset(siblings - placed)] = read_text(system, f"{folder}/physical_package_id") or "0"
            placed |= siblings
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


def _sve_bits(system: System, flags: frozenset[str]) -> int | None:
    """Bits of an SVE vector: the system's default, else what the kernel gives this process."""
    size = positive(read_text(system, "/proc/sys/abi/sve_default_vector_length"))
    if not size and "sve" in flags:
        libc = system.library("libc.so.6")
        try:
            size = int(libc.prctl(PR_SVE_GET_VL, 0, 0, 0, 0)) & 0xFFFF if libc is not None else 0
        except (AttributeError, OSError, TypeError, ValueError):
            return None
        size = size if size >= 16 else None
    return size * 8 if size and size <= 256 else None


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
            levels.append(
                cache_level(f"l{level}", sizes, scope, f"size and shared_cpu_list of {CPUS}/cpu*/cache/{entry}")
            )
    return levels


# -- readers of kernel files: odd text gives nothing, never an error ------------------------------------------------


def cpu_list(text: str) -> set[int]:
    """The CPUs of a kernel list such as `0-3,8,10-11`."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        low, high = integer(first), integer(last if dash else first)
        if low is not None and high is not None and 0 <= low <= high < MAX_CPUS:
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
    """CPUs that this process may use on average, by the tightest quota of its cgroups (v2 and v1)."""
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
