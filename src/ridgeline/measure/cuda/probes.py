"""What a CUDA GPU really gives: the probes in order, their conditions, what held a result down or pushed it up.

`measure` opens the device, ranks the variants of each probe on short samples, lets the winners take turns, then holds
the matrix products until heat and power have settled (the sustained ceilings) and fits energy from the loads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from ...core.errors import InputError, RidgelineError, first_line
from ...core.figure import Figure
from ...core.machine import Machine
from ...core.observation import Observation
from ...core.units import show
from ...core.version import __version__
from ...core.work import Work
from ..protocol import REAL, Clock, Probe, Progress, Run, interleave, observation
from . import compute as cuda_compute
from . import conditions as conditions_cuda
from . import energy as cuda_energy
from . import launch as cuda_launch
from . import memory as cuda_memory
from .conditions import Watch
from .device import Device, Library, open_device, u64
from .energy import Held, Load

DATA = "standard normal, fixed seeds"
ABOVE = 1.005  # a rate this far above a stated or derived ceiling is a finding, less is the grain of clocks and timers


@dataclass
class Session:
    """One measurement: the device, what is watched, what was found, what could not be measured."""

    own: Device | None
    library: Library | None
    machine: Machine | None
    watch: Watch
    clock: Clock
    quick: bool
    facts: dict[str, Any]
    gaps: list[str]
    on_progress: Progress | None = None
    sms: int = 132
    l2: int = 0
    scale: int = 8192  # rows of the larger matrix products
    spans: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    found: list[Observation] = field(default_factory=list)
    stopped: bool = False

    @property
    def main(self) -> str:
        return self.machine.main.name if self.machine and self.machine.levels else "hbm"

    def tell(self, done: int, total: int, label: str) -> None:
        if self.on_progress:
            self.on_progress(done, total, label)

    def watched(self, probe: Probe) -> Probe:
        """The probe with its times on the host's clock noted and a failing device named."""
        spans = self.spans.setdefault(probe.name, [])

        def call(loops: int) -> Any:
            start = self.clock.now()
            try:
                return probe.call(loops)
            except (RidgelineError, KeyboardInterrupt):
                raise
            except Exception as error:
                raise RidgelineError(f"probe {probe.name}: the device failed: {first_line(error)}") from error
            finally:
                spans.append((start, self.clock.now()))

        return replace(probe, call=call)

    def conditions(self, name: str) -> dict[str, Any]:
        during = conditions_cuda.summary(self.watch.during(self.spans.get(name, ())))
        return {**self.facts, "during": during, "gaps": list(self.gaps), "date": conditions_cuda.now()}


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
    own, library, gaps = open_device(index)
    if own is not None:
        name, bus, sms, l2 = own.name, own.bus, own.sms, own.l2
    else:
        assert library is not None
        told = library.torch.cuda.get_device_properties(index)
        name, bus, sms, l2 = str(told.name), "", int(told.multi_processor_count), int(told.L2_cache_size)
    source, why = conditions_cuda.reader(bus) if bus else (None, "the bus id of the GPU is not known without cupy")
    if source is None:
        gaps.append(f"clocks, heat and power: {why}")
    facts: dict[str, Any] = {"device": name, "sms": sms, "l2_bytes": l2, "data": DATA}
    facts["versions"] = conditions_cuda.versions()
    if own is not None:
        facts["compute_capability"] = "{}.{}".format(*own.capability)
    if library is not None:
        facts["versions"] |= library.versions()
    if source is not None:
        facts |= {"watched_through": source.via, **source.facts()}
    with Watch(source, clock) as watch:
        machine = machine if machine is not None else known(name)
        session = Session(own, library, machine, watch, clock, quick, facts, gaps, on_progress, sms, l2)
        return run(session)


def known(name: str) -> Machine | None:
    """The catalog's machine of this driver name; a missing platformdirs only hides the user's own files."""
    from ...machines import files as machines

    try:
        return machines.by_driver_name(name)[0]
    except ImportError:
        wanted = " ".join(name.lower().split())
        for path in sorted(machines.CATALOG.glob("*.toml")):
            found = machines.load_file(path)
            if wanted in {" ".join(alias.lower().split()) for alias in found.aliases}:
                return found
    return None


