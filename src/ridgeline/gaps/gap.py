"""Gap: one predicted step against its measurement.

    vertical   = roof at the observed intensity / achieved rate = time / floor at the observed counts
    horizontal = algorithmic / observed intensity = excess bytes / excess flops
    time / floor at the algorithmic counts = vertical x (floor at the observed / floor at the algorithmic counts)

Amounts that were not counted stay unknown (None), never 1. Nothing is clamped: fewer bytes than the algorithm needs, or
a time below the floor, are findings.

Times are device times. Idle time between kernels, while the device waits for the host, is not part of them (`waiting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot

import numpy as np

from ..core.cached import cached_property
from ..core.machine import MAIN
from ..core.work import READ, WRITE
from ..prediction.host import GRAPH, SENT, waiting
from ..prediction.predict import Prediction
from .accounting import Cause, Entry, ObservedWork, account, observed_work
from .join import CONFIDENCE, DOUBTFUL, NVTX, Pair
from .kernel_families import is_library
from .measurement import Host, Measurement, combine, host_cost
from .regime import MIN_LIMITER_SHARE, MIN_SHARE_OF_FLOPS, Counts, Regime, Share, busy_shares, find_regime
from .target import STATED, Need, Target, longest, target

COUNTER_ERROR = 0.02  # relative error of counters of the device memory
SINGLE_SAMPLE_SPREAD = 0.03  # assumed where a time was taken once
MIN_GAP_FACTOR = 1.25  # from which a direction is worth going
DEEP_COMPUTE_RATIO = 3.0  # compute over memory time from which fewer bytes change nothing


@dataclass(frozen=True)
class SharedTensor:
    """A tensor that one step writes and the next one reads, identified by its size; `other` is the other step.

    `certain`: both are in one module or range, so the equal size is no coincidence. `layout`: it is a copy of a tensor in
    another layout.
    """

    other: str
    tensor: str
    bytes: float
    certain: bool
    layout: bool = False


@dataclass(frozen=True)
class LevelGap:
    """Traffic, AI and roofline at one level of the memory hierarchy."""

    level: str
    bytes: float
    bandwidth: float
    share: float  # of the measured time that the traffic needs at its ceiling
    intensity: float | None
    roof: float | None
    vertical_gap: float | None


@dataclass(frozen=True)
class Gap:
    target: Target
    measurement: Measurement
    how: str = "name"  # the pair was joined
    between: SharedTensor | None = None
    notes: tuple[str, ...] = ()
    sent: str | None = None  # one of SENT; None where it is not known
    host: Host | None = None  # None in a graph, for a single kernel, and without a trace or a figure

    @classmethod
    def of(cls, prediction: Prediction, pair: Pair, sent: str | None = None) -> Gap:
        """A pair as one gap; `sent` is how its kernels are launched, for tools that do not record it."""
        side = target(prediction, pair.steps)
        return cls.against(side, combine(pair.observations, side.work, side.count, pair.how == NVTX), pair, sent)

    @classmethod
    def against(cls, side: Target, measurement: Measurement, pair: Pair, sent: str | None = None) -> Gap:
        """A measurement of a pair against a target, where both are made."""
        ways = {way for item in pair.observations if (way := item.settings.get("sent")) in SENT}
        if ways:
            sent = ways.pop() if len(ways) == 1 else None
        host = None if sent == GRAPH else host_cost(pair.observations, measurement, side.machine)
        notes = ("fused: one kernel ran several steps, whose predictions are added",) if side.fused else ()
        return cls(side, measurement, pair.how, None, (*notes, *_engine_note(side, measurement)), sent, host)

    @property
    def name(self) -> str:
        return self.target.name

    @property
    def confidence(self) -> str:
        """Of the join: high, medium or low."""
        return CONFIDENCE.get(self.how, DOUBTFUL)

    @property
    def doubtful(self) -> bool:
        """Whether another step may have run as these kernels: shown, but neither settled nor counted as a hit."""
        return self.confidence == DOUBTFUL

    @property
    def measured(self) -> float:
        return self.measurement.median

    @cached_property
    def achievable(self) -> float:
        """Seconds of this kernel without faults.

        Of a library kernel, or one whose name is not known, the expected time. A kernel of the user's own can be faster
        than the library's: the achievable share of roofline, where that is less.
        """
        kernels, target = self.measurement.kernels, self.target
        of_library = not kernels or any(map(is_library, kernels))
        return target.time if of_library and target.algorithm_known else target.at_achievable_share

    @property
    def flops_known(self) -> bool:
        """False where the counted work stands for the algorithm's and no FLOPs were counted, as on a details page.

        The memory side is then a lower bound of the roofline time, unless the memory is busy most of the time.
        """
        return self.target.algorithm_known or bool(self.measurement.flops) or self.share >= MIN_LIMITER_SHARE

    @cached_property
    def counts(self) -> Counts:
        return Counts(self.target, self.measurement)

    @cached_property
    def work(self) -> ObservedWork:
        return observed_work(self.target, self.counts)

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        return busy_shares(self.target, self.counts)

    @cached_property
    def regime(self) -> Regime:
        return find_regime(self.target, self.counts, self.shares)

    @cached_property
    def accounting(self) -> tuple[Entry, ...]:
        return account(self.target, self.work, self.regime, self.measured)

    def time_of(self, cause: Cause) -> float:
        """Seconds of a cause in the accounting."""
        return sum(entry.time for entry in self.accounting if entry.kind is cause)

    @property
    def largest_loss(self) -> Entry:
        """The largest part of the time above the floor."""
        return max(self.accounting[1:], key=lambda entry: entry.time)

    @property
    def excess_bytes(self) -> float | None:
        moved, target = self.counts.bytes, self.target
        return moved / target.bytes if moved is not None and target.bytes and target.algorithm_known else None

    @property
    def excess_flops(self) -> float | None:
        flops, target = self.counts.flops, self.target
        return flops / target.flops if flops is not None and target.flops and target.algorithm_known else None

    @property
    def horizontal(self) -> float | None:
        """For an algorithm without arithmetic, the factor of the bytes alone."""
        if self.excess_bytes is None or not self.target.flops:
            return self.excess_bytes
        return self.excess_bytes / self.excess_flops if self.excess_flops else None

    @property
    def vertical(self) -> float | None:
        return self.measured / self.work.floor if self.work.floor else None

    @property
    def total(self) -> float | None:
        """Time over the floor at the algorithm's counts, which needs no counters."""
        return self.measured / self.target.floor if self.target.floor else None

    @property
    def share(self) -> float:
        """Share of roofline at the observed counts, else at the algorithm's."""
        return (self.work.floor or self.target.floor) / self.measured

    @property
    def points(self) -> float | None:
        """Achieved less predicted share of roofline at the algorithm's counts, in percentage points."""
        return 100 * self.target.floor * (1 / self.measured - 1 / self.target.time) if self.target.floor else None

    @property
    def error(self) -> float:
        """Predicted over measured time, less 1."""
        return self.target.time / self.measured - 1

    @property
    def inside(self) -> bool:
        """Whether the time lies in the predicted interval."""
        return self.target.low <= self.measured <= self.target.high

    @cached_property
    def uncertainty(self) -> dict[str, float | None]:
        """Relative, of each factor: the spread of the time, the ceiling of the limiting unit, the counters."""
        spread = self.measurement.spread if len(self.measurement.samples) > 1 else SINGLE_SAMPLE_SPREAD
        needs = self.work.needs
        ceiling = max(needs.values(), key=lambda need: need.time).uncertainty if needs else 0.0
        counted = COUNTER_ERROR if self.counts.bytes is not None else None
        return {
            "time": spread,
            "vertical": hypot(spread, ceiling, COUNTER_ERROR) if self.vertical is not None else None,
            "horizontal": counted if self.horizontal is not None else None,
            "excess_bytes": counted if self.excess_bytes is not None else None,
            "total": hypot(spread, ceiling),
        }

    @property
    def deep_compute(self) -> bool:
        """So far right of the ridge point, at the observed counts, that fewer bytes change nothing."""
        needs, main = self.work.needs, self.target.main
        return main in needs and longest(needs, "compute") > DEEP_COMPUTE_RATIO * needs[main].time

    @property
    def direction(self) -> str:
        """Where the point should move: right (fewer bytes), up (better use of the limiting unit), both, or done."""
        right = self.horizontal is not None and self.horizontal > MIN_GAP_FACTOR and not self.deep_compute
        up = self.share < 1 / MIN_GAP_FACTOR
        return "both" if right and up else "right" if right else "up" if up else "done"

    def levels(self) -> list[LevelGap]:
        """Every level whose bytes were counted, the outermost first."""
        counts, needs, levels = self.counts, dict[str, Need](), []
        if self.target.main in self.target.needs and counts.bytes is not None:
            needs[self.target.main] = replace(self.target.needs[self.target.main], amount=counts.bytes)
        needs.update(reversed(counts.inner.items()))
        engine = self.work.needs.get(counts.engine or "")
        for name, need in needs.items():
            intensity = counts.flops / need.amount if counts.flops and need.amount else None
            roof = min(engine.rate, intensity * need.rate) if intensity is not None and engine else None
            vertical = roof * self.measured / counts.flops if roof and counts.flops else None
            share = need.time / self.measured
            levels.append(LevelGap(name, need.amount, need.rate, share, intensity, roof, vertical))
        return levels

    def waits(self, launches: float, device: float) -> float | None:
        """Seconds the device waits for the host with these launches over this device time."""
        if self.sent == GRAPH:
            return 0.0
        return None if self.host is None else waiting(launches, self.host.each, device)

    @property
    def waiting(self) -> float | None:
        """In addition to the measured time; conditional on launches one by one where `sent` is unknown."""
        return self.waits(self.measurement.launches, self.measured)


