"""Measured figures onto machines: one walk over the figures of a machine, one way to put a measured one in its place.

`with_measured` adds a measurement to what is stated and derived, `merge` joins two measurements of one machine, and
`changes` compares them. Nothing stated or derived is ever touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..core.errors import InputError
from ..core.figure import READ_MIX, Figure, of_reads
from ..core.machine import Machine
from ..core.units import show
from .coefficients import joined

Place = tuple[str, ...]  # of a figure: ("peaks", "tensor.bf16"), ("levels", "hbm", "mixes", "read"), ("launch",)
HOST_FIGURES = ("dispatch", "eager_call", "backward_call")
COMPARED = ("peaks", "levels", "per_core", "links", "launch", *HOST_FIGURES)  # what two measurements are compared by


def figures(machine: Machine) -> dict[Place, Figure]:
    """Every figure of a machine that a measurement can give, by its place."""
    places: dict[Place, Figure] = {("peaks", name): figure for name, figure in machine.peaks.items()}
    places |= {("levels", level.name, "bandwidth"): level.bandwidth for level in machine.levels}
    for level in machine.levels:
        places |= {("levels", level.name, "mixes", mix): figure for mix, figure in level.mixes.items()}
        places["levels", level.name, "latency"] = level.latency
    places |= {("links", link.name, "per_direction"): link.per_direction for link in machine.links}
    places |= {(name,): getattr(machine, name) for name in ("launch", *HOST_FIGURES)}
    for group in ("per_core", "limits", "energy", "efficiency"):
        places |= {(group, name): figure for name, figure in getattr(machine, group).items()}
    return places


def put(figure: Figure | None, measured: Figure) -> Figure:
    """A figure with what another one measured."""
    if figure is None:
        return measured
    return replace(
        figure,
        measured=measured.measured,
        measurement=measured.measurement,
        spread=measured.spread,
        sustained=measured.sustained,
        source=figure.source or measured.source,
    )


def put_measured(machine: Machine, measured: Mapping[Place, Figure]) -> Machine:
    """The machine with these measured figures; those of levels and links it does not have are left out."""
    places = figures(machine)
    places |= {place: put(places.get(place), new) for place, new in measured.items() if new.measured is not None}
    for level in machine.levels:
        start = ("levels", level.name)
        if (*start, "mixes", READ_MIX) in measured:
            reads = {READ_MIX: measured[*start, "mixes", READ_MIX]}
            places[*start, "bandwidth"] = of_reads(places[*start, "bandwidth"], reads)

    def group(*start: str) -> dict[str, Any]:
        return {place[-1]: figure for place, figure in places.items() if place[:-1] == start}

    return replace(
        machine,
        peaks=group("peaks"),
        levels=tuple(
            replace(level, **group("levels", level.name), mixes=group("levels", level.name, "mixes"))
            for level in machine.levels
        ),
        links=tuple(replace(link, **group("links", link.name)) for link in machine.links),
        per_core=group("per_core"),
        limits=group("limits"),
        energy=group("energy"),
        efficiency=group("efficiency"),
        **group(),
    )


def with_measured(machine: Machine, other: Machine) -> Machine:
    """The machine with what another file measured of it."""
    sources = {**machine.sources, **other.sources}
    return replace(put_measured(machine, figures(other)), conditions=other.conditions, sources=sources)


def merge(first: Machine, second: Machine) -> Machine:
    """One machine of two measurements: of each rate the higher, of each latency the shorter."""
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
    known, others = figures(first), figures(second)
    better = {place: others[place] for place in others if _better(others[place], known.get(place, Figure("")))}
    both = put_measured(first, better)
    return replace(
        both,
        fitted=joined(first, second),
        efficiency=_efficiencies(first, second, both.peaks),
        notes=tuple(dict.fromkeys((*first.notes, *second.notes))),
        conditions={**second.conditions, **first.conditions},
    )


def _better(figure: Figure, known: Figure) -> bool:
    """Whether a measured figure replaces the one already there; of an energy the first stays."""
    if figure.measured is None or known.measured is None:
        return figure.measured is not None
    if figure.unit == "s":
        return figure.measured < known.measured
    return figure.unit in ("flop/s", "B/s") and figure.measured > known.measured


def _efficiencies(first: Machine, second: Machine, peaks: Mapping[str, Figure]) -> dict[str, Figure]:
    """What libraries reach of the merged peaks: the better rate of the two, not the better share of another peak."""
    efficiencies: dict[str, Figure] = {}
    for name in {**first.efficiency, **second.efficiency}:
        peak_name = name.partition(".")[2]
        limit = peaks[peak_name].measured if peak_name in peaks else None
        rates = [
            (share.measured * peak.measured, share)
            for machine in (first, second)
            if (share := machine.efficiency.get(name)) and share.measured
            if (peak := machine.peaks.get(peak_name)) and peak.measured
        ]
        if limit is None or not rates:
            efficiencies[name] = first.efficiency.get(name) or second.efficiency[name]
            continue
        rate, share = max(rates, key=lambda row: row[0])
        how = share.measurement if rate / limit == share.measured else f"{show(rate, 'flop/s')} of the merged peak"
        efficiencies[name] = replace(share, measured=rate / limit, measurement=how, source=how)
    return efficiencies


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


def changes(first: Machine, second: Machine) -> list[Change]:
    """Figures that both measured, in the order of the first."""
    others = figures(second)
    return [
        Change(_label(place), old.unit, old.measured, new.measured, (old.spread or 0.0) + (new.spread or 0.0))
        for place, old in figures(first).items()
        if place[0] in COMPARED and (new := others.get(place)) is not None
        if old.measured is not None and new.measured is not None
    ]


def _label(place: Place) -> str:
    """`tensor.bf16`, `hbm`, `hbm, read`, `hbm, latency`, `memory, one core`, `launch`."""
    if place[0] == "per_core":
        return f"{place[1]}, one core"
    return ", ".join(part for part in place[1:] if part not in ("bandwidth", "mixes", "per_direction")) or place[0]
