"""Changes of the machine, of launching, and declared effects: factors of bytes, flops and efficiency."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ...core.errors import InputError
from ...core.figure import Figure
from ...core.machine import Machine
from ...core.units import number
from ...core.units import parse as quantity
from ...machines import load as machines
from ..compare import common_kind
from ..host import graph_node_share, launch_latency
from .case import Case
from .change import Change, NoEffect


def _factor(what: str, text: str) -> float:
    factor = number(text.removeprefix("x"))
    if not 0 < factor < math.inf:
        raise InputError(f"{what}={text}: must be a factor above 0, such as 2 or 0.5")
    return factor


def _launch(case: Case) -> float:
    """Seconds a launch takes in the case's own prediction."""
    given = case.options.get("launch")
    if given is not None:
        return float(given)
    fitted = [kernel.launch for expected in case.predict().expected for kernel in expected.kernels]
    return sum(fitted) / len(fitted) if fitted else launch_latency(case.machine)


def graph(text: str) -> Change:
    given = quantity(text, "s") if text else None
    if given is not None and given < 0:
        raise InputError(f"graph={text}: a node of a graph takes zero or more seconds, such as graph=1us")

    def make(case: Case) -> Case:
        queued, now = launch_latency(case.machine), _launch(case)
        node = graph_node_share() * queued if given is None else given
        # a fitted launch holds more than the queue: only what a graph saves of the queue goes
        left = node if case.options.get("launch") is not None else max(now - max(queued - node, 0.0), 0.0)
        if case.captured or left >= now:
            why = "a launch costs no more than a node of a graph" if now else "launches cost nothing here"
            raise NoEffect("it is a graph already" if case.captured else why)
        return replace(case.with_options(launch=left), captured=True)

    return Change("capture a graph", make)


def overhead(text: str) -> Change:
    if text:
        raise InputError(f"overhead={text}: takes no value; it takes every launch away")

    def make(case: Case) -> Case:
        if not _launch(case):
            raise NoEffect("launches cost nothing here")
        return case.with_options(launch=0.0)

    return Change("remove launch overhead", make)


def machine(text: str) -> Change:
    other = machines.load(text)

    def prepare(case: Case) -> Case:
        if case.options.get("ceilings") is not None:
            return case
        # ceilings of one kind: a measured machine must not look slower than a datasheet
        return case.with_options(ceilings=common_kind([case.machine, other], case.main.dtype or None))

    def make(case: Case) -> Case:
        if other == case.machine:
            raise NoEffect(f"it is {other.name} already")
        return replace(case, machine=other)

    return Change(f"on {other.name}", make, prepare)


def _times(figure: Figure, factor: float) -> Figure:
    values = {kind: getattr(figure, kind) for kind in ("stated", "derived", "measured", "sustained")}
    return replace(figure, **{kind: value * factor for kind, value in values.items() if value is not None})


def _renamed(machine: Machine, what: str, **figures: Any) -> Machine:
    """A machine with other figures, with the change in its name and title."""
    title = f"{machine.title or machine.name}, {what}"
    return replace(machine, name=f"{machine.name} {what}", title=title, **figures)


def bandwidth(text: str) -> Change:
    factor = _factor("bandwidth", text)

    def make(case: Case) -> Case:
        if factor == 1:
            raise NoEffect("a factor of 1 changes nothing")
        outer = case.machine.main
        mixes = {name: _times(figure, factor) for name, figure in outer.mixes.items()}
        faster = replace(outer, bandwidth=_times(outer.bandwidth, factor), mixes=mixes)
        return replace(
            case, machine=_renamed(case.machine, f"bandwidth x{factor:g}", levels=(*case.machine.levels[:-1], faster))
        )

    return Change(f"bandwidth x{factor:g}", make)


def compute(text: str) -> Change:
    factor = _factor("compute", text)

    def make(case: Case) -> Case:
        if factor == 1:
            raise NoEffect("a factor of 1 changes nothing")
        peaks = {name: _times(figure, factor) for name, figure in case.machine.peaks.items()}
        return replace(case, machine=_renamed(case.machine, f"compute x{factor:g}", peaks=peaks))

    return Change(f"compute x{factor:g}", make)


def traffic(text: str) -> Change:
    factor = _factor("bytes", text)
    return Change(f"bytes x{factor:g}", lambda case: replace(case, traffic=case.traffic * factor))


def arithmetic(text: str) -> Change:
    factor = _factor("flops", text)
    return Change(f"flops x{factor:g}", lambda case: replace(case, arithmetic=case.arithmetic * factor))


def efficiency(text: str) -> Change:
    share = number(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    if not 0 < share <= 1:
        raise InputError(f"efficiency={text}: a share of the ceilings lies in (0, 1], such as 0.8")
    return Change(f"efficiency {share:.0%}", lambda case: case.with_options(efficiency=share))
