"""Phase: what one step of a model works on; Formats: how weights, activations and the cache are stored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.dtypes import dtype
from ...core.errors import InputError, quoted, unknown
from ...core.work import Array, total

PREFILL, DECODE, TRAIN = KINDS = ("prefill", "decode", "train")
KEEP_ALL, SELECTIVE, FULL = RECOMPUTE = ("none", "selective", "full")
NARROW_BITS = 16.0  # formats below it hold operands of matrix products only


@dataclass(frozen=True)
class Phase:
    """`batch` sequences bring `tokens` new tokens each to `context` tokens that the cache has already.

    A chunk of a prompt is a prefill with a context; decoding with more than one token verifies a draft. Sequences of one
    batch may have contexts of different lengths: every count is linear in the context where no window cuts it, so their mean
    gives the exact sum. `also` are further sequences in the same step, as engines mix prompts and decoding. `batch` counts
    the sequences of all data-parallel devices. A training step runs `microbatches` one after the other on each device
    (gradient accumulation), and `recompute` says which activations of the forward pass are computed again: none, those of
    attention itself (selective), or of every layer (full).
    """

    kind: str
    batch: Array
    tokens: Array
    context: Array = 0.0
    also: tuple[Phase, ...] = ()
    microbatches: int = 1
    recompute: str = KEEP_ALL

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise unknown("phase", self.kind, KINDS)
        if self.recompute not in RECOMPUTE:
            raise unknown("recomputation", self.recompute, RECOMPUTE)
        for name, value, least in (("batch", self.batch, 1), ("tokens", self.tokens, 1), ("context", self.context, 0)):
            try:
                values = np.asarray(value, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                values = np.asarray(np.nan)
            if values.size == 0 or not np.all(np.isfinite(values) & (values >= least)):
                raise InputError(f"{self.kind}: {name} must be at least {least}, got {quoted(value)}")
        if self.microbatches < 1:
            raise InputError(f"{self.kind}: microbatches must be at least 1, got {self.microbatches}")
        if self.kind != TRAIN and (self.microbatches > 1 or self.recompute != KEEP_ALL):
            raise InputError(f"microbatches and recomputation belong to a training step, not to {self.kind}")
        if self.also and TRAIN in (self.kind, *(phase.kind for phase in self.also)):
            raise InputError("a training step has one kind of sequences: leave `also` empty")

    @property
    def groups(self) -> tuple[Phase, ...]:
        """All sequences of the step, those that are alike together."""
        return (self, *(group for phase in self.also for group in phase.groups))

    @property
    def rows(self) -> Array:
        """Rows of every matrix product of the step, over all data-parallel devices."""
        return total(group.batch * group.tokens for group in self.groups)

    @property
    def logits_per_sequence(self) -> Array:
        """Rows of the head: the last token of a prompt; every token that is decoded, verified or trained on."""
        return 1.0 if self.kind == PREFILL else self.tokens


def prefill(batch: Array, tokens: Array, context: Array = 0.0) -> Phase:
    """Prompts of `tokens`, or a chunk of them after `context` tokens."""
    return Phase(PREFILL, batch, tokens, context)


def decode(batch: Array, context: Array, tokens: Array = 1.0) -> Phase:
    """One more token for every sequence; more than one where a draft is verified."""
    return Phase(DECODE, batch, tokens, context)


def mixed(chunk: Phase, decoding: Phase) -> Phase:
    """A chunk of prompts and the decoding of other sequences in one step."""
    return Phase(chunk.kind, chunk.batch, chunk.tokens, chunk.context, (*chunk.also, decoding))


def train(batch: Array, tokens: Array, microbatches: int = 1, recompute: str = KEEP_ALL) -> Phase:
    """A training step over `batch` sequences of `tokens`, those of all data-parallel devices together."""
    return Phase(TRAIN, batch, tokens, microbatches=microbatches, recompute=recompute)


@dataclass(frozen=True)
class Formats:
    """`weights` of the matrices of layers, `activations` of the arithmetic of their products, `kv` of the cache.

    Embedding, head, router and norms are not quantized. In training `gradients` are what backward writes and devices
    exchange, `states` the optimizer's copy of the weights and its moments.
    """

    weights: str = "bf16"
    activations: str = "bf16"
    kv: str = "bf16"
    gradients: str = "bf16"
    states: str = "fp32"

    def __post_init__(self) -> None:
        arithmetic, stored = dtype(self.activations), dtype(self.weights)
        for name in (self.kv, self.gradients, self.states):
            dtype(name)
        if arithmetic.bits < min(stored.bits, NARROW_BITS):
            raise InputError(
                f"products in {arithmetic.name} need weights of at most {arithmetic.bits:g} bits, got {stored.name}: "
                f"store the weights as {arithmetic.name}, or keep the activations in bf16"
            )

    @property
    def quantizes(self) -> bool:
        """Whether activations are quantized before every product."""
        return dtype(self.activations).bits < NARROW_BITS

    @property
    def values(self) -> str:
        """What flows between ops, and what everything but the products of layers computes in."""
        return "bf16" if self.quantizes else self.activations
