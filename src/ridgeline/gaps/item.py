"""Item: a gap with its advice, as a report lists it; its figures over all runs of the program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..core.documents import microseconds
from . import sentences
from .accounting import Cause
from .advice import Advice
from .gap import Gap


@dataclass(frozen=True)
class Item:
    gap: Gap
    advice: tuple[Advice, ...]

    DOCUMENT: ClassVar[tuple[str, ...]] = (
        "name", "count=gap.target.count", "predicted_us=gap.target.time", "low_us=gap.target.low", "high_us=gap.target.high",
        "inside=gap.inside", "measured_us=gap.measured", "best_us=gap.measurement.best", "samples=gap.measurement.runs",
        "times_us?=gap.measurement.several", "spread=gap.measurement.spread", "error=gap.error", "floor_us=gap.target.floor",
        "over_floor=gap.total", "above_roofline_us=above", "share_of_roof=gap.share", "share_of_roofline=gap.share",
        "points=gap.points", "band", "vertical_gap=gap.vertical",
        "horizontal_gap=gap.horizontal", "excess_bytes=gap.excess_bytes", "excess_flops=gap.excess_flops",
        "uncertainty=gap.uncertainty", "flops=gap.target.flops", "bytes=gap.target.bytes",
        "intensity_algorithmic=gap.target.intensity", "intensity_observed=gap.counts.intensity", "engine",
        "ceilings=gap.target.ceiling_kind", "bound_predicted=gap.target.bound", "limiter_predicted=gap.target.limiter",
        "bound_observed=gap.regime.bound", "limiter_observed=gap.regime.limiter", "bound_from=gap.regime.basis",
        "confirmed=gap.regime.confirmed", "shares", "levels=gap.levels", "accounting=gap.accounting", "host", "advice",
        "direction=gap.direction", "findings", "sentence", "joined_by=gap.how", "confidence=gap.confidence", "steps=gap.target.steps",
        "fused=gap.target.fused", "kernels=gap.measurement.kernels", "launches=gap.measurement.launches",
        "tools=gap.measurement.tools", "conditions=gap.measurement.conditions", "notes=gap.measurement.notes",
    )  # fmt: skip

    @property
    def name(self) -> str:
        return self.gap.name

    @property
    def measured(self) -> float:
        """Of all its runs in the program."""
        return self.gap.measured * self.gap.target.count

    @property
    def waiting(self) -> float | None:
        """Host launch overhead over all runs, in addition to the measured time; None where it is unknown."""
        waiting = self.gap.waiting if self.gap.sent else None
        return None if waiting is None else waiting * self.gap.target.count

    @property
    def waits_at_most(self) -> bool:
        """Whether the host launch overhead is an upper bound."""
        return bool(self.waiting and self.gap.host and self.gap.host.at_most)

    @property
    def top(self) -> Advice | None:
        return self.advice[0] if self.advice else None

    @property
    def next(self) -> Advice | None:
        """The move to make: the first one whose cause the data show."""
        return self.top if self.top is not None and self.top.shown else None

    @property
    def above(self) -> float:
        """Seconds above the roofline over all runs; 0 for a time below it."""
        return max(self.gap.measured - self.gap.target.floor, 0.0) * self.gap.target.count

    @property
    def action(self) -> str:
        """The move with its gain, or what is known instead."""
        return sentences.action(self.gap, self.top, self.gap.target.count)

    @property
    def gain(self) -> float:
        """Gain of the best shown move over all runs."""
        return max((item.gain for item in self.advice if item.shown and item.gain), default=0.0) * self.gap.target.count

    @property
    def sentence(self) -> str:
        return sentences.item_sentence(self.gap, self.top, self.waits_at_most)

    # -- only for the document ----------------------------------------------------------------------------

    @property
    def band(self) -> str:
        return sentences.gap_band(self.gap)

    @property
    def findings(self) -> tuple[str, ...]:
        return sentences.findings(self.gap)

    @property
    def engine(self) -> str | None:
        return self.gap.target.engine or None

    @property
    def shares(self) -> dict[str, float]:
        return {share.name: share.value for share in self.gap.shares}

    @property
    def host(self) -> dict[str, Any]:
        """The cause outside the kernel times; with `sent` null it applies only to launches one by one."""
        host = self.gap.host
        return {
            "cause": Cause.HOST_WAIT.value,
            "us": microseconds(self.gap.waiting),
            "sent": self.gap.sent,
            "each_us": microseconds(host.each) if host else None,
            "evidence": host.evidence if host else None,
        }
