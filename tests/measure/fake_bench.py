"""A device that times kernels, made of a list of events."""

from __future__ import annotations

from typing import Any

from ridgeline.core.errors import InputError
from ridgeline.measure.cuda.cases import Case
from ridgeline.measure.cuda.timing import Event

US = 1e-6


class FakeBench:
    """Runs a case as two kernels of n and 2n microseconds with a gap of one between them, on a clock of its own.

    `refuses` cannot be built, `breaks` fails in its first call, `loses` names cases whose second marker is dropped in
    the first `losses` sessions that hold them.
    """

    def __init__(self, refuses: int = 0, breaks: int = 0, loses: int = 0, losses: int = 0, warm: float = 0.0) -> None:
        self.refuses, self.breaks, self.loses, self.losses = refuses, breaks, loses, losses
        self.seconds = warm
        self.sessions: list[list[tuple[int, int]]] = []
        self.cleared = 0

    def build(self, case: Case) -> Any:
        if case["n"] == self.refuses:
            raise InputError("no default path")
        return lambda: case["n"]

    def warm(self, run: Any) -> float:
        if run() == self.breaks:
            raise RuntimeError("CUDA out of memory.\nmore lines")
        return self.seconds

    def trace(self, plan: Any) -> list[Event]:
        self.sessions.append([(run(), repeats) for run, repeats in plan])
        events, now = [], 0.0

        def add(name: str, microseconds: float) -> None:
            nonlocal now
            events.append(Event(name, now, now + microseconds * US))
            now += (microseconds + 1) * US

        for run, repeats in plan:
            lost = run() == self.loses and self.losses > 0
            self.losses -= lost
            for _ in range(repeats):
                add("reduce_kernel", 50)
                add("at::cuda::spin_kernel(long)", 1)
                add("void at::native::first<float>", run())
                add("Memset (Device)", 2 * run())
                if not lost:
                    add("at::cuda::spin_kernel(long)", 1)
        return events

    def conditions(self, begin: float, end: float) -> dict[str, float]:
        return {"sm_clock": 1.98e9}

    def clear(self) -> None:
        self.cleared += 1


def cases(*sizes: int) -> list[Case]:
    return [{"op": "relu", "dtype": "fp32", "n": n} for n in sizes]
