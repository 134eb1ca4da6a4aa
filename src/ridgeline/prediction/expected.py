"""Expected time of a step: what good library kernels take, item by item, with an interval and what it rests on.

Where the kernels of a step and the cores of the machine are known, the formula of each kernel's family gives its time,
with the coefficients that belong to the machine (`families/`, `Machine.fitted`). Everything else gets the flat form

    time = max over terms of amount / (ceiling x efficiency) + launch latency x launches

with documented fractions: those the machine file carries, else the defaults below. With measured ceilings the
efficiency is 1, because the loss is already in the ceiling. No expected time lies below the floor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.bound import Bound
from ..core.dtypes import dtype as dtype_row
from ..core.dtypes import label
from ..core.errors import MissingFigure
from ..core.families import Family, Hardware, formula, nearby, variants, wider
from ..core.figure import UNCERTAINTY, Figure
from ..core.machine import ANY, MAIN, Fitted, Machine
from ..core.work import READ, WRITE, Array, Kernel, Work

# The usual landing place of tuned kernels (they spread over 0.65 to 0.85 of the stated roof).
COMPUTE = 0.78
# Streaming kernels by memory technology, and links (public benchmark collections, see docs/model.md).
MEMORY = {"hbm": 0.85, "gddr": 0.92, "ddr": 0.80, "lpddr": 0.80}
LINK = 0.82
OTHER = 0.80

# Shortest kernel on a GPU, seen as the floor of replayed graphs of small GEMMs; other kinds of machine publish nothing.
LAUNCH = {"gpu": 2.5e-6}
BASIS = "family default, not calibrated"
MEASURED = "measured ceilings, kernel families not calibrated"
GIVEN = "efficiency given by the caller"
ROUGH = (0.8, 2.0)  # the interval of a time that nothing was fitted for

CORES = ("sm", "cu", "xe_core", "gpu_core")  # what vendors call the units that kernels' blocks are dealt to
STREAMS = ("stream", "reduce", "gather")  # families whose kernels are told by their bytes alone
SMALL_CACHE = 4e6  # bytes of last-level cache where a file states none
SPECIAL = 1 / 16  # special functions per flop of the vector units
# A format that was never timed takes the numbers of the next one that was.
NEXT = {
    "fp16": ("bf16",), "bf16": ("fp16",), "tf32": ("fp32", "bf16"), "fp32": ("tf32",), "fp64": ("fp32",),
    "fp8": ("int8", "bf16"), "int8": ("fp8", "bf16"), "int4": ("int8", "fp8"), "nvfp4": ("fp8", "bf16"),
    "mxfp4": ("fp8", "bf16"), "mxfp6": ("fp8", "bf16"), "mxfp8": ("fp8", "bf16"), "int1": ("int8",), "int32": ("fp32",),
}  # fmt: skip
LENDER = "NVIDIA"  # whose GPUs every lent number but a few was timed on
LENT = {"compute": 0.80, "memory": 0.86}  # published shares of the machines whose numbers are borrowed
NEIGHBOUR = 1.5  # how much wider the interval gets for it
NEARBY = "as cases nearby took"
BEYOND = 0.5  # and for every doubling of a size beyond those that were timed


@dataclass(frozen=True)
class Efficiency:
    value: float
    why: str


def launch_latency(machine: Machine) -> float:
    """Seconds a kernel takes however little it does: the machine's own figure, else the default of its kind."""
    known = machine.launch.value()
    return LAUNCH.get(machine.kind, 0.0) if known is None else known


def efficiency(bound: Bound, name: str, given: float | None = None) -> Efficiency:
    """The fraction of a ceiling that kernels reach, and where that fraction comes from."""
    term = bound.terms[name]
    if given is not None:
        return Efficiency(given, "given by the caller")
    library = bound.machine.efficiency.get(f"{bound.work.family}.{name}")
    if library is not None and library.measured is not None:
        return Efficiency(library.measured, library.measurement)
    if term.ceiling.kind == "measured":
        return Efficiency(1.0, "measured ceilings already contain the loss")
    known = bound.machine.efficiency.get(name)
    if known is not None and known.measured is not None:
        return Efficiency(known.measured, known.source)
    if term.side == "compute":
        return Efficiency(COMPUTE, "default for tuned kernels")
    if name in MEMORY:
        return Efficiency(MEMORY[name], f"default for {name.upper()}")
    if any(name == link.name for link in bound.machine.links):
        return Efficiency(LINK, "default for links")
    return Efficiency(OTHER, "default for caches and other memory")


