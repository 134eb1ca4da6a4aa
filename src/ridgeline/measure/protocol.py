"""How a probe is timed: warm-up by time, calibrated loops, interleaved rounds, a stop rule, all samples kept.

A probe's `call(loops)` does its work `loops` times. It returns None (then the clock around it counts), the seconds it
timed itself, or a `Timing` that also says which share of the time its threads really ran. Probes take turns, one
sample each per round, so that a drift of the machine shows in all of them instead of passing for a difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.errors import RidgelineError
from ..core.notes import NOISE, Note
from ..core.observation import Observation
from ..core.work import Work

BUSY = 0.97  # below this share of running time a sample was interrupted: another program had the core
LEAST_BUSY = 0.1  # a smaller share is not believed when loops are counted, so that a bad clock cannot make them endless
TRIES = 2  # how often an interrupted sample is taken again within its turn
MOST_LOOPS = 1 << 40
STOPPED = "stopped by Ctrl-C"
EARLY = "stopped early"  # begins a note of everything that a stopped run measured
STAND_IN = "no undisturbed sample could be had: the value comes from disturbed ones"


class Timing(NamedTuple):
    """Seconds of all loops together, and the smallest share of them in which a thread was really running."""

    seconds: float
    busy: float = 1.0


Call = Callable[[int], "Timing | float | None"]
Progress = Callable[[int, int, str], None]  # steps done, steps in all, what is being done


class Clock(Protocol):
    """Where the time comes from; tests bring their own."""

    def now(self) -> float:
        """Seconds from any fixed moment."""
        ...


class WallClock:
    def now(self) -> float:
        return time.perf_counter()


REAL = WallClock()


@dataclass(frozen=True)
class Probe:
    """One thing to measure: what one call does, what it is called, how its answer is checked.

    `prepare` runs once before the first call and `check` after the first and after the last one; a check raises
    RidgelineError when the answer is wrong. `least` is the shortest sample in seconds where the plan's does not fit.
    """

    name: str
    target: str
    call: Call
    work: Work = field(default_factory=Work)
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    prepare: Callable[[], None] | None = None
    check: Callable[[], None] | None = None
    least: float | None = None


@dataclass
class Series:
    """All samples of a probe in seconds per call, in order; interrupted ones are kept apart with their round."""

    probe: Probe
    loops: int
    samples: list[float] = field(default_factory=list)
    interrupted: list[tuple[int, float, float]] = field(default_factory=list)  # (round, seconds per call, busy share)
    stand_in: bool = False  # no undisturbed sample could be had; the best disturbed one stands in

    @property
    def spread(self) -> float:
        return spread(self.samples)


@dataclass
class Run:
    """What came out of `interleave`. `partial` says that it was stopped early; `missing` what has no sample at all."""

    series: list[Series]
    rounds: int
    partial: bool = False
    missing: list[str] = field(default_factory=list)
    why: str = ""  # why sampling stopped


def spread(samples: Sequence[float]) -> float:
    """Half the width of the central 80 % of the samples, relative to the median."""
    if len(samples) < 2:
        return 0.0
    low, middle, high = np.quantile(samples, [0.1, 0.5, 0.9])
    return float((high - low) / 2 / middle)


def timed(call: Call, loops: int, clock: Clock) -> Timing:
    """One call of so many loops, by its own clock where it has one."""
    start = clock.now()
    told = call(loops)
    end = clock.now()
    if told is None:
        return Timing(end - start)
    return told if isinstance(told, Timing) else Timing(float(told))


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
        loops = min(loops * 2, MOST_LOOPS) if now - before < left / 8 else loops


def calibrate(call: Call, clock: Clock = REAL, least: float = 0.01) -> int:
    """The number of loops that makes a sample run for at least `least` seconds, not counting those of other programs."""
    loops = 1
    while loops < MOST_LOOPS:
        told = timed(call, loops, clock)
        seconds = told.seconds * max(told.busy, LEAST_BUSY)
        if seconds >= least:
            return loops
        # aim a tenth past the goal once the time can be trusted; never more than 10 times at once
        factor = 1.1 * least / seconds if seconds > least / 1000 else 10.0
        loops = max(loops + 1, int(loops * min(factor, 10.0)))
    raise RidgelineError(f"a probe takes no time at all: {loops} loops stayed under {least} s, so it cannot be timed")


def sample(call: Call, clock: Clock = REAL, count: int = 1, loops: int = 1) -> list[Timing]:
    """`count` samples of `loops` loops each, as seconds per loop."""
    found = []
    for _ in range(count):
        told = timed(call, loops, clock)
        found.append(Timing(told.seconds / loops, told.busy))
    return found


def interleave(
    probes: Sequence[Probe],
    rounds: int,
    clock: Clock = REAL,
    on_progress: Progress | None = None,
    *,
    least: float = 0.015,
    warm: float = 0.05,
    most: int | None = None,
    tolerance: float = 0.02,
    budget: float | None = None,
) -> Run:
    """Warm and calibrate every probe, then let them take turns for at least `rounds` rounds.

    Stop rule: after `rounds` rounds only probes whose spread is above `tolerance` go on, until `most` rounds or the
    `budget` in seconds is used up. Ctrl-C ends it at once and what was sampled is kept. A sample during which another
    program had the core is taken again at most twice and kept apart either way.
    """
    most = max(rounds, most or rounds)
    start, step, total = clock.now(), 0, len(probes) * (rounds + 1)
    series: list[Series] = []
    result = Run(series, 0, why=f"{rounds} rounds done")

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
            series.append(_ready(probe, clock, warm, least))
            step += 1
        for turn in range(most):
            active = series if turn < rounds else [row for row in series if row.spread > tolerance]
            if not active or (turn and over()):
                result.why = "the time for it was used up" if active else "every spread is within the tolerance"
                break
            # a round that cannot be finished in time is not begun, but every probe gets its first sample
            for row in active:
                tell(row.probe.name)
                _turn(row, turn, clock)
                step += 1
            result.rounds = turn + 1
        for row in series:
            if row.probe.check:
                row.probe.check()
        if len(series) == len(probes) and all(row.samples for row in series):
            step = total
            tell("done")  # in here, because Ctrl-C may come at any step
    except KeyboardInterrupt:
        result.partial, result.why = True, STOPPED
    kept = [row for row in series if row.samples]
    result.missing = [probe.name for probe in probes if probe.name not in {row.probe.name for row in kept}]
    result.partial = result.partial or bool(result.missing)
    result.series = kept
    return result


def _ready(probe: Probe, clock: Clock, warm: float, least: float) -> Series:
    if probe.prepare:
        probe.prepare()
    warm_up(probe.call, clock, warm)
    if probe.check:
        probe.check()
    return Series(probe, calibrate(probe.call, clock, probe.least or least))


def _turn(row: Series, turn: int, clock: Clock) -> None:
    """One sample; when it was interrupted, another try, and the interrupted one is kept apart."""
    for attempt in range(TRIES + 1):
        (taken,) = sample(row.probe.call, clock, 1, row.loops)
        if taken.busy >= BUSY:
            if row.stand_in:
                row.samples, row.stand_in = [], False
            row.samples.append(taken.seconds)
            return
        row.interrupted.append((turn, taken.seconds, taken.busy))
        if attempt == TRIES and (row.stand_in or not row.samples):
            row.samples, row.stand_in = [min(seconds for _, seconds, _ in row.interrupted)], True


STEADY = 10  # samples in the window that must agree before a sustained rate counts as settled


def sustain(
    probe: Probe, clock: Clock = REAL, seconds: float = 4.0, least: float = 0.05, tolerance: float = 0.01
) -> tuple[Series, list[float]]:
    """One probe without a pause until its rate has settled: the last samples, and those of the run-in before them.

    Settled: after `seconds`, when the last ten samples vary by no more than `tolerance` (standard deviation over
    mean); at twice that time it ends in any case. Ctrl-C ends it early and keeps what there is.
    """
    row = _ready(probe, clock, 0.0, least)
    start, taken, apart = clock.now(), list[float](), list[float]()
    try:
        while True:
            (told,) = sample(probe.call, clock, 1, row.loops)
            if told.busy >= BUSY:
                taken.append(told.seconds)
            else:
                row.interrupted.append((len(taken), told.seconds, told.busy))
                apart.append(told.seconds)
            last = np.asarray(taken[-STEADY:])
            spent = clock.now() - start
            steady = len(last) == STEADY and float(last.std() / last.mean()) <= tolerance
            if (spent >= seconds and steady) or spent >= 2 * seconds:
                break
    except KeyboardInterrupt:
        if not taken and not apart:
            raise
    row.stand_in = not taken
    taken = taken or apart
    row.samples = taken[-STEADY:]
    return row, taken[:-STEADY]


# -- a second load on the machine ----------------------------------------------------------------------------

DRIFT = 3.0  # halves of a series must differ by this many spreads to be called a drift
APART = 4.0  # two groups of samples must lie this many of their own widths apart to be called two states
NOTABLE = 0.05  # and by this much of the median: less than that is the grain of any timer


def disturbed(samples: Sequence[float], interrupted: int = 0) -> str:
    """One sentence when the samples do not look like one undisturbed machine, else an empty text.

    Told apart: time taken from our threads, a drift from the first to the second half, and two states (a group of
    samples clearly slower than the rest), each beyond what the scatter within the groups explains.
    """
    told = []
    if interrupted:
        times = "once" if interrupted == 1 else f"{interrupted} times"
        told.append(f"another program had the core {times} while sampling (those samples are kept apart)")
    values = np.asarray(samples, dtype=np.float64)
    if len(values) >= 6:
        middle = float(np.median(values))
        half = len(values) // 2
        first, second = values[:half], values[-half:]
        change = float(np.median(second) - np.median(first))
        within = max(_width(first), _width(second))
        if abs(change) > max(DRIFT * within, NOTABLE * middle):
            how = "slower" if change > 0 else "faster"
            told.append(f"samples drift: the second half is {abs(change) / middle:.0%} {how} than the first")
        elif apart := _two_states(np.sort(values), middle):
            told.append(f"samples fall into two groups {apart:.0%} apart, as when a second program loads the machine")
    return "; ".join(told)


def _width(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """Median distance from the median."""
    return float(np.median(np.abs(values - np.median(values))))


def _two_states(ordered: np.ndarray[Any, np.dtype[np.float64]], middle: float) -> float:
    """How far apart two groups of at least two samples lie, relative to the median; 0 where there is one group."""
    gaps = np.diff(ordered)
    place = int(np.argmax(gaps[1:-1])) + 2  # at least two samples on each side
    low, high = ordered[:place], ordered[place:]
    distance = float(np.median(high) - np.median(low))
    within = max(_width(low), _width(high), float(np.median(gaps)))
    return distance / middle if distance > max(APART * within, NOTABLE * middle) else 0.0


def observation(row: Series, conditions: Mapping[str, Any], version: str = "", partial: bool = False) -> Observation:
    """The Observation of a series: its undisturbed samples, the others in its conditions, what was noticed in its notes."""
    probe = row.probe
    notes = list(probe.notes)
    noticed = disturbed(row.samples, len(row.interrupted))
    if noticed:
        notes.append(Note(NOISE, f"disturbed: {noticed}"))
    if row.stand_in:
        notes.append(STAND_IN)
    if partial:
        notes.append(f"{EARLY}: {len(row.samples)} of the planned samples were taken")
    apart = [{"round": turn, "seconds": seconds, "busy": round(busy, 4)} for turn, seconds, busy in row.interrupted]
    seen = {**conditions, **({"interrupted_samples": apart} if apart else {})}
    if row.stand_in:
        # the share of its time that the best sample got: without the other program it may have been so much faster
        seen["stand_in_busy"] = max(busy for _, seconds, busy in row.interrupted if seconds == min(row.samples))
    return Observation(
        name=probe.name,
        target=probe.target,
        samples=tuple(row.samples),
        work=probe.work,
        settings={**probe.settings, "loops": row.loops},
        conditions=seen,
        version=version,
        notes=tuple(notes),
    )
