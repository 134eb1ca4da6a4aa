"""The figures of a gap that rule conditions ask for; unknown ones are absent."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.work import READ, WRITE
from ..prediction.host import launch_latency
from .gap import Gap
from .regime import COUNTERS, LAUNCH
from .target import longest

CPU = "cpu"
SECTOR = 32.0  # bytes
MIN_SCATTERED_SECTORS = 8.0  # per request, from which partly used sectors are scattered access and not a broadcast
FULL_VECTOR_SECTORS = 16.0  # of a coalesced request of 16 bytes per thread
NOT_STALLED = ("selected", "not_selected")
STALL = "stall."  # prefix of the warp-stall counters
NEAREST = {"fp32": "tf32"}  # the tensor format that accepts the same numbers

# Counters behind the figures that are made of several; every other figure of a counter has its name.
SOURCES: dict[str, tuple[str, ...]] = {
    "wasted": ("sectors_per_load", "bytes_per_sector_load", "sectors_per_store", "bytes_per_sector_store"),
    "l2_excess": ("l2_to_sm",),
    "inner_intensity": ("l1", "l2", "shared"),
    "reuse_lost": ("l1", "l2"),
    "conflict_share": ("bank_conflicts", "shared_wavefronts"),
    "spilled": ("local_sectors",),
    "block_share": ("blocks", "sms"),
    "fill": ("waves",),
    "stall": tuple(f"stall.{reason}" for reason in ("long_scoreboard", "barrier", "wait", "short_scoreboard", "math_pipe_throttle", "lg_throttle", "mio_throttle")),
    "busiest": ("issue", "hbm_busy", "l2_busy", "l1_busy", "fma_busy", "tensor_busy", "sm_active"),
    "limiter": ("issue", "hbm_busy", "l2_busy", "l1_busy", "fma_busy", "tensor_busy", "sm_active"),
    "limiter_side": ("issue", "hbm_busy", "l2_busy", "l1_busy", "fma_busy", "tensor_busy", "sm_active"),
    "engine_share": ("fma_busy", "tensor_busy"),
    "main_share": ("hbm", "hbm_busy"),
    "excess_bytes": ("hbm",),
}  # fmt: skip


def counters_of(figure: str) -> tuple[str, ...]:
    """The counters that a figure of the rules is made of."""
    return SOURCES.get(figure, (figure,))


Known = dict[str, float | str | None]


def signs(gap: Gap) -> dict[str, float | str]:
    target, measurement, machine = gap.target, gap.measurement, gap.target.machine
    latency, memory = launch_latency(machine), longest(target.needs, "memory")
    counters = {name: value for name, value in measurement.counters.items() if not name.startswith((STALL, "roof."))}
    known: Known = {
        **counters,
        "share": gap.share,
        "algorithm_share": target.floor / gap.measured,
        "vertical": gap.vertical,
        "horizontal": gap.horizontal,
        "excess_bytes": gap.excess_bytes,
        "excess_flops": gap.excess_flops,
        "device": machine.kind or "gpu",
        "bound_predicted": target.bound,
        "bound_seen": gap.regime.bound,
        "matrix": _yes(target.matrix_flops),
        "weights": _yes(target.work.family != "attention"),
        "algorithm_over_ridge": longest(target.needs, "compute") / memory if memory else None,
        "deep": _yes(gap.deep_compute),
        "kernels": measurement.launches,
        "parts": float(len(measurement.kernels)) if measurement.kernels else None,
        "kernel_over_launch": gap.measured / measurement.launches / latency if latency else None,
        "floor_over_launch": target.floor / latency if latency else None,
        "sent": gap.sent,
        "waiting": None if gap.waiting is None else gap.waiting / gap.measured,
        "between": gap.between.bytes / target.bytes if gap.between and target.bytes else 0.0,
        "together": ("yes" if gap.between.certain else None) if gap.between else "no",
        "faster_engine": faster_engine(gap)[1],
        **(_busy(gap) if gap.regime.basis == COUNTERS else {}),
        **_execution(gap),
        **_access(gap),
        **(_cpu(gap) if machine.kind == CPU else {}),
    }
    return {name: value for name, value in known.items() if value is not None}


def _yes(value: object) -> str:
    return "yes" if value else "no"


def _busy(gap: Gap) -> Known:
    """Utilization by the counters."""
    regime = gap.regime
    shares = {share.name: share.value for share in gap.shares if share.name != LAUNCH}
    return {
        "busiest": max(shares.values(), default=0.0),
        "limiter_side": regime.bound if regime.limited else "none",
        "limiter": regime.limiter if regime.limited else "none",
        "main_share": shares.get(gap.target.main),
        "engine_share": shares.get(gap.counts.engine or "", 0.0),
    }


def _execution(gap: Gap) -> Known:
    """The engine that ran, asynchronous copies, and the main warp stall."""
    counters = gap.measurement.counters
    stalls = {name.removeprefix(STALL): value for name, value in counters.items() if name.startswith(STALL)}
    stalls = {name: value for name, value in stalls.items() if name not in NOT_STALLED}
    return {
        "engine": gap.counts.engine.partition(".")[0] if gap.counts.engine else None,
        "asynchronous": _yes(max(counters.get(name, 0.0) for name in ("copy_busy", "tma")) > 0),
        "stall": max(stalls, key=lambda name: stalls[name]) if stalls else None,
    }


def _access(gap: Gap) -> Known:
    """Memory accesses: sector use, cache traffic, conflicts, spills, blocks."""
    counters, moved, target = gap.measurement.counters, gap.measurement.bytes, gap.target
    reads = target.moved(READ)
    inner = moved.get("l1", moved.get("l2"))
    intensity = gap.counts.flops / inner if gap.counts.flops and inner else None
    blocks, sms = counters.get("blocks"), counters.get("sms")
    block_share = blocks / sms if blocks is not None and sms else None
    spilled = [counters[name] for name in ("spills", "local_sectors") if name in counters]
    return {
        "wasted": _wasted(counters),
        "l2_excess": counters["l2_to_sm"] / reads if "l2_to_sm" in counters and reads else None,
        "inner_intensity": intensity,
        "reuse_lost": (target.intensity or 0.0) / intensity if intensity else None,
        "conflict_share": _share(counters.get("bank_conflicts"), counters.get("shared_wavefronts")),
        "spilled": max(spilled) if spilled else None,
        "block_share": block_share,
        "fill": counters.get("waves") or block_share,
    }


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


def _wasted(counters: Mapping[str, float]) -> float | None:
    """Bytes fetched per byte used, for loads or stores, whichever is worse; 1 where requests touch few sectors."""
    ratios = []
    for way in ("load", "store"):
        sectors, used = counters.get(f"sectors_per_{way}"), counters.get(f"bytes_per_sector_{way}")
        if sectors is None:
            continue
        if sectors < MIN_SCATTERED_SECTORS:
            ratios.append(1.0)
        else:
            ratios.append(SECTOR / used if used else max(sectors / FULL_VECTOR_SECTORS, 1.0))
    return max(ratios) if ratios else None


def faster_engine(gap: Gap) -> tuple[str, float | None]:
    """The tensor engine for the same or the nearest format, and how much faster it is."""
    target, machine = gap.target, gap.target.machine
    ran = gap.counts.engine or target.engine
    unit, _, dtype = ran.partition(".")
    if target.matrix_flops and unit == "vector" and ran in machine.peaks:
        for name in (target.engine, f"tensor.{dtype}", f"tensor.{NEAREST.get(dtype, dtype)}"):
            figure = machine.peaks.get(name)
            value = figure.value(target.ceilings) if figure and name.startswith("tensor.") else None
            if value is not None:
                return name, value / machine.peak(ran, target.ceilings).value
    vector = machine.peaks.get("vector.fp32")
    peak = vector.value(target.ceilings) if vector else None
    alone = target.flops / peak if peak else 0.0
    if gap.counts.engine or alone > gap.measured or (peak and alone <= target.floor):
        # the tensor cores were counted, the vector units cannot be this fast, or they would not be the limiter
        return "", 0.0
    return "", None
