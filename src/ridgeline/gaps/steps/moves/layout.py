"""Kernels that only rearrange data: conversions between tensor layouts, and copies that make tensors contiguous."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ....core.units import show
from ...kernel_families import CONVERSION
from ..groups import Group
from ..view import View
from .move import POSSIBLE, Move, price, price_runs, sources, with_times
from .recount import channels_last, is_on_images, recounted, total

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
    """Copies that only change strides; whether the next operator takes the strided tensor, the timeline does not show."""
    groups = [item.group for item in view.items if _is_relayout(item.group)]
    if not groups or view.kept.on_host:
        return
    gain, device = price(view, dict.fromkeys(groups, 0.0), np.concatenate([group.runs for group in groups]))
    time, number = sum(group.time for group in groups), sum(group.count for group in groups)
    evidence = (f"{number:,.0f} copies per step that only change strides, {show(time, 's', 3)}",)
    move = "produce the tensor in the layout that is needed, or pass the strided view on"
    yield Move("contiguous", "copies to make tensors contiguous", move, gain, evidence, POSSIBLE, device,
               sources(groups), tuple(group.name for group in groups[:4]))  # fmt: skip


def _is_relayout(group: Group) -> bool:
    tensors = group.owner.call.tensors
    if not group.owner.name.endswith("copy_") or len(tensors) < 2 or tensors[0].dtype != tensors[1].dtype:
        return False
    around = {outer.name for site in group.sites for outer in site.outer}
    strided = tensors[0].strides != tensors[1].strides and bool(tensors[1].strides)
    return bool(strided and around.intersection(CONTIGUOUS))
