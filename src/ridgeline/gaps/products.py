"""Matrix products: whether the work of a gap is one, how it reuses data in the caches, and the engine made for it."""

from __future__ import annotations

from .access import yes_or_no
from .gap import Gap
from .kernel_families import SECTOR, is_product
from .regime import COMPUTE
from .target import STATED, longest

MAX_UNTILED_INTENSITY = 4.0  # flop/B in the caches, below which a product is not tiled
MIN_NEAR_RIDGE = 0.5  # of compute over memory time of stated counts, from which compute nearly limits them
REUSE_RATIO = 8.0  # of the intensity at memory over that in the caches, from which data are reused like in a product
NEAREST = {"fp32": "tf32"}  # the tensor format that accepts the same numbers


def matrix(gap: Gap) -> str:
    """Whether the work is a matrix product; of an unknown op, whether it ran on tensor cores or reuses data like one.

    Counts that are stated do not say which op they are of. Where compute limits them, or nearly, data are reused.
    """
    target = gap.target
    stated = target.algorithm_known and target.work.family == STATED
    if target.matrix_flops or (target.algorithm_known and not stated):
        return yes_or_no(target.matrix_flops)
    if _named_product(gap) and not stated:
        return "yes"
    inner = inner_intensity(gap)
    reuse = (target.intensity or 0.0) > REUSE_RATIO * (inner or float("inf"))
    near = longest(target.needs, "compute") >= MIN_NEAR_RIDGE * longest(target.needs, "memory")
    deep = near and reuse if stated else target.bound == COMPUTE or reuse
    return yes_or_no(deep and inner is not None and inner < MAX_UNTILED_INTENSITY)


def _named_product(gap: Gap) -> bool:
    return any(map(is_product, gap.measurement.kernels))


def inner_intensity(gap: Gap) -> float | None:
    """FLOPs per byte through L1, or L2 where L1 was not counted."""
    moved = gap.measurement.bytes
    inner = moved.get("l1", moved.get("l2"))
    if inner and "l1" in moved:
        # spills and arrays of a thread are no operands
        inner -= SECTOR * gap.measurement.counters.get("local_sectors", 0.0)
    return gap.counts.flops / inner if gap.counts.flops and inner and inner > 0 else None


def faster_engine(gap: Gap) -> tuple[str, float | None]:
    """The tensor engine for the same or the nearest format, and how much faster it is."""
    target, machine = gap.target, gap.target.machine
    ran = gap.counts.engine or target.engine
    unit, _, dtype = ran.partition(".")
    product = target.matrix_flops or (not target.algorithm_known and _named_product(gap))
    if product and unit == "vector" and ran in machine.peaks:
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
