"""Every kernel of a profile on the roofline by its own counters, diagnosed, and predicted where its op is known.

    report_of_kernels(observations, machine).kernels

Without a known op the kernel is judged against the work it did: the FLOPs and bytes it counted. What the algorithm would
need is then unknown, so extra bytes and extra FLOPs are shown only by counters that measure waste themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

from ..core.errors import InputError, RidgelineError
from ..core.machine import MAIN, Machine
from ..core.observation import Observation
from ..core.work import READ, FlopKey, MoveKey, Program, Step, Work
from ..prediction.predict import predict
from .advice import Advice, advise
from .gap import Gap
from .join import Pair
from .kernel_ops import KnownOp, known_op
from .regime import MAIN_NAMES

ENGINES = {"tensor": "matrix", "vector": "vector"}  # a machine's units by the engines of Work
COUNTED = "counters"


@dataclass(frozen=True)
class ProfiledKernel:
    """Launches of one kernel in one place of the program; `gap` is None where nothing was counted but time."""

    name: str
    kernel: str
    observations: tuple[Observation, ...]
    machine: Machine
    op: KnownOp | None
    gap: Gap | None

    @cached_property
    def advice(self) -> tuple[Advice, ...]:
        """Made when it is asked for: of 100,000 kernels an answer reads that of a few."""
        return tuple(advise(self.gap)) if self.gap is not None else ()

    @cached_property
    def time(self) -> float:
        """Seconds of all launches."""
        return sum(sum(item.samples) for item in self.observations)

    @property
    def launches(self) -> int:
        return sum(len(item.samples) for item in self.observations)

    @property
    def typical(self) -> Observation:
        """The launch of median time."""
        return _typical(self.observations)

    @property
    def known(self) -> bool:
        return self.op is not None

    @property
    def predicted(self) -> float | None:
        """Expected seconds of a launch, where the op is known."""
        return self.gap.target.time if self.gap is not None and self.known else None

    @cached_property
    def share(self) -> float | None:
        """Of the roofline at the counted FLOPs and bytes; None where FLOPs were not counted and memory is not the limiter."""
        return self.gap.share if self.gap is not None and self.gap.flops_known else None

    @property
    def bound(self) -> str | None:
        return self.gap.regime.bound if self.gap is not None else None

    @property
    def top(self) -> Advice | None:
        return self.advice[0] if self.advice else None

    @property
    def gain(self) -> float:
        """Seconds over all launches that the first advice promises, where its cause is shown."""
        top = self.top
        return (top.gain or 0.0) * self.launches if top is not None and top.shown else 0.0

    @property
    def most_gain(self) -> float:
        """What `gain` is at most: all the time of its launches, and the host's as well where launches wait for it."""
        gap = self.gap
        if gap is None:
            return 0.0
        return gap.measured * self.launches if gap.host is None else inf

    @cached_property
    def diagnosis(self) -> list[dict[str, Any]]:
        """The causes as outsiders read them, the one to act on first; gains per launch."""
        return [
            {
                "cause": item.cause, "rule": item.rule, "status": item.status, "move": item.move,
                "evidence": list(item.evidence), "gain_us": None if item.gain is None else item.gain * 1e6,
                "missing": list(item.missing),
            }
            for item in self.advice
        ]  # fmt: skip

    def document(self, item: Observation) -> dict[str, Any]:
        """The roofline figures of one of its launches; what is not known is not there."""
        figures = roofline_figures(self.machine, item)
        if self.gap is None:
            return figures
        target = self.gap.target
        figures |= {
            **({} if self.share is None else {"share_of_roofline": self.share}), "bound": self.gap.regime.bound, "limiter": self.gap.regime.limiter,
            "floor_us": target.floor * 1e6, "diagnosis": self.diagnosis,
        }  # fmt: skip
        if self.op is not None:
            excess = {"excess_bytes": self.gap.excess_bytes, "excess_flops": self.gap.excess_flops}
            figures |= {"op": self.op.text, "op_from": self.op.shown_by, "predicted_us": target.time * 1e6}
            figures |= {key: value for key, value in excess.items() if value is not None}
        return figures


