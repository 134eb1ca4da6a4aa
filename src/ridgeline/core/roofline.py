"""The law: attainable rate, ridge, floor, bound and limiter; batch, energy. Arrays welcome everywhere.

    attainable = min(peak, min over levels of bandwidth_l x intensity_l)
    floor      = max(flops_e / peak_e per engine, bytes_l / bandwidth_l per level)
    ridge      = peak / bandwidth

Levels and engines work at the same time, so the floor is the largest term, never their sum. Where the
floor is under the launch latency the bound is `overhead`; where compute and memory terms lie within the
ceilings' uncertainty of each other it is `balanced`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .dtypes import dtype as dtype_row
from .errors import InputError, MissingFigure, UnknownName
from .machine import MAIN, Ceiling, Machine
from .work import LINK, WRITE, Array, Work

DOUBTFUL = 0.2  # spread of a measured ceiling from which it is worth a word
BOUNDS = ("compute", "memory", "overhead", "balanced")


def intensity(flops: Array, moved: Array) -> Array:
    """Flops per byte. Zero flops give 0; no bytes are an error, not infinity."""
    if np.any(np.asarray(moved) <= 0):
        raise InputError("intensity needs a positive number of bytes")
    return flops / moved


def attainable(at: Array, peak: Array, bandwidth: Array) -> Array:
    """min(peak, bandwidth x intensity), in flop/s."""
    return np.minimum(peak, bandwidth * at)


def ridge(peak: Array, bandwidth: Array) -> Array:
    """The intensity at which both roofs meet; also called machine balance."""
    return peak / bandwidth


def roof(
    peak: float, bandwidth: float, first: float = 0.01, last: float = 1000.0, samples: int = 1000
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-spaced intensities and the attainable rate at each: the curve a roofline chart draws."""
    at = np.geomspace(first, last, samples)
    return at, np.asarray(attainable(at, peak, bandwidth))


@dataclass(frozen=True)
class Term:
    """One thing that takes time at least: work on an engine, or bytes over a level or link."""

    side: str  # compute or memory
    amount: Array
    ceiling: Ceiling
    mix: Array | None = None  # bandwidth of the access mix nearest to the kernel's, where mixes were measured

    @property
    def rate(self) -> Array:
        return self.ceiling.value if self.mix is None else self.mix

    @property
    def time(self) -> Array:
        return self.amount * (1 / self.rate)  # a product is several times faster than a quotient


