"""ProgramReport: a recorded program against what its operators should take, with nothing else given.

The whole step comes first, then the moves that are worth most, then the operators by time. Device time that no rule
counts is named with its share; it is never given a prediction.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...core.cached import cached_property
from ...core.machine import Machine
from ...core.timeline import Timeline
from ...core.version import __version__
from ...machines.files import HERE
from ...prediction.predict import Prediction
from ..report import other_machines
from . import wording
from .dispatch import dispatch_time
from .groups import Group, groups
from .items import OpItem, Uncounted, items
from .kept import kept
from .moves import Move, moves
from .owners import FREE, HOST, WRAPPER
from .view import View

SCHEMA = 1
MAX_MOVES = 3  # in the answer
RAN_AHEAD = 0.95  # of the device time of a step, below which the time between two steps of the host is none of a step


@dataclass(frozen=True)
class ProgramReport:
    machine: Machine
    view: View
    items: tuple[OpItem, ...]  # in the order of the program
    uncounted: tuple[Uncounted, ...]
    moves: tuple[Move, ...]
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA
    ridgeline: str = __version__

    DOCUMENT: ClassVar = (
        "schema", "ridgeline", "machine=machine.name", "step=view", "moves", "explained_share=view.explained_share",
        "items", "coverage", "unmatched", "sealed", "notes", "sentence",
    )  # fmt: skip
    sealed: ClassVar = False

    @property
    def warnings(self) -> tuple[str, ...]:
        """The notes that doubt the comparison itself; the others say how the trace was read."""
        return tuple(note for note in self.notes if note not in self.view.kept.timeline.notes)

    @property
    def coverage(self) -> list[dict[str, Any]]:
        """Every operator without a prediction with its share of device time, the largest first."""
        total = self.view.explained_time + self.view.unexplained
        rows: dict[tuple[str, str], list[Uncounted]] = defaultdict(list)
        for item in self.uncounted:
            rows[item.group.owner.name, item.reason].append(item)
        listed = [
            {
                "op": op,
                "kernel": each[0].kernel,
                "count": sum(item.group.count for item in each),
                "us": (time := sum(item.group.time for item in each)) * 1e6,
                "share": time / total,
                "reason": reason,
            }
            for (op, reason), each in rows.items()
        ]
        return sorted(listed, key=lambda row: -row["us"])

    @property
    def unmatched(self) -> dict[str, list[str]]:
        return {"predicted": [], "observed": [item.name for item in self.uncounted]}

    @cached_property
    def by_time(self) -> list[OpItem]:
        return sorted(self.items, key=lambda item: -item.group.time)

    @property
    def answer(self) -> tuple[str, ...]:
        """The step in one line, then what the device waits for."""
        return wording.answer(self.view)

    @property
    def sentence(self) -> str:
        first = f" Worth most: {wording.move_line(self.moves[0])}." if self.moves else ""
        return f"{'. '.join(self.answer)}.{first}"

    def __repr__(self) -> str:
        return self.sentence

    def prediction(self, item: OpItem) -> Prediction:
        made: Prediction = item.group.fields["prediction"]
        return made


def program_report(
    timeline: Timeline, machine: Machine, step_time: float | None = None, launch_time: float | None = None
) -> ProgramReport:
    """Every run of the kept steps with its call, what that call should take, and what to change first.

    `step_time` is what a step takes without the profiler, where that is known, `launch_time` the dispatch cost of its launches.
    """
    runs = kept(timeline)
    grouped = groups(runs, machine)
    overhead = [group for group in grouped if _is_overhead(timeline, runs.on_host, group)]
    dispatch = dispatch_time(overhead) if runs.on_host else None
    explained, uncounted = items(runs, [group for group in grouped if group not in overhead], machine, dispatch)
    view = View(runs, machine, tuple(explained), tuple(uncounted), tuple(overhead), step_time, dispatch)
    if step_time is not None and not runs.on_host and step_time < RAN_AHEAD * view.device:
        view = replace(view, step_time=None)  # the host launched these steps ahead: how long they took was not timed
    if step_time is not None and launch_time is not None and launch_time < RAN_AHEAD * view.device < step_time:
        view = replace(
            view, step_time=view.device
        )  # a few steps have the start of the queue in them, which many have not
    notes = (*timeline.notes, *other_machines(machine, [timeline.conditions]), *_other_kind(machine, runs.on_host))
    return ProgramReport(machine, view, tuple(explained), tuple(uncounted), tuple(moves(view)), notes)


def _other_kind(machine: Machine, on_host: bool) -> tuple[str, ...]:
    """A warning where operators of a CPU are compared with a GPU, or kernels of a GPU with a CPU."""
    if (machine.kind == "gpu") != on_host:
        return ()
    ran, other = ("CPU", "GPU") if on_host else ("GPU", "CPU")
    named = f"the {other} of this machine" if machine.name == HERE else f"{machine.name}, a {other}"
    hint = "use --on with the machine of the trace"
    return (f"recorded on a {ran}, predicted for {named}: the gaps compare two machines; {hint}",)


def _is_overhead(timeline: Timeline, on_host: bool, group: Group) -> bool:
    """Time of an operator on the host that does no work itself: dispatch, not device time."""
    return on_host and group.owner.kind in (FREE, WRAPPER, HOST)
