"""Timing on a machine that others use too: the share of the time in which a call really ran, and samples that are fair to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .conditions import Usage
from .protocol import Clock, Series, Timing


def watched(work: Callable[[], Any], clock: Clock) -> Timing:
    """One call by the clock, and where the clock knows it the share of the time in which its threads really ran.

    Time that a thread was ready to run and waited for a core belongs to other processes; time that it slept is its own.
    """
    read: Callable[[], Usage | None] = getattr(clock, "usage", lambda: None)
    before, start = read(), clock.now()
    work()
    seconds, after = clock.now() - start, read()
    return Timing(seconds, before.share(after) if before and after else 1.0)


def fair_samples(series: Series) -> list[float]:
    """Its samples; where every one was preempted, the seconds that its threads had their cores in each of them."""
    if not series.stand_in:
        return series.samples
    return [seconds * busy for _, seconds, busy in series.preempted]
