"""Critical batch: from how many sequences on the decode steps of a model, and each of their ops, are compute-bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.machine import Machine
from ...programs.models.program import COMMUNICATION, ModelOp
from .step import StepPrediction, has_products, predict_steps

STEP, WEIGHTS = "step", "products with weights"
ROUNDING = 1e-12
BATCHES = np.unique(np.round(np.geomspace(1, 2**24, 690)))


@dataclass(frozen=True)
class CriticalBatch:
    """`batch` is None where the op is memory-bound at any batch, as attention is: every sequence brings its own keys."""

    name: str
    batch: int | None

    DOCUMENT: ClassVar = ("name", "batch")


def critical_batches(
    ops_at: Callable[[NDArray[np.float64]], tuple[ModelOp, ...]], machine: Machine, ceilings: str | None = None
) -> tuple[CriticalBatch, ...]:
    """Of the entire step, of all products with weights together, then of every op that does matrix products; `ops_at` gives the ops for batches."""
    [step] = predict_steps([ops_at(BATCHES)], machine, ceilings)
    # attention may have weights, its sinks, and multiplies none of them
    weighted = tuple(
        item
        for item in step.ops
        if np.any(np.asarray(item.op.weights)) and has_products(item.op) and not item.op.name.startswith("attention")
    )
    rows = [
        CriticalBatch(STEP, _first(*_sides(step))),
        CriticalBatch(WEIGHTS, _first(*_sides(StepPrediction(machine, weighted)))),
    ]
    for item in step.ops:
        if has_products(item.op) and item.op.part != COMMUNICATION:
            rows.append(CriticalBatch(item.op.name, _first(*_sides(StepPrediction(machine, (item,))))))
    return tuple(dict.fromkeys(rows))


def _sides(step: StepPrediction) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Seconds of arithmetic and of memory traffic at the ceilings, for every batch."""
    compute, memory = np.zeros(len(BATCHES)), np.zeros(len(BATCHES))
    for item in step.ops:
        for bound in item.prediction.bounds:
            compute = compute + np.asarray(bound.compute_time) * item.op.count
            memory = memory + np.asarray(bound.memory_time) * item.op.count
    return compute, memory


def _first(compute: NDArray[np.float64], memory: NDArray[np.float64]) -> int | None:
    """The first batch whose arithmetic takes as long as its traffic: both grow evenly from one of `BATCHES` to the next."""
    over = np.flatnonzero((compute >= memory) & (compute > 0))
    if not len(over):
        return None
    place = int(over[0])
    if place == 0:
        return int(BATCHES[0])
    (before, after), excess = BATCHES[place - 1 : place + 1], (compute - memory)[place - 1 : place + 1]
    turn = before + (after - before) * excess[0] / (excess[0] - excess[1])
    return math.ceil(float(turn) * (1 - ROUNDING))
