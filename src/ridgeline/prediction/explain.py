"""Explanation: the operators of a function with their counts, and their times on a machine.

The function runs once, on the arguments it is given, and every operator that reaches PyTorch's dispatcher is counted: those
of the backward pass and of optimizers too. Equal calls are one row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.bound import bound_words
from ..core.errors import RidgelineError
from ..core.machine import Machine
from ..core.timeline import Call
from ..core.units import counted as counted_text
from ..core.units import percent, show, show_interval
from ..core.work import Program, Step
from ..machines.load import as_machine, default, load
from ..programs.aten import Counted, Coverage, Settings, count, coverage
from ..programs.torch_dispatch import record
from .predict import Prediction, predict

MAX_LINES = 4  # operators that the repr names
COLUMNS = ("operator", "work", "calls", "flops", "bytes", "intensity", "floor_us", "time_us", "bound")


@dataclass(frozen=True)
class Operator:
    """Equal calls of an operator: what one of them does, and how often it was called."""

    call: Call
    counted: Counted
    calls: int
    prediction: Prediction | None = None  # of one call

    @property
    def flops(self) -> float:
        return self.calls * float(np.max(np.asarray(self.counted.work.flops))) if self.counted.work else 0.0

    @property
    def bytes(self) -> float:
        return self.calls * float(np.max(np.asarray(self.counted.work.bytes))) if self.counted.work else 0.0

    @property
    def time(self) -> float:
        return self.calls * float(self.prediction.time) if self.prediction else 0.0

    @property
    def floor(self) -> float:
        return self.calls * float(self.prediction.floor) if self.prediction else 0.0

    def row(self) -> dict[str, Any]:
        """The sums over its calls; times are absent without a machine."""
        work = self.counted.work
        row: dict[str, Any] = {"operator": self.call.name, "work": repr(work).partition(":")[0] if work else ""}
        row |= {"calls": self.calls, "flops": self.flops, "bytes": self.bytes}
        row["intensity"] = self.flops / self.bytes if self.bytes else None
        if self.prediction is not None:
            row |= {"floor_us": 1e6 * self.floor, "time_us": 1e6 * self.time}
            row["bound"] = str(self.prediction.bounds[0].bound) if len(self.prediction.bounds) == 1 else ""
        return row


@dataclass(frozen=True)
class Explanation:
    """The operators with work, longest first; without a machine, those that move most first."""

    operators: tuple[Operator, ...]
    coverage: Coverage
    calls: int  # all that reached the dispatcher, views and allocations too
    result: Any  # what the function returned
    machine: Machine | None = None
    prediction: Prediction | None = None  # of all calls one after the other
    notes: tuple[str, ...] = ()

    @property
    def flops(self) -> float:
        return sum(operator.flops for operator in self.operators)

    @property
    def bytes(self) -> float:
        return sum(operator.bytes for operator in self.operators)

    @property
    def program(self) -> Program:
        """The calls with work as a program, for another machine or another study."""
        return _program([(item.call, item.counted, item.calls) for item in self.operators])

    def rows(self) -> list[dict[str, Any]]:
        return [operator.row() for operator in self.operators]

    def __repr__(self) -> str:
        return "\n".join([*self._head(), *self._lines(MAX_LINES)])

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._lines(len(self.operators))])

    def _head(self) -> list[str]:
        amounts = [show(self.flops, "flop"), show(self.bytes, "B")]
        amounts += [f"AI {show(self.flops / self.bytes, 'flop/B')}"] if self.bytes else []
        lines = [f"{counted_text(self.calls, 'operator call')}: {' · '.join(amounts)}"]
        if self.prediction is not None and self.machine is not None:
            ends = (
                float(np.max(np.asarray(end)))
                for end in (self.prediction.time, self.prediction.low, self.prediction.high)
            )
            floor = float(np.max(np.asarray(self.prediction.floor)))
            lines[0] = f"{show_interval(*ends)} on {self.machine.name} · roofline {show(floor, 's', 3)} · {lines[0]}"
        for row in self.coverage.unknown[:MAX_LINES]:
            share = f"{percent(row.share)} of bytes"
            lines.append(f"  not counted: {row.name} x{row.calls}, {share}: {row.reason}")
        return [*lines, *(f"  {note}" for note in self.notes)]

    def _lines(self, limit: int) -> list[str]:
        texts = [_cells(operator) for operator in self.operators[:limit]]
        widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
        lines = [
            "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in texts
        ]
        more = len(self.operators) - limit
        return [*lines, *([f"  ... {counted_text(more, 'more operator')}"] if more > 0 else [])]


def _cells(operator: Operator) -> tuple[str, ...]:
    """One operator as texts: name, work, how often, amounts, times."""
    row = operator.row()
    cells = [f"{row['operator'].removeprefix('aten::')} x{row['calls']}", str(row["work"])]
    cells += [show(row["flops"], "flop"), show(row["bytes"], "B")]
    cells.append(f"AI {show(row['intensity'], 'flop/B')}" if row["intensity"] is not None else "")
    if "time_us" in row:
        cells += [show(row["time_us"] / 1e6, "s", 3), bound_words(row["bound"]) if row["bound"] else ""]
    return tuple(cells)


def explain(
    function: Callable[..., Any], *args: Any, on: Machine | str | Path | None = None, **kwargs: Any
) -> Explanation:
    """What a PyTorch function does: run once on these arguments, every operator with its flops, bytes and time.

    `on` is the machine whose times are wanted; without it this machine, once measured, else counts alone. Tensors may be on
    any device; on the device `meta` nothing is computed, and large models are counted in a moment.
    """
    recorded = record(function, args, kwargs)
    machine = _machine(on, recorded.device)
    device = recorded.device if machine is None else "cpu" if machine.kind == "cpu" else "cuda"
    settings = Settings(recorded.tf32, recorded.conv_tf32, device, leaf=True)
    numbers: dict[Call, int] = {}
    for call in recorded.calls:
        numbers[call] = numbers.get(call, 0) + 1
    counts = {call: count(call, settings) for call in numbers}
    seen = coverage((call, counts[call]) for call in recorded.calls)
    worked = [(call, counts[call], calls) for call, calls in numbers.items() if counts[call].work is not None]
    prediction, notes = _predicted(worked, machine)
    parts = [prediction.step(place) for place in range(len(worked))] if prediction else [None] * len(worked)
    operators = [Operator(*item, part) for item, part in zip(worked, parts, strict=True)]
    operators.sort(key=lambda item: (-item.time, -item.bytes, item.call.name))
    return Explanation(
        tuple(operators), seen, len(recorded.calls), recorded.result, machine if prediction else None, prediction, notes
    )


def _machine(on: Machine | str | Path | None, device: str) -> Machine | None:
    if on is not None:
        return as_machine(on)
    return load("here:gpu") if device == "cuda" else default()


def _program(worked: Sequence[tuple[Call, Counted, int]]) -> Program:
    steps = (
        Step(call.name, counted.work, float(calls), counted.backend)
        for call, counted, calls in worked
        if counted.work is not None
    )
    return Program(tuple(steps))


def _predicted(
    worked: Sequence[tuple[Call, Counted, int]], machine: Machine | None
) -> tuple[Prediction | None, tuple[str, ...]]:
    """The prediction of all calls; without one where the machine lacks a ceiling that they need, and why."""
    if machine is None or not worked:
        return None, () if worked else ("no operator of this function does work on a device",)
    try:
        return predict(_program(worked), machine), ()
    except RidgelineError as error:
        return None, (f"no times on {machine.name}: {error}",)
