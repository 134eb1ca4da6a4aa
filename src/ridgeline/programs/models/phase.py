"""Phase: what one step of a model works on; Formats: how weights, activations and the cache are stored."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.work import Array

PREFILL, DECODE, TRAIN = KINDS = ("prefill", "decode", "train")


@dataclass(frozen=True)
class Phase:
    """`batch` sequences bring `tokens` new tokens each to `context` tokens that the cache has already."""

    kind: str
    batch: Array
    tokens: Array
    context: Array = 0.0

    @property
    def rows(self) -> Array:
        """Rows of every matrix product of the step."""
        return self.batch * self.tokens


@dataclass(frozen=True)
class Formats:
    """`weights` of the matrices, `activations` of arithmetic and what flows between ops, `kv` of the cache."""

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
