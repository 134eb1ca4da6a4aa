"""Collectives of one device in a forward pass: tensor, sequence, context, expert and pipeline parallelism.

With R rows on the device, hidden size h and w bytes per value:

    tensor     all_reduce of R h w behind attention and behind the MLP (once where both run side by side)
    sequence   instead, all_gather of R h w before and reduce_scatter of R h w behind
    context    a ring over cp devices passes the keys and values of one device cp - 1 times, or all are gathered at once;
               decoding splits the cache, and partial results of rows x heads x (D + 1) fp32 values are summed
    expert     beyond a tensor-parallel group all_to_all of R/tp k h w to the experts and back
    pipeline   p2p of R h w to the next stage

A tensor-parallel embedding ends in the same collective, tensor-parallel logits are gathered.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.work import Array, Work
from .. import ops
from .architecture import Experts, Latent
from .blocks import local_heads
from .device import Block, Device
from .layout import CONTEXT, EXPERT, PIPELINE, TENSOR
from .model_op import COMMUNICATION, ModelOp
from .passes import built
from .phase import DECODE

PARTIAL = "fp32"  # of attention over a part of the cache


def collective(name: str, size: Array, ranks: int, dtype: str) -> Work:
    return built(ops.find(name), bytes=size, ranks=float(ranks), dtype=dtype)


def hidden_bytes(device: Device) -> Array:
    """Bytes of the hidden state of all rows."""
    return device.rows * device.hidden * device.width


def tensor_names(device: Device) -> tuple[str, ...]:
    """Collectives around a part of a layer that is split over tensor-parallel devices."""
    return ("all_gather", "reduce_scatter") if device.layout.sequence else ("all_reduce",)


def layer_collectives(block: Block) -> Iterator[ModelOp]:
    """Of one layer; those over tensor-parallel devices are one op with a count."""
    device, layer = block.device, block.layer
    layout, values = device.layout, device.formats.values
    parts = 1 if layer.parallel else 2
    if layout.tp > 1:
        gathers = layout.expert_replicas > 1 and isinstance(layer.mlp, Experts) and not layer.mlp.shared
        for name in tensor_names(device):
            work = collective(name, hidden_bytes(device), layout.tp, values)
            # behind experts that saw other devices' tokens too every result is complete and need not be summed
            plain = parts - gathers if name == "all_reduce" else parts
            if plain:
                yield block.op(name, COMMUNICATION, work, plain, over=TENSOR)
        if gathers and not layout.sequence:
            work = collective("all_gather", hidden_bytes(device), layout.tp, values)
            yield block.op("all_gather", COMMUNICATION, work, over=TENSOR)
    if layout.expert_replicas > 1 and isinstance(layer.mlp, Experts):
        pairs = device.rows / layout.tp * layer.mlp.topk
        for name, stored in (("dispatch", device.formats.activations), ("combine", values)):
            work = collective("all_to_all", pairs * device.hidden * dtype_row(stored).bytes, layout.ep, values)
            yield block.op(f"all_to_all {name}", COMMUNICATION, work, over=EXPERT)
    if layout.cp > 1:
        yield from _context(block)


def _context(block: Block) -> Iterator[ModelOp]:
    device, attention = block.device, block.layer.attention
    layout, values = device.layout, device.formats.values
    if isinstance(attention, Latent):  # expanded keys and values travel; partial results of decoding are latent vectors
        heads = attention.heads / layout.tp
        passed, result = heads * (attention.qk_dim + attention.v_dim), heads * (attention.kv_rank + 1)
    else:
        heads, kv_heads = local_heads(attention, layout.tp)
        passed, result = 2 * kv_heads * attention.head_dim, heads * (attention.head_dim + 1)
    for group in device.groups:
        if group.kind == DECODE:
            size = group.batch * group.tokens * result * dtype_row(PARTIAL).bytes
            name, work, times = "all_reduce partial attention", collective("all_reduce", size, layout.cp, PARTIAL), 1
        else:
            size = group.batch * (group.context / layout.cp + group.tokens) * passed * device.width
            if layout.ring:
                name, work, times = "p2p keys and values", collective("p2p", size, 2, values), layout.cp - 1
            else:
                work, times = collective("all_gather", size * layout.cp, layout.cp, values), 1
                name = "all_gather keys and values"
        yield block.op(name, COMMUNICATION, work, times, over=CONTEXT)


def embedding_collectives(device: Device) -> Iterator[ModelOp]:
    if device.layout.tp > 1:
        name = tensor_names(device)[-1]
        work = collective(name, hidden_bytes(device), device.layout.tp, device.formats.values)
        yield ModelOp(name, COMMUNICATION, work, over=TENSOR)


def stage_collectives(device: Device, stage: int) -> Iterator[ModelOp]:
    """What a stage sends on: the hidden state, of which tensor-parallel devices under sequence parallelism have a part."""
    if stage < device.layout.pp - 1:
        size = device.residual_rows * device.hidden * device.width
        yield ModelOp("p2p hidden state", COMMUNICATION, collective("p2p", size, 2, device.formats.values), over=PIPELINE)  # fmt: skip


def logits_collectives(device: Device, rows: Array) -> Iterator[ModelOp]:
    if device.layout.tp > 1:
        size = rows * device.architecture.vocab * device.width
        yield ModelOp("all_gather logits", COMMUNICATION, collective("all_gather", size, device.layout.tp, device.formats.values), over=TENSOR)  # fmt: skip


# -- data parallelism of a training step in closed form --------------------------------------------------------------


def gradient_intensity(tokens: Array, devices: Array, width: float = 2.0) -> Array:
    """Flops of a training step per byte that a device sends for a ring all-reduce of its gradients: 3 B / ((N - 1) d).

    6 P B / N flops for P weights and B tokens over N devices, 2 (N - 1)/N P d bytes with d bytes per gradient; P cancels.
    """
    return 3 * tokens / ((devices - 1) * width)


def most_data_parallel(tokens: Array, ridge: Array, width: float = 2.0) -> Array:
    """The largest number of devices at which the exchange of gradients takes no longer than the products of the step.

    `ridge` is the flops a device computes per byte that its link carries: 3 B / ((N - 1) d) >= ridge, so
    N <= 1 + 3 B / (ridge d). More tokens, narrower gradients or splitting the model instead of the data allow more.
    """
    return np.floor(1 + 3 * tokens / (ridge * width))
