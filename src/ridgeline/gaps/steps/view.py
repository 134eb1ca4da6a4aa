"""View: one step of the program as a whole: wall, device and idle time, what sets the pace, phases, predicted times."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from ...core.cached import cached_property
from ...core.documents import to_document
from ...core.machine import Machine
from ...core.statistics import median
from ...core.timeline import PHASES
from ...prediction.queue import DEVICE_BOUND, HOST_BOUND, Queue
from .groups import Group
from .idle import DATA, LATENCY, LAUNCH, MAX_GAPS, SYNCHRONISATION, Gaps, Waited, busy_times, idle_gaps, waited
from .items import OpItem, Uncounted
from .kept import Floats, Kept
from .pace import Pace, pace
from .queue import typical_queue

# Seconds that recording an event takes on the host: 1.0 to 1.9 us in host-bound steps of training scripts, timed with and
# without the profiler on an H200.
RECORDING = 1.2e-6
DEVICE_ALONE = 0.9  # of the step that the device takes by itself, from which the step time hardly depends on the host
MAX_RECORDING = 0.8  # of the work of the host that is taken for recording
# Of the errors of two families of kernels in one program: 0.23 over nine programs recorded on an H200. They share clocks,
# power and the contents of caches, which timings of single kernels do not have.
FAMILY_CORRELATION = 0.25


@dataclass(frozen=True)
class View:
    """All times are per step: medians over the kept steps."""

    kept: Kept
    machine: Machine
    items: tuple[OpItem, ...]
    uncounted: tuple[Uncounted, ...]
    overhead: tuple[Group, ...] = ()  # time of operators on the host that did no work: wrappers and views
    step_time: float | None = None  # of steps that ran without the profiler, where some were timed
    operator_dispatch: float | None = None  # of an operator that runs on the host

    DOCUMENT: ClassVar = (
        "steps", "recognised_by", "warmup", "wall_us=wall", "unprofiled_wall_us=step_time", "device_us=device", "idle_us=idle", "regime", "pace", "host_bound_share",
        "explained_share", "unexplained_us=unexplained", "predicted_device_us=predicted", "predicted_device_low_us=low", "predicted_device_high_us=high",
        "predicted_wall_us=predicted_wall", "launches", "dispatch_us=dispatch", "recording_us=recording", "idle_by_cause_us=idle_us", "largest_idle",
        "synchronisations", "phases", "spread",
    )  # fmt: skip

    @property
    def steps(self) -> int:
        return self.kept.steps

    @property
    def recognised_by(self) -> str:
        return self.kept.timeline.steps.how

    @property
    def warmup(self) -> int:
        return self.kept.timeline.steps.warmup

    @property
    def uses_jax(self) -> bool:
        return self.kept.timeline.tool.startswith("jax")

    @cached_property
    def wall(self) -> float:
        return median(self.kept.wall.tolist())

    @cached_property
    def spread(self) -> float:
        """Relative half width of the wall times of the steps, 0 for a single step."""
        walls = self.kept.wall
        return float((walls.max() - walls.min()) / 2 / self.wall) if self.wall else 0.0

    @cached_property
    def _busy(self) -> Floats:
        """Of each step; operators on the host that do no work are not part of it."""
        times = np.array(busy_times(self.kept))
        return times - sum((group.times for group in self.overhead), np.zeros(self.steps))

    @cached_property
    def device(self) -> float:
        """Of a program on the host, the sum of its operators, each as in its median step: a busy machine disturbs others in
        every step."""
        if self.kept.on_host:
            return (self.explained_time + self.unexplained) * self._overlapped
        return median(self._busy.tolist())

    @cached_property
    def idle(self) -> float:
        """Of the device in a step under the profiler."""
        return max(self.wall - self.device, 0.0)

    @property
    def step(self) -> float:
        """Seconds of a step without the profiler where some were timed, else under it."""
        return self.wall if self.step_time is None else self.step_time

    @property
    def step_idle(self) -> float:
        """Of the device in such a step."""
        return max(self.step - self.device, 0.0)

    # -- what sets the pace ------------------------------------------------------------------------------

    @cached_property
    def queue(self) -> Queue:
        """The launches of the median step."""
        return typical_queue(self.kept, self.machine.dispatch.value())

    @cached_property
    def recording(self) -> float:
        """Seconds per step that recording took on the host.

        From steps that ran without the profiler where some were timed, else estimated from the number of its events. Where
        the device takes nearly all of a step by itself, the timed step only shows that recording took no less.
        """
        spent = float(self.queue.cost.sum())
        timeline = self.kept.timeline
        events = timeline.host_events / max(len(timeline.steps) + timeline.steps.warmup, 1)
        estimate = min(RECORDING * events, MAX_RECORDING * spent)
        if self.step_time is None:
            return estimate
        shown = spent * (1 - self.queue.host_share(self.step_time, 1 - MAX_RECORDING))
        return max(shown, estimate) if self.device > DEVICE_ALONE * self.step_time else shown

    @cached_property
    def unrecorded(self) -> Queue:
        """The launches of the median step without what recording adds to the work of the host."""
        spent = float(self.queue.cost.sum())
        return replace(self.queue, cost=self.queue.cost * (1 - self.recording / spent)) if spent else self.queue

    @cached_property
    def regime(self) -> str:
        if self.pace is None:
            return HOST_BOUND if self.device < self.wall / 2 else DEVICE_BOUND
        return self.pace.regime

    @cached_property
    def pace(self) -> Pace | None:
        """What sets the time of a step without the profiler; None for a program on the host, which has no queue."""
        return None if self.kept.on_host else pace(self.kept, self.unrecorded)

    @cached_property
    def gaps(self) -> Gaps:
        return idle_gaps(self.kept)

    @cached_property
    def idle_causes(self) -> dict[str, float]:
        return self.gaps.by_cause(self.steps)

    @property
    def idle_us(self) -> dict[str, float]:
        return {cause.replace(" ", "_"): time * 1e6 for cause, time in self.idle_causes.items()}

    @property
    def host_bound_share(self) -> float:
        """Share of the step in which the device waits for launches."""
        return self.idle_causes[LAUNCH] / self.wall if self.wall else 0.0

    @cached_property
    def waits(self) -> tuple[Waited, ...]:
        return tuple(waited(self.kept, self.gaps))

    @property
    def synchronisations(self) -> list[Any]:
        return [to_document(wait) for wait in self.waits]

    @property
    def largest_idle(self) -> list[Any]:
        """The largest gaps of the median step."""
        return [to_document(gap) for gap in self.gaps.largest(self.kept, self.kept.median_step, MAX_GAPS)]

    @cached_property
    def launches(self) -> float:
        return len(self.kept.places) / self.steps

    @cached_property
    def dispatch(self) -> float | None:
        """Median time between two launches where the host does not wait; of a program on the host, of an operator."""
        if self.kept.on_host:
            return self.operator_dispatch
        costs = self.queue.cost[self.queue.runs]
        costs = costs[costs > 0]
        return float(np.median(costs)) if len(costs) else None

    # -- predicted -----------------------------------------------------------------------------------------

    @cached_property
    def explained_time(self) -> float:
        return sum(item.group.time for item in self.items)

    @cached_property
    def unexplained(self) -> float:
        return sum(item.group.time for item in self.uncounted)

    @property
    def explained_share(self) -> float:
        return self.share_of(lambda _: True)

    def share_of(self, wanted: Callable[[OpItem], bool]) -> float:
        """The share of the time of all runs that some of the predicted operators take."""
        total = self.explained_time + self.unexplained
        return sum(item.group.time for item in self.items if wanted(item)) / total if total else 0.0

    @cached_property
    def _overlapped(self) -> float:
        """Device time over the sum of all runs: below 1 where streams overlap."""
        if self.kept.on_host:  # threads of the program that run operators at the same time
            every = [item.group for item in self.items] + [item.group for item in self.uncounted]
            runs = sum(float(group.times.sum()) for group in every)
            return min(float(self._busy.sum()) / runs, 1.0) if runs else 1.0
        total = self.explained_time + self.unexplained
        return min(self.device / total, 1.0) if total else 1.0

    @cached_property
    def predicted(self) -> float | None:
        """Expected device time: predictions, and what has none at its measured time; None where nothing has one."""
        if not self.items:
            return None
        return (sum(item.predicted for item in self.items) + self.unexplained) * self._overlapped

    def _end(self, end: str) -> float | None:
        """An end of the 80 % interval: errors within a family of kernels go together, those of families partly.

        With w the half width of each family and r the correlation between two of them, the variances and covariances add up to

            width^2 = sum w_i^2 + r sum_(i != j) w_i w_j = (1 - r) sum w_i^2 + r (sum w_i)^2
        """
        if self.predicted is None:
            return None
        widths: dict[Any, float] = defaultdict(float)
        for item in self.items:
            target, work = item.gap.target, item.group.owner.work
            family = (work.family, work.name, work.dtype) if work is not None else ""
            widths[family] += abs(getattr(target, end) - target.time) * target.count
        alone, together = sum(each**2 for each in widths.values()), sum(widths.values()) ** 2
        width = sqrt((1 - FAMILY_CORRELATION) * alone + FAMILY_CORRELATION * together) * self._overlapped
        return max(self.predicted + (width if end == "high" else -width), 0.0)

    @property
    def low(self) -> float | None:
        return self._end("low")

    @property
    def high(self) -> float | None:
        return self._end("high")

    @cached_property
    def predicted_times(self) -> Floats:
        """Of each kept run: its share of the expected time of its calls in the step; of the median call without any."""
        times = self.kept.time.copy()
        expected = [(item.group, item.gap.target.time) for item in self.items]
        expected += [(item.group, median(item.group.samples)) for item in self.uncounted if item.group.samples]
        for group, each in expected:
            with np.errstate(divide="ignore", invalid="ignore"):
                factors = np.where(group.times > 0, each * group.calls / group.times, 1.0)
            times[group.runs] *= factors[self.kept.step[group.runs]]
        return times

    @cached_property
    def predicted_wall(self) -> float | None:
        """Of a step that is not recorded: its queue of launches with the predicted times."""
        if not self.items:
            return None
        queued = self.unrecorded
        return queued.with_times(self.predicted_times[queued.place[queued.runs]]).wall()

    @cached_property
    def phases(self) -> dict[str, dict[str, float | None]]:
        """Device time and expected time by phase; without any predicted item the expected time is None."""
        rows: dict[str, dict[str, float | None]] = {}
        for phase in PHASES:
            explained = [item for item in self.items if item.group.phase == phase]
            rest = sum(item.group.time for item in self.uncounted if item.group.phase == phase)
            measured = sum(item.group.time for item in explained) + rest
            expected = sum(item.predicted for item in explained) + rest if explained else None
            rows[phase] = {
                "device_us": measured * 1e6,
                "predicted_us": None if expected is None and measured else (expected or 0.0) * 1e6,
            }
        return rows


def waits_for(view: View) -> dict[str, float]:
    """Idle time by the words that an answer uses, the causes of the host only."""
    names = {
        LAUNCH: "waiting for launches",
        SYNCHRONISATION: "after a synchronisation",
        DATA: "waiting for data",
        LATENCY: "launch latency",
    }
    return {name: view.idle_causes[cause] for cause, name in names.items() if view.idle_causes[cause] > 0}


def by_time(items: Sequence[OpItem]) -> list[OpItem]:
    return sorted(items, key=lambda item: -item.group.time)
