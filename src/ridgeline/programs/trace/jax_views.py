"""Views of a JAX program: where the elements of a result lie in the buffer of its operand, in strides of elements.

XLA computes reshapes, transposes, broadcasts and slices where their result is read. A library cannot: what it reads must fill a
buffer, in an order that it takes (`product_reads` for matrix products).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

from .jax_steps import Step, Value, contiguous

Strides = tuple[int, ...]
# Primitives whose results are their operands.
SAME = frozenset({
    "stop_gradient", "optimization_barrier", "sharding_constraint", "layout_constraint", "reshard", "pvary", "preduced",
    "pbroadcast", "name", "device_put", "tie", "pin", "unpin", "reduced_vary_cast_p", "vary_unreduced_cast_p", "stage",
    "random_clone",
})  # fmt: skip
SHAPED = frozenset({"random_wrap", "random_unwrap", "to_edtype", "from_edtype"})  # the same bytes in another shape
MADE = frozenset({"iota", "empty", "empty2"})  # made where they are read
SLICES = frozenset({"slice", "dynamic_slice", "split", "unstack"})
VIEWS = frozenset({"reshape", "transpose", "squeeze", "expand_dims", "broadcast_in_dim", "broadcast_to", "rev"})
ALL_VIEWS = SAME | SHAPED | MADE | SLICES | VIEWS


def is_contiguous(value: Value) -> bool:
    expected = contiguous(value.shape)
    return all(
        size <= 1 or mine == theirs for size, mine, theirs in zip(value.shape, value.strides, expected, strict=True)
    )


def is_dense(value: Value) -> bool:
    """Whether the elements fill a stretch of memory in some order, none repeated."""
    sized = sorted((stride, size) for size, stride in zip(value.shape, value.strides, strict=True) if size > 1)
    step = 1
    for stride, size in sized:
        if stride != step:
            return False
        step *= size
    return True


def reshaped(shape: Sequence[int], strides: Strides, target: Sequence[int]) -> Strides | None:
    """Strides of the same elements in another shape; None where they need a copy."""
    if prod(shape) == 0:
        return contiguous(target)
    old = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    new = [size for size in target if size != 1]
    result: list[int] = []
    at = 0
    while old:
        taken, count = [old.pop(0)], 1
        size = new[at]
        while taken_size(taken) != size:
            if taken_size(taken) < size:
                taken.append(old.pop(0))
            else:
                size *= new[at + count]
                count += 1
        if any(left[1] != right[1] * right[0] for left, right in pairwise(taken)):
            return None
        step, inner = taken[-1][1], []
        for part in reversed(new[at : at + count]):
            inner.append(step)
            step *= part
        result += reversed(inner)
        at += count
    filled = iter(result)
    return tuple(next(filled) if size != 1 else 1 for size in target)


def taken_size(parts: Sequence[tuple[int, int]]) -> int:
    return prod(size for size, _ in parts)


def reduces_nothing(step: Step) -> bool:
    """Whether a reduction is one over dimensions of one element, which gradients of broadcasts have."""
    if step.name not in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"):
        return False
    return all(step.inputs[0].shape[int(axis)] == 1 for axis in step.params["axes"])


def view_strides(step: Step) -> list[Strides | None]:
    """Strides of each result in the buffer of the operand; None where a copy is needed."""
    value, params = step.inputs[0], step.params
    name, strides = step.name, value.strides
    if name in SAME:
        return [item.strides for item in step.inputs[: len(step.outputs)]]
    if name in SHAPED:
        return [contiguous(step.outputs[0].shape) if is_contiguous(value) else None]
    if name == "transpose":
        return [tuple(strides[int(dim)] for dim in params["permutation"])]
    if name in ("squeeze", "expand_dims") or reduces_nothing(step):
        return [reshaped(value.shape, strides, step.outputs[0].shape)]
    if name == "reshape":
        order = params.get("dimensions")
        shape = value.shape
        if order is not None:
            shape, strides = tuple(shape[dim] for dim in order), tuple(strides[dim] for dim in order)
        return [reshaped(shape, strides, step.outputs[0].shape)]
    if name in ("broadcast_in_dim", "broadcast_to"):
        return [_broadcast(step)]
    if name == "slice":
        steps = params.get("strides") or (1,) * len(strides)
        return [tuple(stride * int(by) for stride, by in zip(strides, steps, strict=True))]
    if name == "unstack":
        axis = int(params.get("axis", 0))
        return [strides[:axis] + strides[axis + 1 :]] * len(step.outputs)
    return [strides] * len(step.outputs)  # rev, split, dynamic_slice


def _broadcast(step: Step) -> Strides:
    value, out = step.inputs[0], step.outputs[0]
    offset = len(out.shape) - len(value.shape)
    dims = step.params.get("broadcast_dimensions")
    into = tuple(int(dim) for dim in dims) if dims else tuple(range(offset, len(out.shape)))
    strides = [0] * len(out.shape)
    for dim, size, stride in zip(into, value.shape, value.strides, strict=True):
        strides[dim] = stride if size == out.shape[dim] else 0
    return tuple(strides)


# -- what a library takes ------------------------------------------------------------------------------------------------


def _collapses(value: Value, dims: Sequence[int]) -> bool:
    """Whether dimensions, in this order, are one dimension with one stride."""
    sized = [(value.shape[dim], value.strides[dim]) for dim in dims if value.shape[dim] > 1]
    return all(left[1] == right[1] * right[0] for left, right in pairwise(sized))


def _inner(value: Value, dims: Sequence[int]) -> int:
    return next((value.strides[dim] for dim in reversed(dims) if value.shape[dim] > 1), 1)


def product_reads(value: Value, batch: Sequence[int], free: Sequence[int], summed: Sequence[int]) -> bool:
    """Whether a matrix product takes an operand as it lies: batch, rows and columns each with one stride, one of them 1."""
    groups = (batch, free, summed)
    return is_dense(value) and all(_collapses(value, dims) for dims in groups) and 1 in (
        _inner(value, free), _inner(value, summed)
    )  # fmt: skip


def product_writes(out: Value, permutation: Sequence[int], groups: Sequence[Sequence[int]]) -> bool:
    """Whether a product can write its result transposed: in the new order batch, rows and columns still have one stride each."""
    target = contiguous([out.shape[dim] for dim in permutation])
    placed: Any = Value(
        out.shape, out.dtype, strides=tuple(target[permutation.index(d)] for d in range(len(out.shape)))
    )
    return product_reads(placed, *groups)
