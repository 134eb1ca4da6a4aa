"""Calls counted anew after a change of their tensors, and the expected times of those that it changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ....core.errors import RidgelineError
from ....core.timeline import Call, Tensor
from ....programs.aten import Settings, count
from ....programs.aten.arguments import base_name
from ....programs.aten.convolution import ALLOW_TF32
from ..groups import Group
from ..items import OpItem
from ..view import View
from .move import expected

IMAGES = 4  # dimensions of a batch of images


def recounted(
    view: View, items: Sequence[OpItem], change: Callable[[Tensor], Tensor], settings: Settings | None = None
) -> dict[Group, float]:
    """The time per call with changed tensors, of the groups that this makes faster.

        time = measured time x expected time after the change / expected time before it, and no less than that after it

    What makes an operator slower than expected today is not blamed on what is changed.
    """
    times: dict[Group, float] = {}
    for item in items:
        owned = item.group.owner
        call = changed(owned.call, change)
        call = allowing_tf32(call) if settings is not None and settings.conv_tf32 else call
        counted = count(call, replace(settings or owned.settings, leaf=owned.settings.leaf))
        if counted.work is None or (settings is None and call.args == owned.call.args):
            continue
        try:
            time = expected(view, counted.work, counted.backend)
        except RidgelineError:
            continue
        slowdown = max(item.gap.measured / item.gap.target.time, 1.0)
        if time * slowdown < item.gap.measured:
            times[item.group] = time * slowdown
    return times


def changed(call: Call, change: Callable[[Tensor], Tensor]) -> Call:
    """The call with every tensor changed, those in lists too."""

    def each(arg: Any) -> Any:
        if isinstance(arg, tuple):
            return tuple(map(each, arg))
        return change(arg) if isinstance(arg, Tensor) else arg

    return replace(call, args=each(call.args), outputs=())


def allowing_tf32(call: Call) -> Call:
    """The call with the flag of tf32 set, where its schema has one: it counts for more than the settings."""
    place = ALLOW_TF32.get(base_name(call.name), len(call.args))
    flags = (True,) if place < len(call.args) else ()
    return replace(call, args=(*call.args[:place], *flags, *call.args[place + 1 :]))


def unchanged(tensor: Tensor) -> Tensor:
    return tensor


def in_format(before: str, after: str) -> Callable[[Tensor], Tensor]:
    """Tensors of one format in another."""
    return lambda tensor: replace(tensor, dtype=after) if tensor.dtype == before else tensor


def channels_last(tensor: Tensor) -> Tensor:
    """Images with their channels next to each other."""
    if len(tensor.shape) != IMAGES:
        return tensor
    _, channels, height, width = tensor.shape
    return replace(tensor, strides=(prod((channels, height, width)), 1, width * channels, channels))


def is_on_images(item: OpItem) -> bool:
    return any(len(tensor.shape) == IMAGES for tensor in item.group.owner.call.tensors)


def total(times: dict[Group, float]) -> float:
    """Seconds per step."""
    return sum(time * group.count for group, time in times.items())