# -- kernels --------------------------------------------------------------------------------------------------


def kernels(work: Work) -> tuple[Kernel, ...]:
    """The kernels of a work: its own, or the one stream that its bytes tell of."""
    if work.kernels or work.family not in STREAMS or not work.dtype:
        return work.kernels
    width = dtype_row(work.dtype).bytes
    read, written = work.bytes_at(MAIN, READ), work.bytes_at(MAIN, WRITE)
    sizes = work.tensor_sizes().values()
    largest: Array = 0.0
    for size in sizes:
        largest = np.maximum(largest, size)
    told: dict[str, Array] = {
        "read": read,
        "written": written,
        "flops": work.flops,
        "special": work.special,
        "elements": largest / width,
        "launches": work.waits.get("launch", 1.0),
    }
    return (Kernel(work.family, told, work.name, label(work.dtype)),)


def hardware(machine: Machine, kernel: Kernel) -> Hardware | None:
    """The machine as a formula sees it, None where a figure it needs is not known."""
    cores = next((machine.units[name] for name in CORES if name in machine.units), None)
    if cores is None or ANY in machine.peaks or not machine.levels:
        return None
    try:
        math = _base(kernel.dtype)
        peak = _paper(machine.peaks[machine.engine("matrix", math)])
        vector = _paper(machine.peaks[machine.engine("vector", math)])
        bandwidth = _paper(machine.main.bandwidth)
    except (MissingFigure, KeyError):
        return None
    if peak is None or vector is None or bandwidth is None:
        return None
    cache = machine.levels[-2].total if len(machine.levels) > 1 and machine.levels[-2].name != "l1" else None
    known = machine.peaks.get("special.fp32")
    special = known.value() if known is not None else None
    return Hardware(cores, peak, bandwidth, cache or SMALL_CACHE, special or SPECIAL * vector, vector)


def _paper(figure: Figure) -> float | None:
    """The figure of the document: coefficients are shares of it, whatever was measured."""
    return figure.stated if figure.stated is not None else figure.value()


def _base(dtype: str) -> str:
    return dtype.partition("-")[0]


@dataclass(frozen=True)
class Chosen:
    """The fitted numbers that serve a kernel, and how far they were fetched."""

    family: Family
    fitted: Fitted
    key: str
    wider: float = 1.0


def choose(machine: Machine, kernel: Kernel, name: str, backend: str | None, op: str = "") -> Chosen | None:
    """Numbers for a kernel: the machine's own before borrowed ones, then of its own variant, op and format before others."""
    op = op or kernel.op
    own = (kernel.dtype, _base(kernel.dtype)) if "-" in kernel.dtype else (kernel.dtype,)
    for borrowed in (False, True):
        for place, dtype in enumerate((*own, *NEXT.get(_base(kernel.dtype), ()))):
            for at in (f"@{backend}", "") if backend else ("",):
                for variant in wider(name):
                    for key in (f"{variant}.{op}.{dtype}{at}", f"{variant}.{dtype}{at}"):
                        found = machine.fitted.get(key)
                        if found is not None and found.borrowed is borrowed:
                            far = (place > 0) + (borrowed and machine.vendor != LENDER)
                            return Chosen(formula(variant), found, key, NEIGHBOUR**far)
    return None


