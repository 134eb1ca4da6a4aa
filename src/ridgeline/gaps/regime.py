"""Counts: the hardware counters of a step as time needed at the ceilings of its machine. Regime: the observed bound."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from ..core.cached import cached_property
from ..core.errors import MissingFigure
from ..core.machine import ANY, MAIN
from ..prediction.host import launch_latency
from .kernel_families import is_product
from .measurement import Measurement
from .target import Need, Target

MAIN_NAMES = (MAIN, "hbm", "dram", "memory")  # what importers call the outermost memory
MIN_SHARE_OF_FLOPS = 0.5  # of the algorithm's, from which another engine than the predicted one is taken for it
COMPUTE, MEMORY, OVERHEAD, LATENCY = "compute", "memory", "overhead", "latency"
LAUNCH = "launch"
COUNTERS, TIME_ONLY = "counters", "time only"  # what a regime is derived from
MIN_LAUNCH_SHARE = 0.5  # of the time in launches, from which a run is overhead-bound
MIN_LIMITER_SHARE = 0.6  # utilization from which a unit is called the limiter
SHARE_TOLERANCE = 0.1  # utilizations this close together are not distinguished
# Counters of the utilization of a pipe while its SM is active, and the unit they belong to.
PIPES = {"fma_busy": "vector.fp32", "fp64_busy": "vector.fp64", "special_busy": "special.fp32", "issue": "issue"}
ENGINE_PIPES = ("fma_busy", "fp64_busy", "tensor_busy")
SM = "sm"
NAMES = {
    "sm": "SM pipes",
    "issue": "instruction issue",
    "main": "memory",
    "special.fp32": "special functions",
}  # of units in text


def unit_name(unit: str) -> str:
    """A level, an engine or another unit as text: `HBM`, `L2`, `tensor.bf16`, `instruction issue`."""
    return NAMES.get(unit) or (unit.upper() if "." not in unit and len(unit) <= 4 else unit)


def bound_by(unit: str) -> str:
    """`HBM-bound`, `instruction-issue-bound`."""
    return f"{unit_name(unit).replace(' ', '-')}-bound"


@dataclass(frozen=True)
class Counts:
    """Amounts by engine and level; an amount that was not counted is None or absent, never 0."""

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
                with suppress(MissingFigure):
                    peak = machine.peak(key, self.target.ceilings)
                    needs[name] = Need("compute", amount, peak.value, peak.uncertainty, peak.kind)
        return needs

    @cached_property
    def engine(self) -> str | None:
        """The engine that did the algorithm's arithmetic; None where no count is large enough."""
        predicted, enough = self.target.engine, MIN_SHARE_OF_FLOPS * self.target.flops
        counted = self.measurement.flops.get(predicted, 0.0)
        if 0 < counted >= enough:
            return predicted
        others = {name: need for name, need in self.engines.items() if need.amount >= enough}
        if predicted and others:
            return max(others, key=lambda name: others[name].time)
        return predicted if counted > 0 else None

    @property
    def flops(self) -> float | None:
        """On that engine."""
        return self.measurement.flops[self.engine] if self.engine else None

    @property
    def no_flops(self) -> bool:
        """Whether the predicted engine counted 0: compares, selects and special functions are not FLOPs."""
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
            if amount is None:
                continue
            with suppress(MissingFigure):
                ceiling = machine.bandwidth(name, self.target.ceilings)
                needs[name] = Need("memory", amount, ceiling.value, ceiling.uncertainty, ceiling.kind)
        return needs

    @property
    def any(self) -> bool:
        """Whether any counter relates to a roofline, or only the time is known."""
        return self.bytes is not None or bool(self.engines) or "hbm_busy" in self.measurement.counters


@dataclass(frozen=True)
class Share:
    """Utilization of a unit: the share of the measured time it was busy, or would need at its ceiling."""

    name: str
    side: str  # compute, memory or overhead
    value: float


