"""What every rank does by itself, and the bandwidth from each rank to the next."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..protocol import repeat
from .alpha_beta import Link
from .group import Group
from .point import ELEMENT_BYTES, Point

MIB = 1 << 20
LOCAL_SECONDS = 0.01  # of one sample of what a rank does by itself
LINK_SECONDS = 0.03  # of one sample of a link, so that what buffers on the way take does not pass for its bandwidth


def loops_for(wanted: float, seconds: float) -> int:
    return int(np.clip(np.ceil(wanted / seconds), 1, 1000))


def local(group: Group) -> dict[str, Any]:
    """The host and device of this rank, and how fast it copies and multiplies by itself, all ranks at the same time."""
    torch = group.torch
    gpu = group.device.type == "cuda"
    size, side = (256 * MIB, 4096) if gpu else (16 * MIB, 512)  # large enough that a launch does not show
    source = torch.randn(size // ELEMENT_BYTES, device=group.device)
    target = torch.empty_like(source)
    a = torch.randn(side, side, device=group.device)

    def rate(amount: float, work: Callable[[], object]) -> float:
        group.seconds(repeat(work, 2))
        loops = loops_for(LOCAL_SECONDS, group.seconds(work))
        return amount * loops / min(group.seconds(repeat(work, loops)) for _ in range(5))

    name = torch.cuda.get_device_name(group.device) if gpu else platform.processor()
    return {
        "rank": group.rank,
        "host": platform.node(),
        "device": name or platform.machine(),
        "gpu": str(getattr(torch.cuda.get_device_properties(group.device), "uuid", "")) if gpu else "",
        "copy": rate(2.0 * size, lambda: target.copy_(source)),
        "product": rate(2.0 * side**3, lambda: torch.mm(a, a)),
    }


def ring_links(group: Group, hosts: Sequence[dict[str, Any]], size: int, rounds: int) -> list[Link]:
    """Bandwidth from each rank to the next, one pair after the other: the best of a few samples back and forth."""
    point = Point(group, "p2p", size)
    ring = []
    for first in range(group.ranks):
        second = (first + 1) % group.ranks
        if group.ranks == 2 and first == 1:
            break  # the same pair again

        def exchange(count: int, first: int = first, second: int = second) -> float:
            took = group.gather(group.seconds(repeat(partial(point.ping_pong, first, second), count)))
            return max(took[first], took[second])

        exchange(1)
        loops = loops_for(LINK_SECONDS, exchange(1))
        seconds = min(exchange(loops) for _ in range(rounds)) / loops
        ends = [f"rank {rank} on {hosts[rank]['host']}" for rank in (first, second)]
        within = hosts[first]["host"] == hosts[second]["host"]
        ring.append(Link(f"the link from {ends[0]} to {ends[1]}", within, 2 * point.bytes / seconds))
    return ring
