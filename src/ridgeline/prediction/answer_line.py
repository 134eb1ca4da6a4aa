"""The answer in one line: time and interval, what limits it, shares of the ceilings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.machine import ANY, Machine
from ..core.units import counted, percent, show_interval
from .flat import STEPS_IN_TURN, ordering_decides
from .ordering import in_steps, steps_decide
from .plain import plain
from .predict import Prediction

SURE = 0.95  # a bound is given with its confidence below this
LATENCY = "latency"
FEW_AT_ONCE = "too little work in parallel"
LAUNCHES = 4.0  # times its launches that a kernel below them takes at least where they are not what limits it
SPELLED = {
    "nvlink": "NVLink",
    "pcie": "PCIe",
    "nic": "NIC",
    "ici": "ICI",
    "nvlink-c2c": "NVLink-C2C",
    "infinity-fabric": "Infinity Fabric",
}


def unit_name(machine: Machine, limiter: str) -> str:
    """An engine, level or link as people write it: `tensor.bf16`, `HBM`, `NVLink`."""
    level = any(level.name == limiter for level in machine.levels)
    return limiter.upper() if level and limiter != "memory" else SPELLED.get(limiter, limiter)


def sides(prediction: Prediction) -> NDArray[Any]:
    """What bounds each case of a step: that of the roofline, but `latency` where steps that follow each other take longer than all else,
    or where a kernel whose roofline time is below its launch takes many times the launch."""
    bound, expected = prediction.bounds[0], prediction.expected[0]
    roofline = np.asarray(bound.bound)
    if expected.kernels:  # timed, or lent by what was: no term of its time is the ordering
        launches = bound.launch * np.asarray(bound.work.waits.get("launch", 0.0))
        waits = (roofline == "overhead") & (expected.time > LAUNCHES * launches)
        waits |= (roofline == "memory") & steps_decide(expected.kernels, expected.time, bound.roofline)
        return np.where(waits, LATENCY, roofline)
    return np.where(ordering_decides(bound, expected.given_efficiency), LATENCY, roofline)


def latency_of(prediction: Prediction) -> str:
    """What a latency-bound step waits for."""
    kernels = prediction.expected[0].kernels
    return FEW_AT_ONCE if kernels and not np.any(in_steps(kernels)) else STEPS_IN_TURN


def bound_text(prediction: Prediction, index: int = 0) -> str:
    """`memory-bound (HBM)`; below 95 % with the confidence in it, near the ridge with that in either side."""
    bound = prediction.bounds[0]
    if str(plain(sides(prediction), index)) == LATENCY:
        return f"{LATENCY}-bound ({latency_of(prediction)})"
    side, sure = str(plain(bound.bound, index)), float(plain(bound.confidence, index))
    if side == "balanced":
        compute = plain(bound.compute_time, index) >= plain(bound.memory_time, index)
        shares = (sure, 1 - sure) if compute else (1 - sure, sure)
        return f"balanced (compute {percent(shares[0])}, memory {percent(shares[1])})"
    limiter = str(plain(bound.limiter, index))
    named = limiter not in (ANY, side)  # a machine of two numbers has no names for them
    text = f"{side}-bound{f' ({unit_name(prediction.machine, limiter)})' if named else ''}"
    return f"{text}, {percent(sure)} confidence" if sure < SURE and side != "overhead" else text


def answer_line(prediction: Prediction, index: int = 0) -> str:
    """The answer in one line: `167 us [149-190] · memory-bound (HBM) · 84 % of roofline · MFU 0.3 % · MBU 84 %`."""
    time, low, high = (float(plain(value, index)) for value in (prediction.time, prediction.low, prediction.high))
    parts = [show_interval(time, low, high)]
    steps = len(prediction.steps)
    parts.append(bound_text(prediction, index) if steps == 1 else counted(steps, "step"))
    parts.append(f"{percent(plain(prediction.efficiency, index))} of roofline")
    if steps == 1:
        shares = {"MFU": prediction.mfu, "MBU": prediction.mbu}
        parts += [f"{name} {percent(plain(value, index))}" for name, value in shares.items() if value is not None]
    return " · ".join(parts)
