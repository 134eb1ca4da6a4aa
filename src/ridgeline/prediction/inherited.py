"""Inherited: the expected time of a kernel that no library has, from the kernels that it was made from.

    left_i = launch_i + (time_i - launch_i) x floor of what is left of source i / floor of source i
    time   = launch + sum(left_i - launch_i) x floor / sum of the floors of what is left

The kernel reaches the share of its roofline that its sources reach together. It takes as long as the longest source at
least, and no longer than all of them one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.bound import bound
from ..core.families import TimeItem, merged
from ..core.machine import Machine
from ..core.work import Array, largest, total
from .expected import Expected, flat_items, flat_time
from .kernel_times import KernelTime

if TYPE_CHECKING:
    from .predict import Prediction

MADE_FROM = "never timed, at the share of roofline of the kernels it is made from: "


@dataclass(frozen=True)
class SourceTime:
    """The prediction of a source as it runs alone, and the floor of what is left of it."""

    prediction: Prediction
    left_floor: Array

    @cached_property
    def launch(self) -> Array:
        """Seconds of the launches; a correction may take the time of a tiny kernel below the fitted one."""
        launches = total(item.seconds for item in self.prediction.items if item.kind == "launch")
        return np.minimum(launches, self.prediction.time)

    @cached_property
    def share(self) -> Array:
        """What is left of its time beyond the launch."""
        floor = np.asarray(self.prediction.floor)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(floor > 0, self.left_floor / floor, 1.0)

    @cached_property
    def work_time(self) -> Array:
        """Seconds of what is left, without the launch."""
        return (self.prediction.time - self.launch) * self.share

    @property
    def time(self) -> Array:
        return self.launch + self.work_time

    @property
    def kernels(self) -> tuple[KernelTime, ...]:
        return tuple(kernel for expected in self.prediction.expected for kernel in expected.kernels)

    def items(self, name: str) -> list[TimeItem]:
        """Where the time goes that is left, without the launch."""
        return [
            replace(item, seconds=item.seconds * self.share, kernel=name, step="")
            for item in self.prediction.items
            if item.kind != "launch"
        ]


@dataclass(frozen=True)
class Inherited(Expected):
    """Seconds that a kernel made from others is expected to take."""

    sources: tuple[SourceTime, ...] = ()

    @cached_property
    def _coverage(self) -> tuple[tuple[KernelTime, ...], Array]:
        kernels = tuple(kernel for source in self.sources for kernel in source.kernels)
        uncovered = largest(item.uncovered for source in self.sources for item in source.prediction.expected)
        return kernels, uncovered

    @cached_property
    def _longest(self) -> Array:
        return largest(source.time for source in self.sources)

    @cached_property
    def _sum(self) -> Array:
        return total(source.time for source in self.sources)

    @cached_property
    def unbounded(self) -> Array:
        if not self.kernels:
            return flat_time(self.bound)
        if len(self.sources) == 1:
            return self._sum
        floors = np.maximum(total(source.left_floor for source in self.sources), 1e-300)
        launch = largest(source.launch for source in self.sources)
        together = launch + total(source.work_time for source in self.sources) * self.bound.floor / floors
        return np.minimum(np.maximum(together, self._longest), self._sum)

    def _relative(self, end: str) -> Array:
        """An end of the interval over the time, as the sources have it, by their shares of the time."""
        ends = total(getattr(source.prediction, end) / source.prediction.time * source.time for source in self.sources)
        return ends / self._sum

    @property
    def low(self) -> Array:
        """From the longest source alone, as if all else were hidden behind it; not below the stated floor."""
        if not self.kernels:
            return super().low
        low = np.minimum(self._longest, self.time) * self._relative("low")
        return np.maximum(low, np.minimum(self.bound.stated_floor, self.time))

    @property
    def high(self) -> Array:
        """To the sources one after the other, as if nothing were hidden."""
        return np.maximum(self._sum, self.time) * self._relative("high") if self.kernels else super().high

    def items(self) -> tuple[TimeItem, ...]:
        if not self.kernels:
            return flat_items(self.bound, self.unbounded, self.time)
        several = len(self.sources) > 1
        items = [
            item for source in self.sources for item in source.items(source.prediction.steps[0].name if several else "")
        ]
        items.append(TimeItem("launch", "launch", largest(source.launch for source in self.sources)))
        rest = self.time - total(item.seconds for item in items)
        if np.any(np.asarray(rest)):
            items.append(
                TimeItem("overlapped in one kernel" if several else "raised to the roofline", "correction", rest)
            )
        return merged(items)

    @property
    def basis(self) -> str:
        return f"{MADE_FROM}{super().basis}"

    @property
    def confidence(self) -> str | NDArray[np.object_]:
        lines = super().confidence
        return f"{MADE_FROM}{lines}" if isinstance(lines, str) else MADE_FROM + lines


def at_same_share(prediction: Prediction, machine: Machine, ceilings: str | None = None) -> Prediction:
    """The same steps on a machine with other ceilings: every kernel reaches the share of the roofline that it reaches now."""
    bounds = tuple(
        bound(step.work, machine, ceilings, launch=before.launch)
        for step, before in zip(prediction.steps, prediction.bounds, strict=True)
    )
    expected = tuple(
        Inherited(item, sources=(SourceTime(prediction.step(place), item.floor),)) for place, item in enumerate(bounds)
    )
    return replace(prediction, machine=machine, bounds=bounds, expected=expected)
