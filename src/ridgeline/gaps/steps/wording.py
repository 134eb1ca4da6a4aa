"""The text of a program report: the step in one line, its phases, what the device waits for, the moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.units import counted, percent, show, show_interval
from .view import View, waits_for

if TYPE_CHECKING:
    from .moves import Move

MIN_IDLE_SHARE = 0.01  # of the step, from which a cause of idle time is named


def answer(view: View) -> tuple[str, ...]:
    """`step 41.2 ms · device busy 38.9 ms (94 %) · device-bound · predicted 37.5 ms [34.1-41.0] · 97 % explained`."""
    device = "operators" if view.kept.on_host else "device busy"
    busy = f"{device} {show(view.device, 's', 3)} ({percent(view.device / view.wall if view.wall else 0.0)})"
    parts = [f"step {show(view.wall, 's', 3)}", busy, view.regime, _predicted(view)]
    parts.append(f"{percent(view.explained_share)} explained")
    return (" · ".join(part for part in parts if part), *_waiting(view), _steps(view))


def _predicted(view: View) -> str:
    if view.predicted is None or view.low is None or view.high is None:
        return "no prediction"
    return f"predicted {show_interval(view.predicted, view.low, view.high)}"


def _waiting(view: View) -> tuple[str, ...]:
    """What the device waits for, and the predicted wall time."""
    causes = {name: time for name, time in waits_for(view).items() if time >= MIN_IDLE_SHARE * view.wall}
    if view.kept.on_host or not causes:
        return ()
    listed = ", ".join(f"{name} {show(time, 's', 3)}" for name, time in sorted(causes.items(), key=lambda row: -row[1]))
    return (f"device idle {show(view.idle, 's', 3)}: {listed}",)


def _steps(view: View) -> str:
    """How many steps the figures rest on, how they were recognised, and the predicted wall time."""
    how = {"profiler": "by the profiler", "marked": "marked", "repetition": "by repetition"}.get(view.recognised_by, "")
    left = f" after {view.warmup} of warm-up" if view.warmup else ""
    steps = f"median of {counted(view.steps, 'step')} {how}{left}"
    if view.recognised_by == "single":
        steps = "the entire recording as one step"
    parts = [steps, "" if view.kept.on_host else f"{view.launches:,.0f} launches"]
    if view.predicted_wall:
        parts.append(f"predicted step {show(view.predicted_wall, 's', 3)} without profiler")
    return " · ".join(part for part in (*parts, view.machine.name) if part)


def move_line(move: Move) -> str:
    """The move, its gain and its cause."""
    gain = "" if move.gain is None else f"saves {show(move.gain, 's', 3)} per step"
    return f"{move.move}: {gain} ({move.cause})" if gain else f"{move.move} ({move.cause})"
