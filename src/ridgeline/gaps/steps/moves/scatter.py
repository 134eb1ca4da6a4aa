"""Sums by index to few places, where the updates wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ....core.machine import MAIN
from ....core.units import show
from ....core.work import READ, Work
from ....programs.aten.arguments import base_name
from ..groups import Group
from ..items import OpItem
from ..view import View
from .move import Move, expected, price, sources

ADDING = ("scatter_add", "scatter_add_", "index_add", "index_add_", "scatter_reduce", "scatter_reduce_")
MIN_UPDATES = 256  # per place of the result, from which most of them meet others
MIN_SLOWDOWN = 3.0  # of a read of the same bytes, from which they wait


def contended(view: View) -> Iterator[Move]:
    """Many updates per place of the result that take far longer than to read what is added: atomics queue at few addresses."""
    if view.kept.on_host:
        return
    times: dict[Group, float] = {}
    for item in view.items:
        read = _reading(view, item) if _updates(item.group) >= MIN_UPDATES else 0.0
        if read and item.gap.measured >= MIN_SLOWDOWN * read:
            times[item.group] = read
    if not times:
        return
    gain, device = price(view, times)
    first = max(times, key=lambda group: group.time)
    evidence = (
        f"{first.name}: {_updates(first):,.0f} updates per place of the result",
        f"{show(first.samples[0], 's', 3)} per call; {show(times[first], 's', 3)} to read what is added",
    )
    move = "sum before the update: sum() of a view, segment_reduce of sorted keys, or a one-hot product"
    yield Move("contended scatter", "sums by index to few places", move, gain, evidence, device=device,
               sources=sources(times), items=tuple(group.name for group in list(times)[:4]))  # fmt: skip


def _updates(group: Group) -> float:
    """Numbers added per place of the result; 0 where the operator adds none."""
    tensors = group.owner.call.tensors
    if base_name(group.owner.name) not in ADDING or len(tensors) < 2:
        return 0.0
    return prod(tensors[-1].shape) / max(prod(tensors[0].shape), 1)


def _reading(view: View, item: OpItem) -> float:
    """Seconds to read all that the operator reads once, as a sum does."""
    work = item.group.owner.work
    if work is None:
        return 0.0
    moves = {key: size for key, size in work.moves.items() if key[0] == MAIN and key[2] == READ}
    shape = {"n": prod(item.group.owner.call.tensors[-1].shape)}
    return expected(
        view, Work(work.counts, moves, {"launch": 1.0}, name="sum", family="reduce", dtype=work.dtype, shape=shape)
    )