@dataclass(frozen=True)
class Regime:
    bound: str  # compute, memory, overhead, or latency: no unit reaches MIN_LIMITER_SHARE
    limiter: str
    share: float
    basis: str
    confirmed: bool

    @property
    def limited(self) -> bool:
        """Whether a roofline limits the run."""
        return self.bound in (COMPUTE, MEMORY)


class _Shares(dict[str, Share]):
    def add(self, name: str, side: str, value: float | None) -> None:
        """Keep the larger of two utilizations of one unit: both are lower bounds."""
        if value is not None and (name not in self or self[name].value < value):
            self[name] = Share(name, side, value)


def busy_shares(target: Target, counts: Counts) -> tuple[Share, ...]:
    """Utilization of every unit, the highest first: from counts over ceilings and from the tool's own figures."""
    measurement, table = counts.measurement, _Shares()
    counters, measured = measurement.counters, measurement.median
    active = counters.get("sm_active", 1.0)
    for name, need in counts.engines.items():
        table.add(name, COMPUTE, need.time / measured)
    for counter, name in PIPES.items():
        if counter in counters:
            table.add(name, COMPUTE, counters[counter] * active)
    if not measurement.flops and not any(counter in counters for counter in ENGINE_PIPES):
        # a page without counts of instructions and pipes: the busiest part of the SMs
        table.add(SM, COMPUTE, counters.get("compute_busy"))
    tensor = [name for name in counts.engines if name.startswith("tensor")]
    if tensor and "tensor_busy" in counters:
        busiest = max(tensor, key=lambda name: counts.engines[name].time)
        table.add(busiest, COMPUTE, counters["tensor_busy"] * active)
    if counts.bytes is not None and target.main in target.needs:
        table.add(target.main, MEMORY, counts.bytes / target.needs[target.main].rate / measured)
    table.add(target.main, MEMORY, counters.get("hbm_busy"))
    for name, need in counts.inner.items():
        table.add(name, MEMORY, need.time / measured)
    table.add("l2", MEMORY, counters.get("l2_busy"))
    table.add("l1", MEMORY, counters["l1_busy"] * active if "l1_busy" in counters else None)
    if not table and target.floor:
        table.add(target.limiter, MEMORY if target.bound == MEMORY else COMPUTE, target.floor / measured)
    table.add(LAUNCH, OVERHEAD, launch_latency(target.machine) * measurement.launches / measured)
    return tuple(sorted(table.values(), key=lambda share: -share.value))


def find_regime(target: Target, counts: Counts, shares: tuple[Share, ...]) -> Regime:
    basis = COUNTERS if counts.any else TIME_ONLY
    launch = next(share for share in shares if share.name == LAUNCH)
    if launch.value >= MIN_LAUNCH_SHARE:
        return Regime(OVERHEAD, LAUNCH, launch.value, basis, target.bound == OVERHEAD)
    busy = [share for share in shares if share.name != LAUNCH]
    if not busy or busy[0].value < MIN_LIMITER_SHARE:
        return Regime(LATENCY, busy[0].name if busy else "", busy[0].value if busy else 0.0, basis, False)
    candidates = [share for share in busy if share.value >= busy[0].value - SHARE_TOLERANCE]
    predicted = next((share for share in busy if share.name == target.limiter), None)
    limiter = next((share for share in candidates if share.side == target.bound), busy[0])
    if SM in (share.name for share in candidates):
        # shared memory feeds the matrix units: where both are busy, these are the limiter
        limiter = next(share for share in candidates if share.name == SM)
        issue = next((share for share in candidates if share.name == "issue"), limiter)
        if issue.value >= limiter.value and not any(map(is_product, counts.measurement.kernels)):
            limiter = issue
    # instruction issue feeds the engines: where the predicted one is busy itself, that is the limiter
    feeds = busy[0].name == "issue"
    if predicted is not None and (predicted in candidates or (feeds and predicted.value >= MIN_LIMITER_SHARE)):
        limiter = predicted
    return Regime(limiter.side, limiter.name, limiter.value, basis, target.bound in (limiter.side, "balanced"))
