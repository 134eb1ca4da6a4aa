"""Loads held until heat and power have settled: sustained matrix products, the power of each kind of load, energy.

`half of the time` loads pause as long as they run, so that the fit can separate their energy from the static power.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...core.work import Work
from ..protocol import Call, Probe
from . import energy
from .arithmetic import Chain
from .device import Device, u64
from .energy import Held, Load
from .memory import MIXES
from .products import Product, product_settings
from .session import Session
from .streams import Loop

SUSTAINED_SECONDS = {True: (2.0, 2.5), False: (2.0, 6.0)}  # shortest and longest hold of a product, quick and full
POWER_SECONDS = 1.2, 1.6  # of a load that is held for its power alone


def sustained(session: Session, ranked: Mapping[str, tuple[Product, list[dict[str, Any]]]]) -> list[Load]:
    """Each product held until throughput and clock are steady."""
    loads: list[Load] = []
    for place, (dtype, (product, table)) in enumerate(ranked.items()):
        session.tell(place, len(ranked), f"holding gemm {dtype}")
        name, target = f"gemm {dtype} sustained", f"tensor.{dtype}"
        held = energy.hold(product, session.clock, session.watch, *SUSTAINED_SECONDS[session.quick])
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
        held = energy.hold(call, session.clock, session.watch, *POWER_SECONDS)
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

    def each_once() -> None:
        for work in works:
            work()

    pause = u64(pace * device.elapsed(each_once) / len(works))

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
    fitted = energy.fit(loads)
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
