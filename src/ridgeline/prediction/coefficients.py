"""Coefficients that serve a kernel, looked up by ever wider keys; KernelTime: its time by the formula of its family.

The machine's own coefficients come before borrowed ones; then those of the kernel's dtype, backend, variant and op
before those of other dtypes, the default path, wider variants and any op.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.dtypes import dtype as dtype_row
from ..core.dtypes import label
from ..core.errors import MissingFigure
from ..core.families import Family, Hardware, Key, TimeItem, formula, keys, nearby
from ..core.figure import Figure
from ..core.machine import ANY, MAIN, Fitted, Machine
from ..core.work import READ, WRITE, Array, Kernel, Work, largest
from ..machines.defaults import defaults
from ..machines.transfer import CORE_UNITS, backends

STREAMING = ("stream", "reduce", "gather")  # families whose kernels are known by their bytes alone
# A dtype that was never timed takes the coefficients of the next one that was.
SUBSTITUTES = {
    "fp16": ("bf16",), "bf16": ("fp16",), "tf32": ("fp32", "bf16"), "fp32": ("tf32",), "fp64": ("fp32",),
    "fp8": ("int8", "bf16"), "int8": ("fp8", "bf16"), "int4": ("int8", "fp8"), "nvfp4": ("fp8", "bf16"),
    "mxfp4": ("fp8", "bf16"), "mxfp6": ("fp8", "bf16"), "mxfp8": ("fp8", "bf16"), "int1": ("int8",), "int32": ("fp32",),
}  # fmt: skip
LENDER_VENDOR = "NVIDIA"  # on whose GPUs nearly all borrowed coefficients were timed
NEARBY = "correction from similar measured shapes"
NOTABLE_DISTANCE = 1.05  # from the timed sizes, as a factor, beyond which a prediction is called extrapolated
SUBSTITUTE_WIDENING = 1.5  # of the interval's logarithm, for another dtype and for another vendor


@dataclass(frozen=True)
class Selected:
    """The coefficients used for a kernel."""

    family: Family
    fitted: Fitted
    key: Key
    widening: float = 1.0  # of the interval's logarithm


@cache
def _candidates(key: Key, backend: str, last_dtype: str) -> tuple[tuple[Key, bool], ...]:
    """Keys to look up, best first, each with whether its dtype is another than the kernel's."""
    arithmetic = key.dtypes[0]
    dtypes = dict.fromkeys((key.dtype, arithmetic))
    return tuple(
        (wider, place > 0)
        for place, dtype in enumerate(filter(None, (*dtypes, *SUBSTITUTES.get(arithmetic, ()), last_dtype)))
        for path in backends(backend)
        for wider in key._replace(dtype=dtype, backend=path).wider()
    )


def select(machine: Machine, key: Key, backend: str | None = None) -> Selected | None:
    """The machine's coefficients for a kernel's key, None where not even a wider one has any."""
    last_dtype = "fp32" if machine.kind == "cpu" else ""
    for borrowed in (False, True):
        for candidate, substitute in _candidates(key, backend or "", last_dtype):
            fitted = machine.fitted.get(candidate)
            if fitted is not None and fitted.borrowed is borrowed:
                steps = substitute + (borrowed and machine.vendor != LENDER_VENDOR)
                return Selected(formula(candidate.family, machine.kind), fitted, candidate, SUBSTITUTE_WIDENING**steps)
    return None


def lender_scale(machine: Machine, dtype: str) -> dict[str, float]:
    """Factors for borrowed coefficients: the machine's published shares of peak and bandwidth over those of the lenders."""
    ceilings = {"compute": machine.engine("matrix", dtype), "memory": machine.main.name}
    scale: dict[str, float] = {}
    for coefficient, usual in defaults("lender_efficiency").items():
        figure = machine.efficiency.get(ceilings[coefficient])
        if figure is not None and figure.measured is not None:
            scale[coefficient] = figure.measured / usual
    return scale


def kernels(work: Work) -> tuple[Kernel, ...]:
    """The kernels of a work; a streaming work without any is one kernel that moves its bytes."""
    if work.kernels or work.family not in STREAMING or not work.dtype:
        return work.kernels
    sizes: Mapping[str, Array] = {
        "read": work.bytes_at(MAIN, READ),
        "written": work.bytes_at(MAIN, WRITE),
        "flops": work.flops,
        "special": work.special,
        "elements": largest(work.tensor_sizes().values()) / dtype_row(work.dtype).bytes,
        "launches": work.waits.get("launch", 1.0),
    }
    return (Kernel(work.family, sizes, work.name, label(work.dtype)),)


def hardware(machine: Machine, dtype: str) -> Hardware | None:
    """The machine as a formula sees it for arithmetic in a dtype, None where a figure is not known."""
    if machine.kind == "cpu":
        return _cpu_hardware(machine, dtype)
    cores = next((machine.units[name] for name in CORE_UNITS if name in machine.units), None)
    if cores is None or ANY in machine.peaks or not machine.levels:
        return None
    try:
        peak = _stated(machine.peaks[machine.engine("matrix", dtype)])
        vector = _stated(machine.peaks[machine.engine("vector", dtype)])
        bandwidth = _stated(machine.main.bandwidth)
    except (MissingFigure, KeyError):
        return None
    if peak is None or vector is None or bandwidth is None:
        return None
    inner = machine.levels[-2] if len(machine.levels) > 1 else None
    cache_size = (inner.total if inner and inner.name != "l1" else None) or defaults("cache")["last_level"]
    figure = machine.peaks.get("special.fp32")
    special = (figure.value() if figure else None) or defaults("special")["per_flop"] * vector
    return Hardware(cores, peak, bandwidth, cache_size, special, vector)


