"""KernelTime: the time of a kernel by the formula of its family, corrected by timings nearby, with its low end and items.

A case never takes longer than the kernel of the next larger size would, unless timings of this machine say so: it could
be padded to that size.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.cached import cached_property
from ..core.families import Hardware, Key, TimeItem, keys, nearby, switches
from ..core.families.attention import WINDOW
from ..core.families.correction import Correction, Placed
from ..core.families.family import LASTING
from ..core.families.product import by_vectors
from ..core.families.vector import APART, UNPLANNED
from ..core.work import Array, Kernel, largest, total
from ..machines.transfer import lender_scale
from . import other_products, rows_in_fp32, timed_sizes
from .asked import MAX_PADDED, Asked
from .coefficients import TRANSFERRED, Selected, kernels, select
from .hardware import at_burst, hardware
from .ordering import ordered

NEARBY = "correction from similar measured shapes"
NEXT_KERNEL, WIDENED_FIRST = "kernel of the next larger size", "weights widened before the product"
IN_FP32 = "kernel of the same size in fp32"
BY_VECTORS = "products with a vector"
# FlexAttention, the default path of windows, takes keys in blocks of 128, and those at both ends of a window whole: it takes what Triton's
# kernel does with a window longer by two blocks, by 36 timings (of 64 to 320 keys more, these are without bias).
WINDOW_ENDS = 256.0
MIN_LAUNCH = 0.5  # of a launch of the caller's: timings shorter than the fitted one say little of others


@dataclass(frozen=True)
class KernelTime:
    """One kernel of a step with the coefficients selected for it; `applies` is 1 for the cases it is about.

    For other cases its times are 0. The formula runs over its own cases alone, because a step may have many variants.
    """

    kernel: Kernel
    selected: Selected
    hardware: Hardware
    asked: Asked
    applies: Array = 1.0
    scale: Mapping[str, float] = field(default_factory=dict)  # of coefficients, where the machine is known to differ

    @cached_property
    def _mask(self) -> NDArray[np.bool_] | None:
        """The cases it applies to, None where these are all."""
        if isinstance(self.applies, float):
            return None
        shape = np.broadcast_shapes(*(np.shape(size) for size in self.kernel.sizes.values()))
        return np.broadcast_to(self.applies > 0, shape)

    @cached_property
    def _places(self) -> NDArray[np.intp]:
        """Of the cases it applies to, among all: looked for once, because that takes longer than taking values from them."""
        assert self._mask is not None
        return np.flatnonzero(self._mask)

    @cached_property
    def _sizes(self) -> Mapping[str, Array]:
        mask, sizes = self._mask, self.kernel.sizes
        if APART in sizes and not self.selected.timed:
            sizes = {**sizes, APART: UNPLANNED}
        if mask is None:
            return sizes
        return {
            name: size if np.ndim(size) == 0 else np.broadcast_to(size, mask.shape).ravel().take(self._places)
            for name, size in sizes.items()
        }

    def _scattered(self, values: Array, elsewhere: float = 0.0) -> Array:
        """Values of the cases it applies to, among all cases."""
        if self._mask is None:
            return values
        every = np.full(self._mask.shape, elsewhere)
        every.ravel()[self._places] = values
        return every

    @cached_property
    def _fitted(self) -> dict[str, float]:
        own = self.selected.family.filled(self.selected.fitted.coefficients)
        return own | {name: min(own[name] * factor, 1.0) for name, factor in self.scale.items() if name in own}

    @cached_property
    def coefficients(self) -> dict[str, float]:
        return self._fitted if self.asked.launch is None else {**self._fitted, "launch": self.asked.launch}

    @cached_property
    def _worked(self) -> Mapping[str, Array]:
        """The sizes that the kernel works on: the default path takes the blocks at both ends of a window whole."""
        if self.selected.key.op != WINDOW or self.asked.backend or WINDOW not in self._sizes:
            return self._sizes
        return {**self._sizes, WINDOW: self._sizes[WINDOW] + WINDOW_ENDS}

    @cached_property
    def _formula(self) -> Array:
        """Seconds by the formula with its fitted launch."""
        return self.selected.family.time(self._worked, self.hardware, self._fitted)

    @cached_property
    def _correction(self) -> Array:
        """Seconds that similar timed cases add to the formula's time; negative where they took less."""
        return 0.0 if self._placed is None else self._corrected(self._placed.correction)

    def _corrected(self, correction: Array) -> Array:
        """Seconds that a correction adds to the formula's time; of a launch of the caller's it leaves MIN_LAUNCH."""
        seconds = self._formula * np.expm1(correction)
        if self.asked.launch is None:
            return seconds
        taken = {**self._fitted, "launch": self.asked.launch * (1 - MIN_LAUNCH)}  # and nearly all of the work
        return np.maximum(seconds, -0.999 * self.selected.family.time(self._worked, self.hardware, taken))

    @cached_property
    def _placed(self) -> Placed | None:
        return self._timings.at(self._sizes) if self._timings else None

    @cached_property
    def _timings(self) -> Correction | None:
        """The timings of this very kernel; those of another one say nothing of its shapes."""
        text = self.selected.fitted.nearby if self.selected.timed else ""
        return nearby.read(str(text)) if text else None

    @cached_property
    def _alone(self) -> Array:
        """Seconds by the formula and the timings nearby."""
        given = self.asked.launch is not None
        time = self.selected.family.time(self._worked, self.hardware, self.coefficients) if given else self._formula
        return time + self._correction

    def _next_sizes(self) -> Iterator[tuple[Mapping[str, Array], NDArray[np.bool_]]]:
        if self.asked.padded < MAX_PADDED.get(self.kernel.op, MAX_PADDED.get(self.kernel.family, 1)):
            yield from switches.next_sizes(self.kernel.family, self.kernel.op, self._sizes)
            # layers that rotate keys and write the cache as well, which are all causal, may take longer than those that do not
            alike = not self._fitted.get("prepare") and not (self.stands_in and WINDOW in self._sizes)
            if "causal" in self._sizes and not self.selected.timed and alike:
                yield from switches.unmasked(self._sizes)
            if not self.stands_in:
                yield from switches.further(self.kernel.family, self._sizes)
        if self.kernel.family == "scan" and self.asked.padded < MAX_PADDED["scan"]:
            yield from switches.next_scans(self._sizes)

    @property
    def stands_in(self) -> bool:
        """Whether timings of this machine, of another kernel, are all that is known of this one."""
        return not self.selected.timed and not self.selected.fitted.borrowed

    def _beyond(self, low: bool) -> Array:
        """Seconds, or the low end of them, of the kernels that the next larger sizes have; infinite without any."""
        return self._least(self._next_sizes(), low)

    def _least(self, larger: Iterator[tuple[Mapping[str, Array], NDArray[np.bool_]]], low: bool) -> Array:
        """The least seconds, or the low end of them, of kernels of these sizes."""
        best: Array = np.inf
        shape = np.broadcast_shapes(*(np.shape(size) for size in self._sizes.values()))
        for sizes, few in larger:
            below = np.broadcast_to(few, shape)
            part = {
                name: np.broadcast_to(size, shape)[below] if np.ndim(size) else size for name, size in sizes.items()
            }
            times, uncovered = of_kernel(
                replace(self.kernel, sizes=part), replace(self.asked, padded=self.asked.padded + 1)
            )
            seconds = total(time.low if low else time.time for time in times)
            every = np.full(shape, np.inf)
            every[below] = np.where(np.asarray(uncovered) > 0, np.inf, seconds)
            best = np.minimum(best, every)
        return best

    @cached_property
    def _saved(self) -> Array:
        """Seconds (negative) that the kernel of the next larger size would save.

        With timings of this very kernel there is nothing to gain: they say that the library does not take that one.
        """
        if self.selected.timed:
            return 0.0
        other = np.minimum(np.minimum(self._beyond(low=False), self._widened), self._by_vectors)
        return np.minimum(np.minimum(other, self._in_fp32) - self._alone, 0.0)

    @cached_property
    def _in_fp32(self) -> Array:
        """Seconds of norms and softmax of 16 bits in fp32, which is as much arithmetic over twice the bytes."""
        return self._by_fp32(2.0)

    def _by_fp32(self, wider: float) -> Array:
        """Seconds by the timings in fp32 of a kernel over rows of 16 bits whose elements are so many times wider; infinite without any."""
        wide = rows_in_fp32.widened(replace(self.kernel, sizes=self._sizes), wider)
        return np.inf if wide is None else rows_in_fp32.least(of_kernel(wide, self.asked)[0], self.selected)

    @cached_property
    def _by_vectors(self) -> Array:
        """Seconds of a product of few rows on the vector units; infinite in formats that every GPU has matrix units enough for."""
        few = self.kernel.family == "gemm" and Key("gemm", self.kernel.dtype).dtypes[0] in other_products.FEW_UNITS
        return by_vectors(self._sizes, self.hardware, self.coefficients) if few else np.inf

    @cached_property
    def _with_vector(self) -> Array:
        """Seconds of a product of few rows as a product with a vector; infinite where it is known better."""
        kernel = other_products.with_vector(replace(self.kernel, sizes=self._sizes), self.selected, self.asked)
        return np.inf if kernel is None else other_products.seconds(*of_kernel(kernel, self.asked))

    @cached_property
    def as_causal(self) -> bool:
        """Whether every window that it applies to takes what the kernel does that skips no key of it."""
        causal, held = self._least(switches.windows(self._sizes), low=False), np.asarray(self._saved) < 0
        return not self.stands_in and bool(np.all(held & (self._alone + self._saved >= causal * (1 - 1e-9))))

    @cached_property
    def _widened(self) -> Array:
        """Seconds of a product that unpacks nothing, behind a pass that reads n k narrow weights and writes wide ones; infinite where
        the library that is asked for was timed, or has no need of it.

        Kernels that unpack on the fly are made for few rows; with many, libraries widen the weights first.
        """
        wide = other_products.widened(replace(self.kernel, sizes=self._sizes), self.selected, self.asked)
        if wide is None:
            return np.inf
        # which kernels a library takes for its wide products says nothing of those it takes here
        product = other_products.seconds(*of_kernel(wide, replace(self.asked, timed=False)))
        return product + other_products.rewritten(self._sizes) / self.hardware.bandwidth

    @cached_property
    def time(self) -> Array:
        return self._scattered(self._alone + self._saved)

    @cached_property
    def low(self) -> Array:
        """What larger sizes may take, as far as it is less than the time: a library may well change kernels here already."""
        time = self._alone + self._saved
        if self.stands_in and self.asked.padded < 2:  # the kernel that was timed takes less at some larger sizes
            time = np.minimum(time, self._least(switches.further(self.kernel.family, self._sizes), low=True))
        if not self.selected.timed and np.any(self._in_fp32 <= time):  # half the bytes may well take half the time
            time = np.where(self._in_fp32 <= time, np.minimum(time, self._by_fp32(1.0)), time)
        time = np.minimum(time, self._with_vector)
        if self.selected.timed:
            if self._placed is not None:
                time = time - self._correction + self._corrected(self._placed.lowest())
            time = np.minimum(time, self._beyond(low=True))
        # when the power limit sets in was not measured
        if self.hardware.held_back > 1 and np.any(self._alone > LASTING):
            time = time - self._formula + self.selected.family.time(self._worked, at_burst(self.hardware), self._fitted)
        return self._scattered(time)

    @cached_property
    def effects(self) -> tuple[TimeItem, ...]:
        """Seconds of the formula by effect, of the cases it applies to."""
        return self.selected.family.items(self._worked, self.hardware, self.coefficients)

    def items(self, kernel: str = "") -> list[TimeItem]:
        """Where the time goes; `kernel` is what to call this one where the step has several."""
        items = [*self.effects, *([TimeItem(NEARBY, "correction", self._correction)] if self._timings else [])]
        if np.any(np.asarray(self._saved) < 0):
            other = NEXT_KERNEL if np.all(np.isinf(self._widened)) else WIDENED_FIRST
            other = BY_VECTORS if np.all(self._by_vectors <= (self._alone + self._saved) * (1 + 1e-9)) else other
            other = IN_FP32 if np.all(self._in_fp32 <= (self._alone + self._saved) * (1 + 1e-9)) else other
            items.append(TimeItem(other, "correction", self._saved))
        if self._mask is None and not kernel:
            return items
        return [replace(item, seconds=self._scattered(item.seconds), kernel=kernel) for item in items]

    @property
    def distance(self) -> Array:
        """How far beyond the sizes that were timed, as a factor; 1 within them."""
        return self._scattered(self._distance, 1.0)

    @cached_property
    def _distance(self) -> Array:
        factor = timed_sizes.distance(self.selected.family.name, self._sizes, self.selected.fitted.ranges)
        # the usual product is known at all sizes
        return np.where(self._widened < self._alone, 1.0, factor)

    @cached_property
    def _below(self) -> NDArray[np.bool_]:
        return timed_sizes.below(self._sizes, self.selected.fitted.ranges)

    @property
    def smaller(self) -> Array:
        """1 for cases with a size below the timed ones and none above them, else 0."""
        return self._scattered(np.where(self._below, 1.0, 0.0))

    def bounded(self, end: str, relative: Array) -> Array:
        """An end of the interval over the time, less 1, where sizes are below the timed ones held to what these can take.

        That is no more than the smallest sizes that were timed, and no less than the launch.
        """
        if not np.any(self._below):
            return relative
        nearer, further = (np.minimum, np.maximum) if end == "high" else (np.maximum, np.minimum)
        launch = self.coefficients.get("launch", 0.0) / self._alone
        unknown = timed_sizes.unknown_below(end, self._distance, launch)
        held = np.exp(self.selected.log_end(end))
        if end == "high":
            ranges = self.selected.fitted.ranges
            raised = {name: np.maximum(size, ranges.get(name, (0.0,))[0]) for name, size in self._sizes.items()}
            smallest = self.selected.family.time(raised, self.hardware, self.coefficients)
            if (table := self._timings) is not None:
                smallest = smallest * np.exp(table.correction(raised))
            limit = np.maximum(smallest / self._alone, 1.0) * held
        else:
            limit = np.minimum(launch, 1.0) * further(held, unknown)
        wide = nearer(further(relative, self._scattered(unknown) - 1), self._scattered(limit) - 1)
        return np.where(self.smaller > 0, wide, relative)


