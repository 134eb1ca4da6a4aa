"""Figures of memory accesses: how much of each sector is used, how wide loads are, how many are in flight."""

from __future__ import annotations

from collections.abc import Mapping

from .gap import Gap
from .kernel_families import SECTOR

WARP, MAX_WARPS = 32, 64  # threads of a warp, warps of an SM at full occupancy
MIN_SCATTERED_SECTORS = 8.0  # per request, from which partly used sectors are scattered access and not a broadcast
FULL_VECTOR_SECTORS = 16.0  # of a coalesced request of 16 bytes per thread
MIN_SHARE_OF_SECTORS = 0.2  # of loads or stores in all sectors, from which their waste matters
NARROW = 3.0  # bytes per thread, below which loads are thin: of 1 or 2 bytes, or many of these among wider ones
MIN_CONTIGUOUS = 30.0  # bytes used of a sector, from which the bytes of a load lie side by side
MAX_INTERLEAVED, MIN_OF_THREAD = (
    17.0,
    0.9,
)  # bytes of a sector, and of a thread, where elements are 1 or 2 bytes with a stride
SERIAL_LOADS = (0.4, 1.6)  # loads in flight of a warp that waits for one at a time
MIN_SERIAL_STALLS, MIN_SCATTERED_STALLS = (
    0.97,
    0.95,
)  # share of stalls on loads in a chain: of any loads, of scattered ones
MIN_OCCUPANCY = 0.25  # below which too few warps are resident, whatever they do
MAX_OCCUPANCY_LIMIT, MIN_RESIDENCY = (
    0.5,
    0.8,
)  # that registers and shared memory of a block allow; share of it that is used
MIN_LONG_SHARE = 0.5  # of stalls on loads, from which more warps would hide latency

Known = dict[str, float | str | None]


def yes_or_no(value: object) -> str:
    """A flag as conditions ask for it."""
    return "yes" if value else "no"


def access_figures(gap: Gap, long_share: float | None) -> Known:
    counters = gap.measurement.counters
    loads = _loads(gap)
    return {
        "wasted": wasted(counters),
        "absorbed": _absorbed(counters),
        "bytes_per_thread": bytes_per_request(counters, WARP),
        "thin": _thin(counters),
        "in_flight": _in_flight(gap, counters.get("bytes_per_sector_load")),
        **loads,
        "few_warps": _few_warps(gap, long_share),
        "chained": _chained(loads["loads_in_flight"], long_share, counters.get("sectors_per_load")),
    }


def bytes_per_request(counters: Mapping[str, float], parts: float = 1.0, way: str = "load") -> float | None:
    """Bytes that a load or store of a warp uses, over `parts`; None where there are none through L1."""
    sectors, used = counters.get(f"sectors_per_{way}"), counters.get(f"bytes_per_sector_{way}")
    return sectors * used / parts if sectors and used else None


def _thin(counters: Mapping[str, float]) -> str | None:
    """Whether threads load elements of 1 or 2 bytes: side by side, or with a stride of a few elements.

    With stride s, a warp touches s sectors per byte of an element and uses 32/s bytes of each: never more than half, and
    still a byte per thread. A broadcast uses less than a byte per thread. Loads of 4 bytes side by side that are mixed
    with broadcasts use more than half of a sector on average as long as they use a byte per thread.
    """
    each, used, sectors = bytes_per_request(counters, WARP), counters.get("bytes_per_sector_load"), counters.get("sectors_per_load")  # fmt: skip
    if each is None or used is None or sectors is None:
        return None
    interleaved = used <= MAX_INTERLEAVED and each >= MIN_OF_THREAD and sectors < MIN_SCATTERED_SECTORS
    return "yes" if each < NARROW and (used >= MIN_CONTIGUOUS or interleaved) else "no"


def _round_of_loads(gap: Gap, used: float | None) -> float | None:
    """Bytes of one load of every resident warp, of which `used` count per sector."""
    counters = gap.measurement.counters
    sectors, occupancy, sms = (counters.get(name) for name in ("sectors_per_load", "occupancy", "sms"))
    if not sectors or not used or occupancy is None or sms is None:
        return None
    return occupancy * MAX_WARPS * sms * sectors * used


def _in_flight(gap: Gap, used: float | None) -> float | None:
    """Bytes in flight with one load per resident warp, over those that keep the memory busy: bandwidth x latency."""
    latency, main = gap.target.machine.main.latency.value(), gap.target.needs.get(gap.target.main)
    bytes_ = _round_of_loads(gap, used)
    return bytes_ / (main.rate * latency) if bytes_ is not None and main is not None and latency else None


