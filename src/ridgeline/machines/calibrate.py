"""Machine and Observations to a Machine with measured ceilings next to the stated ones.

The ceiling of a peak or a level is the best rate any probe of it reached; the rate under lasting load is kept
as `sustained`. The ceilings of a CPU come from probes on all of its cores; those on one core are kept as `per_core`.
Latencies, launches and links take the median. Nothing stated is touched; peaks that follow from the clock are derived
again from the measured clock. A measured figure above its limit stays as it is, with a note that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from ..core.errors import InputError
from ..core.figure import Figure
from ..core.machine import ENGINES, Machine
from ..core.notes import LOWER_BOUND, NOT_DETECTED, not_of_kind, of_kind
from ..core.observation import Observation
from ..core.units import counted, show
from .merge import Place, put_measured

SOURCE = "measured on the machine itself"  # of figures no document states
CLOCK = "clock"  # the target of the probe that counts cycles
QUEUED = "launch queued"  # what a kernel costs behind others in a stream; graphs cost less, a waiting host more
DISPATCHED = "launch through the dispatcher"  # host time per dispatched kernel: no figure of the device
HOST = "host"  # the target of the probes of calls of a framework
HOST_CALLS = {"eager_call": "calls of a block", "backward_call": "calls of a backward pass"}
# How far apart two runs on one machine lie, however close together the samples of one run are: a figure never reports
# a smaller spread.
RUN_TO_RUN = {"rate": 0.01, "shared memory": 0.03, "cache": 0.05, "latency": 0.02, "launch": 0.12, "dispatch": 0.4,
              "eager_call": 0.35, "backward_call": 0.2}  # fmt: skip
AGREEING = 3  # fastest samples, whose agreement is the spread of a rate
MAX_SPREAD = 9.0  # of a figure that says nothing any more; machine files take none beyond
MAX_OVER_LIMIT = 1.02  # a measured figure above this ratio to the stated or derived one gets a note

ByTarget = Mapping[str, Sequence[Observation]]
_rate, _bandwidth = attrgetter("best_rate"), attrgetter("best_bandwidth")


def calibrate(
    machine: Machine, observations: Iterable[Observation], conditions: Mapping[str, str] | None = None
) -> Machine:
    """The machine with what the observations say of its peaks, levels, links and launches."""
    items = [item for item in observations if "sweep_over" not in item.settings]  # a point of a sweep is no ceiling
    if not items:
        raise InputError("there are no observations to calibrate with")
    by_target, on_one = _by_target(items), dict[str, list[Observation]]()
    if machine.kind == "cpu":
        cores = machine.units.get("core") or max(_cores(item) or 1 for item in items)
        by_target = _by_target(item for item in items if _cores(item) in (None, cores))
        on_one = _by_target(item for item in items if cores > 1 and _cores(item) == 1)
    machine = _with_clock(machine, by_target.get(CLOCK, ()))
    measured = {**_peaks(by_target), **_levels(machine, by_target), **_launches(by_target), **_energy(by_target)}
    measured |= {("per_core", place[1]): figure for place, figure in _peaks(on_one).items()}
    measured |= {
        ("per_core", place[1]): figure for place, figure in _levels(machine, on_one).items() if place[2] == "bandwidth"
    }
    for link in machine.links:
        if link.name in by_target:
            measured["links", link.name, "per_direction"] = _best(by_target[link.name], _rate, "B/s", "rate")
    calibrated = put_measured(machine, measured)
    ceilings = {**calibrated.peaks, **{level.name: level.bandwidth for level in calibrated.levels}}
    findings = tuple(text for name, figure in ceilings.items() if (text := _above_limit(name, figure)))
    conditions = {**machine.conditions, **(conditions or {})}
    return replace(calibrated, notes=(*machine.notes, *findings), conditions=conditions)


def _by_target(items: Iterable[Observation]) -> dict[str, list[Observation]]:
    by_target: dict[str, list[Observation]] = {}
    for item in items:
        by_target.setdefault(item.target, []).append(item)
    return by_target


def _cores(item: Observation) -> int | None:
    """Cores a probe of a rate ran on; None for others: a latency is one core's, a special function is the caller's."""
    rated = not item.target.startswith(("latency.", "special.")) and "threads" in item.settings
    return int(item.settings["threads"]) if rated else None


def _with_clock(machine: Machine, probes: Sequence[Observation]) -> Machine:
    """The machine with its measured clock, and peaks derived from it where the flops per cycle are known."""
    if not probes:
        return machine
    best = min(probes, key=lambda item: item.best / item.settings["cycles"])
    hertz = best.settings["cycles"] / best.best
    figure = machine.clocks.get("vector", Figure("Hz", source=SOURCE))
    how = f"dependent integer additions on {counted(best.settings['threads'], 'core')}, one cycle each"
    figure = replace(figure, measured=hertz, measurement=how, spread=_spread(best.spread, "rate"))
    peaks = dict(machine.peaks)
    for name, per_cycle in machine.per_cycle.items():
        derivation = f"{per_cycle:g} flop/cycle on all cores x {show(hertz, 'Hz', 3)} (measured clock)"
        known = peaks.get(name, Figure("flop/s", source=SOURCE))
        peaks[name] = replace(known, derived=per_cycle * hertz, derivation=derivation)
    return replace(machine, clocks={**machine.clocks, "vector": figure}, peaks=peaks)


# -- figures by what they are of ------------------------------------------------------------------------------


def _peaks(by_target: ByTarget) -> dict[Place, Figure]:
    """A probe of the unit itself defines its peak; a library product only where there is none."""
    return {
        ("peaks", target): _best([item for item in items if "library" not in item.settings] or items, _rate, "flop/s", "rate")
        for target, items in by_target.items()
        if target.partition(".")[0] in ENGINES
    }  # fmt: skip


def _levels(machine: Machine, by_target: ByTarget) -> dict[Place, Figure]:
    """Bandwidth of each level, in all and by access mix, and its latency."""
    measured: dict[Place, Figure] = {}
    for level in machine.levels:
        streams, kind = by_target.get(level.name, ()), "cache"
        if level is machine.main:
            # data that were in a cache say nothing of the main memory, whatever they were aimed at
            streams = [item for item in streams if item.settings.get("state", "cold") == "cold"]
            # the memory of a CPU also serves whoever else runs on the machine, or on the host of a virtual one
            kind = "shared memory" if machine.kind == "cpu" else "rate"
        by_mix: dict[str, list[Observation]] = {}
        for item in streams:
            by_mix.setdefault(str(item.settings.get("mix", item.name)), []).append(item)
        if streams:
            measured["levels", level.name, "bandwidth"] = _best(streams, _bandwidth, "B/s", kind)
        for mix, items in by_mix.items():
            measured["levels", level.name, "mixes", mix] = _best(items, _bandwidth, "B/s", kind)
        if chases := by_target.get(f"latency.{level.name}", ()):
            measured["levels", level.name, "latency"] = _shortest(chases, "latency")
    return measured


def _launches(by_target: ByTarget) -> dict[Place, Figure]:
    launches = by_target.get("launch", ())
    dispatched = [item for item in launches if item.name == DISPATCHED]
    launched = [item for item in launches if item.name != DISPATCHED]
    queued = [item for item in launched if item.name == QUEUED]
    groups = {"launch": queued or launched, "dispatch": dispatched}
    on_host = by_target.get(HOST, ())
    groups |= {figure: [item for item in on_host if item.name == name] for figure, name in HOST_CALLS.items()}
    return {(name,): _shortest(items, name) for name, items in groups.items() if items}


def _energy(by_target: ByTarget) -> dict[Place, Figure]:
    """Energy per flop and per byte, fitted over loads of known power, and the static power."""
    measured: dict[Place, Figure] = {}
    for item in by_target.get("energy", ()):
        residual = item.settings.get("residual_relative", 0.0)
        how = f"{item.settings.get('method', item.name)}; residual {100 * residual:.1f} % of the power"
        if static := item.settings.get("static_power"):
            measured["energy", "static"] = Figure("W", measured=float(static), measurement=how, source=SOURCE)
        for target, value in item.settings.get("energy", {}).items():
            if not value > 0:  # a fit that gives a part of the energy none does not know it
                continue
            arithmetic = target.partition(".")[0] in ENGINES
            name, unit = (f"flop.{target}", "J/flop") if arithmetic else (f"byte.{target}", "J/B")
            measured["energy", name] = Figure(unit, measured=float(value), measurement=how, source=SOURCE)
    return measured


def _above_limit(name: str, figure: Figure) -> str | None:
    """A measured figure above what the machine can do says something about the count or the limit."""
    limit = max((value for value in (figure.stated, figure.derived) if value is not None), default=None)
    if figure.measured is None or limit is None or figure.measured <= MAX_OVER_LIMIT * limit:
        return None
    return (
        f"{name}: measured {show(figure.measured, figure.unit, 3)} is {100 * figure.measured / limit:.0f} % of the limit "
        f"{show(limit, figure.unit, 3)}: check that limit (clock, dense or sparse)"
    )


# -- one figure of several observations -----------------------------------------------------------------------


def _best(items: Sequence[Observation], rate: Callable[[Observation], float], unit: str, kind: str) -> Figure:
    """A rate: the best sample of all, and the best median under lasting load."""
    # a load whose samples were all preempted says nothing of the rate that lasts
    lasting = [item for item in items if item.settings.get("burst") is False and _held_back(item) == 1]
    bursts = [item for item in items if item.settings.get("burst") is not False] or items
    top = max(bursts, key=rate)
    # where few samples of the best probe were not preempted, one whose samples were all preempted may be better
    rivals = [top] if len(top.samples) >= AGREEING and _held_back(top) == 1 else bursts
    possible = max(rate(item) * _held_back(item) for item in rivals) / rate(top) - 1
    return Figure(
        unit,
        measured=rate(top),
        measurement=_measurement(top, rate(top), unit),
        spread=_spread(max(_agreement(top), possible), kind),
        sustained=max((rate(item) * item.best / item.median for item in lasting), default=None),
        source=SOURCE,
    )


def _shortest(items: Sequence[Observation], kind: str) -> Figure:
    """A latency: the shortest median."""
    shortest = min(items, key=lambda item: item.median)
    count = len(shortest.samples)
    how = f"{shortest.name}: {f'median of {count} samples' if count > 1 else _statistic(shortest)}"
    spread = _spread(max(shortest.spread, 1 - 1 / _held_back(shortest)), kind)
    return Figure("s", measured=shortest.median, measurement=how, spread=spread, source=SOURCE)


def _agreement(item: Observation) -> float:
    """The spread of a best sample: preemption only slows samples, so it is as good as the fastest of them agree."""
    fastest = sorted(item.samples)[:AGREEING]
    return min(item.spread, fastest[-1] / fastest[0] - 1) if len(fastest) == AGREEING else item.spread


def _spread(spread: float, kind: str) -> float:
    return min(max(spread, RUN_TO_RUN[kind]), MAX_SPREAD)


def _held_back(item: Observation) -> float:
    """How many times as fast it may really be; more than 1 where every sample was preempted."""
    return 1 / max(float(item.conditions.get("stand_in_busy", 1.0)), 0.01)


def _statistic(item: Observation) -> str:
    """The spread and what it rests on; a single sample has none."""
    if (factor := _held_back(item)) > 1:
        return f"noisy: all samples preempted, the best for {100 * (1 - 1 / factor):.0f} % of its time"
    count = len(item.samples)
    return "one sample" if count == 1 else f"spread {100 * item.spread:.1f} %, {count} samples"


def _measurement(item: Observation, value: float, unit: str) -> str:
    """How a figure was measured: the probe, its settings, the statistic, the date."""
    keys = ("mix", "isa", "dtype", "variant", "shape", "library", "bytes", "threads", "state")
    settings = ", ".join(f"{key} {item.settings[key]}" for key in keys if key in item.settings)
    date = item.conditions.get("date", "")
    return (
        f"{item.name}{f' ({settings})' if settings else ''}: best {show(value, unit)}, "
        f"median {show(value * item.best / item.median, unit)}, {_statistic(item)}"
        f"{f', {date}' if date else ''}"
    )


# -- what a library reaches of the peaks ----------------------------------------------------------------------


def measured_machine(
    observations: Sequence[Observation], detected: Machine, conditions: Mapping[str, str] | None = None
) -> Machine:
    """The detected machine with what was measured, and what the BLAS reaches of the arithmetic peak."""
    machine = calibrate(detected, observations, conditions)
    reached = {target: share for target in machine.peaks if (share := _reached(target, observations))}
    notes = list(not_of_kind(machine.notes, NOT_DETECTED))  # these have now been measured
    notes += dict.fromkeys(note for item in observations for note in of_kind(item.notes, LOWER_BOUND))
    by_unit = {item.target for item in observations if "library" not in item.settings}
    if circular := [target for target in reached if target not in by_unit]:
        notes.append(
            f"{', '.join(circular)}: peak taken from the library GEMM, because no FMA probe ran; GEMM predictions repeat it"
        )
    shares = {f"gemm.{target}": share for target, share in reached.items()}
    return replace(machine, efficiency={**machine.efficiency, **shares}, notes=tuple(notes))


def _undisturbed_rate(item: Observation) -> float:
    """Its best rate; where every sample was preempted, the rate during the time it ran."""
    return item.best_rate * _held_back(item)


def _reached(target: str, observations: Sequence[Observation]) -> Figure | None:
    """The share of a peak that the BLAS reaches, both on the same cores: the most without preemption, else the fewest."""
    by_cores: dict[int, list[Observation]] = {}
    for item in observations:
        if item.target == target and item.settings.get("burst", True):
            by_cores.setdefault(int(item.settings.get("threads", 1)), []).append(item)
    pairs = []
    for cores, items in by_cores.items():
        # a probe of a library runs its product, where others exercise the unit itself
        if products := [item for item in items if "library" in item.settings]:
            product, peak = max(products, key=_undisturbed_rate), max(items, key=_undisturbed_rate)
            calm = not any("stand_in_busy" in item.conditions for item in (product, peak))
            pairs.append((calm, cores, product, peak))
    if not pairs:
        return None
    # the fewer threads take part, the better the share of the core predicts what they would have reached
    calm, cores, product, peak = max(pairs, key=lambda pair: (pair[0], pair[1] if pair[0] else -pair[1]))
    share = _undisturbed_rate(product) / _undisturbed_rate(peak)
    spread = max(product.spread + peak.spread, RUN_TO_RUN["rate"])
    how = f"spread {100 * spread:.0f} %" if calm else "noisy: estimated from preempted samples"
    sentence = (
        f"{product.settings['library']} reaches {100 * share:.0f} % of the measured {target} peak, "
        f"both on {counted(cores, 'core')} ({how})"
    )
    return Figure("", measured=share, source=sentence, measurement=sentence, spread=spread)