def run(session: Session) -> list[Observation]:
    """All probes of a session; Ctrl-C keeps what is done."""
    ready: list[Probe] = []
    memory: cuda_memory.Memory | None = None
    unit: cuda_compute.Arithmetic | None = None
    products: dict[str, cuda_compute.Product] = {}
    tables: dict[str, list[dict[str, Any]]] = {}
    precision = session.library.torch.get_float32_matmul_precision() if session.library else ""
    try:
        if session.own is not None:
            session.tell(0, 3, "ranking memory variants")
            memory = cuda_memory.Memory(session.own, session.main)
            ready += cuda_memory.streams(memory, session.quick)
            ready += cuda_memory.latencies(memory, session.quick)
            ready += cuda_memory.host_copies(memory, session.quick)
            session.tell(1, 3, "ranking arithmetic variants")
            unit, chains = cuda_compute.arithmetic(session.own, session.quick)
            ready += chains + cuda_launch.launches(session.own, session.clock)
        if session.library is not None:
            session.tell(2, 3, "ranking matrix products")
            products, tables = rank_products(session)
            ready += [burst(product, tables[dtype]) for dtype, product in products.items()]
            ready += cuda_compute.by_size(session.library, "bf16", session.l2, session.quick)
            ready += cuda_launch.dispatches(session.library)
        rounds, least, warm = (5, 0.006, 0.02) if session.quick else (10, 0.012, 0.05)
        done = interleave(
            [session.watched(probe) for probe in spaced(ready)], rounds, session.clock, session.on_progress,
            least=least, warm=warm, most=2 * rounds,
        )  # fmt: skip
        keep(session, done)
        if not done.partial:
            loads = sustained(session, products, tables)
            if memory is not None and unit is not None and not session.quick:
                loads += held_loads(session, memory, unit, ready)
            add_energy(session, loads)
            if not session.quick:
                name_kernels(session, products)
    except KeyboardInterrupt:
        session.stopped = True
    finally:
        if session.library is not None:
            session.library.torch.set_float32_matmul_precision(precision)
    if not session.found:
        raise InputError("stopped before anything was measured")
    mark_sweep(session)
    return [finished(session, each) for each in session.found]


def mark_sweep(session: Session) -> None:
    """A point of the size sweep that beats the best shape of the ranking says that the ranking missed something."""
    bursts = {each.target: each.best_rate for each in session.found if each.name.endswith("burst")}
    for place, each in enumerate(session.found):
        best = bursts.get(each.target, 0.0)
        if best and "sweep_over" in each.settings and each.best_rate > 1.02 * best:
            told = (
                f"finding: {each.best_rate / best - 1:.1%} above the best shape of the ranking ({show(best, 'flop/s')})"
            )
            session.found[place] = replace(each, notes=(*each.notes, told))


def keep(session: Session, done: Run) -> None:
    for row in done.series:
        told = observation(row, session.conditions(row.probe.name), __version__, done.partial)
        session.found.append(told)
    if done.partial:
        session.stopped = True
        session.gaps.append(f"{done.why}: {', '.join(done.missing) or 'the sustained loads'} not measured")


# -- matrix products, short and sustained ----------------------------------------------------------------------


def rank_products(
    session: Session,
) -> tuple[dict[str, cuda_compute.Product], dict[str, list[dict[str, Any]]]]:
    assert session.library is not None
    torch = session.library.torch
    torch.set_float32_matmul_precision("high")  # tf32: without it the library multiplies fp32 on the vector units
    products: dict[str, cuda_compute.Product] = {}
    tables: dict[str, list[dict[str, Any]]] = {}
    for dtype in cuda_compute.PRODUCTS:
        try:
            best, table = cuda_compute.best_product(session.library, dtype, session.sms, session.quick, session.scale)
            best.check()
        except (RuntimeError, NotImplementedError, TypeError) as error:  # the device or this torch has no such product
            session.gaps.append(f"gemm {dtype}: {first_line(error)}")
            continue
        products[dtype], tables[dtype] = best, table
    return products, tables


def name_kernels(session: Session, products: Mapping[str, cuda_compute.Product]) -> None:
    """Last of all, because a profiler that was on once slows every launch after it."""
    names = {f"tensor.{dtype}": product.kernel() for dtype, product in products.items()}
    for place, each in enumerate(session.found):
        kernel = names.get(each.target, "")
        if kernel and "sweep_over" not in each.settings:
            old = ("the library's kernel is of the generation before this GPU's (sm_80): the units can do more",)
            notes = each.notes + (
                old if "_80_" in kernel and float(session.facts.get("compute_capability", 0)) >= 9 else ()
            )
            session.found[place] = replace(each, settings={**each.settings, "kernel": kernel}, notes=notes)


