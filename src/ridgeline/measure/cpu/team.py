"""Threads pinned to cores that do the rows of a kernel together and time themselves."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

from ..protocol import Timing

START_SECONDS = 5e-4  # that a thread may take to start on an idle core

Slice = Callable[[int, int], Any]  # does the rows from first to last


class Team:
    """One thread per core, pinned to it; a call does its rows on all of them and is timed by the threads themselves."""

    def __init__(self, cpus: Sequence[int]) -> None:
        self.size = len(cpus)
        self.threads = [ThreadPoolExecutor(1, initializer=_pin, initargs=(cpu,)) for cpu in cpus]

    def run(self, rows: int, step: int, part: Slice, loops: int = 1) -> Timing:
        """Each thread does its rows, in multiples of `step`, so many times."""
        edges = [min(rows, step * round(rows / step * place / self.size)) for place in range(self.size)] + [rows]
        jobs = [
            thread.submit(_timed, part, first, last, loops, time.perf_counter())
            for thread, (first, last) in zip(self.threads, pairwise(edges), strict=True)
        ]
        # threads are started one after the other, so that each is judged by its own time
        timings = [job.result() for job in jobs]
        return Timing(max(timing.seconds for timing in timings), min(timing.busy for timing in timings))


def _pin(cpu: int) -> None:
    if cpu >= 0:
        with contextlib.suppress(AttributeError, OSError):
            os.sched_setaffinity(0, {cpu})


def _timed(part: Slice, first: int, last: int, loops: int, submitted: float) -> Timing:
    """The seconds of one thread; the time it waited for its core counts as preempted."""
    start, ran = time.perf_counter(), time.thread_time()
    for _ in range(loops):
        part(first, last)
    waited = max(start - submitted - START_SECONDS, 0.0)
    seconds, ran = time.perf_counter() - start + waited, time.thread_time() - ran
    return Timing(seconds, min(1.0, ran / seconds))
