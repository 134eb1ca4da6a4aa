"""What the main job concludes: how well it predicted, how noisy the machine was, what to look at next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from ...core.machine import Machine
from ...core.observation import Observation
from ...core.statistics import median
from ...core.terms import SPECIAL
from ...core.units import show
from ...gaps.gap import Gap
from ...gaps.report import Report
from ...measure.quality import Quality

MAX_ROOFLINE_SHARE = 1.03  # of a kernel; one above it needs a reason
MAX_SPREAD = 0.1  # of the samples of a kernel; one above it is noisy
MIN_GAP = 0.1  # of the measured time above the roofline, from which a kernel is worth a look
CACHE_MARGIN = 1.2  # working set over the largest cache, below which much of it may stay there

PREEMPTED = "noisy: every sample preempted, CPU time shown"

Item = Mapping[str, Any]


@dataclass(frozen=True)
class Summary:
    """The answer in numbers; without kernels the job was stopped before any ran."""

    effort: str  # quick or full
    place: str = ""
    seconds: float = 0.0
    kernels: int = 0
    inside: int = 0  # kernels inside their 80 % interval
    median_error: float | None = None
    noise: float | None = None  # of the ceilings, relative
    provisional: str = ""  # why the ceilings are too noisy to rely on
    next: str = ""

    DOCUMENT: ClassVar = (
        "place",
        "effort",
        "seconds",
        "kernels",
        "inside",
        "median_error",
        "noise",
        "provisional",
        "next",
    )

    def after(self, place: str, seconds: float) -> Summary:
        return replace(self, place=place, seconds=seconds)

    def judged(self, items: Sequence[Item], ceilings: Quality, move: str) -> Summary:
        errors = [abs(item["error"]) for item in items]
        inside = sum(bool(item["inside"]) for item in items)
        error = median(errors) if errors else None
        judged = replace(self, kernels=len(items), inside=inside, median_error=error, next=move)
        return replace(judged, noise=ceilings.spread, provisional=ceilings.reason)

    @property
    def sentence(self) -> str:
        hits = f"{self.inside} of {self.kernels} predictions inside their 80 % interval"
        return hits if self.median_error is None else f"{hits}, median error {percent(self.median_error)}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def ceiling_noise(machine: Machine, limiter: str) -> float:
    """Relative uncertainty of a measured peak, or of the noisiest access mix of a level."""
    if limiter in machine.peaks:
        return machine.peaks[limiter].uncertainty()
    figures = [
        figure
        for level in machine.levels
        if level.name == limiter
        for figure in (level.bandwidth, *level.mixes.values())
    ]
    return max((figure.uncertainty() for figure in figures), default=0.0)


def verdict(gap: Gap, observation: Observation) -> dict[str, Any]:
    """`noisy` where the samples support no verdict on the kernel; `finding` where it is above its roofline."""
    finding = _above_roofline(gap) if gap.share > MAX_ROOFLINE_SHARE else ""
    if "stand_in_busy" in observation.conditions:
        return {"noisy": True, "finding": finding, "band": PREEMPTED}
    if observation.spread > MAX_SPREAD:
        return {"noisy": True, "finding": finding, "band": f"noisy: spread {percent(observation.spread)}"}
    return {"noisy": False, "finding": finding}


def _above_roofline(gap: Gap) -> str:
    """The most likely reason why a kernel was faster than its roofline allows."""
    target = gap.target
    caches = [level for level in target.machine.levels[:-1] if level.total]
    largest = max(caches, key=lambda level: level.total or 0.0) if caches else None
    held = float(np.asarray(target.work.footprint))
    tolerance = ceiling_noise(target.machine, target.limiter)
    if largest is not None and held < CACHE_MARGIN * (largest.total or 0.0) and target.limiter == target.main:
        cache = show(largest.total, "B", 3, binary=True)
        reason = f"working set {show(held, 'B', 3, binary=True)}, {largest.name} {cache}: partly cached"
    elif gap.share - 1 <= tolerance:
        reason = f"within the noise of the {target.limiter} ceiling (+/-{percent(tolerance)})"
    else:
        reason = f"{target.limiter} ceiling measured too low: repeat with --full"
    return f"above the roofline ({percent(gap.share)}): {reason}"


def next_move(report: Report, items: Sequence[Item]) -> str:
    """The largest gap above the roofline that the samples support, with its evidence; empty where all are close to it."""
    judged = {item["name"] for item in items if not item["noisy"]}
    gaps = [item.gap for item in report.items if item.name in judged and 1 - item.gap.share > MIN_GAP]
    if not gaps:
        return ""
    gap = max(gaps, key=lambda each: each.measured - each.target.floor)
    above = show(gap.measured - gap.target.floor, "s", 3)
    return f"{gap.name}: {above} above its roofline; {_evidence(gap)}"


def _evidence(gap: Gap) -> str:
    """How much of its limiting unit a kernel uses."""
    target = gap.target
    need = target.needs.get(target.limiter)
    if need is None:
        return f"{percent(target.launch / gap.measured)} of the time is kernel launch"
    used, rate = percent(need.time / gap.measured), need.rate
    if target.limiter == SPECIAL:
        peak = next((other for name, other in target.needs.items() if name.startswith("vector.")), None)
        vector = f", {percent(peak.time / gap.measured)} of the vector peak" if peak else ""
        return f"exp and the like run at {used} of their {show(rate, '/s', 3)}{vector}"
    if need.side == "memory":
        return f"{target.limiter} at {used} of {show(rate, 'B/s', 3)}"
    return f"{target.limiter} at {used} of {show(rate, 'flop/s', 3)}"
