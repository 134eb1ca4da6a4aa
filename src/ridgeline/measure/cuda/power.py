"""Loads held until heat and power have settled: sustained matrix products, the power of each load, energy fitted.

    power = static + sum over ceilings of (energy per flop or byte x rate)

A load counts only at the level it reads from, so the energy of a byte includes its way through the levels nearer the
core, and that of a tensor flop the feeding of the tensor units. Static power is a parameter of the fit, not idle power;
`half of the time` loads pause as long as they run, so that the fit can separate their energy from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.work import Work
from ...prediction.fit import linear
from ..protocol import Call, Clock, Probe, calibrate, in_turn
from .arithmetic import Chain
from .conditions import Watch, mean_power
from .device import Device, u64
from .memory import MIXES
from .products import Product, product_settings
from .session import Session
from .streams import Loop

WINDOW_SECONDS = 0.05
ROLL_WINDOWS = 10  # that the rolling variation is taken over
MAX_VARIATION = 0.01  # coefficient of variation of the throughput of a steady load
MAX_CLOCK_VARIATION = 0.015
SUSTAINED_SECONDS = {True: (2.0, 2.5), False: (2.0, 6.0)}  # shortest and longest hold of a product, quick and full
POWER_SECONDS = 1.2, 1.6  # of a load that is held for its power alone


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


def sustained(session: Session, ranked: Mapping[str, tuple[Product, list[dict[str, Any]]]]) -> list[Load]:
    """Each product held until throughput and clock are steady."""
    loads: list[Load] = []
    for place, (dtype, (product, table)) in enumerate(ranked.items()):
        session.tell(place, len(ranked), f"holding gemm {dtype}")
        name, target = f"gemm {dtype} sustained", f"tensor.{dtype}"
        held = hold(product, session.clock, session.watch, *SUSTAINED_SECONDS[session.quick])
        product.check()
        settings = product_settings(product, []) | {"burst": False, "variants_tried": len(table)}
        del settings["sweep"]
        _add_held(session, name, target, held, product.work, settings)
        if held.power is not None:
            loads.append(Load(name, held.power, {target: product.flops * held.rate}))
    return loads


def _add_held(session: Session, name: str, target: str, held: Held, work: Work, settings: dict[str, Any]) -> None:
    session.spans[name] = [held.span]
    settings |= {"held_seconds": sum(held.windows) and held.span[1] - held.span[0], "windows": len(held.windows)}
    settings["settling_samples"] = held.windows[: len(held.windows) - len(held.steady_windows)]
    if held.power is not None:
        settings |= {"power": held.power, "power_from": held.power_from}
    notes = () if held.steady else ("throughput or clock had not settled when the time for it was over",)
    session.add(name, target, held.steady_windows, work, settings, *notes)


def held_loads(session: Session, device: Device, probes: Sequence[Probe]) -> list[Load]:
    """Memory and arithmetic loads all of the time and half of it, held long enough to read their power."""
    if session.watch.source is None:
        return []
    rows = _rows(device, session.main, probes)
    loads = []
    for place, (name, target, call, work) in enumerate(rows):
        session.tell(place, len(rows), f"power of {name}")
        held = hold(call, session.clock, session.watch, *POWER_SECONDS)
        _add_held(session, f"power of {name}", "power", held, work, {"load": target, "burst": False})
        if held.power is not None:
            amount = float(work.flops if target.startswith("vector") else work.bytes)
            loads.append(Load(name, held.power, {target: amount * held.rate}))
    return loads


def _rows(device: Device, main: str, probes: Sequence[Probe]) -> list[tuple[str, str, Call, Work]]:
    """(name, target, call, work) of every load whose power is read."""
    rows: list[tuple[str, str, Call, Work]] = []

    def add(probe: Probe, half: Sequence[Callable[[], None]] = ()) -> None:
        rows.append((probe.name, probe.target, probe.call, probe.work))
        if half:
            rows.append((f"{probe.name}, half of the time", probe.target, halved(device, half), probe.work))

    for mix in MIXES:
        probe = _largest_cold(probes, main, mix)
        assert isinstance(probe.call, Loop)
        add(probe, probe.call.works if mix in ("read", "copy") else ())
    # sets well inside the L2: a fuller one also draws on the memory behind it
    inside = [probe for probe in probes if probe.target == "l2" and probe.settings.get("mix") == "read"]
    inside = [probe for probe in inside if probe.settings["bytes"] <= device.l2 // 2]
    l1 = [probe for probe in probes if probe.target == "l1"]
    for probe in (inside[0], inside[-1], l1[0], l1[-1]):
        add(probe)
    for probe in probes:
        if isinstance(probe.call, Chain) and probe.target.startswith("vector"):
            add(probe, [probe.call.launch])
    return rows


def _largest_cold(probes: Sequence[Probe], target: str, mix: str) -> Probe:
    fitting = (
        probe
        for probe in probes
        if (probe.target, probe.settings.get("mix"), probe.settings.get("state")) == (target, mix, "cold")
    )
    return max(fitting, key=lambda probe: int(probe.settings["bytes"]))


def halved(device: Device, works: Sequence[Callable[[], None]]) -> Callable[[int], float]:
    """The works in turn, each followed by a pause as long as itself in which one thread spins."""
    cycles = 10_000_000
    pace = cycles / min(device.elapsed(lambda: device.launch("spin", 1, 1, u64(cycles))) for _ in range(3))

    pause = u64(pace * device.elapsed(in_turn(works)) / len(works))

    def call(loops: int) -> float:
        def work() -> None:
            for place in range(loops):
                works[place % len(works)]()
                device.launch("spin", 1, 1, pause)

        return device.elapsed(work)

    return call


def add_energy(session: Session, loads: Sequence[Load]) -> None:
    """The fit as an Observation whose settings carry the energies; a gap where there is no power to fit."""
    if session.quick:
        session.gaps.append("energy per flop and per byte: left out of the quick run")
        return
    fitted = fit(loads)
    if fitted is None:
        session.gaps.append(f"energy per flop and per byte: {len(loads)} loads with power are too few to fit")
        return
    settings = {
        "static_power": fitted.static,
        "energy": fitted.energy,
        "residual": fitted.residual,
        "residual_relative": fitted.relative,
        "loads": [{"name": load.name, "power": load.power, "rates": dict(load.rates)} for load in loads],
        "method": "least squares of power over rates, static power free; each load counts at its own level only",
    }
    notes = [f"static power {fitted.static:.0f} W, residual {fitted.residual:.1f} W rms over {fitted.loads} loads"]
    notes += [f"{name}: energy not told apart from static power by these loads" for name in fitted.unresolved]
    held = [item for item in session.observations if item.settings.get("burst") is False]
    seconds = sum(sample for item in held for sample in item.samples)
    session.add("energy", "energy", (seconds,), Work(), settings, *notes)
