"""The ceilings of a CPU: bandwidth by level and access mix, FMA peaks, latency, clock, library GEMM; all cores first.

    measure -> plan (groups of probes by value) -> by_value (until the budget is used up) -> observations with notes

The probes are the C kernels of `kernels/`, with pinned threads that time themselves; without a compiler NumPy takes
their place and every number is called a lower bound.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ...core.errors import Interrupted
from ...core.machine import Machine
from ...core.notes import CONDITIONS, NOT_MEASURED, Note, of_kind
from ...core.notes import STOPPED as STOPPED_KIND
from ...core.observation import Observation
from ...core.version import __version__
from ...machines.calibrate import CLOCK
from ..conditions import Watch, cpu_conditions, second_load
from ..protocol import REAL, STOPPED, Clock, Probe, Progress, Run, Series, observation, sustain
from ..schedule import STEPS, Effort, Group, by_value
from . import numpy_streams
from .bench import LIBRARY_BYTES, Bench, require_memory
from .build import BuildError, Built, build
from .ceilings import groups
from .gemm import MAX_SECONDS, numpy_gemms, torch_gemms, within
from .levels import with_plateau_notes
from .pool import Library, NoMemory, cores

BLAS_SPIN_SECONDS = 0.3  # until the idle threads of a BLAS have stopped spinning
QUICK = Effort(7, 0.0015, 0.004, 22.0)
FULL = Effort(9, 0.006, 0.02, 200.0)
SUSTAINED_SECONDS = 4.0  # of a load that is held in a full run; at most twice that


@dataclass
class Plan:
    """What is measured of a machine, by value; `notes` say what cannot be."""

    groups: list[Group]
    notes: tuple[str, ...] = ()
    built: Built | None = None
    bench: Bench | None = None
    left_out: list[str] = field(default_factory=list)  # library products that take too long


def measure(
    machine: Machine,
    quick: bool = False,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
    budget: float | None = None,
) -> list[Observation]:
    """Every ceiling of this CPU, within `budget` seconds. Ctrl-C ends it and what was measured is returned, with a note."""
    start, watch, effort = clock.now(), Watch(), QUICK if quick else FULL
    effort = replace(effort, budget=effort.budget if budget is None else budget)
    if on_progress:
        on_progress(0, STEPS, "compiling the probes")
    planned = plan(machine, quick, clock)
    bench, built = planned.bench, planned.built
    pinned = bool(bench and bench.pools[-1].pinned)
    conditions = cpu_conditions(
        machine.title or machine.name, pinned, built.compiler if built else "", " ".join(built.flags) if built else "",
        {"threads_pinned_to": list(bench.pools[-1].cpus)} if bench and pinned else {},
    )  # fmt: skip
    run = by_value(planned.groups, effort, clock, on_progress, start)
    held: list[tuple[Series, list[float]]] = []
    try:
        if not quick and not run.stopped:
            held = [sustain(probe, clock, SUSTAINED_SECONDS) for probe in to_sustain(run)]
    except KeyboardInterrupt:
        run.why, run.partial = STOPPED, True
    conditions |= watch.conditions()
    conditions |= {"clock_measured": [round(value) for row in run.series for value in _clocks(row)][:1]}
    notes = (*planned.notes, *(bench.notes if bench else ()))
    return observations(run, held, conditions, machine, notes, planned.left_out)


def _clocks(series: Series) -> list[float]:
    return [series.probe.settings["cycles"] / min(series.samples)] if series.probe.target == CLOCK else []


def stopped(observations: Iterable[Observation]) -> bool:
    """Whether Ctrl-C ended the measurement these come from."""
    return any(any(of_kind(item.notes, STOPPED_KIND)) for item in observations)


def plan(machine: Machine, quick: bool, clock: Clock) -> Plan:
    """The groups of the C library for this machine, NumPy's where there is no compiler; library products last."""
    try:
        built = build()
        bench = Bench(Library(built), machine, quick)
        planned = Plan(groups(bench), built.notes, built, bench)
    except BuildError as error:
        streams = numpy_streams.streams(machine, str(error))
        planned = Plan([Group("NumPy bandwidth", lambda: streams, True)], (_without_c(machine, streams),))
    make = partial(products, planned, machine, quick, clock)
    # without FMA probes the products are all that is known of the peaks
    gemm = Group("library GEMM", make, planned.bench is None, lambda: time.sleep(BLAS_SPIN_SECONDS))
    place = len(planned.groups) if quick else _index(planned.groups, "latency sweep")
    planned.groups.insert(place, gemm)
    return planned


