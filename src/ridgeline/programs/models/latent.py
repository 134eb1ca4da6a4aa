"""Ops of multi-head latent attention (DeepSeek V2, V3, R1), expanded for prompts and absorbed for decoding.

With n heads, ranks r_q and r, head parts d_nope and d_rope of queries and keys, and d_v of values, per token:

    down       h -> r_q + r + d_rope          queries and the cached vector c (r) with the rotary key (d_rope)
    q up       r_q -> n (d_nope + d_rope)     from the hidden state where there is no r_q
    out        n d_v -> h

Expanded (prefill, training): keys and values of every token in sight are computed from its c by one product
r -> n (d_nope + d_v), those of the context again from the cache; then attention of n heads, 2 (d_nope + d_rope) + 2 d_v flops
per pair.

Absorbed (decode): the key projection moves to the query, q' = q_nope W_UK (n products d_nope -> r), the value projection
behind the softmax, o = o' W_UV (n products r -> d_v); attention is that of n query heads over one cached vector,
4 r + 2 d_rope flops per pair, and reads r + d_rope values per token whatever n is.

Tensor parallelism splits the heads; the products down, their norms and the cache are repeated on every device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...core.work import Array
from .. import ops
from .architecture import Latent
from .blocks import attention_name
from .device import Block, Sequences
from .masked import Masked, absorbed
from .model_op import ATTENTION, ModelOp
from .passes import ROTATION, built, streamed
from .phase import DECODE

REPEATED = "repeated on every tensor-parallel device"


def latent_ops(block: Block) -> Iterator[ModelOp]:
    device, latent = block.device, block.layer.attention
    assert isinstance(latent, Latent)
    heads = latent.heads / device.layout.tp
    cached = latent.kv_rank + latent.rope_dim
    for op in _down(block, latent, cached):
        repeated = device.layout.tp > 1 and op.name != "q"
        yield replace(op, work=replace(op.work, notes=(*op.work.notes, REPEATED))) if repeated else op
    if latent.q_rank is not None:
        yield from block.quantize(latent.q_rank, part=ATTENTION)
        yield block.linear("q up", ATTENTION, latent.q_rank, heads * latent.qk_dim)
    yield _rotation(block, latent, heads, cached)
    # the up projection of keys and values belongs to the model once, however many kinds of sequences use it
    weights = latent.kv_rank * heads * (latent.nope_dim + latent.v_dim)
    for group in device.groups:
        part = (
            _absorbed(block, group, latent, heads) if group.kind == DECODE else _expanded(block, group, latent, heads)
        )
        for op in part:
            yield replace(op, weights=weights if op.weights else 0.0)
            weights = 0.0 if op.weights else weights
    yield from block.quantize(heads * latent.v_dim, part=ATTENTION)
    yield block.linear("out", ATTENTION, heads * latent.v_dim, device.hidden, latent.bias)


def _down(block: Block, latent: Latent, cached: int) -> Iterator[ModelOp]:
    """To the ranks in one product, or one each; norms of both vectors."""
    device = block.device
    yield from block.quantize(device.hidden, part=ATTENTION)
    if latent.q_rank is None:
        yield block.linear("q", ATTENTION, device.hidden, latent.heads / device.layout.tp * latent.qk_dim)
        yield block.linear("kv down", ATTENTION, device.hidden, cached, latent.bias)
    elif device.fused:
        yield block.linear("q and kv down", ATTENTION, device.hidden, latent.q_rank + cached, latent.bias)
    else:
        yield block.linear("q down", ATTENTION, device.hidden, latent.q_rank, latent.bias)
        yield block.linear("kv down", ATTENTION, device.hidden, cached, latent.bias)
    for name, rank in (("q norm", latent.q_rank), ("kv norm", latent.kv_rank)):
        if rank is not None:
            yield block.op(name, ATTENTION, device.rms_norm(device.rows, rank), weights=rank)


def _rotation(block: Block, latent: Latent, heads: Array, cached: int) -> ModelOp:
    """The rotary parts of queries and of the key all heads share, rotated; c and that key written to the cache."""
    device, formats = block.device, block.device.formats
    rotated = device.rows * (heads + 1) * latent.rope_dim
    tensors = {"q": (rotated, formats.values, "rows (heads + 1) rope")}
    read, write = dict(tensors), dict(tensors)
    if device.caches:
        read["c"] = (device.rows * latent.kv_rank, formats.values, "rows rank")
        write["cache"] = (device.rows * cached, formats.kv, "rows (rank + rope)")
    work = streamed("rotary", "add", read, write, formats.values, (ROTATION * rotated, "3 rows (heads + 1) rope"))
    return block.op("rotary and cache write" if device.caches else "rotary", ATTENTION, work)


def _expanded(block: Block, group: Sequences, latent: Latent, heads: Array) -> Iterator[ModelOp]:
    device, values = block.device, block.device.formats.values
    # context parallelism: every device expands its tokens, and keys and values travel
    rows = group.batch * (group.context / device.layout.cp + group.tokens)
    yield from block.quantize(latent.kv_rank, rows, part=ATTENTION)
    yield block.linear("kv up", ATTENTION, latent.kv_rank, heads * (latent.nope_dim + latent.v_dim), rows=rows)
    yield block.op(attention_name(block, group), ATTENTION, latent_masked(block, group).forward(values, values))


def latent_masked(block: Block, group: Sequences) -> Masked:
    """Expanded attention of some sequences on this device."""
    device, latent = block.device, block.layer.attention
    assert isinstance(latent, Latent)
    heads = latent.heads / device.layout.tp
    return Masked(
        group.batch, heads, heads, group.queries, group.keys, latent.qk_dim, latent.v_dim, device.architecture.causal,
        latent.window, devices=device.layout.cp,
    )  # fmt: skip


def _absorbed(block: Block, group: Sequences, latent: Latent, heads: Array) -> Iterator[ModelOp]:
    formats, cp = block.device.formats, block.device.layout.cp
    rows = group.batch * group.tokens
    keys = np.maximum(group.keys / cp, group.queries)
    if latent.window is not None:
        keys = np.minimum(keys, latent.window)
    for name, inputs, outputs in (
        ("q absorb", latent.nope_dim, latent.kv_rank),
        ("v up", latent.kv_rank, latent.v_dim),
    ):
        if name == "v up":
            work = absorbed(
                group.batch, heads, group.queries, keys, latent.kv_rank, latent.rope_dim, formats.values, formats.kv
            )
            yield block.op(attention_name(block, group), ATTENTION, work)
        product = built(ops.bmm, batch=heads, m=rows, n=outputs, k=inputs, dtype=formats.values, weights=formats.values)
        yield block.op(name, ATTENTION, product, weights=heads * inputs * outputs)
