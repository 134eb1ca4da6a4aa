"""Bytes of activations on one device: what training keeps for the backward pass, and the most that inference holds at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...core.work import Array, largest, total
from .architecture import Architecture, Experts, Latent, Layer
from .blocks import local_heads
from .device import Block, Device
from .experts import routed_rows
from .forward import head_rows
from .layout import Layout, stages
from .model_op import ModelOp
from .phase import FULL, KEEP_ALL, TRAIN, Formats, Phase
from .program import DEFAULT_FORMATS, SINGLE_DEVICE, checked

# Tensors of ops that are no activations: weights and the cache.
RESIDENT = {"W", "B", "K", "V", "table", "weights", "router", "gamma", "beta", "bias", "cache", "cos_sin", "index"}
LOGIT_COPIES = 2.0  # logits and their gradient


def kept_per_layer(device: Device, layer: Layer) -> Array:
    """Bytes that one layer keeps of one microbatch for its backward pass, with attention that stores no scores.

    With h hidden, q and k the widths of queries and keys, i intermediate columns, t tensor-parallel devices, per row:
    the inputs of the norms (norms h) and what the first products read (h each), (q + 2 k)/t of Q, K and V, q/t of the
    result of attention, ((2 + gated) i)/t around the activation. Sequence parallelism divides the first two by t as well.
    A GPT layer with i = 4 h in 16 bits: (8 + 24/t) h bytes, the sum of Korthikanti et al. 2022 without its dropout masks (2 h).
    Fully recomputed, a layer keeps its input. Selective recomputation recomputes scores, which are not kept anyway.
    """
    hidden, width, tp = device.hidden, device.width, device.layout.tp
    rows, split = device.rows, device.residual_rows
    if device.phase.recompute == FULL:
        return split * hidden * width
    inputs = layer.norms + (1 if layer.parallel else 2)  # of norms, and of the first products behind them
    return split * inputs * hidden * width + rows * _attention(device, layer, tp) * width + _mlp(device, layer) * width


def _attention(device: Device, layer: Layer, tp: int) -> float:
    """Values per row: queries, keys, values and result; of latent attention also the vectors between."""
    attention = layer.attention
    if isinstance(attention, Latent):
        heads, ranks = attention.heads / tp, (attention.q_rank or 0) + attention.kv_rank
        # before and behind their norms
        return 2 * ranks + attention.rope_dim + heads * (2 * attention.qk_dim + 2 * attention.v_dim)
    heads, kv_heads = local_heads(attention, tp)
    normed = (heads + kv_heads) * bool(attention.head_norm)  # queries and keys before their norms
    return (2 * heads + 2 * kv_heads + normed) * attention.head_dim


def _mlp(device: Device, layer: Layer) -> Array:
    """Values of all rows around the activation; of experts also the tokens gathered, their results and the router's logits."""
    mlp, layout = layer.mlp, device.layout
    if not isinstance(mlp, Experts):
        return device.rows * (2 + mlp.gated) * mlp.inter / layout.tp
    pairs = routed_rows(Block(device, layer, 0))
    routed = pairs * (2 * device.hidden + (2 + mlp.gated) * mlp.inter / layout.expert_tp)
    return routed + device.rows * (mlp.count + (2 + mlp.gated) * mlp.shared / layout.tp)


def training_activations(
    architecture: Architecture, phase: Phase, formats: Formats = DEFAULT_FORMATS, layout: Layout = SINGLE_DEVICE
) -> Array:
    """Bytes that the device with the most keeps between forward and backward pass.

    The first stage of a pipeline holds as many microbatches as there are stages; the last one the logits and their gradient too.
    """
    device = checked(architecture, phase, formats, layout, True, "uniform")
    held = []
    for stage, layers in enumerate(stages(architecture, layout.pp)):
        waiting = min(layout.pp - stage, phase.microbatches) if phase.kind == TRAIN else 1
        kept = waiting * total(layer.count * kept_per_layer(device, layer) for _, layer in layers)
        if phase.recompute == FULL:  # one layer at a time is computed again
            kept = kept + largest(_computed_again(device, layer) for _, layer in layers)
        if stage == layout.pp - 1 and architecture.head:
            kept = kept + LOGIT_COPIES * head_rows(device) * -(-architecture.vocab // layout.tp) * device.width
        held.append(kept)
    return largest(held)


def _computed_again(device: Device, layer: Layer) -> Array:
    return kept_per_layer(replace(device, phase=replace(device.phase, recompute=KEEP_ALL)), layer)


def inference_activations(listed: Iterable[ModelOp], rows: Array, hidden: int, width: float = 2.0) -> Array:
    """The most bytes that a step without gradients holds at once: the residual, and what the largest op reads and writes."""
    sizes = [total(size for tensor, size in op.work.tensor_sizes().items() if tensor not in RESIDENT) for op in listed]
    return rows * hidden * width + largest(sizes)
