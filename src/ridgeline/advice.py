"""What to try next, by what limits a kernel. Each move says what it changes; none is offered for the other side."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    name: str
    changes: str


MOVES: dict[str, tuple[Move, ...]] = {
    "memory": (
        Move("fuse with a neighbour", "the tensor between the two kernels is neither written nor read"),
        Move("quantise what is read most", "fewer bytes per element; the arithmetic may stay as it is"),
        Move(
            "reuse what was read", "larger batch, tiling, a shared prefix or KV cache: the same bytes serve more flops"
        ),
    ),
    "compute": (
        Move("use a faster engine", "tensor units, a narrower format, 2:4 sparsity where the weights allow it"),
        Move(
            "raise the share of the peak", "larger tiles, asynchronous copies, more independent multiply-adds in flight"
        ),
        Move("do fewer flops", "skip masked or padded parts, exploit symmetry or structure"),
    ),
    "overhead": (
        Move("capture a graph", "one launch for many kernels"),
        Move("fuse kernels", "fewer launches"),
        Move("enlarge the batch", "more work per launch"),
        Move("keep a persistent kernel", "launch once, feed it work"),
    ),
    "balanced": (Move("move fewer bytes and use the units better", "both roofs are near: one alone gains little"),),
}


def moves(bound: str) -> tuple[Move, ...]:
    return MOVES[bound]
