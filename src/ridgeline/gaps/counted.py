"""Counted work: the FLOPs and bytes that kernels counted, as work, and its targets on a machine.

Kernels that counted the same kinds of amounts are predicted together, over arrays: a profile has thousands of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..core.cached import cached_property
from ..core.errors import RidgelineError
from ..core.machine import ANY, MAIN, Machine
from ..core.observation import Observation
from ..core.work import READ, FlopKey, MoveKey, Program, Step, Work
from ..prediction.ceilings import known_peak
from ..prediction.predict import predict
from .regime import MAIN_NAMES
from .target import Target, target_cases

ENGINES = {"tensor": "matrix", "vector": "vector"}  # a machine's units by the engines of Work
COUNTED = "counters"
ENGINE_NAMES = ("tensor.", "vector.")
USUAL = ("vector.fp32", "tensor.bf16")  # examples of engines
MAX_NAMED = 3  # unknown engines in a message


def main_bytes(machine: Machine, item: Observation) -> float | None:
    """Counted bytes at the main memory, None where they were not counted."""
    names = (machine.main.name, *MAIN_NAMES)
    return next((item.bytes[name] for name in names if name in item.bytes), None)


@dataclass(frozen=True)
class Places:
    """Which kernels have a known roof on a machine: one of an engine that it has, or that of the memory."""

    machine: Machine

    @cached_property
    def slowest(self) -> tuple[str, float] | None:
        """The slowest engine, and its ridge; None where the machine has no such figures."""
        machine = self.machine
        peaks = {
            name: peak
            for name in machine.peaks
            if name.startswith(ENGINE_NAMES) and (peak := known_peak(machine, name))
        }
        with suppress(RidgelineError):  # no ceiling of the main memory
            engine = min(peaks, key=lambda name: peaks[name], default="")
            return (engine, peaks[engine] / machine.bandwidth(MAIN).value) if engine else None
        return None

    def known(self, item: Observation) -> bool:
        """Whether all counted FLOPs are of engines that the machine has, or leave no doubt that the memory limits."""
        peaks = self.machine.peaks
        if ANY in peaks or all(name in peaks for name, flops in item.flops.items() if flops > 0):
            return True
        return self.on_any_engine(item)

    def on_any_engine(self, item: Observation) -> bool:
        """Whether the memory limits whatever the engine: the kernel is left of the ridge of the slowest one."""
        moved = main_bytes(self.machine, item)
        return bool(moved) and self.slowest is not None and sum(item.flops.values()) < self.slowest[1] * (moved or 0.0)


def unknown_engines(items: Iterable[Observation], machine: Machine) -> tuple[str, ...]:
    """Engines that the machine does not have, of kernels that have no place for it: `all` of a table that names none."""
    places = Places(machine)
    left_out = [item for item in items if not places.known(item)]
    names = dict.fromkeys(name for item in left_out for name, flops in item.flops.items() if flops > 0)
    return tuple(name for name in names if name not in machine.peaks)


def name_engine(names: Sequence[str], machine: Machine) -> str:
    """What to do about FLOPs whose engine the machine does not have."""
    listed = " or ".join(f"flops.{name}" for name in USUAL if name in machine.peaks)
    unknown = ", ".join(names[:MAX_NAMED])
    what = "the flops name no engine" if "all" in names else f"{machine.name} has no engine {unknown}"
    return f"{what}; name the column {listed or 'flops.ENGINE'} (`ridgeline machines {machine.name}` lists the engines)"


def roofline_figures(machine: Machine, item: Observation) -> dict[str, Any]:
    """Intensity, rate by engine, MFU and MBU of a launch, from its counters and the machine's ceilings.

    MFU is that of the engine whose FLOPs take longest at its peak; MBU is of the main memory. Intensity is that engine's
    FLOPs over the bytes at the main memory.
    """
    seconds, moved = item.median, main_bytes(machine, item)
    rate = {engine: flops / seconds for engine, flops in item.flops.items() if flops > 0}
    shares = {engine: value / peak for engine, value in rate.items() if (peak := known_peak(machine, engine))}
    figures: dict[str, Any] = {"rate": rate} if rate else {}
    if shares:
        engine = max(shares, key=lambda name: shares[name])
        figures |= {"engine": engine, "mfu": shares[engine]}
        if moved:
            figures["intensity"] = item.flops[engine] / moved
    elif moved and rate:
        figures["intensity"] = sum(item.flops.values()) / moved
    if moved is not None:
        with suppress(RidgelineError):  # no ceiling of the main memory
            figures["mbu"] = moved / seconds / machine.bandwidth(MAIN).value
    return figures


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
