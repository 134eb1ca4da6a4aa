"""The flat form: the time of steps without a formula, by documented fractions of the ceilings.

    time = max over terms of amount / (ceiling x efficiency) + launch latency x launches

Sorts, selections and prefix sums take the steps that follow each other at least (`ordering`).
The fractions are of the stated ceilings, also where ceilings were measured, because a measurement makes no kernel faster; of a CPU,
whose peaks nobody states, they are of the derived ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.families import TimeItem
from ..core.figure import Figure
from ..core.terms import Term
from ..core.work import Array, largest
from ..machines.defaults import defaults
from .ordering import ordering_ends, ordering_time, orders

# Families of copies from and to host memory that is not pinned.
PAGEABLE, TO_PAGEABLE = "pageable", "to_pageable"
STEPS_IN_TURN = "steps one after the other"  # what sorts, selections and prefix sums wait for


@dataclass(frozen=True)
class Efficiency:
    """The fraction of a ceiling that kernels reach, and where that fraction comes from."""

    value: Array
    why: str


def efficiency(bound: Bound, name: str, given: float | None = None) -> Efficiency:
    """Of one term of a bound: the caller's, the library's, the machine's, else the default of the kind of ceiling.

    The last two are shares of what the vendor states; of a measured ceiling they come to more, at most all of it. Links were measured
    by copies, which are all that crosses them here.
    """
    term = bound.terms[name]
    if given is not None:
        return Efficiency(given, "given by the caller")
    library = bound.machine.efficiency.get(f"{bound.work.family}.{name}")
    if bound.work.family in (PAGEABLE, TO_PAGEABLE):
        return _staged(term, bound.work.family, library)
    if library is not None and library.measured is not None:
        return Efficiency(library.measured, library.measurement)
    if term.ceiling.kind != "measured":
        return _of_stated(bound, name)
    copied = any(name == link.name for link in bound.machine.links)
    limit, kind = term.ceiling.stated, "stated"
    peak = bound.machine.peaks.get(name)
    if (
        limit is None and peak is not None
    ):  # nobody states those of a CPU; chains of FMAs reach what its clock gives, kernels do not
        limit, kind = peak.derived, "derived"
    if copied or limit is None:
        return Efficiency(1.0, "measured ceilings include the loss")
    usual = _of_stated(bound, name)
    reached = np.minimum(usual.value * limit / term.rate, 1.0)
    return Efficiency(reached, f"{usual.why}, of the {kind} figure")


def _of_stated(bound: Bound, name: str) -> Efficiency:
    """The share of a stated ceiling that a public benchmark of the machine reached, else the default of its kind."""
    known = bound.machine.efficiency.get(name)
    if known is not None and known.measured is not None:
        return Efficiency(known.measured, known.source)
    usual, of_memory = defaults("efficiency"), defaults("memory_efficiency")
    if bound.terms[name].side == "compute":
        return Efficiency(usual["compute"], "default for tuned kernels")
    if name in of_memory:
        return Efficiency(of_memory[name], f"default for {name.upper()}")
    if any(name == link.name for link in bound.machine.links):
        return Efficiency(usual["link"], "default for links")
    return Efficiency(usual["other"], "default for caches and other memory")


def _staged(term: Term, family: str, known: Figure | None) -> Efficiency:
    """Of a copy from or to pageable memory: what fits one buffer of the driver crosses at the rate of the link; the rest at the
    lasting rate of filling or emptying buffers, which is known of the machine or assumed."""
    assumed = defaults("staged")
    lasting = assumed[family] / float(np.max(term.rate))
    why = "assumed for pageable host memory: one core copies through buffers of the driver"
    if known is not None and known.measured is not None:
        lasting, why = known.measured, known.measurement
    moved = float(np.max(term.amount))
    staged = max(moved - assumed["buffer"], 0.0)
    return Efficiency(min(moved / (moved - staged + staged / min(lasting, 1.0)), 1.0) if moved else 1.0, why)


def flat_time(bound: Bound, given: float | None = None) -> Array:
    slowest = np.maximum(_slowest(bound, given), _ordering(bound, given)) if orders(bound) else _slowest(bound, given)
    return slowest + bound.launch * _launches(bound) if bound.launch else slowest


def _slowest(bound: Bound, given: float | None) -> Array:
    return largest(
        term.amount * (1 / (term.rate * efficiency(bound, name, given).value)) for name, term in bound.terms.items()
    )


def _ordering(bound: Bound, given: float | None) -> Array:
    """Seconds of steps that follow each other; the caller's one efficiency is of the terms alone."""
    return ordering_time(bound) if given is None else 0.0


def ordering_decides(bound: Bound, given: float | None = None) -> NDArray[np.bool_]:
    """Whether the steps that follow each other take longer than any term of the roofline and than the launches."""
    others = np.maximum(_slowest(bound, given), bound.launch * _launches(bound))
    return np.asarray(_ordering(bound, given) > others)


def flat_end(bound: Bound, end: str, usual: float, given_launch: bool, given: float | None = None) -> Array:
    """An end of the interval over the time, `usual` without ordering and an assumed launch."""
    launch, assumed = bound.launch * _launches(bound), bound.machine.launch.value() is None and not given_launch
    spread = defaults("launch_spread")[end] if assumed and bound.machine.kind != "gpu" else usual
    if not orders(bound):
        return usual if spread == usual else usual + (spread - usual) * _share(launch, flat_time(bound, given))
    slowest, ordering = _slowest(bound, given), _ordering(bound, given)
    reached = np.maximum(slowest * usual, ordering * ordering_ends(bound)[end == "high"]) + launch * spread
    return reached / flat_time(bound, given)


def _share(part: Array, time: Array) -> Array:
    return np.divide(part, time, out=np.zeros(np.broadcast(part, time).shape), where=np.asarray(time) > 0)


def flat_items(bound: Bound, flat: Array, time: Array) -> tuple[TimeItem, ...]:
    """Where an expected `time` goes whose flat form gives `flat`."""
    floor = np.minimum(bound.floor, flat)
    lost = np.maximum(time - bound.launch * _launches(bound) - floor, 0.0)
    waiting = STEPS_IN_TURN if orders(bound) else "below peak rate"
    return (
        TimeItem("floor", "main", floor),
        TimeItem(waiting, "other", lost),
        TimeItem("launch", "launch", time - floor - lost),
    )


def _launches(bound: Bound) -> Array:
    return bound.work.waits.get("launch", 0.0)