def roofline_figures(machine: Machine, item: Observation) -> dict[str, Any]:
    """Intensity, rate by engine, MFU and MBU of a launch, from its counters and the machine's ceilings.

    MFU is that of the engine whose FLOPs take longest at its peak; MBU is of the main memory. Intensity is that engine's
    FLOPs over the bytes at the main memory.
    """
    seconds, moved = item.median, main_bytes(machine, item)
    rate = {engine: flops / seconds for engine, flops in item.flops.items() if flops > 0}
    shares = {engine: value / peak for engine, value in rate.items() if (peak := _peak(machine, engine))}
    figures: dict[str, Any] = {"rate": rate} if rate else {}
    if shares:
        engine = max(shares, key=lambda name: shares[name])
        figures |= {"engine": engine, "mfu": shares[engine]}
        if moved:
            figures["intensity"] = item.flops[engine] / moved
    if moved is not None:
        with suppress(RidgelineError):  # no ceiling of the main memory
            figures["mbu"] = moved / seconds / machine.bandwidth(MAIN).value
    return figures


def _peak(machine: Machine, engine: str) -> float | None:
    try:
        return machine.peak(engine).value if engine in machine.peaks else None
    except RidgelineError:
        return None


def main_bytes(machine: Machine, item: Observation) -> float | None:
    """Counted bytes at the main memory, None where they were not counted."""
    names = (machine.main.name, *MAIN_NAMES)
    return next((item.bytes[name] for name in names if name in item.bytes), None)


@dataclass(frozen=True)
class KernelReport:
    machine: Machine
    kernels: tuple[ProfiledKernel, ...]  # the longest first
    observations: tuple[Observation, ...]  # in the order they ran

    @cached_property
    def time(self) -> float:
        return sum(kernel.time for kernel in self.kernels)

    @cached_property
    def bounds(self) -> dict[str, float]:
        """Share of the time by bound, the largest first; kernels without counters are `unknown`."""
        shares: dict[str, float] = defaultdict(float)
        for kernel in self.kernels:
            shares[kernel.bound or "unknown"] += kernel.time / self.time
        return dict(sorted(shares.items(), key=lambda pair: -pair[1]))

    @cached_property
    def roofline_share(self) -> float | None:
        """Of all kernels whose share is known, by time; None where it is of none."""
        known = [(kernel.time, min(kernel.share, 1.0)) for kernel in self.kernels if kernel.share is not None]
        return sum(time * share for time, share in known) / sum(time for time, _ in known) if known else None

    @property
    def counted(self) -> float:
        """Share of the time in kernels with counters."""
        return sum(kernel.time for kernel in self.kernels if kernel.gap is not None) / self.time

    def moves(self, count: int) -> list[ProfiledKernel]:
        """The kernels with the largest gains of a shown cause over all launches, so many of them, the largest first.

        Kernels that cannot gain as much as those are not diagnosed for it.
        """
        best: list[ProfiledKernel] = []
        for kernel in sorted(self.kernels, key=lambda kernel: -kernel.most_gain):
            if len(best) == count and kernel.most_gain <= best[-1].gain:
                break
            if kernel.gain > 0:
                best = sorted([*best, kernel], key=lambda each: -each.gain)[:count]
        return best

    def document(self) -> list[dict[str, Any]]:
        """Figures of every observation, in order."""
        owner = {id(item): kernel for kernel in self.kernels for item in kernel.observations}
        return [owner[id(item)].document(item) for item in self.observations]


Progress = Callable[[int, int], None]  # is told how many kernels are done, and of how many


def no_progress(done: int, total: int) -> None:
    """For callers that do not show it."""


