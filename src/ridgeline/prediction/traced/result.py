"""ProgramPrediction: what a traced program takes on a machine, in total and op by op."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ...core.cached import cached_property
from ...core.machine import Machine
from ...core.trace import Trace
from ...core.units import percent, show
from ..formats import converted
from ..predict import Prediction
from ..queue import DEVICE_BOUND, Floats, Queue, Schedule
from .attention import taken_apart
from .cache import Cache
from .intervals import HIGH, LOW, MIN_CONFIDENCE, device_width, host_ends, regime_confidence, wall_end
from .kernels import Parts
from .memory import Memory
from .op_time import OpTime, Uncounted, amount
from .plan import FUSED, Plan

if TYPE_CHECKING:
    from .breakdown import Breakdown

MIN_SLOWDOWN = 1.01  # by the power limit, from which it is worth a note


@dataclass(frozen=True, repr=False)
class ProgramPrediction:
    """All times in seconds. `time` is of the device, `host` of dispatch, `wall` follows the longer of the two."""

    trace: Trace
    machine: Machine
    mode: str
    plan: Plan
    predictions: tuple[Prediction | str, ...]  # per unit, of one call with cold caches
    parts: Parts
    run_time: Floats  # per run of the plan, once
    cached: Floats  # bytes per run that it finds in the last-level cache
    queue: Queue
    memory: Memory
    cache: Cache | None = None
    slowdown: float = 1.0  # of the kernels by the power limit, in steps that follow each other for long

    DOCUMENT: ClassVar = (
        "name=trace.name", "machine=machine.name", "mode", "totals", "regime", "regime_confidence", "balanced", "bound_shares", "memory=memory.at_peak", "fits",
        "ops", "uncounted", "notes",
    )  # fmt: skip

    def __repr__(self) -> str:
        from .summary import summary  # which reads predictions itself

        return summary(self)

    def table(self, by: str = "op") -> Breakdown:
        """Where the device time goes, by op, family, phase, module or line."""
        from .breakdown import breakdown

        return breakdown(self, by)

    @cached_property
    def counts(self) -> Floats:
        """How often each unit runs."""
        return np.bincount(self.plan.unit, self.plan.times, minlength=len(self.plan.units)).astype(np.float64)

    @cached_property
    def ops(self) -> tuple[OpTime, ...]:
        """Every unit with work, in program order."""
        units, parts, plan = len(self.plan.units), self.parts, self.plan
        columns = (parts.time, parts.floor, parts.low, parts.high, parts.launches)
        cold, floor, low, high, launches = (parts.sums(column, units) for column in columns)
        time, cached = (
            np.bincount(plan.unit, column * plan.times, minlength=units) for column in (self.run_time, self.cached)
        )
        warm = np.divide(time, cold * self.counts, out=np.ones(units), where=cold * self.counts > 0)
        rows = []
        for place in np.flatnonzero(self.counts > 0).tolist():
            unit, made, count = plan.units[place], self.predictions[place], float(self.counts[place])
            if unit.work is None:
                continue
            rows.append(
                OpTime(
                    unit=unit,
                    prediction=made if isinstance(made, Prediction) else None,
                    count=count,
                    floor=float(floor[place]) * count,
                    time=float(time[place]),
                    low=float(low[place] * warm[place]) * count,
                    high=float(high[place] * warm[place]) * count,
                    cached=float(cached[place]),
                    launches=float(launches[place]) * count,
                    fused=tuple(self.trace.ops[op].site.call.name for op in unit.ops) if unit.fused else (),
                    refused=made if isinstance(made, str) else "",
                )
            )
        return tuple(rows)

    @cached_property
    def uncounted(self) -> tuple[Uncounted, ...]:
        """Operators without a count or a prediction, those that move most first."""
        rows: dict[str, list[Any]] = {}
        listed = [(op.site.call.name, count, op.bytes, op.reason) for op, count in self.trace.uncounted]
        listed += [(item.op, item.count, item.bytes / item.count, item.refused) for item in self.ops if item.refused]
        for name, count, size, reason in listed:
            row = rows.setdefault(name, [0.0, 0.0, reason])
            row[0], row[1] = row[0] + count, row[1] + count * size
        made = [Uncounted(name, *row) for name, row in rows.items()]
        return tuple(sorted(made, key=lambda item: -item.bytes))

    # -- totals ----------------------------------------------------------------------------------------------

    @property
    def flops(self) -> float:
        return sum(item.flops for item in self.ops)

    @property
    def bytes(self) -> float:
        return sum(item.bytes for item in self.ops)

    @property
    def intensity(self) -> float | None:
        return self.flops / self.bytes if self.bytes else None

    @cached_property
    def floor(self) -> float:
        """With cold caches, every op one after the other."""
        return sum(item.floor for item in self.ops)

    @cached_property
    def roofline(self) -> float:
        """The same of roofline times."""
        return sum(item.roofline for item in self.ops)

    @cached_property
    def time(self) -> float:
        """Sum of the kernel times."""
        return sum(item.time for item in self.ops)

    @cached_property
    def low(self) -> float:
        """The 80 % interval of `time` reaches from `low` to `high`."""
        return max(self.time - device_width(self.ops, LOW), 0.0)

    @cached_property
    def high(self) -> float:
        return self.time + device_width(self.ops, HIGH)

    @property
    def host(self) -> float:
        """Seconds that the host dispatches."""
        return float(self.queue.cost.sum())

    @cached_property
    def schedule(self) -> Schedule:
        """When each run of the plan is dispatched and runs, in a steady step."""
        return self.queue.schedule()

    @property
    def wall(self) -> float:
        return self.schedule.wall

    @cached_property
    def wall_low(self) -> float:
        """The 80 % interval of `wall` reaches from `wall_low` to `wall_high`, for hosts and for kernels."""
        return wall_end(self.queue, self._host_ends[LOW], self._device_ends[LOW])

    @cached_property
    def wall_high(self) -> float:
        return wall_end(self.queue, self._host_ends[HIGH], self._device_ends[HIGH])

    @property
    def _device_ends(self) -> dict[str, float]:
        """The ends of the interval of device times, as multiples of the predicted ones."""
        return {LOW: self.low / self.time, HIGH: self.high / self.time} if self.time else {LOW: 1.0, HIGH: 1.0}

    @property
    def _host_ends(self) -> dict[str, float]:
        """The same of host times; on a CPU the host runs the kernels."""
        return self._device_ends if self.machine.kind == "cpu" else host_ends(self.machine, self.mode == FUSED)

    @cached_property
    def regime(self) -> str:
        """Whether the wall time follows the host or the device; on a CPU, where the wall time is that of the operators, the device."""
        return DEVICE_BOUND if self.machine.kind == "cpu" else self.queue.regime

    @cached_property
    def regime_confidence(self) -> float:
        """Probability of the regime, by the uncertainty of host and device times."""
        return regime_confidence(self.queue, self._host_ends, self._device_ends)

    @property
    def balanced(self) -> bool:
        """Whether host and device take equally long within their uncertainty: the regime is the likelier of the two."""
        return self.regime_confidence < MIN_CONFIDENCE

    @property
    def kernels(self) -> float:
        """Kernel launches."""
        return sum(item.launches for item in self.ops)

    @property
    def peak_memory(self) -> float:
        return self.memory.peak

    @cached_property
    def mfu(self) -> float | None:
        """Model flops utilization: time of all matrix products at the peaks of their engines over the wall time."""
        busy = 0.0
        for place, made in enumerate(self.predictions):
            for step, bound in zip(made.steps, made.bounds, strict=True) if isinstance(made, Prediction) else ():
                if any(engine == "matrix" for engine, _, _ in step.work.counts):
                    share = amount(bound.share_of_peak) * amount(bound.roofline)
                    busy += share * amount(step.count) * float(self.counts[place])
        return busy / self.wall if self.wall else None

    @cached_property
    def bound_shares(self) -> dict[str, float]:
        """Shares of the device time by what bounds the ops, the largest first."""
        shares: dict[str, float] = defaultdict(float)
        for item in self.ops:
            shares[item.bound] += item.time
        ranked = sorted(shares.items(), key=lambda row: -row[1])
        return {bound: time / self.time for bound, time in ranked if bound and time > 0}

    @property
    def totals(self) -> dict[str, Any]:
        return {
            "flops": self.flops, "bytes": self.bytes, "intensity": self.intensity, "floor_us": self.floor * 1e6,
            "time_us": self.time * 1e6, "low_us": self.low * 1e6, "high_us": self.high * 1e6, "host_us": self.host * 1e6,
            "wall_us": self.wall * 1e6, "wall_low_us": self.wall_low * 1e6, "wall_high_us": self.wall_high * 1e6, "kernels": self.kernels, "peak_memory": self.peak_memory, "mfu": self.mfu,
            "cached_bytes": float((self.cached * self.plan.times).sum()), "slowdown": self.slowdown,
        }  # fmt: skip

    @cached_property
    def fits(self) -> bool | None:
        """Whether the peak memory fits the machine's; None where that is not known."""
        return None if self._capacity is None else self.peak_memory <= self._capacity

    @property
    def _capacity(self) -> float | None:
        return self.machine.levels[-1].total if self.machine.levels else None

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What was left out, what does not fit, what was found in the cache; then the notes of the trace."""
        notes = []
        if self.fits is False:
            has = f"{self.machine.name} has {show(self._capacity or 0.0, 'B', 3)}"
            notes.append(f"does not fit: needs {show(self.peak_memory, 'B', 3)}, {has}")
        for name in converted(self.trace, self.machine):
            notes.append(f"products in {name} are computed in fp32: {self.machine.name} has no {name} arithmetic")
        if apart := taken_apart(self.trace, self.machine):
            notes.append(
                f"{apart:g} calls of attention run as separate products on {self.machine.name}, predicted as single kernels"
            )
        if self.uncounted:
            names = ", ".join(f"{item.op} x{item.count:g}" for item in self.uncounted[:3])
            left = sum(item.bytes for item in self.uncounted)
            more = f" and {len(self.uncounted) - 3} more" if len(self.uncounted) > 3 else ""
            notes.append(f"not in the times: {names}{more}, which move {show(left, 'B', 3)}")
        cached = float((self.cached * self.plan.times).sum())
        if self.cache is not None and cached:
            share = percent(cached / self.bytes) if self.bytes else ""
            notes.append(
                f"{show(cached, 'B', 3)} ({share} of bytes) expected in {self.cache.name.upper()}; floors are with cold caches"
            )
        if self.slowdown > MIN_SLOWDOWN:
            limit = show(self.machine.tdp.value() or 0.0, "W", 3)
            notes.append(
                f"power-limited: {percent(self.slowdown - 1)} longer than single kernels in a steady run at {limit}"
            )
        return (*notes, *self.trace.notes)
