"""Sparse tensors: a recording has their shapes, no strides, and not how many elements they hold.

How many shows where one of that shape is made, from its indices and its values:

    aten::_sparse_coo_tensor_with_dims_and_tensors  2, 0, [100000, 100000], [2, 999943], [999943]
    aten::_sparse_compressed_tensor_unsafe          [100001], [999943], [999943], [100000, 100000]
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ...core.timeline import Call, Tensor
from ..chrome_trace import OP
from .events import Events, Op

MAKERS = ("aten::_sparse_coo_tensor_", "aten::_sparse_c", "aten::sparse_c", "aten::_sparse_b", "aten::sparse_b")
Shape = tuple[int, ...]
Stored = Callable[[Shape, float], Shape]


def add_sparse(events: Events) -> None:
    """Mark the tensors that are sparse, with the values that the latest one of their shape holds."""
    ops = [op for op in events.shared.values() if isinstance(op, Op) and op.alike is not None]
    if not any(tensor.strides for op in ops for tensor in op.call.tensors):
        return  # layouts were not recorded
    concerned = {id(op) for op in ops if any(map(_without_strides, op.call.tensors))}
    if not concerned:
        return
    stored = _stored(events)
    made: dict[Any, Op] = {}
    for lane, spans in events.lanes.items():
        events.lanes[lane] = [
            span._replace(what=_marked(span.what, span.start, stored, made))
            if span.kind == OP and id(span.what) in concerned
            else span
            for span in spans
        ]


def _without_strides(tensor: Tensor) -> bool:
    return bool(tensor.shape) and not tensor.strides


def _marked(op: Op, start: float, stored: Stored, made: dict[Any, Op]) -> Op:
    """The same operator whose tensors without strides are sparse."""

    def marked(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(marked(item) for item in value)
        if isinstance(value, Tensor) and _without_strides(value):
            return replace(value, sparse=True, stored=stored(value.shape, start))
        return value

    args = tuple(marked(arg) for arg in op.call.args)
    key = id(op), args
    if key not in made:
        made[key] = replace(op, call=Call(op.call.name, args))
    return made[key]


def _stored(events: Events) -> Stored:
    """The values that the latest sparse tensor of a shape holds at a time; of the first one where none was made before."""
    times: dict[Shape, list[tuple[float, Shape]]] = defaultdict(list)
    for spans in events.lanes.values():
        for span in spans:
            if span.kind == OP and span.what.name.startswith(MAKERS) and (one := _holding(span.what.call)):
                times[one[0]].append((span.start, one[1]))
    for rows in times.values():
        rows.sort()

    def stored(shape: Shape, start: float) -> Shape:
        rows = times.get(shape) or times.get(shape[::-1])
        return rows[max(bisect_left(rows, (start, ())) - 1, 0)][1] if rows else ()

    return stored


def _holding(call: Call) -> tuple[Shape, Shape] | None:
    """The shape of the sparse tensor that a call makes, and that of its values, which come last."""
    sizes = [arg for arg in call.args if isinstance(arg, tuple) and arg and all(type(size) is int for size in arg)]
    return (sizes[0], call.tensors[-1].shape) if sizes and len(call.tensors) > 1 else None
