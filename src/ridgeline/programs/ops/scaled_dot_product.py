"""Scaled dot-product attention, standard and flash.

With P visible (query, key) pairs per head: scores and their product with V cost 2 D flops per pair each, the
softmax 5. Causal masks keep the pairs with key <= query, queries aligned to the end of the keys (as in decoding
with a cache): P = Sq Skv - Sq (Sq - 1) / 2, about half of Sq Skv for Sq = Skv and all of it for Sq = 1.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label, result
from ...core.errors import InputError
from ...core.families.attention import WINDOW, visible_pairs
from ...core.work import Array, Kernel, Work, work
from .kernels import product_kernel, row_kernel
from .registry import Flag, Format, Size, op


def tile_keys(seq_q: Array, seq_kv: Array, causal: Array, window: Array | None, tile: Array) -> Array:
    """Keys read by all query tiles together: every tile reads the keys that any of its rows may see."""
    full: Array = np.floor(seq_q / tile)
    remainder = seq_q - full * tile
    before = seq_kv - seq_q
    tiles: Array = np.ceil(seq_q / tile)
    ragged = tiles - full  # 1 where a last, shorter tile follows, else 0
    unmasked = tiles * seq_kv
    if window is None:
        # tile j ends at row j tile, which sees before + j tile keys; a shorter last one sees them all
        masked = full * before + tile * full * (full + 1) / 2 + ragged * seq_kv
        return unmasked - causal * (unmasked - masked)
    # with a window a tile reads at most tile + window - 1 keys; tiles up to `short` see fewer than that
    limit = tile + window - 1
    short: Array = np.clip(np.floor((limit - before) / tile), 0, full)
    last: Array = np.minimum(seq_kv, remainder + window - 1)
    return short * before + tile * short * (short + 1) / 2 + (full - short) * limit + ragged * last


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
    what crosses L2, where K and V are read again for every tile (tile_keys rows in all, masked ones left out). `standard` also moves the score matrix `score_passes`
    times (write, softmax read and write, read again: 4). `kv_heads` < heads shares K and V (grouped or multi-query);
    `window` limits a causal mask to the last keys; `kv` is the storage format of K and V.
    """
    keys = seq_q if seq_kv is None else seq_kv
    shared = heads if kv_heads is None else kv_heads
    check_attention(heads, shared, seq_q, keys, causal, window)
    stored, out = kv or dtype, result(dtype).name
    pairs = batch * heads * visible_pairs(seq_q, keys, causal, window)
    visible, visible_text = (keys, "Skv") if window is None else (np.minimum(keys, seq_q + window - 1), "min(Skv, Sq + window - 1)")  # fmt: skip
    q, k = batch * heads * seq_q * head_dim, batch * shared * visible * head_dim
    kv_read = (k, stored, f"batch kv_heads {visible_text} D")
    read: Tensors = {"Q": (q, dtype, "batch heads Sq D"), "K": kv_read, "V": kv_read}
    write: Tensors = {"O": (q, out, "batch heads Sq D")}
    scores = batch * heads * seq_q * keys
    if variant == "standard":  # the first of the passes is a write
        read["scores"] = (scores * np.floor(score_passes / 2), dtype, "floor(score_passes/2) batch heads Sq Skv")
        write["scores"] = (scores * np.ceil(score_passes / 2), dtype, "ceil(score_passes/2) batch heads Sq Skv")
    sizes = {"batch": batch, "heads": heads, "shared": shared, "q": seq_q, "kv": keys, "d": head_dim, "causal": causal}
    if window is not None:  # a single query has a shorter cache
        sizes |= {WINDOW: window, "kv": np.where(np.asarray(seq_q) == 1, np.minimum(keys, window), keys)}
    inner_read = inner_write = None
    if tile is not None:
        again = batch * heads * tile_keys(seq_q, keys, causal, window, tile) * head_dim
        tiled = (again, stored, "batch heads tile_keys D")
        inner_read, inner_write = {"l2": {**read, "K": tiled, "V": tiled}}, {"l2": write}
    return work(
        matrix={"Q K^T": (2 * head_dim * pairs, "2 D pairs"), "P V": (2 * head_dim * pairs, "2 D pairs")},
        vector={"softmax": (5 * pairs, "5 pairs")},
        special=pairs,
        read=read,
        write=write,
        inner_read=inner_read,
        inner_write=inner_write,
        sizes={"scores": (scores, dtype)} if variant == "standard" else None,
        dtype=dtype,
        notes=(f"{variant} attention",),
        waits={"launch": 3.0 if variant == "standard" else 1.0},
        kernels=_kernels(sizes, variant, dtype, stored),
    )


Tensors = dict[str, tuple[Array, str, str]]  # by name: elements, format, formula


def check_attention(
    heads: Array, shared: Array, seq_q: Array, keys: Array, causal: Array, window: Array | None
) -> None:
    if np.any(np.asarray(heads % shared) != 0):
        raise InputError("attention: kv_heads must divide heads")
    if np.any((np.asarray(causal) > 0) & (np.asarray(keys) < np.asarray(seq_q))):
        raise InputError(
            "attention: a causal mask needs seq_kv of at least seq_q (queries are aligned to the end of the keys)"
        )
    if window is not None and not np.all(np.asarray(causal) > 0):
        raise InputError("attention: a window goes with causal=yes")


def _kernels(sizes: dict[str, Array], variant: str, dtype: str, stored: str) -> tuple[Kernel, ...]:
    """One kernel (flash), or two products with a softmax between them, which no window is known of."""
    if variant == "standard" and WINDOW in sizes:
        return ()
    if variant == "standard":
        products, out = sizes["batch"] * sizes["heads"], result(dtype).name
        queries, keys, head_dim = sizes["q"], sizes["kv"], sizes["d"]
        return (
            *product_kernel(products, queries, keys, head_dim, dtype, stored, out),
            *row_kernel("softmax", products * queries, keys, out, out),
            *product_kernel(products, queries, head_dim, keys, dtype, stored, out),
        )
    widths = {"x": dtype_row(dtype).bytes, "stored": dtype_row(stored).bytes}
    return (Kernel("attention", {**sizes, **widths}, dtype=label(dtype, stored)),)
