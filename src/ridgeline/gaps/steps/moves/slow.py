"""Operators that take longer than they should, whatever the reason: the timeline shows that, and not why."""

from __future__ import annotations

from collections.abc import Iterator

from ....core.units import percent, show
from ....prediction.coefficients import UNCALIBRATED
from ..view import View
from .move import POSSIBLE, Move, price

MAX_LISTED = 3  # operators
MIN_FACTOR = 1.2  # measured over expected time, and above the interval


def slower_than_expected(view: View) -> Iterator[Move]:
    """The operators above their interval in every step that lose most time; a time that rests on no timing accuses nobody.

    Where one step kept to the interval, what slowed the others down is around the operator: another program on its cores,
    or a page that was touched first.
    """
    slow = [
        item
        for item in view.items
        if item.calibration != UNCALIBRATED
        and min(item.group.samples, default=0.0) > max(item.gap.target.high, MIN_FACTOR * item.gap.target.time)
    ]
    slow.sort(key=lambda item: item.predicted - item.group.time)
    for item in slow[:MAX_LISTED]:
        gain, device = price(view, {item.group: item.gap.target.time})
        measured, expected = show(item.gap.measured, "s", 3), show(item.gap.target.time, "s", 3)
        evidence = (
            f"{measured} per call, expected {expected} (80 % interval to {show(item.gap.target.high, 's', 3)})",
            f"{percent(item.gap.share)} of roofline; calls per step: {item.gap.target.count:.3g}",
        )
        tool = "ridgeline profile --with ncu" if view.machine.kind == "gpu" else "perf stat or likwid-perfctr"
        move = f"find what slows {item.group.owner.name.rpartition('::')[2]} down: {tool}"
        yield Move("slower than expected", f"{item.name} slower than expected", move, gain, evidence,
                   POSSIBLE, device, item.group.sources[:1], (item.name,))  # fmt: skip
