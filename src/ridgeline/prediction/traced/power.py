"""Power: steps that follow each other for long run no faster than the power limit lets them.

    energy of a step = flops x J/flop by engine + bytes at the main memory x J/B        (above static power)
    least time       = energy / (power limit - static power) x saved

Kernels are timed one by one on a device that is idle in between, at its highest clock. A program without pauses draws more
than the limit allows where its kernels are nearly all compute-bound, and the clock falls until it does not. A lower clock
takes less energy for the same work: `saved` (machines/power.py). A machine without energy figures has those of the measured one with
the same architecture, as in predictions of models; of other architectures nothing is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...core.machine import Machine
from ...core.terms import Term
from ...machines.power import seconds_per_joule
from ..energy_figures import energy_figures
from ..predict import Prediction
from ..queue import Floats


def least_time(machine: Machine, made: Sequence[Prediction | str], counts: Floats, cached: float) -> float:
    """Seconds that a step takes at the power limit; 0 where no energy figures answer it."""
    known, rate = energy_figures(machine), seconds_per_joule(machine)
    if known is None or not rate:
        return 0.0
    figures, per_byte = known.values, known.per_byte(machine)
    energy = -cached * per_byte
    for prediction, count in zip(made, counts.tolist(), strict=True):
        if isinstance(prediction, str) or not count:
            continue
        for step, bound in zip(prediction.steps, prediction.bounds, strict=True):
            each = sum(_energy(name, term, figures) for name, term in bound.terms.items())
            energy += count * float(np.asarray(step.count)) * (each + float(np.asarray(bound.work.bytes)) * per_byte)
    return max(energy, 0.0) * rate


def _energy(name: str, term: Term, figures: Mapping[str, float | None]) -> float:
    """Joules of an engine's flops; none for memories, which are counted by their bytes, and for engines without a figure."""
    each = figures.get(f"flop.{name}") if term.side == "compute" else None
    return 0.0 if each is None else float(np.asarray(term.amount)) * each
