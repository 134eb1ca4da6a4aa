"""The measured time by cause: entries that sum to it.

The accounting starts at the floor of the algorithm's counts and replaces them by the observed ones in turn; each step
adds the growth of the floor. The costs that the prediction names follow, then the unexplained part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import fsum
from typing import ClassVar

from .regime import Counts, Regime, bound_by, unit_name
from .target import Need, Target, longest


class Cause(Enum):
    """Every kind of cause; the braces take the names of an entry."""

    FLOOR = "roofline time of the algorithm"
    EXTRA_TRAFFIC = "extra memory traffic"
    CACHED_TRAFFIC = "traffic served by cache"
    SLOWER_ENGINE = "slower engine"
    FASTER_ENGINE = "faster engine"
    EXTRA_WORK = "extra FLOPs"
    LESS_WORK = "skipped FLOPs"
    INNER_TRAFFIC = "{} traffic"
    CLOCK = "clock differs from that of the peak"
    SHAPE = "wave quantization, fill and drain"
    LAUNCH = "launch latency"
    LIMITER_LOSS = "below peak rate on the limiting unit"
    OTHER_LIMITER = "{} (predicted: {})"
    RESIDUAL = "unexplained"
    HOST_WAIT = "host launch overhead"  # outside the kernel times, so never an entry of the accounting


@dataclass(frozen=True)
class Entry:
    kind: Cause
    time: float
    names: tuple[str, ...] = ()

    DOCUMENT: ClassVar = ("cause", "us")

    @property
    def cause(self) -> str:
        return self.kind.value.format(*self.names)

    @property
    def us(self) -> float:
        return self.time * 1e6


@dataclass(frozen=True)
class ObservedWork:
    """From the algorithm's counts to the observed ones: the time each replacement adds, and the final needs."""

    entries: tuple[Entry, ...]
    needs: Mapping[str, Need]  # at the observed counts, as far as they are known
    floor: float | None  # at the observed flops and bytes at the main memory; None where these are not known


class _Replacing:
    """Needs whose counts are replaced in turn."""

    def __init__(self, target: Target) -> None:
        self.needs = dict(target.needs)
        self.longest = target.floor
        self.entries = [Entry(Cause.FLOOR, target.floor)]

    def __call__(self, longer: Cause, shorter: Cause, changed: Mapping[str, Need | None], *names: str) -> None:
        before = self.longest
        for name, need in changed.items():
            self.needs.pop(name, None)
            if need is not None:
                self.needs[name] = need
        self.longest = longest(self.needs)
        added = self.longest - before
        if added:
            self.entries.append(Entry(longer if added > 0 else shorter, added, names))


def observed_work(target: Target, counts: Counts) -> ObservedWork:
    replacing, engine = _Replacing(target), counts.engine
    needs = replacing.needs
    known = counts.bytes is not None
    if counts.bytes is not None and target.main in needs:
        traffic = {target.main: needs[target.main].of(counts.bytes)}
        replacing(Cause.EXTRA_TRAFFIC, Cause.CACHED_TRAFFIC, traffic)
    if target.engine and engine is None:
        known = known and counts.no_flops  # the algorithm's count stays
    elif target.engine and engine is not None:
        ran = counts.engines.get(engine, needs[target.engine])
        if engine != target.engine:
            moved = {target.engine: None, engine: ran.of(target.flops)}
            replacing(Cause.SLOWER_ENGINE, Cause.FASTER_ENGINE, moved)
        replacing(Cause.EXTRA_WORK, Cause.LESS_WORK, {**counts.engines, engine: ran})
    floor = replacing.longest
    for name, need in counts.inner.items():
        replacing(Cause.INNER_TRAFFIC, Cause.INNER_TRAFFIC, {name: need}, unit_name(name))
    roof = counts.measurement.counters.get(f"roof.{engine}", 0.0)
    if engine in needs and roof > 0 and needs[engine].kind != "measured":
        replacing(Cause.CLOCK, Cause.CLOCK, {engine: replace(needs[engine], rate=roof)})
    return ObservedWork(tuple(replacing.entries), needs, floor if known and floor else None)


def account(target: Target, work: ObservedWork, regime: Regime, measured: float) -> tuple[Entry, ...]:
    """All entries; they sum to the measured time."""
    costs = ((Cause.SHAPE, target.shape_loss), (Cause.LAUNCH, target.launch))
    entries = [*work.entries, *(Entry(cause, time) for cause, time in costs if time)]
    left = measured - fsum(entry.time for entry in entries)
    loss = Entry(Cause.LIMITER_LOSS, min(target.limiter_loss * longest(work.needs), max(left, 0.0)))
    if left > 0 and regime.limited and regime.limiter not in work.needs:
        # another unit than the counts are about was busy all the time
        loss = Entry(Cause.OTHER_LIMITER, left, (bound_by(regime.limiter), bound_by(target.limiter)))
    if loss.time:
        entries.append(loss)
    return (*entries, Entry(Cause.RESIDUAL, measured - fsum(entry.time for entry in entries)))
