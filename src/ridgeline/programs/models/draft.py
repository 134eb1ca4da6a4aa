"""A transformer while its configuration is read: what most decoders have, which the rules of a family change."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from .architecture import Architecture, Attention, Experts, Latent, Layer, Mlp


@dataclass
class Draft:
    """Sizes of the file; the rest as in Llama. Lists have an entry per layer."""

    hidden: int
    depth: int
    heads: int
    vocab: int
    kv_heads: int
    head_dim: int
    inter: int
    gated: bool = True
    activation: str = "silu"
    bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    norm: str = "rmsnorm"
    norm_vectors: int | None = None
    norms: int = 2
    parallel: bool = False
    tied: bool = False
    head: bool = True
    head_bias: bool = False
    positions: int = 0
    rotary: bool = True
    head_norm: str = ""
    causal: bool = True
    embedding_width: int | None = None
    embedding_norm: bool = False
    final_norm: bool = True
    token_types: int = 0
    pooler: bool = False
    sinks: bool = False
    chunked: bool = False
    max_context: int | None = None
    weights: str = "bf16"
    head_transform: bool = False
    unquantized: tuple[str, ...] = ()
    latent: Latent | None = None
    experts: Experts | None = None
    dense: set[int] = field(default_factory=set)  # layers that have an MLP where others have experts
    windows: list[int | None] = field(default_factory=list)
    unrotated: set[int] = field(default_factory=set)  # layers whose queries and keys are not rotated
    notes: list[str] = field(default_factory=list)

    def layer(self, place: int) -> Layer:
        window = self.windows[place] if self.windows else None
        rotary = self.rotary and place not in self.unrotated
        attention: Attention | Latent = self.latent or Attention(
            self.heads,
            self.kv_heads,
            self.head_dim,
            self.bias,
            self.out_bias,
            self.head_norm if rotary or self.head_norm != "plain" else "",
            window,
            self.chunked and window is not None,
            self.sinks,
            rotary,
        )
        mlp: Mlp | Experts = Mlp(self.inter, self.gated, self.mlp_bias, self.activation)
        if self.experts is not None and place not in self.dense:
            mlp = self.experts
        return Layer(attention, mlp, self.norms, parallel=self.parallel)

    def architecture(self, name: str) -> Architecture:
        """Layers that are alike are one row with a count, in the order in which each kind comes first."""
        every = [self.layer(place) for place in range(self.depth)]
        kinds = Counter(every)
        places = {kind: place for place, kind in enumerate(kinds)}
        layers = tuple(
            Layer(kind.attention, kind.mlp, kind.norms, count, kind.parallel) for kind, count in kinds.items()
        )
        return Architecture(
            name, self.hidden, self.vocab, layers, self.tied, self.head, self.norm, self.positions, self.causal,
            self.max_context, tuple(self.notes), self.norm_vectors, self.embedding_width, self.embedding_norm,
            self.final_norm, self.token_types, self.pooler, self.head_bias, self.weights,
            self.head_transform, self.unquantized, tuple(places[kind] for kind in every) if len(kinds) > 1 else (),
        )  # fmt: skip
