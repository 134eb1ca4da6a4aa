"""Every kernel of a profile on the roofline by its own counters, diagnosed, and predicted where its op is known.

    report_of_kernels(observations, machine).kernels

Without a known op the kernel is judged against the work it did: the FLOPs and bytes it counted. What the algorithm would
need is then unknown, so extra bytes and extra FLOPs are shown only by counters that measure waste themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from ..core.cached import cached_property
from ..core.errors import InputError, RidgelineError
from ..core.machine import Machine
from ..core.observation import Observation
from ..core.work import Program, Step, Work
from ..prediction.predict import predict
from .advice import Advice, advise
from .counted import COUNTED, Places, counted_targets, roofline_figures
from .gap import Gap, SharedTensor
from .join import Pair
from .kernel_ops import KnownOp, known_op
from .measurement import Measurement, combine
from .neighbours import passed_on
from .regime import MIN_LIMITER_SHARE
from .target import Target, target

MAX_DIAGNOSED = 500  # kernels, the longest first, among which the moves worth most are looked for


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

    @cached_property
    def _by_most_gain(self) -> list[ProfiledKernel]:
        return sorted(self.kernels, key=lambda kernel: -kernel.most_gain)

    def moves(self, count: int) -> list[ProfiledKernel]:
        """The kernels with the largest gains of a shown cause over all launches, so many of them, the largest first.

        Kernels that cannot gain as much as those are not diagnosed for it, and no more than MAX_DIAGNOSED are.
        """
        best: list[ProfiledKernel] = []
        for kernel in self._by_most_gain[:MAX_DIAGNOSED]:
            if len(best) == count and kernel.most_gain <= best[-1].gain:
                break
            if kernel.gain > 0:
                best = sorted([*best, kernel], key=lambda each: -each.gain)[:count]
        return best

    def searched_share(self, moves: Sequence[ProfiledKernel], count: int) -> float:
        """Share of the time in the kernels that `moves` was chosen from; 1 where no other can gain as much."""
        others = self._by_most_gain[MAX_DIAGNOSED:]
        if not others or others[0].most_gain <= (moves[-1].gain if len(moves) == count else 0.0):
            return 1.0
        return 1 - sum(kernel.time for kernel in others) / self.time

    def longest(self, count: int) -> KernelReport:
        """The report of so many kernels, those that took longest."""
        kernels = self.kernels[:count]
        kept = {id(item) for kernel in kernels for item in kernel.observations}
        return replace(
            self, kernels=kernels, observations=tuple(item for item in self.observations if id(item) in kept)
        )

    def document(self) -> list[dict[str, Any]]:
        """Figures of every observation, in order."""
        owner = {id(item): kernel for kernel in self.kernels for item in kernel.observations}
        return [owner[id(item)].document(item) for item in self.observations]


Progress = Callable[[int, int], None]  # is told how many kernels are done, and of how many


def no_progress(done: int, total: int) -> None:
    """For callers that do not show it."""


@dataclass(frozen=True)
class Launches:
    """The launches of one kernel in one place of the program; `single` is the typical one, as a run of median time."""

    observations: tuple[Observation, ...]
    single: Observation
    op: KnownOp | None

    @classmethod
    def of(cls, items: tuple[Observation, ...]) -> Launches:
        item = _typical(items)
        return cls(items, item if len(item.samples) == 1 else replace(item, samples=(item.median,)), known_op(item))

    @property
    def name(self) -> str:
        return self.single.name or self.single.kernel

    @cached_property
    def measurement(self) -> Measurement:
        return combine((self.single,), Work())  # a single run is one of whatever work


@dataclass(frozen=True)
class Profile:
    """The observations of a profile, and what holds on every machine: which are launches of one kernel, and its op."""

    observations: tuple[Observation, ...]

    @classmethod
    def of(cls, observations: Iterable[Observation]) -> Profile:
        return cls(tuple(observations))

    @cached_property
    def kernels(self) -> tuple[Launches, ...]:
        """Those that took longest first."""
        groups: dict[tuple[Any, ...], list[Observation]] = defaultdict(list)
        for item in self.observations:
            groups[_identity(item)].append(item)
        ranked = sorted(groups.values(), key=lambda group: -sum(sum(item.samples) for item in group))
        return tuple(Launches.of(tuple(group)) for group in ranked)

    @cached_property
    def passed_on(self) -> dict[int, SharedTensor]:
        return passed_on(self.observations)


def report_of_kernels(
    observations: Iterable[Observation] | Profile, machine: Machine, progress: Progress = no_progress
) -> KernelReport:
    profile = observations if isinstance(observations, Profile) else Profile.of(observations)
    if not profile.observations:
        raise InputError("there are no kernels to report on; give a profile that has some")
    kernels = tuple(_profiled(profile.kernels, machine, profile.passed_on, progress))
    return KernelReport(machine, kernels, profile.observations)


def kernel_at(profile: Profile, machine: Machine, place: int) -> ProfiledKernel:
    """The kernel at a place of the report, from 0, without making the others."""
    if not 0 <= place < len(profile.kernels):
        raise InputError(f"there is no kernel {place + 1}; the profile has {len(profile.kernels)}")
    (kernel,) = _profiled(profile.kernels[place : place + 1], machine, profile.passed_on)
    return kernel


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


def _profiled(
    kernels: Sequence[Launches],
    machine: Machine,
    shared: Mapping[int, SharedTensor],
    progress: Progress = no_progress,
) -> Iterator[ProfiledKernel]:
    """Kernels on a machine: against the op where it is known, else against the counted work."""
    unknown, places = [each for each in kernels if each.op is None], Places(machine)
    counted = iter(counted_targets([each.single for each in unknown], machine))
    of_op: dict[int, Target | None] = {}  # kernels that ran one op share its prediction
    for done, each in enumerate(kernels):
        progress(done, len(kernels))
        if each.op is None:
            target = next(counted)
        else:
            if id(each.op.work) not in of_op:
                of_op[id(each.op.work)] = _target_of_op(each.op, machine)
            known = of_op[id(each.op.work)]
            target = None if known is None else replace(known, name=each.name, steps=(each.name,))
        gap = None if target is None else Gap.against(target, each.measurement, Pair((0,), (each.single,), COUNTED))
        if gap is not None and each.op is None and not places.known(each.single) and gap.share < MIN_LIMITER_SHARE:
            gap = None  # what its FLOPs need is not known, so nothing says that it waits for anything else
        passed = next((shared[id(item)] for item in each.observations if id(item) in shared), None)
        gap = replace(gap, between=passed) if gap is not None and passed is not None else gap
        yield ProfiledKernel(each.name, each.single.kernel, each.observations, machine, each.op, gap)


def _target_of_op(op: KnownOp, machine: Machine) -> Target | None:
    try:
        return target(predict(Program((Step(op.text, op.work),)), machine), (0,))
    except RidgelineError:
        return None  # the machine has no ceiling for it
