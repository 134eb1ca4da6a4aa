"""Move: one change of a program with its cause, its evidence and its gain; and the pricing of changed runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import ClassVar

import numpy as np

from ....core.work import Work
from ....prediction.kernel_steps import ran_with
from ....prediction.predict import predict
from ....prediction.queue import saved
from ..groups import Group
from ..kept import Floats, Ints
from ..view import View

SHOWN, POSSIBLE = "shown", "possible"
MAX_SOURCES = 3


@dataclass(frozen=True)
class Move:
    rule: str
    cause: str
    move: str
    gain: float | None  # seconds per step
    evidence: tuple[str, ...]
    status: str = SHOWN
    device: float | None = None  # seconds of device time per step in it
    sources: tuple[str, ...] = ()
    items: tuple[str, ...] = ()

    DOCUMENT: ClassVar = (
        "rule", "status", "cause", "move", "gain_us=gain", "device_gain_us=device", "evidence", "sources?", "items?",
    )  # fmt: skip

    @property
    def shown(self) -> bool:
        return self.status == SHOWN


def sources(groups: Iterable[Group]) -> tuple[str, ...]:
    """The lines of the program that groups come from, those with most time first."""
    ranked = sorted(groups, key=lambda group: -group.time)
    return tuple(dict.fromkeys(line for group in ranked for line in group.sources))[:MAX_SOURCES]


def expected(view: View, work: Work, backend: str = "") -> float:
    """Seconds that a piece of work is expected to take on the machine."""
    return float(np.asarray(predict(ran_with(work, backend), view.machine).time))


def price(
    view: View, times: Mapping[Group, float], dropped: Ints | None = None, spared: float = inf
) -> tuple[float, float]:
    """Gain per step, and the device time in it, of groups that take other times per call; `dropped` runs disappear.

    With a run, up to `spared` seconds of the host work before its launch disappear.
    """
    return price_runs(view, with_times(view, times), dropped, spared)


def with_times(view: View, times: Mapping[Group, float], gone: Ints | None = None) -> Floats:
    """The time of every kept run with other times per call of some groups, none longer than it is.

    Runs that are `gone` take no time; the others of their group take what the group is given.
    """
    changed: Floats = view.kept.time.copy()
    if gone is not None:
        changed[gone] = 0.0
    for group, each in times.items():
        measured = changed[group.runs].sum()
        if measured > 0:
            changed[group.runs] *= min(each * group.calls.sum() / measured, 1.0)
    return changed


def price_runs(
    view: View, changed: Floats, dropped: Ints | None = None, spared: float = inf, launches: Floats | None = None
) -> tuple[float, float]:
    """The same with the new time of every kept run, and launches that the host makes in addition before each."""
    queue = view.unrecorded
    gone = np.zeros(len(changed), dtype=np.bool_)
    if dropped is not None:
        gone[dropped] = True
    device = float((view.kept.time - np.where(gone, 0.0, changed)).sum()) / view.steps
    places, runs = queue.place[queue.runs], queue.runs
    after = queue.with_times(changed[places])
    if launches is not None:
        cost = after.cost.copy()
        cost[runs] += launches[places] * float(np.median(queue.cost[runs]))
        after = replace(after, cost=cost)
    if gone.any():
        mask = np.zeros(len(queue), dtype=np.bool_)
        mask[runs] = gone[places]
        after = after.without(mask, spared)
    return saved(queue, after), device
