"""Ceilings a question is judged by: the number format, the engine that computes in it, the levels with a bandwidth."""

from __future__ import annotations

from ..core.errors import InputError, MissingFigure
from ..core.machine import ANY, Machine

PREFERRED = ("tensor.bf16", "tensor.fp16", "vector.fp32", "vector.fp64", "vector.bf16", "vector.fp16")


def default_dtype(machine: Machine) -> str:
    """The format a machine is usually judged by: 16-bit on matrix units, fp32 without them."""
    for engine in PREFERRED:
        if known_peak(machine, engine) is not None:
            return engine.partition(".")[2]
    if ANY in machine.peaks:
        return "fp32"
    dtypes = machine.dtypes()
    if not dtypes:
        raise InputError(f"{machine.name} has no stated peak to judge by; give a peak and a bandwidth")
    return dtypes[0]


def usable_dtype(machine: Machine, wanted: str, ceilings: str | None = None) -> str:
    """The wanted format where the machine computes in it, else the one it is usually judged by."""
    try:
        engine_for(machine, wanted, ceilings)
    except MissingFigure:
        return default_dtype(machine)
    return wanted


def engine_for(machine: Machine, dtype: str, ceilings: str | None = None) -> str:
    """The engine of matrix products in a format; raises where it has no peak of the asked kind."""
    engine = machine.engine("matrix", dtype)
    machine.peak(engine, ceilings)
    return engine


def known_peak(machine: Machine, engine: str, ceilings: str | None = None) -> float | None:
    figure = machine.peaks.get(engine)
    return None if figure is None else figure.value(ceilings)


def known_levels(machine: Machine, ceilings: str | None = None) -> list[str]:
    """Levels with a bandwidth, outermost first."""
    return [level.name for level in reversed(machine.levels) if level.bandwidth.value(ceilings) is not None]
