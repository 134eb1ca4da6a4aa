"""The gain of a move in seconds of device time: the formulas by the names that `rules.toml` uses.

None where it is unknown. No gain exceeds its limit: the achievable time of a kernel without faults, the arithmetic that
remains, the measured time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..core.machine import MAIN
from ..core.work import READ
from ..prediction.host import graph_node_share, launch_latency
from .accounting import Cause
from .excess import converting, element_bytes
from .gap import Gap
from .instructions import (
    Gain,
    arithmetic,
    down_to,
    functions,
    index,
    overlapped,
    single,
    unsynchronized,
    up,
    vectorized,
    wider,
)
from .kernel_families import SECTOR
from .products import faster_engine
from .regime import COMPUTE, LATENCY, LAUNCH, MEMORY
from .rules import Signs
from .target import longest

WARP = 32  # threads
MIN_WAITS = 0.5  # share of stalls on loads, from which they take the time of a kernel without a busy unit


def _at_most(gap: Gap, seconds: float) -> float:
    """These seconds, or the time above the achievable one where that is less."""
    return min(seconds, gap.measured - gap.achievable)


def _without(gap: Gap, ratio: float) -> float:
    """Seconds when the bytes of the main memory fall by a ratio, where the algorithm's own are not known."""
    needs = {name: need.time for name, need in gap.work.needs.items()}
    if gap.target.main in needs:
        needs[gap.target.main] /= ratio
    kept = [time for name, time in needs.items() if name not in gap.counts.inner]
    return max(kept, default=0.0) / gap.target.achievable_share + gap.target.launch


def _waste(gap: Gap, signs: Signs) -> float:
    """Only the bytes that are used are moved. Where L1 serves the rest of each sector, only L1 has less to do."""
    ratio = signs.get("wasted")
    if not isinstance(ratio, float):
        return down_to(gap, 0.0)
    scaled = gap.measured / ratio
    if signs.get("absorbed") == "yes":
        near = next((share.value for share in gap.shares if share.name == "l1"), 1.0)
        scaled = gap.measured * (1 - near * (1 - 1 / ratio))
    if gap.target.algorithm_known:
        return down_to(gap, scaled)
    return gap.measured - max(scaled, _without(gap, ratio))


def _reach(gap: Gap, signs: Signs) -> float:
    return down_to(gap, 0.0)


def _scaled(sign: str, factor: Callable[[float], float]) -> Gain:
    """The measured time scaled by a figure; down to the achievable time where it was not counted."""

    def gain(gap: Gap, signs: Signs) -> float:
        value = signs.get(sign)
        return down_to(gap, gap.measured * factor(value) if isinstance(value, float) else 0.0)

    return gain


def _inner(gap: Gap, signs: Signs) -> float:
    """Each byte comes from L2 once. Instructions stay, but for those that are repeated as the FLOPs are."""
    ratio, repeated = signs.get("l2_excess"), signs.get("excess_flops")
    if not isinstance(ratio, float):
        return down_to(gap, 0.0)
    busy = max((share.value for share in gap.shares if share.side == COMPUTE), default=0.0)
    kept = busy / max(repeated, 1.0) if isinstance(repeated, float) else busy
    return down_to(gap, gap.measured * max(1 / ratio, min(kept / gap.target.achievable_share, 1.0)))


def _lanes(gap: Gap, signs: Signs) -> float:
    """All threads of a warp are active. Where warps wait for loads, what counts are the threads that load."""
    active, each, size = signs.get("threads_per_instruction"), signs.get("bytes_per_thread"), element_bytes(gap)
    if not isinstance(active, float):
        return down_to(gap, 0.0)
    used, waits = active / WARP, signs.get("long_share")
    if gap.regime.bound == LATENCY and isinstance(waits, float) and waits >= MIN_WAITS and isinstance(each, float):
        used = min(used, each / size) if size else used
    return down_to(gap, gap.measured * used)


def _fill(gap: Gap, signs: Signs) -> float | None:
    """Per problem, when a full wave of them runs at once."""
    share = signs.get("fill")
    if not isinstance(share, float):
        return None
    return gap.measured - max(gap.target.floor / gap.target.achievable_share, gap.measured * share)


def _converted(gap: Gap, signs: Signs) -> float:
    """Kernels that only copy a tensor into another layout are not needed."""
    share = converting(gap)
    return gap.measured if share == 1 else _at_most(gap, gap.measured * share)


def _traffic(gap: Gap, signs: Signs) -> float | None:
    if gap.counts.bytes is None:
        return None
    extra = gap.time_of(Cause.EXTRA_TRAFFIC)
    if gap.regime.bound == MEMORY:
        extra = max(extra, extra / gap.share)  # at the achieved rate of the limiting unit
    return _at_most(gap, min(extra, gap.measured - _at_l2(gap, gap.counts.bytes - gap.target.bytes)))


