"""The text of a program report: the step in one line, its phases, what the device waits for, the moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.units import counted, percent, show, show_interval
from .view import View, waits_for

if TYPE_CHECKING:
    from .moves import Move

MIN_IDLE_SHARE = 0.01  # of the step, from which a cause of idle time is named


def answer(view: View) -> tuple[str, ...]:
    """`step 41.2 ms (50.3 profiled) · device 38.9 ms (94 %) · device-bound · predicted 37.5 ms [34.1-41.0]`."""
    device = "operators" if view.kept.on_host else "device busy" if view.step_time is None else "device"
    # operators on the host are slower under the profiler, so that their share is that of the profiled step
    base = view.wall if view.kept.on_host else view.step
    busy = f"{device} {show(view.device, 's', 3)} ({percent(min(view.device / base, 1.0) if base else 0.0)})"
    pace = view.regime if view.pace is None else view.pace.text
    parts = [_step_time(view), busy, pace, _predicted(view)]
    return (" · ".join(part for part in parts if part), *_waiting(view), _steps(view))


def _only_profiled(view: View) -> bool:
    """Whether all steps ran under a profiler that slows them down; that of JAX hardly does."""
    return view.kept.on_host and not view.uses_jax and view.step_time is None


def _step_time(view: View) -> str:
    """The undisturbed step where it was timed, and the profiled one; torch's profiler slows operators of a CPU down."""
    if view.step_time is None:
        return f"step {show(view.wall, 's', 3)}{' profiled' if _only_profiled(view) else ''}"
    number, unit = show(view.step, "s", 3).split()
    profiled = show(view.wall, "s", 3).removesuffix(f" {unit}")
    return f"step {number} {unit} ({profiled} profiled)"


def _predicted(view: View) -> str:
    """The device time; of a program on the host the step without the profiler, which slows its operators down."""
    if view.predicted is None or view.low is None or view.high is None:
        return "no prediction"
    if not view.kept.on_host or view.predicted_wall is None:
        return f"predicted {show_interval(view.predicted, view.low, view.high)}"
    between = view.predicted_wall - view.predicted
    ends = (max(end + between, 0.0) for end in (view.low, view.high))
    return f"predicted step {show_interval(view.predicted_wall, *ends)}{' unprofiled' if _only_profiled(view) else ''}"


def _waiting(view: View) -> tuple[str, ...]:
    """What the device waits for, and the predicted wall time."""
    causes = {name: time for name, time in waits_for(view).items() if time >= MIN_IDLE_SHARE * view.wall}
    if view.kept.on_host or not causes:
        return ()
    listed = ", ".join(f"{name} {show(time, 's', 3)}" for name, time in sorted(causes.items(), key=lambda row: -row[1]))
    idle = show(view.idle, "s", 3)
    if view.step_time is None:
        return (f"device idle {idle}: {listed}",)
    return (f"device idle {show(view.step_idle, 's', 3)}; {idle} under the profiler: {listed}",)


def _steps(view: View) -> str:
    """How many steps the figures rest on, how they were recognised, the predicted wall time, what is explained."""
    how = {
        "profiler": "by the profiler",
        "marked": "marked",
        "repetition": "by repetition",
        "optimizer": "by optimizer",
        "data loader": "by data loader",
    }
    warmup = f" after {view.warmup} warm-up" if view.warmup else ""
    steps = f"{counted(view.steps, 'step')} {how.get(view.recognised_by, view.recognised_by)}{warmup}"
    if view.recognised_by == "single":
        steps = "the entire recording as one step"
    parts = [steps, "" if view.kept.on_host else f"{view.launches:,.0f} launches"]
    if view.predicted and view.kept.on_host:
        parts.append(f"predicted operators {show(view.predicted, 's', 3)}")
    elif view.predicted_wall:
        parts.append(f"predicted step {show(view.predicted_wall, 's', 3)} unprofiled")
    return " · ".join(
        part for part in (*parts, f"{percent(view.explained_share)} explained", view.machine.name) if part
    )


def move_line(move: Move) -> str:
    """The move, its gain and its cause."""
    gain = "" if move.gain is None else f"saves {show(move.gain, 's', 3)} per step"
    return f"{move.move}: {gain} ({move.cause})" if gain else f"{move.move} ({move.cause})"