def _engine_note(side: Target, measurement: Measurement) -> tuple[str, ...]:
    """Counts are stated for the vector units unless a case says otherwise, and may have run on tensor cores.

    Where those did many more, that is what the report shows: the statement may be right and a product not needed.
    """
    counted = measurement.flops.get(f"tensor.{side.work.dtype}", 0.0)
    if (
        not side.algorithm_known
        or side.work.family != STATED
        or side.matrix_flops
        or not side.flops
        or not MIN_SHARE_OF_FLOPS <= counted / side.flops < MIN_GAP_FACTOR
    ):
        return ()
    return ("FLOPs ran on tensor cores, and the case states them for the vector units: set engine=matrix",)


# -- adjacent steps that pass a tensor through memory, which a fused kernel would not ---------------------------------


def with_neighbours(gaps: Sequence[Gap]) -> list[Gap]:
    """Gaps with the tensor they share with an adjacent step; the streaming one of the two gets it."""
    shared: dict[int, SharedTensor] = {}
    for place, (first, second) in enumerate(pairwise(gaps)):
        tensor = shared_tensor(first, second)
        if tensor is None or (first.target.matrix_flops and second.target.matrix_flops):
            continue
        if first.target.matrix_flops:
            place, tensor = place + 1, replace(tensor, other=first.name)
        if place not in shared or shared[place].bytes < tensor.bytes:
            shared[place] = tensor
    return [replace(gap, between=shared.get(place)) for place, gap in enumerate(gaps)]


def shared_tensor(first: Gap, second: Gap) -> SharedTensor | None:
    """The largest tensor that the first step writes and the second reads."""
    read = set(_moves(second, READ).values())
    passed = {tensor: size for tensor, size in _moves(first, WRITE).items() if size in read and size > 0}
    if not passed:
        return None
    tensor = max(passed, key=lambda name: passed[name])
    modules = [gap.name.rpartition(".")[0] for gap in (first, second)]
    ranges = [gap.measurement.path[:-1] for gap in (first, second)]
    together = any(before and before == after for before, after in (modules, ranges))
    return SharedTensor(second.name, tensor, passed[tensor], together)


def _moves(gap: Gap, way: str) -> dict[str, float]:
    """Main-memory bytes of each tensor in one direction."""
    moves = gap.target.work.moves.items()
    return {tensor: float(np.asarray(size)) for (level, tensor, to), size in moves if (level, to) == (MAIN, way)}
