"""The format that a machine multiplies fp32 tensors in: tf32 where a program allows it and the machine has it, else fp32."""

from __future__ import annotations

from dataclasses import replace

from ..core.combining import merge
from ..core.errors import MissingFigure
from ..core.machine import Machine
from ..core.trace import Trace
from ..core.work import Array, FlopKey, Work

ALLOWED, PLAIN = "tf32", "fp32"


def has_tf32(machine: Machine) -> bool:
    try:
        return bool(machine.engine("matrix", ALLOWED))
    except MissingFigure:
        return False


def trace_on(trace: Trace, machine: Machine) -> Trace:
    """A program that allows tf32 as a machine runs it."""
    if has_tf32(machine):
        return trace
    ops = tuple(op if op.work is None else replace(op, work=in_fp32(op.work)) for op in trace.ops)
    return replace(trace, ops=ops)


def in_fp32(work: Work) -> Work:
    """The same work with fp32 arithmetic wherever it is tf32: the tensors are the same."""
    if work.dtype != ALLOWED and not any(dtype == ALLOWED for _, dtype, _ in work.counts):
        return work
    counts: dict[FlopKey, Array] = {}
    for (engine, dtype, name), value in work.counts.items():
        counts = merge(counts, {(engine, _plain(dtype), name): value})
    return replace(
        work,
        counts=counts,
        dtype=_plain(work.dtype),
        kernels=tuple(replace(kernel, dtype=_plain(kernel.dtype)) for kernel in work.kernels),
        parts=tuple(replace(step, work=in_fp32(step.work)) for step in work.parts),
        sources=tuple(replace(each, alone=in_fp32(each.alone), left=in_fp32(each.left)) for each in work.sources),
    )


def _plain(dtype: str) -> str:
    return PLAIN if dtype == ALLOWED else dtype
