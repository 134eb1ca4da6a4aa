"""The ops that one device runs in one step of a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...core.work import Array, Work
from .. import ops
from .architecture import Architecture, Attention, Experts, Latent, Layer, Mlp
from .layout import Layout
from .phase import Formats, Phase

ATTENTION, MLP, NORM, EMBEDDING, HEAD, COMMUNICATION = PARTS = (
    "attention",
    "mlp",
    "norm",
    "embedding",
    "head",
    "communication",
)


@dataclass(frozen=True)
class ModelOp:
    """One op of a device, `count` times per step; `layer` is the place of its layer in the architecture, None outside."""

    name: str
    part: str
    work: Work
    count: Array = 1.0
    layer: int | None = None


SINGLE_DEVICE, DEFAULT_FORMATS = Layout(), Formats()


def step_ops(
    architecture: Architecture, phase: Phase, formats: Formats = DEFAULT_FORMATS, layout: Layout = SINGLE_DEVICE
) -> tuple[ModelOp, ...]:
    """The ops of one device in one forward step, in order: embedding, layers, final norm, head.

    Kernels are those of serving engines: Q, K, V in one product, gate and up in one product, the residual added in the norm.
    """
    listed = [ModelOp("embedding", EMBEDDING, _embedding(architecture, phase, formats))]
    for place, layer in enumerate(architecture.layers):
        listed += _layer(architecture, layer, place, phase, formats, layout)
    listed.append(ModelOp("final norm", NORM, _norm(architecture, phase, formats)))
    if architecture.head:  # one row per sequence is asked for: the next token
        work = ops.linear(phase.batch, architecture.hidden, architecture.vocab / layout.tp, formats.activations)
        listed.append(ModelOp("head", HEAD, work))
    return tuple(listed)


def _embedding(architecture: Architecture, phase: Phase, formats: Formats) -> Work:
    return ops.embedding(phase.rows, architecture.vocab, architecture.hidden, formats.activations)


def _norm(architecture: Architecture, phase: Phase, formats: Formats) -> Work:
    return ops.find(architecture.norm)(rows=phase.rows, cols=architecture.hidden, dtype=formats.activations)


def _layer(
    architecture: Architecture, layer: Layer, place: int, phase: Phase, formats: Formats, layout: Layout
) -> Iterator[ModelOp]:
    def op(name: str, part: str, work: Work, times: float = 1.0) -> ModelOp:
        return ModelOp(name, part, work, layer.count * times, place)

    def linear(width_in: float, width_out: float) -> Work:
        return ops.linear(phase.rows, width_in, width_out, formats.activations, formats.weights)

    if isinstance(layer.attention, Latent) or isinstance(layer.mlp, Experts):
        raise NotImplementedError
    attention: Attention = layer.attention
    mlp: Mlp = layer.mlp
    hidden, tp = architecture.hidden, layout.tp
    heads, kv_heads = attention.heads / tp, max(attention.kv_heads / tp, 1)
    yield op("norm", NORM, _norm(architecture, phase, formats), layer.norms)
    yield op("qkv", ATTENTION, linear(hidden, (heads + 2 * kv_heads) * attention.head_dim))
    yield op(
        "attention",
        ATTENTION,
        ops.attention(
            batch=phase.batch, heads=heads, kv_heads=kv_heads, seq_q=phase.tokens, seq_kv=phase.context + phase.tokens,
            head_dim=attention.head_dim, causal=architecture.causal, window=attention.window,
            dtype=formats.activations, kv=formats.kv,
        ),
    )  # fmt: skip
    yield op("out", ATTENTION, linear(heads * attention.head_dim, hidden))
    yield op("gate and up" if mlp.gated else "up", MLP, linear(hidden, (1 + mlp.gated) * mlp.inter / tp))
    yield op("activation", MLP, ops.silu(phase.rows * mlp.inter / tp, formats.activations))
    yield op("down", MLP, linear(mlp.inter / tp, hidden))
    if tp > 1:
        reduced = phase.rows * hidden * 2
        yield op("all_reduce", COMMUNICATION, ops.all_reduce(reduced, tp, formats.activations), 2)
