"""Attention itself, for the masks, heads and devices of models: windows, chunks, sinks, V heads of another size, split tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.families.attention import WINDOW, visible_pairs
from ...core.machine import MAIN
from ...core.work import READ, Array, Kernel, Work, work
from .. import ops
from .passes import built

SINK = 2.0  # flops of a learned logit in a softmax: exponential and addition


@dataclass(frozen=True)
class Masked:
    """Sizes of attention on one device: `queries` and `keys` per sequence, of which a causal mask keeps some."""

    batch: Array
    heads: Array
    kv_heads: Array
    queries: Array
    keys: Array
    head_dim: Array
    v_dim: Array
    causal: bool = True
    window: int | None = None
    chunked: bool = False
    sinks: bool = False
    dense: bool = False  # a mask of all pairs is read, one for all heads
    cached: bool = False  # decoding: few queries over a cache
    devices: int = 1  # that split the queries evenly, as context parallelism does with a balanced order

    @property
    def seen(self) -> Masked:
        """The same with what a window cuts in any case: one query sees min(keys, window); a longer window cuts nothing."""
        if self.window is None:
            return self
        if np.all(np.asarray(self.queries) == 1):
            seen = (self.keys - 1) % self.window + 1 if self.chunked else np.minimum(self.keys, self.window)
            return replace(self, keys=seen, window=None, chunked=False)
        if np.all(np.asarray(self.keys) <= self.window):
            return replace(self, window=None, chunked=False)
        return self

    @property
    def parts(self) -> tuple[tuple[Masked, Array], ...]:
        """Arrays in which a window cuts some sequences and others not, as cases of one kind each, with 1 where a case is of it."""
        if self.window is None or not np.ndim(self.queries + self.keys) or np.all(np.asarray(self.queries) == 1):
            return ((self, 1.0),)
        cut, single = np.broadcast_arrays(np.asarray(self.keys) > self.window, np.asarray(self.queries) == 1)
        kinds = (
            (replace(self, window=None, chunked=False), ~cut),
            (replace(self, queries=1.0), cut & single),
            (self, cut & ~single),
        )
        return tuple((kind, 1.0 * cases) for kind, cases in kinds if np.any(cases))

    @property
    def chunk_share(self) -> Array:
        """Pairs within chunks over the pairs of a sliding window of the same size.

        A query at position p sees p mod w + 1 keys of its chunk, so n positions from the start see
        floor(n/w) w (w + 1)/2 + r (r + 1)/2 with r = n mod w.
        """
        if not self.chunked or self.window is None:
            return 1.0
        size = float(self.window)

        def up_to(count: Array) -> Array:
            rest = count % size
            return count // size * size * (size + 1) / 2 + rest * (rest + 1) / 2

        return (up_to(self.keys) - up_to(self.keys - self.queries)) / visible_pairs(
            self.queries, self.keys, 1.0, self.window
        )

    def forward(self, dtype: str, kv: str) -> Work:
        """2 (D + Dv) flops per visible pair, and 5 of the softmax.

        Q and K of one head size and V of another count with their mean: the products cost 2 (D + Dv) per pair and the tensors
        hold D + Dv per query and per key, so the mean is exact.
        """
        cut = self.seen
        made = built(ops.attention, **cut._sizes((self.head_dim + self.v_dim) / 2), dtype=dtype, kv=kv)
        return cut._on_device(made, ("Q", "O"), kv)

    def backward(self, dtype: str) -> Work:
        """Five products per visible pair: three over the head of Q and K (S, dQ, dK), two over that of V (dP, dV)."""
        cut = self.seen
        made = built(ops.attention_backward, **cut._sizes(self.head_dim), dtype=dtype)
        factor = self.v_dim / self.head_dim
        counts = {
            key: value * factor if key[2].startswith(("dP", "dV", "delta")) else value
            for key, value in made.counts.items()
        }
        moves = {
            key: value * factor if key[1] in ("V", "O", "dO", "dV") else value for key, value in made.moves.items()
        }
        return cut._on_device(replace(made, counts=counts, moves=moves), ("Q", "O", "dO", "dQ", "lse"), dtype)

    def _sizes(self, head_dim: Array) -> dict[str, Array | None]:
        return {
            "batch": self.batch, "heads": self.heads, "kv_heads": self.kv_heads, "seq_q": self.queries,
            "seq_kv": self.keys, "head_dim": head_dim, "causal": float(self.causal), "window": self.window,
        }  # fmt: skip

    def _on_device(self, made: Work, per_query: tuple[str, ...], stored: str) -> Work:
        """With the sinks, without the pairs of other chunks, and with this device's part of the queries."""
        share = self.chunk_share / self.devices
        counts = {key: value * share for key, value in made.counts.items()}
        if self.sinks:
            rows = self.batch * self.heads * self.queries / self.devices
            counts["vector", made.dtype, "sinks"] = SINK * rows
        moves = {key: value / self.devices if key[1] in per_query else value for key, value in made.moves.items()}
        if self.dense:
            pairs = self.batch * self.queries * self.keys / self.devices
            moves[MAIN, "mask", READ] = pairs * dtype_row(made.dtype).bytes
        kernels = tuple(self._priced(kernel) for kernel in made.kernels)
        return replace(made, counts=counts, moves=moves, special=made.special * share, kernels=kernels)

    def _priced(self, kernel: Kernel) -> Kernel:
        """Its part of the batch; the few queries of a verified draft are rows of decoding that share keys, as more heads do.

        Chunks are windows of as many keys as a query sees of them on average.
        """
        sizes = {**kernel.sizes, "batch": kernel.sizes["batch"] / self.devices}
        if self.cached:
            sizes |= {"q": 1.0, "heads": self.heads * self.queries, "causal": 0.0}
            if self.window is not None:
                pairs = visible_pairs(self.queries, self.keys, 1.0, self.window)
                sizes |= {"kv": self.chunk_share * pairs / self.queries}
        if self.window is not None:
            sizes[WINDOW] = self.window * self.chunk_share
        return replace(kernel, sizes=sizes)


def absorbed(batch: Array, heads: Array, queries: Array, keys: Array, rank: Array, rope: Array, dtype: str, kv: str) -> Work:  # fmt: skip
    """Attention of many query heads over one latent vector per token, which is key and value both.

    A query head of rank + rope elements meets the cached vector (2 (rank + rope) flops per pair), and the values are its
    first `rank` elements (2 rank flops): 4 rank + 2 rope per pair and head. The cache is read once for all heads.
    """
    pairs = batch * heads * visible_pairs(queries, keys, 1.0, None)
    rows = batch * heads * queries
    made = work(
        matrix={
            "q c^T": (2 * (rank + rope) * pairs, "2 (rank + rope) pairs"),
            "P c": (2 * rank * pairs, "2 rank pairs"),
        },
        vector={"softmax": (5 * pairs, "5 pairs")},
        special=pairs,
        read={
            "Q": (rows * (rank + rope), dtype, "batch heads Sq (rank + rope)"),
            "K": (batch * keys * (rank + rope), kv, "batch Skv (rank + rope)"),
        },
        write={"O": (rows * rank, dtype, "batch heads Sq rank")},
        dtype=dtype,
        notes=("latent attention, absorbed: one cached vector serves all heads as key and value",),
    )
    shape = {"batch": batch, "heads": heads, "seq_q": queries, "seq_kv": keys, "rank": rank, "rope": rope}
    return replace(made, name="latent_attention", family="attention", shape=shape)
