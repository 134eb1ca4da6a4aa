"""How kernels are launched: latency of a launch, nodes of a captured graph, the device's wait for the host."""

from __future__ import annotations

from ..core.errors import unknown
from ..core.machine import Machine
from ..machines.defaults import defaults

# How kernels come to the device: the host sends each of them, or all at once.
ONE_BY_ONE, GRAPH = SENT = ("one by one", "graph")
WITHOUT_GRAPHS = ("cpu", "tpu", "accelerator")  # kinds of machines that replay no graphs of kernels


def way(text: str, where: str) -> str:
    """One of SENT, or a message that names the place."""
    if text not in SENT:
        raise unknown(f"way of sending kernels ({where})", text, SENT)
    return text


def launch_latency(machine: Machine) -> float:
    """Seconds a kernel takes however little it does: the machine's own figure, else the default of its kind."""
    known = machine.launch.value()
    return defaults("launch").get(machine.kind, 0.0) if known is None else known


def graph_node_share(machine: Machine) -> float:
    """Latency of a node of a replayed graph, as a share of a launch that is queued behind others.

    What TPUs and other accelerators run is one compiled program already, and a CPU calls its kernels itself: they have no graphs to replay.
    """
    return 1.0 if machine.kind in WITHOUT_GRAPHS else defaults("graph")["node"]


def waiting(launches: float, each: float, device: float) -> float:
    """Seconds a device waits for the host: wall less device time, where sending takes longer than running.

    The host sends while the device runs, so that the longer of the two sets the pace: wall = max(device, launches x each).
    """
    return max(launches * each - device, 0.0)
