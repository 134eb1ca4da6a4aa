"""KernelTime: the time of one kernel of a step by the formula of its family, over the cases it applies to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.families import Hardware, Key, TimeItem, keys, nearby
from ..core.work import Array, Kernel
from .coefficients import Selected, hardware, kernels, lender_scale, select

NEARBY = "as cases nearby took"  # the effect of timings around a case on its time
NOTABLE_DISTANCE = 1.05  # beyond the sizes timed, from which it is worth a word


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a step with the coefficients selected for it; `applies` is 1 for the cases it is about.

    For other cases its times are 0. The formula runs over its own cases alone, because a step may have many variants.
    """

    kernel: Kernel
    selected: Selected
    hardware: Hardware
    applies: Array = 1.0
    given_launch: float | None = None  # the caller's, in place of the fitted one
    scale: Mapping[str, float] = field(default_factory=dict)  # of coefficients, where the machine is known to differ

    @cached_property
    def _mask(self) -> NDArray[np.bool_] | None:
        """The cases it applies to, None where these are all."""
        if isinstance(self.applies, float):
            return None
        shape = np.broadcast_shapes(*(np.shape(size) for size in self.kernel.sizes.values()))
        return np.broadcast_to(self.applies > 0, shape)

    @cached_property
    def _sizes(self) -> Mapping[str, Array]:
        mask = self._mask
        if mask is None:
            return self.kernel.sizes
        return {
            name: size if np.ndim(size) == 0 else np.broadcast_to(size, mask.shape)[mask]
            for name, size in self.kernel.sizes.items()
        }

    def _scattered(self, values: Array, elsewhere: float = 0.0) -> Array:
        """Values of the cases it applies to, among all cases."""
        if self._mask is None:
            return values
        every = np.full(self._mask.shape, elsewhere)
        every[self._mask] = values
        return every

    @cached_property
    def _fitted(self) -> dict[str, float]:
        filled = self.selected.family.filled(self.selected.fitted.coefficients)
        return filled | {name: filled[name] * factor for name, factor in self.scale.items() if name in filled}

    @cached_property
    def coefficients(self) -> dict[str, float]:
        return self._fitted if self.given_launch is None else {**self._fitted, "launch": self.given_launch}

    @property
    def launch(self) -> float:
        return self.coefficients["launch"]

    @cached_property
    def _formula(self) -> Array:
        """Seconds by the formula with its fitted launch."""
        return self.selected.family.time(self._sizes, self.hardware, self._fitted)

    @cached_property
    def _correction(self) -> Array:
        """Seconds that timings around the cases add to the formula's time, or take from it."""
        table = self.selected.fitted.nearby
        return self._formula * np.expm1(nearby.read(table).correction(self._sizes)) if table else 0.0

    @cached_property
    def time(self) -> Array:
        if self.given_launch is None:
            return self._scattered(self._formula + self._correction)
        time = self.selected.family.time(self._sizes, self.hardware, self.coefficients)
        return self._scattered(time + self._correction)

    def items(self, kernel: str = "") -> list[TimeItem]:
        """Where the time goes; `kernel` is what to call this one where the step has several."""
        items = [*self.selected.family.items(self._sizes, self.hardware, self.coefficients)]
        if self.selected.fitted.nearby:
            items.append(TimeItem(NEARBY, "correction", self._correction))
        return [replace(item, seconds=self._scattered(item.seconds), kernel=kernel) for item in items]

    @property
    def distance(self) -> Array:
        """How far beyond the sizes that were timed, as a factor; 1 within them."""
        factor: Array = 1.0
        for name, (smallest, largest) in self.selected.fitted.ranges.items():
            size = self._sizes.get(name)
            if size is not None:
                factor = np.maximum(factor, np.maximum(smallest / np.maximum(size, 1e-300), size / largest))
        return self._scattered(factor, 1.0)

    def basis(self, distance: float) -> str:
        """What the coefficients rest on, for a case this far beyond the sizes that were timed."""
        fitted = self.selected.fitted
        how = "not calibrated on this machine" if fitted.borrowed else "calibrated"
        held_out = "machines" if fitted.borrowed else "timings"
        beyond = f", up to {distance:.1f} x beyond the sizes timed" if distance > NOTABLE_DISTANCE else ""
        return (
            f"{how}: {self.selected.key}, {fitted.cases} timings, "
            f"{held_out} left out are told within {fitted.error:.0%} (P90 {fitted.p90:.0%}){beyond}"
        )


def kernel_times(
    bound: Bound, backend: str | None = None, launch: float | None = None
) -> tuple[tuple[KernelTime, ...], Array]:
    """The kernels of a step that coefficients serve; and 1 for the cases with a kernel that none serve, else 0.

    A case is timed by formulas as a whole or not at all: kernels of a case that lacks coefficients for another are left out.
    """
    times: list[KernelTime] = []
    step_kernels = kernels(bound.work)
    uncovered: Array = 0.0 if step_kernels else 1.0
    for kernel in step_kernels:
        arithmetic = Key(kernel.family, kernel.dtype).dtypes[0]
        machine = hardware(bound.machine, arithmetic)
        for key, applies in keys(kernel.family, kernel.sizes, kernel.dtype, kernel.op):
            selected = None if machine is None else select(bound.machine, key, backend)
            if selected is None or machine is None:
                uncovered = np.maximum(uncovered, applies)
            else:
                scale = lender_scale(bound.machine, arithmetic) if selected.fitted.borrowed else {}
                times.append(KernelTime(kernel, selected, machine, applies, launch, scale))
    if np.any(uncovered):
        times = [replace(time, applies=np.where(uncovered > 0, 0.0, time.applies)) for time in times]
        times = [time for time in times if np.any(time.applies)]
    return tuple(times), uncovered
