"""Ops of one kind of layer: grouped-query attention and dense MLPs, as serving engines or as `transformers` run them.

`fused` is how serving engines run a layer: Q, K and V in one product, gate and up in one product, the residual added in the
norm, rotary embedding and cache write in one kernel, activation and gate in one kernel. Otherwise every operation of
`transformers` in eager mode is an op of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...core.work import Array, Work, total
from .. import ops
from .architecture import HEAD_NORM, HEADS_NORM, PLAIN_NORM, Attention, Mlp
from .device import Block, Sequences
from .eager import rotation
from .masked import Masked
from .model_op import ATTENTION, MLP, ModelOp
from .passes import activated, activation_profile, built, rotary
from .phase import DECODE

PER_HEAD = (HEAD_NORM, HEADS_NORM, PLAIN_NORM)


def local_heads(attention: Attention, tp: int) -> tuple[float, float]:
    """Query heads and key heads of one device; key heads fewer than devices are repeated, one for each."""
    return attention.heads / tp, max(attention.kv_heads / tp, 1.0)


def attention_ops(block: Block) -> Iterator[ModelOp]:
    """Projections, norms of heads, rotary embedding, attention, output projection of one device."""
    device, attention = block.device, block.layer.attention
    assert isinstance(attention, Attention)
    heads, kv_heads = local_heads(attention, device.layout.tp)
    q, k = heads * attention.head_dim, kv_heads * attention.head_dim
    yield from block.quantize(device.hidden, part=ATTENTION)
    for name, width in (("qkv", q + 2 * k),) if device.fused else (("q", q), ("k", k), ("v", k)):
        op = block.linear(name, ATTENTION, device.hidden, width, attention.bias)
        yield op if name == "q" else _repeated(op, device.layout.tp, attention.kv_heads)
    yield from _head_norms(block, heads, kv_heads)
    yield from _rotations(block, q, k)
    for group in device.groups:
        sinks = heads * attention.sinks * (group is device.groups[0])
        for op in _attention(block, group):
            yield replace(op, weights=sinks) if op.name.startswith("attention") else op
    yield from block.quantize(q, part=ATTENTION)
    yield block.linear("out", ATTENTION, q, device.hidden, attention.out_bias)


def _repeated(op: ModelOp, tp: int, kv_heads: int) -> ModelOp:
    """With a note where several devices compute and keep the same key heads."""
    if tp <= kv_heads:
        return op
    note = f"{kv_heads} key heads on {tp} devices: each is computed and cached {tp // kv_heads} times"
    return replace(op, work=replace(op.work, notes=(*op.work.notes, note)))


def _attention(block: Block, group: Sequences) -> Iterator[ModelOp]:
    """Attention of some sequences; eager, keys are repeated for the heads they serve where a window is a mask."""
    values, stored = block.device.formats.values, cache_format(block, group)
    mask = masked(block, group)
    if not mask.dense:
        for part, cases in mask.parts:
            yield block.op(attention_name(block, group), ATTENTION, part.forward(values, stored), cases)
        return
    n = group.batch * mask.heads * group.keys * mask.head_dim
    yield block.op("repeat keys", ATTENTION, built(ops.cast, n=n, dtype=stored, out_dtype=values), 2)
    yield block.op(attention_name(block, group), ATTENTION, mask.forward(values, values))


def attention_name(block: Block, group: Sequences) -> str:
    """`attention`, with the kind of sequences where a step mixes them."""
    return "attention" if len(block.device.groups) == 1 else f"attention ({group.kind})"


def masked(block: Block, group: Sequences) -> Masked:
    """The attention of some sequences on this device; eager, a window that cuts is a mask of all pairs."""
    device, attention = block.device, block.layer.attention
    assert isinstance(attention, Attention)
    heads, kv_heads = local_heads(attention, device.layout.tp)
    cp = device.layout.cp
    decoding = group.kind == DECODE
    keys = group.keys / cp if decoding else group.keys  # decoding splits the cache
    made = Masked(
        group.batch, heads, kv_heads, group.queries, np.maximum(keys, group.queries) if decoding else keys,
        attention.head_dim, attention.head_dim, device.architecture.causal,
        attention.window if device.architecture.causal else None, attention.chunked, attention.sinks,
        cached=decoding, devices=1 if decoding else cp,
    )  # fmt: skip
    if device.fused or made.seen.window is None:
        return made
    return replace(made, kv_heads=heads, causal=False, window=None, chunked=False, dense=True)


def cache_format(block: Block, group: Sequences) -> str:
    """Keys and values are read from the cache where a part of them is there, else as they were computed."""
    cached = block.device.caches and (group.kind == DECODE or np.any(np.asarray(group.context) > 0))
    return block.device.formats.kv if cached else block.device.formats.values


def _head_norms(block: Block, heads: Array, kv_heads: Array) -> Iterator[ModelOp]:
    """RMS norms of queries and keys: over every head, or over all heads of a device at once."""
    device, attention = block.device, block.layer.attention
    assert isinstance(attention, Attention)
    if not attention.head_norm:
        return
    for name, count in (("q norm", heads), ("k norm", kv_heads)):
        per_head = attention.head_norm in PER_HEAD
        rows, cols = (
            (device.rows * count, attention.head_dim) if per_head else (device.rows, count * attention.head_dim)
        )
        learned = {HEAD_NORM: attention.head_dim, PLAIN_NORM: 0}.get(attention.head_norm, count * attention.head_dim)
        yield block.op(name, ATTENTION, device.rms_norm(rows, cols), weights=learned)


def _rotations(block: Block, q: Array, k: Array) -> Iterator[ModelOp]:
    """Rotary embedding and cache; eager, five kernels for queries and for keys: two products, a negation, a join, a sum."""
    device, attention = block.device, block.layer.attention
    assert isinstance(attention, Attention)
    formats = device.formats
    rotates = attention.rotary and not device.architecture.positions
    if device.fused:
        if rotates or device.caches:
            work = rotary(
                device.rows, q, k, attention.head_dim, formats.values, formats.kv, rotates=rotates, caches=device.caches
            )
            yield block.op("rotary and cache write" if device.caches else "rotary", ATTENTION, work)
        return
    positions = total(group.tokens for group in device.groups)
    for part, width in (("q", q), ("k", k)) if rotates else ():
        for name, work, times in rotation(part, device.rows * width, positions, attention.head_dim, formats.values):
            yield block.op(name, ATTENTION, work, times)
    if device.caches:  # keys and values of every step are joined to those before, all of them copied
        for group in device.groups:
            if group.kind == DECODE or np.any(np.asarray(group.context) > 0):
                yield block.op("cache cat", ATTENTION, _joined(group, k, formats.kv), 2)


def _joined(group: Sequences, k: Array, kv: str) -> Work:
    return built(ops.concatenate, rows=group.batch * group.keys, cols=k, parts=1.0, dtype=kv)


def dense_ops(block: Block, mlp: Mlp, name: str = "") -> Iterator[ModelOp]:
    """Up (and gate), activation, down; `name` comes before theirs where a layer has several MLPs."""
    device, inter = block.device, mlp.inter / block.device.layout.tp
    before = f"{name} " if name else ""
    yield from block.quantize(device.hidden)
    if device.fused and mlp.gated:
        yield block.linear(f"{before}gate and up", MLP, device.hidden, 2 * inter, mlp.bias)
    else:
        for part in ("gate", "up") if mlp.gated else ("up",):
            yield block.linear(f"{before}{part}", MLP, device.hidden, inter, mlp.bias)
    yield from activation_ops(block, device.rows, inter, mlp.activation, mlp.gated, before)
    yield from block.quantize(inter)
    yield block.linear(f"{before}down", MLP, inter, device.hidden, mlp.bias)


def activation_ops(
    block: Block, rows: Array, inter: Array, activation: str, gated: bool, before: str = ""
) -> Iterator[ModelOp]:
    """One kernel for activation and gate, or one each."""
    device, values = block.device, block.device.formats.values
    if device.fused or not gated:
        yield block.op(f"{before}activation", MLP, activated(rows, inter, activation, values, gated))
        return
    op = ops.find(activation_profile(activation))
    yield block.op(f"{before}activation", MLP, built(op, n=rows * inter, dtype=values))
    yield block.op(f"{before}gate mul", MLP, built(ops.mul, n=rows * inter, dtype=values))