@dataclass(frozen=True)
class Bound:
    """What a piece of work must take on a machine, and what limits it."""

    work: Work
    machine: Machine
    terms: Mapping[str, Term]
    launch: float
    ceilings: str | None = None
    notes: tuple[str, ...] = ()  # what was left out, and which ceilings to doubt

    def _largest(self, side: str) -> tuple[Array, Array]:
        """The largest time of a side and which of its terms it is (an index into `terms`)."""
        best: Array = 0.0
        which: Array = -1.0
        for index, term in enumerate(self.terms.values()):
            if term.side == side:
                time = term.time
                if isinstance(which, float) and which < 0:
                    best, which = time, float(index)
                else:
                    which = np.where(time > best, float(index), which)
                    best = np.maximum(time, best)
        return best, which

    @cached_property
    def floor(self) -> Array:
        """The roofline time in seconds: the largest term."""
        best: Array | None = None
        for term in self.terms.values():
            best = term.time if best is None else np.maximum(best, term.time)
        return 0.0 if best is None else best

    @cached_property
    def _sides(self) -> tuple[Array, Array, Array, Array]:
        return (*self._largest("compute"), *self._largest("memory"))

    @property
    def compute_time(self) -> Array:
        return self._sides[0]

    @property
    def memory_time(self) -> Array:
        return self._sides[2]

    def _uncertainty(self, side: str) -> float:
        return max((term.ceiling.uncertainty for term in self.terms.values() if term.side == side), default=0.0)

    @cached_property
    def tolerance(self) -> float:
        """Relative distance from the ridge within which the ceilings cannot tell the sides apart."""
        return max(self._uncertainty("compute"), self._uncertainty("memory"))

    @cached_property
    def code(self) -> NDArray[np.int8]:
        """Index into BOUNDS for every case."""
        compute, memory = np.asarray(self.compute_time), np.asarray(self.memory_time)
        longest = np.maximum(compute, memory)
        near = (np.abs(compute - memory) <= self.tolerance * longest) & (np.minimum(compute, memory) > 0)
        # >= so that a point exactly on the ridge counts as compute when nothing is uncertain
        side = np.where(compute >= memory, 0, 1)
        code = np.where(near, 3, side)
        waits = np.asarray(self.launch * np.asarray(self.work.waits.get("launch", 0.0)))
        return np.asarray(np.where(longest < waits, 2, code), dtype=np.int8)

    @property
    def bound(self) -> str | NDArray[np.str_]:
        return _named(self.code, BOUNDS)

    @property
    def limiter(self) -> str | NDArray[np.str_]:
        """The engine, level or link of the largest term; `launch` under the overhead regime."""
        compute, which, memory, where = (np.asarray(value) for value in self._sides)
        index = np.where(compute >= memory, which, where) if self.terms else np.asarray(0.0)
        names = (*self.terms, "launch")
        return _named(np.where(self.code == 2, len(names) - 1, index).astype(np.int64), names)

    @property
    def sure(self) -> Array:
        """How likely the nearer side is the right one, from the ceilings' uncertainty (read as two sigma)."""
        compute, memory = np.asarray(self.compute_time), np.asarray(self.memory_time)
        compute_error, memory_error = (self._uncertainty(side) / 2 for side in ("compute", "memory"))
        sigma = (compute_error**2 + memory_error**2) ** 0.5
        if sigma == 0:
            return _plain(np.ones(np.broadcast(compute, memory).shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.abs(np.log(compute / memory)) / sigma
        # the logistic curve stands in for the normal one (within 0.01 of it)
        return _plain(np.where(np.isfinite(distance), 1 / (1 + np.exp(-1.702 * np.minimum(distance, 300.0))), 1.0))

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
        floor = np.asarray(self.floor)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _plain(np.where(floor > 0, self.flops / floor, 0.0))

    def _engines(self) -> list[str]:
        """The engines of arithmetic proper; special functions are judged apart."""
        found = [name for name, term in self.terms.items() if term.side == "compute"]
        return [name for name in found if not name.startswith("special.")] or found

    @cached_property
    def _engine_index(self) -> NDArray[np.int64]:
        times = np.broadcast_arrays(*(np.asarray(self.terms[name].time) for name in self._engines()))
        return np.asarray(np.argmax(np.stack(times), axis=0))

    @property
    def engine(self) -> str | NDArray[np.str_] | None:
        """The engine the intensity is judged against: of each case, the one with the longest compute term."""
        names = self._engines()
        if len(names) < 2:
            return names[0] if names else None
        return _named(self._engine_index, tuple(names))

    @property
    def peak(self) -> Array | None:
        """Peak of that engine, None for work without flops."""
        names = self._engines()
        if not names:
            return None
        peaks = np.array([self.terms[name].ceiling.value for name in names])
        return float(peaks[0]) if len(names) == 1 else _plain(peaks[self._engine_index])

    @property
    def ridge(self) -> Array | None:
        """Ridge of that engine against the main memory (or the link), None for work without flops."""
        outer = [term for term in self.terms.values() if term.side == "memory"]
        peak = self.peak
        return None if peak is None or not outer else peak / outer[-1].rate

    @property
    def share_of_peak(self) -> Array:
        """The share of that engine's peak that the floor leaves it: its own term over the floor, between 0 and 1."""
        names = self._engines()
        floor = np.asarray(self.floor)
        if not names:
            return 0.0
        times = [np.asarray(self.terms[name].time) for name in names]
        longest = times[0] if len(times) == 1 else np.max(np.stack(np.broadcast_arrays(*times)), axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _plain(np.where(floor > 0, longest / floor, 0.0))

    @property
    def kinds(self) -> str:
        """Which kinds of ceilings were used, `stated` or a mixture such as `measured+stated`."""
        used = {term.ceiling.kind for name, term in self.terms.items() if not name.startswith("special.")}
        return "+".join(sorted(used))


def _named(code: NDArray[np.generic], names: tuple[str, ...]) -> str | NDArray[np.str_]:
    if code.ndim == 0:
        return names[int(code)]
    return np.asarray(names)[code.astype(np.int64)]


def _plain(values: NDArray[np.float64]) -> Array:
    return float(values) if values.ndim == 0 else values


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
    terms: dict[str, Term] = {}
    notes: list[str] = []
    for (asked, dtype), flops in work.by_engine().items():
        if not np.any(np.asarray(flops)):
            continue
        try:
            name = machine.engine(asked, dtype, engine)
        except MissingFigure as missing:
            if asked != "vector":
                raise
            # elementwise work is bound by memory almost everywhere, so its bytes still give an answer
            notes.append(f"vector arithmetic left out: {missing}")
            continue
        known = terms.get(name)
        amount = flops if known is None else known.amount + flops
        terms[name] = Term("compute", amount, machine.peak(name, ceilings))
    if np.any(np.asarray(work.special)) and "special.fp32" in machine.peaks:
        figure = machine.peaks["special.fp32"]
        if figure.value(ceilings) is not None:
            terms["special.fp32"] = Term("compute", work.special, machine.peak("special.fp32", ceilings))
        else:
            notes.append(f"{machine.name} has no {ceilings} special-function rate")
    for level in work.levels():
        moved = work.bytes_at(level)
        if level == LINK:
            link = machine.link()
            terms[link.name] = Term("memory", moved, machine.ceiling(link.per_direction, link.name, ceilings))
        elif level == MAIN:
            where = machine.level(resident or MAIN)
            mix = _nearest_mix(machine.mixes(where.name, ceilings), work.bytes_at(MAIN, WRITE), moved)
            terms[where.name] = Term("memory", moved, machine.bandwidth(where.name, ceilings), mix)
        else:
            try:
                terms[level] = Term("memory", moved, machine.bandwidth(level, ceilings))
            except (MissingFigure, UnknownName) as missing:
                notes.append(f"level {level} left out: {missing}")
    # the main memory stands last, so that it is the one the ridge is taken against
    outer = [name for name in terms if terms[name].side == "memory"]
    if MAIN in work.levels() and len(outer) > 1:
        name = machine.level(resident or MAIN).name
        terms[name] = terms.pop(name)
    for name, term in terms.items():
        if term.ceiling.kind == "measured" and term.ceiling.uncertainty > DOUBTFUL:
            notes.append(
                f"{name} was measured with a spread of {term.ceiling.uncertainty:.0%}, on a disturbed machine: what it bounds "
                "may be that much faster; measure again"
            )
    return Bound(work, machine, terms, launch, ceilings, tuple(notes))


def _nearest_mix(mixes: list[tuple[float, float, str]], written: Array, moved: Array) -> Array | None:
    """Bandwidth of the measured mix whose share of writes is nearest; of several at one share the fastest."""
    if not mixes:
        return None
    shares, rates = np.array([share for share, _, _ in mixes]), np.array([rate for _, rate, _ in mixes])
    mine = np.asarray(written / moved)
    distance = np.abs(mine[..., None] - shares)
    near = np.isclose(distance, distance.min(axis=-1, keepdims=True))
    return _plain(np.where(near, rates, 0.0).max(axis=-1))


# -- what was achieved ------------------------------------------------------------------------------------

UNDERUSED = 0.5  # with both shares below it, neither roof explains the time


@dataclass(frozen=True)
class Achieved:
    """A measured kernel against its roofs: shares of 1 (above 1 is a finding about the count or the roof)."""

    intensity: Array
    rate: Array
    peak_share: Array
    bandwidth_share: Array
    roof_share: Array
    verdict: str | NDArray[np.str_]


def achieved(flops: Array, moved: Array, time: Array, peak: float, bandwidth: float) -> Achieved:
    """Where a run landed: x = flops/bytes, y = flops/time, and which of three answers it gives.

    `compute` or `memory` names the roof that is used the most; `underused` says that neither peak is half reached:
    latency, too little parallelism, overhead, or inefficient use of both.
    """
    at, rate = intensity(flops, moved), flops / time
    peak_share, bandwidth_share = rate / peak, moved / time / bandwidth
    shares = np.asarray(peak_share), np.asarray(bandwidth_share)
    side = np.where(shares[0] >= shares[1], 0, 1)
    verdict = _named(np.where(np.maximum(*shares) < UNDERUSED, 2, side), ("compute", "memory", "underused"))
    return Achieved(
        at,
        rate,
        peak_share,
        bandwidth_share,
        rate / attainable(at, peak, bandwidth) if np.all(np.asarray(flops) > 0) else bandwidth_share,
        verdict,
    )


# -- batch ------------------------------------------------------------------------------------------------


def batch_intensity(
    batch: Array, fan_in: Array, fan_out: Array, width: float = 2.0, weights: float | None = None
) -> Array:
    """Intensity of a linear layer against batch, in closed form.

    AI(B) = 2 B W / (w W + B d (in + out)) with W = in x out, d bytes per activation, w per weight; for w = d
    this is (2/d) B / (1 + B/in + B/out). It grows as 2B/w while B is small and saturates at 2W / (d (in + out)).
    """
    size = fan_in * fan_out
    return 2 * batch * size / ((width if weights is None else weights) * size + batch * width * (fan_in + fan_out))


def saturation(fan_in: Array, fan_out: Array, width: float = 2.0) -> Array:
    """What the intensity of a linear layer tends to for ever larger batches."""
    return 2 * fan_in * fan_out / (width * (fan_in + fan_out))


def critical_batch(
    at_ridge: Array, fan_in: Array, fan_out: Array, width: float = 2.0, weights: float | None = None
) -> Array:
    """The smallest whole batch at which a linear layer reaches the ridge; infinite when it never does.

    B* = r w W / (2 W - r d (in + out)); it exists only while the saturation intensity lies above the ridge.
    """
    size = np.asarray(fan_in * fan_out, dtype=np.float64)
    room = 2 * size - at_ridge * width * (fan_in + fan_out)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact = at_ridge * (width if weights is None else weights) * size / room
    # one part in 1e12 keeps an exact whole answer from being rounded up by floating point
    return _plain(np.where(room > 0, np.maximum(1.0, np.ceil(exact * (1 - 1e-12))), np.inf))


# -- locality ---------------------------------------------------------------------------------------------


def feeding_level(machine: Machine, total_bytes: float, block_bytes: float | None = None, reuse: float = 1.0) -> str:
    """The level that feeds a kernel after first touch.

    Data used once comes from the main memory whatever its size. With reuse, a block's working set is held
    against one instance of the per-SM (or per-core) levels, everything together against the shared levels.
    """
    if reuse <= 1:
        return machine.main.name
    for level in machine.levels[:-1]:
        capacity = level.capacity.value()
        if capacity is None:
            continue
        private = level.scope in ("sm", "core")
        if private and level.name == "l1" and "shared_per_block" in machine.limits:
            capacity = machine.limits["shared_per_block"].value() or capacity
        needed = (total_bytes if block_bytes is None else block_bytes) if private else total_bytes
        if needed <= capacity * (1 if private else level.instances):
            return level.name
    return machine.main.name


def largest_tile(machine: Machine, dtype: str = "fp32", tiles: int = 3, step: int = 16) -> tuple[int, float]:
    """The largest square tile (a multiple of `step`) of which `tiles` fit one block's shared memory, and that limit."""
    if "shared_per_block" not in machine.limits:
        raise MissingFigure(f"{machine.name} states no shared memory per block, which bounds a tile")
    limit = machine.limits["shared_per_block"].value()
    assert limit is not None
    side = int((limit / (tiles * dtype_row(dtype).bytes)) ** 0.5)
    return side // step * step, limit


# -- energy -----------------------------------------------------------------------------------------------


def energy(
    flops: Array, moved: Array, per_flop: float, per_byte: float, static: float = 0.0, time: Array = 0.0
) -> Array:
    """E = F e_f + B e_b + P0 T, in joule. Energies add, so there is no sharp roof."""
    return flops * per_flop + moved * per_byte + static * time


def energy_balance(per_flop: float, per_byte: float) -> float:
    """The intensity at which arithmetic and data movement cost the same energy: half the ceiling 1/e_f is reached."""
    return per_byte / per_flop
