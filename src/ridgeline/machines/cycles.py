"""Cycles: the clock of a machine's cores, and what a core gets and does in one cycle of it."""

from __future__ import annotations

from collections.abc import Iterable

from ..core.machine import Machine
from .power import cores

HALVES = ("bf16", "fp16")


def clock(machine: Machine) -> float | None:
    """Of the cores: AMD calls it the engine's."""
    figures = (machine.clocks.get(name) for name in ("vector", "engine", "tensor"))
    return next((value for figure in figures if figure and (value := figure.value())), None)


def bytes_per_cycle(machine: Machine) -> float | None:
    """Bytes that the main memory gives a core per clock cycle."""
    count, mine = cores(machine), clock(machine)
    rate = machine.main.bandwidth.stated if machine.levels else None
    return rate / mine / count if rate and mine and count else None


def per_cycle(machine: Machine, formats: Iterable[str] = HALVES) -> float | None:
    """Flops of a core per clock cycle in products of 16 bits, or other formats, on its matrix units or, without any, its vector units."""
    figures = (machine.peaks.get(f"{engine}.{dtype}") for engine in ("tensor", "vector") for dtype in formats)
    figure, mine, count = next(filter(None, figures), None), clock(machine), cores(machine)
    peak = (figure.stated or figure.value()) if figure else None
    return peak / mine / count if peak and mine and count else None
