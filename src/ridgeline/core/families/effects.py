"""Effects of kernel formulas, and the items of time they cause."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = float | NDArray[np.float64]
# What an item of time comes from: the work itself, launching, the shape of the problem, a correction of the formula.
ItemKind = Literal["main", "launch", "shape", "correction", "other"]


@dataclass(frozen=True)
class Effect:
    """What a formula can be asked to leave out, by `name`; `label` is the effect of its item of time."""

    name: str
    label: str
    kind: ItemKind = "other"


LAUNCH = Effect("launch", "launch", "launch")
TILES = Effect("quantization", "tiles and waves", "shape")
FILL = Effect("fill", "fill and drain", "shape")
RAMP = Effect("ramp", "ramp-up", "shape")
CLOCK = Effect("clock", "clock under load")
OVERLAP = Effect("overlap", "imperfect overlap")


@dataclass(frozen=True)
class TimeItem:
    """Seconds that one effect adds to an expected time; negative where it saves some."""

    effect: str
    kind: ItemKind
    seconds: Array
    kernel: str = ""  # where a step has several
    step: str = ""  # where a program has several


def merged(items: Iterable[TimeItem]) -> tuple[TimeItem, ...]:
    """Items of the same effect, kernel and step added up, in order of first appearance."""
    sums: dict[tuple[str, str, str, str], TimeItem] = {}
    for item in items:
        place = (item.step, item.kernel, item.effect, item.kind)
        sums[place] = replace(item, seconds=sums[place].seconds + item.seconds) if place in sums else item
    return tuple(sums.values())
