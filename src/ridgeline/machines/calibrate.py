"""Machine and Observations to a Machine with measured ceilings beside the stated ones.

The ceiling of a peak or a level is the best rate any probe of it reached; the lasting one is kept beside it as
`sustained`. Latencies, launches and links take the median. Nothing stated or derived is touched, and a measured
figure above a physical limit stays as it is, with a note that says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..core.errors import InputError
from ..core.figure import Figure, Level
from ..core.machine import ENGINES, Machine
from ..core.observation import Observation
from ..core.units import show

SOURCE = "measured on the machine itself"  # of figures no document states
QUEUED = "launch queued"  # what a kernel costs behind others in a stream; graphs cost less, a waiting host more
DISPATCHED = "launch through the dispatcher"  # what the host takes to send one: no figure of the device
# How far apart two whole runs on one machine were seen, however near each other the samples of one run lie: the spread
# a figure reports is never less.
REPEATS = {"rate": 0.01, "shared memory": 0.03, "cache": 0.05, "latency": 0.02, "launch": 0.12, "dispatch": 0.4}
WIDEST = 9.0  # spread of a figure that says nothing any more; machine files take none beyond
ABOVE = 1.02  # a measured figure this much over a stated or derived one is called a finding


@dataclass(frozen=True)
class Reading:
    """The value a set of observations gives a figure, and how."""

    value: float
    spread: float
    how: str
    sustained: float | None = None


def _lasting(observation: Observation) -> bool:
    return observation.settings.get("burst") is False


def _held_back(observation: Observation) -> float:
    """How many times as fast it may really be; more than 1 where its one sample shared the core with another program."""
    return 1 / max(float(observation.conditions.get("stand_in_busy", 1.0)), 0.01)


def _statistic(observation: Observation) -> str:
    """The spread and what it rests on; a single sample has none."""
    if (back := _held_back(observation)) > 1:
        return f"one sample, taken while another program had the core for {1 - 1 / back:.0%} of the time"
    count = len(observation.samples)
    return "one sample" if count == 1 else f"spread {observation.spread:.1%}, {count} samples"


def _told(observation: Observation, value: float, unit: str) -> str:
    """How a figure was found: the probe, its settings, the statistic, the date."""
    keys = ("mix", "isa", "dtype", "variant", "shape", "library", "bytes", "threads", "state")
    settings = ", ".join(f"{key} {observation.settings[key]}" for key in keys if key in observation.settings)
    date = observation.conditions.get("date", "")
    return (
        f"{observation.name}{f' ({settings})' if settings else ''}: best {show(value, unit)}, "
        f"median {show(value * observation.best / observation.median, unit)}, {_statistic(observation)}"
        f"{f', {date}' if date else ''}"
    )


def _best(observations: Sequence[Observation], rate: Callable[[Observation], float], unit: str) -> Reading | None:
    burst = [item for item in observations if not _lasting(item)] or list(observations)
    if not burst:
        return None
    top = max(burst, key=rate)
    lasting = [rate(item) * item.best / item.median for item in observations if _lasting(item)]
    # a probe that another program held back may have been the best
    might = max(rate(item) * _held_back(item) for item in burst) / rate(top) - 1
    return Reading(rate(top), max(top.spread, might), _told(top, rate(top), unit), max(lasting) if lasting else None)


def _put(figure: Figure, reading: Reading | None, kind: str = "rate") -> Figure:
    if reading is None:
        return figure
    spread = min(max(reading.spread, REPEATS[kind]), WIDEST)
    return replace(figure, measured=reading.value, measurement=reading.how, spread=spread, sustained=reading.sustained)


def _quickest(figure: Figure, items: Sequence[Observation], kind: str) -> Figure:
    """A latency: the shortest median of these observations."""
    if not items:
        return figure
    shortest = min(items, key=lambda item: item.median)
    count = len(shortest.samples)
    how = f"{shortest.name}: {f'median of {count} samples' if count > 1 else _statistic(shortest)}"
    spread = min(max(shortest.spread, 1 - 1 / _held_back(shortest), REPEATS[kind]), WIDEST)
    return replace(figure, measured=shortest.median, measurement=how, spread=spread)


def _finding(name: str, figure: Figure) -> str | None:
    """A measured figure above what the machine can do says something about the count or the limit."""
    limit = max((value for value in (figure.stated, figure.derived) if value is not None), default=None)
    if figure.measured is None or limit is None or figure.measured <= ABOVE * limit:
        return None
    return (
        f"{name}: measured {show(figure.measured, figure.unit)} is {figure.measured / limit:.0%} of {show(limit, figure.unit)}; "
        "either the limit is set too low (clock, dense or sparse) or the probe counts too much"
    )


def _level(level: Level, mine: Sequence[Observation], chase: Sequence[Observation], kind: str) -> Level:
    by_mix: dict[str, list[Observation]] = {}
    for item in mine:
        by_mix.setdefault(str(item.settings.get("mix", item.name)), []).append(item)
    mixes = {
        mix: _put(level.mixes.get(mix, Figure("B/s", source=SOURCE)), _best(items, _bandwidth, "B/s"), kind)
        for mix, items in by_mix.items()
    }
    return replace(
        level,
        bandwidth=_put(level.bandwidth, _best(mine, _bandwidth, "B/s"), kind),
        mixes={**level.mixes, **mixes},
        latency=_quickest(level.latency, chase, "latency"),
    )


def _speaks_of_main(item: Observation) -> bool:
    """Data that were in a cache say nothing of the main memory, whatever they were aimed at."""
    return bool(item.settings.get("state", "cold") == "cold")


def _energy(items: Sequence[Observation]) -> dict[str, Figure]:
    """Energy per flop and per byte, fitted over loads of known power, and the power that is drawn whatever runs."""
    found: dict[str, Figure] = {}
    for item in items:
        how = f"{item.settings.get('method', item.name)}; residual {item.settings.get('residual_relative', 0.0):.1%} of the power"
        static = item.settings.get("static_power")
        if static:
            found["static"] = Figure("W", measured=float(static), measurement=how, source=SOURCE)
        for target, value in item.settings.get("energy", {}).items():
            arithmetic = target.partition(".")[0] in ENGINES
            name = f"flop.{target}" if arithmetic else f"byte.{target}"
            found[name] = Figure(
                "J/flop" if arithmetic else "J/B", measured=float(value), measurement=how, source=SOURCE
            )
    return found


def _bandwidth(item: Observation) -> float:
    return item.best_bandwidth


def _rate(item: Observation) -> float:
    return item.best_rate


def calibrate(
    machine: Machine, observations: Iterable[Observation], conditions: Mapping[str, str] | None = None
) -> Machine:
    """The machine with what the observations say of its peaks, levels, links and launches."""
    by_target: dict[str, list[Observation]] = {}
    for item in observations:
        if "sweep_over" not in item.settings:  # a point of a sweep is no ceiling
            by_target.setdefault(item.target, []).append(item)
    if not by_target:
        raise InputError("there are no observations to calibrate with")
    peaks = dict(machine.peaks)
    for target, items in by_target.items():
        if target.partition(".")[0] in ENGINES:
            peaks[target] = _put(peaks.get(target, Figure("flop/s", source=SOURCE)), _best(items, _rate, "flop/s"))
    if machine.levels:
        name = machine.main.name
        by_target[name] = [item for item in by_target.get(name, []) if _speaks_of_main(item)]
    # the memory of a CPU also serves whoever else runs on the machine, or on the host of a virtual one
    outermost = "shared memory" if machine.kind == "cpu" else "rate"
    levels = tuple(
        _level(
            level,
            by_target.get(level.name, []),
            by_target.get(f"latency.{level.name}", []),
            outermost if level is machine.levels[-1] else "cache",
        )
        for level in machine.levels
    )
    links = tuple(
        replace(link, per_direction=_put(link.per_direction, _best(by_target.get(link.name, []), _rate, "B/s")))
        for link in machine.links
    )
    sent = by_target.get("launch", [])
    dispatched = [item for item in sent if item.name == DISPATCHED]
    launched = [item for item in sent if item.name != DISPATCHED]
    queued = [item for item in launched if item.name == QUEUED]
    figures = {**peaks, **{level.name: level.bandwidth for level in levels}}
    findings = tuple(text for name, figure in figures.items() if (text := _finding(name, figure)))
    return replace(
        machine,
        peaks=peaks,
        levels=levels,
        links=links,
        launch=_quickest(machine.launch, queued or launched, "launch"),
        dispatch=_quickest(machine.dispatch, dispatched, "dispatch"),
        energy={**machine.energy, **_energy(by_target.get("energy", []))},
        notes=(*machine.notes, *findings),
        conditions={**machine.conditions, **(conditions or {})},
    )


# -- two measurements -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Change:
    """One figure in two measurements; they differ when they lie further apart than both spreads together."""

    name: str
    unit: str
    first: float
    second: float
    spread: float

    @property
    def ratio(self) -> float:
        return self.second / self.first

    @property
    def differs(self) -> bool:
        return abs(self.ratio - 1) > self.spread


def _measured(machine: Machine) -> dict[str, Figure]:
    figures = {**machine.peaks, **{level.name: level.bandwidth for level in machine.levels}}
    for level in machine.levels:
        figures |= {f"{level.name}, {mix}": figure for mix, figure in level.mixes.items()}
        figures[f"{level.name}, latency"] = level.latency
    figures |= {link.name: link.per_direction for link in machine.links}
    figures |= {"launch": machine.launch, "dispatch": machine.dispatch}
    return {name: figure for name, figure in figures.items() if figure.measured is not None}


def changes(first: Machine, second: Machine) -> list[Change]:
    """Figures that both measured, in the order of the first."""
    one, two = _measured(first), _measured(second)
    return [
        Change(
            name,
            figure.unit,
            figure.measured or 0.0,
            two[name].measured or 0.0,
            (figure.spread or 0.0) + (two[name].spread or 0.0),
        )
        for name, figure in one.items()
        if name in two
    ]


def merge(first: Machine, second: Machine) -> Machine:
    """One machine of two measurements: of each ceiling the better reading, of each latency the shorter one."""
    if first.title != second.title:
        raise InputError(
            f"these are two machines, '{first.title}' and '{second.title}'; measurements of one can be merged"
        )
    for unit in {**first.units, **second.units}:
        if first.units.get(unit) != second.units.get(unit):
            raise InputError(
                f"these were measured on {first.units.get(unit, 0)} and on {second.units.get(unit, 0)} of the {unit}s of "
                f"{first.title or first.name}; measurements of the same part of a machine can be merged"
            )

    def better(one: Figure, two: Figure) -> Figure:
        if two.measured is None or (one.measured is not None and one.measured >= two.measured):
            return one
        return replace(
            one, measured=two.measured, measurement=two.measurement, spread=two.spread, sustained=two.sustained
        )

    def shorter(one: Figure, two: Figure) -> Figure:
        if two.measured is None or (one.measured is not None and one.measured <= two.measured):
            return one
        return replace(one, measured=two.measured, measurement=two.measurement, spread=two.spread)

    other = {level.name: level for level in second.levels}
    peaks = {
        name: better(
            first.peaks.get(name, second.peaks.get(name, Figure("flop/s"))), second.peaks.get(name, Figure("flop/s"))
        )
        for name in {**first.peaks, **second.peaks}
    }
    levels = []
    for level in first.levels:
        two = other.get(level.name, level)
        mixes = {
            mix: better(level.mixes.get(mix, two.mixes.get(mix, Figure("B/s"))), two.mixes.get(mix, Figure("B/s")))
            for mix in {**level.mixes, **two.mixes}
        }
        levels.append(
            replace(
                level,
                bandwidth=better(level.bandwidth, two.bandwidth),
                latency=shorter(level.latency, two.latency),
                mixes=mixes,
            )
        )
    links = tuple(
        replace(link, per_direction=better(link.per_direction, two.per_direction))
        for link in first.links
        for two in second.links
        if two.name == link.name
    )
    return replace(
        first,
        peaks=peaks,
        levels=tuple(levels),
        links=links or first.links,
        launch=shorter(first.launch, second.launch),
        dispatch=shorter(first.dispatch, second.dispatch),
        energy={**second.energy, **first.energy},
        fitted={**second.fitted, **first.fitted},
        efficiency=_efficiencies(first, second, peaks),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
        conditions={**second.conditions, **first.conditions},
    )


def _efficiencies(first: Machine, second: Machine, peaks: Mapping[str, Figure]) -> dict[str, Figure]:
    """What libraries reach of the merged peaks: the better rate of the two, not the better share of another peak."""
    found: dict[str, Figure] = {}
    for name in {**first.efficiency, **second.efficiency}:
        peak = name.partition(".")[2]
        limit = peaks[peak].measured if peak in peaks else None
        seen = [
            (share.measured * whole.measured, share)
            for one in (first, second)
            if (share := one.efficiency.get(name)) and share.measured
            if (whole := one.peaks.get(peak)) and whole.measured
        ]
        if limit is None or not seen:
            found[name] = first.efficiency.get(name) or second.efficiency[name]
            continue
        reached, share = max(seen, key=lambda row: row[0])
        told = (
            share.measurement if reached / limit == share.measured else f"{show(reached, 'flop/s')} of the merged peak"
        )
        found[name] = replace(share, measured=reached / limit, measurement=told, source=told)
    return found
