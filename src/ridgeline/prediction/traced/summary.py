"""A program's prediction in a few lines, the answer first: what Python and the command line print for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.units import percent, show, show_interval
from ..answer_line import SURE
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
    roofline = f"{show(program.roofline, 's', 3)} at the roofline"
    lines = [
        headline(program),
        f"device {device} in {kernels_text(program)}, {roofline}; host dispatch {show(program.host, 's', 3)}",
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
        regime_text(program),
        f"MFU {percent(program.mfu)}" if program.mfu else "",
        show(program.flops, "flop"),
        kernels_text(program),
        f"peak memory {show(program.peak_memory, 'B', 3)}",
    ]
    return " · ".join(part for part in parts if part)


def kernels_text(program: ProgramPrediction) -> str:
    count = round(program.kernels)
    return f"{show(count)} kernel{'' if count == 1 else 's'}"


def regime_text(program: ProgramPrediction) -> str:
    """`host-bound`; with the confidence in it below 95 %, and as balanced where either may set the pace."""
    sure = program.regime_confidence
    text = f"{program.regime}, {percent(sure)} confidence" if sure < SURE else program.regime
    return f"balanced ({text})" if program.balanced else text


def wall_text(program: ProgramPrediction) -> str:
    """The wall time with its interval."""
    if not program.time:
        return show(program.wall, "s", 3)
    return show_interval(program.wall, program.wall_low, program.wall_high)


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
