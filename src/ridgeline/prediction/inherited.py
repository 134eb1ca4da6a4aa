"""Inherited: the expected time of a kernel that no library has, from the kernels that it was made from.

Made from one, by other counts or ceilings, it reaches the same share of the roofline:

    time = launch + (time_1 - launch) x floor / floor_1

A sort that waits for its steps has them on a machine with other ceilings too: time = time_1 - floor_1 + floor. Fused from several, each is left with its time less what its dropped traffic takes at the ceiling, and the kernel reaches
the share of the roofline that they reach together:

    left_i = time_i - launch_i - (floor_i - floor of what is left of it)
    time   = launch + sum(left_i) x floor / sum of the floors of what is left

A fused kernel takes no longer than what is left of all, one after the other. It does all that each of them does, so it
takes as long as the longest at least; where its floor is below that of one alone, that one's time counts less so much.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound, bound
from ..core.cached import cached_property
from ..core.families import TimeItem, merged
from ..core.machine import Machine
from ..core.roofline import label
from ..core.work import Array, Work, largest, total
from .coefficients import LABELS
from .expected import Expected
from .kernel_times import KernelTime
from .ordering import steps_decide

if TYPE_CHECKING:
    from .predict import Prediction

MADE_FROM = "never timed, at the share of roofline of the kernels it is made from: "


@dataclass(frozen=True)
class SourceTime:
    """The prediction of a source as it runs alone, and the floor of what is left of it."""

    prediction: Prediction
    left_floor: Array
    same_work: bool = False  # on a machine with other ceilings

    @cached_property
    def launch(self) -> Array:
        """Seconds of the launches; a correction may take the time of a tiny kernel below the fitted one."""
        launches = total(item.seconds for item in self.prediction.items if item.kind == "launch")
        return np.minimum(launches, self.prediction.time)

    @cached_property
    def work_time(self) -> Array:
        """Seconds as it runs alone, without the launch."""
        return self.prediction.time - self.launch

    def at_share(self, floor: Array) -> Array:
        """Seconds of a kernel with this floor at the same share of the roofline. The same work that waits for its steps, which other ceilings
        leave as they are, takes what its bytes take beside them."""
        alone = np.asarray(self.prediction.floor)
        with np.errstate(divide="ignore", invalid="ignore"):
            shared = self.work_time * np.where(alone > 0, floor / alone, 1.0)
        if not self.same_work:
            return self.launch + shared
        waits = steps_decide(self.kernels, self.prediction.time, self.prediction.roofline)
        return self.launch + np.where(waits, np.maximum(self.work_time + floor - alone, floor), shared)

    @cached_property
    def left(self) -> Array:
        """Seconds without the launch and without what the dropped traffic takes at the ceiling."""
        return np.maximum(self.work_time - (self.prediction.floor - self.left_floor), 0.0)

    @property
    def kernels(self) -> tuple[KernelTime, ...]:
        return tuple(kernel for expected in self.prediction.expected for kernel in expected.kernels)

    def items(self, seconds: Array, name: str = "") -> list[TimeItem]:
        """Where so many seconds of it go, without the launch."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(np.asarray(self.work_time) > 0, seconds / self.work_time, 0.0)
        return [
            replace(item, seconds=item.seconds * share, kernel=name, step="")
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

    @property
    def transformed(self) -> Array:
        """Its bound has the products that the kernels of its sources need."""
        return self.bound.fewer

    @property
    def lowered(self) -> Bound:
        return self.bound

    @cached_property
    def _shortest(self) -> Array:
        """With all but one source hidden behind it."""
        if len(self.sources) == 1:
            return self.sources[0].at_share(self.bound.floor)
        return largest(
            source.prediction.time - np.maximum(source.prediction.floor - self.bound.floor, 0.0)
            for source in self.sources
        )

    @cached_property
    def _longest(self) -> Array:
        """With nothing hidden."""
        if len(self.sources) == 1:
            return self._shortest
        # reads and writes alone may be faster than their mix in the fused kernel
        return np.maximum(total(source.launch + source.left for source in self.sources), self._shortest)

    @cached_property
    def unbounded(self) -> Array:
        if not self.kernels:  # collectives, and what is not known
            return super().unbounded
        floors = np.maximum(total(source.left_floor for source in self.sources), 1e-300)
        launch = largest(source.launch for source in self.sources)
        together = launch + total(source.left for source in self.sources) * self.bound.floor / floors
        return np.minimum(np.maximum(together, self._shortest), self._longest)

    def _relative(self, end: str) -> Array:
        """An end of the interval over the time, as the sources have it, by their shares of the time."""
        return total(getattr(source.prediction, end) for source in self.sources) / total(
            source.prediction.time for source in self.sources
        )

    @property
    def label(self) -> str | NDArray[np.str_]:
        """Never `calibrated`: no library has this kernel."""
        of_parts = np.asarray(super().label)
        return label(
            np.maximum([LABELS.index(str(part)) for part in of_parts.ravel()], 1).reshape(of_parts.shape), LABELS
        )

    @property
    def low(self) -> Array:
        """From the shortest time there may be; not below the stated floor."""
        if not self.kernels:
            return super().low
        low = np.minimum(self._shortest, self.time) * self._relative("low")
        return np.maximum(low, np.minimum(self.bound.stated_floor, self.time))

    @property
    def high(self) -> Array:
        """To the longest."""
        return np.maximum(self._longest, self.time) * self._relative("high") if self.kernels else super().high

    def items(self) -> tuple[TimeItem, ...]:
        if not self.kernels:
            return super().items()
        several = len(self.sources) > 1
        if several:
            names = [source.prediction.steps[0].name for source in self.sources]
            parts = zip(self.sources, names, strict=True)
            items = [item for source, name in parts for item in source.items(source.left, name)]
        else:
            items = self.sources[0].items(self.unbounded - self.sources[0].launch)
        items.append(TimeItem("launch", "launch", largest(source.launch for source in self.sources)))
        rest = self.time - total(item.seconds for item in items)
        if np.any(np.asarray(rest)):
            items.append(
                TimeItem("overlapped in one kernel" if several else "raised to the roofline", "correction", rest)
            )
        return merged(items)

    @property
    def basis(self) -> str:
        return super().basis if self.collectives else f"{MADE_FROM}{super().basis}"

    @property
    def confidence(self) -> str | NDArray[np.object_]:
        lines = super().confidence
        if self.collectives:
            return lines
        return f"{MADE_FROM}{lines}" if isinstance(lines, str) else MADE_FROM + lines


def made_from(alone: Sequence[Prediction], item: Bound, library: str | None, launch: float | None) -> Inherited:
    """The expected time of a kernel whose sources were predicted alone; it needs as few products as they do."""
    fewer = [largest(each.fewer for each in made.bounds) for made in alone]
    sources = tuple(
        SourceTime(made, _floor(source.left, item, times))
        for source, made, times in zip(item.work.sources, alone, fewer, strict=True)
    )
    return Inherited(item.with_fewer_products(largest(fewer)), None, library, launch, sources=sources)


def _floor(work: Work, on: Bound, fewer: Array) -> Array:
    """The floor of work with so many times fewer products than it counts, on the machine and the ceilings of a bound."""
    bounds = ((bound(step.work, on.machine, on.ceilings).with_fewer_products(fewer), step.count) for step in work.steps)
    return total(item.floor * count for item, count in bounds)


def at_same_share(prediction: Prediction, machine: Machine, ceilings: str | None = None) -> Prediction:
    """The same steps on a machine with other ceilings: every kernel reaches the share of the roofline that it reaches now."""
    bounds = tuple(
        bound(step.work, machine, ceilings, launch=before.launch).with_fewer_products(before.fewer)
        for step, before in zip(prediction.steps, prediction.bounds, strict=True)
    )
    expected = tuple(
        Inherited(item, sources=(SourceTime(prediction.step(place), item.floor, same_work=True),))
        for place, item in enumerate(bounds)
    )
    return replace(prediction, machine=machine, bounds=bounds, expected=expected)
