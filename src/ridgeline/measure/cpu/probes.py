"""The ceilings of a CPU: bandwidth by level and access mix, arithmetic peaks, latency, library GEMM; one core and all.

    measure -> plan (probes, variants ranked) -> run (protocol) -> observations with what concerns all of them

The probes are the C kernels of `kernels/`, with pinned threads that time themselves; without a compiler NumPy stands in
and every number is called a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import RidgelineError
from ...core.figure import Figure
from ...core.machine import Machine
from ...core.notes import CONDITIONS, NOT_MEASURED, Note, of_kind
from ...core.notes import STOPPED as STOPPED_KIND
from ...core.observation import Observation
from ...core.units import show
from ...core.version import __version__
from ..conditions import Watch, cpu_conditions, second_load
from ..protocol import REAL, STOPPED, Clock, Probe, Progress, Run, Series, interleave, observation, sustain
from .bench import LIBRARY_BYTES, Bench, Library, NoMemory, cores, require_memory
from .build import BuildError, Built, build
from .ceilings import arithmetic, latencies, numpy_streams, streams
from .gemm import MAX_SECONDS, numpy_gemms, torch_gemms, within
from .levels import with_plateau_notes

MAX_CEILING_RATIO = 1.02  # beyond it a rate is a finding; timers and clocks differ by less
STEPS = 1000  # of the progress of a whole measurement
STAGES = ((0.0, 0.6), (0.6, 0.9), (0.9, 1.0))  # shares of the time that C probes, products and sustained loads take
Tell = Callable[[int, int, int, str], None]  # stage, steps done, steps in all, what is being done


@dataclass(frozen=True)
class Effort:
    """How long a measurement takes."""

    rounds: int
    min_seconds: float
    warm_seconds: float
    budget: float  # seconds for the probes that take turns
    product_budget: float


QUICK = Effort(5, 0.004, 0.008, 10.0, 5.0)
FULL = Effort(7, 0.015, 0.03, 150.0, 75.0)


@dataclass
class Plan:
    """The probes of a machine; without a compiler there is no bench, and `notes` say what is not measured."""

    probes: list[Probe]
    notes: tuple[str, ...]
    built: Built | None = None
    bench: Bench | None = None


@dataclass
class Samples:
    """What was sampled: probes in turns, then library products, then loads that were held with their run-in."""

    runs: list[Run] = field(default_factory=list)
    held: list[tuple[Series, list[float]]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    stopped: bool = False


def measure(
    machine: Machine, quick: bool = False, clock: Clock = REAL, on_progress: Progress | None = None
) -> list[Observation]:
    """Every ceiling of this CPU. Ctrl-C ends it and what was measured is returned, flagged in its notes."""
    watch = Watch()

    def tell(stage: int, done: int, total: int, label: str) -> None:
        if on_progress:
            first, last = STAGES[stage]
            on_progress(round(STEPS * (first + (last - first) * done / max(total, 1))), STEPS, label)

    planned = plan(machine, quick, tell)
    bench, built = planned.bench, planned.built
    clocks = [bench.pools[0].clock()] if bench else []
    pinned = bool(bench and bench.pools[0].pinned)
    conditions = cpu_conditions(
        machine.title or machine.name, pinned, built.compiler if built else "", " ".join(built.flags) if built else "",
        {"threads_pinned_to": list(bench.pools[-1].cpus)} if bench and pinned else {},
    )  # fmt: skip
    samples = run(planned, machine, quick, clock, tell)
    if bench:
        clocks.append(bench.pools[0].clock())
        conditions["clock_measured"] = [round(value) for value in clocks]
    conditions |= watch.conditions()
    results = observations(samples, conditions, machine, (*planned.notes, *samples.notes))
    if not samples.stopped:
        tell(2, 1, 1, "done")
    return results


def stopped(observations: Iterable[Observation]) -> bool:
    """Whether Ctrl-C ended the measurement these come from."""
    return any(any(of_kind(item.notes, STOPPED_KIND)) for item in observations)


def plan(machine: Machine, quick: bool, tell: Tell) -> Plan:
    """All probes of the C library for this machine, instruction sets ranked; NumPy's where there is no compiler."""
    tell(0, 0, 1, "compiling the probes")
    try:
        built = build()
        bench = Bench(Library(built), machine, quick)
        tell(0, 0, 1, "ranking instruction sets")
        probes = [*streams(bench), *arithmetic(bench), *latencies(bench)]
        return Plan(probes, (*built.notes, *bench.notes), built, bench)
    except BuildError as error:
        probes = numpy_streams(machine, str(error))
        return Plan(probes, (_without_c(machine, probes),))


def _without_c(machine: Machine, probes: Sequence[Probe]) -> Note:
    """What the C probes would have measured besides."""
    targets = {probe.target for probe in probes}
    levels = [level.name for level in machine.levels if level.name not in targets]
    others = ["latencies", "arithmetic peaks other than of the library products", "memory and caches on all cores"]
    return Note(NOT_MEASURED, f"not measured (no C probes): {'; '.join([*levels, *others])}")


