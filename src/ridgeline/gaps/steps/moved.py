"""Work of what moves data without an operator that counts it: copies over the host link, fills, collectives, by bytes."""

from __future__ import annotations

from ...core.machine import Machine
from ...core.timeline import COPY, Activity
from ...core.work import READ, WRITE, Work
from ...prediction.flat import PAGEABLE, TO_PAGEABLE
from ...programs import ops
from ...programs.aten.formats import format_of

BUS = "bus"  # the topology of the link between host and device
NO_BYTES = "the trace has no size for it"
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def direction(ran: Activity) -> str:
    """`HtoD`, `DtoH`, `DtoD` of a copy; empty where its name does not say."""
    return next((way for way in ("HtoD", "DtoH", "DtoD", "PtoP") if way in f"{ran.name} {ran.kernel}"), "")


def is_transfer(ran: Activity) -> bool:
    """Whether it crosses the link between host and device."""
    return ran.kind == COPY and direction(ran) in ("HtoD", "DtoH")


def is_pageable(ran: Activity) -> bool:
    """Whether a copy is from or to host memory that is not pinned: profilers name the kind of memory on both sides."""
    return is_transfer(ran) and PAGEABLE in ran.kernel.lower()


def size(ran: Activity) -> float:
    moved = ran.settings.get("bytes")
    return float(moved) if isinstance(moved, int | float) and moved > 0 else 0.0


def copied_work(ran: Activity, machine: Machine, pinned: bool = False) -> tuple[Work | None, str]:
    """A copy: every byte once over the host link, or read and written once within the device.

    One from pageable memory counts the same and takes longer, unless asked for as if its memory were pinned.
    """
    moved = size(ran)
    if not moved:
        return None, NO_BYTES
    if not is_transfer(ran):
        return ops.copy(n=moved, dtype="int8"), ""
    link = next((link.name for link in machine.links if link.topology == BUS), None)
    if link is None:
        return None, f"{machine.name} has no figure for its link to the host"
    way = WRITE if direction(ran) == "DtoH" else READ
    name = "copy to host" if way == WRITE else "copy to device"
    staged = is_pageable(ran) and not pinned
    return Work(
        moves={(link, "data", way): moved},
        waits={"launch": 1.0},
        name=name,
        family=(TO_PAGEABLE if way == WRITE else PAGEABLE) if staged else "",
        dtype="int8",
        held=moved,
    ), ""


def filled_work(ran: Activity) -> tuple[Work | None, str]:
    """A fill: every byte written once."""
    return (ops.fill(n=size(ran), dtype="int8"), "") if size(ran) else (None, NO_BYTES)


def collective_work(ran: Activity) -> tuple[Work | None, str]:
    """A collective by its larger buffer and its ranks, as the profiler recorded them."""
    ranks, dtype = ran.settings.get("ranks"), str(ran.settings.get("dtype", ""))
    counts = [ran.settings.get(key) for key in ("elements_in", "elements_out")]
    elements = max((float(count) for count in counts if isinstance(count, int | float)), default=0.0)
    if ran.name not in COLLECTIVES:
        return None, f"no rule for the collective {ran.name}"
    if not isinstance(ranks, int) or ranks < 2 or not elements or not dtype:
        return None, "ranks, elements or format of the collective were not recorded"
    row = format_of(dtype)
    if row is None:
        return None, f"no size known for format {dtype}"
    return ops.find(ran.name)(bytes=elements * row.bytes, ranks=ranks, dtype=row.arithmetic), ""
