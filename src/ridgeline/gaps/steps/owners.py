"""Owner: the call that a run is the work of, with the count of that call and how it was tied to the run.

A kernel belongs to the innermost operator around its launch that has work; wrappers own no time. Helper kernels of an
operator are part of it, and so are operators that it calls where its timings hold them. Copies between host and device are counted by their bytes over the link, whoever asked for them.
Compiled kernels are counted by the bytes of their tensors. What a graph replay ran, or a trace without arguments shows,
is known by its kernel name alone and gets no prediction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...core.machine import Machine
from ...core.timeline import COLLECTIVE, COPY, FILL, OPERATOR, Activity, Call, Site, Tensor, Timeline
from ...core.work import Work
from ...prediction.flat import PAGEABLE
from ...programs.aten import Counted, Settings, count, evidence
from ...programs.aten.arguments import base_name
from .compiled import compiled_work, is_compiled
from .moved import collective_work, copied_work, direction, filled_work, is_pageable, is_transfer

CORRELATION, NVTX, SHAPE, NAME = JOINED_BY = ("correlation", "nvtx", "shape", "name")
HIGH, MEDIUM, LOW = CONFIDENCE = ("high", "medium", "low")
DELEGATED = {"mean": "sum"}  # operators of a CPU by what they call for all of their work
WORK, FREE, WRAPPER, HOST, UNKNOWN = "work", "free", "wrapper", "host", "unknown"
NO_SHAPES = "shapes were not recorded"
IN_GRAPH = "replayed from a CUDA graph: the trace has no operator for it"
NO_OPERATOR = "no operator of the trace launched it"
DEFAULTS = Settings()
FRACTIONS = ("fp", "bf")  # how formats of numbers with a fraction begin
HELD = {"_softmax_backward_data": ("mul",)}  # operators whose timings hold the kernels of those that they call
_TF32 = re.compile(r"tf32|s1688|nvjet_s|1688(gemm|fprop|dgrad|wgrad)", re.I)


@dataclass(frozen=True)
class Owner:
    """`work` is None where nothing can be predicted, and `reason` says why."""

    name: str  # of the operator, copy or kernel
    call: Call
    kind: str  # work, free, wrapper, host or unknown
    work: Work | None
    backend: str = ""
    reason: str = ""
    how: str = CORRELATION
    confidence: str = HIGH
    direct: bool = True  # whether the site's innermost call is the owner
    settings: Settings = DEFAULTS

    @property
    def explained(self) -> bool:
        return self.work is not None


Ran = Mapping[int, Sequence[tuple[int, float]]]  # the activities of every site, with their runs per call


class Owners:
    """Whose work the runs of a timeline are. What the kernels of a site show of its call counts for all of them."""

    def __init__(self, timeline: Timeline, machine: Machine, ran: Ran) -> None:
        self.timeline, self.machine = timeline, machine
        gradients = timeline.gradients[:: _parameter_groups(timeline)]
        self.settings = {
            site: settings_of([(timeline.activities[place], times) for place, times in places], gradients)
            for site, places in ran.items()
        }
        if timeline.tool.startswith("jax"):  # compiled instructions call no operators
            self.settings = {site: replace(known, leaf=True) for site, known in self.settings.items()}
        if all(activity.kind == OPERATOR for activity in timeline.activities):
            formats = _formats(timeline.sites)
            for site, known in self.settings.items():
                around = formats.get(timeline.sites[site].modules) or formats.get(()) if site >= 0 else ""
                self.settings[site] = replace(known, dtype=known.dtype or around or "")
        # operators of the host that leave all of their work to one that they call: their own time is dispatch
        self._delegating = {
            (site.outer[:-1], site.outer[-1])
            for site in timeline.sites
            if site.outer and _does_all(site.call, site.outer[-1])
        }
        self.counts: dict[int, list[tuple[Call, Counted]]] = {}  # of the calls around each site, the innermost first
        self._counted: dict[tuple[Call, Settings], Counted] = {}

    def _around(self, site: int) -> list[tuple[Call, Counted]]:
        """The calls around a site with what they cost. Hundreds of kernels may be of one call, and equal calls of many sites."""
        if site not in self.counts:
            settings = self.settings[site]
            for call in (calls := list(_calls(self.timeline.sites[site]))):
                if (call, settings) not in self._counted:
                    self._counted[call, settings] = count(call, settings)
            self.counts[site] = [(call, self._counted[call, settings]) for call in calls]
        return self.counts[site]

    def owner(self, site: int, activity: int, graph: bool, correlated: bool) -> Owner:
        """Whose work the runs of an activity at a site are."""
        timeline, ran = self.timeline, self.timeline.activities[activity]
        how, confidence = (CORRELATION, HIGH) if correlated or ran.kind == OPERATOR else (SHAPE, MEDIUM)
        if is_transfer(ran):
            memory = f" {PAGEABLE}" if is_pageable(ran) else ""
            return _moved(f"memcpy {direction(ran)}{memory}", copied_work(ran, self.machine), how, confidence)
        if site >= 0:
            at = timeline.sites[site]
            if ran.kind == OPERATOR and (at.outer, at.call) in self._delegating:
                reason = f"{at.call.name} leaves its work to an operator that it calls"
                return Owner(at.call.name, at.call, WRAPPER, None, reason=reason, how=how, confidence=confidence)
            owned = _operator(at, ran, self.settings[site], self._around(site))
            if owned is not None and (owned.kind != UNKNOWN or ran.kind not in (COPY, FILL, COLLECTIVE)):
                without = owned.kind == UNKNOWN and not owned.call.tensors
                how, confidence = (NAME, LOW) if without else (how, confidence)
                return replace(
                    owned, how=how, confidence=confidence, reason=IN_GRAPH if without and graph else owned.reason
                )
        if ran.kind == COLLECTIVE:
            return _moved(ran.name, collective_work(ran), how, confidence)
        if ran.kind in (COPY, FILL):
            work = copied_work(ran, self.machine) if ran.kind == COPY else filled_work(ran)
            return _moved(ran.name, work, how, confidence)
        reason = IN_GRAPH if graph else NO_SHAPES if not timeline.shapes else NO_OPERATOR
        return Owner(ran.name, Call(ran.name), UNKNOWN, None, reason=reason, how=NAME, confidence=LOW)


def _does_all(inner: Call, outer: Call) -> bool:
    """Whether an operator does what the one that called it is for: `sum` over all dimensions, `div_` in place, `mean` by a sum."""
    names = base_name(inner.name).rstrip("_"), base_name(outer.name).rstrip("_")
    if names[0] != names[1] and DELEGATED.get(names[1]) != names[0]:
        return False
    return bool(inner.tensors and outer.tensors) and inner.tensors[0].shape == outer.tensors[0].shape


def _formats(sites: Sequence[Site]) -> dict[tuple[str, ...], str]:
    """By module, and of the program under no module: the only format of numbers with a fraction among its tensors.

    A recording has no formats of lists of tensors, such as those that are joined. Kernels of a GPU show them. Numbers of the
    program are tensors without dimensions, in fp64 whatever they meet, and do not count.
    """
    every: dict[tuple[str, ...], set[str]] = {}
    for site in sites:
        sized = (tensor for tensor in site.call.tensors if tensor.shape)
        formats = {tensor.dtype for tensor in sized if tensor.dtype.startswith(FRACTIONS)}
        for modules in (site.modules, ()):
            every.setdefault(modules, set()).update(formats)
    return {modules: next(iter(formats)) for modules, formats in every.items() if len(formats) == 1}


def _takes_lists(call: Call) -> bool:
    return "_foreach_" in call.name or "_fused_" in call.name


def _parameter_groups(timeline: Timeline) -> int:
    """How many groups of parameters the optimizer has: calls per step of the operator that it makes fewest."""
    names: dict[str, int] = {}
    steps = np.asarray(timeline.runs.step)
    sites, calls = np.asarray(timeline.runs.site), np.asarray(timeline.runs.call)
    for place, site in enumerate(timeline.sites):
        name = site.call.name
        if _takes_lists(site.call) and name.endswith("_") and "norm" not in name and "non_finite" not in name:
            made = len(np.unique(calls[(sites == place) & (steps >= 0)]))
            names[name] = names.get(name, 0) + made
    fewest = min((count for count in names.values() if count), default=0)
    return max(round(fewest / max(len(timeline.steps), 1)), 1)


def _moved(name: str, counted: tuple[Work | None, str], how: str, confidence: str) -> Owner:
    work, reason = counted
    kind = UNKNOWN if work is None else WORK
    return Owner(name, Call(name), kind, work, reason=reason, how=how, confidence=confidence)


def _operator(site: Site, ran: Activity, settings: Settings, counts: list[tuple[Call, Counted]]) -> Owner | None:
    """The operator around a launch that has the work; where none has, the innermost that is no wrapper, uncounted."""
    if is_compiled(site, ran):
        work, reason = compiled_work(site, ran)
        return Owner(site.call.name, site.call, UNKNOWN if work is None else WORK, work, reason=reason)
    for place, (call, counted) in enumerate(counts):
        if counted.kind == WORK and counted.work is not None:
            around, held = counts[place + 1] if place + 1 < len(counts) else (call, counted)
            if base_name(call.name) in HELD.get(base_name(around.name), ()) and held.work is not None:
                return _owner(around, held, settings, direct=False)
            return _owner(call, counted, settings, direct=place == 0)
        if ran.kind == OPERATOR:  # an operator's own time is of that operator, whatever is around it
            break
    if not counts:
        return None
    return _uncounted(counts, settings, ran)


def _uncounted(counts: list[tuple[Call, Counted]], settings: Settings, ran: Activity) -> Owner:
    """No operator around has work by itself: a wrapper without inner calls may, else it is not known."""
    leaf = replace(settings, leaf=True)
    call, counted = counts[0]
    if counted.kind == WRAPPER and ran.kind != OPERATOR:
        alone = count(call, leaf)
        if alone.kind == WORK and alone.work is not None:
            return _owner(call, alone, leaf)
    kinds = (UNKNOWN,) if ran.kind == OPERATOR else (UNKNOWN, HOST, FREE, WRAPPER)
    for kind in kinds:
        for place, (call, counted) in enumerate(counts):
            if counted.kind == kind:
                return _owner(call, counted, settings, direct=place == 0)
    call, counted = counts[0]
    return _owner(call, counted, settings)


def _owner(call: Call, counted: Counted, settings: Settings, direct: bool = True) -> Owner:
    reason = counted.reason or ("" if counted.work is not None else f"{call.name} has no work of its own")
    return Owner(call.name, call, counted.kind, counted.work, counted.backend, reason, direct=direct, settings=settings)


def _calls(site: Site) -> Iterator[Call]:
    """The calls around a launch, the innermost first."""
    yield site.call
    yield from reversed(site.outer)


def settings_of(ran: Sequence[tuple[Activity, float]], lists: tuple[Tensor, ...] = ()) -> Settings:
    """What the kernels of a call show of it: formats and sizes of lists, tf32, the ranks of a collective.

    `lists` are the gradients of the program, for operators on lists that were too long to be recorded.
    """
    ranks = [each.settings.get("ranks") for each, _ in ran]
    tf32 = any(_TF32.search(each.kernel) for each, _ in ran)
    settings = Settings(
        tf32=tf32,
        conv_tf32=tf32,
        device="cpu" if all(each.kind == OPERATOR for each, _ in ran) else "cuda",
        ranks=next((count for count in ranks if isinstance(count, int)), 0),
        lists=lists,
    )
    kernels = ((each.kernel, _grid(each)) for each, times in ran for _ in range(max(round(times), 1)))
    return evidence(settings, kernels)


def _grid(ran: Activity) -> tuple[int, ...]:
    grid = ran.settings.get("grid")
    return tuple(size for size in grid if isinstance(size, int)) if isinstance(grid, list | tuple) else ()
