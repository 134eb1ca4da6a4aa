"""Elementwise kernels one after the other on the same elements, and casts that are made anew in every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ....core.machine import MAIN
from ....core.timeline import BACKWARD, FORWARD, OPTIMIZER
from ....core.units import counted, show
from ....core.work import READ, WRITE, Work
from ....programs.aten.arguments import base_name
from ....programs.aten.elementwise import is_elementwise
from ..groups import Group
from ..view import View
from .layout import is_relayout
from .move import Move, expected, price, price_runs, sources

MIN_ELEMENTS = 1 << 14  # below, a kernel is a launch and nothing else
CASTS = ("copy_", "_to_copy")
ROW_REDUCTIONS = ("mean", "sum", "amax")
MIN_RATIO = 8  # of the elements of a chain to those of a small result in it
POINTWISE_KERNEL = "triton_poi"  # of torch.compile
MAX_NAMED = 3


@dataclass(frozen=True)
class Chain:
    runs: list[int]  # places among the kept runs
    groups: list[Group]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(group.owner.name.rpartition("::")[2] for group in self.groups)


def pointwise_chains(view: View) -> Iterator[Move]:
    """Intermediates of a chain are written and read once each; one kernel keeps them in registers."""
    chains = _chains(view)
    if not chains:
        return
    training = any(item.group.phase == BACKWARD for item in view.items)
    changed, dropped = view.kept.time.copy(), []
    times: dict[tuple[Group, ...], tuple[float, float]] = {}
    worth: list[Chain] = []
    spared = 0.0
    for chain in chains:
        key = tuple(chain.groups)
        if key not in times:
            fused, bytes_spared = _fused(chain.groups, training)
            times[key] = expected(view, fused), bytes_spared
        time, bytes_spared = times[key]
        if time < sum(float(view.kept.time[run]) for run in chain.runs):
            changed[chain.runs[0]] = time
            dropped += chain.runs[1:]
            worth.append(chain)
            spared += bytes_spared
    if not worth:
        return
    gain, device = price_runs(view, changed, np.array(dropped))
    groups = list(dict.fromkeys(group for chain in worth for group in chain.groups))
    fewer = len(dropped) / view.steps
    evidence = (
        f"{counted(len(worth) // view.steps or 1, 'chain')} of elementwise kernels per step: {_examples(worth)}",
        f"saves {show(spared / view.steps, 'B', 3)} of intermediate traffic and {fewer:,.0f} launch{'' if fewer == 1 else 'es'}",
    )
    move = "fuse them with torch.compile, or write one kernel"
    yield Move("pointwise chain", "unfused elementwise chains", move, gain, evidence, device=device,
               sources=sources(groups), items=tuple(group.name for group in groups[:4]))  # fmt: skip


def _examples(chains: list[Chain]) -> str:
    counts: dict[tuple[str, ...], int] = {}
    for chain in chains:
        counts[chain.names] = counts.get(chain.names, 0) + 1
    ranked = sorted(counts, key=lambda names: -counts[names])[:MAX_NAMED]
    return ", ".join(" + ".join(names[:4]) for names in ranked)


def _chains(view: View) -> list[Chain]:
    """Runs that follow each other on a stream over the same elements, or over results that are much smaller."""
    of_run: dict[int, Group] = {}
    for item in view.items:
        if _is_member(item.group):
            of_run.update(dict.fromkeys(item.group.runs.tolist(), item.group))
    chains: list[Chain] = []
    for stream in np.unique(view.kept.stream).tolist():
        chain, size = Chain([], []), 0
        for place in [*np.flatnonzero(view.kept.stream == stream).tolist(), -1]:
            group = of_run.get(place)
            if group is None or not chain.runs or not _follows(view, chain, size, group, place):
                if sum(each.elements == size >= MIN_ELEMENTS for each in chain.groups) > 1:
                    chains.append(chain)
                chain, size = Chain([], []), 0
            if group is not None:
                chain.runs.append(place)
                chain.groups.append(group)
                size = max(size, group.elements)
    return chains


def _follows(view: View, chain: Chain, size: int, after: Group, place: int) -> bool:
    """Whether a run goes on with a chain of so many elements."""
    last = chain.groups[-1]
    if is_relayout(last) and is_relayout(after):
        return False  # views of two tensors, not a copy of a copy
    same = view.kept.step[chain.runs[-1]] == view.kept.step[place] and last.phase == after.phase
    return bool(same and (after.elements == size or after.elements * MIN_RATIO <= size))


def _is_member(group: Group) -> bool:
    """Elementwise operators, casts, and reductions of rows, which compilers fuse with what is around them."""
    work = group.owner.work
    if work is None or group.phase == OPTIMIZER or group.launches > 1 or not group.owner.call.tensors:
        return False
    base = base_name(group.owner.name)
    if base in ROW_REDUCTIONS:
        return _reduces_rows(group)
    return work.family == "stream" and (base in CASTS or is_elementwise(base) or base.startswith(POINTWISE_KERNEL))


def _reduces_rows(group: Group) -> bool:
    """Whether a reduction is over the last dimension alone."""
    args = group.owner.call.args
    last = len(group.owner.call.tensors[0].shape) - 1
    return len(args) > 1 and args[1] in ((-1,), (last,), -1, last) and not isinstance(args[1], bool)


def _fused(groups: list[Group], training: bool) -> tuple[Work, float]:
    """One kernel for the chain, and the bytes that it spares.

    What a kernel writes, the next one need not read. It need not be written either, unless a backward pass may want it.
    """
    works = [group.owner.work for group in groups if group.owner.work is not None]
    read = [float(np.asarray(work.bytes_at(MAIN, READ))) for work in works]
    written = [float(np.asarray(work.bytes_at(MAIN, WRITE))) for work in works]
    keep = training and groups[0].phase == FORWARD
    passed = [min(out, into) for out, into in zip(written[:-1], read[1:], strict=True)]
    reads = sum(read) - sum(passed)
    writes = sum(written) if keep else written[-1]
    flops = sum(float(np.asarray(work.flops)) for work in works)
    widest = max(works, key=lambda work: float(np.asarray(work.bytes)))
    moves = {(MAIN, "in", READ): max(reads, 0.0), (MAIN, "out", WRITE): writes}
    counts = {("vector", widest.dtype, "fused"): flops} if flops else {}
    fused = Work(
        counts,
        moves,
        {"launch": 1.0},
        name="add",
        family="stream",
        dtype=widest.dtype,
        shape={"n": groups[0].elements},
    )
    return fused, sum(read) + sum(written) - reads - writes


def weight_casts(view: View) -> Iterator[Move]:
    """Casts of tensors that have the shape of a parameter, as autocast makes them in every step."""
    parameters = {tensor.shape for tensor in view.kept.timeline.gradients if len(tensor.shape) > 1}
    groups = [
        item.group
        for item in view.items
        if item.group.phase == FORWARD and _is_cast(item.group) and item.group.owner.call.tensors[0].shape in parameters
    ]
    if not groups or view.kept.on_host:
        return
    gain, device = price(view, dict.fromkeys(groups, 0.0), np.concatenate([group.runs for group in groups]))
    number = sum(group.count for group in groups)
    evidence = (f"{number:,.0f} casts of parameters per step, {show(sum(group.time for group in groups), 's', 3)}",)
    move = "keep the parameters in bf16 (with fp32 copies in the optimizer) instead of casting them in every step"
    yield Move("weight casts", "autocast casts the parameters again in every step", move, gain, evidence, device=device,
               sources=sources(groups), items=tuple(group.name for group in groups[:4]))  # fmt: skip


def _is_cast(group: Group) -> bool:
    tensors = group.owner.call.tensors
    name = group.owner.name.rpartition("::")[2]
    return name in CASTS and len(tensors) > 1 and tensors[0].dtype != tensors[1].dtype
