"""A program's prediction in a few lines, the answer first: what Python prints for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.units import percent, show, show_interval

if TYPE_CHECKING:
    from .result import OpTime, ProgramPrediction

MAX_LINES = 5  # ops that are listed


def summary(program: ProgramPrediction) -> str:
    """Wall time and regime, device and host time, amounts, memory; then the ops that take longest."""
    what = f"{program.trace.name} " if program.trace.name else ""
    head = f"{show(program.wall, 's', 3)} {what}on {program.machine.name}, {program.mode} · {program.regime}"
    head += f" · MFU {percent(program.mfu)}" if program.mfu else ""
    device = show_interval(program.time, program.low, program.high)
    lines = [
        head,
        f"  device {device}, {program.kernels:,.0f} kernels; host {show(program.host, 's', 3)}; roofline {show(program.floor, 's', 3)}",
        f"  {_amounts(program)}; peak memory {show(program.peak_memory, 'B', 3)}",
    ]
    if program.bound_shares:
        shares = ", ".join(f"{percent(share)} {bound}" for bound, share in program.bound_shares.items())
        lines.append(f"  device time by bound: {shares}")
    lines += [f"  {note}" for note in program.notes]
    ranked = sorted(program.ops, key=lambda item: -item.time)
    lines += [f"  {_line(item, program.time)}" for item in ranked[:MAX_LINES]]
    more = len(ranked) - MAX_LINES
    return "\n".join([*lines, *([f"  ... {more} more ops"] if more > 0 else [])])


def _amounts(program: ProgramPrediction) -> str:
    amounts = [show(program.flops, "flop"), show(program.bytes, "B")]
    amounts += [f"AI {show(program.intensity, 'flop/B')}"] if program.intensity else []
    return " · ".join(amounts)


def _line(item: OpTime, total: float) -> str:
    at = f" in {item.module}" if item.module else ""
    bound = f" · {item.bound}-bound" if item.bound and item.bound != "balanced" else ""
    share = f" ({percent(item.time / total)})" if total else ""
    return f"{item.name} x{item.count:g}{at}: {show(item.time, 's', 3)}{share}{bound}"
