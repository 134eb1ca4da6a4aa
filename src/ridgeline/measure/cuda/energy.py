"""Loads held until they settle, the power they draw, and energy per flop and per byte fitted from them.

    power = static + sum over ceilings of (energy per flop or byte x rate)

A load counts only at the level it reads from, so the energy of a byte includes its way through the levels nearer the
core, and that of a tensor flop the feeding of the tensor units. Static power is a parameter of the fit, not idle power.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...prediction.fit import linear
from ..protocol import Clock, calibrate
from .conditions import Watch, mean_power

WINDOW = 0.05  # seconds of one window
ROLL = 10  # windows the rolling variation is taken over
STEADY = 0.01  # coefficient of variation of throughput below which a load has settled
STEADY_CLOCK = 0.015


@dataclass
class Held:
    """A load that was held: seconds per call of every window, the settled ones apart, and what the device drew."""

    windows: list[float]
    settled: list[float]
    steady: bool
    span: tuple[float, float]  # of the settled windows, by the host's clock
    power: float | None = None
    power_from: str = ""
    rate: float = 0.0  # calls per second over the settled windows


def variation(values: Sequence[float]) -> float:
    return float(np.std(values) / np.mean(values)) if len(values) > 1 else 0.0


def is_steady(windows: Sequence[float], clocks: Sequence[float]) -> bool:
    """Whether the last windows vary no more than a settled load does, in throughput and in clock."""
    if len(windows) < ROLL:
        return False
    return variation(windows[-ROLL:]) < STEADY and variation(clocks[-ROLL:]) < STEADY_CLOCK


def hold(
    call: Callable[[int], Any],
    clock: Clock,
    watch: Watch,
    least: float = 2.0,
    most: float = 5.0,
    window: float = WINDOW,
) -> Held:
    """Run a load for at least `least` seconds and until it has settled, at most `most` seconds."""
    loops = calibrate(call, clock, window)
    windows: list[float] = []
    ends: list[float] = []
    clocks: list[float] = []
    start = clock.now()
    while True:
        windows.append(float(call(loops)) / loops)
        ends.append(clock.now())
        told = watch.seen[-1][1] if watch.seen else {}
        if "sm_clock" in told:
            clocks.append(told["sm_clock"])
        spent = ends[-1] - start
        steady = is_steady(windows, clocks)
        if spent >= most or (spent >= least and steady):
            break
    # the settled part: the last windows back to where they leave the final level, never less than the roll
    kept = min(len(windows), max(ROLL, len(windows) // 2))
    span = (ends[-kept] - windows[-kept] * loops, ends[-1])
    held = Held(windows, windows[-kept:], steady, span, rate=1 / float(np.mean(windows[-kept:])))
    found = mean_power(watch.during([span]))
    if found:
        held.power, held.power_from = found
    return held


@dataclass(frozen=True)
class Load:
    """Watts a load drew and the rates (flop/s, B/s) it reached, by ceiling."""

    name: str
    power: float
    rates: Mapping[str, float]


@dataclass(frozen=True)
class Fit:
    static: float
    energy: dict[str, float]
    residual: float  # root mean square over the loads, W
    relative: float  # the same over the mean power
    loads: int
    unresolved: list[str] = field(default_factory=list)


def fit(loads: Sequence[Load]) -> Fit | None:
    """Least squares of power over rates; None when there are fewer loads than unknowns, or none of them is resolved.

    A ceiling whose energy comes out negative cannot be told from static power in these loads: it is named and left out.
    """
    names = list(dict.fromkeys(name for load in loads for name in load.rates))
    power = np.array([load.power for load in loads])
    unresolved: list[str] = []
    while True:
        if not names or len(loads) < len(names) + 1:
            return None
        rates = [np.array([load.rates.get(name, 0.0) for load in loads]) for name in names]
        (static, *energy), error = linear([np.ones(len(loads)), *rates], power)
        watts = [value * float(rate.max()) for value, rate in zip(energy, rates, strict=True)]
        if min(watts) > 0:
            break
        unresolved.append(names.pop(int(np.argmin(watts))))
    by_name = dict(zip(names, energy, strict=True))
    return Fit(static, by_name, error, error / float(power.mean()), len(loads), unresolved)
