"""Bound: what a piece of work must take on a machine, and what limits it. Arrays welcome everywhere.

    floor = max(flops_e / peak_e per engine, bytes_l / bandwidth_l per level)

Levels and engines work at the same time, so the floor is the largest term, never their sum. Where the
floor is under the launch latency the bound is `overhead`; where the ratio of the compute and the memory term is 1
within the uncertainty of both ceilings it is `balanced`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cached import cached_property
from .machine import MAIN, Machine
from .notes import PROVISIONAL, Note
from .roofline import intensity, label, scalar_or_array
from .terms import SPECIAL, Term, compute_terms, memory_terms
from .units import percent, show
from .work import LINK, Array, Work, largest

MAX_SPREAD = 0.2  # of a measured ceiling; one above it gets a note
BOUNDS = ("compute", "memory", "overhead", "balanced")
BALANCED = BOUNDS[-1]


def bound_words(side: str) -> str:
    """`memory-bound`, but `balanced` alone."""
    return side if side == BALANCED else f"{side}-bound"


@dataclass(frozen=True)
class Bound:
    """What a piece of work must take on a machine, and what limits it."""

    work: Work
    machine: Machine
    terms: Mapping[str, Term]
    launch: float
    ceilings: str | None = None
    notes: tuple[str, ...] = ()  # what was left out, and which ceilings are noisy
    fewer: Array = 1.0  # times fewer products than the work counts, where kernels transform their operands first

    def with_fewer_products(self, times: Array) -> Bound:
        """The bound of kernels that need so many times fewer products than the work counts: a lower floor under the same roofline."""
        return self if np.all(np.asarray(times) == 1) else replace(self, fewer=self.fewer * times)

    def _largest(self, side: str) -> tuple[Array, Array]:
        """The largest time of a side and which of its terms it is (an index into `terms`)."""
        times = [(float(index), term.time) for index, term in enumerate(self.terms.values()) if term.side == side]
        if not times:
            return 0.0, -1.0
        which: Array
        which, best = times[0]
        for index, time in times[1:]:
            which, best = np.where(time > best, index, which), np.maximum(time, best)
        return best, which

    @cached_property
    def roofline(self) -> Array:
        """The roofline time in seconds: the largest term."""
        return largest(term.time for term in self.terms.values())

    @cached_property
    def floor(self) -> Array:
        """The roofline time; less where the kernels need fewer products than the work counts."""
        if np.all(np.asarray(self.fewer) == 1):
            return self.roofline
        return largest(term.time / self._fewer_of(name) for name, term in self.terms.items())

    @cached_property
    def stated_floor(self) -> Array:
        """The floor that no kernel beats: every ceiling at what the vendor states, or above where more was measured."""
        return largest(term.stated_time / self._fewer_of(name) for name, term in self.terms.items())

    def _fewer_of(self, name: str) -> Array:
        return self.fewer if self.terms[name].side == "compute" and name != SPECIAL else 1.0

    @cached_property
    def _sides(self) -> tuple[Array, Array, Array, Array]:
        return (*self._largest("compute"), *self._largest("memory"))

    @property
    def compute_time(self) -> Array:
        return self._sides[0]

    @property
    def memory_time(self) -> Array:
        return self._sides[2]

    @property
    def tolerance(self) -> float:
        """The largest relative uncertainty among the ceilings."""
        return max((term.ceiling.uncertainty for term in self.terms.values()), default=0.0)

    def _ratio_error(self, cap: float = np.inf) -> Array:
        """Two sigma of the logarithm of compute over memory time, from the ceilings of the largest term of each side."""
        known = np.array([min(term.ceiling.uncertainty, cap) for term in self.terms.values()] + [0.0])
        _, compute, _, memory = self._sides  # -1 where a side has no term
        errors = (known[np.asarray(which, dtype=np.int64)] for which in (compute, memory))
        return np.sqrt(sum(error**2 for error in errors))

    @cached_property
    def _log_ratio(self) -> NDArray[np.float64]:
        """Of compute over memory time; infinite where a side has none."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.asarray(np.log(np.asarray(self.compute_time) / np.asarray(self.memory_time)))
        return np.where(np.isnan(ratio), np.inf, ratio)

    @cached_property
    def code(self) -> NDArray[np.int8]:
        """Index into BOUNDS for every case."""
        compute, memory = np.asarray(self.compute_time), np.asarray(self.memory_time)
        longest = np.maximum(compute, memory)
        # a noisy ceiling gets a note and lowers the confidence; it does not bring the two sides nearer to each other
        near = np.abs(self._log_ratio) <= self._ratio_error(MAX_SPREAD)
        # >= so that a point exactly on the ridge counts as compute when nothing is uncertain
        side = np.where(compute >= memory, 0, 1)
        code = np.where(near, 3, side)
        waits = np.asarray(self.launch * np.asarray(self.work.waits.get("launch", 0.0)))
        return np.asarray(np.where(longest < waits, 2, code), dtype=np.int8)

    @property
    def bound(self) -> str | NDArray[np.str_]:
        return label(self.code, BOUNDS)

    @property
    def limiter(self) -> str | NDArray[np.str_]:
        """The engine, level or link of the largest term; `launch` under the overhead regime."""
        compute, which, memory, where = (np.asarray(value) for value in self._sides)
        index = np.where(compute >= memory, which, where) if self.terms else np.asarray(0.0)
        names = (*self.terms, "launch")
        return label(np.where(self.code == 2, len(names) - 1, index).astype(np.int64), names)

    @property
    def confidence(self) -> Array:
        """How likely the larger side is the right one, from the ceilings' uncertainty (read as two sigma)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.abs(self._log_ratio) / (np.asarray(self._ratio_error()) / 2)
        # the logistic curve approximates the normal one (within 0.01)
        return scalar_or_array(
            np.where(np.isfinite(distance), 1 / (1 + np.exp(-1.702 * np.minimum(distance, 300.0))), 1.0)
        )

    @property
    def capacity(self) -> float | None:
        """Bytes of the main memory, None where they are not known."""
        return self.machine.levels[-1].total if self.machine.levels else None

    @cached_property
    def fits(self) -> Any:
        """Whether the working set fits the main memory, for every case; None where its capacity is not known."""
        fits = None if self.capacity is None else np.asarray(self.work.footprint) <= self.capacity
        return bool(fits) if fits is not None and fits.ndim == 0 else fits

    @property
    def shortage(self) -> str:
        """`needs 103 GB, l4 has 25.8 GB`; of a sweep also how many cases do not fit; nothing where all fit."""
        if self.capacity is None or np.all(self.fits):
            return ""
        sizes, has = np.ravel(self.work.footprint), f"{self.machine.name} has {show(self.capacity, 'B', 3)}"
        if sizes.size == 1:
            return f"does not fit: needs {show(float(sizes[0]), 'B', 3)}, {has}"
        short = np.count_nonzero(~np.asarray(self.fits))
        return (
            f"{short:,} of {sizes.size:,} cases do not fit: they need up to {show(float(sizes.max()), 'B', 3)}, {has}"
        )

    @property
    def flops(self) -> Array:
        return self.work.flops

    @property
    def bytes(self) -> Array:
        return self.work.bytes if MAIN in self.work.levels() else self.work.bytes_at(LINK)

    @property
    def intensity(self) -> Array:
        return intensity(self.flops, self.bytes)

    @property
    def attainable(self) -> Array:
        """flop/s at this intensity under every roof that applies."""
        return _over_floor(self.flops, self.roofline)

    def _engines(self) -> list[str]:
        """The engines that serve products on units of their own; else those of any arithmetic, special functions where there is no other."""
        names = [name for name, term in self.terms.items() if term.side == "compute"]
        products = [name for name in names if name.startswith("tensor")]
        return products or [name for name in names if not name.startswith("special.")] or names

    @cached_property
    def _engine_index(self) -> NDArray[np.int64]:
        times = np.broadcast_arrays(*(np.asarray(self.terms[name].time) for name in self._engines()))
        return np.asarray(np.argmax(np.stack(times), axis=0))

    @property
    def engine(self) -> str | NDArray[np.str_] | None:
        """The engine the intensity is judged against: that of the products, of several the one with the longest term of each case."""
        names = self._engines()
        if len(names) < 2:
            return names[0] if names else None
        return label(self._engine_index, tuple(names))

    @property
    def peak(self) -> Array | None:
        """Peak of that engine, None for work without flops."""
        names = self._engines()
        if not names:
            return None
        peaks = np.array([self.terms[name].ceiling.value for name in names])
        return float(peaks[0]) if len(names) == 1 else scalar_or_array(peaks[self._engine_index])

    @property
    def ridge(self) -> Array | None:
        """Ridge of that engine against the main memory (or the link), None for work without flops."""
        outer = [term for term in self.terms.values() if term.side == "memory"]
        peak = self.peak
        return None if peak is None or not outer else peak / outer[-1].rate

    @property
    def share_of_peak(self) -> Array:
        """The share of that engine's peak that the roofline leaves it: its own term over the roofline time, between 0 and 1."""
        if not self._engines():
            return 0.0
        return _over_floor(largest(self.terms[name].time for name in self._engines()), self.roofline)

    @property
    def kinds(self) -> str:
        """Which kinds of ceilings were used, `stated` or a mixture such as `measured+stated`."""
        used = {term.ceiling.kind for name, term in self.terms.items() if not name.startswith("special.")}
        return "+".join(sorted(used))