def _few_warps(gap: Gap, long_share: float | None) -> str | None:
    """Whether too few warps are resident to hide latency: very few, or as many as a block's registers and shared memory allow.

    Where these leave less than half of the warps, a load of each does not cover the latency, and they wait for loads.
    """
    counters = gap.measurement.counters
    occupancy, limit = counters.get("occupancy"), counters.get("occupancy_limit", 1.0)
    if occupancy is None or occupancy < MIN_OCCUPANCY:
        return None if occupancy is None else "yes"
    flight = _in_flight(gap, counters.get("bytes_per_sector_load"))
    capped = limit < MAX_OCCUPANCY_LIMIT and occupancy >= MIN_RESIDENCY * limit
    waits = flight is not None and flight < 1 and (long_share or 0.0) >= MIN_LONG_SHARE
    return "yes" if capped and waits else "no"


def _loads(gap: Gap) -> Known:
    """Loads that each warp has in flight by Little's law: rate x latency, over one load of every warp.

    The rate is that of sectors that reach the SMs, and their latency that of L2 for the part that L2 had. Without these
    counters both are those of the main memory. A warp whose loads depend on each other has one; independent loads more.
    """
    fetched, together = _in_flight(gap, SECTOR), _round_of_loads(gap, SECTOR)
    counters, machine = gap.measurement.counters, gap.target.machine
    moved = next((share.value for share in gap.shares if share.name == gap.target.main), None)
    serial = moved / fetched if fetched and moved is not None else None
    delivered, read, far = counters.get("l2_to_sm"), counters.get("hbm_read"), machine.main.latency.value()
    near = next((level.latency.value() for level in machine.levels if level.name == "l2"), None)
    if together and delivered and read is not None and far and near:
        missed = min(read / delivered, 1.0)
        serial = delivered / gap.measured * (missed * far + (1 - missed) * near) / together
    return {"fetch_in_flight": fetched, "loads_in_flight": serial}


def _chained(loads: float | str | None, long_share: float | None, sectors: float | None) -> str | None:
    """Whether each warp waits for one load at a time and for nothing else.

    In a chain of scattered addresses, as of pointers, the instructions between two loads stall a little as well. Single
    coalesced loads look the same then, and are no chain.
    """
    if not isinstance(loads, float) or long_share is None or sectors is None:
        return None
    stalls = MIN_SCATTERED_STALLS if sectors >= MIN_SCATTERED_SECTORS else MIN_SERIAL_STALLS
    low, high = SERIAL_LOADS
    return "yes" if low <= loads <= high and long_share >= stalls else "no"


def _absorbed(counters: Mapping[str, float]) -> str | None:
    """Whether L1 serves the rest of each sector that loads use in part, so that scattered loads fetch nothing in vain.

    Stores go through to L2: scattered ones are waste there, whatever L1 does for the loads.
    """
    ratios, used, hit = _wasted_by_way(counters), counters.get("bytes_per_sector_load"), counters.get("l1_hit")
    if not ratios or not used or hit is None:
        return None
    ratio = max(ratios.values())
    of_loads = ratio == SECTOR / used and ratios.get("store", 1.0) < ratio
    return "yes" if of_loads and hit >= 1 - 1 / ratio else "no"


def wasted(counters: Mapping[str, float]) -> float | None:
    """Bytes fetched per byte used, for loads or stores, whichever is worse; 1 where requests touch few sectors."""
    ratios = _wasted_by_way(counters)
    return None if ratios is None else max(ratios.values(), default=1.0)


def _wasted_by_way(counters: Mapping[str, float]) -> dict[str, float] | None:
    """The same for loads and stores apart; None where neither was counted.

    A few scattered results after many coalesced loads do not count: a direction with a small part of the sectors.
    """
    ratios, moved = {}, {}
    for way in ("load", "store"):
        sectors, used = counters.get(f"sectors_per_{way}"), counters.get(f"bytes_per_sector_{way}")
        if sectors is None:
            continue
        moved[way] = sectors * counters.get(f"{way}_requests", float("nan"))
        if sectors < MIN_SCATTERED_SECTORS:
            ratios[way] = 1.0
        else:
            ratios[way] = SECTOR / used if used else max(sectors / FULL_VECTOR_SECTORS, 1.0)
    total = sum(moved.values())  # not a number where requests were not counted, and every direction matters then
    material = {way: ratio for way, ratio in ratios.items() if not moved[way] < MIN_SHARE_OF_SECTORS * total}
    return material if ratios else None
