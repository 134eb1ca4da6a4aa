"""Layers with tables of weights: embedding and mixture of experts. The (quantised) linear layer is in blas."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label, result
from ...core.errors import InputError
from ...core.notes import ASSUMED, Note
from ...core.work import Array, Kernel, Work, work
from .kernels import row_kernel
from .registry import Flag, Format, Size, op


@op("gather", "embedding")
def embedding(rows: Size, vocab: Size, cols: Size, dtype: Format = "bf16") -> Work:
    """y[rows,cols] = table[vocab,cols] at `rows` indices. No flops.

    Distinct indices as far as the table has rows: min(rows, vocab) cols elements read, one 64-bit index per row, rows x
    cols written. Repeated indices read less; the whole table is resident.
    """
    return work(
        read={
            "table": (np.minimum(rows, vocab) * cols, dtype, "min(rows, vocab) cols"),
            "index": (rows, "fp64", "rows"),
        },
        write={"y": (rows * cols, dtype, "rows cols")},
        sizes={"table": (vocab * cols, dtype)},
        dtype=dtype,
        kernels=row_kernel("embedding", rows, cols, dtype, dtype, fresh=np.minimum(rows, vocab) / rows),
    )


UNFUSED = "`fused` moves the floor, not the time: the timed kernels write intermediates between the products"


@op("moe", "moe", grows="tokens")
def moe(
    tokens: Size,
    experts: Size,
    topk: Size,
    hidden: Size,
    inter: Size,
    dtype: Format = "bf16",
    weights: Format | None = None,
    fused: Flag = True,
    routing: Literal["balanced", "uniform"] = "balanced",
    active: Size | None = None,
) -> Work:
    """Gated mixture of experts: each token goes to `topk` of `experts`, each expert is two hidden x inter and one inter x hidden matrix.

    6 tokens topk hidden inter flops in the experts, 2 tokens hidden experts in the router, 5 per intermediate element
    (silu 4, gate 1), 2 topk per output element to combine. All experts are resident; read are those that got tokens: with
    `balanced` routing min(experts, tokens topk), as benchmarks of these kernels route and the timings behind the
    expected times were; with `uniform` routing, where every token chooses at random, experts (1 - (1 - topk/experts)^tokens)
    on average; or the number given as `active`. `fused` keeps the intermediates on chip, which sets the floor; otherwise each is written
    once and read once. Kernels of PyTorch and of serving engines write them between the two products: the expected time is theirs, either way.
    """
    routed = tokens * topk
    hit, formula, note = _experts_hit(tokens, experts, topk, routing, active)
    stored, loose = weights or dtype, 1.0 - fused
    sizes = {"tokens": tokens, "experts": experts, "topk": topk, "hidden": hidden, "inter": inter}
    between = {
        "gate_up": (2 * routed * inter * loose, dtype, "2 tokens topk inter"),
        "activated": (routed * inter * loose, dtype, "tokens topk inter"),
        "expert_out": (routed * hidden * loose, dtype, "tokens topk hidden"),
    }
    return work(
        matrix={
            "experts": (6 * routed * hidden * inter, "6 tokens topk hidden inter"),
            "router": (2 * tokens * hidden * experts, "2 tokens hidden experts"),
        },
        vector={
            "silu and gate": (5 * routed * inter, "5 tokens topk inter"),
            "combine": (2 * routed * hidden, "2 tokens topk hidden"),
        },
        special=2 * routed * inter,
        read={
            "x": (tokens * hidden, dtype, "tokens hidden"),
            "router": (hidden * experts, dtype, "hidden experts"),
            "weights": (3 * hit * hidden * inter, stored, f"3 {formula} hidden inter"),
            **between,
        },
        write={"y": (tokens * hidden, result(dtype).name, "tokens hidden"), **between},
        sizes={"weights": (3 * experts * hidden * inter, stored)},
        dtype=dtype,
        notes=(f"{note}; {UNFUSED}",),
        waits={"launch": 1.0 + 4.0 * loose},
        kernels=(
            Kernel("moe", {**sizes, "stored": dtype_row(stored).bytes, "active": hit}, dtype=label(dtype, stored)),
        ),
    )


def _experts_hit(
    tokens: Array, experts: Array, topk: Array, routing: str, active: Array | None
) -> tuple[Array, str, str]:
    """How many experts get tokens, the formula of it, and a note that says how they are routed."""
    if np.any(np.asarray(topk) > np.asarray(experts)):
        raise InputError("moe: topk must not exceed experts")
    most = np.minimum(experts, tokens * topk)
    if active is not None:
        asked, fewest, largest = (np.ravel(value) for value in np.broadcast_arrays(active, topk, most))
        for case in np.flatnonzero((asked > largest) | (asked < fewest))[:1]:
            between = "active experts must lie between topk and the smaller of experts and tokens x topk"
            raise InputError(f"moe: {between}: {fewest[case]:.0f} to {largest[case]:.0f}, got {asked[case]:.0f}")
        return active, "active", "routing given by the active experts"
    # one of the topk choices of a token hits an expert with probability topk/experts, and tokens choose independently
    uniform = np.clip(experts * (1 - (1 - topk / experts) ** tokens), topk, most)  # rounding aside
    if routing == "uniform":
        return uniform, "experts (1 - (1 - topk/experts)^tokens)", "uniform routing"
    note = "balanced routing"
    if np.ndim(most) == np.ndim(uniform) == 0 and round(float(uniform)) < most:
        reads = f"balanced routing reads {most:.0f} experts, uniform routing reads {uniform:.0f} on average"
        note = Note(ASSUMED, f"{reads}: routing=uniform")
    return most, "min(experts, tokens topk)", note
