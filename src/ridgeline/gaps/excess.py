"""Figures of bytes that the algorithm does not need: which kind they are, by conversions, writes and hits on reads."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.dtypes import ALIASES, TABLE, Dtype
from ..core.work import WRITE
from .access import WARP, Known, bytes_per_request
from .gap import Gap
from .kernel_families import CONVERSION, SECTOR

MIN_EXCESS_WRITES = 1.25  # over those of the algorithm, from which a buffer besides the result is written
MIN_WRITES_OF_ALL = 0.8  # the same over all bytes of the algorithm, where its reads and writes are not known apart
MIN_SHARE_OF_EXCESS = 0.25  # of such writes in the extra bytes; half of these where a buffer is written and read once
# Hit rates of L1 and of reads in L2, where data are reused but not held by L2. A table besides the data has a few hits in L1.
MIN_REUSE, MAX_SERVED = 0.25, 0.25
FP32, FP32_BYTES = "fp32", 4.0

SOURCES: dict[str, tuple[str, ...]] = {
    "read_hit": ("l2_to_sm", "hbm_read", "l2_hit"),
    "converted": ("conversions",),
    "scratch": ("hbm_write",),
    "evicted": ("l1_hit", "bytes_per_sector_load", "l2_to_sm", "hbm_read", "l2_hit"),
}


def excess_figures(gap: Gap) -> Known:
    counters = gap.measurement.counters
    return {
        "read_hit": read_hit(counters),
        "converted": _converted(gap),
        "scratch": _scratch(gap),
        "evicted": _evicted(counters),
    }


def _format(gap: Gap) -> Dtype | None:
    name = gap.target.work.dtype
    return TABLE.get(ALIASES.get(name, name))


def format_needed(gap: Gap) -> str | None:
    """The format of the data: of the operator, else fp32 where threads load 4 bytes each; None where it is not known.

    Wider loads may be of several numbers. They are fp32 where every 4 bytes that are read are converted, and results are
    fp32 too: each has 4 bytes, or is converted as well.
    """
    counters = gap.measurement.counters
    if gap.target.algorithm_known:
        return gap.target.work.dtype or None
    loaded, stored = (_of_words(counters, way) for way in ("load", "store"))
    conversions, words = counters.get("conversions", 0.0), counters.get("hbm_read", float("inf")) / FP32_BYTES
    both = sum(
        counters.get(f"{way}_requests", 0.0) * counters.get(f"sectors_per_{way}", 0.0) for way in ("load", "store")
    )
    every = 0 < both * SECTOR / FP32_BYTES <= conversions
    return FP32 if loaded or (stored and conversions >= words) or every else None


def _of_words(counters: Mapping[str, float], way: str) -> bool:
    """Whether each thread loads, or stores, 4 bytes at a time."""
    each = bytes_per_request(counters, WARP, way)
    return each is not None and abs(each - FP32_BYTES) < 0.1 * FP32_BYTES


def element_bytes(gap: Gap) -> float | None:
    """Bytes of an element of the work, None where its format is not known."""
    row = _format(gap)
    return row.bytes if row is not None else None


def read_hit(counters: Mapping[str, float]) -> float | None:
    """The share of the reads of L2 that it served itself. The hit rate that tools print counts writes too, which all hit."""
    delivered, fetched = counters.get("l2_to_sm"), counters.get("hbm_read")
    if delivered and fetched is not None:
        return max(1 - fetched / delivered, 0.0)
    return counters.get("l2_hit")


def _converted(gap: Gap) -> float | None:
    """Conversions per element of the algorithm: about 1 where every element is stored in another format than its own.

    None for formats whose arithmetic is in a wider one, which convert in any case.
    """
    target, row, conversions = gap.target, _format(gap), gap.measurement.counters.get("conversions")
    if conversions is None or not target.algorithm_known or not target.bytes:
        return None
    return conversions * row.bytes / target.bytes if row is not None and row.vector == row.name else None


def converting(gap: Gap) -> float:
    """The share of the time in kernels that only copy a tensor into another layout.

    By the counters alone a kernel stands for itself: all of it, where it is one that a library adds for its own layout, or a
    copy that is made for other kernels.
    """
    kernels = gap.measurement.kernels
    added = bool(kernels) and all(CONVERSION.search(kernel) for kernel in kernels)
    added = added or (gap.between is not None and gap.between.layout)
    return 1.0 if added and not gap.target.algorithm_known else gap.measurement.converting


def _scratch(gap: Gap) -> str | None:
    """Whether more is written than the result."""
    target, written = gap.target, gap.measurement.counters.get("hbm_write")
    if written is None or not target.algorithm_known:
        return None
    result, excess = target.moved(WRITE), (gap.counts.bytes or 0.0) - target.bytes
    limit = MIN_EXCESS_WRITES * result if result else MIN_WRITES_OF_ALL * target.bytes
    return "yes" if written >= limit and written - result >= MIN_SHARE_OF_EXCESS * excess else "no"


def _evicted(counters: Mapping[str, float]) -> str | None:
    """Whether data are reused while they are in L1, and no longer in L2 when they are needed again later.

    A load that uses part of a sector leaves the rest to the next one, which hits in L1 without any reuse.
    """
    served, near = read_hit(counters), counters.get("l1_hit")
    if served is None or near is None:
        return None
    parts = 1 - counters.get("bytes_per_sector_load", SECTOR) / SECTOR
    return "yes" if near - parts >= MIN_REUSE and served < MAX_SERVED else "no"
