"""Cliffs: sizes nearby that take less time although they are larger, or more although they are smaller.

A size that is off the alignment of vector loads gets a slower kernel, and padding it is faster. And libraries change
kernels between sizes: where timings of the machine say so, a larger size may take less time than a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import RidgelineError
from ..core.units import percent, show
from ..programs.ops import Op
from .coefficients import CALIBRATED
from .predict import Prediction, plain, predict

ALIGNMENTS = (8, 16, 64, 128)  # elements, to which a size may be padded
SMALLER = (0.5, 0.75)  # of a size: below the timings nearby, and one octave below
NOTABLE = 0.03  # of the time; smaller differences are within the error of timings


def cliffs(op: Op, values: Mapping[str, Any], prediction: Prediction, options: Mapping[str, Any]) -> list[str]:
    """A sentence for each size of a single case that stands at a cliff, about the sharpest of its neighbours."""
    notes = []
    for name, size in values.items():
        param = op.params.get(name)
        if param is None or param.kind != "Size" or size is None:
            continue
        steep = [
            neighbour
            for other in (*_padded(int(size)), *_smaller(int(size)))
            if (neighbour := _neighbour(op, values, name, other, prediction, options)) is not None
        ]
        if steep:
            notes.append(max(steep, key=lambda neighbour: neighbour.share).text)
    return notes


@dataclass(frozen=True)
class Neighbour:
    share: float  # of the longer time, by which the two differ
    text: str


def _neighbour(
    op: Op, values: Mapping[str, Any], name: str, size: int, here: Prediction, options: Mapping[str, Any]
) -> Neighbour | None:
    """A size that takes less though it is larger, or more though it is smaller; None where it does not, or not by much."""
    try:
        there = predict(op(**{**values, name: size}), here.machine, **options)
    except RidgelineError:  # sizes that do not fit each other
        return None
    larger, smaller = (there, here) if size > values[name] else (here, there)
    share = 1 - float(plain(larger.time, 0)) / float(plain(smaller.time, 0))
    if share < NOTABLE:
        return None
    time = show(float(plain(there.time, 0)), "s")
    if _kernels(here) != _kernels(there) and size > values[name]:
        return Neighbour(share, f"alignment: {name}={size} takes {time}, {percent(share)} less; pad {name}")
    if not _timed(here) or not _timed(there):
        return None
    than = "less than this smaller one" if size > values[name] else "more than this larger one"
    text = f"kernel switch: {name}={size} takes {time}, {than}, by timings of this machine"
    return Neighbour(share, text)


def _timed(prediction: Prediction) -> bool:
    return str(plain(prediction.expected[0].label, 0)) == CALIBRATED


def _kernels(prediction: Prediction) -> list[str]:
    """The variants of the kernels that run."""
    kernels = prediction.expected[0].kernels
    return [str(kernel.selected.key) for kernel in kernels if float(plain(kernel.applies, 0)) > 0]


def _padded(size: int) -> Iterator[int]:
    for step in ALIGNMENTS:
        if size % step:
            yield -(-size // step) * step


def _smaller(size: int) -> Iterator[int]:
    """Smaller sizes that are aligned as well."""
    step = next((step for step in reversed(ALIGNMENTS) if size % step == 0), 1)
    for share in SMALLER:
        smaller = int(size * share) // step * step
        if 0 < smaller < size:
            yield smaller