@dataclass(frozen=True)
class Part:
    """One kernel of a step with the formula and numbers chosen for it; `here` marks the cases it speaks of.

    Elsewhere its times are 0: the formula runs over its own cases alone, because a step may have many variants.
    """

    kernel: Kernel
    chosen: Chosen
    hardware: Hardware
    here: Array = 1.0
    given: float | None = None  # launch of the caller's, instead of the fitted one
    scale: Mapping[str, float] = field(default_factory=dict)  # of coefficients, where the machine is known to differ

    @cached_property
    def _mask(self) -> NDArray[np.bool_] | None:
        """Its own cases, None where all of them are."""
        if isinstance(self.here, float):
            return None
        whole = np.broadcast_shapes(*(np.shape(size) for size in self.kernel.sizes.values()))
        return np.broadcast_to(self.here > 0, whole)

    @cached_property
    def _sizes(self) -> Mapping[str, Array]:
        mask = self._mask
        if mask is None:
            return self.kernel.sizes
        return {
            name: size if np.ndim(size) == 0 else np.broadcast_to(size, mask.shape)[mask]
            for name, size in self.kernel.sizes.items()
        }

    def _spread(self, own: Array, elsewhere: float = 0.0) -> Array:
        """A value of its own cases among all of them."""
        if self._mask is None:
            return own
        found = np.full(self._mask.shape, elsewhere)
        found[self._mask] = own
        return found

    @cached_property
    def _fitted(self) -> dict[str, float]:
        own = self.chosen.family.filled(self.chosen.fitted.coefficients)
        return own | {name: own[name] * share for name, share in self.scale.items() if name in own}

    @cached_property
    def coefficients(self) -> dict[str, float]:
        return self._fitted if self.given is None else {**self._fitted, "launch": self.given}

    @cached_property
    def _nearby(self) -> Array:
        """Seconds that timings around the cases add to the formula's time with its own launch, or take from it."""
        table = self.chosen.fitted.nearby
        return self._formula * np.expm1(nearby.read(table).correction(self._sizes)) if table else 0.0

    @cached_property
    def _formula(self) -> Array:
        return self.chosen.family.time(self._sizes, self.hardware, self._fitted)

    @cached_property
    def time(self) -> Array:
        if self.given is None:
            return self._spread(self._formula + self._nearby)
        return self._spread(self.chosen.family.time(self._sizes, self.hardware, self.coefficients) + self._nearby)

    def items(self) -> dict[str, Array]:
        found = self.chosen.family.items(self._sizes, self.hardware, self.coefficients)
        if self.chosen.fitted.nearby:
            found[NEARBY] = self._nearby
        return {name: self._spread(value) for name, value in found.items()}

    @property
    def distance(self) -> Array:
        """How far beyond the sizes that were timed, as a factor; 1 within them."""
        far: Array = 1.0
        for name, (least, most) in self.chosen.fitted.ranges.items():
            size = self._sizes.get(name)
            if size is not None:
                far = np.maximum(far, np.maximum(least / np.maximum(size, 1e-300), size / most))
        return self._spread(far, 1.0)

    @property
    def launch(self) -> float:
        return self.coefficients["launch"]

    def told(self, far: float) -> str:
        """What its numbers rest on, for a case so far beyond the sizes that were timed."""
        fitted = self.chosen.fitted
        how = "not calibrated on this machine" if fitted.borrowed else "calibrated"
        who = "machines" if fitted.borrowed else "timings"
        beyond = f", up to {far:.1f} x beyond the sizes timed" if far > 1.05 else ""
        return (
            f"{how}: {self.chosen.key}, {fitted.cases} timings, "
            f"{who} left out are told within {fitted.error:.0%} (P90 {fitted.p90:.0%}){beyond}"
        )


def parts(
    bound: Bound, backend: str | None = None, launch: float | None = None
) -> tuple[tuple[Part, ...] | None, Array]:
    """The kernels of a step with their numbers, None where there are none; and 1 for the cases that lack some, else 0."""
    found: list[Part] = []
    own = kernels(bound.work)
    bare: Array = 0.0 if own else 1.0
    for kernel in own:
        seen = hardware(bound.machine, kernel)
        for name, op, here in variants(kernel.family, kernel.sizes, kernel.op):
            chosen = None if seen is None else choose(bound.machine, kernel, name, backend, op)
            if chosen is None or seen is None:
                bare = np.maximum(bare, here)
            else:
                scale = _known(bound.machine, kernel) if chosen.fitted.borrowed else {}
                found.append(Part(kernel, chosen, seen, here, launch, scale))
    if np.any(bare):
        left = [replace(part, here=np.where(bare > 0, 0.0, part.here)) for part in found]
        found = [part for part in left if np.any(part.here)]
    return tuple(found) or None, bare