def _over_floor(amount: Array, floor: Array) -> Array:
    """Nothing where the floor is zero."""
    floor = np.asarray(floor)
    with np.errstate(divide="ignore", invalid="ignore"):
        return scalar_or_array(np.where(floor > 0, amount / floor, 0.0))


def bound(
    work: Work,
    machine: Machine,
    ceilings: str | None = None,
    engine: str | None = None,
    resident: str | None = None,
    launch: float = 0.0,
) -> Bound:
    """The bound of work on a machine.

    `ceilings` asks for stated, derived or measured figures; `engine` forces the unit of matrix products
    (`vector`, `tensor-sparse`); `resident` says the data already sit at an inner level, which then feeds
    the kernel instead of the main memory.
    """
    notes: list[str] = []
    terms = {
        **compute_terms(work, machine, ceilings, engine, notes),
        **memory_terms(work, machine, ceilings, resident, notes),
    }
    if PROVISIONAL in machine.conditions and any(term.ceiling.kind == "measured" for term in terms.values()):
        again = f"run `ridgeline measure {'cpu' if machine.kind == 'cpu' else 'cuda'}` on a quiet machine"
        notes.append(Note(PROVISIONAL, f"provisional ceilings ({machine.conditions[PROVISIONAL]}): {again}"))
    if resident is not None and resident in terms:
        notes += _too_large_for(machine, resident, work)
    for name, term in terms.items():
        spread = term.ceiling.uncertainty
        if term.ceiling.kind == "measured" and spread > MAX_SPREAD:
            noise = f"{name} ceiling is noisy (+/-{percent(spread)})"
            notes.append(f"{noise}: kernels bound by it may run that much faster; run `ridgeline measure` again")
    return Bound(work, machine, terms, launch, ceilings, tuple(notes))


def _too_large_for(machine: Machine, resident: str, work: Work) -> list[str]:
    """That the data cannot sit at the level that they are said to sit at."""
    total, sizes = machine.level(resident).total, np.ravel(work.footprint)
    if total is None or np.all(sizes <= total):
        return []
    cases = f"{np.count_nonzero(sizes > total):,} of {sizes.size:,} cases need up to" if sizes.size > 1 else "needs"
    holds = f"{resident.upper()} holds {show(total, 'B', 3)}"
    return [f"{cases} {show(float(sizes.max()), 'B', 3)} and {holds}: the time is as if all of it were there"]
