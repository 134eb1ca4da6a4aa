"""What held a GPU result down or pushed it up: notes against the machine's ceilings, the size sweep, the kernel's name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...core.figure import Figure
from ...core.machine import Machine
from ...core.notes import NOISE, Note
from ...core.observation import Observation
from ...core.units import show
from .products import Product
from .session import Session

MAX_CEILING_RATIO = 1.005  # beyond it a rate is a finding; less is the resolution of clocks and timers
MAX_SWEEP_RATIO = 1.02
LOW_PRODUCT_SHARE = 0.9  # a sustained product below this share of its peak gets a note with the reasons
OLD_KERNEL = "the library's kernel is of the generation before this GPU's (sm_80): the units can do more"


def name_kernels(session: Session, products: Mapping[str, Product]) -> None:
    """Last of all, because a profiler that was on once slows every launch after it."""
    names = {f"tensor.{dtype}": product.kernel() for dtype, product in products.items()}
    hopper = float(session.facts.get("compute_capability", 0)) >= 9
    for place, item in enumerate(session.observations):
        kernel = names.get(item.target, "")
        if kernel and "sweep_over" not in item.settings:
            notes = (*item.notes, OLD_KERNEL) if "_80_" in kernel and hopper else item.notes
            session.observations[place] = replace(item, settings={**item.settings, "kernel": kernel}, notes=notes)


def mark_sweep(session: Session) -> None:
    """A point of the size sweep that beats the best shape of the ranking says that the ranking missed something."""
    bursts = {item.target: item.best_rate for item in session.observations if item.name.endswith("burst")}
    for place, item in enumerate(session.observations):
        best = bursts.get(item.target, 0.0)
        if best and "sweep_over" in item.settings and item.best_rate > MAX_SWEEP_RATIO * best:
            note = (
                f"finding: {item.best_rate / best - 1:.1%} above the best shape of the ranking ({show(best, 'flop/s')})"
            )
            session.observations[place] = replace(item, notes=(*item.notes, note))


def ceiling(machine: Machine | None, target: str) -> Figure | None:
    if machine is None:
        return None
    bandwidths = {level.name: level.bandwidth for level in machine.levels}
    links = {link.name: link.per_direction for link in machine.links}
    return {**links, **bandwidths, **machine.peaks}.get(target)


def with_findings(session: Session, item: Observation) -> Observation:
    """The observation with its share of the stated ceiling, and a finding where it lies above a physical limit."""
    notes = list(item.notes)
    figure = ceiling(session.machine, item.target)
    limits = [] if figure is None else [value for value in (figure.stated, figure.derived) if value is not None]
    arithmetic = item.target.startswith(("vector", "tensor", "special"))
    rate = item.best_rate if arithmetic or item.target == "pcie" else item.best_bandwidth
    if figure is not None and limits and rate:
        limit = max(limits)
        settings = {**item.settings, "share_of_ceiling": rate / limit, "ceiling": limit}
        partly_cached = item.target == session.main and item.settings.get("state") == "resident"
        if rate > MAX_CEILING_RATIO * limit and not partly_cached:
            notes.append(
                f"finding: {show(rate, figure.unit)} is {rate / limit:.1%} of the ceiling {show(limit, figure.unit)}; "
                "the ceiling, the count or the place of the data is not what it is taken for"
            )
        elif (
            item.target.startswith("tensor")
            and rate < LOW_PRODUCT_SHARE * limit
            and item.settings.get("burst") is False
        ):
            notes += _held_down(item, session.machine)
        item = replace(item, settings=settings)
    others = session.facts.get("other_processes")
    if others:
        plural = "es" if len(others) > 1 else ""
        notes.append(Note(NOISE, f"disturbed: {len(others)} other process{plural} held the GPU"))
    return replace(item, notes=tuple(notes), conditions={**item.conditions, "gaps": list(session.gaps)})


def _held_down(item: Observation, machine: Machine | None) -> list[str]:
    """Why a matrix product stays below its peak, as far as the clock and the power show."""
    during = item.conditions.get("during", {})
    reasons = []
    clock = during.get("sm_clock", {}).get("median")
    rated = machine.clocks.get("vector" if item.target.endswith("fp64") else "tensor") if machine else None
    if clock and rated and rated.value():
        reasons.append(f"SM clock {show(clock, 'Hz')} where the peak is rated at {show(rated.value(), 'Hz')}")
    power, limit = during.get("power", {}).get("median"), item.conditions.get("power_limit")
    if power and limit:
        reasons.append(f"power {power:.0f} W of {limit:.0f} W allowed")
    if during.get("clock_held_by"):
        reasons.append(f"the driver held the clock for: {', '.join(during['clock_held_by'])}")
    return [f"below 90 % of the ceiling: {'; '.join(reasons)}"] if reasons else []
