"""Group: all runs of one operator with the same arguments, phase and module class, and what they took step by step.

time per call = device time of the group in a step / calls of its operator in that step
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ...core.cached import cached_property
from ...core.dtypes import ALIASES
from ...core.machine import Machine
from ...core.statistics import median
from ...core.timeline import COLLECTIVE, COMMUNICATION, COPIES, OTHER, Call, Site, Tensor, Timeline
from .kept import Floats, Ints, Kept
from .moved import is_transfer
from .owners import Owner, Owners

MAX_SHAPES = 3  # in the name of a group


@dataclass(eq=False)
class Group:
    """`runs` are places among the kept runs."""

    owner: Owner
    phase: str
    module: str  # class of the innermost module, empty without any
    sites: tuple[Site, ...]
    runs: Ints
    kernels: tuple[str, ...]  # full names, the longest time first
    times: Floats  # device time of each step
    calls: Floats  # of the operator in each step
    launches: float = 1.0  # runs per call
    fields: dict[str, Any] = field(default_factory=dict)

    @property
    def count(self) -> float:
        """Calls per step."""
        return float(self.calls.mean())

    @cached_property
    def samples(self) -> tuple[float, ...]:
        """Seconds per call, of each step in which it was called."""
        called = self.calls > 0
        return tuple((self.times[called] / self.calls[called]).tolist())

    @cached_property
    def time(self) -> float:
        """Device time per step: that of a call in the median step, times the calls of a step.

        The same calls are compared with the prediction, and a step that was disturbed counts no more than any other.
        """
        return median(self.samples) * self.count if self.samples else 0.0

    @cached_property
    def elements(self) -> int:
        """Of the largest tensor of the call."""
        return max((prod(tensor.shape) for tensor in self.owner.call.tensors), default=0)

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(site.source for site in self.sites if site.source))

    @property
    def name(self) -> str:
        """`addmm 256x1024·1024x4096 bf16`."""
        return call_name(self.owner.name, self.owner.call, self.owner.settings.dtype)


def call_name(operator: str, call: Call, otherwise: str = "") -> str:
    """An operator with the sizes of its tensors and their format, which is `otherwise` where it was not recorded."""
    tensors = call.tensors
    sizes = list(dict.fromkeys("x".join(map(str, tensor.shape)) or "1" for tensor in _shown(tensors)))
    recorded = next((tensor.dtype for tensor in tensors if tensor.dtype), otherwise if tensors else "")
    dtype = ALIASES.get(recorded, recorded)
    return " ".join(part for part in (operator.rpartition("::")[2], "·".join(sizes[:MAX_SHAPES]), dtype) if part)


def _shown(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    """The tensors that name a call: those with several dimensions, else the largest."""
    large = [tensor for tensor in tensors if len(tensor.shape) > 1]
    return large or sorted(tensors, key=lambda tensor: -prod(tensor.shape))[:1]


def groups(kept: Kept, machine: Machine) -> list[Group]:
    """The groups of the kept runs, in the order of their first run."""
    timeline = kept.timeline
    codes = np.stack([kept.site, kept.activity, kept.graph, kept.correlated])
    pairs, which = np.unique(codes, axis=1, return_inverse=True)
    ran: dict[int, list[tuple[int, float]]] = defaultdict(list)
    each = np.bincount(which.reshape(-1))
    calls = np.bincount(np.unique(np.stack([kept.site + 1, kept.call]), axis=1)[0])
    for (site, activity, *_), count in zip(pairs.T.tolist(), each.tolist(), strict=True):
        ran[site].append((activity, count / max(calls[site + 1], 1)))
    whose = Owners(timeline, machine, ran)
    keys: dict[Any, int] = {}
    owners: list[tuple[Owner, str, str]] = []
    of_pair = np.empty(pairs.shape[1], dtype=np.int64)
    for place, (site, activity, graph, correlated) in enumerate(pairs.T.tolist()):
        owned = whose.owner(site, activity, bool(graph), bool(correlated))
        phase, module = _phase(timeline, site, activity), _module(timeline, site)
        key: tuple[Any, ...] = (
            owned.name,
            owned.call,
            phase,
            module,
            owned.backend,
            owned.kind,
            owned.how,
            owned.settings,
        )
        if owned.call.tensors == () and owned.work is not None:
            key = (*key, float(np.asarray(sum(owned.work.moves.values()))))
        elif owned.work is None:
            key = (*key, timeline.activities[activity].name)
        of_pair[place] = keys.setdefault(key, len(keys))
        if of_pair[place] == len(owners):
            owners.append((owned, phase, module))
    group_of_run = of_pair[which.reshape(-1)]
    order = np.argsort(group_of_run, kind="stable")
    parts = np.split(order, np.searchsorted(group_of_run[order], np.arange(1, len(owners))))
    made = [_group(kept, runs, *described) for runs, described in zip(parts, owners, strict=True)]
    return sorted(made, key=lambda group: int(group.runs[0]))


def _phase(timeline: Timeline, site: int, activity: int) -> str:
    ran = timeline.activities[activity]
    if ran.kind == COLLECTIVE:
        return COMMUNICATION
    if is_transfer(ran):
        return COPIES
    return timeline.sites[site].phase if site >= 0 else OTHER


def _module(timeline: Timeline, site: int) -> str:
    """The class of the innermost module: `Linear` of `Linear_12`."""
    modules = timeline.sites[site].modules if site >= 0 else ()
    return modules[-1].rstrip("0123456789").rstrip("_") if modules else ""


def _group(kept: Kept, runs: Ints, owned: Owner, phase: str, module: str) -> Group:
    timeline = kept.timeline
    times = np.bincount(kept.step[runs], kept.time[runs], minlength=kept.steps).astype(np.float64)
    by_kernel: dict[str, float] = defaultdict(float)
    for place in np.unique(kept.activity[runs]).tolist():
        ran = timeline.activities[place]
        by_kernel[ran.kernel or ran.name] += float(kept.time[runs[kept.activity[runs] == place]].sum())
    sites = tuple(timeline.sites[site] for site in np.unique(kept.site[runs]).tolist() if site >= 0)
    calls = _calls(kept, runs, owned)
    kernels = tuple(sorted(by_kernel, key=lambda name: -by_kernel[name]))
    return Group(owned, phase, module, sites, runs, kernels, times, calls, len(runs) / max(calls.sum(), 1.0))


# -- how often the operator of a group was called ------------------------------------------------------------------


def _calls(kept: Kept, runs: Ints, owned: Owner) -> Floats:
    """Calls of a group's operator in each step: the distinct calls on the host that launched its runs.

    Where the operator is around the call that launched, and that one is made several times, the fewest count. Without the
    host's calls, a kernel that ran least often counts.
    """
    instances = kept.call[runs]
    if (instances < 0).any():
        return _fewest(kept, runs, kept.activity[runs], np.arange(len(runs)))
    if owned.direct:
        return _distinct(kept, runs, instances)
    names = {call: place for place, call in enumerate({_inner(kept, site) for site in kept.site[runs].tolist()})}
    inner = np.array([names[_inner(kept, site)] for site in kept.site[runs].tolist()])
    return _fewest(kept, runs, inner, instances)


def _inner(kept: Kept, site: int) -> str:
    return kept.timeline.sites[site].call.name if site >= 0 else ""


def _distinct(kept: Kept, runs: Ints, instances: Ints) -> Floats:
    """How many different instances each step has."""
    pairs = np.unique(np.stack([kept.step[runs], instances]), axis=1)
    return np.bincount(pairs[0], minlength=kept.steps).astype(np.float64)


def _fewest(kept: Kept, runs: Ints, sorts: Ints, instances: Ints) -> Floats:
    """The number of instances of the sort that each step has fewest of."""
    counts = np.full(kept.steps, np.inf)
    for sort in np.unique(sorts):
        few = _distinct(kept, runs[sorts == sort], instances[sorts == sort])
        counts = np.where(few > 0, np.minimum(counts, few), counts)
    return np.where(np.isfinite(counts), counts, 0.0)
