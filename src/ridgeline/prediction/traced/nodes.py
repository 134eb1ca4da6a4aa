"""Nodes: the calls of a trace as a compiler sees them, with the elements they iterate over.

    pointwise   every result by itself: `elements` results
    rows        a reduction with enough rows to give each of them to a block: `elements` in `rows` results
    split       a reduction of few long rows or columns, which is made in pieces: nothing of its size follows in its kernel
    library     a call that is kept as it is

A norm over channels needs its sums before it can begin: it is a split reduction and a pointwise node that reads its
inputs again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

import numpy as np

from ...core.machine import Machine
from ...core.timeline import BACKWARD, FORWARD, OPTIMIZER, Call, Tensor
from ...core.trace import MOVE, POINTWISE, REDUCTION, WORK, Access, Trace, TracedOp
from ...machines.defaults import defaults
from ...programs.aten.arguments import base_name
from .handling import COPIES, MAX_UNROLLED, SOFTMAXES, averaged_window, handling, largest_loads, reduces_rows

ELEMENTS, ROWS, SPLIT, KEPT = NODES = ("pointwise", "rows", "split", "library")
# Adds to places that may coincide: a kernel of its own. Fused optimizers are library kernels.
_SCATTERS = ("embedding_dense_backward", "index_put", "index_put_", "_index_put_impl_", "scatter_add", "scatter_add_", "index_add", "index_add_", "masked_scatter")  # fmt: skip
_FUSED_OPTIMIZER, _FOREACH = "_fused_", "_foreach_"
INDEX_BYTES = 8.0  # of an index
Accesses = tuple[Access, ...]
TENSORS_PER_FOREACH = 15  # of a list that one compiled kernel takes


@dataclass(frozen=True)
class Node:
    """One pass of a call over its elements."""

    call: int
    op: int  # of the trace
    kind: str  # one of NODES
    elements: float
    rows: float
    reads: tuple[Access, ...]
    writes: tuple[Access, ...]
    flops: float = 0.0
    special: float = 0.0  # special functions among them
    handling: float = 0.0  # of rows, in special functions that take as long
    launches: float = 1.0
    times: float = 1.0  # in a row, the trips of a loop
    phase: str = FORWARD
    inlined: tuple[int, ...] = ()  # ops of the trace whose results are computed within it
    copies: bool = False  # into another order
    loads: int = 1  # of each of its reads, per element

    @property
    def graph(self) -> tuple[str, float]:
        """Nodes merge within a graph: a compiler makes one of each phase, and of each loop."""
        return self.phase, self.times


def nodes(trace: Trace, machine: Machine) -> list[Node]:
    """All calls that do work, in order."""
    cores = next((machine.units[name] for name in ("sm", "cu") if name in machine.units), 0.0)
    shapes = [_shape(op, cores or defaults("fusion")["cores"]) for op in trace.ops]
    costs = [_arithmetic(op) for op in trace.ops]
    listed: list[Node] = []
    for call, place in enumerate(trace.op.tolist()):
        op = trace.ops[place]
        if op.kind != WORK:
            continue
        kind, elements, rows, launches = shapes[place]
        phase = op.site.phase if op.site.phase in (BACKWARD, OPTIMIZER) else FORWARD
        times = float(trace.times[call])
        flops, special = costs[place]
        beside = handling(op, elements, rows) if kind != KEPT and machine.kind == "gpu" else 0.0
        reads, writes = _accesses(op, trace.reads[call], trace.writes[call])
        node = Node(call, place, kind, elements, rows, reads, writes, flops, special, beside, launches, times, phase)
        moves, loads = base_name(op.site.call.name) in COPIES, max(largest_loads(op.site.call), 1)
        node = replace(node, copies=moves, loads=loads)
        listed += _parts(node) if _is_normalization(op, kind, elements) else [node]
    return listed


def _accesses(op: TracedOp, reads: Accesses, writes: Accesses) -> tuple[Accesses, Accesses]:
    """What a call reads and writes. A compiled pool keeps where in its window the largest element is, in a byte and not as an index."""
    if not largest_loads(op.site.call) or not reads or not writes:
        return reads, writes
    kept = writes if len(writes) > 1 else reads  # the indices are the last result, or the last argument of the gradient
    buffer, size = kept[-1]
    narrow = (*kept[:-1], (buffer, size / INDEX_BYTES))
    return (reads, narrow) if kept is writes else (narrow, writes)


def _is_normalization(op: TracedOp, kind: str, elements: float) -> bool:
    """Whether an operator reduces its input and then goes over it again: results of both sizes."""
    sizes = _sizes(op)
    return (
        kind in (ROWS, SPLIT) and len(sizes) > 1 and max(sizes) >= elements > min(sizes) and op.site.phase != BACKWARD
    ) or (kind == SPLIT and any(size >= elements for size in sizes))


def _parts(node: Node) -> list[Node]:
    """The reduction of a norm, and the pass over its elements that needs the reduction's results."""
    largest = max(size for _, size in node.writes)
    small = tuple(access for access in node.writes if access[1] < largest)
    large = tuple(access for access in node.writes if access[1] == largest)
    half = replace(node, flops=node.flops / 2, special=0.0)
    again = (*node.reads, *small)
    return [
        replace(half, writes=small),
        replace(
            half,
            kind=ELEMENTS,
            rows=node.elements,
            reads=again,
            writes=large,
            special=node.special,
            handling=0.0,
            launches=1.0,
        ),
    ]