def _dropped(gap: Gap, signs: Signs) -> float | None:
    """Bytes in excess are not moved. The loads that a thread then has left are at most all in flight at once."""
    counters, traffic, flight = gap.measurement.counters, _traffic(gap, signs), signs.get("in_flight")
    read, written = counters.get("hbm_read"), counters.get("hbm_write")
    loads, threads = counters.get("load_requests"), counters.get("threads")
    if traffic is None or not isinstance(flight, float) or not read or written is None or not loads or not threads:
        return traffic
    needed = max(gap.target.bytes - written, 0.0) / read
    share = flight * loads / (threads / WARP) * needed
    return max(min(traffic, gap.measured - gap.achievable / share), 0.0) if 0 < share < 1 else traffic


def _refetched(gap: Gap, signs: Signs) -> float | None:
    """Data are fetched from memory once; L2 delivers to the SMs what it does today."""
    traffic = _traffic(gap, signs)
    return None if traffic is None else min(traffic, gap.measured - _at_l2(gap, 0.0))


def _at_l2(gap: Gap, fewer: float) -> float:
    """Seconds of L2 at its rate of today, when the main memory moves the algorithm's bytes and the SMs so many fewer.

    L2 moves what the SMs ask for and what the main memory delivers. 0 where L2 is not counted or not the busiest unit.
    """
    inner, moved = gap.measurement.bytes.get("l2"), gap.counts.bytes
    busiest = next((share.name for share in gap.shares if share.name != LAUNCH), "")
    if not inner or not moved or busiest != "l2" or moved <= gap.target.bytes:
        return 0.0
    return gap.measured * (max(inner - fewer, 0.0) + gap.target.bytes) / (inner + moved)


def _spills(gap: Gap, signs: Signs) -> float | None:
    """The share of local memory in the L1 traffic. The arithmetic pipes then are used as well as the busiest unit of today."""
    sectors, through = gap.measurement.counters.get("local_sectors"), gap.measurement.bytes.get("l1")
    if sectors is None or not through:
        return None if "spilled" in signs else _reach(gap, signs)
    relieved = {share.name: 0.0 for share in gap.shares if share.side != COMPUTE or share.name == "issue"}
    arithmetic = _next_unit(gap, relieved) if relieved else 0.0
    saved = min(gap.measured * min(SECTOR * sectors / through, 1.0), gap.measured - arithmetic)
    return _at_most(gap, saved) if gap.target.algorithm_known else min(saved, gap.measured - gap.target.launch)


def _conflicts(gap: Gap, signs: Signs) -> float | None:
    """A conflict costs its SM a cycle; the next unit is then used at most as well as the busiest one is today."""
    count, sms = gap.measurement.counters.get("bank_conflicts"), gap.measurement.counters.get("sms")
    clock = gap.measurement.conditions.get("sm_clock")
    if count is None:
        return _reach(gap, signs)
    if not sms or not isinstance(clock, float):
        return None
    return max(min(_at_most(gap, count / (sms * clock)), gap.measured - _next_unit(gap, {"l1": 0.0})), 0.0)


def _next_unit(gap: Gap, left: Mapping[str, float]) -> float:
    """Seconds when units are relieved to the utilization `left`, and the busiest one then is used as well as that of today."""
    shares = {share.name: share.value for share in gap.shares if share.name != LAUNCH}
    busiest = max(shares.values(), default=0.0)
    return gap.measured * max({**shares, **left}.values(), default=0.0) / busiest if busiest else gap.measured


def _uncounted(gap: Gap, signs: Signs) -> float | None:
    """L1 and shared memory serve the loads and stores that were counted, and nothing else."""
    share, busy = signs.get("l1_uncounted"), next((share.value for share in gap.shares if share.name == "l1"), None)
    if not isinstance(share, float) or busy is None:
        return None
    return down_to(gap, _next_unit(gap, {"l1": max(busy - share, 0.0)}))


def _retries(gap: Gap, signs: Signs) -> float | None:
    """Each update is made once: shared memory serves no retries, and all threads of a warp are active."""
    counters, share, active = gap.measurement.counters, signs.get("l1_uncounted"), signs.get("threads_per_instruction")
    shares = {share.name: share.value for share in gap.shares}
    cycles, sms = counters.get("cycles"), counters.get("sms")
    if not isinstance(share, float) or not isinstance(active, float) or not cycles or not sms:
        return None
    wavefronts = counters.get("shared_wavefronts", 0.0) / (cycles * sms)
    left = {
        "l1": max(shares.get("l1", 0.0) - share - wavefronts, 0.0),
        "issue": shares.get("issue", 0.0) * active / WARP,
    }
    return down_to(gap, _next_unit(gap, left))