def burst(product: cuda_compute.Product, table: list[dict[str, Any]]) -> Probe:
    settings = cuda_compute.product_settings(product, table) | {"burst": True}
    name, target = f"gemm {product.dtype} burst", f"tensor.{product.dtype}"

    def call(loops: int) -> float:
        product.library.rest(cuda_compute.REST)
        return product(loops)

    return Probe(name, target, call, product.work, settings, check=product.check, least=cuda_compute.SHORT)


def spaced(probes: Sequence[Probe]) -> list[Probe]:
    """The probes with the matrix products one by one among those that draw least power, so that a burst stays one."""
    heavy = [probe for probe in probes if probe.target.startswith("tensor")]
    light = [probe for probe in probes if probe.target.startswith(("latency", "launch", "pcie"))]
    rest = [probe for probe in probes if probe not in heavy and probe not in light]
    pairs = zip_longest(light, heavy)
    return [probe for pair in pairs for probe in pair if probe is not None] + rest


def sustained(
    session: Session, products: Mapping[str, cuda_compute.Product], tables: Mapping[str, list[dict[str, Any]]]
) -> list[Load]:
    """Each product held until throughput and clock have settled."""
    loads: list[Load] = []
    least, most = (2.0, 2.5) if session.quick else (2.0, 6.0)
    for place, (dtype, product) in enumerate(products.items()):
        session.tell(place, len(products), f"holding gemm {dtype}")
        name = f"gemm {dtype} sustained"
        held = cuda_energy.hold(product, session.clock, session.watch, least, most)
        product.check()
        settings = cuda_compute.product_settings(product, []) | {"burst": False}
        settings["variants_tried"] = len(tables[dtype])
        del settings["sweep"]
        flops = float(product.work.flops)
        note_held(session, name, f"tensor.{dtype}", held, product.work, settings)
        if held.power is not None:
            loads.append(Load(name, held.power, {f"tensor.{dtype}": flops * held.rate}))
    return loads


def note_held(session: Session, name: str, target: str, held: Held, work: Work, settings: dict[str, Any]) -> None:
    session.spans[name] = [held.span]
    settings |= {"held_seconds": sum(held.windows) and held.span[1] - held.span[0], "windows": len(held.windows)}
    settings["settling_samples"] = held.windows[: len(held.windows) - len(held.settled)]
    if held.power is not None:
        settings |= {"power": held.power, "power_from": held.power_from}
    notes = () if held.steady else ("throughput or clock had not settled when the time for it was over",)
    session.found.append(
        Observation(name, target, tuple(held.settled), work, settings, session.conditions(name), "ridgeline", __version__, notes)
    )  # fmt: skip


# -- power and energy ------------------------------------------------------------------------------------------


