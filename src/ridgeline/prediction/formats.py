"""The formats that a machine computes in, where a program asks for one it lacks.

tf32 is allowed by a program, not asked for: fp32 tensors are multiplied in fp32 where there is no tf32. A machine without
arithmetic in a format of 16 bits converts to fp32 and back, as PyTorch does with bf16 on GPUs before Ampere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..core.combining import merge
from ..core.errors import MissingFigure
from ..core.machine import Machine
from ..core.trace import Trace
from ..core.work import Array, FlopKey, Work

TF32, FP32 = "tf32", "fp32"
CONVERTED = ("bf16", "fp16")  # by a machine that lacks them

Formats = Mapping[str, str]  # what is asked for, and what it is computed in


def formats_on(machine: Machine) -> Formats:
    asked = (TF32, *(CONVERTED if computes(machine, FP32) else ()))
    return {name: FP32 for name in asked if not computes(machine, name)}


def computes(machine: Machine, dtype: str) -> bool:
    """Whether a machine multiplies in a format."""
    try:
        return bool(machine.engine("matrix", dtype))
    except MissingFigure:
        return False


def runs_elsewhere(work: Work, machine: Machine, forced: str | None) -> bool:
    """Whether a forced engine serves matrix products of this work that another one would serve without it."""
    products = {dtype for asked, dtype in work.by_engine() if asked == "matrix"} if forced else set()
    return any(
        not computes(machine, dtype) or machine.engine("matrix", dtype) != machine.engine("matrix", dtype, forced)
        for dtype in products
    )


def trace_on(trace: Trace, machine: Machine) -> Trace:
    """A program as a machine runs it."""
    formats = formats_on(machine)
    if not formats:
        return trace
    ops = tuple(op if op.work is None else replace(op, work=computed_in(op.work, formats)) for op in trace.ops)
    return replace(trace, ops=ops)


def converted(trace: Trace, machine: Machine) -> list[str]:
    """Formats in which a program multiplies and the machine does not."""
    lacking = [name for name in formats_on(machine) if name in CONVERTED]
    works = [op.work for op in trace.ops if op.work is not None] if lacking else []
    multiplied = {work.dtype for work in works if any(engine == "matrix" for engine, _ in work.by_engine())}
    return [name for name in lacking if name in multiplied]


def computed_in(work: Work, formats: Formats) -> Work:
    """The same work with its arithmetic in other formats; its tensors keep theirs, and so do timings of kernels on them.

    Tensors of tf32 products are fp32, so that kernels of fp32 serve them.
    """
    if not any(dtype in formats for _, dtype, _ in work.counts):
        return work
    counts: dict[FlopKey, Array] = {}
    for (engine, dtype, name), value in work.counts.items():
        counts = merge(counts, {(engine, formats.get(dtype, dtype), name): value})

    def stored(dtype: str) -> str:
        return formats.get(dtype, dtype) if dtype == TF32 else dtype

    return replace(
        work,
        counts=counts,
        dtype=stored(work.dtype),
        kernels=tuple(replace(kernel, dtype=stored(kernel.dtype)) for kernel in work.kernels),
        parts=tuple(replace(step, work=computed_in(step.work, formats)) for step in work.parts),
        sources=tuple(
            replace(each, alone=computed_in(each.alone, formats), left=computed_in(each.left, formats))
            for each in work.sources
        ),
    )
