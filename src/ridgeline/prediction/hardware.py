"""Hardware: a machine as the formula of a kernel family sees it, for arithmetic in one format."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import MissingFigure
from ..core.families import Hardware
from ..core.figure import Figure
from ..core.machine import ANY, Machine
from ..machines.defaults import defaults
from ..machines.power import cores

SINGLE, DOUBLE = "fp32", "fp64"


def hardware(machine: Machine, dtype: str) -> Hardware | None:
    """The machine as a formula sees it for arithmetic in a dtype, None where a figure is not known."""
    if machine.kind == "cpu":
        return _cpu_hardware(machine, dtype)
    count = cores(machine)
    if count is None or ANY in machine.peaks or not machine.levels:
        return None
    bandwidth, vector = _stated(machine.main.bandwidth), _vector(machine, dtype)
    if vector is None and dtype == DOUBLE:  # left out, as a note says; sorts, gathers and copies need none of it
        vector = _vector(machine, SINGLE)
    try:
        products = machine.peaks[machine.engine("matrix", dtype)]
        peak, held_back = _stated(products), _held_back(products)
    except MissingFigure:  # no products in this format; what only reads it computes wider
        peak, held_back = vector, 1.0
    if peak is None or vector is None or bandwidth is None:
        return None
    inner = machine.levels[-2] if len(machine.levels) > 1 else None
    cache_size = (inner.total if inner and inner.name != "l1" else None) or defaults("cache")["last_level"]
    figure = machine.peaks.get("special.fp32")
    special = (figure.value() if figure else None) or defaults("special")["per_flop"] * vector
    # addresses and loads of fp64 elements take no fp64 units, of which some GPUs have few; half of the fp32 rate is what most have
    single = machine.peaks.get("vector.fp32")
    handling = max(vector, ((_stated(single) if single else None) or 0.0) / 2)
    return Hardware(count, peak, bandwidth, cache_size, special, vector, (), handling, held_back)


def _vector(machine: Machine, dtype: str) -> float | None:
    try:
        return _stated(machine.peaks[machine.engine("vector", dtype)])
    except (MissingFigure, KeyError):
        return None


def at_burst(known: Hardware) -> Hardware:
    """The same without the power limit of lasting load."""
    return replace(known, held_back=1.0)


def _cpu_hardware(machine: Machine, dtype: str) -> Hardware | None:
    """The measured figures of a CPU, because a virtual machine has only a part of what the vendor states."""
    if ANY in machine.peaks or not machine.levels:
        return None
    try:
        vector = machine.peaks[machine.engine("vector", dtype)].value()
    except (MissingFigure, KeyError):
        return None
    try:
        peak = machine.peaks[machine.engine("matrix", dtype)].value()
    except MissingFigure:  # a format without arithmetic of its own is converted
        peak = vector
    bandwidth = machine.main.bandwidth.value()
    if peak is None or vector is None or bandwidth is None:
        return None
    figures = [(level.total, level.bandwidth.value()) for level in machine.levels[:-1]]
    caches = tuple((size, rate) for size, rate in figures if size is not None and rate is not None)
    last_level = caches[-1][0] if caches else 0.0
    return Hardware(machine.units.get("core", 1), peak, bandwidth, last_level, np.inf, vector, caches)


def _held_back(figure: Figure) -> float:
    """Seconds under lasting load over those of a burst, where both were measured."""
    burst, lasting = figure.measured, figure.sustained
    return max(burst / lasting, 1.0) if burst and lasting else 1.0


def _stated(figure: Figure) -> float | None:
    """The vendor's figure: coefficients are shares of it, whatever was measured."""
    return figure.stated if figure.stated is not None else figure.value()
