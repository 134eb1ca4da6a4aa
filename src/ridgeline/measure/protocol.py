"""How a probe is timed: warm-up by time, calibrated loops, interleaved rounds, a stop rule, all samples kept.

    Probe -> interleave, by_value (schedule.py) or sustain -> Series -> observation -> Observation

A probe's `call(loops)` does its work `loops` times. It returns None (then the clock around it counts), the seconds it
timed itself, or a `Timing` that also gives the share of the time in which its threads really ran. Probes take turns,
one sample each per round, so that a drift of the machine shows in all of them instead of passing for a difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core import notes, statistics
from ..core.errors import RidgelineError
from ..core.notes import Note
from ..core.observation import Observation
from ..core.work import Work
from .conditions import Usage, noise_note, usage

MIN_BUSY = 0.97  # a sample with a smaller share of running time was preempted
MIN_CALIBRATION_BUSY = 0.1  # a smaller share is not believed when loops are counted, so that they stay finite
RETRIES = 2  # of a preempted sample within its turn
SHORT_SECONDS, SHORT_RETRIES = 0.005, 8  # a short sample may fit between two preemptions: it is retried more often
LEAST_SECONDS = 0.0003  # of a sample that is shortened, so that it fits into the time slice of a shared core
REST_SECONDS = 0.005  # without work after a preempted sample: a thread that has waited is given its core at once
MAX_LOOPS = 1 << 40
STEADY_SAMPLES = 10  # that must agree before a sustained rate counts as steady
STOPPED = "stopped by Ctrl-C"


class Timing(NamedTuple):
    """Seconds of all loops together, and the smallest share of them in which a thread was really running."""

    seconds: float
    busy: float = 1.0


Call = Callable[[int], "Timing | float | None"]
Progress = Callable[[int, int, str], None]  # steps done, steps in all, what is being done


class Clock(Protocol):
    """Where the time comes from, in seconds from any fixed moment; tests bring their own."""

    def now(self) -> float: ...


class WallClock:
    def now(self) -> float:
        return time.perf_counter()

    def usage(self) -> Usage | None:
        return usage()


REAL = WallClock()


@dataclass(frozen=True)
class Probe:
    """One thing to measure: what one call does, what it is called, how its answer is checked.

    `prepare` runs once before the first call and `check` after the first and after the last one; a check raises
    RidgelineError when the answer is wrong. `min_seconds` is the shortest sample where the plan's does not fit.
    """

    name: str
    target: str
    call: Call
    work: Work = field(default_factory=Work)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    check: Callable[[], None] | None = None
    min_seconds: float | None = None


@dataclass
class Series:
    """All samples of a probe in seconds per call, in order; preempted ones are kept apart with their round."""

    probe: Probe
    loops: int
    samples: list[float] = field(default_factory=list)
    preempted: list[tuple[int, float, float]] = field(default_factory=list)  # (round, seconds per call, busy share)
    stand_in: bool = False  # every sample was preempted; the best of them is used

    @property
    def spread(self) -> float:
        return statistics.spread(self.samples)


@dataclass
class Run:
    """What came out of `interleave`. `partial` says that it was stopped early; `missing` what has no sample at all."""

    series: list[Series]
    rounds: int = 0
    partial: bool = False
    missing: list[str] = field(default_factory=list)
    why: str = ""  # why sampling stopped

    @property
    def stopped(self) -> bool:
        """Whether the user ended it."""
        return self.why == STOPPED


def in_turn(works: Sequence[Callable[[], Any]]) -> Callable[[], None]:
    """A call that does each work once."""

    def each_once() -> None:
        for work in works:
            work()

    return each_once


def repeat(work: Callable[[], Any], count: int) -> Callable[[], None]:
    """A call that does the work so many times."""

    def repeated() -> None:
        for _ in range(count):
            work()

    return repeated


def timed(call: Call, loops: int, clock: Clock) -> Timing:
    """One call of so many loops, by its own timing where it has one."""
    start = clock.now()
    result = call(loops)
    end = clock.now()
    if result is None:
        return Timing(end - start)
    return result if isinstance(result, Timing) else Timing(float(result))


def warm_up(call: Call, clock: Clock = REAL, seconds: float = 0.05) -> int:
    """Call until the time is over (a count would warm a fast probe too little); the number of loops made."""
    start, loops, done = clock.now(), 1, 0
    while True:
        before = clock.now()
        call(loops)
        now = clock.now()
        done += loops
        left = seconds - (now - start)
        if left <= 0:
            return done
        # longer calls while the clock hardly moves, so that a probe of a nanosecond does not spend its warm-up in Python
        loops = min(loops * 2, MAX_LOOPS) if now - before < left / 8 else loops


def calibrate(call: Call, clock: Clock = REAL, min_seconds: float = 0.01) -> int:
    """The number of loops that makes a sample run for at least `min_seconds`, not counting preempted time."""
    loops = 1
    while loops < MAX_LOOPS:
        seconds = _running_seconds(call, loops, clock, min_seconds)
        if seconds >= min_seconds:
            return loops
        # aim a tenth past the goal once the time can be trusted; never more than 10 times at once
        factor = 1.1 * min_seconds / seconds if seconds > min_seconds / 1000 else 10.0
        loops = max(loops + 1, int(loops * min(factor, 10.0)))
    raise RidgelineError(
        f"a probe takes no time at all: {loops} loops stayed under {min_seconds} s, so it cannot be timed"
    )


def _running_seconds(call: Call, loops: int, clock: Clock, min_seconds: float) -> float:
    """The time that so many loops run; a preempted call is repeated before it is believed to be just long enough."""
    for _ in range(SHORT_RETRIES):
        timing = timed(call, loops, clock)
        seconds = timing.seconds * max(timing.busy, MIN_CALIBRATION_BUSY)
        if timing.busy >= MIN_BUSY or not min_seconds <= seconds <= 2 * min_seconds:
            break
    return seconds


def sample(call: Call, clock: Clock = REAL, loops: int = 1) -> Timing:
    """One sample of so many loops, as seconds per loop."""
    timing = timed(call, loops, clock)
    return Timing(timing.seconds / loops, timing.busy)


def ready(probe: Probe, clock: Clock, warm_seconds: float, min_seconds: float) -> Series:
    if probe.prepare:
        probe.prepare()
    warm_up(probe.call, clock, warm_seconds)
    if probe.check:
        probe.check()
    return Series(probe, calibrate(probe.call, clock, probe.min_seconds or min_seconds))


def take_sample(series: Series, turn: int, clock: Clock) -> None:
    """One sample; when it was preempted, other and shorter tries, and the preempted ones are kept apart."""
    for attempt in range(SHORT_RETRIES + 1):
        timing = sample(series.probe.call, clock, series.loops)
        if timing.busy >= MIN_BUSY:
            if series.stand_in:
                series.samples, series.stand_in = [], False
            series.samples.append(timing.seconds)
            return
        series.preempted.append((turn, timing.seconds, timing.busy))
        seconds = timing.seconds * series.loops
        if attempt % 2 and series.loops > 1 and seconds * timing.busy > 2 * LEAST_SECONDS:
            series.loops //= 2  # a shorter sample may fit between two preemptions
        elif attempt >= RETRIES and series.loops == 1 and seconds > SHORT_SECONDS:
            break
        time.sleep(REST_SECONDS)
    if series.stand_in or not series.samples:
        series.samples, series.stand_in = [min(seconds for _, seconds, _ in series.preempted)], True


def interleave(
    probes: Sequence[Probe],
    rounds: int,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
    *,
    min_seconds: float = 0.015,
    warm_seconds: float = 0.05,
    max_rounds: int | None = None,
    tolerance: float = 0.02,
    budget: float | None = None,
) -> Run:
    """Warm and calibrate every probe, then let them take turns for at least `rounds` rounds.

    Stop rule: after `rounds` rounds only probes whose spread is above `tolerance` go on, until `max_rounds` or the
    `budget` in seconds is used up. Ctrl-C ends it at once and what was sampled is kept. A preempted sample is retried
    and kept apart either way.
    """
    start, step, total = clock.now(), 0, len(probes) * (rounds + 1)
    run = Run([], why=f"{rounds} rounds done")

    def tell(label: str) -> None:
        if on_progress:
            on_progress(min(step, total), total, label)

    def over() -> bool:
        return budget is not None and clock.now() - start >= budget

    try:
        for probe in probes:
            if over():
                break
            tell(f"warm up {probe.name}")
            run.series.append(ready(probe, clock, warm_seconds, min_seconds))
            step += 1
        for turn in range(max(rounds, max_rounds or rounds)):
            active = run.series if turn < rounds else [series for series in run.series if series.spread > tolerance]
            if not active or (turn and over()):
                run.why = "the time budget is used up" if active else "every spread is within the tolerance"
                break
            # a round that cannot be finished in time is not begun, but every probe gets its first sample
            for series in active:
                tell(series.probe.name)
                take_sample(series, turn, clock)
                step += 1
            run.rounds = turn + 1
        for series in run.series:
            if series.probe.check:
                series.probe.check()
        if len(run.series) == len(probes) and all(series.samples for series in run.series):
            step = total
            tell("done")  # inside the try, because Ctrl-C may come at any step
    except KeyboardInterrupt:
        run.partial, run.why = True, STOPPED
    run.series = [series for series in run.series if series.samples]
    sampled = {series.probe.name for series in run.series}
    run.missing = [probe.name for probe in probes if probe.name not in sampled]
    run.partial = run.partial or bool(run.missing)
    return run


def sustain(
    probe: Probe, clock: Clock = REAL, seconds: float = 4.0, min_seconds: float = 0.05, tolerance: float = 0.01
) -> tuple[Series, list[float]]:
    """One probe without a pause until its rate is steady: the last samples, and those of the run-in before them.

    Steady: after `seconds`, when the last ten samples vary by no more than `tolerance` (standard deviation over mean);
    at twice that time it ends in any case. Ctrl-C ends it early and keeps what there is.
    """
    series = ready(probe, clock, 0.0, min_seconds)
    start, samples = clock.now(), list[float]()
    try:
        while True:
            timing = sample(probe.call, clock, series.loops)
            if timing.busy >= MIN_BUSY:
                samples.append(timing.seconds)
            else:
                series.preempted.append((len(samples), timing.seconds, timing.busy))
            last = np.asarray(samples[-STEADY_SAMPLES:])
            spent = clock.now() - start
            steady = len(last) == STEADY_SAMPLES and float(last.std() / last.mean()) <= tolerance
            if (spent >= seconds and steady) or spent >= 2 * seconds:
                break
    except KeyboardInterrupt:
        if not samples and not series.preempted:
            raise
    series.stand_in = not samples
    samples = samples or [seconds for _, seconds, _ in series.preempted]
    series.samples = samples[-STEADY_SAMPLES:]
    return series, samples[:-STEADY_SAMPLES]


def observation(series: Series, conditions: Mapping[str, Any], version: str = "", partial: bool = False) -> Observation:
    """The Observation of a series: preempted samples go to its conditions, what was noticed to its notes."""
    probe = series.probe
    remarks = list(probe.notes)
    if noise := noise_note(series.samples, len(series.preempted)):
        remarks.append(noise)
    if series.stand_in:
        remarks.append(Note(notes.STAND_IN, "noisy: every sample was preempted; the best of them is used"))
    if partial:
        remarks.append(Note(notes.STOPPED, f"stopped early: {len(series.samples)} of the planned samples were taken"))
    conditions = dict(conditions)
    if series.preempted:
        conditions["interrupted_samples"] = [
            {"round": turn, "seconds": seconds, "busy": round(busy, 4)} for turn, seconds, busy in series.preempted
        ]
    if series.stand_in:
        # the share of the time in which the best sample ran: on a quiet machine it may be so much faster
        best = min(series.samples)
        conditions["stand_in_busy"] = max(busy for _, seconds, busy in series.preempted if seconds == best)
    samples, settings = tuple(series.samples), {**probe.settings, "loops": series.loops}
    return Observation(
        probe.name, probe.target, samples, probe.work, settings, conditions, version=version, notes=tuple(remarks)
    )