def _index(planned: Sequence[Group], name: str) -> int:
    return next((place for place, group in enumerate(planned) if group.name == name), len(planned))


def _without_c(machine: Machine, probes: Sequence[Probe]) -> Note:
    """What the C probes would have measured besides."""
    targets = {probe.target for probe in probes}
    levels = [level.name for level in machine.levels if level.name not in targets]
    return Note(
        NOT_MEASURED, f"not measured (no C compiler): {', '.join([*levels, 'latency', 'FMA peaks', 'core clock'])}"
    )


def products(planned: Plan, machine: Machine, quick: bool, clock: Clock) -> list[Probe]:
    """Library products that are not too slow to time; the plan keeps the names of those that are."""
    try:
        require_memory(LIBRARY_BYTES[quick])
    except NoMemory as error:
        planned.notes += (Note(NOT_MEASURED, f"not measured: library GEMM ({error})"),)
        return []
    counts = sorted({pool.threads for pool in planned.bench.pools}) if planned.bench else [len(cores())]
    if quick:
        counts = counts[-1:]
    probes = numpy_gemms(machine, quick, counts)
    if not quick:
        probes += torch_gemms(machine, quick, counts)
    kept, left_out = within(probes, MAX_SECONDS[quick], clock)
    planned.left_out += left_out
    return kept


def to_sustain(run: Run) -> list[Probe]:
    """All cores, the fastest kernel of each vector peak, and the triad at the main memory."""
    fastest: dict[str, tuple[float, Probe]] = {}
    threads = max((row.probe.settings["threads"] for row in run.series), default=1)
    for series in run.series:
        probe = series.probe
        peak = probe.target in ("vector.fp64", "vector.fp32", "tensor.bf16") and "library" not in probe.settings
        triad = probe.settings.get("mix") == "triad" and probe.settings.get("state") == "cold"
        if probe.settings["threads"] != threads or not (peak or triad):
            continue
        rate = float(np.asarray(probe.work.flops if peak else probe.work.bytes)) / min(series.samples)
        if rate > fastest.get(probe.target, (0.0, probe))[0]:
            fastest[probe.target] = (rate, probe)
    return [probe for _, probe in fastest.values()]


def observations(
    run: Run,
    held: Sequence[tuple[Series, list[float]]],
    conditions: dict[str, Any],
    machine: Machine,
    notes: tuple[str, ...],
    left_out: Sequence[str] = (),
) -> list[Observation]:
    """Every series as an Observation, with what concerns the measurement as such in the notes."""
    ended = run.stopped
    results = [observation(series, conditions, __version__, ended) for series in run.series]
    for series, run_in in held:
        item = observation(series, {**conditions, "run_in_samples": run_in}, __version__, ended)
        results.append(replace(item, name=f"sustained {item.name}", settings={**item.settings, "burst": False}))
    if not results:
        raise Interrupted(f"{STOPPED} before anything was measured; nothing was written")
    if load := second_load(conditions):
        notes += (Note(CONDITIONS, load),)
    results = with_plateau_notes([replace(item, notes=(*item.notes, *notes)) for item in results], machine)
    missing = [*dict.fromkeys(run.missing), *([f"large GEMMs ({len(left_out)})"] if left_out else [])]
    if missing or ended:
        why = run.why if run.missing or ended else "too slow"
        note = Note(NOT_MEASURED, f"not measured ({why}): {', '.join(missing) or 'later samples'}")
        results[0] = replace(results[0], notes=(*results[0].notes, note))
    return results
