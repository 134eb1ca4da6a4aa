"""What the host takes to send the kernels of a step, from the machine's figure or from a trace.

wall = max(device, launches x what the host takes to send one)      waiting = wall - device
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum, inf

from ..core.machine import Machine
from ..core.observation import Observation
from ..core.units import show
from .measurement import Measurement


@dataclass(frozen=True)
class Host:
    """The seconds it takes to send one kernel, and what that rests on."""

    each: float
    evidence: str
    at_most: bool = False  # it cannot take longer, and may take less


def host_cost(items: Sequence[Observation], measurement: Measurement, machine: Machine) -> Host | None:
    """What the host takes to send one of the step's kernels: the machine's figure, or what a trace shows where that is less.

    A trace shows at most what the host takes, because recording slows it: (device time + idle time) / launches. What a
    kernel alone waits for depends on what runs before it, so nothing is said of one.
    """
    if measurement.launches < 2:
        return None
    idle = [wait for item in items if isinstance(wait := item.settings.get("host_wait"), float) and 0 <= wait < inf]
    traced = (measurement.median + fsum(idle) / len(measurement.samples)) / measurement.launches if idle else None
    figure = machine.dispatch.value()
    if figure is not None and (traced is None or figure <= traced):
        beside = f"; {show(traced, 's', 3)} in the trace, which slows the host" if traced is not None else ""
        kind = f"{machine.dispatch.kind()} on {machine.name}"
        return Host(figure, f"model: the host takes {show(figure, 's', 3)} to send one, {kind}{beside}")
    if traced is None:
        return None
    evidence = f"observed: one every {show(traced, 's', 3)} in the trace; at most, because recording slows the host"
    return Host(traced, evidence, at_most=True)
