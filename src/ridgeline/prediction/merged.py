"""Work of a kernel that a compiler made of several operators: its bytes, and the arithmetic of all of them.

It is priced as an elementwise kernel that moves as much; one that reduces all it reads to a single result as a sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..core.machine import MAIN
from ..core.work import READ, WRITE, MoveKey, Work
from .coefficients import kernels

STREAMED, REDUCED = "stream", "reduce"


def merged_work(
    reads: Mapping[str, float],
    writes: Mapping[str, float],
    flops: float,
    special: float,
    dtype: str,
    elements: float,
    *,
    handling: float = 0.0,
    costly: bool = False,
    single: bool = False,
    launches: float = 1.0,
) -> Work:
    """`handling`: instructions beside the arithmetic, in special functions that take as long; `costly`: among its operators is
    one as expensive as gelu; `single`: all that it reads becomes one number."""
    moves: dict[MoveKey, float] = {(MAIN, tensor, READ): size for tensor, size in reads.items()}
    moves |= {(MAIN, tensor, WRITE): size for tensor, size in writes.items()}
    work = Work(
        counts={("vector", dtype, "fused"): flops} if flops else {},
        moves=moves,
        waits={"launch": launches},
        special=special,
        name="gelu" if costly else "add",
        family=REDUCED if single else STREAMED,
        dtype=dtype,
        shape={"n": elements},
    )
    if not handling:
        return work
    [kernel] = kernels(work)
    return replace(work, kernels=(replace(kernel, sizes={**kernel.sizes, "special": special + handling}),))
