"""Optimizer steps over n parameters; `fused` is one pass, `foreach` a pass for every operation, as torch's default runs it."""

from __future__ import annotations

from typing import Literal

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.work import Kernel, Work, work
from .registry import Flag, Format, Size, op

# Passes of torch's foreach AdamW, by tensor: p decayed and stepped, m, v scaled and added to, the denominator (root,
# bias correction, epsilon).
FOREACH_ADAMW = {"read": {"p": 2, "g": 2, "m": 2, "v": 3, "d": 3}, "write": {"p": 2, "m": 1, "v": 2, "d": 3}}
FOREACH_ADAMW_LAUNCHES = 8.0


@op("stream", "optimizer", grows="n")
def adamw(n: Size, dtype: Format = "fp32", variant: Literal["fused", "foreach"] = "fused") -> Work:
    """AdamW over n parameters: m and v updated from the gradient, p decayed and stepped. 14 flops each.

    decay 1, m 3 (subtract, scale, add), v 4 (two scales, square, add), root, correction and epsilon 3, step 3 (divide,
    scale, subtract). `fused` reads p, g, m, v and writes p, m, v; `foreach` passes over them once per operation, with
    the denominator as a tensor between: 12 reads, 8 writes.
    """
    reads = dict.fromkeys("pgmv", 1) if variant == "fused" else FOREACH_ADAMW["read"]
    writes = dict.fromkeys("pmv", 1) if variant == "fused" else FOREACH_ADAMW["write"]
    launches = 1.0 if variant == "fused" else FOREACH_ADAMW_LAUNCHES
    return _update(f"adamw_{variant}", n, dtype, 14, 2, reads, writes, launches)


@op("stream", "optimizer", grows="n")
def sgd(n: Size, dtype: Format = "fp32", momentum: Flag = False) -> Work:
    """p = p - lr g, 2 flops; with momentum v = mu v + g first, 4. p and g (and v) read, p (and v) written."""
    factor = 1.0 * momentum
    width = dtype_row(dtype).bytes
    read, written = (2 + factor) * n * width, (1 + factor) * n * width
    each = 2 + 2 * factor
    return work(
        vector={"update": (each * n, "(2 + 2 momentum) n")},
        read={"p": (n, dtype, "n"), "g": (n, dtype, "n"), "v": (factor * n, dtype, "momentum n")},
        write={"p": (n, dtype, "n"), "v": (factor * n, dtype, "momentum n")},
        dtype=dtype,
        kernels=(_pass("sgd", read, written, each * n, 0.0 * n, n, 1.0, dtype),),
    )


def _update(
    name: str, n: Size, dtype: str, flops: float, special: float, reads: dict[str, int], writes: dict[str, int], launches: float
) -> Work:  # fmt: skip
    width = dtype_row(dtype).bytes
    read, written = sum(reads.values()) * n * width, sum(writes.values()) * n * width
    return work(
        vector={"update": (flops * n, f"{flops:g} n")},
        special=special * n,
        read={tensor: (times * n, dtype, f"{times} n") for tensor, times in reads.items()},
        write={tensor: (times * n, dtype, f"{times} n") for tensor, times in writes.items()},
        sizes=dict.fromkeys({*reads, *writes}, (n, dtype)),
        dtype=dtype,
        waits={"launch": launches},
        kernels=(_pass(name, read, written, flops * n, special * n, n, launches, dtype),),
    )


def _pass(
    name: str, read: Size, written: Size, flops: Size, special: Size, n: Size, launches: float, dtype: str
) -> Kernel:
    sizes = {"read": read, "written": written, "flops": flops, "special": special, "elements": n, "launches": launches}
    return Kernel("stream", sizes, name, label(dtype))