def of_kernel(kernel: Kernel, asked: Asked) -> tuple[list[KernelTime], Array]:
    """A kernel with its coefficients, one for each variant among the cases; and 1 for the cases that none serve, else 0."""
    times: list[KernelTime] = []
    uncovered: Array = 0.0
    arithmetic = Key(kernel.family, kernel.dtype).dtypes[0]
    machine = hardware(asked.machine, arithmetic)
    for key, applies in keys(kernel.family, kernel.sizes, kernel.dtype, kernel.op, asked.machine.kind):
        selected = None if machine is None else select(asked.machine, key, asked.backend, kernel.like, kernel.unusual)
        # on a CPU rows that are summed or normalized say nothing of rows that are sorted
        unlike = selected and asked.machine.kind == "cpu" and ordered(kernel) and selected.key.op != key.op
        if selected is None or machine is None or unlike:
            uncovered = np.maximum(uncovered, applies)
        else:
            if not asked.timed:
                selected = replace(selected, label=TRANSFERRED, timed=False)
            scale = lender_scale(asked.machine, arithmetic) if selected.fitted.borrowed else {}
            times.append(KernelTime(kernel, selected, machine, asked, applies, scale))
    return times, uncovered


def kernel_times(
    bound: Bound, backend: str | None = None, launch: float | None = None
) -> tuple[tuple[KernelTime, ...], Array]:
    """The kernels of a step that coefficients serve; and 1 for the cases with a kernel that none serve, else 0.

    Formulas give the time of all kernels of a case or of none: where one kernel lacks coefficients the flat form is used.
    """
    asked, step_kernels = Asked(bound.machine, backend, launch), kernels(bound.work)
    parts = [of_kernel(kernel, asked) for kernel in step_kernels]
    times = [time for part, _ in parts for time in part]
    uncovered = largest(part for _, part in parts) if step_kernels else 1.0
    if np.any(uncovered):
        times = [replace(time, applies=np.where(uncovered > 0, 0.0, time.applies)) for time in times]
        times = [time for time in times if np.any(time.applies)]
    return tuple(times), uncovered