def _engine(gap: Gap, signs: Signs) -> float | None:
    name, factor = faster_engine(gap)
    if not name or factor is None:
        return None
    peak = gap.target.machine.peak(name, gap.target.ceilings).value
    needs = [(gap.counts.flops or gap.target.flops) / peak]
    # cache traffic is that of the present kernel, not of the faster one
    kept = gap.work.needs.keys() - {gap.counts.engine, *gap.counts.inner}
    needs += [gap.work.needs[label].time for label in kept]
    return gap.measured - max(needs) / gap.target.achievable_share - gap.target.launch


def _tail(gap: Gap, signs: Signs) -> float | None:
    """The last wave is full: time falls to the filled share of the waves, and by no more than the SMs are idle today."""
    share, active = signs.get("wave_fill"), signs.get("sm_active")
    if not isinstance(share, float):
        return None
    return _at_most(gap, gap.measured * (1 - max(share, active if isinstance(active, float) else 0.0)))


def _uneven(gap: Gap, signs: Signs) -> float | None:
    """All SMs are busy as long as they are on average."""
    ratio = signs.get("sm_imbalance")
    return _at_most(gap, gap.measured * (1 - 1 / ratio)) if isinstance(ratio, float) and ratio > 0 else None


def _padding(gap: Gap, signs: Signs) -> float | None:
    """Extra FLOPs at the achieved rate of their engine. Where their instructions fill the issue slots, these go with them."""
    extra, ratio = gap.time_of(Cause.EXTRA_WORK), signs.get("excess_flops")
    engine, filled = (signs.get(name) for name in ("engine_share", "arithmetic_busy"))
    by_issue = isinstance(engine, float) and isinstance(filled, float) and filled > engine
    if by_issue and isinstance(filled, float) and isinstance(ratio, float) and signs.get("engine") == "vector":
        return down_to(gap, gap.measured * (1 - filled * (1 - 1 / ratio)))
    return _at_most(gap, extra / min(gap.share, 1.0)) if extra and gap.share else extra


def _clock(gap: Gap, signs: Signs) -> float | None:
    share = signs.get("clock_share")
    return _at_most(gap, gap.measured * (1 - share)) if isinstance(share, float) else None


def _launching(gap: Gap) -> float:
    return gap.measurement.launches * launch_latency(gap.target.machine)


def _fuse(gap: Gap, signs: Signs) -> float | None:
    """One write and one read of the shared tensor, and a launch."""
    main = gap.target.needs.get(gap.target.main)
    if gap.between is None or main is None:
        return None
    return min(2 * gap.between.bytes / main.rate + launch_latency(gap.target.machine), gap.measured)


def _largest_share(gap: Gap, *ways: str) -> float | None:
    """The largest share of one tensor in the main-memory bytes (in these directions)."""
    if not gap.target.algorithm_known or gap.target.work.family == "custom":
        return None  # its tensors are not known
    moves = gap.target.work.moves.items()
    sizes = [float(value) for (level, _, way), value in moves if level == MAIN and (not ways or way in ways)]
    return max(sizes) / gap.target.bytes if sizes and gap.target.bytes else None


def _quantize(gap: Gap, signs: Signs) -> float | None:
    share = _largest_share(gap, READ)
    return None if share is None else gap.measured * share / 2


def _rows(gap: Gap, signs: Signs) -> float | None:
    """Per row, when the largest operand serves twice the rows; never below their compute time."""
    halved = gap.measured * (1 - (_largest_share(gap, READ) or 0.0) / 2)
    return gap.measured - max(halved, longest(gap.target.needs, "compute"))


def _tensor(gap: Gap, signs: Signs) -> float | None:
    """The largest tensor is not moved."""
    share = _largest_share(gap)
    return None if share is None else gap.measured * share


GAINS: dict[str, Gain] = {
    "reach": _reach,
    "up": up,
    "wider": wider,
    "overlapped": overlapped,
    "unsynchronized": unsynchronized,
    "vectorized": vectorized,
    "index": index,
    "waste": _waste,
    "tail": _tail,
    "uneven": _uneven,
    "clock": _clock,
    "inner": _inner,
    "divergence": _lanes,
    "blocks": _scaled("block_share", lambda share: share),
    "cores": _scaled("cores_used", lambda share: share),
    "fill": _fill,
    "converted": _converted,
    "traffic": _traffic,
    "dropped": _dropped,
    "refetched": _refetched,
    "spills": _spills,
    "conflicts": _conflicts,
    "uncounted": _uncounted,
    "retries": _retries,
    "arithmetic": arithmetic,
    "functions": functions,
    "engine": _engine,
    "single": single,
    "padding": _padding,
    "graph": lambda gap, signs: _launching(gap) * (1 - graph_node_share(gap.target.machine)),
    "launch": lambda gap, signs: min(_launching(gap), gap.measured),
    "fuse": _fuse,
    # half the bytes of the largest operand
    "quantize": _quantize,
    "rows": _rows,
    "tensor": _tensor,
    # on the device; the host part is added for every move that merges launches
    "nothing": lambda gap, signs: 0.0,
    "unknown": lambda gap, signs: None,
}
