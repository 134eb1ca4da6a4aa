"""Item: one pair of a report, its gap and what to do about it, over all runs of its steps."""

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

    DOCUMENT: ClassVar = (
        "name", "count=gap.target.count", "predicted_us=gap.target.time", "low_us=gap.target.low", "high_us=gap.target.high",
        "inside=gap.inside", "measured_us=gap.measured", "best_us=gap.measurement.best", "samples=gap.measurement.runs",
        "times_us?=gap.measurement.several", "spread=gap.measurement.spread", "error=gap.error", "floor_us=gap.target.floor",
        "over_floor=gap.total", "share_of_roof=gap.share", "points=gap.points", "band", "vertical_gap=gap.vertical",
        "horizontal_gap=gap.horizontal", "excess_bytes=gap.excess_bytes", "excess_flops=gap.excess_flops",
        "uncertainty=gap.uncertainty", "flops=gap.target.flops", "bytes=gap.target.bytes",
        "intensity_algorithmic=gap.target.intensity", "intensity_observed=gap.counts.intensity", "engine",
        "ceilings=gap.target.ceiling_kind", "bound_predicted=gap.target.bound", "limiter_predicted=gap.target.limiter",
        "bound_observed=gap.regime.bound", "limiter_observed=gap.regime.limiter", "bound_from=gap.regime.basis",
        "confirmed=gap.regime.confirmed", "shares", "levels=gap.levels", "accounting=gap.accounting", "host", "advice",
        "direction=gap.direction", "findings", "sentence", "joined_by=gap.how", "steps=gap.target.steps",
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
        """For the host, beside the measured time, over all runs; None where it is not known whether and how long."""
        waiting = self.gap.waiting if self.gap.sent else None
        return None if waiting is None else waiting * self.gap.target.count

    @property
    def waits_at_most(self) -> bool:
        """Whether the waiting is an upper bound: the host may take less."""
        return bool(self.waiting and self.gap.host and self.gap.host.at_most)

    @property
    def top(self) -> Advice | None:
        return self.advice[0] if self.advice else None

    @property
    def gain(self) -> float:
        """What the best move that is shown would bring over all runs."""
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
        """The cause that is in no kernel's time; `sent` null says that it counts only if they are sent one by one."""
        host = self.gap.host
        return {
            "cause": Cause.HOST_WAIT.value,
            "us": microseconds(self.gap.waiting),
            "sent": self.gap.sent,
            "each_us": microseconds(host.each) if host else None,
            "evidence": host.evidence if host else None,
        }
