"""Ops of a mixture of experts on one device: router, choice, grouped products of the experts, shared expert.

T tokens meet at E experts, each token goes to k of them, a device has E / ep experts (and of each its part of the
intermediate columns where ep < tp). Balanced over devices it computes T k / ep (token, expert) pairs:
2 (2 + gated) h i flops each, with i its columns. The experts it reads are those that got tokens, on average
E (1 - (1 - k/E)^T) / ep where every token chooses at random (`uniform`), min(E, T k) / ep where tokens are dealt evenly
(`balanced`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.dtypes import label
from ...core.errors import unknown
from ...core.work import Array, Kernel, Work, work
from .. import ops
from ..ops.elementwise import PROFILE
from .architecture import Experts, Mlp
from .blocks import activation_ops, dense_ops
from .device import Block
from .eager import grouped_product
from .model_op import MLP, ModelOp
from .passes import activation_profile, built, chosen

UNIFORM, BALANCED = ROUTINGS = ("uniform", "balanced")


def check_routing(routing: str) -> None:
    if routing not in ROUTINGS:
        raise unknown("routing", routing, ROUTINGS)


def routed_rows(block: Block) -> Array:
    """(token, expert) pairs of this device."""
    layout, experts = block.device.layout, block.layer.mlp
    assert isinstance(experts, Experts)
    return block.device.rows * layout.expert_replicas * experts.topk / layout.ep


def experts_read(block: Block) -> Array:
    """Experts of this device that got tokens."""
    device, experts = block.device, block.layer.mlp
    assert isinstance(experts, Experts)
    tokens = device.rows * device.layout.expert_replicas
    most = np.minimum(experts.count, tokens * experts.topk)
    if device.routing == UNIFORM:
        hit = experts.count * (1 - (1 - experts.topk / experts.count) ** tokens)
        most = np.clip(hit, experts.topk, most)  # rounding aside
    return most / device.layout.ep


def expert_ops(block: Block) -> Iterator[ModelOp]:
    device, experts = block.device, block.layer.mlp
    assert isinstance(experts, Experts)
    # every device routes all of its tokens
    yield block.linear("router", MLP, device.hidden, experts.count, experts.router_bias, quantize=False)
    values = device.formats.values
    if device.fused:
        yield block.op("router top-k", MLP, chosen(device.rows, experts.count, experts.topk, values))
    else:
        softmax = built(ops.softmax, rows=device.rows, cols=experts.count, dtype=values)
        yield block.op("router softmax", MLP, softmax)
        topk = built(ops.topk, rows=device.rows, cols=experts.count, k=experts.topk, dtype=values)
        yield block.op("router top-k", MLP, topk)
    held = experts.count / device.layout.ep
    columns = experts.inter / device.layout.expert_tp
    each = (2 + experts.gated) * device.hidden * columns
    biases = ((1 + experts.gated) * columns + device.hidden) * experts.bias
    yield from block.quantize(device.hidden)
    yield from block.quantize(columns, routed_rows(block))  # what the second product takes
    if device.fused:
        yield block.op("experts", MLP, grouped(block), weights=held * (each + biases))
    else:
        yield from _eager(block, held * (each + biases))
    if experts.shared:
        shared = Mlp(experts.shared, experts.gated, experts.bias, experts.activation)
        yield from dense_ops(block, shared, "shared")
    if experts.shared_gate:
        yield block.linear("shared gate", MLP, device.hidden, 1.0, quantize=False)


def grouped(block: Block) -> Work:
    """Grouped products of the experts with the activation between them and the weighted sum behind.

    Tokens are gathered by expert (read once per pair), both products write what the next one reads, and the results of a
    token's experts are added up with their weights: 2 flops per element of a pair.
    """
    device, experts = block.device, block.layer.mlp
    assert isinstance(experts, Experts)
    formats, hidden, inter = device.formats, device.hidden, experts.inter / device.layout.expert_tp
    pairs, read, up = routed_rows(block), experts_read(block), 1 + experts.gated
    name = activation_profile(experts.activation)
    each = PROFILE[name].nominal + experts.gated
    between = {
        "gate_up": (up * pairs * inter, formats.values, "up pairs inter"),
        "activated": (pairs * inter, formats.values, "pairs inter"),
        "expert_out": (pairs * hidden, formats.values, "pairs hidden"),
    }
    matrices = (up + 1) * hidden * inter
    biases = (up * inter + hidden) * experts.bias
    sizes = {
        "tokens": pairs / experts.topk, "experts": experts.count / device.layout.ep, "topk": float(experts.topk),
        "hidden": float(hidden), "inter": inter, "stored": dtype_row(formats.weights).bytes, "active": read,
    }  # fmt: skip
    made = work(
        matrix={"experts": (2 * pairs * matrices, f"{2 * (up + 1)} pairs hidden inter")},
        vector={
            name: (each * pairs * inter, f"{each:g} pairs inter"),
            "combine": (2 * pairs * hidden, "2 pairs hidden"),
            "bias": (pairs * biases, "pairs biases"),
        },
        special=PROFILE[name].special * pairs * inter,
        read={
            "x": (pairs * hidden, formats.activations, "pairs hidden"),
            "weights": (read * matrices, formats.weights, f"{up + 1} experts hidden inter"),
            "bias": (read * biases, formats.values, "experts biases"),
            **between,
        },
        write={"y": (device.rows * hidden, formats.values, "rows hidden"), **between},
        sizes={"weights": (sizes["experts"] * matrices, formats.weights)},
        dtype=formats.activations,
        notes=(f"{device.routing} routing",),
        kernels=(Kernel("moe", sizes, dtype=label(formats.activations, formats.weights)),),
    )
    shape = {"pairs": pairs, "experts": sizes["experts"], "hidden": float(hidden), "inter": inter}
    return replace(made, name="grouped_experts", family="moe", shape=shape)


def _eager(block: Block, weights: Array) -> Iterator[ModelOp]:
    """Tokens gathered by expert, grouped products around the activation, results weighed, put back and summed."""
    device, experts = block.device, block.layer.mlp
    assert isinstance(experts, Experts)
    formats, hidden, inter = device.formats, float(device.hidden), experts.inter / device.layout.expert_tp
    values, pairs, read, up = formats.values, routed_rows(block), experts_read(block), 1 + experts.gated
    stored = (formats.activations, formats.weights, values)
    gather = built(ops.embedding, rows=pairs, vocab=device.rows, cols=hidden, dtype=values)
    yield block.op("experts gather", MLP, gather)
    product = grouped_product(pairs, read, hidden, up * inter, *stored)
    yield block.op("experts gate and up" if experts.gated else "experts up", MLP, product)
    yield from activation_ops(block, pairs, inter, experts.activation, experts.gated, "experts ")
    # all weights of the experts belong to this op, so that they are one in every style
    yield block.op("experts", MLP, grouped_product(pairs, read, inter, hidden, *stored), weights=weights)
    yield block.op("experts weigh", MLP, built(ops.mul, n=pairs * hidden, dtype=values))
    yield block.op("experts scatter", MLP, built(ops.embedding, rows=pairs, vocab=pairs, cols=hidden, dtype=values))
    yield block.op("experts sum", MLP, built(ops.sum_rows, rows=device.rows * hidden, cols=float(experts.topk), dtype=values))  # fmt: skip
