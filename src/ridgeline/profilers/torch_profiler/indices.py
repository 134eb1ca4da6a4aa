"""What indexing selected: profilers leave out the index tensors of `x[i]`, a list that may have gaps, and all results.

The operator itself says both. It repeats its table along the dimensions that are indexed, in the shape of its result, and
brings every index into that shape, by calls that are recorded:

    aten::index       [[100000, 128], []]
      aten::as_strided  [[100000, 128]]  sizes [1000000, 128]  strides [0, 1]
      aten::reshape     [[1000000]]      sizes [1000000, 1]
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.timeline import Call, Tensor
from ..chrome_trace import OP
from .events import Events, Op

INDEXING = "aten::index"
REPEATED, SHAPED = "aten::as_strided", "aten::reshape"
MAX_INNER = 64  # calls that are looked at, which indexing makes before its kernel


def add_indices(events: Events) -> None:
    """Give the calls that index the indices and results that their inner calls show."""
    for lane, spans in events.lanes.items():
        calls = [span for span in spans if span.kind == OP]
        if not any(span.what.name == INDEXING for span in calls):
            continue
        calls.sort(key=lambda span: span.start)
        starts = [span.start for span in calls]
        made: dict[Any, Op] = {}
        complete: dict[int, Op] = {}
        for span in calls:
            if span.what.name == INDEXING:
                first = bisect_right(starts, span.start)
                inner = [each.what.call for each in calls[first : first + MAX_INNER] if each.start < span.end]
                complete[id(span)] = _indexed(span.what, inner, made)
        events.lanes[lane] = [
            span._replace(what=complete[id(span)]) if id(span) in complete else span for span in spans
        ]


def _indexed(op: Op, inner: Sequence[Call], made: dict[Any, Op]) -> Op:
    """The same operator with its indices and its result, where its inner calls show them."""
    args = op.call.args
    if not args or not isinstance(args[0], Tensor) or isinstance(args[1] if len(args) > 1 else None, tuple):
        return op
    table = args[0]
    repeats = [place for place, call in enumerate(inner) if call.name == REPEATED and _repeats(call, table)]
    if not repeats:
        return op
    sizes, strides = inner[repeats[-1]].args[1:3]
    shaped = (call.tensors[0] for call in inner[repeats[-1] :] if call.name == SHAPED and call.tensors)
    indices = tuple(Tensor(tensor.shape, tensor.dtype) for tensor in shaped)
    before = next((place for place, stride in enumerate(strides) if stride == 0), 0)  # dimensions that are not indexed
    result = Tensor(sizes, table.dtype)
    key = id(op), result, indices, before
    if key not in made:
        given = ((None,) * before + indices, *args[2:])
        made[key] = replace(op, call=Call(op.call.name, (table, *given), (result,)))
    return made[key]


def _repeats(call: Call, table: Tensor) -> bool:
    """Whether a call brings this table, whose dimensions may have been exchanged, into the shape of the result."""
    if not call.tensors or sorted(call.tensors[0].shape) != sorted(table.shape) or len(call.args) < 3:
        return False
    sizes, strides = call.args[1:3]
    integers = isinstance(sizes, tuple) and all(type(size) is int and size >= 0 for size in sizes)
    return integers and isinstance(strides, tuple) and 0 in strides
