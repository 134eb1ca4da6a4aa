"""The queue of a recorded step: its launches and waits in the order of the host, with the costs and delays of the trace."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...core.timeline import COPY
from ...prediction.queue import PAUSE, RUN, SYNC, Queue
from .kept import Floats, Ints, Kept

FULL_QUEUE = 900  # runs that wait on the device, from which a launch call waits for a free place
SAME = 50e-6  # seconds between a copy that blocked and the synchronisation that belongs to it
MAX_STEPS = 9  # whose costs are compared
DATA_LOADER = "data loader"  # what a wait for data is called


def typical_queue(kept: Kept, dispatch: float | None = None) -> Queue:
    """The queue of the median step, with the median cost of every event over the steps that have the same events.

    A host is disturbed at other places in every step; what it takes in most of them is its own work. So it is with its
    pauses: one that follows a single step is in the wall time of the next one, and in neither where the median is taken.
    """
    middle = queue(kept, kept.median_step, dispatch)
    queues = [middle] + [queue(kept, step, dispatch) for step in _sample(kept) if step != kept.median_step]
    alike = [each for each in queues if len(each) == len(middle) and (each.kind == middle.kind).all()]
    if len(alike) < 3:
        return middle
    cost, pauses = (
        np.median(np.stack(columns), axis=0) for columns in zip(*((q.cost, q.time) for q in alike), strict=True)
    )
    return replace(middle, cost=cost, time=np.where(middle.kind == PAUSE, pauses, middle.time))


def _sample(kept: Kept) -> range:
    """Some of the steps, evenly spread."""
    return range(0, kept.steps, max(kept.steps // MAX_STEPS, 1))


def queue(kept: Kept, step: int, dispatch: float | None = None) -> Queue:
    """The queue of a step; `dispatch` is the cost of a launch where the trace has no launches."""
    if kept.on_host:
        return _on_host(kept, step)
    places = kept.of_step(step)
    returned = kept.launched[places]
    recorded = not np.isnan(returned).any()
    # a launch call that blocks returns after its run has started
    sent = np.where(np.isnan(returned), kept.start[places], np.minimum(returned, kept.start[places]))
    order = np.argsort(sent, kind="stable")
    places, sent, returned = places[order], sent[order], returned[order]
    waits = _waits(kept, step, places, returned)
    kinds = np.concatenate([np.full(len(places), RUN), waits.kind])
    at = np.concatenate([sent, waits.start])
    until = np.concatenate([sent, waits.end])
    every = np.concatenate([places, waits.place])
    order = np.argsort(at, kind="stable")
    kinds, at, until, every = kinds[order], at[order], until[order], every[order]
    begin, end = kept.host_span(step)
    reached = np.maximum.accumulate(np.concatenate([[begin], until]))[:-1]
    cost, is_run = np.maximum(at - reached, 0.0), kinds == RUN
    cost[is_run] = _own_cost(kept, places, sent, cost[is_run])
    if not recorded:
        cost = np.where(is_run, dispatch or 0.0, 0.0)
    time = np.where(kinds == PAUSE, until - at, 0.0)
    time[is_run] = kept.time[places]
    delay, stream = np.zeros(len(at)), np.zeros(len(at), dtype=np.int64)
    delay[is_run], stream[is_run] = _delays(kept, places, sent, float(kept.begin[step])), kept.stream[places]
    tail = max(end - max(float(until.max()), begin), 0.0) if recorded else 0.0  # host work after the last event
    return Queue(
        np.append(kinds, PAUSE), np.append(cost, 0.0), np.append(time, tail), np.append(delay, 0.0),
        np.append(stream, 0), np.append(every, -1),
    )  # fmt: skip


def _own_cost(kept: Kept, places: Ints, sent: Floats, cost: Floats) -> Floats:
    """The cost of launches without the time they were held up because the queue of the device was full."""
    started = np.searchsorted(np.sort(kept.start[places]), sent, side="right")
    full = np.arange(len(places)) - started >= FULL_QUEUE
    free = cost[~full]
    return np.where(full, np.minimum(cost, np.median(free) if len(free) else 0.0), cost)


@dataclass(frozen=True)
class _Waits:
    kind: Ints
    start: Floats
    end: Floats
    place: Ints


def _waits(kept: Kept, step: int, places: Ints, returned: Floats) -> _Waits:
    """The waits of a step: for the device, for data, and launch calls that return when their run is done."""
    waits = kept.timeline.waits
    start, end = np.asarray(waits.start, dtype=np.float64), np.asarray(waits.end, dtype=np.float64)
    low, high = kept.host_span(step)
    listed = np.flatnonzero((start >= low) & (start < high))
    kinds = np.array([PAUSE if is_data_wait(waits.what[place]) else SYNC for place in listed], dtype=np.int64)
    blocking = _blocking(kept, places, returned)
    of_wait = _same_wait(start[listed], listed, returned[blocking])
    return _Waits(
        np.concatenate([kinds, np.full(int(blocking.sum()), SYNC)]),
        np.concatenate([start[listed], kept.start[places][blocking]]),
        np.concatenate([end[listed], returned[blocking]]),
        np.concatenate([listed, of_wait]),
    )


def _blocking(kept: Kept, places: Ints, returned: Floats) -> NDArray[np.bool_]:
    """Which launch calls wait for their run: copies that return after it, and kernels where all of them do.

    The call of a short kernel often returns after its run by chance, above all under a profiler; it has not waited for it.
    Kernels are waited for where the driver is told to block on every launch.
    """
    late, copies = returned >= kept.stop[places], kept.kinds(COPY)[places]
    every = bool(late[~copies].all()) and int((~copies).sum()) > 1
    return np.asarray(late & (copies | every))


def _same_wait(start: Floats, listed: Ints, returned: Floats) -> Ints:
    """The recorded wait that follows each launch call that blocked, -1 without any: both are one synchronisation."""
    if not len(listed):
        return np.full(len(returned), -1, dtype=np.int64)
    after = np.minimum(np.searchsorted(start, returned - SAME), len(listed) - 1)
    return np.where(np.abs(start[after] - returned) <= SAME, listed[after], -1)


def is_data_wait(what: str) -> bool:
    return what == DATA_LOADER


def _delays(kept: Kept, places: Ints, sent: Floats, begin: float) -> Floats:
    """Time between the earliest possible start of a run and its start: latency of launches, and of streams that wait.

    A step begins where the device finished the one before, so that no run could start earlier than that.
    """
    delay = np.zeros(len(places))
    ends: dict[int, float] = {}
    rows = zip(
        sent.tolist(),
        kept.start[places].tolist(),
        kept.stop[places].tolist(),
        kept.stream[places].tolist(),
        strict=True,
    )
    for index, (returned, start, stop, stream) in enumerate(rows):
        delay[index] = max(start - max(returned, ends.get(stream, begin)), 0.0)
        ends[stream] = max(stop, ends.get(stream, begin))
    return delay


def _on_host(kept: Kept, step: int) -> Queue:
    """Operators that run on the host itself: each one is done before the next begins."""
    places = kept.of_step(step)
    start, stop = kept.start[places], kept.stop[places]
    reached = np.maximum.accumulate(np.concatenate([[kept.begin[step]], stop]))[:-1]
    cost = np.maximum(start - reached, 0.0)
    count = len(places)
    kinds = np.tile([RUN, SYNC], count)
    columns = [np.zeros(2 * count) for _ in range(3)]
    columns[0][::2], columns[1][::2] = cost, kept.time[places]
    both = np.repeat(places, 2)
    tail = max(float(kept.end[step] - stop.max()), 0.0)
    return Queue(
        np.append(kinds, PAUSE), np.append(columns[0], 0.0), np.append(columns[1], tail), np.append(columns[2], 0.0),
        np.zeros(2 * count + 1, dtype=np.int64), np.append(both, -1),
    )  # fmt: skip
