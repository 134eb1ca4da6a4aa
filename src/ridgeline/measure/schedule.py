"""Sampling by value within a time budget: what matters most is measured first, and what is missing has one line.

Groups come in the order of their value. Every required group gets its minimal samples before any optional one, even
when the budget is already used up (then one sample each). Noisy required probes are then sampled again, then the
optional groups follow while there is time, and what is left of the budget goes to the probes that are still noisy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .protocol import REAL, STOPPED, Clock, Probe, Progress, Run, Series, ready, take_sample

STEPS = 1000  # of the progress of a measurement
MAX_RETRY_SHARE = 0.25  # of the budget for sampling noisy required probes again before the optional ones
MAX_NOISE = 0.05  # spread above which a probe is sampled again


@dataclass(frozen=True)
class Group:
    """Probes of one kind. `probes` makes them when their turn comes, because choosing variants takes time."""

    name: str  # what is missing when it was not measured: "single-core bandwidth"
    probes: Callable[[], Sequence[Probe]]
    required: bool = False
    after: Callable[[], None] | None = None  # a library whose idle threads spin is sampled apart and given time to rest


@dataclass(frozen=True)
class Effort:
    """How many samples a measurement takes, how long they are, and how long all of it may take."""

    rounds: int
    min_seconds: float
    warm_seconds: float
    budget: float  # seconds from the start of the measurement, compiling included
    min_rounds: int = 3
    max_rounds: int = 12


class _Sampler:
    """The state of one measurement: samples so far, the clock, and what was left out."""

    def __init__(self, effort: Effort, clock: Clock, start: float, on_progress: Progress | None) -> None:
        self.effort, self.clock, self.start, self.on_progress = effort, clock, start, on_progress
        self.run = Run([])
        self.turn = 0
        self.apart: list[Series] = []  # never sampled between others
        self.complete: set[str] = set()

    def over(self, share: float = 1.0) -> bool:
        return self.clock.now() - self.start >= share * self.effort.budget

    def tell(self, label: str, done: bool = False) -> None:
        if self.on_progress:
            share = 1.0 if done else min(0.99, (self.clock.now() - self.start) / self.effort.budget)
            self.on_progress(round(STEPS * share), STEPS, label)

    def group(self, group: Group) -> list[Series]:
        """The minimal samples of a group, its probes in turns; one sample each once the time is over."""
        self.tell(group.name)
        added: list[Series] = []
        for probe in group.probes():
            if self.over() and not group.required:
                self.run.missing.append(group.name)
                break
            added.append(ready(probe, self.clock, self.effort.warm_seconds, self.effort.min_seconds))
            self.run.series.append(added[-1])
        rounds = self.effort.min_rounds if group.required else self.effort.rounds
        for turn in range(rounds):
            if turn and self.over():
                break
            self.round(added)
        if group.after:
            self.apart += added
            group.after()
        if group.name not in self.run.missing:
            self.complete.add(group.name)
        return added

    def round(self, series: Sequence[Series]) -> None:
        for row in series:
            if row.samples and self.over():
                continue
            self.tell(row.probe.name)
            take_sample(row, self.turn, self.clock)
        self.turn += 1

    def again(self, series: Sequence[Series], share: float = 1.0) -> None:
        """More rounds for the probes that lack samples or are noisy, until they are not or the time is over."""
        for _ in range(self.effort.max_rounds):
            active = [row for row in series if self.unsettled(row)]
            if not active or self.over(share):
                return
            self.round(active)

    def unsettled(self, series: Series) -> bool:
        count = len(series.samples) + len(series.preempted)
        few = len(series.samples) < self.effort.rounds
        return count < 4 * self.effort.max_rounds and (few or series.spread > MAX_NOISE or series.stand_in)


def by_value(
    groups: Sequence[Group],
    effort: Effort,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
    start: float | None = None,
) -> Run:
    """Sample groups in their order until the budget, counted from `start`, is used up. Ctrl-C keeps what was sampled."""
    sampler = _Sampler(effort, clock, clock.now() if start is None else start, on_progress)
    run = sampler.run
    try:
        required = [row for group in groups if group.required for row in sampler.group(group)]
        sampler.again(required, MAX_RETRY_SHARE)
        for group in groups:
            if group.required:
                continue
            if sampler.over():
                run.missing.append(group.name)
            else:
                sampler.group(group)
        sampler.again([row for row in run.series if row not in sampler.apart])
        for row in run.series:
            if row.probe.check:
                row.probe.check()
        run.why = f"{effort.budget:.0f} s budget" if run.missing else "all samples taken"
        sampler.tell("done", done=True)
    except KeyboardInterrupt:
        run.why = STOPPED
        run.missing = [group.name for group in groups if group.name not in sampler.complete]
    run.series = [row for row in run.series if row.samples]
    run.partial = run.stopped or bool(run.missing)
    run.rounds = sampler.turn
    return run
