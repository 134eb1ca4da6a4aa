"""Scaled dot-product attention, standard and flash.

With P visible (query, key) pairs per head: scores and their product with V cost 2 D flops per pair each, the
softmax 5. Causal masks keep the pairs with key <= query, queries aligned to the end of the keys (as in decoding
with a cache): P = Sq Skv - Sq (Sq - 1) / 2, about half of Sq Skv for Sq = Skv and all of it for Sq = 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import InputError
from ..work import Array, Work, work
from .registry import Flag, Format, Size, op


def visible_pairs(seq_q: Array, seq_kv: Array, causal: Array, window: Array | None) -> Array:
    """(query, key) pairs per head that a mask leaves: none, causal, or a causal window of `window` keys."""
    every = seq_q * seq_kv
    if window is None:
        return every - causal * seq_q * (seq_q - 1) / 2

    def up_to(position: Array) -> Array:
        """Sum of min(j, window) for j = 1 .. position."""
        short: Array = np.minimum(position, window)
        beyond: Array = np.maximum(position - window, 0.0)
        return short * (short + 1) / 2 + beyond * window

    return up_to(seq_kv) - up_to(seq_kv - seq_q)


@op("attention", "attention", grows="seq_q")
def attention(
    batch: Size,
    heads: Size,
    seq_q: Size,
    head_dim: Size,
    seq_kv: Size | None = None,
    kv_heads: Size | None = None,
    causal: Flag = False,
    window: Size | None = None,
    variant: Literal["flash", "standard"] = "flash",
    score_passes: Size = 4,
    dtype: Format = "bf16",
    kv: Format | None = None,
    tile: Size | None = None,
) -> Work:
    """O = softmax(Q K^T / sqrt(D)) V per head: (4 D + 5) flops for each visible (query, key) pair.

    `flash` keeps the scores on chip: Q, K, V read, O written, nothing grows with Sq x Skv; a `tile` of query rows adds
    what crosses L2, where K and V are read again for every tile. `standard` also moves the score matrix `score_passes`
    times (write, softmax read and write, read again: 4). `kv_heads` < heads shares K and V (grouped or multi-query);
    `window` limits a causal mask to the last keys; `kv` is the storage format of K and V.
    """
    keys = seq_q if seq_kv is None else seq_kv
    shared = heads if kv_heads is None else kv_heads
    if np.any(np.asarray(heads % shared) != 0):
        raise InputError("attention: kv_heads must divide heads")
    if np.any((np.asarray(causal) > 0) & (np.asarray(keys) < np.asarray(seq_q))):
        raise InputError(
            "attention: a causal mask needs seq_kv of at least seq_q (queries are aligned to the end of the keys)"
        )
    if window is not None and not np.all(np.asarray(causal) > 0):
        raise InputError("attention: a window goes with causal=yes")
    pairs = batch * heads * visible_pairs(seq_q, keys, causal, window)
    seen = keys if window is None else np.minimum(keys, seq_q + window - 1)
    q, k = batch * heads * seq_q * head_dim, batch * shared * seen * head_dim
    stored = kv or dtype
    passes: dict[str, tuple[Array, str, str]] = {}
    written: dict[str, tuple[Array, str, str]] = {}
    if variant == "standard":
        scores = batch * heads * seq_q * keys
        passes = {"scores": (scores * np.floor(score_passes / 2), dtype, "floor(score_passes/2) batch heads Sq Skv")}
        written = {"scores": (scores * np.ceil(score_passes / 2), dtype, "ceil(score_passes/2) batch heads Sq Skv")}
    inner = None
    if tile is not None:
        again = np.ceil(seq_q / tile) * heads / shared
        each = (k * again, stored, "ceil(Sq/tile) batch heads Skv D")
        inner = {"l2": {"Q": (q, dtype, "batch heads Sq D"), "K": each, "V": each, "O": (q, dtype, "batch heads Sq D")}}
    return work(
        matrix={"Q K^T": (2 * head_dim * pairs, "2 D pairs"), "P V": (2 * head_dim * pairs, "2 D pairs")},
        vector={"softmax": (5 * pairs, "5 pairs")},
        special=2 * pairs if variant == "standard" else pairs,
        read={
            "Q": (q, dtype, "batch heads Sq D"),
            "K": (k, stored, "batch kv_heads Skv D"),
            "V": (k, stored, "batch kv_heads Skv D"),
            **passes,
        },
        write={"O": (q, dtype, "batch heads Sq D"), **written},
        inner=inner,
        dtype=dtype,
        notes=(f"{variant} attention",),
        waits={"launch": 3.0 if variant == "standard" else 1.0},
    )
