"""Collectives: ops whose traffic is on links, counted per rank and one direction; reductions and gathers by ring.

`bytes` is the size of the whole buffer: what all_reduce reduces, what all_gather ends with, what reduce_scatter
and all_to_all start from. `hop` waits are the steps that follow one another. Which links the ranks use, and what no
algorithm can beat there, depends on the machine (`core/network.py`).
"""

from __future__ import annotations

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError
from ...core.machine import MAIN
from ...core.network import FAMILY
from ...core.work import LINK, READ, WRITE, Array, Kernel, Work
from .registry import Format, Size, op


def _collective(
    op: str,
    size: Array,
    ranks: Array,
    dtype: str,
    sent: Array,
    formula: str,
    hops: Array,
    *,
    read: Array | None = None,
    written: Array | None = None,
    adds: Array = 0.0,
    held: Array | None = None,
    how: str = "ring",
) -> Work:
    """Work of a rank, which reads and writes the buffer once, in place, unless `read`, `written` and `held` say otherwise."""
    if np.any(np.asarray(ranks) < 2):
        raise InputError("a collective needs at least 2 ranks")
    moves = {(MAIN, "buffer", READ): size if read is None else read, (LINK, "buffer", WRITE): sent}
    if written is None or np.any(np.asarray(written)):
        moves[MAIN, "buffer", WRITE] = size if written is None else written
    return Work(
        counts={("vector", dtype, "reduce"): adds / dtype_row(dtype).bytes} if np.any(np.asarray(adds)) else {},
        moves=moves,
        waits={"launch": 1.0, "hop": hops},
        held=size if held is None else held,
        dtype=dtype,
        formulas={(LINK, "buffer", WRITE): formula},
        notes=(f"counts of the link by {how}, per rank and one direction",),
        kernels=(Kernel(FAMILY, {"bytes": size, "ranks": ranks}, op),),
    )


@op(FAMILY, FAMILY)
def all_reduce(bytes: Size, ranks: Size, dtype: Format = "bf16") -> Work:
    """Every rank ends with the sum: 2 (N-1)/N of the buffer sent per rank (reduce-scatter, then all-gather), 2 (N-1) hops."""
    part = (ranks - 1) / ranks * bytes
    return _collective("all_reduce", bytes, ranks, dtype, 2 * part, "2 (N-1)/N bytes", 2 * (ranks - 1), adds=part)


@op(FAMILY, FAMILY)
def all_gather(bytes: Size, ranks: Size, dtype: Format = "bf16") -> Work:
    """Every rank ends with all parts: (N-1)/N of the whole sent per rank, N-1 hops."""
    part = (ranks - 1) / ranks * bytes
    return _collective("all_gather", bytes, ranks, dtype, part, "(N-1)/N bytes", ranks - 1, read=bytes / ranks)


@op(FAMILY, FAMILY)
def reduce_scatter(bytes: Size, ranks: Size, dtype: Format = "bf16") -> Work:
    """Every rank ends with its part of the sum: (N-1)/N of the buffer sent and added per rank, N-1 hops."""
    part = (ranks - 1) / ranks * bytes
    return _collective(
        "reduce_scatter", bytes, ranks, dtype, part, "(N-1)/N bytes", ranks - 1, written=bytes / ranks, adds=part
    )


@op(FAMILY, FAMILY)
def all_to_all(bytes: Size, ranks: Size, dtype: Format = "bf16") -> Work:
    """Every rank sends a different part to every other: (N-1)/N of its buffer, N-1 hops; the parts it gets need a second buffer."""
    part, held = (ranks - 1) / ranks * bytes, 2 * bytes
    return _collective(
        "all_to_all", bytes, ranks, dtype, part, "(N-1)/N bytes", ranks - 1, held=held, how="direct sends"
    )


@op(FAMILY, FAMILY)
def broadcast(bytes: Size, ranks: Size, dtype: Format = "bf16") -> Work:
    """One rank's buffer to all: pipelined along the ring each link carries it once, N-1 hops."""
    return _collective("broadcast", bytes, ranks, dtype, bytes * np.ones_like(ranks), "bytes", ranks - 1)


@op(FAMILY, FAMILY)
def p2p(bytes: Size, ranks: Size = 2, dtype: Format = "bf16") -> Work:
    """One rank's buffer to one other, seen by the sender: read and sent once, one hop."""
    once = bytes * np.ones_like(ranks)
    return _collective("p2p", bytes, ranks, dtype, once, "bytes", np.ones_like(ranks), written=0.0, how="direct send")
