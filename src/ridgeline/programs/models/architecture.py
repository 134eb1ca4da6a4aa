"""Architecture: the sizes of a transformer that its parameters, flops and bytes follow from.

Layers that are alike are one `Layer` with a count, so that a model of 126 layers is a few rows.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention of one layer; `window` is the number of keys that a query sees, None for all of them."""

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False  # of the query, key and value projections
    out_bias: bool = False
    head_norm: bool = False  # a norm over each head of queries and keys
    window: int | None = None
    sinks: bool = False  # a learned logit per head that takes part in the softmax

    @property
    def q_width(self) -> int:
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Elements that the cache keeps per token and layer for keys, and again for values."""
        return self.kv_heads * self.head_dim


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention: keys and values are kept as one vector of `kv_rank` plus a shared rotary key per token."""

    heads: int
    q_rank: int | None  # None where queries come from the hidden state directly
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int
    bias: bool = False
    window: int | None = None


@dataclass(frozen=True)
class Mlp:
    inter: int
    gated: bool = True  # two matrices up and one down, else one up and one down
    bias: bool = False


@dataclass(frozen=True)
class Experts:
    """Mixture of experts; `shared` is the intermediate width of what every token goes through, 0 for none."""

    count: int
    topk: int
    inter: int
    shared: int = 0
    shared_gate: bool = False  # a learned scalar that weighs the shared expert
    bias: bool = False
    router_bias: bool = False  # a learned vector of the router, one value per expert


@dataclass(frozen=True)
class Layer:
    attention: Attention | Latent
    mlp: Mlp | Experts
    norms: int = 2  # over the hidden state
    count: int = 1


@dataclass(frozen=True)
class Architecture:
    name: str
    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool = False  # the head shares the matrix of the embedding
    head: bool = True  # a language-model head at the end
    norm: str = "rmsnorm"  # or layernorm, which has a bias too
    positions: int = 0  # rows of a learned table of positions
    causal: bool = True
    max_context: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def depth(self) -> int:
        return sum(layer.count for layer in self.layers)
