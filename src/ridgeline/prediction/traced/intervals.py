"""Intervals of a program's device and wall time, and how sure its regime is.

device   errors of kernels of one family go together; those of two families correlate by r (defaults.toml), because all kernels
         of a program run at one clock, with one state of caches and memory:
             width^2 = (1 - r) sum_f width_f^2 + r (sum_f width_f)^2,    width_f = sum of the widths of its ops
         Many kernels do not make a program certain: the second part does not shrink with their number.
wall     errors of host and device are independent: each moves the wall time by as much as the queue passes on.
regime   multiplying host and device times by one factor changes nothing about who waits for whom. The step is host-bound
         from a host x times as slow on, so that it is so with the probability that host / device exceeds x. Where that
         limit lies within the 80 % interval of host / device, the step is balanced: either may set its pace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from math import erf, hypot, log, sqrt

from ...core.machine import Machine
from ...machines.defaults import defaults
from ..queue import Queue
from .op_time import OpTime

HALF_WIDTH = 1.2816  # standard deviations from the middle of an 80 % interval to its ends
MIN_CONFIDENCE = 0.9  # in a regime, below which a step is balanced: one end of an 80 % interval
LOW, HIGH = "low", "high"


def device_width(ops: Iterable[OpTime], end: str) -> float:
    """Seconds from the device time of a program to an end of its 80 % interval."""
    widths: dict[Hashable, float] = defaultdict(float)
    for item in ops:
        widths[item.family] += abs(getattr(item, end) - item.time)
    shared = defaults("program_error")["correlation"]
    return sqrt((1 - shared) * sum(width**2 for width in widths.values()) + shared * sum(widths.values()) ** 2)


def host_ends(machine: Machine, compiled: bool = False) -> dict[str, float]:
    """The ends of the 80 % interval of host times, as multiples of the predicted ones."""
    spread = defaults("dispatch_spread")
    factor = 1 + hypot(machine.eager_call.spread or spread["host"], spread["compiled" if compiled else "program"])
    return {LOW: 1 / factor, HIGH: factor}


def wall_end(queue: Queue, host: float, device: float) -> float:
    """The wall time at an end of its interval, from the factors by which host and device differ at theirs."""
    wall = queue.wall()
    width = hypot(queue.faster(host=host).wall() - wall, queue.faster(device=device).wall() - wall)
    return wall + width if host > 1 else max(wall - width, 0.0)


def regime_confidence(queue: Queue, host: dict[str, float], device: dict[str, float]) -> float:
    """Probability that the step is in the regime that is predicted."""
    critical = queue.critical_host()
    if critical is None:
        return 1.0
    spread = hypot(*(log(ends[HIGH] / ends[LOW]) / 2 / HALF_WIDTH for ends in (host, device)))
    return 0.5 * (1 + erf(abs(log(critical)) / max(spread, 1e-9) / sqrt(2)))
