"""Attention of a trace on a machine: by the kernel that PyTorch chooses there, where the trace has that of a Hopper GPU.

Masks with gradients, and heads whose elements lie apart, were told apart when the program was traced: such attention is in a
trace as separate products, or by the efficient kernel, on every machine.
"""

from __future__ import annotations

from ...core.machine import Machine
from ...core.timeline import Tensor
from ...core.trace import Trace, TracedOp
from ...programs.aten import attention as counted
from ...programs.aten.arguments import base_name
from ...programs.attention_backends import CUDNN, EFFICIENT, FLASH, MATH, Attention, backend

# The names of backends in the timings of machines.
TIMED = {CUDNN: counted.CUDNN, FLASH: counted.FLASH, EFFICIENT: counted.EFFICIENT}
TRACED = frozenset((counted.CUDNN, counted.FLASH))  # those that Hopper prefers to the efficient kernel


def timed_backend(op: TracedOp, machine: Machine) -> str:
    """The backend that a call of a trace runs by on a machine; empty for one that has timings of no special kernel."""
    if op.backend not in TRACED:
        return op.backend
    if machine.kind == "cpu":
        return ""  # PyTorch has one kernel there
    chosen = _chosen(op, machine)
    return op.backend if chosen is None else TIMED.get(chosen, "")


def taken_apart(trace: Trace, machine: Machine) -> float:
    """Calls of attention that no fused kernel of a machine runs, though they are one in the trace."""
    rows = zip(trace.ops, trace.counts, strict=True)
    return float(sum(count for op, count in rows if op.backend in TRACED and _chosen(op, machine) == MATH))


def _chosen(op: TracedOp, machine: Machine) -> str | None:
    base = base_name(op.site.call.name)
    places = (counted.FORWARD | counted.BACKWARD).get(base)
    if places is None or not places.heads_first or machine.kind == "cpu":
        return None
    args = op.site.call.args
    q, k, v = args[places.q : places.q + 3]
    if not (isinstance(q, Tensor) and isinstance(k, Tensor) and isinstance(v, Tensor)):
        return None
    masked = places.bias is not None and isinstance(args[places.bias], Tensor)
    attention = Attention(
        q.shape, k.shape, v.shape, q.dtype, masked, causal=bool(args[places.causal]),
        grouped=q.shape[1] != k.shape[1], trained=base in counted.BACKWARD,
    )  # fmt: skip
    return backend(attention, machine.architecture)
