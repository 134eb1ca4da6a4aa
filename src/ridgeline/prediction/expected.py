"""Expected: the time good library kernels take for a step, with an 80 % interval, its items and what it rests on.

Where the kernels of a step and the cores of the machine are known, the formula of each kernel's family gives its time,
with the coefficients selected for the machine (`coefficients.py`). Every other case gets the flat form (`flat.py`).

No expected time lies below the floor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.cached import cached_property
from ..core.dtypes import narrower
from ..core.families import TimeItem, merged
from ..core.families.attention import ATTENTION, WINDOW
from ..core.families.weight_only import UNPACKING
from ..core.figure import UNCERTAINTY
from ..core.roofline import label
from ..core.work import Array, largest, total
from ..machines.libraries import known
from ..machines.transfer import backends
from . import timed_sizes
from .basis import basis
from .coefficients import CALIBRATED, LABELS, TRANSFERRED, UNCALIBRATED, timed_backend
from .collectives import Collective, collective_items, step_collectives
from .flat import flat_end, flat_items, flat_time
from .kernel_times import KernelTime, kernel_times
from .ordering import ordering_basis
from .transformed import TRANSFORMED, fewer_products, has_images

NOT_CALIBRATED = f"{UNCALIBRATED}: usual shares of the stated ceilings"
MEASURED_CEILINGS = f"{UNCALIBRATED}: measured ceilings, no timings of kernels"
TIME_THEM = "; `ridgeline measure cpu --calibrate` times them"  # no sorts, which it does not know
FROM_MEMORY = "; no longer than from memory"
GIVEN_EFFICIENCY = "efficiency given by the caller"
COUNTED = f"{TRANSFERRED}: more is counted than the timed kernels move, so that the time is the floor"
MORE = 1.1  # of the high end, above which the floor counts more than was timed: caches absorb some of what it counts, but not that
UNCALIBRATED_INTERVAL = (0.8, 2.0)  # of a time that nothing was fitted for
WIDEST = np.log(8.0)  # the end that widening leads to at most: wider ones would say nothing


@dataclass(frozen=True)
class Expected:
    """Seconds a step is expected to take, with an 80 % interval from `low` to `high`."""

    bound: Bound
    given_efficiency: float | None = None  # one fraction of every ceiling, the caller's
    backend: str | None = None  # that was asked for
    given_launch: float | None = None  # the caller's, in place of the fitted one
    flat: bool = False  # the kernel families left aside
    cold: Expected | None = None  # of operands that a cache holds, the same step with its operands in memory

    @cached_property
    def _coverage(self) -> tuple[tuple[KernelTime, ...], Array]:
        """Looked up when a time is first asked for, because a floor needs none of it."""
        if self.flat or self.given_efficiency is not None:
            return (), 1.0
        return kernel_times(self.bound, self.backend, self.given_launch)

    @property
    def kernels(self) -> tuple[KernelTime, ...]:
        """The kernels that formulas give the time of; none where the flat form does."""
        return self._coverage[0]

    @property
    def uncovered(self) -> Array:
        """1 for cases without coefficients, which have the flat form, else 0."""
        return self._coverage[1]

    @cached_property
    def collectives(self) -> tuple[Collective, ...]:
        """What a step of collectives alone takes on the links of the machine; none for any other step."""
        if self.flat or self.given_efficiency is not None:
            return ()
        made = step_collectives(self.bound)
        return made if len(made) == len(self.bound.work.kernels) else ()

    @property
    def is_flat(self) -> bool:
        """Whether the flat form gives the time, for want of formulas."""
        return not (self.kernels or self.collectives)

    @cached_property
    def unbounded(self) -> Array:
        """What the formulas say, before the floor."""
        if self.collectives:
            return total(collective.time for collective in self.collectives)
        if not self.kernels:
            flat = flat_time(self.bound, self.given_efficiency)
            return flat if self.cold is None else np.minimum(flat, self.cold.time)
        time = total(kernel.time for kernel in self.kernels)
        return self._or_flat(time, flat_time(self.bound)) if np.any(self.uncovered) else time

    @cached_property
    def transformed(self) -> Array:
        """Products of the work for each that the kernels need at least."""
        if self.cold is not None:
            return self.cold.transformed
        return fewer_products(self.bound, self.unbounded, self.kernels) if has_images(self.bound.work) else 1.0

    @cached_property
    def lowered(self) -> Bound:
        """The bound of the kernels that run: those that transform convolutions need fewer products than the work counts."""
        return self.bound.with_fewer_products(self.transformed)

    @cached_property
    def time(self) -> Array:
        return np.maximum(self.unbounded, self.lowered.floor)

    def _or_flat(self, covered: Array, flat: Array) -> Array:
        """The second where a case has no coefficients."""
        return np.where(np.asarray(self.uncovered) > 0, flat, covered)

    def _relative_end(self, end: str) -> Array:
        """Relative distance of an end of the interval from the time."""
        low, high = UNCALIBRATED_INTERVAL
        if self.collectives:
            ends = total(collective.time * collective.end(end) for collective in self.collectives)
            return ends / self.unbounded - 1
        usual = low / (1 + self._ceiling_doubt) if end == "low" else high
        uncalibrated = flat_end(self.bound, end, usual, self.given_launch is not None, self.given_efficiency) - 1
        if not self.kernels:
            return uncalibrated
        weighted: Array = 0.0
        for kernel in self.kernels:
            nearby = kernel.selected.log_end(end)
            growth = timed_sizes.growth(kernel.kernel.family, kernel.distance, end, kernel.smaller)
            widest = max(abs(nearby), WIDEST)
            # seconds that another run differs by, however long the kernel takes; kernels that do not apply to a case take none
            jitter = kernel.selected.fitted.jitter / np.maximum(kernel.time, 1e-300)
            log_end = np.clip(np.hypot(nearby, jitter) + growth, 0.0, widest)
            relative = kernel.bounded(end, np.exp(-log_end if end == "low" else log_end) - 1)
            share = kernel.time / np.maximum(self.unbounded, 1e-300) if len(self.kernels) > 1 else 1.0
            weighted = weighted + relative * share
        return self._or_flat(weighted, uncalibrated) if np.any(self.uncovered) else weighted

    @property
    def _ceiling_doubt(self) -> float:
        """How much faster a machine may be than it was measured, beyond the usual error of measuring."""
        if self.bound.kinds != "measured":
            return 0.0
        return max(self.bound.tolerance - UNCERTAINTY["measured"], 0.0)

    @cached_property
    def low(self) -> Array:
        """Not below what no kernel beats; as low as larger sizes may take by timings of this machine."""
        low = self.time * (1 + self._relative_end("low"))
        if self.kernels:
            larger = total(kernel.low for kernel in self.kernels)
            low = np.minimum(low, self._or_flat(larger, low) if np.any(self.uncovered) else larger)
        return np.maximum(low, np.minimum(self._unbeaten, self.time))

    @property
    def _unbeaten(self) -> Array:
        """The stated floor; of the flat form, which no timing speaks for, that of the ceilings used, as far as they are known."""
        stated = self.lowered.stated_floor
        if self.collectives or not np.any(self.uncovered):
            return stated
        return self._or_flat(stated, np.maximum(self.bound.floor / (1 + self._ceiling_doubt), stated))

    @cached_property
    def high(self) -> Array:
        high = self.time * np.maximum(1 + self._relative_end("high"), 1.0)
        return high if self.cold is None else np.minimum(high, np.maximum(self.cold.high, self.time))

    @property
    def distance(self) -> Array:
        """How far the sizes lie beyond those that were timed, as a factor; 1 within them."""
        return largest([1.0, *(kernel.distance for kernel in self.kernels)])

    def items(self) -> tuple[TimeItem, ...]:
        """Where the time goes, in seconds; the items sum to the time."""
        if self.collectives:
            return collective_items(self.collectives, self.bound.floor, self.time)
        if not self.kernels:
            return flat_items(self.bound, self.unbounded, self.time)
        several = any(kernel.kernel is not self.kernels[0].kernel for kernel in self.kernels)
        items: list[TimeItem] = []
        for kernel in self.kernels:
            items += kernel.items((kernel.kernel.op or kernel.kernel.family) if several else "")
        raised = self.time - self.unbounded
        if np.any(self.uncovered):
            raised = self._or_flat(raised, 0.0)
            for item in flat_items(self.bound, self.unbounded, self.time):
                items.append(replace(item, seconds=item.seconds * self.uncovered))
        items.append(TimeItem("held to the ceilings", "correction", raised))
        return _at_possible_rates(merged(items), self.lowered.stated_floor)

    @property
    def basis(self) -> str:
        """What the times rest on, in one line for all cases."""
        if self.given_efficiency is not None:
            return GIVEN_EFFICIENCY
        if self.kernels and np.all(self._counts_more):
            return COUNTED
        lines = [self._basis(kernel, float(np.max(kernel.distance))) for kernel in self.kernels]
        if np.any(np.asarray(self.transformed) > 1):
            lines.append(TRANSFORMED)
        if not self.kernels or np.any(self.uncovered):
            lines.append(self._flat_basis)
        return "; ".join(dict.fromkeys(lines))

    def _basis(self, kernel: KernelTime, distance: float) -> str:
        return self._other_library(kernel) + basis(kernel, distance)

    def _other_library(self, kernel: KernelTime) -> str:
        """That other kernels serve than those of the library that was asked for, and what that one lacks."""
        served = kernel.selected.key.backend
        asked = timed_backend(self.bound.machine, self.backend, kernel.selected.key.family)
        its_own = kernel.selected.key.op == WINDOW or (served in backends(asked) and bool(served) is bool(asked))
        stored = narrower(kernel.kernel.dtype)
        instead = f"{served or 'default path'} used: "
        if (
            stored
            and kernel.kernel.family == ATTENTION.name
            and not known(asked).narrow_cache
            and (asked or not its_own)
        ):
            instead = "its kernel for a wider one used, with fewer bytes: " if its_own else instead
            return f"{known(asked).title} has no {stored} KV cache, {instead}"
        if not asked and not its_own:
            return f"no timings of {known(asked).title} with {stored or kernel.kernel.dtype} weights, {instead}"
        return f"no timings of backend {self.backend}, {instead}" if asked and not its_own else ""

    @cached_property
    def _counts_more(self) -> Array:
        """1 for cases whose floor is far above what timings of this machine allow, as where traffic without reuse is asked for; else 0."""
        if not self.kernels or any(kernel.selected.label != CALIBRATED for kernel in self.kernels):
            return 0.0
        longest = MORE * np.asarray(self.unbounded) * np.maximum(1 + self._relative_end("high"), 1.0)
        more = (np.asarray(self.lowered.stated_floor) > longest) & (np.asarray(self.transformed) == 1)
        return np.where(more & (np.asarray(self.uncovered) == 0), 1.0, 0.0)

    @property
    def _flat_basis(self) -> str:
        if self.collectives:
            return "; ".join(dict.fromkeys(collective.basis for collective in self.collectives))
        ceilings, steps = (
            MEASURED_CEILINGS if self.bound.kinds == "measured" else NOT_CALIBRATED,
            ordering_basis(self.bound),
        )
        if ceilings == MEASURED_CEILINGS and self.bound.machine.kind == "cpu":
            ceilings += "" if steps else TIME_THEM
        return self._no_backend + ceilings + steps + (FROM_MEMORY if self.cold else "")

    @property
    def _no_backend(self) -> str:
        """That there are no coefficients of the backend asked for."""
        return f"no timings of backend {self.backend}, default path used: " if self.backend else ""

    @property
    def label(self) -> str | NDArray[np.str_]:
        """`calibrated`, `transferred` or `uncalibrated`, by the kernel of a case that is known least."""
        if self.collectives:
            return TRANSFERRED  # from published tables, which are not of every op, size and library
        if not self.kernels:
            return UNCALIBRATED
        codes = [np.asarray(self.uncovered) * LABELS.index(UNCALIBRATED)]
        codes.append(np.asarray(self._counts_more, dtype=np.int64) * LABELS.index(TRANSFERRED))
        codes += [
            np.asarray(kernel.applies) * ~self._calibrated(kernel) * LABELS.index(TRANSFERRED)
            for kernel in self.kernels
        ]
        return label(np.asarray(largest(codes), dtype=np.int64), LABELS)

    @staticmethod
    def _calibrated(kernel: KernelTime) -> NDArray[np.bool_]:
        """The cases that timings of this very kernel speak for, at sizes near enough to theirs."""
        near = timed_sizes.near(kernel.kernel.family, kernel.distance)
        return near & (kernel.selected.label == CALIBRATED)

    @property
    def timed(self) -> Array:
        """1 for cases whose kernels were all timed on this machine, those that read fewer bytes than the timed ones as well; else 0."""
        if not self.kernels:
            return 0.0
        others = [np.asarray(kernel.applies) * (not kernel.selected.timed) for kernel in self.kernels]
        return 1.0 - largest([self.uncovered, *others])

    @cached_property
    def parts(self) -> tuple[tuple[Array, Array], ...]:
        """Seconds of each kernel of the step, in order, and 1 for cases in which they may fall as sizes grow, because timings of this
        machine say so: of the kernel itself, or of those that stand in for masks with a window and without one, for narrow weights, or on
        a CPU, whose calls of more bytes run on more cores; else 0."""
        parts: dict[int, tuple[Array, Array]] = {}
        for kernel in self.kernels:
            seconds, falling = parts.get(id(kernel.kernel), (0.0, 0.0))
            falls = kernel.selected.timed or (
                kernel.stands_in
                and (
                    WINDOW in kernel.kernel.sizes
                    or kernel.kernel.family == UNPACKING.name
                    or self.bound.machine.kind == "cpu"
                )
            )
            parts[id(kernel.kernel)] = (seconds + kernel.time, falling + np.asarray(kernel.applies) * falls)
        return tuple(parts.values())

    @property
    def confidence(self) -> str | NDArray[np.object_]:
        """What the time of each case rests on: one line, or one line a case where they differ."""
        if self.given_efficiency is not None or not self.kernels:
            return self.basis
        lines, case = [""], np.zeros((), dtype=np.int64)  # the lines there are, and which one each case has
        for kernel in self.kernels:
            distances, which = np.unique(np.round(kernel.distance, 1), return_inverse=True)
            texts = ["", *(self._basis(kernel, float(distance)) for distance in distances)]
            which = which.reshape(np.shape(kernel.distance)) + 1
            lines, case = _joined(lines, case, texts, np.where(np.asarray(kernel.applies) > 0, which, 0))
        transformed = np.asarray(self.transformed) > 1
        if np.any(transformed):
            lines, case = _joined(lines, case, ["", TRANSFORMED], transformed)
        if np.any(self.uncovered):
            lines, case = _joined(lines, case, ["", self._flat_basis], np.asarray(self.uncovered) > 0)
        if np.any(self._counts_more):
            lines, case = [*lines, COUNTED], np.where(np.asarray(self._counts_more) > 0, len(lines), case)
        return lines[int(case)] if case.ndim == 0 else np.array(lines, dtype=object)[case]


def _joined(
    lines: list[str], case: NDArray[Any], texts: list[str], which: NDArray[Any]
) -> tuple[list[str], NDArray[Any]]:
    """Lines with one more text each, where they do not have it yet; each pair that occurs is made once."""
    pairs, of_case = np.unique(case * len(texts) + which, return_inverse=True)
    longer = [_join(lines[pair // len(texts)], texts[pair % len(texts)]) for pair in pairs.tolist()]
    return longer, of_case.reshape(np.broadcast_shapes(case.shape, np.shape(which)))


def _join(first: str, second: str) -> str:
    return first if not second or second in first else f"{first}; {second}" if first else second


def _at_possible_rates(items: tuple[TimeItem, ...], floor: Array) -> tuple[TimeItem, ...]:
    """Items whose work itself takes the stated floor at least; the last one, a correction, gives what that needs."""
    work = total(item.seconds for item in items if item.kind == "main")
    short = np.maximum(floor - work, 0.0)
    last, first = items[-1], next(place for place, item in enumerate(items) if item.kind == "main")
    kept = [replace(item, seconds=item.seconds + short) if place == first else item for place, item in enumerate(items)]
    kept[-1] = replace(last, seconds=last.seconds - short)
    return tuple(kept if np.any(np.asarray(kept[-1].seconds)) else kept[:-1])
