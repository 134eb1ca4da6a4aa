"""Cliffs: sizes nearby that take less time although they are larger, or more although they are smaller.

A size that is off the alignment of vector loads gets a slower kernel, and padding it is faster; several that are off may
have to be padded together. And libraries change kernels between sizes: where timings of the machine say so, a larger
size may take less time than a smaller one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..core.errors import RidgelineError
from ..core.families.attention import WINDOW
from ..core.families.weight_only import UNPACKING
from ..core.units import enumerated, percent, show
from ..programs.ops import Op
from .basis import NOTABLE_DISTANCE
from .plain import plain
from .predict import Prediction, predict

ALIGNMENTS = (8, 16, 64, 128)  # elements, to which a size may be padded
SPLIT_ALIGNMENTS = (256, 512, 1024)  # also, of narrow weights, whose kernels split k in as many parts as are alike
SMALLER = (0.5, 0.75)  # of a size: below the timings nearby, and one octave below
NOTABLE = 0.03  # of the time; smaller differences are within the error of timings


def cliffs(op: Op, values: Mapping[str, Any], prediction: Prediction, options: Mapping[str, Any]) -> list[str]:
    """A sentence for each size of a single case that stands at a cliff, about the sharpest of its neighbours; or one about
    several sizes that only help padded together."""
    here = Here(op, values, prediction, options)
    sizes = {
        name: int(size)
        for name, size in values.items()
        if name in op.params
        and op.params[name].kind == "Size"
        and size is not None
        and here.grows_with(name, int(size))
    }
    window = here.without_window()
    sharpest = [window] if window is not None else []
    narrow = any(kernel.kernel.family == UNPACKING.name for kernel in prediction.expected[0].kernels)
    steps = (*ALIGNMENTS, *SPLIT_ALIGNMENTS) if narrow else ALIGNMENTS
    for name, size in sizes.items():
        if name == WINDOW and window is not None:
            continue
        others = (*_padded(size, steps), *_smaller(size))
        steep = [near for other in others if (near := here.neighbour(name, other)) is not None]
        if steep:
            sharpest.append(max(steep, key=lambda neighbour: neighbour.share))
    together = here.padded_together(sizes)
    if together is not None and together.share > max((one.share for one in sharpest), default=0.0) + NOTABLE:
        return [together.text, *(one.text for one in sharpest if not one.pads)]
    return [one.text for one in sharpest]


@dataclass(frozen=True)
class Neighbour:
    share: float  # of the longer time, by which the two differ
    text: str
    pads: bool = False


@dataclass(frozen=True)
class Here:
    """The case that neighbours are compared with."""

    op: Op
    values: Mapping[str, Any]
    prediction: Prediction
    options: Mapping[str, Any]

    def at(self, sizes: Mapping[str, int | None]) -> Prediction | None:
        """With other sizes; None where they do not fit each other."""
        try:
            return predict(self.op(**{**self.values, **sizes}), self.prediction.machine, **self.options)
        except RidgelineError:
            return None

    def grows_with(self, name: str, size: int) -> bool:
        """Whether more of a size is more work: a larger stride or more groups are less, which no case is padded to."""
        double, half = self.at({name: 2 * size}), self.at({name: size // 2}) if size > 1 else None
        less, more = (self.prediction, double) if double is not None else (half, self.prediction)
        if less is None or more is None:
            return True
        pairs = ((less.flops, more.flops), (less.bytes, more.bytes))
        return all(float(plain(fewer, 0)) <= float(plain(further, 0)) for fewer, further in pairs)

    def less(self, there: Prediction | None) -> float:
        """The share of the time here that a neighbour takes less; negative where it takes more."""
        return -1.0 if there is None else 1 - _seconds(there) / _seconds(self.prediction)

    def neighbour(self, name: str, size: int) -> Neighbour | None:
        """A size that takes less though it is larger, or more though it is smaller; None where it does not, or not by much."""
        there, larger = self.at({name: size}), size > self.values[name]
        share = self.less(there) if larger or there is None else 1 - _seconds(self.prediction) / _seconds(there)
        if there is None or share < NOTABLE:
            return None
        time = show(_seconds(there), "s")
        if larger and _kernels(self.prediction) != _kernels(there) and not self.falls_anyway(name, size):
            text = f"alignment: {name}={size} takes {time}, {percent(share)} less; pad {name}"
            return Neighbour(share, text, pads=True)
        if not _timed(self.prediction) or not _timed(there):
            return None
        than = "less than this smaller one" if larger else "more than this larger one"
        by = "extrapolated from" if max(_distance(self.prediction), _distance(there)) > NOTABLE_DISTANCE else "by"
        return Neighbour(share, f"kernel switch: {name}={size} takes {time}, {than}, {by} timings of this machine")

    def without_window(self) -> Neighbour | None:
        """No window, where it takes less: masks with one have a kernel of their own, and libraries a faster one for those without."""
        window = self.values.get(WINDOW)
        there = self.at({WINDOW: None}) if window is not None else None
        share = self.less(there)
        if there is None or share < NOTABLE:
            return None
        more = show(_seconds(self.prediction) - _seconds(there), "s")
        without = f"none, which takes {show(_seconds(there), 's')} by another kernel"
        return Neighbour(
            share,
            f"kernel switch: a window of {window:.0f} costs {more} more than {without}, by timings of this machine",
        )

    def falls_anyway(self, name: str, size: int) -> bool:
        """Whether a larger size that is aligned no better takes less as well: then it is not the alignment."""
        here = int(self.values[name])
        return self.less(self.at({name: size + (here & -here)})) >= NOTABLE

    def padded_together(self, sizes: Mapping[str, int]) -> Neighbour | None:
        """The sizes that are faster once all of them are padded, without those that need it not; None where that gains nothing."""
        padded = {name: min(_padded(size), default=size) for name, size in sizes.items()}
        padded = {name: size for name, size in padded.items() if size != sizes[name]}
        best = self.at(padded) if len(padded) > 1 else None
        share = self.less(best)
        if best is None or share < NOTABLE or _kernels(self.prediction) == _kernels(best):
            return None
        for name in tuple(padded):
            fewer = {other: size for other, size in padded.items() if other != name}
            if fewer and self.less(self.at(fewer)) > share - NOTABLE:
                padded = fewer
        there = self.at(padded)
        assert there is not None
        share, time = self.less(there), show(_seconds(there), "s")
        words = enumerated([f"{name}={size}" for name, size in padded.items()])
        if len(padded) == 1 or all(self.falls_anyway(name, size) for name, size in padded.items()):
            return None
        return Neighbour(
            share, f"alignment: {words} take {time}, {percent(share)} less; pad {enumerated([*padded])}", True
        )


def _seconds(prediction: Prediction) -> float:
    return float(plain(prediction.time, 0))


def _distance(prediction: Prediction) -> float:
    """How far the sizes are beyond those that were timed."""
    return float(plain(prediction.distance, 0))


def _timed(prediction: Prediction) -> bool:
    """Whether timings of this machine say when a kernel of it takes less as sizes grow."""
    return any(float(plain(falls, 0)) > 0 for _, falls in prediction.expected[0].parts)


def _kernels(prediction: Prediction) -> list[str]:
    """The variants of the kernels that run."""
    kernels = prediction.expected[0].kernels
    return [str(kernel.selected.key) for kernel in kernels if float(plain(kernel.applies, 0)) > 0]


def _padded(size: int, steps: Iterable[int] = ALIGNMENTS) -> Iterator[int]:
    for step in steps:
        if size % step:
            yield -(-size // step) * step


def _smaller(size: int) -> Iterator[int]:
    """Smaller sizes that are aligned as well."""
    step = next((step for step in reversed(ALIGNMENTS) if size % step == 0), 1)
    for share in SMALLER:
        smaller = int(size * share) // step * step
        if 0 < smaller < size:
            yield smaller
