"""Architecture: the sizes of a transformer that its parameters, flops and bytes follow from.

Layers that are alike are one `Layer` with a count, so that a model of 126 layers is a few rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

# Norms of queries and keys: over each head with one weight vector for all heads, with a vector per head, over all heads
# at once, and over each head without weights.
HEAD_NORM, HEADS_NORM, WIDTH_NORM, PLAIN_NORM = HEAD_NORMS = ("head", "heads", "width", "plain")


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention of one layer; `window` is the number of keys that a query sees, None for all of them."""

    heads: int
    kv_heads: int
    head_dim: int
    bias: bool = False  # of the query, key and value projections
    out_bias: bool = False
    head_norm: str = ""  # of queries and keys, one of HEAD_NORMS
    window: int | None = None
    chunked: bool = False  # the window does not slide: a query sees the keys of its own chunk
    sinks: bool = False  # a learned logit per head that takes part in the softmax
    rotary: bool = True  # queries and keys are rotated by their position

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
    bias: bool = False  # of the projections down to the ranks, and of the output
    window: int | None = None

    @property
    def qk_dim(self) -> int:
        """Elements of a query or a key of one head."""
        return self.nope_dim + self.rope_dim


@dataclass(frozen=True)
class Mlp:
    inter: int
    gated: bool = True  # two matrices up and one down, else one up and one down
    bias: bool = False
    activation: str = "silu"


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
    gated: bool = True
    activation: str = "silu"


@dataclass(frozen=True)
class Layer:
    attention: Attention | Latent
    mlp: Mlp | Experts
    norms: int = 2  # over the hidden state
    count: int = 1
    parallel: bool = False  # attention and MLP both start from the input of the layer, and their results are added


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
    norm_vectors: int | None = None  # learned vectors of a norm; None: 1 of rmsnorm, 2 of layernorm
    embedding_width: int | None = None  # of tokens that are embedded in fewer dimensions and projected up
    embedding_norm: bool = False
    final_norm: bool = True
    token_types: int = 0  # rows of a learned table of segments
    pooler: bool = False  # a dense layer over the first token
    head_bias: bool = False
    weights: str = "bf16"  # the format that the matrices of layers were published in
    head_transform: bool = False  # a dense layer, its activation and a norm before the head, as encoders have it
    unquantized: tuple[str, ...] = ()  # parts of layers whose matrices stay in 16 bits: "attention"
    order: tuple[
        int, ...
    ] = ()  # kind of every layer from first to last, as a place in `layers`; empty: kind after kind

    @property
    def depth(self) -> int:
        return sum(layer.count for layer in self.layers)

    @property
    def kinds(self) -> tuple[int, ...]:
        """The place in `layers` of every layer from first to last."""
        counts = Counter({place: layer.count for place, layer in enumerate(self.layers)})
        return self.order if Counter(self.order) == counts else tuple(counts.elements())

    @property
    def norm_values(self) -> int:
        """Learned values of one norm over the hidden state."""
        vectors = self.norm_vectors if self.norm_vectors is not None else 2 if self.norm == "layernorm" else 1
        return vectors * self.hidden
