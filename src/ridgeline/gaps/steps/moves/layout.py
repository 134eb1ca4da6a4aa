"""Kernels that only rearrange data: conversions between tensor layouts, and copies that make tensors contiguous."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from ....core.units import show
from ....programs.aten.arguments import base_name
from ...kernel_families import CONVERSION
from ..groups import Group
from ..view import View
from .move import POSSIBLE, SHOWN, Move, price, price_runs, sources, with_times
from .recount import channels_last, is_on_images, recounted, total

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear")  # take either operand transposed
CONTIGUOUS = ("aten::contiguous", "aten::clone", "aten::reshape")


def conversions(view: View) -> Iterator[Move]:
    """Kernels of the library that convert between NCHW and NHWC around convolutions.

    In channels-last the convolutions need none, and what else is done to images (normalisation, pooling) takes what its
    kernels for that layout are expected to.
    """
    activities = view.kept.timeline.activities
    named = np.array([bool(CONVERSION.search(ran.kernel or ran.name)) for ran in activities], dtype=np.bool_)
    runs = np.flatnonzero(named[view.kept.activity])
    if not len(runs) or view.kept.on_host:
        return
    times = recounted(view, [item for item in view.items if is_on_images(item)], channels_last)
    changed = with_times(view, times, runs)
    gain, device = price_runs(view, changed, runs, view.machine.dispatch.value() or 0.0)
    time = float(view.kept.time[runs].sum()) / view.steps
    kernels = dict.fromkeys(activities[place].name for place in view.kept.activity[runs].tolist())
    count = f"{len(runs) / view.steps:,.0f} layout conversions per step, {show(time, 's', 3)}"
    evidence = [f"{count}: {', '.join(list(kernels)[:2])}"]
    if times:
        spent = sum(group.time for group in times)
        evidence.append(
            f"{show(spent, 's', 3)} on images with them; expected {show(total(times), 's', 3)} in channels-last"
        )
    groups = list(times) or [item.group for item in view.items if np.isin(item.group.runs, runs).any()]
    move = "keep model and input in channels_last: .to(memory_format=torch.channels_last)"
    yield Move("layout", "layout conversions around convolutions", move, gain, tuple(evidence), device=device,
               sources=sources(groups), items=tuple(group.name for group in groups[:4]))  # fmt: skip


def contiguous_copies(view: View) -> Iterator[Move]:
    """Copies that only change strides: shown where a product follows, which takes a transposed matrix as it is.

    Whether another operator takes the strided tensor, the timeline does not show.
    """
    groups = [item.group for item in view.items if _is_relayout(item.group)]
    if not groups or view.kept.on_host:
        return
    after = _next_groups(view)
    needless = [group for group in groups if _is_transposed(group) and _feeds_products(group, after)]
    for status, copies in ((SHOWN, needless), (POSSIBLE, [group for group in groups if group not in needless])):
        if copies:
            yield _without_copies(view, copies, status)


def _without_copies(view: View, groups: list[Group], status: str) -> Move:
    gain, device = price(view, dict.fromkeys(groups, 0.0), np.concatenate([group.runs for group in groups]))
    time, number = sum(group.time for group in groups), sum(group.count for group in groups)
    text = f"{number:,.0f} copies per step that only change strides, {show(time, 's', 3)}"
    move = "produce the tensor in the layout that is needed, or pass the strided view on"
    if status == SHOWN:
        text, move = (
            f"{text}; a product follows each, and takes a transposed matrix",
            "pass the transposed view to the product",
        )
    return Move("contiguous", "copies to make tensors contiguous", move, gain, (text,), status, device,
                sources(groups), tuple(group.name for group in groups[:4]))  # fmt: skip


def _next_groups(view: View) -> dict[int, Group]:
    """The group of the run that follows each run on its stream."""
    of_run = {run: item.group for item in view.items for run in item.group.runs.tolist()}
    after: dict[int, Group] = {}
    for stream in np.unique(view.kept.stream).tolist():
        for run, other in pairwise(np.flatnonzero(view.kept.stream == stream).tolist()):
            if other in of_run:
                after[run] = of_run[other]
    return after


def _is_transposed(group: Group) -> bool:
    """Whether the source of a copy is a matrix, or a batch of them, whose columns lie side by side in memory."""
    source = group.owner.call.tensors[1]
    if len(source.shape) < 2 or len(source.strides) != len(source.shape):
        return False
    rows, columns = source.strides[-2:]
    return rows == 1 and columns >= source.shape[-2]


def _feeds_products(group: Group, after: Mapping[int, Group]) -> bool:
    """Whether after every run of a copy comes a product with an operand of its shape."""
    shape = group.owner.call.tensors[0].shape
    following = [after.get(run) for run in group.runs.tolist()]
    return all(
        other is not None
        and base_name(other.owner.name) in PRODUCTS
        and shape in [tensor.shape for tensor in other.owner.call.tensors]
        for other in following
    )


def _is_relayout(group: Group) -> bool:
    tensors = group.owner.call.tensors
    if not group.owner.name.endswith("copy_") or len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype:
        return False
    around = {outer.name for site in group.sites for outer in site.outer}
    strided = tensors[0].strides != tensors[1].strides and bool(tensors[1].strides)
    return bool(strided and around.intersection(CONTIGUOUS))
