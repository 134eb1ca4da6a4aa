"""A load held until it is steady, the power it draws, and energy per flop and per byte fitted from many.

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

WINDOW_SECONDS = 0.05
ROLL_WINDOWS = 10  # that the rolling variation is taken over
MAX_VARIATION = 0.01  # coefficient of variation of the throughput of a steady load
MAX_CLOCK_VARIATION = 0.015


@dataclass
class Held:
    """A load that was held: seconds per call of every window, the steady ones apart, and what the device drew."""

    windows: list[float]
    steady_windows: list[float]
    steady: bool
    span: tuple[float, float]  # of the steady windows, by the host's clock
    power: float | None = None
    power_from: str = ""
    rate: float = 0.0  # calls per second over the steady windows


def variation(values: Sequence[float]) -> float:
    return float(np.std(values) / np.mean(values)) if len(values) > 1 else 0.0


def is_steady(windows: Sequence[float], clocks: Sequence[float]) -> bool:
    """Whether the last windows vary no more than those of a steady load, in throughput and in clock."""
    if len(windows) < ROLL_WINDOWS:
        return False
    last, last_clocks = windows[-ROLL_WINDOWS:], clocks[-ROLL_WINDOWS:]
    return variation(last) < MAX_VARIATION and variation(last_clocks) < MAX_CLOCK_VARIATION


def hold(
    call: Callable[[int], Any],
    clock: Clock,
    watch: Watch,
    min_seconds: float = 2.0,
    max_seconds: float = 5.0,
    window: float = WINDOW_SECONDS,
) -> Held:
    """Run a load for at least `min_seconds` and until it is steady, at most `max_seconds`."""
    loops = calibrate(call, clock, window)
    windows: list[float] = []
    ends: list[float] = []
    clocks: list[float] = []
    start = clock.now()
    while True:
        windows.append(float(call(loops)) / loops)
        ends.append(clock.now())
        reading = watch.readings[-1][1] if watch.readings else {}
        if "sm_clock" in reading:
            clocks.append(reading["sm_clock"])
        spent = ends[-1] - start
        steady = is_steady(windows, clocks)
        if spent >= max_seconds or (spent >= min_seconds and steady):
            break
    # the steady part: the last windows back to where they leave the final level, never less than the roll
    kept = min(len(windows), max(ROLL_WINDOWS, len(windows) // 2))
    span = (ends[-kept] - windows[-kept] * loops, ends[-1])
    held = Held(windows, windows[-kept:], steady, span, rate=1 / float(np.mean(windows[-kept:])))
    if power := mean_power(watch.during([span])):
        held.power, held.power_from = power
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

    A ceiling whose energy comes out negative cannot be separated from static power in these loads: it is named and left out.
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
