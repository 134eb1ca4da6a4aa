"""What a change of a program would bring: the program predicted again with the change, and what its step gains.

graph       the kernels captured once and replayed
compile     kernels merged as a compiler does
fp8         16-bit products in fp8, their activations quantized before, their weights stored so
attention   products and softmaxes of attention scores as one fused kernel
machine     another one
batch       a larger one, traced again: times per unit of the batch are compared
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from ...core.dtypes import dtype as dtype_row
from ...core.errors import InputError, RidgelineError, unknown
from ...core.machine import Machine
from ...core.trace import Trace, TracedOp
from ...core.work import Work
from ...machines.load import as_machine
from ...programs.ops.blas import gemm
from ..merged import merged_work
from .attention_chains import with_fused_attention
from .plan import EAGER, FUSED, GRAPH
from .predict import predict_trace
from .result import ProgramPrediction

ROUNDING = 1e-9  # of the wall time: a smaller difference is none
CHANGES = CAPTURED, COMPILED, FP8, ATTENTION = ("graph", "compile", "fp8", "attention")
WHAT = {
    CAPTURED: "replay a captured graph",
    COMPILED: "compile: merge pointwise calls and reductions",
    FP8: "products in fp8, activations quantized before each",
    ATTENTION: "fused attention kernels",
}
FP8_FORMAT = "fp8_e4m3"


@dataclass(frozen=True)
class ProgramChange:
    """A change with the program predicted after it; `reason` says why there is none."""

    name: str
    what: str
    before: ProgramPrediction
    after: ProgramPrediction | None = None
    scale: float = 1.0  # units of the batch after the change for each before
    reason: str = ""

    DOCUMENT: ClassVar = (
        "name", "what", "wall_us=wall", "time_us=time", "gain_us=gain", "device_gain_us=device_gain", "speedup", "regime",
        "reason?",
    )  # fmt: skip

    @property
    def wall(self) -> float | None:
        """Wall time for as much work as before."""
        return None if self.after is None else self.after.wall / self.scale

    @property
    def time(self) -> float | None:
        """Device time for as much work as before."""
        return None if self.after is None else self.after.time / self.scale

    @property
    def gain(self) -> float | None:
        """Seconds of wall time that the change saves; negative where it costs some."""
        if self.wall is None:
            return None
        saved = self.before.wall - self.wall
        return saved if abs(saved) > ROUNDING * self.before.wall else 0.0

    @property
    def device_gain(self) -> float | None:
        return None if self.time is None else self.before.time - self.time

    @property
    def speedup(self) -> float | None:
        return None if not self.wall else self.before.wall / self.wall

    @property
    def regime(self) -> str:
        return "" if self.after is None else self.after.regime


def program_changes(
    trace: Trace,
    machine: Machine | str | Path,
    mode: str = EAGER,
    names: Iterable[str] = CHANGES,
    machines: Sequence[Machine | str | Path] = (),
    batches: Mapping[float, Callable[[], Trace]] | None = None,
    ceilings: str | None = None,
) -> tuple[ProgramChange, ...]:
    """The named changes of a program, other machines and larger batches, those that gain most first.

    `batches` gives for each factor of the batch how to trace the program with it.
    """
    machine = as_machine(machine)
    before = predict_trace(trace, machine, mode, ceilings)

    def priced(name: str, what: str, make: Callable[[], ProgramPrediction], scale: float = 1.0) -> ProgramChange:
        try:
            return ProgramChange(name, what, before, make(), scale)
        except RidgelineError as error:
            return ProgramChange(name, what, before, reason=str(error))

    rows = []
    for name in names:
        if name not in CHANGES:
            raise unknown("change of a program", name, CHANGES)
        rows.append(priced(name, WHAT[name], partial(_changed, trace, machine, mode, name, ceilings)))
    for other in map(as_machine, machines):
        rows.append(priced(other.name, f"run on {other.name}", partial(predict_trace, trace, other, mode, ceilings)))
    for factor, traced in (batches or {}).items():
        what = f"{factor:g} times the batch, per unit of it"
        again = partial(_traced_again, traced, machine, mode, ceilings)
        rows.append(priced(f"batch x{factor:g}", what, again, float(factor)))
    return tuple(sorted(rows, key=lambda row: -(row.gain if row.gain is not None else -np.inf)))


def _traced_again(traced: Callable[[], Trace], machine: Machine, mode: str, ceilings: str | None) -> ProgramPrediction:
    return predict_trace(traced(), machine, mode, ceilings)


def _changed(trace: Trace, machine: Machine, mode: str, name: str, ceilings: str | None) -> ProgramPrediction:
    if name in (CAPTURED, COMPILED):
        wanted = GRAPH if name == CAPTURED else FUSED
        if wanted == mode:
            raise InputError(f"the program is predicted as {mode} already")
        return predict_trace(trace, machine, wanted, ceilings)
    changed = in_fp8(trace, machine) if name == FP8 else with_fused_attention(trace)
    return predict_trace(changed, machine, mode, ceilings)


def in_fp8(trace: Trace, machine: Machine) -> Trace:
    """The program with its 16-bit products of matrices in fp8."""
    if FP8_FORMAT not in {name.partition(".")[2] for name in machine.peaks} and "tensor.fp8" not in machine.peaks:
        raise InputError(f"{machine.name} has no fp8 engine")
    ops = tuple(_op_in_fp8(op) for op in trace.ops)
    if all(new is old for new, old in zip(ops, trace.ops, strict=True)):
        raise InputError("the program has no 16-bit products of matrices")
    return replace(trace, ops=ops)


def _op_in_fp8(op: TracedOp) -> TracedOp:
    """A product of [m, k] activations in fp8, after they were read in 16 bits and written in 8."""
    work = op.work
    if work is None or work.name not in ("gemm", "linear") or dtype_row(work.dtype or "fp32").bytes != 2:
        return op
    sizes = _product_sizes(work)
    if sizes is None:
        return op
    m, n, k = sizes
    narrow = gemm(m, n, k, dtype=FP8_FORMAT, out_dtype=work.dtype)
    return replace(op, work=quantized(m * k, work.dtype) + narrow, backend="")


def _product_sizes(work: Work) -> tuple[float, float, float] | None:
    names = ("m", "n", "k") if work.name == "gemm" else ("batch", "out_features", "in_features")
    if not all(name in work.shape for name in names):
        return None
    m, n, k = (float(np.max(np.asarray(work.shape[name]))) for name in names)
    return m, n, k


def quantized(elements: float, dtype: str) -> Work:
    """Activations divided by their scale and rounded to fp8: read once in their format, written in 8 bits."""
    width = dtype_row(dtype).bytes
    return merged_work(
        {"x": elements * width}, {"q": elements * dtype_row(FP8_FORMAT).bytes}, 2 * elements, 0.0, dtype, elements
    )
