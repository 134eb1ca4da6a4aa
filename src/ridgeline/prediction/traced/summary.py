"""A program's prediction in a few lines, the answer first: what Python and the command line print for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.units import percent, show, show_interval
from ..queue import DEVICE_BOUND
from .breakdown import PHASE, breakdown

if TYPE_CHECKING:
    from .breakdown import Part
    from .result import ProgramPrediction

MAX_LINES = 5  # ops that Python lists
MIN_SHARE = 0.005  # of a bound or a phase that is named


def summary(program: ProgramPrediction) -> str:
    """The answer, then the ops that take longest."""
    parts = breakdown(program)
    lines = [*answer(program), *(_line(part) for part in parts[:MAX_LINES])]
    more = len(parts) - MAX_LINES
    return "\n  ".join([*lines, *([f"... {more} more ops"] if more > 0 else [])])


def answer(program: ProgramPrediction) -> list[str]:
    """The wall time and what sets it; device and host time; where the device time goes; memory; what to know about it."""
    if not program.time and program.uncounted:
        return [headline(program), _memory(program), *program.notes]
    device = show_interval(program.time, program.low, program.high)
    roofline = f"{show(program.floor, 's', 3)} at the roofline"
    lines = [
        headline(program),
        f"device {device} in {show(round(program.kernels))} kernels, {roofline}; host dispatch {show(program.host, 's', 3)}",
        _where(program),
        _memory(program),
        *program.notes,
    ]
    return [line for line in lines if line]


def headline(program: ProgramPrediction) -> str:
    """`gpt2 train on h200-sxm, eager: 41.2 ms [38-45] · device-bound · MFU 31 % · 6.1 TFLOP · 1,124 kernels`."""
    name = f"{program.trace.name} on" if program.trace.name else "on"
    place = f"{name} {program.machine.name}, {program.mode}"
    if not program.time and program.uncounted:
        return f"{place}: time not known, no op has a prediction: {program.uncounted[0].reason}"
    parts = [
        f"{place}: {wall_text(program)}",
        program.regime,
        f"MFU {percent(program.mfu)}" if program.mfu else "",
        show(program.flops, "flop"),
        f"{show(round(program.kernels))} kernels",
        f"peak memory {show(program.peak_memory, 'B', 3)}",
    ]
    return " · ".join(part for part in parts if part)


def wall_text(program: ProgramPrediction) -> str:
    """The wall time; with its interval where kernel times set it, which is all that the interval is about."""
    if program.regime != DEVICE_BOUND or not program.time:
        return show(program.wall, "s", 3)
    return show_interval(program.wall, *wall_interval(program))


def wall_interval(program: ProgramPrediction) -> tuple[float, float]:
    """The wall time with all kernels at the low and at the high end of the interval of the device time."""
    walls = []
    for end in (program.low, program.high):
        factor = end / program.time
        on_host = factor if program.machine.kind == "cpu" else 1.0  # where the kernels are run by the host itself
        walls.append(program.queue.faster(host=on_host, device=factor).wall())
    return walls[0], walls[1]


def _where(program: ProgramPrediction) -> str:
    bounds = [f"{percent(share)} {bound}" for bound, share in program.bound_shares.items() if share >= MIN_SHARE]
    phases = [
        f"{part.name} {show(part.time, 's', 3)}"
        for part in breakdown(program, PHASE)
        if part.name and (part.share or 0.0) >= MIN_SHARE
    ]
    texts = [f"by bound: {', '.join(bounds)}"] if bounds else []
    texts += [f"by phase: {', '.join(phases)}"] if len(phases) > 1 else []
    return " · ".join(texts)


def _memory(program: ProgramPrediction) -> str:
    held = sorted(program.memory.at_peak.items(), key=lambda row: -row[1])
    texts = [f"{kind} {show(size, 'B', 3)}" for kind, size in held if size > MIN_SHARE * program.peak_memory]
    return f"at the peak of memory: {', '.join(texts)}" if texts else ""


def _line(part: Part) -> str:
    bound = f" · {part.bound}-bound" if part.bound and part.bound != "balanced" else ""
    share = f" ({percent(part.share)})" if part.share is not None else ""
    return f"{part.name} x{part.calls:g}: {show(part.time, 's', 3)}{share}{bound}"
