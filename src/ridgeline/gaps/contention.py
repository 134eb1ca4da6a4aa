"""Figures of requests that meet at few slices of L2: atomics that queue, and loads of few lines."""

from __future__ import annotations

from .access import Known
from .gap import Gap
from .regime import LAUNCH

MIN_ATOMIC_BUSY = 0.5  # utilization of the atomic unit of the busiest slice
MIN_ATOMIC_SHARE, MIN_SLICE_RATIO = 0.1, 3.0  # the same where one slice has several times the mean traffic
MIN_ATOMIC_PART = 0.5  # of the work of the busiest slice, from which atomics are what it is busy with
MIN_HOT_SLICE_RATIO, MIN_HOT_SLICE_BUSY = 1.5, 0.5  # of the busiest slice over the mean; its utilization
MIN_IDLE_SLICE_RATIO = 2.0  # of the busiest slice over the mean, and over any other unit where nothing is busy
MIN_SLICE_BUSY = 0.25  # utilization of the slice then

SOURCES: dict[str, tuple[str, ...]] = {
    "contended": ("atomics", "atomic_busy", "l2_imbalance", "l2_slice_busy"),
    "slice_bound": ("l2_imbalance", "l2_slice_busy"),
}


def contention_figures(gap: Gap) -> Known:
    return {"contended": _contended(gap), "slice_bound": _slice_bound(gap)}


def _contended(gap: Gap) -> str | None:
    """Whether atomics queue at few addresses: their unit is busy, the traffic is at few slices of L2, or they are most of it there."""
    counters = gap.measurement.counters
    atomics, busy, slices = (counters.get(name) for name in ("atomics", "atomic_busy", "l2_imbalance"))
    if atomics is None or busy is None or slices is None:
        return "no" if atomics == 0 else None
    mostly = slices >= MIN_IDLE_SLICE_RATIO and busy >= MIN_ATOMIC_PART * counters.get("l2_slice_busy", 1.0)
    queued = busy >= MIN_ATOMIC_BUSY or (busy >= MIN_ATOMIC_SHARE and (slices >= MIN_SLICE_RATIO or mostly))
    return "yes" if atomics > 0 and queued else "no"


def _slice_bound(gap: Gap) -> str | None:
    """Whether one slice of L2 has much more to do than the others: it is busy, or busier than any other unit by far.

    Requests for one line wait for each other, so its slice queues long before it is busy all the time.
    """
    ratio, busy = (gap.measurement.counters.get(name) for name in ("l2_imbalance", "l2_slice_busy"))
    if ratio is None or busy is None:
        return None
    others = max((share.value for share in gap.shares if share.name != LAUNCH), default=0.0)
    alone = ratio >= MIN_IDLE_SLICE_RATIO and busy >= max(MIN_SLICE_BUSY, MIN_IDLE_SLICE_RATIO * others)
    return "yes" if alone or (ratio >= MIN_HOT_SLICE_RATIO and busy >= MIN_HOT_SLICE_BUSY) else "no"
