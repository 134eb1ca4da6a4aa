"""What the host costs beside the device: how kernels are launched, and how long the device waits for the next one."""

from __future__ import annotations

from ..core.errors import unknown

# How kernels come to the device: the host sends each of them, or all at once.
ONE_BY_ONE, GRAPH = SENT = ("one by one", "graph")
# A node of a replayed graph against a launch that is queued behind others: 0.68 us against 1.46 us on an H200.
NODE = 0.46


def way(text: str, where: str) -> str:
    """One of SENT, or a message that names the place."""
    if text not in SENT:
        raise unknown(f"way of sending kernels ({where})", text, SENT)
    return text


def waiting(launches: float, each: float, device: float) -> float:
    """Seconds a device waits for the host: wall less device time, where sending takes longer than running.

    The host sends while the device runs, so that the longer of the two sets the pace: wall = max(device, launches x each).
    """
    return max(launches * each - device, 0.0)
