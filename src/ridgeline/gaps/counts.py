"""Counts: what hardware counters saw of a step, as needs at the ceilings of its machine."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..core.errors import MissingFigure
from ..core.machine import ANY, MAIN
from .measurement import Measurement
from .target import Need, Target

MAIN_NAMES = (MAIN, "hbm", "dram", "memory")  # what importers call the outermost memory
MIN_SHARE_OF_FLOPS = 0.5  # of the algorithm's, from which another engine than the predicted one is taken for it


@dataclass(frozen=True)
class Counts:
    """What was not counted is None or absent, never 0."""

    target: Target
    measurement: Measurement

    @cached_property
    def bytes(self) -> float | None:
        """At the main memory."""
        counted = self.measurement.bytes
        return next((counted[name] for name in (self.target.main, *MAIN_NAMES) if name in counted), None)

    @cached_property
    def engines(self) -> dict[str, Need]:
        """Flops by engine, where its peak is known."""
        machine, needs = self.target.machine, {}
        for name, amount in self.measurement.flops.items():
            key = name if name in machine.peaks else ANY
            if amount > 0 and key in machine.peaks:
                try:
                    peak = machine.peak(key, self.target.ceilings)
                except MissingFigure:
                    continue
                needs[name] = Need("compute", amount, peak.value, peak.uncertainty, peak.kind)
        return needs

    @cached_property
    def engine(self) -> str | None:
        """The engine that did the algorithm's arithmetic; None where no count is large enough to be it."""
        predicted = self.target.engine
        if self.measurement.flops.get(predicted, 0.0) > 0:
            return predicted
        enough = MIN_SHARE_OF_FLOPS * self.target.flops
        others = {name: need for name, need in self.engines.items() if need.amount >= enough}
        return max(others, key=lambda name: others[name].time) if predicted and others else None

    @property
    def flops(self) -> float | None:
        """On that engine."""
        return self.measurement.flops[self.engine] if self.engine else None

    @property
    def no_flops(self) -> bool:
        """Whether the predicted engine was counted and did nothing: compares, selects and special functions are no flops."""
        return self.measurement.flops.get(self.target.engine) == 0

    @property
    def intensity(self) -> float | None:
        """At the main memory."""
        return self.flops / self.bytes if self.flops and self.bytes else None

    @cached_property
    def inner(self) -> dict[str, Need]:
        """Traffic at the levels between the main memory and the cores, where its ceiling is known."""
        machine, counters, counted = self.target.machine, self.measurement.counters, self.measurement.bytes
        amounts = {level.name: counted.get(level.name) for level in machine.levels[:-1]}
        if "l2" in amounts:
            # the direction that its ceiling is about; one read that serves a cluster counts at each of its blocks
            shared = counters.get("cluster", 0.0) > 1 and counters.get("tma", 0.0) > 0
            amounts["l2"] = None if shared else counters.get("l2_to_sm", amounts["l2"])
        if "l1" in amounts and "shared" in counted:
            amounts["l1"] = counted["shared"] + (amounts["l1"] or 0.0)  # one array serves both
        needs = {}
        for name, amount in amounts.items():
            try:
                ceiling = machine.bandwidth(name, self.target.ceilings)
            except MissingFigure:
                continue
            if amount is not None:
                needs[name] = Need("memory", amount, ceiling.value, ceiling.uncertainty, ceiling.kind)
        return needs

    @property
    def any(self) -> bool:
        """Whether counters tell anything about a roof, or the time alone."""
        return self.bytes is not None or bool(self.engines) or "hbm_busy" in self.measurement.counters
