"""The forward pass of one device: embedding, layers, final norm, head, and what goes over links between them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...core.work import Array, total
from .. import ops
from .architecture import Experts, Latent, Layer
from .blocks import attention_ops, dense_ops
from .device import Block, Device
from .experts import expert_ops
from .latent import latent_ops
from .layout import stages
from .model_op import EMBEDDING, HEAD, NORM, ModelOp
from .parallel import embedding_collectives, layer_collectives, logits_collectives, stage_collectives
from .passes import built
from .phase import TRAIN


def forward_ops(device: Device, stage: int = 0) -> Iterator[ModelOp]:
    """The forward pass of one microbatch on one device of a stage."""
    architecture, layout = device.architecture, device.layout
    if stage == 0:
        yield from embedding_ops(device)
    for place, layer in stages(architecture, layout.pp)[stage]:
        yield from layer_ops(device, place, layer)
    if stage == layout.pp - 1:
        yield from head_ops(device)
    yield from stage_collectives(device, stage)


def layer_ops(device: Device, place: int, layer: Layer) -> Iterator[ModelOp]:
    """Of one kind of layer, each `layer.count` times."""
    if place not in device.layers:
        device.layers[place] = tuple(single_layer_ops(Block(device, replace(layer, count=1), place)))
    for op in device.layers[place]:
        yield replace(op, count=op.count * layer.count)


def single_layer_ops(block: Block) -> Iterator[ModelOp]:
    layer = block.layer
    yield from block.norms()
    yield from latent_ops(block) if isinstance(layer.attention, Latent) else attention_ops(block)
    yield from expert_ops(block) if isinstance(layer.mlp, Experts) else dense_ops(block, layer.mlp)
    yield from layer_collectives(block)


def embedding_ops(device: Device) -> Iterator[ModelOp]:
    """Tokens looked up, positions and segments added, a norm or a projection where a model has one."""
    architecture, values, rows = device.architecture, device.formats.values, device.rows
    width, hidden = architecture.embedding_width or architecture.hidden, architecture.hidden
    table = -(-architecture.vocab // device.layout.tp)  # the vocabulary is padded to a multiple
    work = built(ops.embedding, rows=rows, vocab=float(table), cols=float(width), dtype=values)
    yield ModelOp("embedding", EMBEDDING, work, weights=table * width)
    yield from embedding_collectives(device)
    if width != hidden:
        work = device.linear(width, hidden, quantize=False)
        yield ModelOp("embedding projection", EMBEDDING, work, weights=width * hidden)
    for name, table in (("positions", architecture.positions), ("segments", architecture.token_types)):
        if table:
            work = built(ops.embedding, rows=rows, vocab=float(table), cols=float(hidden), dtype=values)
            yield ModelOp(name, EMBEDDING, work, weights=table * hidden)
            yield ModelOp(f"add {name}", EMBEDDING, built(ops.add, n=rows * hidden, dtype=values))
    if architecture.embedding_norm:
        yield ModelOp("embedding norm", NORM, device.norm(), weights=architecture.norm_values)


def head_rows(device: Device) -> Array:
    """Rows that logits are computed for: see `Phase.logits_per_sequence`; an encoder computes them for every token."""
    return total(group.batch * group.logits for group in device.groups)


def head_ops(device: Device) -> Iterator[ModelOp]:
    """The final norm over all rows, the head over those that logits are asked for."""
    architecture, tp = device.architecture, device.layout.tp
    hidden, width = architecture.hidden, architecture.embedding_width or architecture.hidden
    if architecture.final_norm:
        yield ModelOp("final norm", NORM, device.norm(), weights=architecture.norm_values)
    if architecture.pooler:
        first = total(group.batch for group in device.groups)
        work = device.linear(hidden, hidden, True, first, quantize=False)
        yield ModelOp("pooler", HEAD, work, weights=hidden * hidden + hidden)
    if not architecture.head:
        return
    rows, vocab = head_rows(device), -(-architecture.vocab // tp)
    if architecture.head_transform:
        work = device.linear(hidden, hidden, True, rows, quantize=False)
        yield ModelOp("head transform", HEAD, work, weights=hidden * hidden + hidden)
        yield ModelOp("head activation", HEAD, built(ops.gelu, n=rows * hidden, dtype=device.formats.values))
        yield ModelOp("head norm", HEAD, device.norm(rows), weights=architecture.norm_values)
    if width != hidden:
        work = device.linear(hidden, width, rows=rows, quantize=False)
        yield ModelOp("head projection", HEAD, work, weights=hidden * width)
    # a tied head has no weights of its own, unless the embedding is on another stage
    matrix = 0 if architecture.tied and device.layout.pp == 1 else width * vocab
    work = device.linear(width, vocab, architecture.head_bias, rows, quantize=False)
    yield ModelOp("head", HEAD, work, weights=matrix + architecture.head_bias * vocab)
    if device.phase.kind != TRAIN:
        yield from logits_collectives(device, rows)


def device_parameters(listed: tuple[ModelOp, ...]) -> Array:
    """Learned values that a device holds, from the ops of its forward pass."""
    return total(op.weights * op.count for op in listed)
