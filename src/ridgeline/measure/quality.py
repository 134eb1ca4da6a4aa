"""Quality of a measurement: how many probes are noisy, how far the ceilings can be off, whether they are usable.

A probe is noisy when samples of it were preempted, drift, fall into two groups, or spread by more than 10 %. The spread
of a measurement is the widest of its main ceilings: memory bandwidth and the arithmetic peaks. It is provisional when
that exceeds 25 %, or when more than half of the probes have only preempted samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..core.machine import Machine
from ..core.notes import DRIFT, NOISE, PROVISIONAL, STAND_IN, of_kind
from ..core.observation import Observation

MIN_DERIVED_SHARE = 0.8  # of the derived vector peak, below which a measured one is that of a loaded machine
MAIN_MIXES = ("read", "copy", "triad")  # of the main memory: kernels are judged by them
MAX_PROBE_SPREAD = 0.10
MAX_SPREAD = 0.25
MAX_PREEMPTED_SHARE = 0.5


@dataclass(frozen=True)
class Quality:
    probes: int
    noisy: int
    spread: float  # of the main ceilings, relative
    reason: str = ""  # why the ceilings are provisional; empty where they are not

    DOCUMENT: ClassVar = ("probes", "noisy", "spread", "provisional", "line")

    @property
    def provisional(self) -> bool:
        return bool(self.reason)

    @property
    def line(self) -> str:
        """`noise +/-4 %`, or `noisy: 6 of 40 probes; ceilings +/-12 %`."""
        ceilings = f"+/-{100 * self.spread:.0f} %"
        return (
            f"noisy: {self.noisy} of {self.probes} probes; ceilings {ceilings}" if self.noisy else f"noise {ceilings}"
        )


def quality(observations: Sequence[Observation], machine: Machine) -> Quality:
    """The quality of the measurement that these observations are, which gave the machine its measured figures."""
    name, spread = max(widest(machine), shared_peak(observations, machine), key=lambda ceiling: ceiling[1])
    preempted = sum(any(of_kind(item.notes, STAND_IN)) for item in observations)
    reason = ""
    if spread > MAX_SPREAD:
        reason = f"{name} +/-{100 * spread:.0f} %"
    elif preempted > MAX_PREEMPTED_SHARE * len(observations):
        reason = f"all samples preempted in {preempted} of {len(observations)} probes"
    return Quality(len(observations), sum(map(is_noisy, observations)), spread, reason)


def is_noisy(item: Observation) -> bool:
    return item.spread > MAX_PROBE_SPREAD or any(of_kind(item.notes, NOISE, DRIFT, STAND_IN))


def widest(machine: Machine) -> tuple[str, float]:
    """The main ceiling with the widest spread, and that spread."""
    figures = {name: figure for name, figure in machine.peaks.items() if not name.startswith("special")}
    for level in machine.levels[-1:]:
        mixes = {f"{level.name} {mix}": level.mixes[mix] for mix in MAIN_MIXES if mix in level.mixes}
        figures |= mixes or {level.name: level.bandwidth}
    spreads = {name: figure.spread or 0.0 for name, figure in figures.items() if figure.measured is not None}
    return max(spreads.items(), key=lambda item: item[1], default=("", 0.0))


def shared_peak(observations: Sequence[Observation], machine: Machine) -> tuple[str, float]:
    """The vector peak furthest below the one that the measured clock gives, of those whose probes were preempted.

    Chains of FMAs reach that peak. Samples that agree far below it shared their cores with another process. Without
    preemption the cores themselves are shared, as threads of one core are, and the figure is right.
    """
    preempted = {item.target for item in observations if any(of_kind(item.notes, NOISE, STAND_IN))}
    lost = {
        name: figure.derived / figure.measured - 1
        for name, figure in machine.peaks.items()
        if name.startswith("vector.") and name in preempted and figure.measured and figure.derived
    }
    name, most = max(lost.items(), key=lambda item: item[1], default=("", 0.0))
    return (name, most) if most > 1 / MIN_DERIVED_SHARE - 1 else ("", 0.0)


def replaces(new: Machine, saved: Machine) -> bool:
    """Whether a measurement may be saved over an earlier one of the same machine: a provisional one only if it is better."""
    if PROVISIONAL not in new.conditions:
        return True
    return PROVISIONAL in saved.conditions and widest(new)[1] <= widest(saved)[1]
