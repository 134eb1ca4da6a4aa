"""Attention written as separate calls: a product, a softmax of its result, a product of that; and the one kernel it could be.

A chain is followed through buffers: the scores of a batched product are read by pointwise calls and one softmax, whose
result is read by pointwise calls and one batched product. The fused kernel takes the place of the last product; the rest of the
chain does nothing. Chains of a backward pass are left as they are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from ...core.errors import InputError
from ...core.timeline import BACKWARD
from ...core.trace import FREE, POINTWISE, VIEW, WORK, Access, Trace, TracedOp
from ...core.work import Work
from ...programs.aten.arguments import base_name
from ...programs.ops.scaled_dot_product import attention

PRODUCTS, SOFTMAXES = ("bmm", "baddbmm", "matmul"), ("_softmax", "softmax", "_safe_softmax")


@dataclass(frozen=True)
class Chain:
    """Calls of the trace from the first product to the second, in order."""

    calls: tuple[int, ...]
    work: Work


def with_fused_attention(trace: Trace) -> Trace:
    """The trace with every chain of its forward pass as one call."""
    chains = attention_chains(trace)
    if not chains:
        raise InputError("the program has no attention that is written as separate products and softmaxes")
    ops, op = list(trace.ops), np.array(trace.op, dtype=np.int64)
    reads, writes = list(trace.reads), list(trace.writes)
    for chain in chains:
        last = chain.calls[-1]
        inner = {buffer for call in chain.calls[:-1] for buffer, _ in trace.writes[call]}
        outside: dict[int, float] = {}
        for call in chain.calls:
            outside |= {buffer: size for buffer, size in trace.reads[call] if buffer not in inner}
        for call in chain.calls:
            source = trace.ops[int(trace.op[call])]
            fused = call == last
            ops.append(_fused(source, chain.work) if fused else _nothing(source))
            op[call] = len(ops) - 1
            reads[call] = tuple(outside.items()) if fused else ()
            writes[call] = trace.writes[call] if fused else ()
    return replace(trace, ops=tuple(ops), op=op, reads=tuple(reads), writes=tuple(writes))


def _fused(op: TracedOp, work: Work) -> TracedOp:
    return replace(op, work=work, kind=WORK, backend="")


def _nothing(op: TracedOp) -> TracedOp:
    return replace(op, work=None, kind=FREE, sort=VIEW, backend="")


def attention_chains(trace: Trace) -> list[Chain]:
    """All chains of the forward pass."""
    readers: dict[int, list[int]] = defaultdict(list)
    for call, accesses in enumerate(trace.reads):
        for buffer, _ in accesses:
            readers[buffer].append(call)
    chains = []
    for call, place in enumerate(trace.op.tolist()):
        op = trace.ops[place]
        if base_name(op.site.call.name) in PRODUCTS and op.site.phase != BACKWARD:
            chain = _chain(trace, call, readers)
            if chain is not None:
                chains.append(chain)
    return chains


def _chain(trace: Trace, call: int, readers: dict[int, list[int]]) -> Chain | None:
    calls, softmaxed = [call], False
    while len(calls) < 16:
        following = _next(trace, trace.writes[calls[-1]], readers, calls[-1])
        if following is None:
            return None
        op = trace.ops[int(trace.op[following])]
        base = base_name(op.site.call.name)
        calls.append(following)
        if base in SOFTMAXES:
            softmaxed = True
        elif base in PRODUCTS:
            work = _work(trace, call, following) if softmaxed else None
            return None if work is None else Chain(tuple(calls), work)
        elif op.sort != POINTWISE:
            return None
    return None


def _next(trace: Trace, written: tuple[Access, ...], readers: dict[int, list[int]], after: int) -> int | None:
    """The call of the forward pass that reads a result next, None where there are several."""
    later = {
        reader
        for buffer, _ in written
        for reader in readers[buffer]
        if reader > after and trace.ops[int(trace.op[reader])].site.phase != BACKWARD
    }
    return later.pop() if len(later) == 1 else None


def _work(trace: Trace, first: int, second: int) -> Work | None:
    """Fused attention of the sizes of two batched products: [b, q, d] x [b, d, kv] and [b, q, kv] x [b, kv, d]."""
    scores, values = (trace.ops[int(trace.op[call])] for call in (first, second))
    if scores.work is None or scores.work.name != "bmm" or values.work is None or values.work.name != "bmm":
        return None
    sizes = {name: float(np.max(np.asarray(scores.work.shape.get(name, 0.0)))) for name in ("batch", "m", "n", "k")}
    if not all(sizes.values()):
        return None
    dtype = scores.work.dtype
    return attention(
        batch=1, heads=sizes["batch"], seq_q=sizes["m"], seq_kv=sizes["n"], head_dim=sizes["k"], dtype=dtype
    )