def held_loads(
    session: Session, memory: cuda_memory.Memory, unit: cuda_compute.Arithmetic, ready: list[Probe]
) -> list[Load]:
    """Memory and arithmetic loads all of the time and half of it, held long enough to read their power."""
    if session.watch.source is None:
        return []
    device = memory.device
    rows: list[tuple[str, str, Callable[[int], Any], Work]] = []
    for mix in cuda_memory.MIXES:
        probe = largest(ready, session.main, mix, "cold")
        rows.append((probe.name, session.main, probe.call, probe.work))
        assert isinstance(probe.call, cuda_memory.Loop)
        if mix in ("read", "copy"):
            rows.append((f"{probe.name}, half of the time", session.main, halved(device, probe.call.works), probe.work))
    # sets well inside the L2: a fuller one also draws on the memory behind it
    inside = [probe for probe in ready if probe.target == "l2" and probe.settings.get("mix") == "read"]
    inside = [probe for probe in inside if probe.settings["bytes"] <= device.l2 // 2]
    near = [probe for probe in ready if probe.target == "l1"]
    for probe in (inside[0], inside[-1], near[0], near[-1]):
        rows.append((probe.name, probe.target, probe.call, probe.work))
    for probe in ready:
        if isinstance(probe.call, cuda_compute.Chain) and probe.target.startswith("vector"):
            rows.append((probe.name, probe.target, probe.call, probe.work))
            slowed = halved(device, [probe.call.launch])
            rows.append((f"{probe.name}, half of the time", probe.target, slowed, probe.work))
    loads = []
    for place, (name, target, call, work) in enumerate(rows):
        session.tell(place, len(rows), f"power of {name}")
        held = cuda_energy.hold(call, session.clock, session.watch, 1.2, 1.6)
        note_held(session, f"power of {name}", "power", held, work, {"load": target, "burst": False})
        if held.power is not None:
            amount = float(work.flops if target.startswith("vector") else work.bytes)
            loads.append(Load(name, held.power, {target: amount * held.rate}))
    return loads


def halved(device: Device, works: Sequence[Callable[[], None]]) -> Callable[[int], float]:
    """The works in turn, each followed by a pause as long as itself in which one thread spins."""
    cycles = 10_000_000
    pace = cycles / min(device.elapsed(lambda: device.launch("spin", 1, 1, u64(cycles))) for _ in range(3))

    def all_of_them() -> None:
        for work in works:
            work()

    pause = u64(pace * device.elapsed(all_of_them) / len(works))

    def call(loops: int) -> float:
        def work() -> None:
            for place in range(loops):
                works[place % len(works)]()
                device.launch("spin", 1, 1, pause)

        return device.elapsed(work)

    return call


def largest(probes: list[Probe], target: str, mix: str, state: str) -> Probe:
    fitting = (each for each in probes if each.target == target)
    fitting = (each for each in fitting if (each.settings.get("mix"), each.settings.get("state")) == (mix, state))
    return max(fitting, key=lambda each: int(each.settings["bytes"]))


def add_energy(session: Session, loads: list[Load]) -> None:
    """The fit as an Observation whose settings carry the energies; a gap where there is no power to fit."""
    if session.quick:
        session.gaps.append("energy per flop and per byte: left out of the quick run")
        return
    fitted = cuda_energy.fit(loads)
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
    spent = [seconds for each in session.found if each.settings.get("burst") is False for seconds in each.samples]
    session.found.append(
        Observation("energy", "energy", (sum(spent),), Work(), settings, session.conditions("energy"), "ridgeline",
                    __version__, tuple(notes))
    )  # fmt: skip


# -- what held a result down, or pushed it up ------------------------------------------------------------------


def ceiling(machine: Machine | None, target: str) -> Figure | None:
    if machine is None:
        return None
    if target in machine.peaks:
        return machine.peaks[target]
    for level in machine.levels:
        if level.name == target:
            return level.bandwidth
    for link in machine.links:
        if link.name == target:
            return link.per_direction
    return None


def finished(session: Session, each: Observation) -> Observation:
    """The observation with its share of the stated ceiling, and a finding where it lies above a physical limit."""
    notes = list(each.notes)
    figure = ceiling(session.machine, each.target)
    limits = [] if figure is None else [value for value in (figure.stated, figure.derived) if value is not None]
    rate = each.best_rate if each.target.startswith(("vector", "tensor", "special")) else each.best_bandwidth
    if each.target == "pcie":
        rate = each.best_rate
    if figure is not None and limits and rate:
        limit = max(limits)
        settings = {**each.settings, "share_of_ceiling": rate / limit, "ceiling": limit}
        partly = each.target == session.main and each.settings.get("state") == "resident"
        if rate > ABOVE * limit and not partly:
            notes.append(
                f"finding: {show(rate, figure.unit)} is {rate / limit:.1%} of the ceiling {show(limit, figure.unit)}; "
                "the ceiling, the count or the place of the data is not what it is taken for"
            )
        elif each.target.startswith("tensor") and rate < 0.9 * limit and each.settings.get("burst") is False:
            notes += held_down(each, session.machine)
        each = replace(each, settings=settings)
    others = session.facts.get("other_processes")
    if others:
        notes.append(f"disturbed: {len(others)} other process{'es' if len(others) > 1 else ''} held the GPU")
    conditions = {**each.conditions, "gaps": list(session.gaps)}
    return replace(each, notes=tuple(notes), conditions=conditions)


def held_down(each: Observation, machine: Machine | None) -> list[str]:
    """Why a matrix product stays below its peak, as far as the clock and the power tell."""
    during = each.conditions.get("during", {})
    told = []
    clock = during.get("sm_clock", {}).get("median")
    rated = machine.clocks.get("vector" if each.target.endswith("fp64") else "tensor") if machine else None
    if clock and rated and rated.value():
        told.append(f"SM clock {show(clock, 'Hz')} where the peak is rated at {show(rated.value(), 'Hz')}")
    power, limit = during.get("power", {}).get("median"), each.conditions.get("power_limit")
    if power and limit:
        told.append(f"power {power:.0f} W of {limit:.0f} W allowed")
    if during.get("clock_held_by"):
        told.append(f"the driver held the clock for: {', '.join(during['clock_held_by'])}")
    return [f"below 90 % of the ceiling: {'; '.join(told)}"] if told else []