def report_of_kernels(
    observations: Iterable[Observation], machine: Machine, progress: Progress = no_progress
) -> KernelReport:
    items = tuple(observations)
    if not items:
        raise InputError("there are no kernels to report on; give a profile that has some")
    groups = kernel_groups(items)
    kernels = []
    for done, group in enumerate(groups):
        progress(done, len(groups))
        kernels.append(_profiled(group, machine))
    return KernelReport(machine, tuple(kernels), items)


def kernel_groups(observations: Iterable[Observation]) -> list[tuple[Observation, ...]]:
    """The launches of each kernel in one place, those that took longest first."""
    groups: dict[tuple[Any, ...], list[Observation]] = defaultdict(list)
    for item in observations:
        groups[_identity(item)].append(item)
    ranked = sorted(groups.values(), key=lambda group: -sum(sum(item.samples) for item in group))
    return [tuple(group) for group in ranked]


def kernel_at(observations: Iterable[Observation], machine: Machine, place: int) -> ProfiledKernel:
    """The kernel at a place of the report, from 0, without making the others."""
    groups = kernel_groups(observations)
    if not 0 <= place < len(groups):
        raise InputError(f"there is no kernel {place + 1}; the profile has {len(groups)}")
    return _profiled(groups[place], machine)


def diagnosed(observations: Iterable[Observation], machine: Machine) -> list[dict[str, Any]]:
    """Kernels with counters by themselves: their time, bound and causes, the longest first."""
    items = [item for item in observations if item.counters]
    kernels = report_of_kernels(items, machine).kernels if items else ()
    return [
        {
            "name": kernel.name, "time_us": kernel.time * 1e6, "bound": kernel.bound, "share_of_roofline": kernel.share,
            "diagnosis": kernel.diagnosis,
        }
        for kernel in kernels
        if kernel.gap is not None
    ]  # fmt: skip


def _identity(item: Observation) -> tuple[Any, ...]:
    """What launches of one kernel in one place share."""
    return item.name, item.kernel, item.path, str(item.settings.get("grid")), str(item.settings.get("block"))


def _typical(items: Sequence[Observation]) -> Observation:
    return sorted(items, key=lambda item: item.median)[(len(items) - 1) // 2]


def _profiled(items: tuple[Observation, ...], machine: Machine) -> ProfiledKernel:
    item = _typical(items)
    op = known_op(item)
    gap = _gap(item, machine, op)
    name = item.name or item.kernel
    return ProfiledKernel(name, item.kernel, items, machine, op, gap)


def _gap(item: Observation, machine: Machine, op: KnownOp | None) -> Gap | None:
    """Against the op where it is known, else against the counted work; None where there is neither."""
    work = op.work if op is not None else counted_work(item, machine)
    if work is None:
        return None
    name = item.name or item.kernel
    try:
        prediction = predict(Program((Step(name, work),)), machine)
        gap = Gap.of(prediction, Pair((0,), (replace(item, samples=(item.median,)),), COUNTED))
    except RidgelineError:
        return None  # the machine has no ceiling for it
    return gap if op is not None else replace(gap, target=replace(gap.target, algorithm_known=False))


def counted_work(item: Observation, machine: Machine) -> Work | None:
    """The counted FLOPs and bytes as work; None where nothing was counted that the machine has a ceiling for."""
    counts: dict[FlopKey, Any] = {}
    for engine, flops in item.flops.items():
        unit, _, dtype = engine.partition(".")
        if flops > 0 and unit in ENGINES and engine in machine.peaks and machine.engine(ENGINES[unit], dtype) == engine:
            counts[ENGINES[unit], dtype, COUNTED] = flops
    moved = main_bytes(machine, item)
    moves: Mapping[MoveKey, Any] = {(MAIN, "data", READ): moved} if moved else {}
    if not counts and not moves:
        return None
    dtype = max(counts, key=lambda key: counts[key])[1] if counts else ""
    name = item.name or item.kernel
    return Work(counts=counts, moves=moves, waits={"launch": 1.0}, name=name, family="custom", dtype=dtype)
