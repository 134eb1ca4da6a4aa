"""The ceilings of a CUDA GPU: which probes there are, in which order they run, what is made of them.

    measure -> plan (variants of each probe ranked on short samples) -> interleave -> held loads -> findings

The probes take turns; then the matrix products are held until heat and power have settled (the sustained ceilings)
and energy is fitted from the loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from ...core.errors import InputError
from ...core.machine import Machine
from ...core.observation import Observation
from ...machines.files import by_driver_name
from ..protocol import REAL, Clock, Probe, Progress, interleave
from .arithmetic import arithmetic
from .conditions import Watch, reader, versions
from .copies import host_copies
from .device import open_device
from .findings import mark_sweep, name_kernels, with_findings
from .latency import latencies
from .launch import dispatches, launches
from .memory import Memory
from .power import add_energy, held_loads, sustained
from .products import Product, burst, by_size, rank_products
from .session import Session
from .streams import streams

DATA = "standard normal, fixed seeds"


def measure(
    machine: Machine | None = None,
    quick: bool = False,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
    index: int = 0,
) -> list[Observation]:
    """Empirical ceilings of the GPU. Without one, or without anything to run on it, InputError says what to do.

    What cannot be measured (a missing package, a refused NVML) is named under `gaps` in every result's conditions.
    """
    device, library, gaps = open_device(index)
    if device is not None:
        name, bus, sms, l2 = device.name, device.bus, device.sms, device.l2
    else:
        assert library is not None
        properties = library.torch.cuda.get_device_properties(index)
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
        return run(Session(device, library, machine, watch, clock, quick, facts, gaps, on_progress, sms, l2))


@dataclass
class Plan:
    """The probes of a session, and the best product of each format with its ranking."""

    probes: list[Probe] = field(default_factory=list)
    products: dict[str, tuple[Product, list[dict[str, Any]]]] = field(default_factory=dict)


def plan(session: Session) -> Plan:
    """Every probe in its best variant."""
    probes: list[Probe] = []
    products: dict[str, tuple[Product, list[dict[str, Any]]]] = {}
    if session.device is not None:
        session.tell(0, 3, "ranking memory variants")
        memory = Memory(session.device, session.main)
        probes += streams(memory, session.quick)
        probes += latencies(memory)
        probes += host_copies(memory, session.quick)
        session.tell(1, 3, "ranking arithmetic variants")
        probes += arithmetic(session.device, session.quick)
        probes += launches(session.device, session.clock)
    if session.library is not None:
        session.tell(2, 3, "ranking matrix products")
        products = rank_products(session.library, session.sms, session.quick, session.scale, session.gaps)
        probes += [burst(product, table) for product, table in products.values()]
        probes += by_size(session.library, "bf16", session.l2, session.quick)
        probes += dispatches(session.library)
    return Plan(probes, products)


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
        raise InputError("stopped before anything was measured")
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
    if turns.partial:
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