def _known(machine: Machine, kernel: Kernel) -> dict[str, float]:
    """How a machine's published shares of its peak and bandwidth compare with those of the machines it borrows from."""
    shares = {"compute": (machine.engine("matrix", _base(kernel.dtype)), LENT["compute"])}
    shares["memory"] = (machine.main.name, LENT["memory"])
    found = {name: (machine.efficiency.get(figure), usual) for name, (figure, usual) in shares.items()}
    return {
        name: figure.measured / usual
        for name, (figure, usual) in found.items()
        if figure is not None and figure.measured is not None
    }


# -- the expected time ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Expected:
    """Seconds a step is expected to take, between `low` and `high` in four cases of five."""

    bound: Bound
    given: float | None = None  # one fraction of every ceiling, of the caller's
    backend: str | None = None  # that was asked for
    launch: float | None = None  # of the caller's, instead of the fitted one
    flat: bool = False  # the kernel families left aside

    @cached_property
    def _found(self) -> tuple[tuple[Part, ...] | None, Array]:
        if self.flat or self.given is not None:
            return None, 1.0
        return parts(self.bound, self.backend, self.launch)

    @property
    def parts(self) -> tuple[Part, ...] | None:
        """The kernels with their numbers; looked up when a time is first asked for, because a floor needs none of it."""
        return self._found[0]

    @property
    def bare(self) -> Array:
        """1 for cases without numbers, where others have them."""
        return self._found[1]

    @cached_property
    def raw(self) -> Array:
        """What the formulas say, before the floor."""
        if self.parts is None:
            return _flat(self.bound, self.given)
        time: Array = self.parts[0].time
        for part in self.parts[1:]:
            time = time + part.time
        return self._or(time, _flat(self.bound, None)) if np.any(self.bare) else time

    @cached_property
    def time(self) -> Array:
        return np.maximum(self.raw, self.bound.floor)

    def _or(self, own: Array, flat: Array) -> Array:
        """The second where a case has no numbers."""
        return np.where(np.asarray(self.bare) > 0, flat, own)

    def _reach(self, way: str) -> Array:
        """Relative distance of an end of the interval from the time."""
        rough = ROUGH[0] / (1 + self._doubt) - 1 if way == "low" else ROUGH[1] - 1
        if self.parts is None:
            return rough
        total: Array = 0.0
        for part in self.parts:
            fitted = part.chosen.fitted
            wider = part.chosen.wider * (1 + BEYOND * np.log2(part.distance))
            end = np.exp(np.log(getattr(fitted, way)) * wider) - 1
            share = part.time / np.maximum(self.raw, 1e-300) if len(self.parts) > 1 else 1.0
            total = total + end * share
        return self._or(total, rough) if np.any(self.bare) else total

    @property
    def _doubt(self) -> float:
        """How much faster a machine may be than it was measured, beyond what measuring usually errs by."""
        if self.bound.kinds != "measured":
            return 0.0
        return max(self.bound.tolerance - UNCERTAINTY["measured"], 0.0)

    @property
    def low(self) -> Array:
        """Not below the floor; a measured one is known as well as its ceilings are."""
        surely = self.bound.floor * (1 - self.bound.tolerance if self.bound.kinds == "measured" else 1.0)
        return np.maximum(self.time * (1 + self._reach("low")), np.minimum(surely, self.time))

    @property
    def high(self) -> Array:
        return self.time * np.maximum(1 + self._reach("high"), 1.0)

    @property
    def distance(self) -> Array:
        far: Array = 1.0
        for part in self.parts or ():
            far = np.maximum(far, part.distance)
        return far

    def items(self) -> dict[str, Array]:
        """Where the time goes, in seconds by item; they sum to the time."""
        if self.parts is None:
            return self._flat_items()
        found: dict[str, Array] = {}
        several = any(part.kernel is not self.parts[0].kernel for part in self.parts)
        for part in self.parts:
            lead = f"{part.kernel.op or part.kernel.family}: " if several else ""
            for name, value in part.items().items():
                found[lead + name] = found.get(lead + name, 0.0) + value
        if np.any(self.bare):
            for name, value in self._flat_items().items():
                found[name] = found.get(name, 0.0) + value * self.bare
        lifted = self._or(self.time - self.raw, 0.0) if np.any(self.bare) else self.time - self.raw
        if np.any(np.asarray(lifted) > 0):
            found["held at the floor"] = lifted
        return found

    def _flat_items(self) -> dict[str, Array]:
        launches = self.bound.work.waits.get("launch", 0.0)
        launch = self.bound.launch * launches
        found = {"floor": np.minimum(self.bound.floor, self.raw)}
        found["below the ceilings"] = np.maximum(self.time - launch - found["floor"], 0.0)
        found["launch"] = self.time - found["floor"] - found["below the ceilings"]
        return found

    @property
    def basis(self) -> str:
        """What the times rest on, in one line for all cases."""
        if self.given is not None:
            return GIVEN
        flat = (self._bare,) if self.parts is None or np.any(self.bare) else ()
        lines = (self._missed((part,)) + part.told(float(np.max(part.distance))) for part in self.parts or ())
        return "; ".join(dict.fromkeys((*lines, *flat)))

    @property
    def _bare(self) -> str:
        """What a time without numbers rests on."""
        return self._missed(()) + (MEASURED if self.bound.kinds == "measured" else BASIS)

    def _missed(self, used: tuple[Part, ...]) -> str:
        """That the numbers of the backend asked for are not there."""
        if not self.backend or any(part.chosen.key.endswith(f"@{self.backend}") for part in used):
            return ""
        return f"no timings of {self.backend} for this, so of the default path: "

    @property
    def confidence(self) -> str | NDArray[np.object_]:
        """What the time of each case rests on: one line, or one line a case where they differ."""
        if self.given is not None or self.parts is None:
            return self.basis
        lines: Any = ""
        for part in self.parts:
            far, which = np.unique(np.round(part.distance, 1), return_inverse=True)
            texts = np.array([self._missed((part,)) + part.told(float(value)) for value in far], dtype=object)
            own = texts[which.ravel()].reshape(np.shape(part.distance))
            lines = _join(lines, np.where(np.asarray(part.here) > 0, own, ""))
        if np.any(self.bare):
            lines = _join(lines, np.where(np.asarray(self.bare) > 0, self._bare, "").astype(object))
        return lines  # type: ignore[no-any-return]


def _joined(first: str, second: str) -> str:
    return first if not second or second in first else f"{first}; {second}" if first else second


_join = np.frompyfunc(_joined, 2, 1)


def _flat(bound: Bound, given: float | None) -> Array:
    slowest: Array = 0.0
    for index, (name, term) in enumerate(bound.terms.items()):
        time = term.amount * (1 / (term.rate * efficiency(bound, name, given).value))
        slowest = time if index == 0 else np.maximum(slowest, time)
    launches = bound.work.waits.get("launch", 0.0)
    return slowest + bound.launch * launches if bound.launch else slowest


def expected(
    bound: Bound,
    given: float | None = None,
    launch: float | None = None,
    backend: str | None = None,
    flat: bool = False,
) -> Expected:
    """The expected time of a step. `flat` leaves the kernel families aside, as the options that contradict them do."""
    return Expected(bound, given, backend, launch, flat)


def backends(machine: Machine) -> list[str]:
    """The backends the machine carries numbers of their own for."""
    return sorted({key.partition("@")[2] for key in machine.fitted if "@" in key})
