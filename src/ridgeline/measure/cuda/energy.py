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
        rates = np.array([[load.rates.get(name, 0.0) for name in names] for load in loads]).reshape(len(loads), -1)
        if not names or len(loads) < len(names) + 1:
            return None
        largest = rates.max(axis=0)  # columns of flop/s and B/s differ by orders of magnitude
        table = np.column_stack([np.ones(len(loads)), rates / largest])
        found, _, _, _ = np.linalg.lstsq(table, power, rcond=None)
        negative = [place for place, value in enumerate(found[1:]) if value <= 0]
        if not negative:
            break
        worst = min(negative, key=lambda place: found[1 + place])
        unresolved.append(names.pop(worst))
    error = float(np.sqrt(np.mean((table @ found - power) ** 2)))
    energy = {name: float(value / top) for name, value, top in zip(names, found[1:], largest, strict=True)}
    return Fit(float(found[0]), energy, error, error / float(power.mean()), len(loads), unresolved)
