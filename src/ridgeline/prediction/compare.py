"""Machines compared: peak, bandwidth and ridge of each, growth from one to the next, and one op on all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, nan
from typing import Any, ClassVar

import numpy as np

from ..core.errors import InputError, MissingFigure
from ..core.families.product import PREPARE
from ..core.machine import MAIN, Machine
from ..core.work import Work
from ..machines import files as catalog
from ..machines.load import load
from ..programs.ops import Op
from .basis import QUANTIZING
from .ceilings import default_dtype, known_levels, known_peak
from .growth_kinds import Kinds, common_kinds
from .kernel_sets import KernelSet, predict_set
from .predict import Prediction, predict

SIMILAR_GROWTH = 0.02  # relative difference of two growth factors that is called slight
WELL_KNOWN = ("a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x")
FLAGSHIPS = ("p100-sxm2-16gb", "v100-sxm2-32gb", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm")
MACHINES_SHOWN = 3  # by default


@dataclass(frozen=True)
class Generation:
    """One machine of a list, and how it grew from the one before."""

    machine: Machine
    engine: str
    peak: float  # not a number where an op is compared that takes none of the machine's peaks
    bandwidth: float
    ceilings: str  # the kind of both figures
    compute_growth: float | None = None
    bandwidth_growth: float | None = None
    DOCUMENT: ClassVar = (
        "machine=name", "engine=known_engine", "peak=known_peak", "bandwidth", "ridge=known_ridge", "ceilings", "compute_growth",
        "bandwidth_growth", "gains",
    )  # fmt: skip

    @property
    def known_peak(self) -> float | None:
        return self.peak if isfinite(self.peak) else None

    @property
    def known_engine(self) -> str | None:
        return self.engine or None

    @property
    def known_ridge(self) -> float | None:
        return self.ridge if isfinite(self.peak) else None

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def ridge(self) -> float:
        return self.peak / self.bandwidth

    @property
    def gains(self) -> str | None:
        """Which phase gains more from the step: more compute helps prefill, more bandwidth decode."""
        if self.compute_growth is None or self.bandwidth_growth is None:
            return None
        ratio = self.compute_growth / self.bandwidth_growth
        if ratio == 1:
            return "both equally"
        phase = "prefill" if ratio > 1 else "decode"
        return f"{phase}, slightly" if abs(ratio - 1) <= SIMILAR_GROWTH else phase


def _generation(
    machine: Machine, dtype: str, ceilings: str | None, products: bool = True, needs_peak: bool = True
) -> Generation:
    """A machine by its engine for products, or for what has none, its peak and main bandwidth; raises where one is not known."""
    bandwidth = machine.bandwidth(MAIN, ceilings)
    try:
        engine = machine.engine("matrix" if products else "vector", dtype)
        peak = machine.peak(engine, ceilings)
    except MissingFigure:
        if needs_peak:
            raise
        return Generation(machine, "", nan, bandwidth.value, bandwidth.kind)
    kinds = "+".join(sorted({peak.kind, bandwidth.kind}))
    return Generation(machine, engine, peak.value, bandwidth.value, kinds)


def generations(
    machines: Sequence[Machine],
    dtype: str = "bf16",
    ceilings: str | None = None,
    products: bool = True,
    needs_peak: bool = True,
) -> list[Generation]:
    """Peak, bandwidth and ridge of each machine, and how both grew from the one before by figures of one kind."""
    rows = [_generation(machine, dtype, ceilings, products, needs_peak) for machine in machines]
    kinds = Kinds(ceilings, ceilings) if ceilings else common_kinds(machines, dtype, products)

    def growths(kind: str | None, figure: str) -> list[float | None]:
        """From each machine to the next; None where a figure is not known in this kind."""
        if kind is None:
            return [None] * (len(rows) - 1)
        alike = [_figure(machine, figure, dtype, kind, products) for machine in machines]
        return [new / old if old and new else None for old, new in pairwise(alike)]

    grown = zip(rows[1:], growths(kinds.peak, "peak"), growths(kinds.bandwidth, "bandwidth"), strict=True)
    return [*rows[:1], *(replace(row, compute_growth=compute, bandwidth_growth=fed) for row, compute, fed in grown)]


def _figure(machine: Machine, figure: str, dtype: str, kind: str, products: bool) -> float | None:
    """The peak or the main bandwidth of a machine in one kind."""
    if figure == "bandwidth":
        return machine.bandwidth(MAIN, kind).value
    try:
        return machine.peak(machine.engine("matrix" if products else "vector", dtype), kind).value
    except MissingFigure:  # where an op is compared that takes none of the machine's peaks
        return None


@dataclass(frozen=True)
class Comparison:
    """Machines in the order given, and one op on each of them if asked for."""

    dtype: str
    ceilings: str | None  # the kind asked for, None for the best there is of each machine
    generations: tuple[Generation, ...]
    predictions: tuple[Prediction, ...]  # of the op, empty without one
    growth: Kinds  # of the figures that growth is taken between
    notes: tuple[str, ...]  # machines left out, and those whose memory is too small

    @property
    def quantizing(self) -> dict[str, float]:
        """Machines whose time includes quantizing the activations, as in layers of serving engines, and the seconds of it."""
        spent = {}
        for item in self.predictions:
            if QUANTIZING in item.expected[0].basis:
                made = (float(np.sum(part.seconds)) for part in item.items if part.effect == PREPARE.label)
                spent[item.machine.name] = sum(made)
        return spent

    @property
    def kinds(self) -> str:
        """`measured ceilings`; of machines with ceilings of several kinds that of each."""
        predicted = [item.bounds[0].kinds for item in self.predictions] or [row.ceilings for row in self.generations]
        if len(set(predicted)) == 1:
            return f"{predicted[0]} ceilings"
        named = zip((row.name for row in self.generations), predicted, strict=True)
        return "ceilings: " + ", ".join(f"{name} {kind}" for name, kind in named)


def comparison(
    machines: Sequence[Machine],
    dtype: str | None = None,
    ceilings: str | None = None,
    op: Op | None = None,
    values: dict[str, Any] | None = None,
) -> Comparison:
    """Those machines that have a peak in the format (that of the op, else bf16) and a bandwidth.

    Of an op those machines that `predict` answers for, as it answers: one that takes no peak needs none.
    """
    values = values or {}
    if any(isinstance(value, np.ndarray) for value in values.values()):
        raise InputError("compare takes one case of an op, not a sweep; use predict for sweeps")
    work = None if op is None else op(**values)
    dtype = dtype or ("bf16" if work is None else work.dtype)
    products = work is None or any(engine == "matrix" for engine, _ in work.by_engine())
    known, predictions, left_out = [], [], []
    for machine in machines:
        try:
            if work is None:
                _generation(machine, dtype, ceilings)
            else:
                predictions.append(predict(work, machine, ceilings=ceilings))
            known.append(machine)
        except MissingFigure as missing:
            left_out.append(f"{machine.name} left out: {missing}")
    if not known:
        raise MissingFigure("\n".join(left_out))
    left_out += [
        note for prediction in predictions for note in prediction.warnings if note == prediction.bounds[0].shortage
    ]
    rows = tuple(generations(known, dtype, ceilings, products, needs_peak=work is None))
    growth = Kinds(ceilings, ceilings) if ceilings else common_kinds(known, dtype, products)
    return Comparison(dtype, ceilings, rows, tuple(predictions), growth, tuple(left_out))


@dataclass(frozen=True)
class MachineRoof:
    """One machine's roof in one format, and the works asked for on it."""

    machine: Machine
    dtype: str
    engine: str
    peak: float
    bandwidth: float
    works: KernelSet

    @property
    def ridge(self) -> float:
        return self.peak / self.bandwidth


