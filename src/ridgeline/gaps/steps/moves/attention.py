"""Attention made of a product, a softmax and another product: the scores go through memory several times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ....core.errors import RidgelineError
from ....core.timeline import BACKWARD
from ....core.units import show
from ....programs import ops
from ..groups import Group
from ..view import View
from .move import Move, expected, price_runs, sources

SOFTMAX, SOFTMAX_BACKWARD = "_softmax", "_softmax_backward_data"
PRODUCTS = ("bmm", "baddbmm")


@dataclass(frozen=True)
class Scores:
    """`heads` of attention at once, each with scores of rows by cols; `size` is the length of a head's vectors."""

    softmax: Group
    groups: tuple[Group, ...]  # all that touch the scores
    heads: int
    rows: int
    cols: int
    size: int


def unfused(view: View) -> Iterator[Move]:
    """Softmax of scores between two products of the same heads: one fused kernel keeps the scores on chip."""
    if view.kept.on_host:
        return
    parts = [scores for item in view.items if (scores := _scores(view, item.group)) is not None]
    changed, dropped, worth = view.kept.time.copy(), [], list[Scores]()
    fused_time = 0.0
    for scores in parts:
        time = _fused_time(view, scores)
        present = sum(group.time for group in scores.groups)
        if time is None or time * scores.softmax.count >= present:
            continue
        fused_time += time * scores.softmax.count
        changed[scores.softmax.runs] = time
        dropped += [run for group in scores.groups if group is not scores.softmax for run in group.runs.tolist()]
        worth.append(scores)
    if not worth:
        return
    gain, device = price_runs(view, changed, np.unique(dropped))
    groups = list(dict.fromkeys(group for scores in worth for group in scores.groups))
    first, present = worth[0], sum(group.time for group in groups)
    evidence = (
        f"product + softmax + product on {first.heads} heads of {first.rows} x {first.cols} scores",
        f"{show(present, 's', 3)} per step in kernels on the scores; fused attention is expected to take {show(fused_time, 's', 3)}",
    )
    move = "use scaled_dot_product_attention with a fused backend (flash, cuDNN)"
    yield Move("attention", "attention scores written to memory", move, gain, evidence, device=device,
               sources=sources(groups), items=tuple(group.name for group in groups[:4]))  # fmt: skip


def _scores(view: View, group: Group) -> Scores | None:
    """The groups on the scores of a softmax; None where it has no products on both sides."""
    name = group.owner.name.rpartition("::")[2]
    if name not in (SOFTMAX, SOFTMAX_BACKWARD) or not group.owner.call.tensors:
        return None
    shape = group.owner.call.tensors[0].shape
    if len(shape) < 3:
        return None
    *outer, rows, cols = shape
    heads = prod(outer)
    products = [item.group for item in view.items if _on_scores(item.group, group.phase, heads, rows, cols)]
    sizes = {size for product in products for tensor in product.owner.call.tensors for size in tensor.shape[-2:]}
    others = sizes - {rows, cols} or {rows if rows == cols else 0}
    if len(products) < 2 or len(others) != 1 or 0 in others:
        return None
    pointwise = [
        item.group
        for item in view.items
        if item.group.phase == group.phase and _is_on(item.group, heads * rows * cols) and item.group is not group
    ]
    return Scores(group, (group, *products, *pointwise), heads, rows, cols, others.pop())


def _on_scores(group: Group, phase: str, heads: int, rows: int, cols: int) -> bool:
    """Whether a product of matrices has the scores as an operand or as its result."""
    tensors = [tensor.shape for tensor in group.owner.call.tensors if len(tensor.shape) == 3]
    if group.phase != phase or group.owner.name.rpartition("::")[2] not in PRODUCTS or len(tensors) < 2:
        return False
    (batch, *first), (_, *second) = tensors[-2], tensors[-1]
    sides = {*first, *second}
    return batch == heads and {rows, cols} <= sides


def _is_on(group: Group, elements: int) -> bool:
    work = group.owner.work
    sizes = [prod(tensor.shape) for tensor in group.owner.call.tensors]
    return work is not None and work.family == "stream" and bool(sizes) and max(sizes) == elements


def _fused_time(view: View, scores: Scores) -> float | None:
    dtype = scores.softmax.owner.call.tensors[0].dtype
    make = ops.attention_backward if scores.softmax.phase == BACKWARD else ops.attention
    try:
        work = make(batch=1, heads=scores.heads, seq_q=scores.rows, seq_kv=scores.cols, head_dim=scores.size,
                    dtype=dtype if dtype in ("bf16", "fp16") else "bf16")  # fmt: skip
        return expected(view, work)
    except RidgelineError:
        return None
