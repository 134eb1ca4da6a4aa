"""Layers with tables of weights: embedding and mixture of experts. The (quantised) linear layer is in blas."""

from __future__ import annotations

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label, result
from ...core.errors import InputError
from ...core.work import Kernel, Work, work
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
) -> Work:
    """Gated mixture of experts: each token goes to `topk` of `experts`, each expert is two hidden x inter and one inter x hidden matrix.

    6 tokens topk hidden inter flops in the experts, 2 tokens hidden experts in the router, 5 per intermediate element
    (silu 4, gate 1), 2 topk per output element to combine. Routing is balanced: min(experts, tokens topk) experts are
    read, all are resident. `fused` keeps the intermediates on chip; otherwise each is written once and read once.
    """
    if np.any(np.asarray(topk) > np.asarray(experts)):
        raise InputError("moe: topk must not exceed experts")
    routed = tokens * topk
    active = np.minimum(experts, routed)
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
            "weights": (3 * active * hidden * inter, stored, "3 min(experts, tokens topk) hidden inter"),
            **between,
        },
        write={"y": (tokens * hidden, result(dtype).name, "tokens hidden"), **between},
        sizes={"weights": (3 * experts * hidden * inter, stored)},
        dtype=dtype,
        notes=("balanced routing",),
        waits={"launch": 1.0 + 4.0 * loose},
        kernels=(Kernel("moe", {**sizes, "stored": dtype_row(stored).bytes}, dtype=label(dtype, stored)),),
    )
