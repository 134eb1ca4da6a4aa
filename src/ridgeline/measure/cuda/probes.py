"""The ceilings of a CUDA GPU: which probes there are, in which order they run, what is made of them.

    measure -> plan (variants of each probe ranked on short samples) -> interleave -> held loads -> findings

The probes take turns; then the matrix products are held until heat and power have settled (the sustained ceilings)
and energy is fitted from the loads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from ...core.errors import Interrupted
from ...core.figure import Figure
from ...core.machine import Machine
from ...core.notes import NOISE, Note
from ...core.observation import Observation
from ...core.units import percent, show
from ...machines.files import by_driver_name
from ..protocol import REAL, STOPPED, Clock, Probe, Progress, interleave
from .arithmetic import arithmetic
from .conditions import Watch, reader, versions
from .device import open_device
from .latency import dispatches, host_probes, latencies, launches
from .memory import Memory
from .power import add_energy, held_loads, sustained
from .products import Product, burst, by_size, rank_products
from .session import Session
from .streams import host_copies, streams

DATA = "standard normal, fixed seeds"
MAX_CEILING_RATIO = 1.005  # beyond it a rate is a finding; less is the resolution of clocks and timers
ESSENTIAL_DTYPES = ("bf16", "fp8")  # of the products that a quick roofline needs
MAX_SWEEP_RATIO = 1.02
LOW_PRODUCT_SHARE = 0.9  # a sustained product below this share of its peak gets a note with the reasons
OLD_KERNEL = "the library's kernel is of the generation before this GPU's (sm_80): the units can do more"


def measure(
    machine: Machine | None = None,
    quick: bool = False,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
    essential: bool = False,
) -> list[Observation]:
    """Empirical ceilings of the GPU. Without one, or without anything to run on it, InputError says what to do.

    `essential` leaves out what no roofline needs: latencies, host copies, size sweeps, sustained loads and energy.

    What cannot be measured (a missing package, a refused NVML) is named under `gaps` in every result's conditions.
    """
    device, library, gaps = open_device()
    if device is not None:
        name, bus, sms, l2 = device.name, device.bus, device.sms, device.l2
    else:
        assert library is not None
        properties = library.torch.cuda.get_device_properties(0)
        name, bus, sms = str(properties.name), "", int(properties.multi_processor_count)
        l2 = int(properties.L2_cache_size)
    source, why = reader(bus) if bus else (None, "the bus id of the GPU is not known without cupy")
    if source is None:
        gaps.append(f"clocks, heat and power: {why}")
    facts: dict[str, Any] = {"device": name, "sms": sms, "l2_bytes": l2, "data": DATA, "versions": versions()}
    if device is not None:
        facts["compute_capability"] = "{}.{}".format(*device.capability)
    if library is not None:
        facts["versions"] |= library.versions()
    if source is not None:
        facts |= {"watched_through": source.via, **source.facts()}
    with Watch(source, clock) as watch:
        machine = machine if machine is not None else by_driver_name(name)[0]
        return run(
            Session(
                device, library, machine, watch, clock, quick, facts, gaps, on_progress, sms, l2, essential=essential
            )
        )


@dataclass
class Plan:
    """The probes of a session, and the best product of each format with its ranking."""

    probes: list[Probe] = field(default_factory=list)
    products: dict[str, tuple[Product, list[dict[str, Any]]]] = field(default_factory=dict)


def plan(session: Session) -> Plan:
    """Every probe in its best variant."""
    planned = Plan()
    probes = planned.probes
    if session.device is not None:
        session.tell(0, 3, "ranking memory variants")
        memory = Memory(session.device, session.main)
        probes += streams(memory, session.quick)
        if not session.essential:
            probes += latencies(memory)
            probes += host_copies(memory, session.quick)
        session.tell(1, 3, "ranking arithmetic variants")
        probes += arithmetic(session.device, session.quick)
        probes += launches(session.device, session.clock)
    if session.library is not None:
        session.tell(2, 3, "ranking matrix products")
        dtypes = ESSENTIAL_DTYPES if session.essential else ()
        planned.products = rank_products(
            session.library, session.sms, session.quick, session.scale, session.gaps, dtypes
        )  # fmt: skip
        probes += [burst(product, table) for product, table in planned.products.values()]
        probes += host_probes(session.library, session.clock)
        if not session.essential:
            probes += by_size(session.library, "bf16", session.l2, session.quick)
            probes += dispatches(session.library)
    return planned


def run(session: Session) -> list[Observation]:
    """All probes of a session; Ctrl-C keeps what is done."""
    precision = session.library.torch.get_float32_matmul_precision() if session.library else ""
    try:
        with suppress(KeyboardInterrupt):
            _observe(session, plan(session))
    finally:
        if session.library is not None:
            session.library.torch.set_float32_matmul_precision(precision)
    if not session.observations:
        raise Interrupted(f"{STOPPED} before anything was measured; nothing was written")
    mark_sweep(session)
    return [with_findings(session, item) for item in session.observations]


def _observe(session: Session, planned: Plan) -> None:
    rounds, min_seconds, warm_seconds = (5, 0.006, 0.02) if session.quick else (10, 0.012, 0.05)
    probes = [session.watched(probe) for probe in spaced(planned.probes)]
    turns = interleave(
        probes, rounds, session.clock, session.on_progress,
        min_seconds=min_seconds, warm_seconds=warm_seconds, max_rounds=2 * rounds,
    )  # fmt: skip
    session.keep(turns)
    if turns.partial or session.essential:
        return
    loads = sustained(session, planned.products)
    if session.device is not None and not session.quick:
        loads += held_loads(session, session.device, planned.probes)
    add_energy(session, loads)
    if not session.quick:
        name_kernels(session, {dtype: product for dtype, (product, _) in planned.products.items()})


def spaced(probes: Sequence[Probe]) -> list[Probe]:
    """The probes with the matrix products one by one among those that draw little power, so that a burst stays one."""
    heavy = [probe for probe in probes if probe.target.startswith("tensor")]
    light = [probe for probe in probes if probe.target.startswith(("latency", "launch", "pcie"))]
    others = [probe for probe in probes if probe not in heavy and probe not in light]
    pairs = zip_longest(light, heavy)
    return [probe for pair in pairs for probe in pair if probe is not None] + others


def name_kernels(session: Session, products: Mapping[str, Product]) -> None:
    """Last of all, because a profiler that was on once slows every launch after it."""
    names = {f"tensor.{dtype}": product.kernel() for dtype, product in products.items()}
    hopper = float(session.facts.get("compute_capability", 0)) >= 9
    for place, item in enumerate(session.observations):
        kernel = names.get(item.target, "")
        if kernel and "sweep_over" not in item.settings:
            notes = (*item.notes, OLD_KERNEL) if "_80_" in kernel and hopper else item.notes
            session.observations[place] = replace(item, settings={**item.settings, "kernel": kernel}, notes=notes)


def mark_sweep(session: Session) -> None:
    """A point of the size sweep that beats the best shape of the ranking says that the ranking missed something."""
    bursts = {item.target: item.best_rate for item in session.observations if item.name.endswith("burst")}
    for place, item in enumerate(session.observations):
        best = bursts.get(item.target, 0.0)
        if best and "sweep_over" in item.settings and item.best_rate > MAX_SWEEP_RATIO * best:
            above = f"{percent(item.best_rate / best - 1)} above the best shape of the ranking ({show(best, 'flop/s')})"
            session.observations[place] = replace(item, notes=(*item.notes, f"finding: {above}"))


def ceiling(machine: Machine | None, target: str) -> Figure | None:
    if machine is None:
        return None
    bandwidths = {level.name: level.bandwidth for level in machine.levels}
    links = {link.name: link.per_direction for link in machine.links}
    return {**links, **bandwidths, **machine.peaks}.get(target)


def with_findings(session: Session, item: Observation) -> Observation:
    """The observation with its share of the stated ceiling, and a finding where it lies above a physical limit."""
    notes = list(item.notes)
    figure = ceiling(session.machine, item.target)
    limits = [] if figure is None else [value for value in (figure.stated, figure.derived) if value is not None]
    arithmetic = item.target.startswith(("vector", "tensor", "special"))
    rate = item.best_rate if arithmetic or item.target == "pcie" else item.best_bandwidth
    if figure is not None and limits and rate:
        limit = max(limits)
        settings = {**item.settings, "share_of_ceiling": rate / limit, "ceiling": limit}
        sustained_product = item.target.startswith("tensor") and item.settings.get("burst") is False
        partly_cached = item.target == session.main and item.settings.get("state") == "resident"
        if rate > MAX_CEILING_RATIO * limit and not partly_cached:
            notes.append(
                f"finding: {show(rate, figure.unit)} is {percent(rate / limit)} of the ceiling {show(limit, figure.unit)}; "
                "the ceiling is too low, the count too high, or the data were in a cache"
            )
        elif sustained_product and rate < LOW_PRODUCT_SHARE * limit:
            notes += _held_down(item, session.machine)
        item = replace(item, settings=settings)
    others = session.facts.get("other_processes")
    if others:
        plural = "es" if len(others) > 1 else ""
        notes.append(Note(NOISE, f"noisy: {len(others)} other process{plural} on the GPU"))
    return replace(item, notes=tuple(notes), conditions={**item.conditions, "gaps": list(session.gaps)})


def _held_down(item: Observation, machine: Machine | None) -> list[str]:
    """Why a matrix product stays below its peak, as far as the clock and the power show."""
    during = item.conditions.get("during", {})
    reasons = []
    clock = during.get("sm_clock", {}).get("median")
    rated = machine.clocks.get("vector" if item.target.endswith("fp64") else "tensor") if machine else None
    if clock and rated and rated.value():
        reasons.append(f"SM clock {show(clock, 'Hz')} where the peak is rated at {show(rated.value(), 'Hz')}")
    power, limit = during.get("power", {}).get("median"), item.conditions.get("power_limit")
    if power and limit:
        reasons.append(f"power {power:.0f} W of {limit:.0f} W allowed")
    if during.get("clock_held_by"):
        reasons.append(f"the driver held the clock for: {', '.join(during['clock_held_by'])}")
    return [f"below 90 % of the ceiling: {'; '.join(reasons)}"] if reasons else []