def products(machine: Machine, quick: bool, bench: Bench | None, clock: Clock) -> tuple[list[Probe], list[str]]:
    """Library products that are not too slow to time, and the names of those that are."""
    counts = sorted({pool.threads for pool in bench.pools}) if bench else [len(cores())]
    require_memory(LIBRARY_BYTES[quick])
    probes = numpy_gemms(machine, quick, counts)
    if not quick:
        probes += torch_gemms(machine, quick, counts)
    return within(probes, MAX_SECONDS[quick], clock)


def run(planned: Plan, machine: Machine, quick: bool, clock: Clock, tell: Tell) -> Samples:
    """The probes in turns, then the products, then the loads to sustain; Ctrl-C keeps what is done."""
    effort = QUICK if quick else FULL
    first = interleave(
        planned.probes, effort.rounds, clock, partial(tell, 0), min_seconds=effort.min_seconds,
        warm_seconds=effort.warm_seconds, max_rounds=2 * effort.rounds, budget=effort.budget,
    )  # fmt: skip
    samples = Samples([first], stopped=first.stopped)
    try:
        if not samples.stopped:
            probes: list[Probe] = []
            try:
                probes, samples.left_out = products(machine, quick, planned.bench, clock)
            except NoMemory as error:
                samples.notes = (Note(NOT_MEASURED, f"not measured: matrix products by libraries ({error})"),)
            second = interleave(
                probes, 3, clock, partial(tell, 1), min_seconds=effort.min_seconds, warm_seconds=0.0, max_rounds=5,
                budget=effort.product_budget,
            )  # fmt: skip
            samples.runs.append(second)
            samples.stopped = second.stopped
        if not samples.stopped and not quick:
            chosen = to_sustain(planned.probes, first)
            for place, probe in enumerate(chosen):
                tell(2, place, len(chosen), f"sustained {probe.name}")
                samples.held.append(sustain(probe, clock))
    except KeyboardInterrupt:
        samples.stopped = True
    return samples


def to_sustain(probes: Sequence[Probe], turns: Run) -> list[Probe]:
    """All cores, the fastest kernel of each vector peak, and the triad at the main memory."""
    fastest: dict[str, tuple[float, Probe]] = {}
    threads = max((probe.settings["threads"] for probe in probes), default=1)
    for series in turns.series:
        probe = series.probe
        peak = probe.target in ("vector.fp64", "vector.fp32", "tensor.bf16")
        triad = probe.settings.get("mix") == "triad" and probe.settings.get("state") == "cold"
        if probe.settings["threads"] != threads or not (peak or triad):
            continue
        rate = float(np.asarray(probe.work.flops if peak else probe.work.bytes)) / min(series.samples)
        if rate > fastest.get(probe.target, (0.0, probe))[0]:
            fastest[probe.target] = (rate, probe)
    return [probe for _, probe in fastest.values()]


def observations(
    samples: Samples, conditions: dict[str, Any], machine: Machine, notes: tuple[str, ...]
) -> list[Observation]:
    """Every series as an Observation, with what concerns the whole measurement in its notes."""
    ended = samples.stopped
    results = [observation(series, conditions, __version__, ended) for turns in samples.runs for series in turns.series]
    for series, run_in in samples.held:
        item = observation(series, {**conditions, "run_in_samples": run_in}, __version__, ended)
        results.append(replace(item, name=f"sustained {item.name}", settings={**item.settings, "burst": False}))
    if not results:
        raise RidgelineError(f"{STOPPED} before anything was measured; nothing was written")
    results = with_plateau_notes([with_findings(item, machine, notes) for item in results], machine)
    missing = [name for turns in samples.runs for name in turns.missing] + samples.left_out
    if missing or ended:
        why = STOPPED if ended else "the time for it was used up or one call takes too long"
        note = Note(NOT_MEASURED, f"not measured ({why}): {'; '.join(missing) or 'later parts'}")
        results[0] = replace(results[0], notes=(*results[0].notes, note))
    return results


def with_findings(item: Observation, machine: Machine, more: tuple[str, ...]) -> Observation:
    """The observation with the notes of the run, and a finding where it lies above a ceiling of the machine."""
    notes = [*item.notes, *more]
    if second := second_load(item.conditions):
        notes.append(Note(CONDITIONS, f"a second load: {second}"))
    limit, value, rate, unit = _limit(item, machine)
    if limit and value and rate > MAX_CEILING_RATIO * value:
        notes.append(
            f"finding: {show(rate, unit)} is above the {show(value, unit)} of {limit.source or limit.derivation}; "
            "the clock, the count or that figure is not what it seems"
        )
    return replace(item, notes=tuple(notes))


def _limit(item: Observation, machine: Machine) -> tuple[Figure | None, float | None, float, str]:
    """The figure that limits an observation, its value for as many cores as took part, and the rate that was reached."""
    threads = item.settings.get("threads", 1)
    share = min(1.0, threads / (machine.units.get("core") or threads))
    limit: Figure | None
    if item.target in machine.peaks:
        limit, rate, unit = machine.peaks[item.target], item.best_rate, "flop/s"
    else:
        level = next((level for level in machine.levels if level.name == item.target), None)
        limit, rate, unit = level.bandwidth if level else None, item.best_bandwidth, "B/s"
        share = share if level and level.scope == "core" else 1.0
    value = (limit.value("stated") or limit.value("derived")) if limit else None
    return limit, value * share if value else None, rate, unit
