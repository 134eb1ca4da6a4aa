"""Counted work: the FLOPs and bytes that kernels counted, as work, and its targets on a machine.

Kernels that counted the same kinds of amounts are predicted together, over arrays: a profile has thousands of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..core.errors import RidgelineError
from ..core.machine import MAIN, Machine
from ..core.observation import Observation
from ..core.work import READ, FlopKey, MoveKey, Program, Step, Work
from ..prediction.predict import predict
from .regime import MAIN_NAMES
from .target import Target, target_cases

ENGINES = {"tensor": "matrix", "vector": "vector"}  # a machine's units by the engines of Work
COUNTED = "counters"


def main_bytes(machine: Machine, item: Observation) -> float | None:
    """Counted bytes at the main memory, None where they were not counted."""
    names = (machine.main.name, *MAIN_NAMES)
    return next((item.bytes[name] for name in names if name in item.bytes), None)


def counted_work(item: Observation, machine: Machine) -> Work | None:
    """The counted FLOPs and bytes as work; None where nothing was counted that the machine has a ceiling for."""
    counts: dict[FlopKey, Any] = {}
    for engine, flops in item.flops.items():
        unit, _, dtype = engine.partition(".")
        if flops > 0 and unit in ENGINES and engine in machine.peaks and machine.engine(ENGINES[unit], dtype) == engine:
            counts[ENGINES[unit], dtype, COUNTED] = flops
    moved = main_bytes(machine, item)
    moves: Mapping[MoveKey, Any] = {(MAIN, "data", READ): moved} if moved else {}
    if not counts and not moves:
        return None
    dtype = max(counts, key=lambda key: counts[key])[1] if counts else ""
    name = item.name or item.kernel
    return Work(counts=counts, moves=moves, waits={"launch": 1.0}, name=name, family="custom", dtype=dtype)


def counted_targets(items: Sequence[Observation], machine: Machine) -> list[Target | None]:
    """The counted work of each kernel as its target; None where nothing was counted that the machine has a ceiling for."""
    works = [counted_work(item, machine) for item in items]
    alike: dict[Any, list[int]] = defaultdict(list)
    for place, work in enumerate(works):
        if work is not None:
            alike[tuple(work.counts), tuple(work.moves), work.dtype].append(place)
    targets: list[Target | None] = [None] * len(items)
    for places in alike.values():
        group = [work for place in places if (work := works[place]) is not None]
        try:
            prediction = predict(Program((Step(COUNTED, _stacked(group)),)), machine)
        except RidgelineError:
            continue  # the machine has no ceiling for it
        names = [work.name for work in group]
        for place, target in zip(places, target_cases(prediction, names, group, algorithm_known=False), strict=True):
            targets[place] = target
    return targets


def _stacked(works: Sequence[Work]) -> Work:
    """Works with the same kinds of amounts as one over arrays."""
    first = works[0]
    counts = {key: np.array([float(work.counts[key]) for work in works]) for key in first.counts}
    moves = {key: np.array([float(work.moves[key]) for work in works]) for key in first.moves}
    return replace(first, counts=counts, moves=moves, name=COUNTED)
