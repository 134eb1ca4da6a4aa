"""Queue: one step of a program as a queue between host and device.

    host:    each launch returns `cost` after the one before; a synchronisation waits until the device is done
    device:  a run starts when its launch has returned and its stream is free, `delay` later
    step:    repeated until it is steady; its wall time is the time between two completions

With the costs, delays and times of a recorded step this gives back that step. With predicted times it gives the predicted
one; with fewer waits, launches or bytes it prices what would remove them. A step is host-bound where it takes more than 1.1
times as long as the device is busy (`regime_of`, for recorded steps too).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
RUN, SYNC, PAUSE = range(3)  # of events on the host: a launch, a wait for the device, work of the host without a launch
PROBE = 0.1  # by how much host and device are sped up to see which of them sets the pace
HOST_BOUND_FROM = 1.1  # wall time over busy time of the device, beyond which a step is host-bound
MAX_HOST_FACTOR = 64.0  # by which a host may be slower or faster than the predicted one, in the search for that limit
BISECTIONS = 12  # of the share of the host's work that recording is
REPEATS = 3  # of a step until it is steady
HOST_BOUND, DEVICE_BOUND = REGIMES = ("host-bound", "device-bound")


@dataclass(frozen=True)
class Schedule:
    """When each event of a steady step happens, in seconds from the completion of the step before: a host that runs ahead is
    done with some of them before that."""

    host: Floats  # the host is done with the event
    start: Floats  # the run starts on the device; for other events as on the host
    end: Floats
    wall: float  # from the completion of a step to that of the next


@dataclass(frozen=True)
class Queue:
    """The events of a step in the order of the host, as columns.

    `cost` is the host time before the event; `time` what a run takes on the device, or a pause on the host; `place` says
    which run or wait of the caller the event is.
    """

    kind: Ints
    cost: Floats
    time: Floats
    delay: Floats
    stream: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def runs(self) -> NDArray[np.bool_]:
        return np.asarray(self.kind == RUN)

    def with_times(self, times: Floats) -> Queue:
        """With other times of the runs, in their order."""
        time = self.time.copy()
        time[self.runs] = times
        return replace(self, time=time)

    def without(self, dropped: NDArray[np.bool_], spared: float = 0.0) -> Queue:
        """Without some events, and without up to `spared` seconds of the host work before each of them."""
        cost, carried = self.cost.copy(), 0.0
        for place, gone in enumerate(dropped.tolist()):
            if gone:
                carried += max(float(self.cost[place]) - spared, 0.0)
            else:
                cost[place] += carried
                carried = 0.0
        kept = ~dropped
        floats = cost[kept], self.time[kept], self.delay[kept]
        return Queue(self.kind[kept], *floats, self.stream[kept], self.place[kept])

    def faster(self, host: float = 1.0, device: float = 1.0) -> Queue:
        """With all times of the host, or of the device, multiplied."""
        runs = self.runs
        time = np.where(runs, self.time * device, self.time * host)
        return replace(self, cost=self.cost * host, time=time, delay=self.delay * device)

    def schedule(self, steps: int = REPEATS) -> Schedule:
        """The last of a few steps that follow each other; with one, the step finds an idle device."""
        host, ends, done, before = 0.0, dict[int, float](), 0.0, 0.0
        columns = (self.kind, self.cost, self.time, self.delay, self.stream)
        rows = list(zip(*(column.tolist() for column in columns), strict=True))
        hosts, starts, stops = list[float](), list[float](), list[float]()
        for _ in range(steps):
            before = max(done, host)
            hosts, starts, stops = [], [], []
            for kind, cost, time, delay, stream in rows:
                host += cost
                start = end = host
                if kind == RUN:
                    start = max(host, ends.get(stream, 0.0)) + delay
                    end = ends[stream] = start + time
                    done = max(done, end)
                elif kind == SYNC:
                    host = max(host, done)
                else:
                    host += time
                hosts.append(host)
                starts.append(start)
                stops.append(end if kind == RUN else host)
        host_done, start_at, end_at = (np.array(times, dtype=np.float64) - before for times in (hosts, starts, stops))
        return Schedule(host_done, start_at, end_at, max(done, host) - before)

    def wall(self) -> float:
        """Seconds from the completion of a step to that of the next."""
        return self.schedule().wall

    def host_share(self, wall: float, lowest: float) -> float:
        """The share of the host's own work with which the step takes so long; within `lowest` and 1."""
        low, high = lowest, 1.0
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            if replace(self, cost=self.cost * middle).wall() < wall:
                low = middle
            else:
                high = middle
        return (low + high) / 2

    @property
    def busy(self) -> float:
        """Seconds of the runs, and of the gaps before those that the host does not dispatch (nodes of a replayed graph)."""
        replayed = np.where(self.cost == 0, self.delay, 0.0)
        return float((self.time + replayed)[self.runs].sum())

    @property
    def regime(self) -> str:
        return regime_of(self.wall(), self.busy)

    def critical_host(self) -> float | None:
        """The multiple of the host's times from which on the step is host-bound; None where nothing runs on a device."""
        limit = HOST_BOUND_FROM * self.busy
        if not limit:
            return None
        low, high = 1 / MAX_HOST_FACTOR, MAX_HOST_FACTOR
        for _ in range(BISECTIONS):
            middle = sqrt(low * high)
            if self.faster(host=middle).wall() > limit:
                high = middle
            else:
                low = middle
        return sqrt(low * high)


def regime_of(wall: float, busy: float) -> str:
    """The regime of a step by its wall time and the time that the device is busy: the sum of its kernel times."""
    return HOST_BOUND if wall > HOST_BOUND_FROM * busy else DEVICE_BOUND


def saved(before: Queue, after: Queue) -> float:
    """Seconds per step that a change of the queue saves."""
    return max(before.wall() - after.wall(), 0.0)
