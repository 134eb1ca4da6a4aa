"""What-if on a program: what one change would bring, each against the program as it is.

graph           replay the kernels from a captured graph
fused           merge kernels as a compiler does
fp8             matrix products of 16-bit formats in fp8, each after a cast of its first factor; weights are stored in fp8
machine=NAME    on another machine
batch=32        another value of an argument of the target, for the same number of samples: the program is traced again
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ...core.errors import InputError, quoted, unknown
from ...core.trace import Trace, TracedOp
from ...core.work import Work
from ...machines.load import as_machine
from ...programs import ops
from .plan import EAGER, FUSED, GRAPH
from .predict import predict_trace
from .result import ProgramPrediction

FP8, MACHINE = "fp8", "machine"
CHANGES = (GRAPH, FUSED, FP8, f"{MACHINE}=NAME", "ARGUMENT=VALUE")
WIDE = ("bf16", "fp16")  # formats of products that fp8 replaces
TEXTS = {
    GRAPH: "capture a CUDA graph, or torch.compile(mode='reduce-overhead')",
    FUSED: "torch.compile: pointwise and reduction kernels merged",
    FP8: "16-bit matrix products in fp8, with a cast of the activations each",
}
Retrace = Callable[[str, int], tuple[Trace, float]]  # an argument and its value -> the trace, samples over those of now


@dataclass(frozen=True)
class Change:
    """A program after a change; `amount` is how many times the work of the baseline it does."""

    change: str
    text: str
    before: ProgramPrediction
    after: ProgramPrediction
    amount: float = 1.0

    DOCUMENT: ClassVar = (
        "change", "text", "machine=after.machine.name", "mode=after.mode", "wall_us=wall", "gain_us=gain", "speedup",
        "regime=after.regime", "peak_memory=after.peak_memory", "fits=after.fits", "notes=after.notes",
    )  # fmt: skip

    @property
    def wall(self) -> float:
        return self.after.wall

    @property
    def gain(self) -> float:
        """Seconds saved of what the baseline takes; negative where it would take longer."""
        return self.before.wall - self.after.wall / self.amount

    @property
    def speedup(self) -> float | None:
        return self.before.wall * self.amount / self.after.wall if self.after.wall else None


def whatif(
    program: ProgramPrediction, changes: Sequence[str], retrace: Retrace | None = None, ceilings: str | None = None
) -> tuple[Change, ...]:
    """Every change by itself, the largest gain first."""
    made = [_change(program, text.strip(), retrace, ceilings) for text in changes if text.strip()]
    if not made:
        raise InputError(f"no change is named; known are {', '.join(CHANGES)}")
    return tuple(sorted(made, key=lambda item: -item.gain))


def usual(program: ProgramPrediction) -> tuple[Change, ...]:
    """Changes that need no other hardware and no other numbers, as far as they bring something."""
    wanted = [GRAPH, FUSED] if program.mode == EAGER and program.machine.kind != "cpu" else []
    return tuple(item for item in whatif(program, wanted) if item.gain > 0) if wanted else ()


def _change(program: ProgramPrediction, text: str, retrace: Retrace | None, ceilings: str | None) -> Change:
    name, equals, value = text.partition("=")
    if text in (GRAPH, FUSED):
        return Change(text, TEXTS[text], program, predict_trace(program.trace, program.machine, text, ceilings))
    if text == FP8:
        trace = in_fp8(program.trace)
        return Change(text, TEXTS[FP8], program, predict_trace(trace, program.machine, program.mode, ceilings))
    if name == MACHINE and value:
        machine = as_machine(value)
        after = predict_trace(program.trace, machine, program.mode, ceilings)
        return Change(text, f"on {machine.name}", program, after)
    if not equals:
        raise unknown("change of a program", text, CHANGES)
    if retrace is None or not value.isdigit() or not int(value):
        raise InputError(f"{quoted(text)}: give a whole number for an argument of the target, such as batch=32")
    trace, amount = retrace(name, int(value))
    after = predict_trace(trace, program.machine, program.mode, ceilings)
    return Change(
        text, f"{amount:g} times the samples per step; gain for as many samples as now", program, after, amount
    )


def in_fp8(trace: Trace) -> Trace:
    """The trace with its 16-bit matrix products in fp8."""
    made = tuple(_in_fp8(op) for op in trace.ops)
    if made == trace.ops:
        raise InputError(f"fp8 changes nothing: the program has no matrix products in {' or '.join(WIDE)}")
    return replace(trace, ops=made)


def _in_fp8(op: TracedOp) -> TracedOp:
    work = op.work
    if work is None or work.name != "gemm" or work.parts or work.dtype not in WIDE:
        return op
    return replace(op, work=fp8_product(work))


def fp8_product(work: Work) -> Work:
    """A cast of the first factor, then the product: 2mnk flops in fp8, both factors read in fp8, the result as before."""
    m, n, k = (float(np.asarray(work.shape[name])) for name in ("m", "n", "k"))
    product = ops.gemm(m=m, n=n, k=k, dtype=FP8, out_dtype=work.dtype)
    both = ops.cast(n=m * k, dtype=work.dtype, out_dtype=FP8) + product
    return replace(both, name="gemm", family=product.family, dtype=product.dtype, shape=product.shape)
