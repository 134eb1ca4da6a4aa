"""Kernels that only rearrange data: conversions between tensor layouts, and copies that make tensors contiguous."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ....core.timeline import Tensor
from ....core.units import show
from ....programs.aten.arguments import base_name
from ...kernel_families import CONVERSION
from ..groups import Group
from ..kept import Ints
from ..view import View
from .move import POSSIBLE, SHOWN, Move, price, price_runs, sources, with_times
from .recount import channels_last, is_on_images, recounted, total

PRODUCTS = ("mm", "addmm", "bmm", "baddbmm", "matmul", "linear")  # take either operand transposed
HEADS = 4  # dimensions of a tensor of heads
CONTIGUOUS = ("aten::contiguous", "aten::clone", "aten::reshape")


def conversions(view: View) -> Iterator[Move]:
    """Kernels of the library that convert between NCHW and NHWC around convolutions.

    In channels-last the convolutions need none, and what else is done to images (normalisation, pooling) takes what its
    kernels for that layout are expected to.
    """
    activities = view.kept.timeline.activities
    named = np.array([bool(CONVERSION.search(ran.kernel or ran.name)) for ran in activities], dtype=np.bool_)
    runs = np.setdiff1d(np.flatnonzero(named[view.kept.activity]), _of_channels_last(view))
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


def _of_channels_last(view: View) -> Ints:
    """Runs of operators whose images are in channels-last already: the library converts them for a kernel of its choice."""
    images = [item.group for item in view.items if is_on_images(item)]
    done = [group.runs for group in images if channels_last(group.owner.call.tensors[0]) == group.owner.call.tensors[0]]
    return np.concatenate(done) if done else np.zeros(0, dtype=np.int64)


def contiguous_copies(view: View) -> Iterator[Move]:
    """Copies that only change strides: shown where a product follows, which takes a transposed matrix as it is, or attention.

    Whether another operator takes the strided tensor, the timeline does not show.
    """
    groups = [item.group for item in view.items if is_relayout(item.group)]
    if not groups or view.kept.on_host:
        return
    after = _next_groups(view, groups)
    needless = [group for group in groups if _is_needless(group, after)]
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
            f"{text}; a product or attention follows, which takes the strided view",
            "pass the view on as it is, without .contiguous()",
        )
    return Move("contiguous", "copies to make tensors contiguous", move, gain, (text,), status, device,
                sources(groups), tuple(group.name for group in groups[:4]))  # fmt: skip


def _next_groups(view: View, copies: list[Group]) -> dict[int, Group]:
    """The group of the run that follows each run on its stream, further copies left out."""
    of_run = {run: item.group for item in view.items for run in item.group.runs.tolist()}
    copied = {run for group in copies for run in group.runs.tolist()}
    after: dict[int, Group] = {}
    for stream in np.unique(view.kept.stream).tolist():
        following: Group | None = None
        for run in reversed(np.flatnonzero(view.kept.stream == stream).tolist()):
            if following is not None:
                after[run] = following
            if run not in copied:
                following = of_run.get(run)
    return after


def _is_needless(group: Group, after: Mapping[int, Group]) -> bool:
    """Whether after every run of a copy comes an operator that takes its source as it is, with a tensor of its shape."""
    source = group.owner.call.tensors[1]
    following = [after.get(run) for run in group.runs.tolist()]
    return all(other is not None and _takes(other, source) for other in following)


def _takes(operator: Group, source: Tensor) -> bool:
    """Products take transposed matrices; attention takes heads and times in either order, elements of a head side by side."""
    name, shapes = base_name(operator.owner.name), [tensor.shape for tensor in operator.owner.call.tensors]
    if name in PRODUCTS:
        return _is_transposed(source) and source.shape in shapes
    heads = len(source.shape) == HEADS and len(source.strides) == HEADS and source.strides[-1] == 1
    return "attention" in name and heads and bool({source.shape, _swapped(source.shape)}.intersection(shapes))


def _swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
    batch, times, heads, size = shape
    return batch, heads, times, size


def _is_transposed(source: Tensor) -> bool:
    """Whether it is a matrix, or a batch of them, whose columns lie side by side in memory."""
    if len(source.shape) < 2 or len(source.strides) != len(source.shape):
        return False
    rows, columns = source.strides[-2:]
    return rows == 1 and columns >= source.shape[-2]


def is_relayout(group: Group) -> bool:
    tensors = group.owner.call.tensors
    if not group.owner.name.endswith("copy_") or len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype:
        return False
    around = {outer.name for site in group.sites for outer in site.outer}
    strided = tensors[0].strides != tensors[1].strides and bool(tensors[1].strides)
    return bool(strided and around.intersection(CONTIGUOUS))
