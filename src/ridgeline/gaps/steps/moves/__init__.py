"""Moves: what would shorten the step, each with the evidence of the timeline and its gain per step, the largest first.

A gain is what the step gets shorter by in its queue of launches: device time that the host hides brings nothing, and a
host that has waited anyway gets no faster. No improved kernel is priced below its expected time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..view import View
from . import attention, communication, fusion, host, layout, optimizer, precision, slow
from .move import POSSIBLE, SHOWN, Move

__all__ = ["POSSIBLE", "SHOWN", "Move", "moves"]

MIN_RELATIVE_GAIN = 0.005  # of the step
RULES: tuple[Callable[[View], Iterable[Move]], ...] = (
    host.synchronisations,
    host.launch_train,
    host.data_stalls,
    optimizer.loop,
    fusion.pointwise_chains,
    fusion.weight_casts,
    layout.conversions,
    layout.contiguous_copies,
    precision.without_tensor_cores,
    precision.narrower,
    attention.unfused,
    communication.exposed,
    communication.pageable_copies,
    slow.slower_than_expected,
)


def moves(view: View) -> list[Move]:
    """Shown causes first, the largest gain first; those worth less than half a percent of the step are left out."""
    offered = [move for rule in RULES for move in rule(view)]
    worth = [move for move in offered if move.gain is not None and move.gain >= MIN_RELATIVE_GAIN * view.wall]
    return sorted(worth, key=lambda move: (not move.shown, -(move.gain or 0.0)))