def _cpu_hardware(machine: Machine, dtype: str) -> Hardware | None:
    """The measured figures of a CPU, because a virtual machine has only a part of what the vendor states."""
    if ANY in machine.peaks or not machine.levels:
        return None
    try:
        vector = machine.peaks[machine.engine("vector", dtype)].value()
    except (MissingFigure, KeyError):
        return None
    try:
        peak = machine.peaks[machine.engine("matrix", dtype)].value()
    except MissingFigure:  # a format without arithmetic of its own is converted
        peak = vector
    bandwidth = machine.main.bandwidth.value()
    if peak is None or vector is None or bandwidth is None:
        return None
    figures = [(level.total, level.bandwidth.value()) for level in machine.levels[:-1]]
    caches = tuple((size, rate) for size, rate in figures if size is not None and rate is not None)
    last_level = caches[-1][0] if caches else 0.0
    return Hardware(machine.units.get("core", 1), peak, bandwidth, last_level, np.inf, vector, caches)


def _stated(figure: Figure) -> float | None:
    """The vendor's figure: coefficients are shares of it, whatever was measured."""
    return figure.stated if figure.stated is not None else figure.value()


# -- the time of a kernel -------------------------------------------------------------------------------------


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
        return filled | {name: min(filled[name] * factor, 1.0) for name, factor in self.scale.items() if name in filled}

    @cached_property
    def coefficients(self) -> dict[str, float]:
        return self._fitted if self.given_launch is None else {**self._fitted, "launch": self.given_launch}

    @cached_property
    def _formula(self) -> Array:
        """Seconds by the formula with its fitted launch."""
        return self.selected.family.time(self._sizes, self.hardware, self._fitted)

    @cached_property
    def _correction(self) -> Array:
        """Seconds that similar timed cases add to the formula's time; negative where they took less."""
        table = self.selected.fitted.nearby
        return self._formula * np.expm1(nearby.read(table).correction(self._sizes)) if table else 0.0

    @cached_property
    def time(self) -> Array:
        time = self._formula
        if self.given_launch is not None:
            time = self.selected.family.time(self._sizes, self.hardware, self.coefficients)
        return self._scattered(time + self._correction)

    @cached_property
    def _effects(self) -> tuple[TimeItem, ...]:
        """Seconds of the formula by effect."""
        return self.selected.family.items(self._sizes, self.hardware, self.coefficients)

    def items(self, kernel: str = "") -> list[TimeItem]:
        """Where the time goes; `kernel` is what to call this one where the step has several."""
        items = [*self._effects]
        if self.selected.fitted.nearby:
            items.append(TimeItem(NEARBY, "correction", self._correction))
        if self._mask is None and not kernel:
            return items
        return [replace(item, seconds=self._scattered(item.seconds), kernel=kernel) for item in items]

    @property
    def distance(self) -> Array:
        """How far beyond the sizes that were timed, as a factor; 1 within them."""
        factor: Array = 1.0
        for name, (low, high) in self.selected.fitted.ranges.items():
            size = self._sizes.get(name)
            if size is not None:
                factor = np.maximum(factor, np.maximum(low / np.maximum(size, 1e-300), size / high))
        return self._scattered(factor, 1.0)

    def basis(self, distance: float) -> str:
        """What the coefficients rest on, for a case this far beyond the sizes that were timed."""
        fitted = self.selected.fitted
        how = "not calibrated on this machine" if fitted.borrowed else "calibrated"
        beyond = f", extrapolated up to {distance:.1f}x beyond the timed sizes" if distance > NOTABLE_DISTANCE else ""
        return f"{how} ({self.selected.key}, {fitted.cases} timings): {fitted.errors}{beyond}"


def evaluate_together(times: Iterable[KernelTime]) -> None:
    """Evaluate the formulas of many kernels of one case each: those with the same coefficients all at once.

    The results are kept in the kernels, which would evaluate a formula a dozen times each.
    """
    groups: dict[Any, list[KernelTime]] = defaultdict(list)
    for time in times:
        if time.given_launch is None and all(np.ndim(size) == 0 for size in time._sizes.values()):
            key = time.selected.family.name, time.hardware, tuple(time._sizes), tuple(time.coefficients.items())
            groups[key].append(time)
    for group in groups.values():
        first = group[0]
        sizes = {name: np.array([float(np.asarray(time._sizes[name])) for time in group]) for name in first._sizes}
        effects = first.selected.family.items(sizes, first.hardware, first.coefficients)
        seconds = [np.broadcast_to(item.seconds, len(group)).tolist() for item in effects]
        total = np.broadcast_to(
            first.selected.family.time(sizes, first.hardware, first.coefficients), len(group)
        ).tolist()
        for place, time in enumerate(group):
            rows = zip(effects, seconds, strict=True)
            time.__dict__["_effects"] = tuple(replace(item, seconds=row[place]) for item, row in rows)
            time.__dict__["_formula"] = total[place]


def kernel_times(
    bound: Bound, backend: str | None = None, launch: float | None = None
) -> tuple[tuple[KernelTime, ...], Array]:
    """The kernels of a step that coefficients serve; and 1 for the cases with a kernel that none serve, else 0.

    Formulas give the time of all kernels of a case or of none: where one kernel lacks coefficients the flat form is used.
    """
    times: list[KernelTime] = []
    step_kernels = kernels(bound.work)
    uncovered: Array = 0.0 if step_kernels else 1.0
    for kernel in step_kernels:
        arithmetic = Key(kernel.family, kernel.dtype).dtypes[0]
        machine = hardware(bound.machine, arithmetic)
        for key, applies in keys(kernel.family, kernel.sizes, kernel.dtype, kernel.op, bound.machine.kind):
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
