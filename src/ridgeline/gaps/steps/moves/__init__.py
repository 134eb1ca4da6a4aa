"""Moves: what would shorten the step, each with the evidence of the timeline and its gain per step, the largest first.

A gain is what the step gets shorter by in its queue of launches: device time that the host hides brings nothing, and a
host that has waited anyway gets no faster. No improved kernel is priced below its expected time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from ..view import View
from . import attention, communication, cpu, fusion, host, layout, optimizer, precision, scatter, slow
from .move import POSSIBLE, SHOWN, Move

__all__ = ["POSSIBLE", "SHOWN", "Move", "moves"]

MIN_RELATIVE_GAIN = 0.005  # of the step
GENERIC = {"launch train": 0.5}  # weight of the gain of rules that hold whatever the cause is
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
    precision.accidental_fp64,
    attention.unfused,
    scatter.contended,
    communication.exposed,
    communication.pageable_copies,
    communication.exposed_copies,
    cpu.small_operators,
    cpu.bf16_products,
    slow.slower_than_expected,
)


def moves(view: View) -> list[Move]:
    """Shown causes first, the largest gain first; those worth less than half a percent of the step are left out.

    No move saves more than the idle time of the step and the device time that it removes. A graph hides whatever the host
    does, so that a cause that the timeline names comes before it, where that explains much of the same time.
    """
    offered = [_bounded(view, move) for rule in RULES for move in rule(view)]
    worth = [move for move in offered if move.gain is not None and move.gain >= MIN_RELATIVE_GAIN * view.step]
    return sorted(worth, key=lambda move: (not move.shown, -(move.gain or 0.0) * GENERIC.get(move.rule, 1.0)))


def _bounded(view: View, move: Move) -> Move:
    limit = view.step_idle + max(move.device or 0.0, 0.0)
    return move if move.gain is None or move.gain <= limit else replace(move, gain=limit)
