"""The figures of a gap that rule conditions ask for; unknown ones are absent."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod

from ..core.work import READ, WRITE
from ..prediction.host import launch_latency
from .access import WARP, Known, access_figures, wasted, yes_or_no
from .contention import SOURCES as OF_CONTENTION
from .contention import contention_figures
from .elimination import SOURCES as ELIMINATED
from .elimination import eliminated
from .excess import SOURCES as OF_EXCESS
from .excess import converting, element_bytes, excess_figures, format_needed
from .gap import Gap
from .kernel_families import SECTOR, is_library
from .products import faster_engine, inner_intensity, matrix
from .regime import COMPUTE, COUNTERS, LAUNCH
from .target import longest

CPU = "cpu"
NOT_STALLED = ("selected", "not_selected")
STALL = "stall."  # prefix of the warp-stall counters
WARP_ONLY = ("tensor.fp64", "tensor.int4", "tensor.int1")  # formats whose products are of single warps on any device
LARGE_TILE = 256.0
MAX_DECODED = 16.0  # queries of a sequence at a time, above which it is a prompt and not decoded
MIN_ENGINE_BUSY = 0.35  # utilization of the vector units, from which they hold a product back
MAX_TENSOR_BYTES = 2.0  # of an element whose products tensor cores are made for
MIN_REGISTER_CAP = 32.0  # registers per thread at full occupancy, 65,536 over 2,048 threads
MIN_INDEXING = 1.0  # integer instructions per access of local memory, from which its addresses are computed
LOCAL_SECTORS = 4.0  # of an access of a warp to local memory, 4 bytes per thread side by side
TILED_SIZES = ("m", "n", "k", "rows", "batch", "in_features", "out_features", "c_in", "c_out", "seq_q", "seq_kv")
MAX_CAPPED = 0.25  # occupancy that registers and shared memory of a block allow, below which they are the cause
MIN_FLOPS_PER_INSTRUCTION = 0.25  # from which arithmetic fills the issue slots; 1 without FMAs and other instructions
MIN_MANY_FLOPS = 2.0  # over the algorithm's, which may count a function as one
FLOATS = ("fp64", "fp32", "fp16", "bf16")

_BUSY = ("issue", "hbm_busy", "l2_busy", "l1_busy", "fma_busy", "alu_busy", "tensor_busy", "sm_active")
_STALLS = tuple(
    f"stall.{reason}"
    for reason in (
        "long_scoreboard", "barrier", "wait", "short_scoreboard", "math_pipe_throttle", "lg_throttle", "mio_throttle",
    )
)  # fmt: skip
# Counters behind the figures that are made of several; every other figure of a counter has its name.
SOURCES: dict[str, tuple[str, ...]] = {
    "wasted": ("sectors_per_load", "bytes_per_sector_load", "sectors_per_store", "bytes_per_sector_store"),
    "bytes_per_thread": ("sectors_per_load", "bytes_per_sector_load"),
    "in_flight": ("sectors_per_load", "bytes_per_sector_load", "occupancy", "sms"),
    "fetch_in_flight": ("sectors_per_load", "occupancy", "sms"),
    "loads_in_flight": ("sectors_per_load", "occupancy", "sms", "hbm"),
    "thin": ("sectors_per_load", "bytes_per_sector_load"),
    "few_warps": ("occupancy", "occupancy_limit", "sectors_per_load", "bytes_per_sector_load", "sms"),
    "chained": ("sectors_per_load", "occupancy", "sms", "hbm", *_STALLS),
    "local_use": ("local_sectors", "registers", "integer_instructions"),
    "fp64_share": ("vector.fp64", "vector.fp32"),
    "l2_excess": ("l2_to_sm", "hbm_read"),
    "inner_intensity": ("l1", "l2", "shared"),
    "reuse_lost": ("l1", "l2"),
    "conflict_share": ("bank_conflicts", "shared_wavefronts"),
    "spilled": ("local_sectors",),
    "block_share": ("blocks", "sms"),
    "fill": ("waves",),
    "wave_fill": ("waves",),
    "residency": ("occupancy", "occupancy_limit"),
    "capped": ("occupancy_limit", "occupancy"),
    "legacy": ("wgmma_busy", "tensor_busy"),
    "integer_share": ("integer_instructions", "thread_instructions"),
    "turns": ("hbm", "issue", "fma_busy", "tensor_busy"),
    "clock_share": ("sm_clock",),
    "engine_share": ("fma_busy", "tensor_busy"),
    "outclassed": ("fma_busy", "tensor_busy"),
    "other_issue": ("issue", "fma_busy", "integer_instructions", "thread_instructions"),
    "arithmetic_busy": ("fma_busy", "tensor_busy", "issue", "thread_instructions"),
    "main_share": ("hbm", "hbm_busy"),
    "excess_bytes": ("hbm",),
    **dict.fromkeys(("stall", "barrier_share", "long_share"), _STALLS),
    **dict.fromkeys(("busiest", "limiter", "limiter_side"), _BUSY),
    **ELIMINATED,
    **OF_EXCESS,
    **OF_CONTENTION,
}


def counters_of(figure: str) -> tuple[str, ...]:
    """The counters that a figure of the rules is made of."""
    return SOURCES.get(figure, (figure,))


def signs(gap: Gap) -> dict[str, float | str]:
    target, measurement, machine = gap.target, gap.measurement, gap.target.machine
    latency, memory = launch_latency(machine), longest(target.needs, "memory")
    counters = {name: value for name, value in measurement.counters.items() if not name.startswith((STALL, "roof."))}
    flops_known, execution = gap.flops_known, _execution(gap)
    long_share = execution["long_share"]
    known: Known = {
        **counters,
        "share": gap.share if flops_known else None,
        "algorithm_share": _algorithm_share(gap),
        "vertical": gap.vertical,
        "horizontal": gap.horizontal,
        "excess_bytes": gap.excess_bytes,
        "excess_flops": gap.excess_flops,
        "device": machine.kind or "gpu",
        "bound_predicted": target.bound if flops_known else None,
        "bound_seen": gap.regime.bound,
        "matrix": matrix(gap),
        "own_code": yes_or_no(not measurement.kernels or not all(map(is_library, measurement.kernels))),
        "padded": _padded(target.work.shape) if target.algorithm_known else None,
        "weights": yes_or_no(target.work.family != "attention"),
        "prompt": yes_or_no(_queries(target.work.shape) > MAX_DECODED),
        "algorithm_over_ridge": longest(target.needs, "compute") / memory if memory else None,
        "deep": yes_or_no(gap.deep_compute),
        "kernels": measurement.launches,
        "converting": converting(gap),
        "parts": float(len(measurement.kernels)) if measurement.kernels else None,
        "kernel_over_launch": gap.measured / measurement.launches / latency if latency else None,
        "floor_over_launch": target.floor / latency if latency and flops_known else None,
        "sent": gap.sent,
        "waiting": None if gap.waiting is None else gap.waiting / gap.measured,
        "between": gap.between.bytes / target.bytes if gap.between and target.bytes else 0.0,
        "together": ("yes" if gap.between.certain else None) if gap.between else "no",
        "faster_engine": faster_engine(gap)[1],
        **(_busy(gap) if gap.regime.basis == COUNTERS else {}),
        **execution,
        **access_figures(gap, long_share if isinstance(long_share, float) else None),
        **_access(gap),
        **excess_figures(gap),
        **contention_figures(gap),
        **(_cpu(gap) if machine.kind == CPU else {}),
    }
    return {name: value for name, value in known.items() if value is not None}


def _algorithm_share(gap: Gap) -> float:
    """The roofline time of the algorithm over the measured one; without a known algorithm, less the waste that was counted."""
    if gap.target.algorithm_known:
        return gap.target.floor / gap.measured
    counters, through = gap.measurement.counters, gap.measurement.bytes.get("l1")
    spilled = min(SECTOR * counters.get("local_sectors", 0.0) / through, 1.0) if through else 0.0
    return gap.share / max(wasted(counters) or 1.0, 1.0) * (1 - spilled)


def _queries(shape: Mapping[str, object]) -> float:
    """Queries of a sequence that attention has at a time; 1 of other work."""
    queries = shape.get("seq_q")
    return queries if isinstance(queries, float) else 1.0


def _padded(shape: Mapping[str, object]) -> float:
    """Executed over needed FLOPs where every size of a product is filled up to large tiles."""
    sizes = [value for name, value in shape.items() if name in TILED_SIZES and isinstance(value, float) and value > 0]
    return prod(ceil(size / LARGE_TILE) * LARGE_TILE / size for size in sizes)


def _busy(gap: Gap) -> Known:
    """Utilization by the counters."""
    regime, counters = gap.regime, gap.measurement.counters
    alu = counters.get("alu_busy", 0.0) * counters.get("sm_active", 1.0)  # comparisons and logic: no unit of a roofline
    shares = {share.name: share.value for share in gap.shares if share.name != LAUNCH}
    return {
        "busiest": max(alu, *shares.values()),
        "limiter_side": regime.bound if regime.limited else "none",
        "limiter": regime.limiter if regime.limited else "none",
        "main_share": shares.get(gap.target.main),
        "turns": shares.get(gap.target.main, 0.0)
        + max((share.value for share in gap.shares if share.side == COMPUTE), default=0.0),
        "engine_share": shares.get(gap.counts.engine or "", 0.0),
        "arithmetic_busy": _arithmetic_busy(gap, shares),
        "other_issue": _other_issue(gap, shares),
        "outclassed": _outclassed(gap, shares),
    }


def _arithmetic_busy(gap: Gap, shares: Mapping[str, float]) -> float:
    """Utilization of the engine, or of instruction issue where many FLOPs in excess and their loops are what is issued."""
    instructions, engine = gap.measurement.counters.get("thread_instructions"), shares.get(gap.counts.engine or "", 0.0)
    arithmetic = instructions and (gap.counts.flops or 0.0) >= MIN_FLOPS_PER_INSTRUCTION * instructions
    many = (gap.excess_flops or 0.0) >= MIN_MANY_FLOPS
    return max(engine, shares.get("issue", 0.0)) if arithmetic and many else engine


def _other_issue(gap: Gap, shares: Mapping[str, float]) -> float | None:
    """Issue slots of other instructions than multiply-adds, whose pipe issues as fast as an SM and multiplies integers too."""
    counters, issue = gap.measurement.counters, shares.get("issue")
    if issue is None:
        return None
    integer = _share(counters.get("integer_instructions"), counters.get("thread_instructions")) or 0.0
    multiplying = counters.get("fma_busy", 0.0) * counters.get("sm_active", 1.0)
    return issue - max(multiplying - integer * issue, 0.0)


def _outclassed(gap: Gap, shares: Mapping[str, float]) -> str:
    """Whether the vector units hold a product back: they are busy, or its format is one that tensor cores are made for."""
    size = element_bytes(gap) if gap.target.algorithm_known else None
    busy = shares.get(gap.counts.engine or "", 0.0) >= MIN_ENGINE_BUSY
    return yes_or_no(busy or (size is not None and size <= MAX_TENSOR_BYTES))


def _execution(gap: Gap) -> Known:
    """The engine that ran, asynchronous copies, and the main warp stall."""
    counters = gap.measurement.counters
    stalls = {name.removeprefix(STALL): value for name, value in counters.items() if name.startswith(STALL)}
    stalls = {name: value for name, value in stalls.items() if name not in NOT_STALLED}
    total = sum(stalls.values())
    return {
        "barrier_share": _share(stalls.get("barrier"), total) if stalls else None,
        "long_share": _share(stalls.get("long_scoreboard"), total) if stalls else None,
        "integer_share": _share(counters.get("integer_instructions"), counters.get("thread_instructions")),
        "legacy": _legacy(gap),
        "format_needed": format_needed(gap),
        "fp64_share": _share(gap.measurement.flops.get("vector.fp64"), sum(gap.measurement.flops.values())),
        "clock_share": _clock_share(gap),
        "engine": gap.counts.engine.partition(".")[0] if gap.counts.engine else None,
        "asynchronous": _asynchronous(counters),
        "stall": max(stalls, key=lambda name: stalls[name]) if stalls else None,
        **eliminated(counters, stalls),
    }


def _asynchronous(counters: Mapping[str, float]) -> str | None:
    """Whether the bulk copy unit loaded anything; None where it was not counted."""
    counted = [counters[name] for name in ("copy_busy", "tma") if name in counters]
    return yes_or_no(max(counted) > 0) if counted else None


def _legacy(gap: Gap) -> str | None:
    """Whether products ran on the matrix instructions of single warps, on a device that has those of warp groups."""
    counters = gap.measurement.counters
    tensor = [name for name in gap.counts.engines if name.startswith("tensor.") and name not in WARP_ONLY]
    if "wgmma_busy" not in counters or not tensor:
        return None
    return yes_or_no(counters["wgmma_busy"] == 0 and gap.counts.engine in tensor)


def _clock_share(gap: Gap) -> float | None:
    """The clock of the run over that of the peak of its engine."""
    ran = gap.measurement.conditions.get("sm_clock")
    clocks = gap.target.machine.clocks
    name = "tensor" if (gap.counts.engine or "").startswith("tensor") and "tensor" in clocks else "vector"
    clock = clocks[name].value() if name in clocks else None
    return ran / clock if isinstance(ran, float) and clock else None


def _access(gap: Gap) -> Known:
    """Memory accesses: sector use, cache traffic, conflicts, spills, blocks."""
    counters, target = gap.measurement.counters, gap.target
    reads = target.moved(READ) if target.algorithm_known and target.moved(WRITE) else counters.get("hbm_read")
    intensity = inner_intensity(gap)
    blocks, sms, waves = counters.get("blocks"), counters.get("sms"), counters.get("waves")
    block_share = blocks / sms if blocks is not None and sms else None
    spilled = [counters[name] for name in ("spills", "local_sectors") if name in counters]
    occupancy, limit = counters.get("occupancy"), counters.get("occupancy_limit")
    return {
        "l2_excess": counters["l2_to_sm"] / reads if "l2_to_sm" in counters and reads else None,
        "inner_intensity": intensity,
        "reuse_lost": (target.intensity or 0.0) / intensity if intensity else None,
        "conflict_share": _share(counters.get("bank_conflicts"), counters.get("shared_wavefronts")),
        "spilled": max(spilled) if spilled else None,
        "local_use": _local_use(gap),
        "block_share": block_share,
        "fill": waves or block_share,
        "wave_fill": waves / ceil(waves) if waves else None,
        "residency": occupancy / limit if occupancy is not None and limit else None,
        "occupancy_by": _occupancy_by(counters),
        "capped": yes_or_no(0 < counters.get("occupancy_limit", 1.0) < MAX_CAPPED),
    }


def _local_use(gap: Gap) -> str | None:
    """What local memory is used for: spilled registers, or arrays of a thread; None where there is none, or no sign.

    The tightest launch bounds leave a thread MIN_REGISTER_CAP registers. A kernel with fewer had registers to spare.
    A spilled register has a fixed address; that of an element is computed, where the integers are not the work itself.
    """
    counters, known = gap.measurement.counters, gap.target.work.dtype if gap.target.algorithm_known else ""
    if not counters.get("local_sectors", counters.get("spills")):
        return None
    if "spills" in counters:
        return "registers" if counters["spills"] > 0 else "arrays"
    registers, integers = counters.get("registers"), counters.get("integer_instructions", 0.0) / WARP
    if (gap.counts.flops or known in FLOATS) and integers * LOCAL_SECTORS >= MIN_INDEXING * counters["local_sectors"]:
        return "arrays"
    return None if registers is None else "registers" if registers >= MIN_REGISTER_CAP else "arrays"


def _occupancy_by(counters: Mapping[str, float]) -> str | None:
    """What limits the blocks per SM."""
    names = {"registers": "registers", "shared": "shared memory", "warps": "block size", "slots": "block slots"}
    limits = {text: counters[f"blocks_by_{key}"] for key, text in names.items() if f"blocks_by_{key}" in counters}
    return min(limits, key=lambda text: limits[text]) if limits else None


def _cpu(gap: Gap) -> Known:
    """Cores, sockets, and extra traffic as a multiple of the bytes written: 1 is write-allocate."""
    target, units = gap.target, gap.target.machine.units
    threads, cores = gap.measurement.threads, units.get("core") or units.get("thread")
    written = target.moved(WRITE)
    extra = None if gap.excess_bytes is None else (gap.excess_bytes - 1) * target.bytes
    return {
        "cores_used": min(threads / cores, 1.0) if threads and cores else None,
        "sockets": float(units.get("socket", 1)),
        "write_allocate": extra / written if extra is not None and written else None,
    }


def _share(part: float | None, total: float | None) -> float | None:
    """None where either is unknown; 0 of a total of 0."""
    return None if part is None or total is None else part / total if total else 0.0