@dataclass(frozen=True)
class Roofs:
    """The roofs of several machines, to be drawn on one plane."""

    roofs: tuple[MachineRoof, ...]
    ceilings: str | None
    notes: tuple[str, ...]


def roofs(
    machine: Machine,
    machines: Sequence[Machine] | None = None,
    dtype: str | None = None,
    works: Iterable[Work] = (),
    ceilings: str | None = None,
) -> Roofs:
    """A machine and others (well-known ones of its kind where none are given), each in `dtype` or its default format."""
    listed = [machine, *(other for other in machines or _others(machine) if other.name != machine.name)]
    works = list(works)
    rows, notes = [], []
    for other in listed:
        name = dtype or default_dtype(other)
        try:
            row = _generation(other, name, ceilings)
        except MissingFigure as missing:
            notes.append(f"{other.name} left out: {missing}")
            continue
        placed = predict_set(other, (("", work) for work in works), ceilings=ceilings)
        notes += placed.notes
        rows.append(MachineRoof(other, name, row.engine, row.peak, row.bandwidth, placed))
    if not rows:
        raise InputError("none of these machines has a peak and a bandwidth to draw: " + "; ".join(notes))
    return Roofs(tuple(rows), ceilings, tuple(notes))


def _others(machine: Machine) -> list[Machine]:
    """Machines to compare one with: well-known ones of its kind, else the fastest of its kind in the catalog."""
    others = MACHINES_SHOWN - 1
    if machine.kind == "gpu":
        names = [name for name in WELL_KNOWN if name in catalog.names() and name != machine.name]
        if names:
            return [load(name) for name in names[:others]]
    similar = [other for other in catalog.everything() if other.kind == machine.kind and other.name != machine.name]
    complete = [other for other in similar if known_levels(other) and other.peaks]
    return sorted(complete, key=lambda other: -(other.main.bandwidth.value() or 0.0))[:others]


