"""Coverage: which operators of a program have no count, and how much of it they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ...core.timeline import Call
from .counted import UNKNOWN, WORK, Counted
from .formats import format_of

Counts = Iterable[tuple[Call, Counted] | tuple[Call, Counted, float]]  # the third is the time of the call in seconds


@dataclass(frozen=True)
class UnknownOperator:
    name: str
    reason: str  # of its first call
    calls: int
    bytes: float  # of its tensors, each once a call
    share: float  # of the bytes of all calls, or of their time where times are given
    seconds: float = 0.0


@dataclass(frozen=True)
class Coverage:
    """`share` is that of the calls whose work is known, in time where times are given, else in bytes."""

    calls: int
    known: int
    share: float
    unknown: tuple[UnknownOperator, ...]
    timed: bool = False

    def __repr__(self) -> str:
        measure = "time" if self.timed else "bytes"
        lines = [f"{100 * self.share:.3g} % of {measure} known, {len(self.unknown)} operators unknown"]
        lines += [
            f"  {row.name} x{row.calls}: {100 * row.share:.3g} % of {measure}; {row.reason}" for row in self.unknown[:6]
        ]
        return "\n".join(lines)


def tensor_bytes(call: Call) -> float:
    """Bytes of all tensors of a call whose formats are known."""
    total = 0.0
    for tensor in (*call.tensors, *call.outputs):
        row, size = format_of(tensor.dtype) if tensor.dtype else None, 1.0
        for side in tensor.shape:
            size *= side
        total += size * row.bytes if row else 0.0
    return total


def coverage(counts: Counts) -> Coverage:
    """Which share of a program's calls is known: every operator without a count, largest first."""
    rows: dict[str, list[float]] = {}
    reasons: dict[str, str] = {}
    calls = known = 0
    measured = known_measure = 0.0
    timed = False
    for call, counted, *times in counts:
        if counted.kind not in (WORK, UNKNOWN):
            continue
        calls += 1
        timed = timed or bool(times)
        seconds = times[0] if times else 0.0
        moved = tensor_bytes(call)
        weight = seconds if times else moved
        measured += weight
        if counted.kind == WORK:
            known, known_measure = known + 1, known_measure + weight
            continue
        row = rows.setdefault(call.name, [0.0, 0.0, 0.0])
        reasons.setdefault(call.name, counted.reason)
        row[0], row[1], row[2] = row[0] + 1, row[1] + moved, row[2] + seconds
    total = measured or 1.0
    unknown = [
        UnknownOperator(name, reasons[name], int(row[0]), row[1], (row[2] if timed else row[1]) / total, row[2])
        for name, row in rows.items()
    ]
    share = known_measure / measured if measured else float(calls == known)
    return Coverage(calls, known, share, tuple(sorted(unknown, key=lambda item: (-item.share, item.name))), timed)
