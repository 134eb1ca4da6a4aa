"""Parameters of an architecture by tensor group, those that a token uses, and the bytes of its cache.

With hidden size h, vocabulary v, query width q = heads x head_dim and key width k = kv_heads x head_dim, all counts are of
learned values; a matrix of `in` by `out` has in x out of them, and out more where it has a bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...core.dtypes import dtype
from ...core.work import Array
from .architecture import HEAD_NORM, HEADS_NORM, WIDTH_NORM, Architecture, Attention, Experts, Latent, Layer, Mlp

EMBEDDING, ATTENTION, MLP, ROUTER, NORMS, HEAD = GROUPS = ("embedding", "attention", "mlp", "router", "norms", "head")


@dataclass(frozen=True)
class Parameters:
    """Learned values by group; `active` leaves out the experts that a token is not routed to."""

    DOCUMENT = ("total", "active", "groups", "layers")

    groups: dict[str, int] = field(default_factory=dict)
    layers: tuple[int, ...] = ()  # of one layer of each kind, in the order of the architecture
    idle: int = 0  # of experts that a token is not routed to

    @property
    def total(self) -> int:
        return sum(self.groups.values())

    @property
    def active(self) -> int:
        """Of the matrices that a token passes; an embedding counts in full, as model cards count it."""
        return self.total - self.idle


def parameters(architecture: Architecture) -> Parameters:
    """Exact counts: what `transformers` allocates for the same configuration."""
    groups = {
        EMBEDDING: embedding_parameters(architecture),
        ATTENTION: 0, MLP: 0, ROUTER: 0,
        NORMS: architecture.norm_values * (architecture.embedding_norm + architecture.final_norm),
        HEAD: head_parameters(architecture),
    }  # fmt: skip
    idle, layers = 0, []
    for layer in architecture.layers:
        parts = layer_parameters(architecture, layer)
        layers.append(sum(parts.values()))
        for group, values in parts.items():
            groups[group] += layer.count * values
        if isinstance(layer.mlp, Experts):
            unused = layer.mlp.count - layer.mlp.topk
            idle += layer.count * unused * expert_parameters(architecture.hidden, layer.mlp)
    return Parameters(groups, tuple(layers), idle)


def layer_parameters(architecture: Architecture, layer: Layer) -> dict[str, int]:
    """Of one layer, by group: attention, mlp, router, norms."""
    hidden, mlp = architecture.hidden, layer.mlp
    attention = layer.attention
    return {
        ATTENTION: latent_parameters(hidden, attention)
        if isinstance(attention, Latent)
        else attention_parameters(hidden, attention),
        MLP: experts_parameters(hidden, mlp) if isinstance(mlp, Experts) else mlp_parameters(hidden, mlp),
        ROUTER: router_parameters(hidden, mlp) if isinstance(mlp, Experts) else 0,
        NORMS: layer.norms * architecture.norm_values,
    }


def attention_parameters(hidden: int, attention: Attention) -> int:
    """h q + 2 h k + q h, biases q + 2 k and h, and the norms of queries and keys.

    A norm shared by heads has 2 head_dim values (RMS), one per head q + k, one over the width q + k; a sink one per head.
    """
    q, k = attention.q_width, attention.kv_width
    matrices = hidden * q + 2 * hidden * k + q * hidden
    biases = (q + 2 * k) * attention.bias + hidden * attention.out_bias
    norms = {HEAD_NORM: 2 * attention.head_dim, HEADS_NORM: q + k, WIDTH_NORM: q + k}.get(attention.head_norm, 0)
    return matrices + biases + norms + attention.heads * attention.sinks


def latent_parameters(hidden: int, latent: Latent) -> int:
    """Queries: h r_q + r_q (norm) + r_q n d_qk, or h n d_qk without a rank; keys and values: h (r + d_rope) + r (norm)
    + r n (d_nope + d_v); output: n d_v h. With n heads, ranks r_q and r, d_qk = d_nope + d_rope."""
    queries = latent.heads * latent.qk_dim
    if latent.q_rank is None:
        down_q = hidden * queries
    else:
        down_q = hidden * latent.q_rank + latent.q_rank + latent.q_rank * queries + latent.q_rank * latent.bias
    cached = latent.kv_rank + latent.rope_dim
    keys = hidden * cached + cached * latent.bias + latent.kv_rank
    values = latent.kv_rank * latent.heads * (latent.nope_dim + latent.v_dim)
    return down_q + keys + values + latent.heads * latent.v_dim * hidden + hidden * latent.bias


def mlp_parameters(hidden: int, mlp: Mlp) -> int:
    """Gated: 3 h i, with biases 2 i + h; else 2 h i, with biases i + h."""
    return _mlp(hidden, mlp.inter, mlp.gated, mlp.bias)


def expert_parameters(hidden: int, experts: Experts) -> int:
    """Of one routed expert, which is an MLP."""
    return _mlp(hidden, experts.inter, experts.gated, experts.bias)


def experts_parameters(hidden: int, experts: Experts) -> int:
    """All routed experts, and the shared one, which is an MLP of its own width, with h more where a gate weighs it."""
    shared = _mlp(hidden, experts.shared, experts.gated, experts.bias) if experts.shared else 0
    return experts.count * expert_parameters(hidden, experts) + shared + hidden * experts.shared_gate


def router_parameters(hidden: int, experts: Experts) -> int:
    """h E, and E more with a bias."""
    return hidden * experts.count + experts.count * experts.router_bias


def embedding_parameters(architecture: Architecture) -> int:
    """v w for tokens, p h for positions, t h for segments; h w more where the width w of tokens is not h."""
    width = architecture.embedding_width or architecture.hidden
    projection = width * architecture.hidden if width != architecture.hidden else 0
    tables = (architecture.positions + architecture.token_types) * architecture.hidden
    return architecture.vocab * width + projection + tables


def head_parameters(architecture: Architecture) -> int:
    """v w, or none where it shares the embedding; v more with a bias, w h for a projection, h^2 + h for a pooler,
    h^2 + h and a norm for the transform of an encoder."""
    hidden, width = architecture.hidden, architecture.embedding_width or architecture.hidden
    pooler = (hidden * hidden + hidden) * architecture.pooler
    if not architecture.head:
        return pooler
    matrix = 0 if architecture.tied else architecture.vocab * width
    projection = width * hidden if width != hidden else 0
    transform = (hidden * hidden + hidden + architecture.norm_values) * architecture.head_transform
    return matrix + projection + transform + architecture.vocab * architecture.head_bias + pooler


def _mlp(hidden: int, inter: int, gated: bool, bias: bool) -> int:
    return (2 + gated) * hidden * inter + ((1 + gated) * inter + hidden) * bias


# -- the cache -----------------------------------------------------------------------------------------------------


def kv_values(layer: Layer) -> int:
    """Values that the cache keeps per token in one layer: keys and values of every key head, or the latent vector and the
    rotary key that all heads share."""
    attention = layer.attention
    if isinstance(attention, Latent):
        return attention.kv_rank + attention.rope_dim
    return 2 * attention.kv_width


def kv_bytes_per_token(architecture: Architecture, kv: str = "bf16") -> float:
    """Bytes that one more token adds to the cache of all layers, before any window is full; 0 for encoders."""
    if not architecture.causal:
        return 0.0
    return sum(layer.count * kv_values(layer) for layer in architecture.layers) * dtype(kv).bytes


def kv_bytes(architecture: Architecture, tokens: Array, kv: str = "bf16") -> Array:
    """Bytes of the cache of a sequence of `tokens`, sum over layers of values x min(tokens, window); 0 for encoders.

    Layers with a window keep no more than the window. Engines with one page table for all layers keep every token instead:
    `kv_bytes_per_token` x tokens.
    """
    if not architecture.causal:
        return tokens * 0.0
    total: Array = 0.0
    for layer in architecture.layers:
        window = layer.attention.window
        kept = tokens if window is None else np.minimum(tokens, window)
        total = total + layer.count * kv_values(layer) * kept
    return total * dtype(kv).bytes


def weight_bytes(architecture: Architecture, weights: str = "bf16", rest: str = "bf16") -> float:
    """Bytes of the parameters: matrices of layers in the format `weights`, embedding, head, router and norms in `rest`.

    Quantized checkpoints keep embedding, head, router, norms and what `unquantized` names in 16 bits. Biases and norms of attention and experts, well
    below 1 % of the layers, are counted with the matrices.
    """
    groups = parameters(architecture).groups
    quantized = sum(groups[part] for part in (ATTENTION, MLP) if part not in architecture.unquantized)
    kept = sum(groups.values()) - quantized
    return quantized * dtype(weights).bytes + kept * dtype(rest).bytes