@dataclass(frozen=True)
class Trend:
    """Generations of one vendor and kind by year of release, one a year."""

    machine: Machine
    dtype: str | None
    by_year: dict[int, Generation]


def trend(
    machine: Machine, machines: Sequence[Machine] | None = None, dtype: str | None = None, ceilings: str | None = None
) -> Trend:
    """Without a list: the machines of this vendor and kind that set a bandwidth record when they appeared."""
    ceilings = ceilings or "stated"  # a measured machine must not fall behind those of which only a datasheet is known
    listed = machines or [
        other for other in catalog.everything() if (other.vendor, other.kind) == (machine.vendor, machine.kind)
    ]
    by_year: dict[int, Generation] = {}
    record = 0.0
    for other in _by_release(listed, ceilings):
        year = int(other.released or 0)
        if year in by_year:
            continue
        try:
            row = _generation(other, dtype or _fastest_16_bit(other), ceilings)
        except InputError:
            continue
        if machines or row.bandwidth > record:
            record = max(record, row.bandwidth)
            by_year[year] = row
    if len(by_year) < 2:
        known = f"found {len(by_year)} for {machine.vendor or machine.name}; add machines"
        raise InputError(f"a trend needs two generations with a release year, a peak and a bandwidth; {known}")
    return Trend(machine, dtype, by_year)


def _by_release(machines: Iterable[Machine], ceilings: str) -> list[Machine]:
    """By year of release; of one year, flagships and then the fastest memory first."""

    def order(machine: Machine) -> tuple[float, bool, float, str]:
        bandwidth = machine.main.bandwidth.value(ceilings) or 0.0
        return machine.released or 0, machine.name not in FLAGSHIPS, -bandwidth, machine.name

    return sorted((machine for machine in machines if machine.released and machine.levels), key=order)


def _fastest_16_bit(machine: Machine) -> str:
    """The fastest 16-bit format, else the usual one."""
    peaks = {
        name: max(known_peak(machine, f"{owner}.{name}") or 0.0 for owner in ("tensor", "vector"))
        for name in ("bf16", "fp16")
    }
    fastest = max(peaks, key=lambda name: peaks[name])
    return fastest if peaks[fastest] > 0 else default_dtype(machine)