def _arithmetic(op: TracedOp) -> tuple[float, float]:
    """Flops and special functions of one call as compilers write them."""
    if op.work is None:
        return 0.0, 0.0
    flops, special = (float(np.max(np.asarray(value))) for value in (op.work.flops, op.work.special))
    base, costs = base_name(op.site.call.name), defaults("fusion")
    size = float(max(_sizes(op), default=0))
    if base in ("cos", "sin"):
        special = size * costs["trigonometric"]
    if "batch_norm" in base:
        special += size * costs["channel_norm"]
    return flops, special


def _sizes(op: TracedOp) -> list[int]:
    return [prod(tensor.shape) for tensor in op.site.call.outputs]


def _shape(op: TracedOp, cores: float) -> tuple[str, float, float, float]:
    """Kind, elements, rows and launches of an op's node."""
    base, call = base_name(op.site.call.name), op.site.call
    outputs = [float(size) for size in _sizes(op)]
    inputs = [float(prod(tensor.shape)) for tensor in call.tensors]
    most = max([*outputs, *inputs], default=0.0)
    kept = (KEPT, most, most, 1.0)
    if op.sort not in (POINTWISE, REDUCTION, MOVE) or base in _SCATTERS or base.startswith(_FUSED_OPTIMIZER):
        return kept
    window, beside = averaged_window(call)
    if window > MAX_UNROLLED and not beside:  # overlapping windows stay with the library
        return kept
    if base.startswith(_FOREACH):
        listed = next((arg for arg in call.args if isinstance(arg, tuple) and arg), ())
        tensors = [item for item in listed if isinstance(item, Tensor)]
        total = float(sum(prod(tensor.shape) for tensor in tensors))
        return (ELEMENTS, total, total, float(ceil(len(tensors) / TENSORS_PER_FOREACH))) if tensors else kept
    if op.sort != REDUCTION or _is_fixed_norm(base, call):
        size = max(outputs, default=most)
        return ELEMENTS, size, size, 1.0
    rows = _rows(base, call, most)
    length = most / rows if rows else most
    figures = defaults("fusion")
    many = figures["rows_per_core" if reduces_rows(call) else "columns_per_core"] * cores
    split = rows < many and length > figures["longest_row"]
    return (SPLIT if split else ROWS), most, rows, 2.0 if split else 1.0


def _is_fixed_norm(base: str, call: Call) -> bool:
    """Whether a batch norm uses the statistics that it is given: then it reduces nothing."""
    if base.endswith("batch_norm_legit_no_training"):
        return True
    return (
        base in ("native_batch_norm", "cudnn_batch_norm", "batch_norm") and len(call.args) > 5 and call.args[5] is False
    )


def _rows(base: str, call: Call, most: float) -> float:
    """Results of the reduction within an operator: its smallest output, or one for each row of a softmax."""
    if base in SOFTMAXES:
        shape = (call.outputs or call.tensors)[0].shape
        return most / shape[-1] if shape and shape[-1] else 1.0
    if "layer_norm" in base or "rms_norm" in base:
        width = next((arg for arg in call.args if isinstance(arg, tuple) and arg and isinstance(arg[0], int)), (most,))
        return most / prod(width)
    return min((float(prod(tensor.shape)) for tensor in call.outputs), default=1.0)
